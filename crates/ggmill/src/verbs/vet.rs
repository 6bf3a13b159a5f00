//! `vet`: says whether a model is safe to hand to a loader.

use std::path::Path;

use ggmill_check::render::Checked as Rendered;
use ggmill_check::{Profile, Report, Verdict};

use super::check::{Check, check};
use crate::Result;

/// Says whether a model is safe to hand to a loader, and why not: one file, or the existing shards of a
/// set, which any shard names.
///
/// Only the header is read, also of a remote file. A file is unsafe if it has a property that a published
/// flaw of a loader needs, whether or not the loader in use has this flaw, or if its chat template does
/// what users do not expect. A file that is not GGUF is never safe.
///
/// ```no_run
/// let verdict = ggmill::vet("model.gguf")?;
/// for reason in verdict.reasons() {
///     let advisories: Vec<_> = reason.advisories().map(|advisory| advisory.id).collect();
///     println!("{}: {} {advisories:?}", reason.rule().code, reason.finding.message);
/// }
/// assert!(verdict.is_safe());
/// # Ok::<(), ggmill::Error>(())
/// ```
///
/// Fails if a file cannot be read.
pub fn vet(path: impl AsRef<Path>) -> Result<Verdict> {
    check(path)?.verdict()
}

impl Check<'_> {
    /// Checks the files with [`Profile::Threat`], and returns whether they are safe: see [`vet()`].
    pub fn verdict(self) -> Result<Verdict> {
        let checked = self.profile(Profile::Threat).run()?;
        let mut reports: Vec<(String, Report)> = Vec::new();
        for file in checked.into_files() {
            let path = file.path().to_string_lossy().into_owned();
            match file.into_parts() {
                (Some(report), _) => reports.push((path, report)),
                (None, Some(error)) => return Err(error),
                (None, None) => {}
            }
        }
        let files: Vec<_> =
            reports.iter().map(|(path, report)| Rendered::new(path, report)).collect();
        Ok(Verdict::of(&files))
    }
}
