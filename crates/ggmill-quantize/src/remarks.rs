//! Notes about a quantization: gathered tensor by tensor, and said once for all of
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ggmill_core::{GgmlType, RawStr};

use crate::family::Family;
use ggmill_pipeline::SourceTensor;
use ggmill_pipeline::matrices;

/// Names of which the first few are shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    shown: Vec<String>,
    count: usize,
}

impl Named {
    const SHOWN: usize = 3;

    pub(crate) fn add(&mut self, name: &[u8]) {
        self.add_as(|| format!("{:?}", RawStr::new(name)));
    }

    pub(crate) fn add_as(&mut self, name: impl FnOnce() -> String) {
        if self.count < Self::SHOWN {
            self.shown.push(name());
        }
        self.count += 1;
    }

    /// The names under a heading, or `None` where there are none.
    pub(crate) fn note(&self, heading: &str) -> Option<String> {
        (self.count > 0).then(|| format!("{heading}: {self}"))
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown.join(", "))?;
        match self.count - self.shown.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Why a tensor keeps its type whatever the target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// A vector or a scalar.
    NoMatrix,
    /// Numbers that are not weights.
    Integers,
    /// The output, where that was asked for.
    Left,
    /// From its name or its role.
    Name,
    /// Blocks of four bits that the model was trained with or published in.
    Blocks,
}

impl Kept {
    const ALL: [(Self, &'static str); 5] = [
        (Self::NoMatrix, "are not matrices"),
        (Self::Integers, "contain integers"),
        (Self::Left, "were excluded by an option"),
        (Self::Name, "are kept for their names or roles"),
        (Self::Blocks, "are already MXFP4 or NVFP4"),
    ];
}

/// How the note of a dry run begins that says why a run would fail.
const WOULD_FAIL: &str = "quantization would fail: ";

/// Whether a note of a plan says that quantization would fail.
pub fn is_failure(note: &str) -> bool {
    note.starts_with(WOULD_FAIL)
}

/// Tensors of a row length that their type does not fit.
#[derive(Debug, Default)]
struct Ragged {
    tensors: Named,
    row_lens: BTreeSet<u64>,
}

impl fmt::Display for Ragged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lens: Vec<String> =
            self.row_lens.iter().take(Named::SHOWN).map(u64::to_string).collect();
        let more = if lens.len() < self.row_lens.len() { ", …" } else { "" };
        write!(f, "(rows of {}{more})", lens.join(", "))
    }
}

/// Observations about the tensors, for notes.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    /// The reasons for which a run would be refused, with their tensors.
    refused: Vec<(String, Named)>,
    /// Types that were asked for by name and do not fit: the type that replaces each, with the
    /// tensors.
    misfits: Vec<([GgmlType; 2], Named)>,
    /// Types of the mixture that do not fit: the type that replaces each, with the tensors.
    ragged: BTreeMap<[GgmlType; 2], Ragged>,
    /// Quantized by a plan, though tensors like them are not.
    pub(crate) unusual: Named,
    unmeasured: Named,
    blank: Named,
    negative: Named,
    tensors: u64,
    weights: u64,
    quantized: u64,
    quantized_weights: u64,
    kept: Vec<Kept>,
    /// The types that tensors get.
    types: BTreeSet<GgmlType>,
}

impl Remarks {
    pub(crate) fn refuse(&mut self, tensor: &[u8], why: String) {
        if let Some((_, names)) = self.refused.iter_mut().find(|(other, _)| *other == why) {
            names.add(tensor);
        } else {
            let mut names = Named::default();
            names.add(tensor);
            self.refused.push((why, names));
        }
    }

    /// Notes that a tensor gets a different type from the requested one because of its row length.
    pub(crate) fn misfit(&mut self, tensor: &[u8], asked: GgmlType, to: GgmlType, row_len: u64) {
        let name = || format!("{:?} (rows of {row_len})", RawStr::new(tensor));
        if let Some((_, names)) = self.misfits.iter_mut().find(|(types, _)| *types == [asked, to]) {
            names.add_as(name);
        } else {
            let mut names = Named::default();
            names.add_as(name);
            self.misfits.push(([asked, to], names));
        }
    }

    /// Notes that a tensor gets a different type from that of the mixture because of its row length.
    pub(crate) fn ragged(&mut self, tensor: &[u8], wanted: GgmlType, to: GgmlType, row_len: u64) {
        let ragged = self.ragged.entry([wanted, to]).or_default();
        ragged.tensors.add(tensor);
        ragged.row_lens.insert(row_len);
    }

    /// Looks at the importance that a tensor is quantized with. Embeddings are looked up and not
    /// multiplied, and the output is seldom measured: they are not missed.
    pub(crate) fn weigh(
        &mut self,
        tensor: &[u8],
        source: &SourceTensor,
        role: Family,
        weights: Option<&[f32]>,
        is_left_out: bool,
    ) {
        let Some(weights) = weights else {
            if !is_left_out && !matches!(role, Family::TokenEmbedding | Family::Output) {
                self.unmeasured.add(tensor);
            }
            return;
        };
        if weights.iter().any(|&weight| weight < 0.0) {
            self.negative.add(tensor);
        }
        let width = weights
            .len()
            .checked_div(usize::try_from(matrices(&source.shape)).unwrap_or(0))
            .unwrap_or(0)
            .max(1);
        if weights.chunks(width).any(|matrix| matrix.iter().all(|&weight| weight == 0.0)) {
            self.blank.add(tensor);
        }
    }

    /// Counts a tensor, of the type it gets, and why it is kept where it is.
    pub(crate) fn count(&mut self, source: &SourceTensor, to: GgmlType, kept: Option<Kept>) {
        let weights = source.shape.elements();
        self.tensors += 1;
        self.types.insert(to);
        self.weights = self.weights.saturating_add(weights);
        if to.is_quantized() {
            self.quantized += 1;
            self.quantized_weights = self.quantized_weights.saturating_add(weights);
        } else {
            self.kept.extend(kept);
        }
    }

    /// Everything met, as notes.
    pub(crate) fn notes(&self) -> Vec<String> {
        let refused = self.refused.iter().map(|(why, names)| {
            let tensors = if names.count > 1 { "tensors" } else { "tensor" };
            Some(format!("{WOULD_FAIL}{tensors} {names}: {why}"))
        });
        let misfits = self.misfits.iter().map(|([asked, to], names)| {
            let block = asked.layout().map_or(0, |layout| layout.elements);
            Some(format!(
                "{asked} was requested but does not fit, so the type is {to}: the row length is not \
                 a multiple of {block}: {names}"
            ))
        });
        let named = [
            self.fallbacks(),
            self.unusual.note(
                "quantized according to the plan, although such tensors are usually kept, and \
                 programs may reject them",
            ),
            self.unmeasured.note(
                "quantized without importance weights, because the importance matrix has none for \
                 them",
            ),
            self.blank.note("importance weights are all zero, and are used anyway"),
            self.negative.note("importance weights are negative, and are used anyway"),
            self.coverage(),
        ];
        refused.chain(misfits).chain(named).flatten().collect()
    }

    /// Which types of the mixture do not fit, and how many tensors have another for it.
    fn fallbacks(&self) -> Option<String> {
        let groups = self.ragged.iter().map(|([wanted, to], ragged)| {
            let tensors = match ragged.tensors.count {
                1 => format!("{} is", ragged.tensors),
                count => format!("{count} tensors are"),
            };
            format!("{tensors} {to} instead of {wanted} {ragged}")
        });
        let groups: Vec<String> = groups.collect();
        let why = "the row length is not a multiple of the block size";
        let wanted: BTreeSet<GgmlType> = self.ragged.keys().map(|[wanted, _]| *wanted).collect();
        let lacking: Vec<String> =
            wanted.difference(&self.types).map(GgmlType::to_string).collect();
        let lacking = if lacking.is_empty() {
            String::new()
        } else {
            format!("; no tensor is {}", lacking.join(" or "))
        };
        (!groups.is_empty()).then(|| format!("{}, because {why}{lacking}", groups.join("; ")))
    }

    /// How little was quantized, where it is less than half of the weights.
    fn coverage(&self) -> Option<String> {
        if self.tensors == 0 || self.quantized_weights >= self.weights.div_ceil(2) {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "a percentage to read")]
        let percent = self.quantized_weights as f64 * 100.0 / self.weights.max(1) as f64;
        let of = |wanted: Kept| self.kept.iter().filter(|&&kept| kept == wanted).count();
        let why: Vec<String> = Kept::ALL
            .iter()
            .filter(|(kept, _)| of(*kept) > 0)
            .map(|(kept, words)| format!("{} {words}", of(*kept)))
            .collect();
        let why = if why.is_empty() {
            String::new()
        } else {
            format!("; of the others, {}", why.join(", "))
        };
        Some(format!(
            "{} of {} tensors are quantized, with {percent:.1}% of the weights{why}",
            self.quantized, self.tensors
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_names_are_shown_and_the_others_counted() {
        let mut names = Named::default();
        assert_eq!(names.note("x"), None);
        for name in ["a", "b\u{1b}", "c", "d", "e"] {
            names.add(name.as_bytes());
        }
        assert_eq!(names.note("x").unwrap(), r#"x: "a", "b\u{1b}", "c" and 2 more"#);
    }
}
