//! Helpers of the tests.

use std::path::Path;

use ggmill_core::{Decoder, Endian, GgmlType, Header, Limits, Model, RawStr, ReadAt, Result};
use ggmill_inspect::{Selection, json, text};
use ggmill_testdata::bytes::{FileBytes, Value};
use serde_json::Value as Json;

pub(crate) fn open(path: &Path) -> Header<'static> {
    Header::parse(std::fs::read(path).unwrap()).unwrap()
}

/// Bytes with a name, like a file.
#[derive(Debug)]
struct Named(Vec<u8>, String);

impl ReadAt for Named {
    fn len(&self) -> u64 {
        ReadAt::len(&self.0)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, out)
    }

    fn name(&self) -> Option<RawStr<'_>> {
        Some(RawStr::from(&*self.1))
    }
}

/// Opens bytes as a model of this name, or without a name as a pipe of unknown length.
pub(crate) fn named(file: &Header<'_>, name: &str) -> Model {
    let limits = Limits::default().with_dimensions(8).with_alignment(u32::MAX).with_array_depth(64);
    if file.file_len().is_some() {
        Model::open_with(Named(file.bytes().to_vec(), name.to_owned()), &limits).unwrap()
    } else {
        let mut decoder = Decoder::new(None, &limits);
        decoder.feed(file.bytes()).unwrap();
        Model::from_header(decoder.finish().unwrap())
    }
}

/// Returns the report on a file as JSON text.
pub(crate) fn json_text(file: &Header<'_>, arrays: json::Arrays) -> String {
    let mut out = Vec::new();
    json::write(&mut out, &named(file, "model.gguf"), &Selection::default(), arrays).unwrap();
    String::from_utf8(out).unwrap()
}

pub(crate) fn json(file: &Header<'_>, arrays: json::Arrays) -> Json {
    serde_json::from_str(&json_text(file, arrays)).unwrap()
}

/// Returns the report on a file as text.
pub(crate) fn shown(file: &Header<'_>, name: &str, options: text::Options) -> String {
    let mut out = Vec::new();
    text::write(&mut out, &named(file, name), &Selection::default(), &options).unwrap();
    String::from_utf8(out).unwrap()
}

/// Builds a file of these entries without tensors.
pub(crate) fn of_pairs(pairs: &[(&[u8], Value)]) -> Header<'static> {
    let mut file = FileBytes::v3(0, pairs.len() as u64);
    for (key, value) in pairs {
        file.pair(key, value);
    }
    Header::parse(file.into_bytes()).unwrap()
}

pub(crate) fn strings(texts: &[&str]) -> Value {
    Value::Array(8, texts.iter().map(|text| Value::from(*text)).collect())
}

/// Builds a model of two blocks with everything that a summary shows.
pub(crate) fn small_model() -> Header<'static> {
    small_model_with(&[])
}

/// Builds that model with additional entries.
pub(crate) fn small_model_with(more: &[(&str, Value)]) -> Header<'static> {
    let tokens: Vec<String> = (0..300).map(|id| format!("token{id}")).collect();
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let mut pairs: Vec<(&str, Value)> = vec![
        ("general.architecture", "llama".into()),
        ("general.name", "Small Model".into()),
        ("general.license", "apache-2.0".into()),
        ("general.file_type", Value::U32(15)),
        ("general.quantization_version", Value::U32(2)),
        ("llama.context_length", Value::U32(131_072)),
        ("llama.embedding_length", Value::U32(256)),
        ("llama.block_count", Value::U32(2)),
        ("llama.feed_forward_length", Value::Array(4, vec![Value::U32(512), Value::U32(768)])),
        ("llama.attention.head_count", Value::U32(8)),
        ("llama.attention.head_count_kv", Value::U32(2)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.expert_count", Value::U32(8)),
        ("llama.expert_used_count", Value::U32(2)),
        ("tokenizer.ggml.model", "gpt2".into()),
        ("tokenizer.ggml.pre", "llama-bpe".into()),
        ("tokenizer.ggml.tokens", strings(&tokens)),
        ("tokenizer.ggml.bos_token_id", Value::U32(1)),
        ("tokenizer.ggml.add_bos_token", Value::Bool(1)),
        (
            "tokenizer.chat_template",
            "{% for message in messages %}\n{{ message.content }}{% endfor %}"
                .repeat(20)
                .as_str()
                .into(),
        ),
    ];
    pairs.extend_from_slice(more);
    let tensors = [
        ("token_embd.weight", &[256, 300][..], GgmlType::Q4_K),
        ("blk.0.attn_q.weight", &[256, 256], GgmlType::Q4_K),
        ("blk.0.ffn_down_exps.weight", &[512, 256, 8], GgmlType::Q6_K),
        ("blk.1.attn_q.weight", &[256, 256], GgmlType::Q4_K),
        ("blk.1.ffn_down_exps.weight", &[768, 256, 8], GgmlType::Q6_K),
        ("output_norm.weight", &[256], GgmlType::F32),
    ];
    let mut file = FileBytes::new(3, Endian::Little);
    file.head(tensors.len() as u64, pairs.len() as u64);
    for (key, value) in &pairs {
        file.pair(key, value);
    }
    let mut offset = 0;
    for (name, shape, ggml_type) in tensors {
        file.tensor(name, shape, ggml_type.0, offset);
        offset += ggml_type.layout().unwrap().bytes_for(shape.iter().product()).unwrap();
    }
    file.pad(32);
    let mut bytes = file.into_bytes();
    bytes.resize(bytes.len() + usize::try_from(offset).unwrap(), 0);
    Header::parse(bytes).unwrap()
}
