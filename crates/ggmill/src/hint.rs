//! Advice for errors.

use std::fmt;
use std::path::PathBuf;

use ggmill_core::{GgmlType, RawStr};
use ggmill_inspect::FileKind;

use crate::display_path;

/// Advice for an [`Error`](crate::Error), as data, so that a program can word it in its own terms: the
/// `ggmill` command names its options. [`Display`](fmt::Display) uses the terms of this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// Allow overwriting.
    Overwrite,
    /// Create this directory.
    CreateDirectory(PathBuf),
    /// Choose a different output: an existing directory is not replaced.
    OtherDirectory,
    /// Recover the file: finish or undo the edit of it that was interrupted.
    Recover,
    /// The file is not GGUF, but of this kind.
    Content(FileKind),
    /// Download the rest of the file, or the whole file again.
    DownloadRest,
    /// The file is damaged or truncated.
    DownloadAgain,
    /// The file is damaged, or newer than this version of the crate.
    DamagedOrNewer,
    /// The path is a directory with a checkpoint, which can be converted.
    CheckpointDirectory,
    /// The path is a directory with these GGUF files, and with more if the flag is set.
    GgufFiles(Vec<String>, bool),
    /// The path is not a regular file; it can be read as a stream.
    ReadAsStream,
    /// Open this shard alone.
    OpenAlone,
    /// A repository on the Hugging Face Hub has this name.
    Repository(String),
    /// An importance matrix of the model is needed.
    ImportanceMatrix,
    /// The importance matrix lacks tensors: give them a type that needs no importance weights.
    TypeWithoutImportance,
    /// F16 was chosen because the rows, of this length, fit no block type, and it cannot hold the values of
    /// this tensor: BF16 can.
    KeepInBf16(String, u64),
    /// Find the values that are not finite, or out of range.
    CheckData,
    /// Choose another type, or allow tensors whose values all become zero.
    AllowZeros,
    /// Find the weights that are not finite.
    CheckWeights,
    /// Allow requantizing tensors that are already quantized.
    AllowRequantize,
    /// Options that allow a smaller result.
    Smaller {
        /// Requantizing tensors that are already quantized.
        requantize: bool,
        /// An importance matrix, with which smaller types can be used.
        importance: bool,
    },
    /// Names of types that are similar to the unknown one.
    SimilarTypes(Vec<&'static str>),
    /// The type was removed from GGML: programs repack Q4_0 when they load it.
    RemovedType,
    /// A pattern matches no tensor name.
    TensorPattern {
        /// A similar pattern that matches.
        meant: Option<String>,
        /// The type in the same rule.
        ggml_type: GgmlType,
    },
    /// Measuring applies to the whole model: remove the layers first.
    PruneFirst,
    /// Set the size that types are chosen for.
    NameSize,
    /// The plan lacks sensitivities, which a plan of measured types contains.
    PlanWithSensitivities,
    /// Name the pre-tokenizer, or omit the vocabulary.
    NamePreTokenizer,
    /// Tokenize with a different pre-tokenizer.
    OtherPreTokenizer,
    /// Convert with the values that programs assume for settings that the file cannot express.
    AssumeDefaults,
    /// Omit the vocabulary.
    OmitVocabulary,
    /// Convert only the vocabulary.
    VocabularyOnly,
    /// The file has no vocabulary, or an incomplete one.
    NoVocabulary,
    /// Describe the architecture.
    DescribeArchitecture,
    /// Complete the draft of a description.
    DraftDescription {
        /// The architecture that it is based on, whose tensors have the most similar names.
        nearest: String,
        /// The draft, in TOML.
        text: String,
    },
    /// Describe the architecture of this model.
    DescribeThis,
    /// Describe a computation graph; the architecture with the most similar name has one.
    DescribeGraph(Option<String>),
    /// An option does not apply to the source.
    NotSupported {
        /// The name of the method that sets the option.
        option: &'static str,
        /// The sources that do not have it.
        source: &'static str,
    },
    /// A base applies only to adapters.
    OnlyAdapters,
    /// A target applies only to draft models.
    OnlyDrafts,
    /// Omit the tokenizer.
    OmitTokenizer,
    /// Name the base model of the adapter.
    NameBase,
    /// Name the directory of the target model of the draft model.
    NameTarget,
    /// A checkpoint is expected: a directory with configuration and weights, or a file of weights
    /// with the configuration next to it.
    ExpectCheckpoint,
    /// The checkpoint is in this subdirectory.
    CheckpointBelow(PathBuf),
    /// The weights lack a configuration, which belongs into this directory.
    AddConfiguration(PathBuf),
    /// The directory has GGUF files, which need no conversion.
    NeedsNoConversion,
    /// The directory has only tokenizer files, and a configuration if the flag is set.
    TokenizerFiles(bool),
    /// A JSON file of a checkpoint was named instead of its directory.
    NameDirectory,
    /// The file is GGUF already: convert it to a checkpoint, or quantize or edit it.
    AlreadyGguf,
    /// The options apply to mixtures of types.
    OnlyMixtures,
    /// The tensors of a legacy file keep their types.
    KeepsTypes,
    /// Write the file without the check.
    SkipCheck,
    /// The format of recorded logits.
    RecordedLogits,
    /// Use smaller chunks, of at most half the tokens of the text; the number of tokens, if known.
    SmallerChunks(Option<usize>),
    /// Use larger chunks.
    LargerChunks,
    /// Allow more memory, or use smaller chunks.
    MoreMemory,
    /// The encoder's input is vectors, which only a check can generate or read.
    SourceVectors,
    /// Add the key that says which token the decoder starts with.
    DecoderStart,
    /// Both models need the same vocabulary.
    SameVocabulary,
    /// The address leads to a Git LFS pointer: use the one for downloads.
    DownloadAddress,
    /// Select the pre-tokenizer.
    SelectPreTokenizer,
    /// Set a chat template.
    SetTemplate,
    /// The templates of the file have these names.
    Templates(Vec<String>),
    /// Set this variable of the template.
    SetVariable(&'static str),
    /// Inspect the file instead of listing it.
    InspectFile,
    /// The keys that are most similar to the missing one.
    SimilarKeys(Vec<String>),
    /// Only one value is read: extract all entries that match the pattern.
    ExtractMatching,
    /// Write a new index.
    NewIndex,
    /// Update the index, or overwrite it.
    UpdateOrOverwrite,
    /// Write NDJSON.
    Ndjson,
    /// Compare with another model to measure the cosine of the embeddings.
    CompareEmbeddings,
    /// Continue with chunks of this many tokens.
    ChunkSize(usize),
    /// Write a different file, and merge both.
    MergeImatrices,
    /// Measure the same matrices as before: also matrices outside the blocks if the flag is set.
    SameMatrices(bool),
    /// Pass token IDs instead of a text; the inner hint is about tokenizing the text.
    TokenIds(Option<Box<Hint>>),
    /// A similar pattern that matches.
    Pattern(String),
    /// Name only one shard: the others are found by its name.
    OneShard,
    /// Merge without deleting the shards.
    KeepShards,
    /// No shard was deleted.
    NothingDeleted,
    /// The merged file was written, but not all shards were deleted.
    ShardsRemain {
        /// The number of shards that remain.
        remaining: usize,
        /// The number of shards before.
        count: usize,
    },
    /// The file name of a donor must have the extension of its format; the file is of this kind.
    DonorName(FileKind),
    /// A donor replaces no tensor.
    NothingReplaced {
        /// The donor.
        path: PathBuf,
        /// Names of tensors of the same shape, which the tensor of the donor could replace; `None` if
        /// the donor has several tensors.
        similar: Option<Vec<String>>,
    },
    /// Select one tensor of the donor.
    TakeOne,
    /// The format of a metadata patch.
    MetadataPatch,
    /// The name of an output must have the extension of its format.
    OutputFormat,
    /// Metadata can be extracted only to GGUF or JSON.
    MetadataFormats,
    /// A directory gets a file for each tensor.
    TensorDirectory,
    /// Select keys: JSON contains only metadata.
    OnlyMetadata,
    /// Select metadata that JSON can express.
    SelectKeys,
    /// Edit the file itself instead of writing a copy over it.
    EditInPlace,
    /// Write an edited copy; the flag is set if the path is a symbolic link.
    EditCopy(bool),
    /// When the cause of the failure is resolved, recover the file.
    RecoverLater,
    /// If the file is intact, delete its journal.
    DeleteJournal,
    /// Remove the space reserved for later edits by removing its key.
    RemovePadding,
    /// Set the token of this key by its number.
    TokenByNumber(&'static str),
    /// The edit was refused, and can be forced.
    ForceEdit,
    /// Set the template although it does not parse.
    ForceTemplate,
    /// The shard of this name has the metadata.
    FirstShard(String),
    /// Add the graph after the other edits.
    GraphLast,
    /// Check files for their data, not a stream.
    DataNeedsFiles,
    /// The format of a list of hashes.
    HashLines,
    /// Set the keys that determine the file name.
    NamingKeys,
    /// All shards of a set are renamed together.
    AllShards,
    /// Advice for the error of a server.
    #[cfg(feature = "remote")]
    Remote(ggmill_remote::Advice),
    /// This build cannot read remote files: download the file.
    UseCopy,
}

impl fmt::Display for Hint {
    #[expect(clippy::too_many_lines, reason = "one sentence for each hint")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Overwrite => "allow overwriting, or choose another output",
            Self::CreateDirectory(path) => {
                return write!(f, "create the directory {}", display_path(path));
            }
            Self::OtherDirectory => {
                "an existing directory is not replaced: remove it, or choose a different one"
            }
            Self::Recover => "recover the file: this finishes or undoes the interrupted edit",
            Self::Content(kind) => {
                write!(f, "this is {kind}")?;
                let advice = kind.hint();
                return advice.map_or(Ok(()), |advice| write!(f, "; {advice}"));
            }
            Self::DownloadRest => "download the rest of the file, or the whole file again",
            Self::DownloadAgain => "the file is damaged or truncated; download it again",
            Self::DamagedOrNewer => "the file is damaged, or newer than this program",
            Self::CheckpointDirectory => {
                "this is a checkpoint directory; `ggmill convert` converts it to GGUF"
            }
            Self::GgufFiles(names, more) => {
                let more = if *more { ", …" } else { "" };
                return write!(f, "GGUF files in this directory: {}{more}", names.join(", "));
            }
            Self::ReadAsStream => "this is not a regular file; read it as a stream",
            Self::OpenAlone => "open this shard alone",
            Self::Repository(id) => {
                return write!(f, "a repository on the Hugging Face Hub is `hf://{id}`");
            }
            Self::ImportanceMatrix => "add the importance matrix of this model",
            Self::TypeWithoutImportance => {
                "give these tensors a type that needs no importance weights, such as Q4_K"
            }
            Self::KeepInBf16(tensor, row_len) => {
                let tensor = RawStr::from(&**tensor);
                return write!(
                    f,
                    "rows of {row_len} elements fit no block type, so {tensor:?} becomes F16; BF16 holds its \
                     values"
                );
            }
            Self::CheckData => "`ggmill check` of the data finds all such values",
            Self::AllowZeros => "choose another type, or allow tensors that become zero",
            Self::CheckWeights => {
                "`ggmill check` of the data lists the weights that are not finite"
            }
            Self::AllowRequantize => {
                "allow requantizing; quantizing from a 16-bit or 32-bit file loses less"
            }
            Self::Smaller { requantize, importance } => {
                let requantize =
                    requantize.then_some("allow requantizing tensors that are already quantized");
                let importance =
                    importance.then_some("with an importance matrix, smaller types can be used");
                let all: Vec<_> = requantize.into_iter().chain(importance).collect();
                return f.write_str(&all.join("; "));
            }
            Self::SimilarTypes(names) if names.is_empty() => "a common type is Q4_K_M",
            Self::SimilarTypes(names) => return write!(f, "perhaps {}", names.join(" or ")),
            Self::RemovedType => "it was removed: programs rearrange Q4_0 when they load it",
            Self::TensorPattern { meant: None, .. } => {
                "a pattern is a case-sensitive regular expression"
            }
            Self::TensorPattern { meant: Some(meant), ggml_type } => {
                return write!(f, "did you mean {meant}={ggml_type}?");
            }
            Self::PruneFirst => "remove the layers first, then quantize the file that remains",
            Self::NameSize => "set a target size, or a number of bits per weight",
            Self::PlanWithSensitivities => {
                "a plan whose types were chosen by measured sensitivities contains them"
            }
            Self::NamePreTokenizer => "name the pre-tokenizer, or omit the vocabulary",
            Self::OtherPreTokenizer => "tokenize with a different pre-tokenizer",
            Self::AssumeDefaults => "convert with the assumed values: the results differ",
            Self::OmitVocabulary => "omit the vocabulary",
            Self::VocabularyOnly => "convert only the vocabulary",
            Self::NoVocabulary => "the file has no vocabulary, or an incomplete one",
            Self::DescribeArchitecture => "add a description of the architecture",
            Self::DescribeThis => "add a description of it",
            Self::DraftDescription { nearest, .. } => {
                let nearest = RawStr::from(&**nearest);
                return write!(f, "complete the draft, which is based on that of {nearest}");
            }
            Self::DescribeGraph(None) => "add a description with a graph",
            Self::DescribeGraph(Some(near)) => {
                let near = RawStr::from(&**near);
                return write!(
                    f,
                    "add a description with a graph; the most similar name is {near}"
                );
            }
            Self::NotSupported { .. } => "omit the option",
            Self::OnlyAdapters => "a base applies only to adapters",
            Self::OnlyDrafts => "a target applies only to draft models",
            Self::OmitTokenizer => "omit the tokenizer",
            Self::NameBase => {
                "name the base model: its GGUF file, or its directory, in which \
                               config.json is sufficient"
            }
            Self::NameTarget => "name the directory of the target model",
            Self::ExpectCheckpoint => {
                "expected a directory with config.json and weights, a .safetensors or PyTorch file \
                 with config.json next to it, or a legacy LLaMA file"
            }
            Self::CheckpointBelow(path) => {
                return write!(f, "{} is a checkpoint: name this directory", display_path(path));
            }
            Self::AddConfiguration(path) => {
                return write!(
                    f,
                    "the weights do not identify the model: put the config.json of the checkpoint, \
                     and its tokenizer files, into {}",
                    display_path(path)
                );
            }
            Self::NeedsNoConversion => {
                "the directory has GGUF files, which need no conversion: `ggmill quantize` changes \
                 their types"
            }
            Self::TokenizerFiles(_) => {
                "the directory has tokenizer files: convert only the vocabulary"
            }
            Self::NameDirectory => {
                "this is a JSON file; give the directory that contains it, or the file with the \
                 weights"
            }
            Self::AlreadyGguf => {
                "convert it to a checkpoint, quantize it or edit it: it needs no conversion"
            }
            Self::OnlyMixtures => "they apply to quantized types and mixtures, such as Q4_K_M",
            Self::KeepsTypes => "quantize the result to change the types of its tensors",
            Self::SkipCheck => "switch the check off to write the file anyway",
            Self::RecordedLogits => {
                "recorded logits are a GGUF file with the tensors `tokens` (I32, token IDs) and \
                 `logits` (F32, for each of them one number for each token of the vocabulary), as \
                 llama-results of llama.cpp writes it; for a model with an encoder also its input, \
                 `source` (I32, token IDs) or `source_vectors` (F32)"
            }
            Self::SmallerChunks(_) => {
                "use smaller chunks, of at most half the tokens of the text, or a longer text"
            }
            Self::LargerChunks => "use larger chunks",
            Self::MoreMemory => "allow more memory, or use smaller chunks",
            Self::SourceVectors => "run it over generated or recorded vectors",
            Self::DecoderStart => {
                "add the key decoder_start_token_id of the architecture; the ID is that in the \
                 config.json of the checkpoint (0 for T5)"
            }
            Self::SameVocabulary => "both models need the same vocabulary",
            Self::DownloadAddress => {
                "this is a Git LFS pointer, not the file itself; use the file's download URL, \
                 which often contains `/resolve/`"
            }
            Self::SelectPreTokenizer => "select the pre-tokenizer",
            Self::SetTemplate => "set a chat template",
            Self::Templates(names) => {
                return write!(f, "the templates are: {}", names.join(", "));
            }
            Self::SetVariable(name) => return write!(f, "set the variable {name}"),
            Self::InspectFile => "`ggmill inspect` shows a file or a shard set",
            Self::SimilarKeys(keys) if keys.is_empty() => {
                "`ggmill inspect` of the metadata lists the keys"
            }
            Self::SimilarKeys(keys) => {
                return write!(f, "did you mean {}?", keys.join(" or "));
            }
            Self::ExtractMatching => {
                "only one value is read; `ggmill extract` writes all matching entries as JSON"
            }
            Self::NewIndex => "write a new index",
            Self::UpdateOrOverwrite => "update the index, or overwrite it",
            Self::Ndjson => "choose a name that ends in .ndjson to write NDJSON",
            Self::CompareEmbeddings => {
                "the comparison with another model gives the cosine of the embeddings"
            }
            Self::ChunkSize(tokens) => {
                return write!(f, "continue with chunks of {tokens} tokens");
            }
            Self::MergeImatrices => "write another file, and merge both",
            Self::SameMatrices(true) => {
                "measure the matrices outside the blocks, as before, to continue it"
            }
            Self::SameMatrices(false) => {
                "do not measure the matrices outside the blocks to continue it"
            }
            Self::TokenIds(first) => {
                if let Some(first) = first {
                    write!(f, "{first}; ")?;
                }
                "pass the IDs of tokens instead of a text"
            }
            Self::Pattern(meant) => {
                return write!(f, "did you mean {:?}?", RawStr::from(&**meant));
            }
            Self::OneShard => "name only one shard: the others are found by its name",
            Self::KeepShards => "merge without deleting the shards to concatenate them anyway",
            Self::NothingDeleted => "no shard was deleted",
            Self::ShardsRemain { remaining, count } => {
                return write!(f, "the file was written; {remaining} of {count} shards remain");
            }
            Self::DonorName(kind) => {
                return write!(
                    f,
                    "this is {kind}; the name of a donor must end in .gguf, .safetensors, .npy or \
                     .json"
                );
            }
            Self::NothingReplaced { similar: None, .. } => "allow adding tensors",
            Self::NothingReplaced { similar: Some(similar), .. } => {
                f.write_str("name the tensor to replace")?;
                if !similar.is_empty() {
                    write!(f, ", such as {}, of the same shape", similar.join(" or "))?;
                }
                "; or allow adding it"
            }
            Self::TakeOne => "select one of them",
            Self::MetadataPatch => {
                "a patch is a JSON object of keys and values, with null for a key to remove"
            }
            Self::OutputFormat => {
                "name the format, or use a name that ends in .gguf, .safetensors, .npy or .json, or \
                 in / for a directory"
            }
            Self::MetadataFormats => "metadata can be extracted only to .gguf or .json",
            Self::TensorDirectory => "a directory gets a file for each tensor",
            Self::OnlyMetadata => "select keys",
            Self::SelectKeys => "select keys that JSON can express",
            Self::EditInPlace => "edit the file itself instead of writing a copy",
            Self::EditCopy(true) => {
                "edit the file that the link points to, if nothing else relies on it; or write a \
                 copy"
            }
            Self::EditCopy(false) => "write an edited copy",
            Self::RecoverLater => {
                "once the cause is resolved, recover the file: this completes or undoes the edit"
            }
            Self::DeleteJournal => "if the file is intact, delete the journal",
            Self::RemovePadding => "remove the key to remove the space",
            Self::TokenByNumber(key) => {
                return write!(f, "set {key} to the number of the token");
            }
            Self::ForceEdit => "force the edit to make it anyway",
            Self::ForceTemplate => "force the edit to set it anyway",
            Self::FirstShard(name) => {
                return write!(f, "{} has the model's metadata", RawStr::from(&**name));
            }
            Self::GraphLast => "add the graph after the other edits",
            Self::DataNeedsFiles => "the data of files can be checked",
            Self::HashLines => {
                "expected lines with a kind (xxh64, sha1, sha256, blake3, uuid), a digest and a \
                 file, for a tensor followed by a colon and its name; or the output of sha256sum"
            }
            Self::NamingKeys => {
                "set the keys: general.basename, general.size_label, general.finetune, \
                 general.version"
            }
            Self::AllShards => {
                "all shards of a set are renamed together, so all of them must exist"
            }
            #[cfg(feature = "remote")]
            Self::Remote(advice) => return remote(advice, f),
            Self::UseCopy => "download the file, and use the copy",
        };
        f.write_str(text)
    }
}

#[cfg(feature = "remote")]
fn remote(advice: &ggmill_remote::Advice, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use ggmill_remote::Advice;
    f.write_str(match advice {
        Advice::HubToken => {
            "the repository is private or gated, or does not exist; an access token is needed \
             (https://huggingface.co/settings/tokens)"
        }
        Advice::OtherHubToken => {
            "the access token was rejected: it has expired, or does not grant access to this \
             repository"
        }
        Advice::Gated { page } => {
            return write!(f, "the repository is gated: accept its conditions on {page}");
        }
        Advice::FileInRepository => "name a file in the repository",
        Advice::S3Credentials => "credentials are needed",
        Advice::OtherS3Credentials => {
            "the credentials were rejected: they are wrong or have expired, or do not grant access \
             to this object"
        }
        Advice::S3Region { region } => return write!(f, "the bucket is in the region {region}"),
        Advice::Download => "download the file, and use the copy",
        Advice::Later { seconds } => return write!(f, "try again in {seconds} seconds"),
        Advice::Host => "check the host name, and the proxy",
        Advice::Certificates => {
            "add the certificates of additional authorities, such as that of a proxy"
        }
        Advice::Again => "the file was replaced while it was being read; try again",
        _ => "see the documentation of the server",
    })
}
