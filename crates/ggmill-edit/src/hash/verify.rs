//! The hashes of a model verified against a manifest.

use ggmill_core::RawStr;

use super::Hashes;
use super::kind::{Digest, HashKind};
use super::manifest::Claims;

/// The subject of a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HashSubject<'a> {
    /// The data of all tensors.
    Model,
    /// A tensor of the model.
    Tensor(RawStr<'a>),
    /// A tensor that only the manifest has, by its name as the manifest shows it.
    Unknown(String),
    /// The whole file, header and padding included.
    File,
}

/// The verdict of a manifest about one hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The hash is as claimed.
    Ok,
    /// Another hash is claimed, or several are.
    Mismatch,
    /// In the model, and not in the manifest.
    NotFound,
    /// In the manifest, and not in the model.
    Missing,
}

impl Verdict {
    /// The name, as `llama-gguf-hash` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "Ok",
            Self::Mismatch => "Mismatch",
            Self::NotFound => "Not Found",
            Self::Missing => "Missing",
        }
    }
}

/// The verdict of a manifest about a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conclusion {
    /// Every claim about the model holds.
    Success,
    /// A claim does not hold, or a tensor has none.
    Failure,
    /// The manifest has no claim about the model.
    MissingEntry,
}

impl Conclusion {
    /// The name, as `llama-gguf-hash` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Failure => "Failure",
            Self::MissingEntry => "Manifest Missing Entry",
        }
    }
}

/// One line of a manifest, or of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HashLine<'a> {
    /// The hash function.
    pub kind: HashKind,
    /// The digest of the model or the tensor; for what only the manifest has, the digest claimed,
    /// escaped for display.
    pub digest: String,
    /// The subject of the digest.
    pub subject: HashSubject<'a>,
    /// The verdict of the manifest, if there is one.
    pub verdict: Option<Verdict>,
}

impl Hashes {
    /// The lines of a manifest: tensor by tensor, then the model. `names` are those of the tensors,
    /// in the order of the model.
    pub fn lines<'a>(&self, names: &[RawStr<'a>]) -> Vec<HashLine<'a>> {
        let line = |digest: &Digest, subject| HashLine {
            kind: digest.kind(),
            digest: digest.to_string(),
            subject,
            verdict: None,
        };
        let tensors = self.tensors.iter().zip(names);
        let tensors = tensors.flat_map(|(digests, name)| {
            digests.iter().map(move |digest| line(digest, HashSubject::Tensor(*name)))
        });
        tensors.chain(self.model.iter().map(|digest| line(digest, HashSubject::Model))).collect()
    }
}

impl Claims {
    /// Verifies lines against the claims: gives each its verdict, and adds a line for each claim of
    /// these kinds that no line is about. `of_tensors` says whether the lines have tensors, or the
    /// model alone.
    ///
    /// A manifest may be about the model alone or about its tensors alone, but not about some of
    /// the tensors.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("model.gguf");
    /// # let mut metadata = ggmill_core::MetadataBuf::new();
    /// # metadata.set("general.architecture", "llama");
    /// # std::fs::write(&path, ggmill_core::Builder::new().metadata(metadata).plan()?.header())?;
    /// use std::ops::ControlFlow;
    /// use ggmill_edit::hash::{Conclusion, HashKind, Manifest, Verdict, hash};
    /// use ggmill_pipeline::{GgufCheckpoint, RunOptions};
    /// let checkpoint = GgufCheckpoint::open(&path)?;
    /// let kinds = [HashKind::Xxh64];
    /// let hashes = hash(&checkpoint, &kinds, true, &RunOptions::default(), &mut |_| ControlFlow::Continue(()))?;
    /// let mut lines = hashes.lines(&[]);
    /// let manifest = Manifest::parse("xxh64  0123456789abcdef  model.gguf\n");
    /// let conclusion = manifest.about("model.gguf", &[]).verify(&mut lines, &kinds, true);
    /// assert_eq!((conclusion, lines[0].verdict), (Conclusion::Failure, Some(Verdict::Mismatch)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify(
        mut self,
        lines: &mut Vec<HashLine<'_>>,
        kinds: &[HashKind],
        of_tensors: bool,
    ) -> Conclusion {
        let claimed = |tensors: bool| {
            kinds.iter().copied().filter(|kind| self.has(*kind, tensors)).collect::<Vec<_>>()
        };
        let (about_model, about_tensors) =
            (claimed(false), if of_tensors { claimed(true) } else { Vec::new() });
        if about_model.is_empty() && about_tensors.is_empty() {
            for line in lines {
                line.verdict = Some(Verdict::NotFound);
            }
            return Conclusion::MissingEntry;
        }
        let mut good = true;
        for line in &mut *lines {
            let tensor = match &line.subject {
                HashSubject::Tensor(name) => Some(name.to_string()),
                HashSubject::Model | HashSubject::Unknown(_) | HashSubject::File => None,
            };
            let verdict = match self.settle(line.kind, tensor.as_deref(), &line.digest) {
                Some(true) => Verdict::Ok,
                Some(false) => Verdict::Mismatch,
                None => Verdict::NotFound,
            };
            let must_be_there = about_tensors.contains(&line.kind) == tensor.is_some();
            good &= verdict == Verdict::Ok || (verdict == Verdict::NotFound && !must_be_there);
            line.verdict = Some(verdict);
        }
        for (kind, tensor, digest) in self
            .left()
            .filter(|(kind, tensor, _)| kinds.contains(kind) && (tensor.is_none() || of_tensors))
        {
            good = false;
            let subject =
                tensor.map_or(HashSubject::Model, |name| HashSubject::Unknown(name.to_owned()));
            lines.push(HashLine {
                kind,
                digest: RawStr::from(digest).to_string(),
                subject,
                verdict: Some(Verdict::Missing),
            });
        }
        if good { Conclusion::Success } else { Conclusion::Failure }
    }
}
