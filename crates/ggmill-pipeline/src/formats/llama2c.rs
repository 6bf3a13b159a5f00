//! Checkpoints of llama2.c.

use ggmill_core::{Endian, GgmlType, Shape};
use ggmill_io::RandomAccess;
use serde_json::{Value, json};

use crate::{Checkpoint, Error, ErrorKind, FileRange, Result, SourceTensor};

/// Bytes of the header: seven 32-bit integers.
const HEADER: usize = 7 * 4;
/// Limit for the number of blocks, ten times that of the largest models.
const MAX_BLOCKS: u64 = 1 << 10;
/// The magic of later versions, which are not supported.
const MAGIC: i32 = 0x616b_3432;

/// A checkpoint of llama2.c in version 0, which has no magic number: seven integers, then the
/// weights as F32, with each kind of weight stored for all blocks before the next kind. Tensors get
/// the names of the training program (`layers.0.attention.wq.weight`).
#[derive(Debug)]
pub(crate) struct Llama2c {
    file: RandomAccess,
    tensors: Vec<SourceTensor>,
    /// The offset of each tensor's data.
    offsets: Vec<u64>,
}

/// The hyperparameters in the header.
struct Hyperparameters {
    width: u64,
    hidden: u64,
    blocks: u64,
    heads: u64,
    kv_heads: u64,
    vocabulary: u64,
    context: u64,
    /// If true, the output matrix is the embedding matrix.
    is_tied: bool,
}

impl Llama2c {
    /// Returns `true` if the length of the file matches its hyperparameters, as it has no magic
    /// number.
    pub(crate) fn matches(file: &RandomAccess) -> bool {
        let len = Hyperparameters::read(file).and_then(|numbers| numbers.len());
        len == Some(file.len())
    }

    /// Opens a checkpoint, and returns it with a configuration in Hugging Face's names.
    pub(crate) fn new(file: RandomAccess) -> Result<(Self, Value)> {
        let fault = |message: &str| Error::new(ErrorKind::Checkpoint, message).file(file.path());
        let numbers =
            Hyperparameters::read(&file).ok_or_else(|| fault("is not a checkpoint of llama2.c"))?;
        let Hyperparameters {
            width,
            hidden,
            blocks,
            heads,
            kv_heads,
            vocabulary,
            context,
            is_tied,
        } = numbers;
        let config = json!({
            "llama2c": 0,
            "hidden_size": width,
            "intermediate_size": hidden,
            "num_hidden_layers": blocks,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "vocab_size": vocabulary,
            "max_position_embeddings": context,
            // A constant of the program, not stored in the file.
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": is_tied,
        });
        let mut this = Self { file, tensors: Vec::new(), offsets: Vec::new() };
        let mut offset = HEADER as u64;
        for (name, repeated, rows, columns) in numbers.parts() {
            for block in 0..repeated {
                if let Some(name) = name {
                    let name = name.replace("{}", &block.to_string());
                    let matrix = [columns, rows];
                    let dimensions = if rows == 1 { &matrix[..1] } else { &matrix };
                    let shape = Shape::new(dimensions)
                        .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
                    this.tensors.push(SourceTensor::new(name, GgmlType::F32, shape));
                    this.offsets.push(offset);
                }
                // `matches` has checked that the sum is the length of the file.
                offset = offset.saturating_add(rows.saturating_mul(columns).saturating_mul(4));
            }
        }
        Ok((this, config))
    }

    pub(crate) fn file(&self) -> &RandomAccess {
        &self.file
    }
}

impl Hyperparameters {
    /// Reads the hyperparameters; `None` if they are not plausible.
    fn read(file: &RandomAccess) -> Option<Self> {
        let mut header = [0; HEADER];
        file.read_at(0, &mut header).ok()?;
        let (words, _) = header.as_chunks();
        let mut numbers = [0; 7];
        for (number, &word) in numbers.iter_mut().zip(words) {
            *number = i32::from_le_bytes(word);
        }
        let [width, hidden, blocks, heads, kv_heads, vocabulary, context] = numbers;
        let positive = |number: i32| u64::try_from(number).ok().filter(|&number| number > 0);
        let this = Self {
            width: positive(width)?,
            hidden: positive(hidden)?,
            blocks: positive(blocks)?,
            heads: positive(heads)?,
            kv_heads: positive(kv_heads)?,
            vocabulary: u64::from(vocabulary.unsigned_abs()),
            context: positive(context)?,
            is_tied: vocabulary > 0,
        };
        let divide = this.width.is_multiple_of(this.heads)
            && this.heads.is_multiple_of(this.kv_heads)
            && (this.width / this.heads).is_multiple_of(2);
        (divide && vocabulary != 0 && this.blocks <= MAX_BLOCKS && width != MAGIC).then_some(this)
    }

    /// Returns the content after the header, in order: name, repetitions, rows and columns. Entries
    /// without a name are rotary tables, which are not weights.
    fn parts(&self) -> [(Option<&'static str>, u64, u64, u64); 14] {
        let Self { width, hidden, blocks, heads, kv_heads, vocabulary, context, is_tied } = *self;
        let kv = width / heads * kv_heads;
        let block = |name, rows, columns| (Some(name), blocks, rows, columns);
        [
            (Some("tok_embeddings.weight"), 1, vocabulary, width),
            block("layers.{}.attention_norm.weight", 1, width),
            block("layers.{}.attention.wq.weight", width, width),
            block("layers.{}.attention.wk.weight", kv, width),
            block("layers.{}.attention.wv.weight", kv, width),
            block("layers.{}.attention.wo.weight", width, width),
            block("layers.{}.ffn_norm.weight", 1, width),
            block("layers.{}.feed_forward.w1.weight", hidden, width),
            block("layers.{}.feed_forward.w2.weight", width, hidden),
            block("layers.{}.feed_forward.w3.weight", hidden, width),
            (Some("norm.weight"), 1, 1, width),
            // Cosines and sines of rotary positions.
            (None, 1, context, width / heads / 2),
            (None, 1, context, width / heads / 2),
            (Some("output.weight"), u64::from(!is_tied), vocabulary, width),
        ]
    }

    /// Returns the length of the file; `None` on overflow.
    fn len(&self) -> Option<u64> {
        self.parts().into_iter().try_fold(HEADER as u64, |len, (_, repeated, rows, columns)| {
            let elements = repeated.checked_mul(rows)?.checked_mul(columns)?;
            len.checked_add(elements.checked_mul(4)?)
        })
    }
}

impl Checkpoint for Llama2c {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let (tensor, start) = self
            .tensors
            .get(number)
            .zip(self.offsets.get(number))
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        let size = tensor.shape.elements().saturating_mul(4);
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > size) {
            return Err(Error::new(ErrorKind::Misuse, "reads beyond the data of the tensor")
                .file(self.file.path()));
        }
        Ok(self.file.read_at(start.saturating_add(offset), out)?)
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        vec![&self.file]
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        self.offsets.get(number).map(|&start| FileRange::new(&self.file, start, Endian::Little))
    }
}
