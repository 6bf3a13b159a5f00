//! Manifests: lists of hashes of models, and models verified against them.

use std::collections::{BTreeMap, BTreeSet};

use ggmill_core::RawStr;

use super::{Digest, HashKind, Hashes};

/// The end of a line of a successful verification. Saved output of a verification is a manifest.
const HELD: &str = "  -  Ok";

/// The ends of lines of a failed verification. They have the computed hash, which is not a claim.
const FAILED: [&str; 3] = ["  -  Mismatch", "  -  Not Found", "  -  Missing"];

/// A list of hashes that models are verified against, in the format of `ggmill hash` and
/// `llama-gguf-hash`: the kind, the digest, the file and, for a tensor, a colon and its name.
///
/// ```
/// use ggmill_edit::hash::{HashKind, Manifest};
/// let manifest = Manifest::parse("\
/// xxh64     f66e9cd66a4396a0  models/test.gguf:output.weight
/// xxh64     5a54d3aad816f302  models/test.gguf
/// ");
/// let mut claims = manifest.about("test.gguf", &["test.gguf"]);
/// assert_eq!(claims.settle(HashKind::Xxh64, Some("output.weight"), "f66e9cd66a4396a0"), Some(true));
/// assert_eq!(claims.settle(HashKind::Xxh64, None, "0000000000000000"), Some(false));
/// assert_eq!(claims.settle(HashKind::Xxh64, Some("another.weight"), "0000000000000000"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Manifest {
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    kind: HashKind,
    digest: String,
    name: String,
}

impl Manifest {
    /// Parses a text. Lines of unknown kinds and lines without a hash are ignored, as by
    /// llama-gguf-hash.
    pub fn parse(text: &str) -> Self {
        Self { lines: text.lines().filter_map(Line::parse).collect() }
    }

    /// Returns the kinds of hashes, each once, strongest first.
    pub fn kinds(&self) -> Vec<HashKind> {
        HashKind::STRONGEST_FIRST
            .into_iter()
            .filter(|kind| self.lines.iter().any(|line| line.kind == *kind))
            .collect()
    }

    /// Returns the claims about one model: the lines with this name or, if there are none, those with
    /// one of these file names in any directory. So a manifest from another machine applies.
    pub fn about(&self, name: &str, file_names: &[&str]) -> Claims {
        let exactly = self.claims(|line| match line.name.strip_prefix(name)? {
            "" => Some(None),
            rest => rest.strip_prefix(':').map(Some),
        });
        if exactly.0.is_empty() {
            self.claims(|line| file_names.iter().find_map(|file| about_file(&line.name, file)))
        } else {
            exactly
        }
    }

    /// Returns the name of the model that all lines are about, including lines about its tensors; `None`
    /// if there are several models, or only lines about tensors.
    ///
    /// ```
    /// use ggmill_edit::hash::Manifest;
    /// let manifest = Manifest::parse("xxh64  f66e9cd66a4396a0  a.gguf:output.weight\nxxh64  5a54d3aad816f302  a.gguf\n");
    /// assert_eq!(manifest.only_model(), Some("a.gguf"));
    /// ```
    pub fn only_model(&self) -> Option<&str> {
        let shortest =
            self.lines.iter().map(|line| line.name.as_str()).min_by_key(|name| name.len())?;
        let is_about = |line: &Line| {
            line.name
                .strip_prefix(shortest)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        };
        self.lines.iter().all(is_about).then_some(shortest)
    }

    /// Collects the claims of the lines for which `subject` returns the model (`None`) or a tensor.
    fn claims<'a>(&'a self, subject: impl Fn(&'a Line) -> Option<Option<&'a str>>) -> Claims {
        let mut claims = Claims::default();
        for line in &self.lines {
            if let Some(tensor) = subject(line) {
                claims
                    .0
                    .entry((line.kind, tensor.map(str::to_owned)))
                    .or_default()
                    .insert(line.digest.to_ascii_lowercase());
            }
        }
        claims
    }
}

/// The claims of a manifest about one model: the claimed digests of each hash. Several different
/// digests of the same hash are a contradiction, and never match.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Claims(BTreeMap<(HashKind, Option<String>), BTreeSet<String>>);

impl Claims {
    /// Returns whether the claim about a tensor, by its escaped name, or about the model is this digest;
    /// `None` if there is no claim. Removes the claim from the [remaining](Self::left) ones.
    pub fn settle(&mut self, kind: HashKind, tensor: Option<&str>, digest: &str) -> Option<bool> {
        let claimed = self.0.remove(&(kind, tensor.map(str::to_owned)))?;
        Some(claimed.iter().all(|claimed| claimed.eq_ignore_ascii_case(digest)))
    }

    /// Returns the kinds of hashes, each once, strongest first.
    pub fn kinds(&self) -> Vec<HashKind> {
        HashKind::STRONGEST_FIRST
            .into_iter()
            .filter(|kind| self.0.keys().any(|(found, _)| found == kind))
            .collect()
    }

    /// Returns `true` if there is a claim of this kind about the model, or about any tensor.
    pub fn has(&self, kind: HashKind, of_tensors: bool) -> bool {
        self.0.keys().any(|(found, tensor)| *found == kind && tensor.is_some() == of_tensors)
    }

    /// Returns the claims that were not verified yet.
    pub fn left(&self) -> impl Iterator<Item = (HashKind, Option<&str>, &str)> {
        self.0.iter().flat_map(|((kind, tensor), digests)| {
            digests.iter().map(|digest| (*kind, tensor.as_deref(), digest.as_str()))
        })
    }
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let (kind, rest) = line.trim().split_once([' ', '\t'])?;
        let (digest, name) = rest.trim_start().split_once([' ', '\t'])?;
        let name = name.trim_start();
        if FAILED.iter().any(|verdict| name.ends_with(verdict)) {
            return None;
        }
        let name = name.strip_suffix(HELD).unwrap_or(name);
        Some(Self { kind: kind.parse().ok()?, digest: digest.to_owned(), name: name.to_owned() })
    }
}

/// Returns the subject of a name that is about a file with this name: a tensor, or `None` for the
/// file.
#[expect(clippy::option_option, reason = "another file, the file, or a tensor of it")]
fn about_file<'a>(name: &'a str, file: &str) -> Option<Option<&'a str>> {
    name.match_indices(file).find_map(|(at, _)| {
        let (before, after) = (name.get(..at)?, name.get(at + file.len()..)?);
        if !(before.is_empty() || before.ends_with(['/', '\\'])) {
            return None;
        }
        if after.is_empty() { Some(None) } else { after.strip_prefix(':').map(Some) }
    })
}

/// The subject of a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HashSubject<'a> {
    /// The data of all tensors.
    Model,
    /// A tensor of the model.
    Tensor(RawStr<'a>),
    /// A tensor that only the manifest has, by its name in the manifest.
    Unknown(String),
    /// The whole file, including header and padding.
    File,
}

/// The verdict of a manifest about one hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The hash matches the claim.
    Ok,
    /// A different hash is claimed, or several are.
    Mismatch,
    /// The manifest has no claim about it.
    NotFound,
    /// The model does not have it.
    Missing,
}

impl Verdict {
    /// Returns the name in the spelling of `llama-gguf-hash`.
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
    /// All claims about the model hold.
    Success,
    /// A claim does not hold, or a tensor has none.
    Failure,
    /// The manifest has no claim about the model.
    MissingEntry,
}

impl Conclusion {
    /// Returns the name in the spelling of `llama-gguf-hash`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Failure => "Failure",
            Self::MissingEntry => "Manifest Missing Entry",
        }
    }
}

/// A line of a manifest, or of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HashLine<'a> {
    /// The hash function.
    pub kind: HashKind,
    /// The computed digest, or for a tensor that only the manifest has, the claimed digest, escaped for
    /// display.
    pub digest: String,
    /// The subject of the digest.
    pub subject: HashSubject<'a>,
    /// The verdict of the manifest, if there is one.
    pub verdict: Option<Verdict>,
}

impl Hashes {
    /// Returns the lines of a manifest: the tensors, then the model. `names` are the names of the
    /// tensors, in the order of the model.
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
    /// Verifies lines against the claims: sets the verdict of each line, and adds a line for each claim
    /// of these kinds without a line. `of_tensors` is true if there are lines about tensors.
    ///
    /// A manifest may be only about the model or only about its tensors, but then about all of them.
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

#[cfg(test)]
mod tests {
    use super::{HashKind, Manifest, about_file};

    #[test]
    fn names_of_files_in_directories() {
        assert_eq!(about_file("a.gguf", "a.gguf"), Some(None));
        assert_eq!(about_file("C:\\models\\a.gguf:blk.0:x", "a.gguf"), Some(Some("blk.0:x")));
        assert_eq!(about_file("a.gguf/a.gguf:a.gguf", "a.gguf"), Some(Some("a.gguf")));
        for other in ["aa.gguf", "a.gguf.bak", "b/a.gguf.", ""] {
            assert_eq!(about_file(other, "a.gguf"), None, "{other}");
        }
    }

    #[test]
    fn lines_without_a_hash_are_ignored() {
        let text = "manifest  m.txt  sha256\n\nmd5 00 a.gguf\nsha256\nsha256 00\n  sha1\t01\ta \
                    b.gguf:x  y  -  Ok\nblake3 03 a b.gguf\n";
        let manifest = Manifest::parse(text);
        assert_eq!(manifest.kinds(), [HashKind::Blake3, HashKind::Sha1]);
        let claims = manifest.about("a b.gguf", &[]);
        let left: Vec<_> = claims.left().collect();
        assert_eq!(left, [(HashKind::Sha1, Some("x  y"), "01"), (HashKind::Blake3, None, "03")]);
    }

    #[test]
    fn an_exact_name_is_preferred_to_the_same_file_name() {
        let manifest = Manifest::parse("xxh64 01 old/a.gguf\nxxh64 02 new/a.gguf\n");
        assert_eq!(
            manifest.about("new/a.gguf", &["a.gguf"]).settle(HashKind::Xxh64, None, "02"),
            Some(true)
        );
        assert_eq!(
            manifest.about("old/a.gguf", &["a.gguf"]).settle(HashKind::Xxh64, None, "02"),
            Some(false)
        );
        assert!(!manifest.about("b.gguf", &["b.gguf"]).has(HashKind::Xxh64, false));
    }

    #[test]
    fn contradictory_claims_never_match() {
        // Two directories have a file with this name, and the exact name matches neither.
        let manifest = Manifest::parse(
            "xxh64 01 old/a.gguf\nxxh64 02 new/a.gguf\nsha1 Ab old/a.gguf\nsha1 aB new/a.gguf\n",
        );
        for digest in ["01", "02"] {
            assert_eq!(
                manifest.about("/other/a.gguf", &["a.gguf"]).settle(HashKind::Xxh64, None, digest),
                Some(false)
            );
        }
        assert_eq!(
            manifest.about("/other/a.gguf", &["a.gguf"]).settle(HashKind::Sha1, None, "ab"),
            Some(true)
        );
        assert_eq!(manifest.about("/other/a.gguf", &["a.gguf"]).left().count(), 3);
    }

    #[test]
    fn hashes_of_a_failed_verification_are_not_claims() {
        let text = "xxh64 01 a.gguf:x  -  Mismatch\nxxh64 02 a.gguf:y  -  Not Found\nxxh64 03 \
                    a.gguf:z  -  Missing\nxxh64 04 a.gguf  -  Mismatch\n";
        assert_eq!(Manifest::parse(text), Manifest::default());
    }
}
