//! The vocabulary of a tokenizer's files without a model.

use ggmill_arch::{RankRules, SpacePrefix, VocabularyKind, VocabularySpec};
use ggmill_core::MetadataBuf;
use ggmill_pipeline::{Result, SideFiles};
use serde_json::{Value, json};

use super::{class, files, ranks, write_kinds};

/// The kinds that files can have, in the order they are tried. Those that read one kind of file
/// tell from its content whether they are meant.
const KINDS: [VocabularyKind; 11] = [
    VocabularyKind::WordPiece,
    VocabularyKind::LlamaHf,
    VocabularyKind::Bpe,
    VocabularyKind::Ranks,
    VocabularyKind::FairseqUnigram,
    VocabularyKind::Tekken,
    VocabularyKind::Unigram,
    VocabularyKind::SentencePiece,
    VocabularyKind::MistralSentencePiece,
    VocabularyKind::World,
    VocabularyKind::Jsonl,
];

/// The vocabulary of a tokenizer's files (`tokenizer.json`, `tokenizer.model`, `tekken.json` and
/// others, with what is beside them, such as `tokenizer_config.json`), as the metadata of a GGUF
/// file, and remarks on it. It is what a conversion writes if the description of the architecture
/// says nothing particular. `pre` is the name of the pre-tokenizer, where it is not to be
/// recognized; a file of ranks has none that can be.
///
/// Fails where no file can be read, and where the pre-tokenizer is not recognized.
///
/// ```
/// use std::collections::BTreeMap;
/// let mut files = BTreeMap::new();
/// let vocabulary = r#"{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2},
///     "merges": ["a b"]}, "added_tokens": []}"#;
/// files.insert("tokenizer.json".to_owned(), vocabulary.as_bytes().to_vec());
/// let (metadata, _) = ggmill_convert::convert_tokenizer(&files, Some("gpt-2"))?;
/// assert!(metadata.get("tokenizer.ggml.merges").is_some());
/// # Ok::<(), ggmill_pipeline::Error>(())
/// ```
pub fn convert_tokenizer(
    files: &dyn SideFiles,
    pre: Option<&str>,
) -> Result<(MetadataBuf, Vec<String>)> {
    let mut spec = VocabularySpec::default();
    spec.kinds = KINDS.to_vec();
    spec.space_prefix = SpacePrefix::First;
    if !files.has("tokenizer.json") {
        spec.ranks = rank_file(files)?.map(RankRules::of_file);
    }
    let (config, assumed) = class_of(files)?;
    let mut metadata = MetadataBuf::new();
    let mut remarks = write_kinds(files, &config, &spec, pre, &mut metadata)?;
    remarks.extend(assumed);
    Ok((metadata, remarks))
}

/// The file that has ranks; Meta's is named as a SentencePiece model is.
fn rank_file(files: &dyn SideFiles) -> Result<Option<&'static str>> {
    for name in ["tiktoken.model", "tokenizer.model"] {
        if files::vocabulary(files, name)?.is_some_and(|bytes| ranks::are_ranks(&bytes)) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// What the files beside a tokenizer say of its class, as a configuration; and a remark where
/// nothing says it and one is assumed. A configuration says more, such as the number of tokens that
/// a model has room for, which is not about the tokenizer.
fn class_of(files: &dyn SideFiles) -> Result<(Value, Option<String>)> {
    const CLASS: &str = "tokenizer_class";
    let config = files::json(files, "config.json")?.unwrap_or_default();
    if let Some(class) = class::named_by(&config) {
        return Ok((json!({ CLASS: class }), None));
    }
    let own = files::json(files, "tokenizer_config.json")?;
    let is_named = own.is_some_and(|own| own.get(CLASS).is_some());
    let is_pair = files.has("vocab.json") && files.has("merges.txt");
    if is_named || !is_pair || files.has("tokenizer.json") {
        return Ok((Value::Null, None));
    }
    let class = "GPT2Tokenizer";
    let remark = format!("no file specifies the class of the tokenizer; {class} was assumed");
    Ok((json!({ CLASS: class }), Some(remark)))
}
