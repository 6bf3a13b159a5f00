//! The vocabulary of a tokenizer's files without a model.

use ggmill_arch::{SpacePrefix, VocabularyKind, VocabularySpec};
use ggmill_core::MetadataBuf;
use ggmill_pipeline::{Result, SideFiles};
use serde_json::Value;

use super::write_kinds;

/// The kinds that files can have, in the order they are tried. Those that read one kind of file
/// tell from its content whether they are meant.
const KINDS: [VocabularyKind; 9] = [
    VocabularyKind::WordPiece,
    VocabularyKind::LlamaHf,
    VocabularyKind::Bpe,
    VocabularyKind::FairseqUnigram,
    VocabularyKind::Tekken,
    VocabularyKind::Unigram,
    VocabularyKind::SentencePiece,
    VocabularyKind::World,
    VocabularyKind::Jsonl,
];

/// The vocabulary of a tokenizer's files (`tokenizer.json`, `tokenizer.model`, `tekken.json` and
/// others, with what is beside them, such as `tokenizer_config.json`), as the metadata of a GGUF
/// file, and remarks on it. It is what a conversion writes if the description of the architecture
/// says nothing particular. `pre` is the name of the pre-tokenizer, where it is not to be
/// recognised.
///
/// Fails where no file can be read, and where the pre-tokenizer is not recognised.
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
    let mut metadata = MetadataBuf::new();
    let notes = write_kinds(files, &Value::Null, &spec, pre, &mut metadata)?;
    Ok((metadata, notes))
}
