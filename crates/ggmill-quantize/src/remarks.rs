//! Notes about a quantization, collected tensor by tensor and reported once for all tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ggmill_core::{GgmlType, RawStr};

use crate::choice::Choice;
use crate::layers::Remaining;
use crate::options::QuantizeOptions;
use crate::role::Family;
use ggmill_pipeline::{SourceTensor, matrices};

/// A list of names, of which the first few are shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameList {
    shown: Vec<String>,
    count: usize,
}

impl NameList {
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

    /// Returns the names after a heading, or `None` if there are none.
    pub(crate) fn note(&self, heading: &str) -> Option<String> {
        (self.count > 0).then(|| format!("{heading}: {self}"))
    }
}

impl fmt::Display for NameList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown.join(", "))?;
        match self.count - self.shown.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Why a tensor keeps its type regardless of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepReason {
    /// A vector or a scalar.
    NotMatrix,
    /// Integers, which are not weights.
    Integers,
    /// Excluded by an option.
    Excluded,
    /// Kept for its name or role.
    Name,
    /// Four-bit blocks in which the model was trained or published.
    FourBitBlocks,
}

impl KeepReason {
    const ALL: [(Self, &'static str); 5] = [
        (Self::NotMatrix, "are not matrices"),
        (Self::Integers, "contain integers"),
        (Self::Excluded, "were excluded by an option"),
        (Self::Name, "are kept for their names or roles"),
        (Self::FourBitBlocks, "are already MXFP4 or NVFP4"),
    ];
}

/// The start of a dry run's note that quantization would fail.
const WOULD_FAIL: &str = "quantization would fail: ";

/// Returns `true` if a note of a plan states that quantization would fail.
pub fn is_failure(note: &str) -> bool {
    note.starts_with(WOULD_FAIL)
}

/// Tensors whose row length is not a multiple of the block size.
#[derive(Debug, Default)]
struct Ragged {
    tensors: NameList,
    row_lens: BTreeSet<u64>,
}

impl fmt::Display for Ragged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lens: Vec<String> =
            self.row_lens.iter().take(NameList::SHOWN).map(u64::to_string).collect();
        let more = if lens.len() < self.row_lens.len() { ", …" } else { "" };
        write!(f, "(rows of {}{more})", lens.join(", "))
    }
}

/// The observations that become notes.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    /// The reasons for which a run would fail, with their tensors.
    refused: Vec<(String, NameList)>,
    /// Requested types whose blocks do not fit the row length: `[requested, replacement]`, with the
    /// tensors.
    misfits: Vec<([GgmlType; 2], NameList)>,
    /// Types of the mixture whose blocks do not fit the row length: `[wanted, replacement]`, with
    /// the tensors.
    ragged: BTreeMap<[GgmlType; 2], Ragged>,
    /// Tensors quantized by a plan although such tensors are usually kept.
    pub(crate) unusual: NameList,
    unmeasured: NameList,
    blank: NameList,
    negative: NameList,
    tensors: u64,
    weights: u64,
    quantized: u64,
    quantized_weights: u64,
    kept: Vec<KeepReason>,
    /// The types in the output.
    types: BTreeSet<GgmlType>,
}

impl Remarks {
    pub(crate) fn refuse(&mut self, tensor: &[u8], why: String) {
        if let Some((_, names)) = self.refused.iter_mut().find(|(other, _)| *other == why) {
            names.add(tensor);
        } else {
            let mut names = NameList::default();
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
            let mut names = NameList::default();
            names.add_as(name);
            self.misfits.push(([asked, to], names));
        }
    }

    /// Notes that a tensor gets a different type from that of the mixture because of its row
    /// length.
    pub(crate) fn ragged(&mut self, tensor: &[u8], wanted: GgmlType, to: GgmlType, row_len: u64) {
        let ragged = self.ragged.entry([wanted, to]).or_default();
        ragged.tensors.add(tensor);
        ragged.row_lens.insert(row_len);
    }

    /// Checks the importance weights of a tensor. Missing weights are not reported for embeddings,
    /// which are looked up instead of multiplied, and for the output, which is rarely measured.
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

    /// Counts a tensor, with its new type and the reason if it keeps its type.
    pub(crate) fn count(&mut self, source: &SourceTensor, to: GgmlType, kept: Option<KeepReason>) {
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

    /// Returns all observations as notes.
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

    /// Returns a note about the types of the mixture whose blocks do not fit.
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

    /// Returns a note if less than half of the weights are quantized.
    fn coverage(&self) -> Option<String> {
        if self.tensors == 0 || self.quantized_weights >= self.weights.div_ceil(2) {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "a percentage to read")]
        let percent = self.quantized_weights as f64 * 100.0 / self.weights.max(1) as f64;
        let of = |wanted: KeepReason| self.kept.iter().filter(|&&kept| kept == wanted).count();
        let why: Vec<String> = KeepReason::ALL
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

/// Returns notes about options that had no effect.
pub(crate) fn without_effect(
    choice: &Choice<'_>,
    options: &QuantizeOptions,
    tensors: &[Remaining],
    sources: &[SourceTensor],
) -> Vec<String> {
    let mut notes = Vec::new();
    let names: Vec<_> =
        tensors.iter().map(|tensor| String::from_utf8_lossy(&tensor.name)).collect();
    let open: BTreeSet<&str> = tensors
        .iter()
        .zip(&names)
        .filter(|(tensor, name)| choice.kept(name, &sources[tensor.number]).is_none())
        .map(|(_, name)| &**name)
        .collect();
    let has = |role: Family| open.iter().any(|name| choice.roles.of(name) == role);

    if options.types.is_none()
        && !options.target.default_type().is_some_and(GgmlType::is_quantized)
        && !options.tensor_types.is_empty()
    {
        notes.push(format!(
            "{} gives every tensor the same type or keeps its type, so type patterns have no \
             effect",
            options.target.name()
        ));
    } else {
        for asked in &options.tensor_types {
            if !names.iter().any(|name| asked.is_for(name)) {
                notes.push(format!(
                    "the type pattern {:?} matches no tensor name; patterns are case-sensitive",
                    RawStr::from(asked.pattern())
                ));
            } else if !open.iter().any(|name| asked.is_for(name)) {
                notes.push(format!(
                    "the type pattern {:?} matches only tensors that are not quantized",
                    RawStr::from(asked.pattern())
                ));
            }
        }
    }
    let is_copy = options.target.is_copy() && options.types.is_none();
    let serves_as_output = options.token_embedding_type.is_none()
        && !has(Family::Output)
        && has(Family::TokenEmbedding);
    if options.output_tensor_type.is_some()
        && (is_copy || !(has(Family::Output) || serves_as_output))
    {
        let is_embedding = !is_copy && options.token_embedding_type.is_some();
        notes.push(if is_embedding && has(Family::TokenEmbedding) {
            "the token embeddings serve as output.weight and have a type of their own, so the type \
             for output.weight has no effect"
                .to_owned()
        } else {
            "no tensor is output.weight or has its role, so the type for it has no effect"
                .to_owned()
        });
    }
    if options.token_embedding_type.is_some() && (is_copy || !has(Family::TokenEmbedding)) {
        notes.push(
            "no tensor is token_embd.weight or has its role, so the type for it has no effect"
                .to_owned(),
        );
    }
    if options.leave_output_tensor && !names.iter().any(|name| name == "output.weight") {
        notes.push("no tensor is output.weight, so keeping its type has no effect".to_owned());
    }
    if let Some(importance) = &options.importance {
        let known: BTreeSet<&[u8]> = sources.iter().map(|source| &*source.name).collect();
        let mut unknown = NameList::default();
        importance.names().filter(|name| !known.contains(name)).for_each(|name| unknown.add(name));
        if importance.names().any(|name| known.contains(name)) {
            notes.extend(unknown.note(
                "the importance matrix has entries for tensors that the model does not have",
            ));
        } else {
            notes.extend(unknown.note(
                "the importance matrix belongs to a different model: no entry matches a tensor",
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_names_are_shown_and_the_others_counted() {
        let mut names = NameList::default();
        assert_eq!(names.note("x"), None);
        for name in ["a", "b\u{1b}", "c", "d", "e"] {
            names.add(name.as_bytes());
        }
        assert_eq!(names.note("x").unwrap(), r#"x: "a", "b\u{1b}", "c" and 2 more"#);
    }
}
