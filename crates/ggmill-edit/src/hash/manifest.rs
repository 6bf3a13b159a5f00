use std::collections::{BTreeMap, BTreeSet};

use super::kind::HashKind;

/// The end of a line of a check that held, so that a saved check is a manifest.
const HELD: &str = "  -  Ok";

/// The end of a line of one that did not. Such a line has the computed hash, which is not a claim.
const FAILED: [&str; 3] = ["  -  Mismatch", "  -  Not Found", "  -  Missing"];

/// A list of hashes against which a model is verified, as `ggmill hash` and `llama-gguf-hash` write
/// it: the kind, the digest, the file and, for a tensor, a colon and its name.
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
    /// Takes what it knows from a text. Lines of unknown kinds and lines that are not hashes are
    /// ignored, as llama-gguf-hash does.
    pub fn parse(text: &str) -> Self {
        Self { lines: text.lines().filter_map(Line::parse).collect() }
    }

    /// The kinds of hashes in it, each once, the strongest first.
    pub fn kinds(&self) -> Vec<HashKind> {
        HashKind::STRONGEST_FIRST
            .into_iter()
            .filter(|kind| self.lines.iter().any(|line| line.kind == *kind))
            .collect()
    }

    /// Its claims about one model: the lines with this name, or, where there is none, those with
    /// one of these file names in whatever directory. So a manifest made elsewhere holds here.
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

    /// The name of the one model that all lines are about, by its own line and those of its
    /// tensors; `None` when they are about several, or only about tensors.
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

    /// The claims of lines about the model, of which `subject` tells the tensor.
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

/// The claims of a manifest about one model: for each hash the digests it is said to have. More
/// than one is a contradiction, which nothing fulfils.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Claims(BTreeMap<(HashKind, Option<String>), BTreeSet<String>>);

impl Claims {
    /// Whether the hash claimed for a tensor, by its name as shown, or for the model is this digest
    /// and nothing else; `None` when nothing is claimed. What was asked for is settled, and not
    /// [left](Self::left).
    pub fn settle(&mut self, kind: HashKind, tensor: Option<&str>, digest: &str) -> Option<bool> {
        let claimed = self.0.remove(&(kind, tensor.map(str::to_owned)))?;
        Some(claimed.iter().all(|claimed| claimed.eq_ignore_ascii_case(digest)))
    }

    /// The kinds of hashes that it has, each once, the strongest first.
    pub fn kinds(&self) -> Vec<HashKind> {
        HashKind::STRONGEST_FIRST
            .into_iter()
            .filter(|kind| self.0.keys().any(|(found, _)| found == kind))
            .collect()
    }

    /// Whether there is a claim of this kind about the model, or about any tensor.
    pub fn has(&self, kind: HashKind, of_tensors: bool) -> bool {
        self.0.keys().any(|(found, tensor)| *found == kind && tensor.is_some() == of_tensors)
    }

    /// The claims that were not verified.
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

/// The subject of a name, if it is about a file of this name: one of its tensors, or the file.
#[expect(clippy::option_option, reason = "another file, this file as a whole, or a tensor of it")]
fn about_file<'a>(name: &'a str, file: &str) -> Option<Option<&'a str>> {
    name.match_indices(file).find_map(|(at, _)| {
        let (before, after) = (name.get(..at)?, name.get(at + file.len()..)?);
        if !(before.is_empty() || before.ends_with(['/', '\\'])) {
            return None;
        }
        if after.is_empty() { Some(None) } else { after.strip_prefix(':').map(Some) }
    })
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
    fn what_is_no_hash_is_passed_over() {
        let text = "manifest  m.txt  sha256\n\nmd5 00 a.gguf\nsha256\nsha256 00\n  sha1\t01\ta \
                    b.gguf:x  y  -  Ok\nblake3 03 a b.gguf\n";
        let manifest = Manifest::parse(text);
        assert_eq!(manifest.kinds(), [HashKind::Blake3, HashKind::Sha1]);
        let claims = manifest.about("a b.gguf", &[]);
        let left: Vec<_> = claims.left().collect();
        assert_eq!(left, [(HashKind::Sha1, Some("x  y"), "01"), (HashKind::Blake3, None, "03")]);
    }

    #[test]
    fn the_name_as_typed_before_the_same_file_name_elsewhere() {
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
    fn a_contradiction_holds_for_nothing() {
        // The same file name in two directories, and nobody says which is meant.
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
    fn what_a_failed_check_found_is_no_claim() {
        let text = "xxh64 01 a.gguf:x  -  Mismatch\nxxh64 02 a.gguf:y  -  Not Found\nxxh64 03 \
                    a.gguf:z  -  Missing\nxxh64 04 a.gguf  -  Mismatch\n";
        assert_eq!(Manifest::parse(text), Manifest::default());
    }
}
