//! Tiny models with random weights, generated from the descriptions. The tests run them, and `python3
//! conformance/run.py logits` runs them with libllama.

mod cases;

use std::sync::LazyLock;

use ggmill_arch::graph::{Function, Operation};
use ggmill_arch::{Architecture, TensorSpec};
use ggmill_core::{Builder, Endian, GgmlType, MetadataBuf, Model, ReadAt, Shape};
use ggmill_run::{Program, Result, Runner, Source, States};

/// A metadata value.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    U(u32),
    F(f32),
    B(bool),
    S(&'static str),
    Bools(&'static [bool]),
    Us(&'static [u32]),
    U64s(&'static [u64]),
    Is(&'static [i32]),
    Fs(&'static [f32]),
}
use Value::{B, Bools, F, Fs, Is, S, U, U64s, Us};

/// A model: its name, architecture, metadata keys, and the optional tensors that it has.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) architecture: &'static str,
    keys: &'static [(&'static str, Value)],
    optional: &'static [&'static str],
    /// The vocabulary size, and the length of the recorded text.
    vocabulary: usize,
    text: usize,
}

/// A modification of a model file.
#[derive(Default)]
pub(crate) struct Change {
    pub(crate) endian: Endian,
    /// A tensor to omit.
    pub(crate) without: Option<&'static str>,
    /// A tensor whose shape to change.
    pub(crate) shape: Option<(&'static str, &'static [u64])>,
    /// A replacement for the text of the last token.
    pub(crate) vocabulary: Option<&'static str>,
    /// A tensor element to set to NaN.
    pub(crate) nan: Option<(&'static str, usize)>,
}

const fn case(
    name: &'static str,
    architecture: &'static str,
    keys: &'static [(&'static str, Value)],
    optional: &'static [&'static str],
) -> Case {
    Case { name, architecture, keys, optional, vocabulary: 259, text: TOKENS.len() }
}

/// Default metadata keys of a model, which a case can override.
const NUMBERS: &[(&str, Value)] = &[
    ("block_count", U(2)),
    ("context_length", U(64)),
    ("embedding_length", U(32)),
    ("feed_forward_length", U(48)),
    ("attention.head_count", U(4)),
    ("attention.head_count_kv", U(2)),
    ("attention.layer_norm_rms_epsilon", F(1e-5)),
    ("attention.layer_norm_epsilon", F(1e-5)),
];
/// All models, with those of [`cases::common`] first.
pub(crate) static CASES: LazyLock<Vec<&'static Case>> =
    LazyLock::new(|| cases::FAMILIES.iter().copied().flatten().collect());

/// The tokens of the text, unless a case has a different length.
pub(crate) const TOKENS: [u32; 24] = [
    1, 35, 102, 70, 200, 35, 36, 99, 258, 3, 17, 102, 70, 200, 35, 36, 150, 42, 4, 4, 4, 77, 230, 9,
];
/// The number of tokens of a text, at equal distances, whose output is recorded.
pub(crate) const RECORDED: usize = 8;
/// The source of that text, for models with an encoder.
pub(crate) const SOURCE: [u32; 11] = [61, 7, 243, 99, 15, 15, 180, 32, 5, 111, 2];

/// Returns as many source vectors of length `width`, for models whose source is vectors.
pub(crate) fn source_vectors(width: u64) -> Vec<f32> {
    let mut numbers = Chance(11);
    (0..width * SOURCE.len() as u64).map(|_| numbers.next()).collect()
}

/// The models that libllama cannot run; their logits are recorded from `transformers`.
pub(crate) const UNLOADED: [&str; 3] = ["gptj", "rwkv", "whisper"];
/// The model that libllama computes with rounded operands: `logits_wavtokenizer.py` computes it in
/// double precision.
pub(crate) const ROUNDED: &str = "wavtokenizer-dec";
/// The models with recorded activations.
pub(crate) const MEASURED: [&str; 7] =
    ["llama", "llama-experts", "phi3", "gpt2", "gemma2", "qwen2moe", "gpt-oss"];

impl Case {
    pub(crate) fn described(&self) -> &'static Architecture {
        Architecture::builtin(self.architecture).unwrap()
    }

    /// Returns the text whose output is recorded: [`TOKENS`], extended if the text is longer.
    pub(crate) fn text(&self) -> Vec<u32> {
        let others = (0u32..).map(|place| 3 + (place * place * 31 + place * 7) % 251);
        TOKENS.into_iter().chain(others).take(self.text).collect()
    }

    fn metadata(&self, last: Option<&str>) -> MetadataBuf {
        let mut metadata = MetadataBuf::new();
        metadata.set("general.architecture", self.architecture);
        vocabulary(&mut metadata, self.vocabulary, last);
        let known = self.described();
        let other = |key: &str| self.keys.iter().all(|(other, _)| *other != key);
        let defaults = NUMBERS.iter().filter(|(key, _)| {
            let described =
                |key: &str| known.key_types(&format!("{}.{key}", self.architecture)).is_some();
            other(key) && described(key)
        });
        for (key, value) in defaults.chain(self.keys) {
            let whole = format!("{}.{key}", self.architecture);
            let is_whole = key.starts_with("tokenizer.") || key.starts_with("xielu.");
            let key = if is_whole { *key } else { &*whole };
            match *value {
                U(value) => metadata.set(key, value),
                F(value) => metadata.set(key, value),
                B(value) => metadata.set(key, value),
                S(value) => metadata.set(key, value),
                Bools(values) => metadata.set(key, values),
                Us(values) => metadata.set(key, values),
                U64s(values) => metadata.set(key, values),
                Is(values) => metadata.set(key, values),
                Fs(values) => metadata.set(key, values),
            }
        }
        metadata
    }

    /// Returns `true` if the case lists a tensor, by a prefix of its name with the block number, or without it
    /// for all blocks.
    fn lists(&self, tensor: &str) -> bool {
        let name = tensor.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        let name = name.map_or(tensor, |(_, name)| name);
        let begins = |listed: &&str| {
            let mut rests = [name, tensor].into_iter().filter_map(|it| it.strip_prefix(*listed));
            rests.any(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.optional.iter().any(begins)
    }

    fn has(&self, spec: &TensorSpec) -> bool {
        let is_listed = || self.lists(&spec.name);
        if spec.tied.is_some() || !spec.required {
            return is_listed();
        }
        // One of two mutually exclusive tensors.
        spec.unless.as_ref().is_none_or(|other| !self.lists(other))
    }

    /// Returns the bytes of the file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.changed(&Change::default())
    }

    /// Returns the bytes of the file with a modification.
    pub(crate) fn changed(&self, change: &Change) -> Vec<u8> {
        let metadata = self.metadata(change.vocabulary);
        let resolved = self.described().resolve_metadata(&metadata).unwrap();
        let has = |spec: &&TensorSpec| self.has(spec) && change.without != Some(&*spec.name);
        let specs: Vec<_> = resolved.tensors().iter().filter(has).collect();
        let mut builder = Builder::new().endian(change.endian).metadata(metadata);
        for spec in &specs {
            let other = change.shape.filter(|(name, _)| *name == spec.name);
            let shape = other.map_or(spec.shape, |(_, shape)| Shape::new(shape).unwrap());
            let kind = if is_table(spec) { GgmlType::I32 } else { GgmlType::F32 };
            builder = builder.tensor(&spec.name, kind, shape);
        }
        let plan = builder.plan().unwrap();
        let mut file = vec![0; usize::try_from(plan.total_len()).unwrap()];
        file[..plan.header().len()].copy_from_slice(plan.header());
        let seed = self.name.bytes();
        let seed = seed.fold(7u64, |seed, byte| seed.wrapping_mul(31) ^ u64::from(byte));
        let mut numbers = Chance(seed);
        for (planned, spec) in plan.tensors().iter().zip(&specs) {
            let start = usize::try_from(planned.offset()).unwrap();
            let size = usize::try_from(planned.size()).unwrap();
            for (place, bytes) in file[start..start + size].chunks_exact_mut(4).enumerate() {
                if is_table(spec) {
                    let expert = expert(place, spec);
                    bytes.copy_from_slice(&match change.endian {
                        Endian::Big => expert.to_be_bytes(),
                        Endian::Little => expert.to_le_bytes(),
                    });
                    continue;
                }
                let mut weight = numbers.weight(spec);
                if change.nan == Some((&*spec.name, place)) {
                    weight = f32::NAN;
                }
                bytes.copy_from_slice(&match change.endian {
                    Endian::Big => weight.to_be_bytes(),
                    Endian::Little => weight.to_le_bytes(),
                });
            }
        }
        file
    }

    pub(crate) fn model(&self) -> Model {
        Model::open(self.bytes()).unwrap()
    }

    /// Returns a model whose file changes after it is opened.
    pub(crate) fn changing(&self) -> Model {
        Model::open(Changing(self.bytes())).unwrap()
    }
}

/// Returns the maximum NMSE (the sum of squared differences divided by the sum of squares) compared with
/// libllama. ggml looks up GELU in a half-precision table.
pub(crate) fn greatest_error(program: &Program<'_>) -> f64 {
    let operations = program.graph().nodes().iter().map(|node| &node.operation);
    let looked_up = operations.filter(|operation| **operation == Operation::Apply(Function::Gelu));
    // Both the argument and the result of the lookup have a relative error of up to 2⁻¹¹.
    looked_up.fold(1e-11, |limit, _| limit + 6e-8)
}

/// Runs a model on texts. For a model with an encoder, the source of [`TOKENS`] is [`SOURCE`], and other texts
/// have a shorter source.
pub(crate) fn states(runner: &Runner, program: &Program<'_>, texts: &[&[u32]]) -> Result<States> {
    if !program.has_source() {
        return runner.states(program, texts);
    }
    let skipped = |text: &&[u32]| if **text == TOKENS { 0 } else { 4 };
    let Some(width) = program.source_width() else {
        let sources = texts.iter().map(|text| Source::tokens(&SOURCE[skipped(text)..]));
        return runner.states_with_sources(program, texts, &sources.collect::<Vec<_>>());
    };
    let (vectors, width) = (source_vectors(width), usize::try_from(width).unwrap());
    let sources = texts.iter().map(|text| Source::vectors(&vectors[skipped(text) * width..]));
    runner.states_with_sources(program, texts, &sources.collect::<Vec<_>>())
}

/// A file that changes after it is opened.
#[derive(Debug)]
struct Changing(Vec<u8>);

impl ReadAt for Changing {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> ggmill_core::Result<()> {
        self.0.read_at(offset, out)
    }

    fn verify(&self) -> ggmill_core::Result<()> {
        let cause = std::io::Error::other("the file changed");
        Err(ggmill_core::Error::caused(ggmill_core::ErrorKind::Io, cause))
    }
}

/// Returns `true` if a tensor has the experts of each token, as integers.
fn is_table(spec: &TensorSpec) -> bool {
    spec.name.contains("tid2eid")
}

/// Returns an element of such a tensor: distinct experts below 6 for each token.
fn expert(place: usize, spec: &TensorSpec) -> i32 {
    let used = usize::try_from(spec.shape.dimensions()[0]).unwrap();
    i32::try_from((5 * (place / used) + place % used) % 6).unwrap()
}

/// A pseudorandom generator, which gives the same numbers on every machine.
struct Chance(u64);

impl Chance {
    /// Returns a number from -1 to 1.
    fn next(&mut self) -> f32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bits = u16::try_from(self.0 >> 48).unwrap();
        f32::from(bits) / 32_768.0 - 1.0
    }

    fn weight(&mut self, spec: &TensorSpec) -> f32 {
        let (name, x) = (&spec.name, self.next());
        let columns = u16::try_from(spec.shape.dimensions()[0]).unwrap();
        if name.starts_with("rope_") {
            2.0 + x
        } else if name.split('.').next_back() == Some("bias") {
            0.2 * x
        } else if name.contains("norm") {
            1.0 + 0.3 * x
        } else if name.contains("embd") || name.contains("token_types") {
            x
        } else {
            x * (3.0 / f32::from(columns)).sqrt()
        }
    }
}

/// Returns a minimal vocabulary that loaders accept: three special tokens, a token per byte, and other tokens
/// up to the vocabulary size.
fn vocabulary(metadata: &mut MetadataBuf, size: usize, last: Option<&str>) {
    let bytes = (0..256).map(|byte| format!("<0x{byte:02X}>"));
    let others = (259..size).map(|other| format!("other {other}"));
    let more: Vec<String> = bytes.chain(others).collect();
    let mut tokens: Vec<&str> =
        ["<unk>", "<s>", "</s>"].into_iter().chain(more.iter().map(String::as_str)).collect();
    if let (Some(token), Some(last)) = (tokens.last_mut(), last) {
        *token = last;
    }
    let mut types = vec![1; tokens.len()];
    types[..3].copy_from_slice(&[2, 3, 3]);
    types[3..259].fill(6);
    metadata.set("tokenizer.ggml.model", "llama");
    metadata.set("tokenizer.ggml.tokens", tokens.as_slice());
    metadata.set("tokenizer.ggml.scores", vec![0.0f32; tokens.len()].as_slice());
    metadata.set("tokenizer.ggml.token_type", types.as_slice());
    metadata.set("tokenizer.ggml.bos_token_id", 1u32);
    metadata.set("tokenizer.ggml.eos_token_id", 2u32);
    metadata.set("tokenizer.ggml.unknown_token_id", 0u32);
}
