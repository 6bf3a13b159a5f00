//! Low-rank adapters (LoRA): what a GGUF adapter has, and models with adapters merged into them.

mod merge;

use std::collections::BTreeMap;

use ggmill_core::{RawStr, Value, keys};
use ggmill_pipeline::{Checkpoint, Error, ErrorKind, GgufCheckpoint, Result, SourceTensor};

pub use merge::merge_adapters;

/// An open LoRA adapter in GGUF: for each tensor of a base model that it changes, two factors of
/// the change.
///
/// The factors of tensor `NAME`, of shape (*columns*, *rows*), are `NAME.lora_a` of shape
/// (*columns*, *rank*) and `NAME.lora_b` of shape (*rank*, *rows*); those of stacked experts have
/// the experts as a third dimension. The factors of token embeddings are exchanged: `lora_a` has
/// shape (*rank*, *rows*) and `lora_b` (*rank*, *columns*). The change is their product times alpha
/// over the rank.
#[derive(Debug)]
pub struct LoraAdapter<'a> {
    file: &'a GgufCheckpoint,
    architecture: Vec<u8>,
    alpha: f32,
    /// Names in the base, with the numbers of the two factors.
    pairs: BTreeMap<Vec<u8>, [usize; 2]>,
    /// Tensors that are not factors: norms, which no program applies.
    others: Vec<usize>,
}

/// A tensor of the base that an adapter changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoraTarget<'a> {
    /// Its name in the base.
    pub name: RawStr<'a>,
    /// The rank of the change: the inner dimension of the product.
    pub rank: u64,
}

impl<'a> LoraAdapter<'a> {
    /// Reads a GGUF file as an adapter. Fails when it says that it is not one, when a factor lacks
    /// the other, when the two do not fit each other, and when there is a tensor that llama.cpp
    /// would refuse.
    pub fn new(file: &'a GgufCheckpoint) -> Result<Self> {
        Self::read(file).map_err(|error| match path_of(file) {
            Some(path) => error.file(path),
            None => error,
        })
    }

    fn read(file: &'a GgufCheckpoint) -> Result<Self> {
        for (key, expected) in [(keys::GENERAL_TYPE, "adapter"), (keys::ADAPTER_TYPE, "lora")] {
            let found = file.metadata().raw_str(key).ok();
            if found.is_none_or(|found| found.as_bytes() != expected.as_bytes()) {
                let found = found.map_or_else(|| "none".to_owned(), |found| format!("{found:?}"));
                let message =
                    format!("is not a LoRA adapter: {key} is {found}, expected {expected:?}");
                return Err(fault(message));
            }
        }
        if file.metadata().get(keys::ADAPTER_ALORA_INVOCATION_TOKENS).is_some() {
            let message = format!(
                "has {}: the adapter is active only after these tokens, so it cannot be merged",
                keys::ADAPTER_ALORA_INVOCATION_TOKENS
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let architecture = file.metadata().raw_str(keys::GENERAL_ARCHITECTURE);
        let architecture =
            architecture.map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
        let alpha = match file.metadata().get(keys::ADAPTER_LORA_ALPHA).map(|entry| entry.value()) {
            Some(Ok(Value::F32(alpha))) if alpha.is_finite() => alpha,
            None => 0.0,
            Some(_) => {
                return Err(fault(format!(
                    "{} is not a finite F32 number",
                    keys::ADAPTER_LORA_ALPHA
                )));
            }
        };
        let mut this = Self {
            file,
            architecture: architecture.as_bytes().to_vec(),
            alpha,
            pairs: BTreeMap::new(),
            others: Vec::new(),
        };
        this.add_factors()?;
        Ok(this)
    }

    fn add_factors(&mut self) -> Result<()> {
        let mut halves: BTreeMap<&[u8], [Option<usize>; 2]> = BTreeMap::new();
        for (number, tensor) in self.file.tensors().iter().enumerate() {
            let half = [&b".lora_a"[..], b".lora_b"]
                .iter()
                .enumerate()
                .find_map(|(half, ending)| Some((half, tensor.name.strip_suffix(*ending)?)));
            match half {
                Some((half, name)) => halves.entry(name).or_default()[half] = Some(number),
                None if tensor.name.ends_with(b"_norm.weight") => self.others.push(number),
                None => {
                    let message = format!(
                        "tensor {:?} is neither a factor (.lora_a, .lora_b) nor a norm",
                        tensor.name()
                    );
                    return Err(fault(message));
                }
            }
        }
        for (name, factors) in halves {
            let [Some(a), Some(b)] = factors else {
                let missing = if factors[0].is_none() { "lora_a" } else { "lora_b" };
                let message = format!(
                    "there is no {:?}",
                    RawStr::new(&[name, b".", missing.as_bytes()].concat())
                );
                return Err(fault(message));
            };
            self.pairs.insert(name.to_vec(), [a, b]);
            self.check_factors(name, [a, b])?;
        }
        if self.pairs.is_empty() {
            return Err(fault("has no factors, so there is nothing to merge"));
        }
        Ok(())
    }

    /// The factors of a tensor must be matrices, or stacks of them, with one inner dimension.
    fn check_factors(&self, name: &[u8], factors: [usize; 2]) -> Result<()> {
        let [a, b] = factors.map(|number| &self.file.tensors()[number]);
        let inner = usize::from(!is_flipped(name));
        let (of_a, of_b) = (a.shape.dimensions(), b.shape.dimensions());
        let experts = |dimensions: &[u64]| dimensions.get(2).copied().unwrap_or(1);
        let is_rank = |dimensions: &[u64]| matches!(dimensions.len(), 2 | 3);
        let fits = is_rank(of_a)
            && is_rank(of_b)
            && of_a.get(inner) == of_b.first()
            && (experts(of_a) == 1 || experts(of_a) == experts(of_b));
        if fits {
            return Ok(());
        }
        let message = format!(
            "tensor {:?}: factors of shapes {} and {} cannot be multiplied",
            RawStr::new(name),
            a.shape,
            b.shape
        );
        Err(fault(message))
    }

    /// The architecture of its base (`general.architecture`).
    pub fn architecture(&self) -> RawStr<'_> {
        RawStr::new(&self.architecture)
    }

    /// Its strength, `adapter.lora.alpha`; 0 where the file has none, for an adapter that is not
    /// scaled by its rank.
    pub fn alpha(&self) -> f32 {
        self.alpha
    }

    /// The tensors that it changes, sorted by name.
    pub fn targets(&self) -> impl ExactSizeIterator<Item = LoraTarget<'_>> {
        self.pairs.iter().map(|(name, factors)| LoraTarget {
            name: RawStr::new(name),
            rank: self.rank(*factors),
        })
    }

    /// The inner dimension of a product.
    fn rank(&self, factors: [usize; 2]) -> u64 {
        self.factor(factors[1]).shape.dimensions().first().copied().unwrap_or(1)
    }

    fn factor(&self, number: usize) -> &SourceTensor {
        &self.file.tensors()[number]
    }
}

/// Whether the factors of a tensor are exchanged, as the graphs of llama.cpp look them up.
fn is_flipped(name: &[u8]) -> bool {
    name.ends_with(b"token_embd.weight")
}

fn path_of(file: &GgufCheckpoint) -> Option<&std::path::Path> {
    ggmill_io::files(file.model()).next().map(ggmill_io::RandomAccess::path)
}

fn fault(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Checkpoint, message)
}
