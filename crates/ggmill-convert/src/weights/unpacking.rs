//! The list of a checkpoint's tensors while packed ones are replaced by what they hold.

use std::collections::BTreeMap;

use ggmill_core::RawStr;
use ggmill_pipeline::{
    Checkpoint, Encoding, Error, ErrorKind, Expression, Fp8, Pretrained, Result, SourceTensor,
};

/// A tensor of a checkpoint.
pub(super) struct Weight {
    /// Its number in the checkpoint; of the first of several.
    pub(super) number: usize,
    pub(super) name: Vec<u8>,
    pub(super) content: Content,
}

/// What a tensor holds.
pub(super) enum Content {
    /// The stored data.
    Stored,
    /// Numbers, in F32.
    Values(Expression),
    /// Blocks of a type that GGML has.
    Blocks(Expression, Factors),
}

/// Factors of a tensor of blocks: of its weights, and of what is multiplied with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Factors {
    pub(crate) weights: Vec<f32>,
    pub(crate) inputs: Vec<f32>,
}

/// The tensors of a checkpoint that are left, and those that were made of several.
pub(super) struct Unpacking<'a> {
    pub(super) checkpoint: &'a dyn Pretrained,
    numbers: BTreeMap<&'a [u8], usize>,
    /// In place, by number.
    kept: Vec<Option<Weight>>,
    /// After all others.
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

    /// The tensors left whose names end so, with what is before the ending.
    pub(super) fn ending(&self, ending: &str) -> Vec<(usize, &'a [u8])> {
        let numbers = self.kept.iter().flatten().map(|weight| weight.number);
        let base = |number| {
            let name = self.tensor(number).name.strip_suffix(ending.as_bytes())?;
            Some((number, name))
        };
        numbers.filter_map(base).collect()
    }

    /// The tensor of this name, in two pieces.
    pub(super) fn find(&self, base: &[u8], ending: &str) -> Option<usize> {
        let name = [base, ending.as_bytes()].concat();
        self.numbers.get(&*name).copied().filter(|&number| self.kept[number].is_some())
    }

    /// The same of one that `number` needs.
    pub(super) fn need(&self, base: &[u8], ending: &str, number: usize) -> Result<usize> {
        self.find(base, ending).ok_or_else(|| {
            let name = [base, ending.as_bytes()].concat();
            let message =
                format!("the tensor {:?}, which belongs to it, is missing", RawStr::new(&name));
            self.fault(number, message)
        })
    }

    /// Whether a tensor is left as it is stored: not decoded yet.
    pub(super) fn is_stored(&self, number: usize) -> bool {
        let kept = self.kept.get(number).and_then(Option::as_ref);
        kept.is_some_and(|weight| matches!(weight.content, Content::Stored))
    }

    /// An error about a tensor.
    pub(super) fn fault(&self, number: usize, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Checkpoint, message).tensor(&self.tensor(number).name)
    }

    /// The tensor is none that a description should see.
    pub(super) fn leave_out(&mut self, number: usize) {
        self.kept[number] = None;
    }

    /// All whose names end so are.
    pub(super) fn leave_out_ending(&mut self, endings: &[&str]) {
        for ending in endings {
            for (number, _) in self.ending(ending) {
                self.leave_out(number);
            }
        }
    }

    /// In the place of a tensor is this one.
    pub(super) fn replace(&mut self, number: usize, name: impl Into<Vec<u8>>, content: Content) {
        self.kept[number] = Some(Weight { number, name: name.into(), content });
    }

    /// These numbers come after all others.
    pub(super) fn append(&mut self, number: usize, name: Vec<u8>, values: Expression) {
        self.added.push(Weight { number, name, content: Content::Values(values) });
    }

    /// What is stored as a tensor.
    pub(super) fn stored(&self, number: usize) -> Result<Expression> {
        Expression::stored(self.checkpoint, number)
    }

    /// The numbers of a small tensor: at most so many.
    pub(super) fn floats(&self, number: usize, most: u64) -> Result<Vec<f32>> {
        let values = unscaled(self.checkpoint, number)?;
        let count = self.few(number, most)?;
        let singles = values.encode(ggmill_core::GgmlType::F32, Encoding::new(None, false))?;
        let bytes = singles.evaluate(self.checkpoint, 0..count)?;
        Ok(bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
    }

    /// The bytes of a small tensor: at most so many elements.
    pub(super) fn bytes(&self, number: usize, most: u64) -> Result<Vec<u8>> {
        let count = self.few(number, most)?;
        self.stored(number)?.evaluate(self.checkpoint, 0..count)
    }

    fn few(&self, number: usize, most: u64) -> Result<u64> {
        let count = self.tensor(number).shape.elements();
        if count > most {
            let message = format!("has {count} elements, expected at most {most}");
            return Err(self.fault(number, message));
        }
        Ok(count)
    }
}

/// The values of a tensor that has no scale.
pub(super) fn unscaled(checkpoint: &dyn Checkpoint, number: usize) -> Result<Expression> {
    match checkpoint.tensors()[number].stored_type.and_then(Fp8::from_name) {
        Some(format) => Expression::decode(format, &[Expression::stored(checkpoint, number)?]),
        None => Expression::tensor(checkpoint, number),
    }
}
