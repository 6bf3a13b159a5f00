use std::collections::BTreeSet;

use ggmill_arch::Architecture;
use ggmill_core::{Builder, GgmlType, Header, MetadataBuf, RawStr, keys};

use ggmill_pipeline::formats::{Legacy, LegacyContainer, LegacyFamily};
use ggmill_pipeline::{Checkpoint as _, SourceTensor};
use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_pipeline::{Expression, Recipe, RecipeTensor};

/// Hyperparameters of a LLaMA model that legacy files do not contain.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LegacyOptions {
    /// The model's name; defaults to the name of the file.
    pub name: Option<String>,
    /// Context length in tokens: 2048 for LLaMA, 4096 for LLaMA 2.
    pub context_length: u32,
    /// The epsilon of the RMS norms: 1e-6 for LLaMA, 1e-5 for LLaMA 2. Defaults to 5e-6, as in the
    /// reference.
    pub rms_norm_epsilon: f32,
    /// Number of key-value heads; defaults to the number of query heads. LLaMA 2 70B has 8.
    pub head_count_kv: Option<u32>,
}

impl Default for LegacyOptions {
    /// The reference's defaults.
    fn default() -> Self {
        Self { name: None, context_length: 2048, rms_norm_epsilon: 5e-6, head_count_kv: None }
    }
}

/// The only architecture whose legacy files are converted.
const ARCHITECTURE: &str = "llama";

/// Names of file types, as in the `general.description` that the reference writes.
const FILE_TYPES: [(u32, &str); 17] = [
    (0, "ALL_F32"),
    (1, "MOSTLY_F16"),
    (2, "MOSTLY_Q4_0"),
    (3, "MOSTLY_Q4_1"),
    (4, "MOSTLY_Q4_1_SOME_F16"),
    (7, "MOSTLY_Q8_0"),
    (8, "MOSTLY_Q5_0"),
    (9, "MOSTLY_Q5_1"),
    (10, "MOSTLY_Q2_K"),
    (11, "MOSTLY_Q3_K_S"),
    (12, "MOSTLY_Q3_K_M"),
    (13, "MOSTLY_Q3_K_L"),
    (14, "MOSTLY_Q4_K_S"),
    (15, "MOSTLY_Q4_K_M"),
    (16, "MOSTLY_Q5_K_S"),
    (17, "MOSTLY_Q5_K_M"),
    (18, "MOSTLY_Q6_K"),
];

/// Names of the tensors of a layer: legacy and current.
const LAYER_TENSORS: [(&str, &str); 9] = [
    ("attention.wq", "attn_q"),
    ("attention.wk", "attn_k"),
    ("attention.wv", "attn_v"),
    ("attention.wo", "attn_output"),
    ("attention_norm", "attn_norm"),
    ("ffn_norm", "ffn_norm"),
    ("feed_forward.w1", "ffn_gate"),
    ("feed_forward.w2", "ffn_down"),
    ("feed_forward.w3", "ffn_up"),
];
const MODEL_TENSORS: [(&str, &str); 3] =
    [("tok_embeddings", "token_embd"), ("norm", "output_norm"), ("output", "output")];

/// Converts a legacy LLaMA model to GGUF: its hyperparameters, its vocabulary, and its tensors in
/// order, with current names and types.
///
/// Metadata, names and order are those of the reference's `convert_llama_ggml_to_gguf.py`. A file
/// without tensors is a vocabulary.
///
/// # Errors
///
/// Fails for files of other models, for tensors that LLaMA does not have, for one of several parts
/// of a model, and if tensors and hyperparameters contradict each other (number of blocks, missing
/// tensors, shapes).
pub fn convert_legacy(legacy: &Legacy, options: &LegacyOptions) -> Result<Recipe> {
    converted(legacy, options).map_err(|error| error.file(legacy.path()))
}

fn converted(legacy: &Legacy, options: &LegacyOptions) -> Result<Recipe> {
    if legacy.family() != LegacyFamily::Llama {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "is a {} file of {}; only legacy files of LLaMA can be converted",
                legacy.container(),
                legacy.family()
            ),
        ));
    }
    let mut notes = Vec::new();
    let mut tensors = Vec::new();
    let layers = legacy.parameter("n_layer");
    for (number, tensor) in legacy.tensors().iter().enumerate() {
        let name = current_name(tensor.name(), layers).ok_or_else(|| {
            Error::new(ErrorKind::Checkpoint, "LLaMA has no such tensor").tensor(&tensor.name)
        })?;
        tensors.push(RecipeTensor::new(name, Expression::tensor(legacy, number)?));
    }
    let [columns, rows] = ["n_embd", "n_vocab"].map(|name| u64::from(legacy.parameter(name)));
    if let Some(embedding) = shape_of(legacy, "tok_embeddings.weight")
        .filter(|embedding| embedding.shape.dimensions() != [columns, rows])
    {
        let message = format!(
            "shape {}, but the header of the file specifies {columns} × {rows}: is it one of \
             several parts of a model?",
            embedding.shape
        );
        return Err(Error::new(ErrorKind::Checkpoint, message).tensor(&embedding.name));
    }
    notes.extend(block_notes(legacy));
    if legacy.container() == LegacyContainer::Ggml {
        notes.push("the file has no scores for its tokens; they are 0".to_owned());
    }
    let metadata = metadata(legacy, options, &mut notes)?;
    if !tensors.is_empty() {
        refuse_missing_blocks(&tensors, layers)?;
        refuse_contradictions(&tensors, &metadata)?;
    }
    let mut recipe = Recipe::new(metadata, tensors);
    recipe.notes = notes;
    Ok(recipe)
}

/// Fails if the number of blocks differs from the header. Checked first, because the description
/// allocates memory for each block of the header.
fn refuse_missing_blocks(tensors: &[RecipeTensor], expected: u32) -> Result<()> {
    let block = |tensor: &RecipeTensor| {
        Some(tensor.name.strip_prefix(b"blk.")?.split(|&byte| byte == b'.').next()?.to_vec())
    };
    let found = tensors.iter().filter_map(block).collect::<BTreeSet<_>>().len();
    if u32::try_from(found) == Ok(expected) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Checkpoint,
        format!("n_layer is {expected}, but there are tensors of {found} layers"),
    ))
}

/// Fails if the tensors are not those that the description of LLaMA expects for these
/// hyperparameters.
fn refuse_contradictions(tensors: &[RecipeTensor], metadata: &MetadataBuf) -> Result<()> {
    let broken = |error: ggmill_core::Error| Error::caused(ErrorKind::Checkpoint, error);
    let refused = |error: ggmill_arch::Error| Error::caused(ErrorKind::Checkpoint, error);
    let Some(llama) = Architecture::builtin(ARCHITECTURE) else {
        return Err(Error::new(ErrorKind::Architecture, "there is no description of LLaMA"));
    };
    let plan = Builder::new().metadata(metadata.clone()).plan().map_err(broken)?;
    let file = Header::parse(plan.header()).map_err(broken)?;
    let expected = llama.resolve_file(file.metadata()).map_err(refused)?;
    let names: BTreeSet<&[u8]> = tensors.iter().map(|tensor| &*tensor.name).collect();
    for tensor in expected.tensors() {
        let name = tensor.name.as_bytes();
        if tensor.required && !names.contains(name) {
            return Err(Error::new(ErrorKind::Checkpoint, "is missing").tensor(name));
        }
    }
    for tensor in tensors {
        let expected =
            std::str::from_utf8(&tensor.name).ok().and_then(|name| expected.tensor(name));
        if let Some(expected) = expected.filter(|expected| expected.shape != *tensor.shape()) {
            let message = format!(
                "shape {}, expected {} for a model with these hyperparameters",
                tensor.shape(),
                expected.shape
            );
            return Err(Error::new(ErrorKind::Checkpoint, message).tensor(&tensor.name));
        }
    }
    Ok(())
}

fn shape_of<'a>(legacy: &'a Legacy, name: &str) -> Option<&'a SourceTensor> {
    legacy.tensors().iter().find(|tensor| tensor.name == name.as_bytes())
}

/// Returns the current name of a tensor.
fn current_name(name: RawStr<'_>, layers: u32) -> Option<String> {
    let name = name.to_str().ok()?;
    let (stem, suffix) = [".weight", ".bias"]
        .into_iter()
        .find_map(|suffix| Some((name.strip_suffix(suffix)?, suffix)))
        .unwrap_or((name, ""));
    if let Some((_, now)) = MODEL_TENSORS.iter().find(|(then, _)| *then == stem) {
        return Some(format!("{now}{suffix}"));
    }
    let (layer, part) = stem.strip_prefix("layers.")?.split_once('.')?;
    let layer: u32 = layer.parse().ok().filter(|layer| *layer < layers)?;
    let (_, now) = LAYER_TENSORS.iter().find(|(then, _)| *then == part)?;
    Some(format!("blk.{layer}.{now}{suffix}"))
}

/// Returns a note about the conversion of old blocks for each type.
fn block_notes(legacy: &Legacy) -> Vec<String> {
    let mut seen: Vec<GgmlType> = Vec::new();
    let mut notes = Vec::new();
    for (number, tensor) in legacy.tensors().iter().enumerate() {
        let Some(note) = legacy.block_note(number).filter(|_| !seen.contains(&tensor.ggml_type))
        else {
            continue;
        };
        seen.push(tensor.ggml_type);
        let loss = if note.contains("f32") {
            "; scales are converted to F16, each with an error of up to one part in 2048"
        } else {
            "; the conversion is lossless"
        };
        notes.push(format!("{} of {} had {note}{loss}", tensor.ggml_type, legacy.container()));
    }
    notes
}

fn metadata(
    legacy: &Legacy,
    options: &LegacyOptions,
    notes: &mut Vec<String>,
) -> Result<MetadataBuf> {
    let [embedding, heads, layers, file_type] =
        ["n_embd", "n_head", "n_layer", "ftype"].map(|name| legacy.parameter(name));
    if heads == 0 {
        return Err(Error::new(ErrorKind::Checkpoint, "n_head is 0"));
    }
    let type_name =
        FILE_TYPES.iter().find(|(number, _)| *number == file_type).map(|(_, name)| *name);
    let type_name = type_name.ok_or_else(|| {
        Error::new(ErrorKind::Checkpoint, format!("ftype is {file_type}, which is not a file type"))
    })?;
    let (magic, version) = (legacy.container().magic(), legacy.container().version());
    let mut metadata = MetadataBuf::new();
    metadata.set(keys::GENERAL_ARCHITECTURE, ARCHITECTURE);
    let file_name = || legacy.path().file_name().map(|name| name.to_string_lossy().into_owned());
    if let Some(name) = options.name.clone().or_else(file_name) {
        metadata.set(keys::GENERAL_NAME, name.as_str());
    }
    metadata.set(
        keys::GENERAL_DESCRIPTION,
        format!("converted from legacy {magic}v{version} {type_name} format").as_str(),
    );
    metadata.set(keys::GENERAL_FILE_TYPE, file_type);
    metadata.set("llama.context_length", options.context_length);
    metadata.set("llama.embedding_length", embedding);
    metadata.set("llama.block_count", layers);
    match shape_of(legacy, "layers.0.feed_forward.w1.weight")
        .and_then(|tensor| tensor.shape.dimensions().get(1).copied())
    {
        Some(length) => {
            metadata.set("llama.feed_forward_length", u32::try_from(length).unwrap_or(u32::MAX));
        }
        None => notes.push(
            "there are no layers, so the feed-forward length is unknown: the file contains only a \
             vocabulary"
                .to_owned(),
        ),
    }
    metadata.set("llama.rope.dimension_count", embedding / heads);
    metadata.set("llama.attention.head_count", heads);
    metadata.set("llama.attention.head_count_kv", options.head_count_kv.unwrap_or(heads));
    metadata.set("llama.attention.layer_norm_rms_epsilon", options.rms_norm_epsilon);
    vocabulary(legacy, &mut metadata)?;
    Ok(metadata)
}

/// Sets the tokens as SentencePiece writes them: spaces as U+2581, bytes as `<0x0A>`, the first
/// three are special by their position.
fn vocabulary(legacy: &Legacy, metadata: &mut MetadataBuf) -> Result<()> {
    const NORMAL: i32 = 1;
    const UNKNOWN: i32 = 2;
    const CONTROL: i32 = 3;
    const BYTE: i32 = 6;
    let count = legacy.vocabulary().len();
    if count < 3 {
        return Err(Error::new(
            ErrorKind::Checkpoint,
            format!("{count} tokens, expected a vocabulary"),
        ));
    }
    let (mut tokens, mut scores, mut types) =
        (Vec::with_capacity(count), Vec::with_capacity(count), Vec::with_capacity(count));
    for (number, (token, score)) in legacy.vocabulary().enumerate() {
        let (token, token_type) = match (number, token) {
            (0, _) => (b"<unk>".to_vec(), UNKNOWN),
            (1, _) => (b"<s>".to_vec(), CONTROL),
            (2, _) => (b"</s>".to_vec(), CONTROL),
            (_, []) => (Vec::new(), CONTROL),
            (3..=258, [byte]) => (format!("<0x{byte:02X}>").into_bytes(), BYTE),
            (_, text) => (
                text.split(|&byte| byte == b' ').collect::<Vec<_>>().join("\u{2581}".as_bytes()),
                NORMAL,
            ),
        };
        tokens.push(token);
        scores.push(score);
        types.push(token_type);
    }
    metadata.set(keys::TOKENIZER_MODEL, "llama");
    metadata.set(keys::TOKENIZER_PRE, "default");
    metadata.set(
        keys::TOKENIZER_TOKENS,
        tokens.iter().map(|token| RawStr::new(token)).collect::<Vec<_>>(),
    );
    metadata.set(keys::TOKENIZER_SCORES, scores);
    metadata.set(keys::TOKENIZER_TOKEN_TYPE, types);
    metadata.set("tokenizer.ggml.unknown_token_id", 0u32);
    metadata.set("tokenizer.ggml.bos_token_id", 1u32);
    metadata.set("tokenizer.ggml.eos_token_id", 2u32);
    Ok(())
}
