//! The wording of the library's hints and notes for the command: they name its options.

use std::borrow::Cow;
use std::path::Path;

use ggmill::{Hint, Note, display_path};
use ggmill_core::RawStr;
use ggmill_run::Chunks;

/// The hint for a checkpoint of an unknown class, and for an architecture without a description.
pub(crate) const ARCH_FILE_HINT: &str = "--arch-file adds a description of your own; \
                                         `ggmill explain ARCHITECTURE --description` prints one to \
                                         start from";

/// The hint for a text with fewer tokens than two chunks.
const SMALLER_CHUNKS: &str = "--ctx N takes smaller chunks, of at most half the tokens of the text";

/// Returns a hint that names options; `None` if the message names them already. The wording fits
/// every command that has the option.
pub(crate) fn hint(hint: &Hint) -> Option<String> {
    Some(match hint {
        Hint::NotSupported { .. } | Hint::OnlyAdapters | Hint::OnlyDrafts => return None,
        _ => text(hint),
    })
}

#[expect(clippy::too_many_lines, reason = "one sentence for each hint")]
pub(crate) fn text(hint: &Hint) -> String {
    let text = match hint {
        Hint::Overwrite => "--force replaces it",
        Hint::CreateDirectory(path) => {
            return format!("`mkdir -p {}` creates the directory", display_path(path));
        }
        Hint::OtherDirectory => {
            "an existing directory is not replaced: remove it, or choose a different one with -o"
        }
        Hint::Recover => "`ggmill edit --recover FILE` finishes or undoes it",
        Hint::ReadAsStream => {
            "this is not a regular file; pass it as standard input, with - as FILE"
        }
        Hint::OpenAlone => "--alone inspects one file by itself",
        Hint::ImportanceMatrix => {
            "--imatrix FILE gives the importance matrix of this model, as created by `ggmill \
             imatrix make` or llama-imatrix"
        }
        Hint::TypeWithoutImportance => {
            "--tensor-type PATTERN=TYPE, such as --tensor-type attn_v_b=q4_k, gives these tensors a type that \
             needs no importance weights"
        }
        Hint::KeepInBf16(tensor, row_len) => {
            return format!(
                "rows of {row_len} elements fit no block type, so the type is F16; --tensor-type \
                 '^{}$=bf16' keeps the values",
                tensor.replace('.', "\\.")
            );
        }
        Hint::CheckData => "`ggmill check FILE --data` finds all such values",
        Hint::AllowZeros => "choose another type for this tensor, or write it with --allow-zeros",
        Hint::CheckWeights => "`ggmill check --data FILE` lists the weights that are not finite",
        Hint::AllowRequantize => {
            "--allow-requantize quantizes them anyway; quantizing from a 16-bit or 32-bit file \
             loses less"
        }
        Hint::Smaller { requantize, importance } => {
            let requantize = requantize.then_some(
                "--allow-requantize requantizes tensors that are already quantized, which loses \
                 quality",
            );
            let importance = importance
                .then_some("with an importance matrix (--imatrix FILE), smaller types can be used");
            let all: Vec<&str> = requantize.into_iter().chain(importance).collect();
            return all.join("; ");
        }
        Hint::TensorPattern { meant: Some(meant), ggml_type } => {
            return format!("did you mean --tensor-type {meant}={ggml_type}?");
        }
        Hint::PlanWithSensitivities => {
            "`ggmill quantize MODEL --target-bpw BITS --measure TEXT --dry-run --json` writes a plan \
             with sensitivities"
        }
        Hint::NamePreTokenizer => {
            "--pre NAME sets the pre-tokenizer name without checking it; --no-vocab converts only \
             the weights"
        }
        Hint::OtherPreTokenizer => "--pre NAME tokenizes with a different pre-tokenizer",
        Hint::AssumeDefaults => {
            "--assume-defaults converts with the assumed values: the file computes something else \
             than the checkpoint"
        }
        Hint::OmitVocabulary => "--no-vocab converts only the weights",
        Hint::OmitTokenizer => "--no-vocab omits the tokenizer",
        Hint::VocabularyOnly => "--vocab-only writes only the files of its tokenizer",
        Hint::DescribeArchitecture => ARCH_FILE_HINT,
        Hint::DescribeGraph(near) => {
            let similar = match near {
                Some(near) => format!(
                    "the most similar name is {near}: `ggmill explain {near} --description` prints \
                     its description, to change a copy of it"
                ),
                None => "`ggmill architectures` lists the known ones, and `ggmill explain NAME \
                         --description` prints a description, to change a copy of it"
                    .to_owned(),
            };
            return format!("--arch-file FILE adds a description with a graph; {similar}");
        }
        Hint::DescribeThis => "--arch-file adds a description of your own",
        Hint::DraftDescription { nearest, .. } => {
            return format!(
                "`ggmill architectures new CLASS DIR > mine.toml` writes a first draft of a \
                 description, based on that of {nearest}, whose tensors have the most similar names: \
                 complete it with what the comments at its top list, and pass it with --arch-file \
                 mine.toml"
            );
        }
        Hint::NameBase => {
            "--base names the base model: its GGUF file, or its directory, in which config.json is \
             sufficient"
        }
        Hint::NameTarget => "--target DIR names the directory of the target model",
        Hint::TokenizerFiles(has_config) => {
            let (config, rest) = if *has_config {
                ("", "")
            } else {
                ("with config.json, ", ", and `ggmill tokenize DIR TEXT` needs only these files")
            };
            return format!(
                "the directory has tokenizer files: {config}--vocab-only converts the vocabulary \
                 without weights{rest}"
            );
        }
        Hint::AlreadyGguf => {
            "--to safetensors converts it to a checkpoint; `ggmill quantize` changes the types of \
             its tensors, `ggmill edit` its metadata, and `ggmill repack` its alignment, byte order \
             or format version"
        }
        Hint::OnlyMixtures => "they apply to quantized types and mixtures, such as --type Q4_K_M",
        Hint::KeepsTypes => {
            "without --type, the tensors keep their types; `ggmill quantize` can change them \
             afterwards"
        }
        Hint::SkipCheck => "--no-check writes the file anyway",
        Hint::SmallerChunks(tokens) => return smaller_chunks(*tokens),
        Hint::LargerChunks => "--ctx N takes larger chunks",
        Hint::MoreMemory => "--memory SIZE allows more, --ctx N needs less",
        Hint::SourceVectors => {
            "`ggmill check FILE --run` runs it over made-up vectors, and `ggmill check FILE \
             --run=LOGITS.gguf` over recorded ones"
        }
        Hint::DecoderStart => {
            "`ggmill edit FILE --set ARCHITECTURE.decoder_start_token_id=ID` adds it; the ID is \
             decoder_start_token_id in the config.json of the checkpoint (0 for T5)"
        }
        Hint::Pattern(meant) => return format!("did you mean '{}'?", RawStr::from(&**meant)),
        Hint::OneShard => "pass only one shard: the others are found from its name",
        Hint::KeepShards => "without --delete-shards they are concatenated anyway",
        Hint::NothingReplaced { similar: None, .. } => "--add adds them",
        Hint::NothingReplaced { path, similar: Some(similar) } => {
            let such = if similar.is_empty() {
                String::new()
            } else {
                format!(", such as {}, of the same shape", similar.join(" or "))
            };
            let path = display_path(path);
            return format!("--from NAME={path} names the tensor to replace{such}; --add adds it");
        }
        Hint::TakeOne => "--take selects one of them",
        Hint::MetadataPatch => {
            "a patch is a JSON object of keys and values, with null for a key to remove: \
             {\"general.name\": \"New\", \"general.url\": null}; `ggmill extract FILE --key GLOB -o \
             patch.json` writes one with the values of a file"
        }
        Hint::OutputFormat => {
            "use --format, or a name that ends in .gguf, .safetensors, .npy or .json, or in / for a \
             directory"
        }
        Hint::TensorDirectory => {
            "with a / at its end, OUT is a directory with a file for each tensor"
        }
        Hint::OnlyMetadata => "--key GLOB selects keys; `ggmill inspect --json` lists tensors",
        Hint::SelectKeys => {
            "--key selects entries; `ggmill inspect --json --full` shows all of them"
        }
        Hint::EditInPlace => "without -o, the file itself is edited",
        Hint::EditCopy(true) => {
            "edit the file that the link points to, if nothing else relies on it; -o writes a copy"
        }
        Hint::EditCopy(false) => "-o writes an edited copy",
        Hint::RemovePadding => "--unset ggmill.padding removes it",
        Hint::TokenByNumber(key) => {
            return format!("--set {key}=ID sets the token by its number");
        }
        Hint::ForceEdit => "--force makes the edit anyway",
        Hint::ForceTemplate => "--force sets it anyway",
        Hint::DataNeedsFiles => "--data requires files",
        Hint::NamingKeys => {
            "`ggmill edit` sets the keys: general.basename, general.size_label, general.finetune, \
             general.version"
        }
        Hint::CompareEmbeddings => {
            "--against BASE gives the cosine of its embeddings with those of another model"
        }
        Hint::SelectPreTokenizer => "--pre NAME selects the pre-tokenizer",
        Hint::SetTemplate => {
            "`ggmill edit MODEL --chat-template FILE` sets one: a Jinja file, or the \
             tokenizer_config.json of the checkpoint"
        }
        Hint::SetVariable(name) => return format!("--set {name}='…' sets it"),
        Hint::SimilarKeys(keys) if keys.is_empty() => {
            "`ggmill inspect FILE --metadata` lists the keys"
        }
        Hint::ExtractMatching => {
            "only one value is printed; `ggmill extract FILE --key GLOB -o -` prints all matching \
             entries as JSON"
        }
        Hint::NewIndex => "--force writes a new index",
        Hint::UpdateOrOverwrite => "--resume updates it, --force replaces it",
        Hint::ChunkSize(tokens) => return format!("--ctx {tokens} continues it"),
        Hint::MergeImatrices => "-o another file, and join both with `ggmill imatrix merge`",
        Hint::SameMatrices(true) => {
            "add --process-output or --all-matrices, whichever it was measured with, to continue it"
        }
        Hint::SameMatrices(false) => "leave out --process-output or --all-matrices to continue it",
        Hint::TokenIds(first) => return token_ids(first.as_deref(), "--tokens"),
        #[cfg(feature = "remote")]
        Hint::Remote(advice) => match crate::remote::advice(advice) {
            Some(text) => return text,
            None => return hint.to_string(),
        },
        _ => return hint.to_string(),
    };
    text.to_owned()
}

/// Returns the command's spelling of a library option, for the error about an option that a source
/// does not support.
pub(crate) fn flag(option: &str) -> String {
    match option {
        "architectures" => "--arch-file".to_owned(),
        "check" => "--no-check".to_owned(),
        "logits" => "--verify".to_owned(),
        "split" => "--split-max-size and --split-max-tensors".to_owned(),
        "target_size" => "--target-size and --target-bpw".to_owned(),
        "types" => "options for quantization".to_owned(),
        _ => format!("--{}", option.replace('_', "-")),
    }
}

/// Returns the hint that `option` takes token IDs, after `first`, another hint for the same error.
pub(crate) fn token_ids(first: Option<&Hint>, option: &str) -> String {
    let instead = format!("{option} IDS.json takes the IDs of tokens instead");
    match first {
        Some(first) => format!("{}; {instead}", text(first)),
        None => instead,
    }
}

/// Returns the hint for a text with too few tokens: the largest `--ctx` that works, or that none does.
fn smaller_chunks(tokens: Option<usize>) -> String {
    let Some(tokens) = tokens else { return SMALLER_CHUNKS.to_owned() };
    let context = tokens / 2;
    if context < Chunks::MIN_CONTEXT {
        return "a longer text is needed: it is too short for any --ctx".to_owned();
    }
    format!("{SMALLER_CHUNKS}: --ctx {context}")
}

/// Returns the text of a note, which names options if some help.
pub(crate) fn note(note: &Note) -> Cow<'static, str> {
    match note {
        Note::SensitivitiesWithImportance(path) => format!(
            "{}: the sensitivities were measured with an importance matrix; without --imatrix the \
             choice is worse, and so is the result",
            display_path(path)
        )
        .into(),
        Note::Interrupted(path) => format!(
            "an edit of this file was interrupted: its journal {} is next to the file; `ggmill edit \
             --recover {}` finishes or undoes it",
            display_path(Path::new(ggmill_io::journal_path(path).file_name().unwrap_or_default())),
            display_path(path)
        )
        .into(),
        Note::NoWholeChunk(_) => format!("{note}; --chunk-size changes the size of a chunk").into(),
        Note::Rounded(chosen) => format!("{chosen}; --type F32 avoids rounding").into(),
        Note::HasEncoders => {
            "the checkpoint has vision or audio encoders; --mmproj converts them".into()
        }
        Note::NoTokenizer => {
            "the checkpoint has no tokenizer files, so the model cannot process text; add them \
             (tokenizer.json or tokenizer.model, tokenizer_config.json), or use --no-vocab"
                .into()
        }
        Note::CachedCopy(name) => format!(
            "the directory is the cached copy of {name:?}; --name sets this as the model's name"
        )
        .into(),
        _ => note.to_string().into(),
    }
}
