//! Helpers of the tests.

use ggmill_check::{DataFacts, Input, Options, Report, check, data_pieces};
use ggmill_core::GgmlType;
use ggmill_testdata::bytes::{FileBytes, Value};

/// The name of a shard whose sibling is missing.
pub(crate) const ALONE: &str = "Set-1K-v1.0-00001-of-00002.gguf";

/// The name of a file whose repository has another template.
pub(crate) const OTHER: &str = "Other-1K-v1.0.gguf";

/// Returns the report on a file of this name.
pub(crate) fn report_named(name: &str, bytes: &[u8], options: &Options) -> Report {
    match ggmill_core::Model::open_damaged(bytes.to_vec()) {
        Ok(model) => {
            let part = &model.parts()[0];
            let mut data = DataFacts::default();
            for piece in data_pieces(part) {
                let start = usize::try_from(piece.offset()).unwrap();
                data.add(piece.examine(&bytes[start..start + piece.len()]));
            }
            let mut input = Input::new(part).named(name).with_data(&data);
            if name == ALONE {
                input = input
                    .with_set_fault("Set-1K-v1.0-00002-of-00002.gguf: cannot open: no such file");
            }
            if name == OTHER {
                input = input.with_repository_template("chat_template.jinja", "{{ messages }}");
            }
            check(&input, options)
        }
        Err(error) => ggmill_check::unreadable(&error, options),
    }
}

pub(crate) fn report(bytes: &[u8]) -> Report {
    report_named("Tiny-1K-v1.0.gguf", bytes, &Options::default().with_findings_per_rule(usize::MAX))
}

pub(crate) fn codes(report: &Report) -> Vec<&'static str> {
    report.counts().iter().map(|(rule, _)| rule.code).collect()
}

pub(crate) fn strings(texts: &[&str]) -> Value {
    Value::Array(8, texts.iter().map(|text| Value::from(*text)).collect())
}

/// A builder of files with tensors of ones, laid out like the reference.
#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) pairs: Vec<(Vec<u8>, Value)>,
    pub(crate) tensors: Vec<(Vec<u8>, Vec<u64>, GgmlType)>,
    pub(crate) version: u32,
    pub(crate) magic: &'static [u8],
}

impl Model {
    pub(crate) fn empty() -> Self {
        Self { pairs: Vec::new(), tensors: Vec::new(), version: 3, magic: b"GGUF" }
    }

    /// A small valid model: one block of the LLaMA architecture.
    pub(crate) fn llama() -> Self {
        let f32s = |values: &[f32]| {
            Value::Array(6, values.iter().map(|&value| Value::F32(value)).collect())
        };
        let i32s = |values: &[i32]| {
            Value::Array(5, values.iter().map(|&value| Value::I32(value)).collect())
        };
        let pairs: Vec<(&str, Value)> = vec![
            ("general.architecture", "llama".into()),
            ("general.type", "model".into()),
            ("general.name", "Tiny".into()),
            ("general.license", "mit".into()),
            ("general.languages", strings(&["en"])),
            ("llama.block_count", Value::U32(1)),
            ("llama.context_length", Value::U32(16)),
            ("llama.embedding_length", Value::U32(8)),
            ("llama.feed_forward_length", Value::U32(12)),
            ("llama.attention.head_count", Value::U32(2)),
            ("llama.attention.head_count_kv", Value::U32(1)),
            ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
            ("llama.rope.dimension_count", Value::U32(4)),
            ("llama.rope.freq_base", Value::F32(10_000.0)),
            ("llama.vocab_size", Value::U32(5)),
            ("general.file_type", Value::U32(0)),
            ("tokenizer.ggml.model", "gpt2".into()),
            ("tokenizer.ggml.pre", "default".into()),
            ("tokenizer.ggml.tokens", strings(&["<s>", "a", "b", "ab", "c"])),
            ("tokenizer.ggml.token_type", i32s(&[3, 1, 1, 1, 1])),
            ("tokenizer.ggml.scores", f32s(&[0.0; 5])),
            ("tokenizer.ggml.merges", strings(&["a b"])),
            ("tokenizer.ggml.bos_token_id", Value::U32(0)),
            (
                "tokenizer.chat_template",
                "{% for message in messages %}{{ message.content }}{% endfor %}".into(),
            ),
        ];
        let tensors: &[(&str, &[u64])] = &[
            ("token_embd.weight", &[8, 5]),
            ("output_norm.weight", &[8]),
            ("output.weight", &[8, 5]),
            ("blk.0.attn_norm.weight", &[8]),
            ("blk.0.attn_q.weight", &[8, 8]),
            ("blk.0.attn_k.weight", &[8, 4]),
            ("blk.0.attn_v.weight", &[8, 4]),
            ("blk.0.attn_output.weight", &[8, 8]),
            ("blk.0.ffn_norm.weight", &[8]),
            ("blk.0.ffn_gate.weight", &[8, 12]),
            ("blk.0.ffn_down.weight", &[12, 8]),
            ("blk.0.ffn_up.weight", &[8, 12]),
        ];
        let pairs = pairs.into_iter().map(|(key, value)| (key.into(), value)).collect();
        let tensors = tensors
            .iter()
            .map(|&(name, shape)| (name.into(), shape.to_vec(), GgmlType::F32))
            .collect();
        Self { pairs, tensors, ..Self::empty() }
    }

    pub(crate) fn set(mut self, key: impl AsRef<[u8]>, value: impl Into<Value>) -> Self {
        let value = value.into();
        match self.pairs.iter_mut().find(|(known, _)| known == key.as_ref()) {
            Some((_, known)) => *known = value,
            None => self.pairs.push((key.as_ref().to_vec(), value)),
        }
        self
    }

    /// Adds an entry, even if the key exists.
    pub(crate) fn push(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.pairs.push((key.into(), value.into()));
        self
    }

    pub(crate) fn unset(mut self, key: &str) -> Self {
        self.pairs.retain(|(known, _)| known != key.as_bytes());
        self
    }

    pub(crate) fn tensor(
        mut self,
        name: impl AsRef<[u8]>,
        shape: &[u64],
        ggml_type: GgmlType,
    ) -> Self {
        self.tensors.push((name.as_ref().to_vec(), shape.to_vec(), ggml_type));
        self
    }

    /// Changes the shape and type of a tensor, or removes it.
    pub(crate) fn retensor(mut self, name: &str, change: Option<(&[u64], GgmlType)>) -> Self {
        match change {
            Some((shape, ggml_type)) => {
                let tensor =
                    self.tensors.iter_mut().find(|tensor| tensor.0 == name.as_bytes()).unwrap();
                (tensor.1, tensor.2) = (shape.to_vec(), ggml_type);
            }
            None => self.tensors.retain(|tensor| tensor.0 != name.as_bytes()),
        }
        self
    }

    /// Returns the offsets in the layout of the reference, and the size of the data.
    pub(crate) fn offsets(&self) -> (Vec<u64>, u64) {
        let mut end = 0u64;
        let offsets = self.tensors.iter().map(|(_, shape, ggml_type)| {
            let start = end;
            let elements: u64 = shape.iter().product();
            let size = ggml_type.layout().map_or(1, |layout| {
                (elements / u64::from(layout.elements)) * u64::from(layout.bytes)
            });
            end = (end + size).next_multiple_of(32);
            start
        });
        let offsets = offsets.collect();
        (offsets, end)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let (offsets, size) = self.offsets();
        self.bytes_at(&offsets, usize::try_from(size).unwrap())
    }

    /// Returns the file with tensors at these offsets and data of this size.
    pub(crate) fn bytes_at(&self, offsets: &[u64], size: usize) -> Vec<u8> {
        let mut file = FileBytes::new(self.version, ggmill_core::Endian::Little);
        file.head_with(self.magic, self.tensors.len() as u64, self.pairs.len() as u64);
        for (key, value) in &self.pairs {
            file.pair(key, value);
        }
        for ((name, shape, ggml_type), offset) in self.tensors.iter().zip(offsets) {
            file.tensor(name, shape, ggml_type.0, *offset);
        }
        file.pad(32);
        let start = usize::try_from(file.position()).unwrap();
        file.raw(&vec![0; size]);
        let mut bytes = file.into_bytes();
        // Data that is finite in every type, and zero padding.
        for ((_, shape, ggml_type), offset) in self.tensors.iter().zip(offsets) {
            let elements = usize::try_from(shape.iter().product::<u64>()).unwrap();
            let at = start + usize::try_from(*offset).unwrap();
            if *ggml_type == GgmlType::NVFP4 {
                bytes[at..at + elements / 64 * 36].fill(0x38);
            } else if *ggml_type == GgmlType::F32 {
                for number in 0..elements {
                    if let Some(place) = bytes.get_mut(at + number * 4..at + number * 4 + 4) {
                        place.copy_from_slice(&1.0f32.to_le_bytes());
                    }
                }
            }
        }
        bytes
    }
}
