//! The list of a checkpoint's tensors while packed tensors are replaced by their weights.

use std::collections::BTreeMap;

use ggmill_core::RawStr;
use ggmill_pipeline::{
    Checkpoint, Encoding, Error, ErrorKind, Expression, Fp8, Pretrained, Result, SourceTensor,
};

/// A tensor as seen by descriptions.
pub(super) struct Weight {
    /// Index in the checkpoint; for several packed tensors, of the first.
    pub(super) number: usize,
    pub(super) name: Vec<u8>,
    pub(super) content: Content,
}

/// The content of a tensor.
pub(super) enum Content {
    /// The stored data.
    Stored,
    /// Decoded values in F32.
    Values(Expression),
    /// Blocks of a GGML type, with scales of the whole tensor.
    Blocks(Expression, TensorScales),
}

/// Scales of a tensor of blocks: for its weights, and for the activations that it is multiplied
/// with.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TensorScales {
    pub(crate) weights: Vec<f32>,
    pub(crate) inputs: Vec<f32>,
}

/// The remaining tensors of a checkpoint, and the decoded ones.
pub(super) struct Unpacking<'a> {
    pub(super) checkpoint: &'a dyn Pretrained,
    numbers: BTreeMap<&'a [u8], usize>,
    /// By index in the checkpoint; `None` for removed tensors.
    kept: Vec<Option<Weight>>,
    /// Decoded weights that come after all others.
    added: Vec<Weight>,
}

impl<'a> Unpacking<'a> {
    pub(super) fn of(checkpoint: &'a dyn Pretrained) -> Self {
        let tensors = checkpoint.tensors();
        let kept = |(number, tensor): (usize, &SourceTensor)| {
            Some(Weight { number, name: tensor.name.clone(), content: Content::Stored })
        };
        Self {
            checkpoint,
            numbers: tensors.iter().enumerate().map(|(n, tensor)| (&*tensor.name, n)).collect(),
            kept: tensors.iter().enumerate().map(kept).collect(),
            added: Vec::new(),
        }
    }

    pub(super) fn finish(self) -> Vec<Weight> {
        self.kept.into_iter().flatten().chain(self.added).collect()
    }

    pub(super) fn tensor(&self, number: usize) -> &'a SourceTensor {
        &self.checkpoint.tensors()[number]
    }

    /// Returns the remaining tensors whose names have this suffix, with the part before the suffix.
    pub(super) fn ending(&self, ending: &str) -> Vec<(usize, &'a [u8])> {
        let numbers = self.kept.iter().flatten().map(|weight| weight.number);
        let base = |number| {
            let name = self.tensor(number).name.strip_suffix(ending.as_bytes())?;
            Some((number, name))
        };
        numbers.filter_map(base).collect()
    }

    /// Returns the index of the remaining tensor named `base` + `ending`.
    pub(super) fn find(&self, base: &[u8], ending: &str) -> Option<usize> {
        let name = [base, ending.as_bytes()].concat();
        self.numbers.get(&*name).copied().filter(|&number| self.kept[number].is_some())
    }

    /// Returns the index of the remaining tensor named `base` + `ending`, or an error about the
    /// tensor `number`, which needs it.
    pub(super) fn need(&self, base: &[u8], ending: &str, number: usize) -> Result<usize> {
        self.find(base, ending).ok_or_else(|| {
            let name = [base, ending.as_bytes()].concat();
            let message =
                format!("the tensor {:?}, which belongs to it, is missing", RawStr::new(&name));
            self.fault(number, message)
        })
    }

    /// Returns `true` if a tensor is not yet decoded or removed.
    pub(super) fn is_stored(&self, number: usize) -> bool {
        let kept = self.kept.get(number).and_then(Option::as_ref);
        kept.is_some_and(|weight| matches!(weight.content, Content::Stored))
    }

    /// Returns an error about a tensor.
    pub(super) fn fault(&self, number: usize, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Checkpoint, message).tensor(&self.tensor(number).name)
    }

    /// Removes a tensor.
    pub(super) fn leave_out(&mut self, number: usize) {
        self.kept[number] = None;
    }

    /// Removes all tensors whose names have one of these suffixes.
    pub(super) fn leave_out_ending(&mut self, endings: &[&str]) {
        for ending in endings {
            for (number, _) in self.ending(ending) {
                self.leave_out(number);
            }
        }
    }

    /// Replaces a tensor.
    pub(super) fn replace(&mut self, number: usize, name: impl Into<Vec<u8>>, content: Content) {
        self.kept[number] = Some(Weight { number, name: name.into(), content });
    }

    /// Appends decoded values after all other tensors.
    pub(super) fn append(&mut self, number: usize, name: Vec<u8>, values: Expression) {
        self.added.push(Weight { number, name, content: Content::Values(values) });
    }

    /// Returns the stored data of a tensor.
    pub(super) fn stored(&self, number: usize) -> Result<Expression> {
        Expression::stored(self.checkpoint, number)
    }

    /// Reads a tensor of at most `most` elements as F32.
    pub(super) fn floats(&self, number: usize, most: u64) -> Result<Vec<f32>> {
        let values = unscaled(self.checkpoint, number)?;
        let count = self.count_within(number, most)?;
        let singles = values.encode(ggmill_core::GgmlType::F32, Encoding::new(None, false))?;
        let bytes = singles.evaluate(self.checkpoint, 0..count)?;
        Ok(bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
    }

    /// Reads the bytes of a tensor of at most `most` elements.
    pub(super) fn bytes(&self, number: usize, most: u64) -> Result<Vec<u8>> {
        let count = self.count_within(number, most)?;
        self.stored(number)?.evaluate(self.checkpoint, 0..count)
    }

    fn count_within(&self, number: usize, most: u64) -> Result<u64> {
        let count = self.tensor(number).shape.elements();
        if count > most {
            let message = format!("has {count} elements, expected at most {most}");
            return Err(self.fault(number, message));
        }
        Ok(count)
    }
}

/// Returns the values of a tensor without a scale.
pub(super) fn unscaled(checkpoint: &dyn Checkpoint, number: usize) -> Result<Expression> {
    match checkpoint.tensors()[number].stored_type.and_then(Fp8::from_name) {
        Some(format) => Expression::decode(format, &[Expression::stored(checkpoint, number)?]),
        None => Expression::tensor(checkpoint, number),
    }
}
