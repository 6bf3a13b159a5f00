//! Small models with pseudorandom weights, for tests of quantization, and for the reference through
//! `python3 conformance/run.py quantize`.
//!
//! The shapes are not those of real models, since the models are never run; quantization mixtures depend
//! on names, hyperparameters and order. All numbers are computed with integers and exact in their type,
//! so the bytes are the same on every machine.

use crate::bytes::{FileBytes, Value};

/// A model with its name in tests.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Model {
    /// The name in tests.
    pub name: &'static str,
    /// The bytes of the GGUF file.
    pub file: Vec<u8>,
    /// The tensors in the importance matrix: name, columns, matrices.
    pub measured: Vec<(String, u64, u64)>,
}

/// Returns every model.
pub fn models() -> Vec<Model> {
    vec![llama(), mixtral(), mamba(), tied()]
}

/// The type of the weights.
#[derive(Clone, Copy)]
enum Stored {
    F32,
    F16,
    BF16,
}

/// The declaration of a tensor: name, dimensions, and whether it stays in F32, like a norm.
struct Tensor {
    name: String,
    dimensions: Vec<u64>,
    is_plain: bool,
}

fn matrix(name: impl Into<String>, dimensions: &[u64]) -> Tensor {
    Tensor { name: name.into(), dimensions: dimensions.to_vec(), is_plain: false }
}

fn plain(name: impl Into<String>, dimensions: &[u64]) -> Tensor {
    Tensor { name: name.into(), dimensions: dimensions.to_vec(), is_plain: true }
}

/// A model with nine layers, four query heads per key head, a separate output matrix, and row lengths of
/// 256, 160 and 80.
fn llama() -> Model {
    let mut tensors = vec![
        matrix("token_embd.weight", &[256, 40]),
        plain("output_norm.weight", &[256]),
        matrix("output.weight", &[256, 40]),
    ];
    // Not in the order in which they are written.
    for layer in [3, 1, 0, 8, 2, 7, 4, 6, 5] {
        let of = |name: &str| format!("blk.{layer}.{name}.weight");
        tensors.push(plain(of("attn_norm"), &[256]));
        tensors.extend(["attn_q", "attn_output"].map(|name| matrix(of(name), &[256, 16])));
        tensors.extend(["attn_k", "attn_v"].map(|name| matrix(of(name), &[256, 4])));
        tensors.extend(["ffn_gate", "ffn_up"].map(|name| matrix(of(name), &[256, 12])));
        tensors.push(matrix(of("ffn_down"), &[if layer == 4 { 160 } else { 512 }, 8]));
        tensors.push(matrix(of("adapter"), &[80, 2]));
        tensors.push(plain(format!("blk.{layer}.attn_q.bias"), &[256]));
    }
    let hyper = [("block_count", 9), ("attention.head_count", 8), ("attention.head_count_kv", 2)];
    build("llama", "llama", &hyper, &tensors, Stored::F16)
}

/// A model with eight experts in one tensor, and tied embeddings.
fn mixtral() -> Model {
    let mut tensors =
        vec![matrix("token_embd.weight", &[256, 32]), plain("output_norm.weight", &[256])];
    for layer in 0..8 {
        let of = |name: &str| format!("blk.{layer}.{name}.weight");
        tensors.push(plain(of("ffn_norm"), &[256]));
        tensors.extend(
            ["attn_q", "attn_k", "attn_v", "attn_output"].map(|name| matrix(of(name), &[256, 4])),
        );
        tensors.push(plain(of("ffn_gate_inp"), &[256, 8]));
        tensors.extend(
            ["ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"]
                .map(|name| matrix(of(name), &[256, 3, 8])),
        );
    }
    let hyper = [
        ("block_count", 8),
        ("attention.head_count", 8),
        ("attention.head_count_kv", 8),
        ("expert_count", 8),
        ("expert_used_count", 2),
    ];
    build("mixtral", "llama", &hyper, &tensors, Stored::BF16)
}

/// A model without attention. Its convolution and state matrix are never quantized.
fn mamba() -> Model {
    let mut tensors =
        vec![matrix("token_embd.weight", &[256, 32]), plain("output_norm.weight", &[256])];
    for layer in 0..4 {
        let of = |name: &str| format!("blk.{layer}.{name}");
        tensors.push(plain(of("attn_norm.weight"), &[256]));
        tensors.push(plain(of("ssm_a"), &[16, 32]));
        tensors.push(plain(of("ssm_d"), &[32]));
        tensors.push(plain(of("ssm_conv1d.weight"), &[4, 32]));
        tensors.push(matrix(of("ssm_in.weight"), &[256, 24]));
        tensors.push(matrix(of("ssm_x.weight"), &[512, 6]));
        tensors.push(matrix(of("ssm_dt.weight"), &[48, 16]));
        tensors.push(plain(of("ssm_dt.bias"), &[32]));
        tensors.push(matrix(of("ssm_out.weight"), &[512, 8]));
    }
    let hyper = [
        ("block_count", 4),
        ("ssm.conv_kernel", 4),
        ("ssm.inner_size", 512),
        ("ssm.state_size", 16),
        ("ssm.time_step_rank", 48),
    ];
    build("mamba", "mamba", &hyper, &tensors, Stored::F32)
}

/// A model with fused queries, keys and values, of an architecture with special rules.
fn tied() -> Model {
    let mut tensors =
        vec![matrix("token_embd.weight", &[256, 24]), plain("output_norm.weight", &[256])];
    for layer in 0..6 {
        let of = |name: &str| format!("blk.{layer}.{name}.weight");
        tensors.push(plain(of("attn_norm"), &[256]));
        tensors.push(matrix(of("attn_qkv"), &[256, 8]));
        tensors
            .extend(["attn_output", "ffn_up", "ffn_down"].map(|name| matrix(of(name), &[256, 6])));
    }
    let hyper = [("block_count", 6), ("attention.head_count", 8), ("attention.head_count_kv", 1)];
    build("falcon", "falcon", &hyper, &tensors, Stored::F16)
}

/// Composes a file. The file type is in the middle of the metadata, so that tests notice if the key is
/// moved.
fn build(
    name: &'static str,
    architecture: &str,
    hyper: &[(&str, u32)],
    tensors: &[Tensor],
    stored: Stored,
) -> Model {
    let ends = [
        ("context_length", Value::U32(128)),
        ("embedding_length", Value::U32(256)),
        ("feed_forward_length", Value::U32(512)),
    ];
    let epsilon = ["attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"]
        .map(|key| (key, Value::F32(0.000_01)));
    let mut pairs: Vec<(String, Value)> = vec![
        ("general.architecture".into(), architecture.into()),
        ("general.file_type".into(), Value::U32(1)),
    ];
    let hyper = hyper.iter().map(|&(key, value)| (key, Value::U32(value)));
    pairs.extend(
        ends.into_iter()
            .chain(hyper)
            .chain(epsilon)
            .map(|(key, value)| (format!("{architecture}.{key}"), value)),
    );
    let tokens = (0..5).map(|token| Value::from(&*format!("token {token}"))).collect();
    pairs.push(("tokenizer.ggml.tokens".into(), Value::Array(8, tokens)));
    pairs.push(("general.name".into(), name.into()));

    let mut file = FileBytes::v3(tensors.len() as u64, pairs.len() as u64);
    for (key, value) in &pairs {
        file.pair(key, value);
    }
    let mut data = FileBytes::new(3, ggmill_core::Endian::Little);
    for (number, tensor) in tensors.iter().enumerate() {
        let stored = if tensor.is_plain { Stored::F32 } else { stored };
        let ggml_type = match stored {
            Stored::F32 => 0,
            Stored::F16 => 1,
            Stored::BF16 => 30,
        };
        file.tensor(&tensor.name, &tensor.dimensions, ggml_type, data.position());
        for value in weights(number as u64, tensor.dimensions.iter().product()) {
            match stored {
                Stored::F32 => data.f32(value),
                Stored::F16 => data.u16(f16(value)),
                // BF16 has eight of the eleven significant bits.
                Stored::BF16 => data.u16((value.to_bits() >> 16) as u16),
            };
        }
        data.pad(32);
    }
    file.pad(32).raw(data.as_bytes());
    let is_measured = |tensor: &&Tensor| {
        !tensor.is_plain && !["token_embd.weight", "output.weight"].contains(&&*tensor.name)
    };
    let entry = |tensor: &Tensor| {
        (tensor.name.clone(), tensor.dimensions[0], tensor.dimensions.get(2).copied().unwrap_or(1))
    };
    let measured = tensors.iter().filter(is_measured).map(entry).collect();
    Model { name, file: file.into_bytes(), measured }
}

/// Returns the outputs of SplitMix64 from number `seed · 2^32 + 1` on.
pub(crate) fn random(seed: u64) -> impl Iterator<Item = u64> {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = (seed << 32).wrapping_mul(STEP);
    std::iter::repeat_with(move || {
        state = state.wrapping_add(STEP);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// Returns weights like those of a trained model: approximately normal with eleven bits, with a few
/// outliers. Each is a multiple of 1/4096.
fn weights(seed: u64, count: u64) -> impl Iterator<Item = f32> {
    let weight = |bits: u64| {
        let sum: u64 = (0..4).map(|i| (bits >> (9 * i)) & 0x1ff).sum();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_wrap,
            reason = "eleven bits and a sign"
        )]
        let value = (sum as i64 - 1022) as f32 / 4096.0;
        if bits >> 56 == 0 { value * 8.0 } else { value }
    };
    random(seed).take(usize::try_from(count).unwrap_or(usize::MAX)).map(weight)
}

/// Converts a number that is exact in half precision: zero, or a normal number with at most eleven
/// significant bits.
fn f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = (bits & 0x7fff_ffff) >> 13;
    #[expect(clippy::cast_possible_truncation, reason = "sixteen bits by construction")]
    if magnitude == 0 { sign as u16 } else { (sign | (magnitude - (112 << 10))) as u16 }
}

impl Model {
    /// Returns an importance matrix in GGUF. The count of the first matrix of each stack is 0, as for an
    /// unused expert, and the output matrix has no entry.
    pub fn imatrix(&self) -> Vec<u8> {
        let entries = self.entries();
        let mut file = FileBytes::v3(2 * entries.len() as u64, 4);
        file.pair("general.type", &"imatrix".into())
            .pair("imatrix.datasets", &Value::Array(8, vec!["one.txt".into(), "two.txt".into()]));
        file.pair("imatrix.chunk_count", &Value::U32(7))
            .pair("imatrix.chunk_size", &Value::U32(512));
        let mut data = FileBytes::new(3, ggmill_core::Endian::Little);
        for (name, columns, matrices, sums) in &entries {
            file.tensor(format!("{name}.in_sum2"), &[*columns, *matrices], 0, data.position());
            for &sum in sums {
                data.f32(sum);
            }
            data.pad(32);
            file.tensor(format!("{name}.counts"), &[1, *matrices], 0, data.position());
            for matrix in 0..*matrices {
                data.f32(if *matrices > 1 && matrix == 0 { 0.0 } else { 96.0 });
            }
            data.pad(32);
        }
        file.pad(32).raw(data.as_bytes());
        file.into_bytes()
    }

    /// Returns the importance matrix in the legacy format.
    pub fn legacy_imatrix(&self) -> Vec<u8> {
        let entries = self.entries();
        let mut file = FileBytes::new(3, ggmill_core::Endian::Little);
        let length = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        file.i32(length(entries.len()));
        for (name, _, _, sums) in &entries {
            file.i32(length(name.len())).raw(name.as_bytes()).i32(5).i32(length(sums.len()));
            for &sum in sums {
                file.f32(sum);
            }
        }
        file.i32(7).i32(7).raw(b"one.txt");
        file.into_bytes()
    }

    /// Returns name, columns, matrices and sums of each entry. The sums are mostly small, with a few zeros
    /// and a few large values.
    fn entries(&self) -> Vec<(&str, u64, u64, Vec<f32>)> {
        let sum = |bits: u64| match bits >> 60 {
            0 => 0.0,
            1 => f32::from((bits & 0xffff) as u16) * 64.0,
            _ => f32::from((bits & 0xffff) as u16) / 16.0,
        };
        let mut entries = Vec::new();
        for (number, (name, columns, matrices)) in (0x1_0000..).zip(&self.measured) {
            let count = usize::try_from(columns * matrices).unwrap_or(0);
            entries.push((
                name.as_str(),
                *columns,
                *matrices,
                random(number).take(count).map(sum).collect(),
            ));
        }
        entries
    }
}
