//! Tokenizers opened by the path of a directory or of one of their files.

use std::fs;
use std::path::{Path, PathBuf};

use ggmill_convert::{TokenizerFiles, convert_tokenizer};
use ggmill_core::{Builder, Header, MetadataBuf};
use ggmill_pipeline::{ErrorKind, Result};
use ggmill_testdata::real;

const VOCABULARY: &str = r#"{"h": 0, "i": 1, "hi": 2, "<|endoftext|>": 3}"#;
const MERGES: &str = "#version: 0.2\nh i\n";
const CONFIG: &str = r#"{"tokenizer_class": "GPT2Tokenizer"}"#;
/// "h", "i" and "hi" in Base64.
const RANKS: &str = "aA== 0\naQ== 1\naGk= 2\n";

struct Directory(tempfile::TempDir);

impl Directory {
    fn with(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(directory.path().join(name), content).unwrap();
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn converted(path: &Path, pre: Option<&str>) -> Result<(MetadataBuf, Vec<String>)> {
    let files = TokenizerFiles::open(path)?.expect("a tokenizer");
    convert_tokenizer(&files, pre)
}

fn tokens(metadata: &MetadataBuf) -> Vec<String> {
    let plan = Builder::new().metadata(metadata.clone()).plan().unwrap();
    let file = Header::parse(plan.header()).unwrap();
    let tokens = file.metadata().array("tokenizer.ggml.tokens").unwrap();
    tokens.strings().unwrap().map(|token| token.unwrap().to_string()).collect()
}

#[test]
fn either_file_of_a_pair_opens_the_tokenizer() {
    let with_class = [("tokenizer_config.json", CONFIG)];
    for config in [&with_class[..], &[]] {
        let files = [&[("vocab.json", VOCABULARY), ("merges.txt", MERGES)][..], config].concat();
        let directory = Directory::with(&files);
        for name in ["", "vocab.json", "merges.txt"] {
            let (metadata, remarks) = converted(&directory.path(name), Some("gpt-2")).unwrap();
            assert_eq!(tokens(&metadata), ["h", "i", "hi", "<|endoftext|>"], "{name}");
            assert!(metadata.get("tokenizer.ggml.merges").is_some(), "{name}");
            // A note says that a class was assumed.
            assert_eq!(remarks.len(), usize::from(config.is_empty()), "{name}: {remarks:?}");
            assert!(remarks.iter().all(|remark| remark.contains("GPT2Tokenizer")), "{remarks:?}");
        }
        // The hash of the check text is unknown, but the class splits texts as GPT-2 does.
        let (metadata, remarks) = converted(&directory.path("vocab.json"), None).unwrap();
        assert_eq!(metadata.get("tokenizer.ggml.pre").unwrap().as_str(), Some("gpt-2"));
        assert!(remarks.iter().any(|remark| remark.contains("gpt-2 was used")), "{remarks:?}");
    }
    let alone = Directory::with(&[("vocab.json", VOCABULARY)]);
    let error = converted(&alone.path("vocab.json"), Some("gpt-2")).unwrap_err();
    assert!(error.to_string().contains("vocab.json"), "{error}");
}

#[test]
fn a_named_file_takes_precedence() {
    let other = r#"{"model": {"type": "BPE", "vocab": {"x": 0, "<|endoftext|>": 1},
        "merges": ["x x"]}}"#;
    let directory = Directory::with(&[
        ("tokenizer.json", other),
        ("vocab.json", VOCABULARY),
        ("merges.txt", MERGES),
        ("tokenizer_config.json", CONFIG),
        ("copy.json", other),
    ]);
    for (name, expected) in [("", 2), ("tokenizer.json", 2), ("copy.json", 2), ("vocab.json", 4)] {
        let found = converted(&directory.path(name), Some("gpt-2")).unwrap();
        assert_eq!(tokens(&found.0).len(), expected, "{name}");
    }
}

#[test]
fn ranks_need_a_pre_tokenizer_name() {
    for name in ["tiktoken.model", "tokenizer.model", "other.tiktoken", "other.model"] {
        let directory = Directory::with(&[(name, RANKS)]);
        let (metadata, _) = converted(&directory.path(name), Some("gpt-2")).unwrap();
        assert_eq!(tokens(&metadata), ["h", "i", "hi"], "{name}");
        let error = converted(&directory.path(name), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PreTokenizer, "{name}: {error}");
    }
    // Special tokens follow the ranks.
    let config = r#"{"added_tokens_decoder": {"4": {"content": "<|end|>"}}}"#;
    let directory =
        Directory::with(&[("tiktoken.model", RANKS), ("tokenizer_config.json", config)]);
    for name in ["", "tiktoken.model"] {
        let (metadata, _) = converted(&directory.path(name), Some("gpt-2")).unwrap();
        assert_eq!(tokens(&metadata), ["h", "i", "hi", "[PAD3]", "<|end|>"], "{name}");
    }
}

#[test]
fn a_file_and_its_directory_give_the_same_tokenizer() {
    let path = real("tinystories260K");
    let of_directory = tokens(&converted(&path, None).unwrap().0);
    let of_file = tokens(&converted(&path.join("tokenizer.model"), None).unwrap().0);
    assert_eq!(of_directory.len(), 512);
    assert!(of_directory == of_file);
    // Another file name gives the same result; the name of another format is an error.
    let directory = Directory::with(&[]);
    let content = fs::read(path.join("tokenizer.model")).unwrap();
    fs::write(directory.path("mine.model"), &content).unwrap();
    assert_eq!(tokens(&converted(&directory.path("mine.model"), None).unwrap().0), of_file);
    fs::write(directory.path("sentencepiece.bpe.model"), &content).unwrap();
    let error = converted(&directory.path("sentencepiece.bpe.model"), None).unwrap_err();
    assert!(error.to_string().starts_with("sentencepiece.bpe.model: "), "{error}");
    // As version 3, although the file has no version.
    fs::write(directory.path("tokenizer.model.v3"), &content).unwrap();
    let found = converted(&directory.path("tokenizer.model.v3"), None).unwrap();
    assert_eq!(tokens(&found.0), of_file);
}

#[test]
fn other_files_are_not_tokenizers() {
    let directory = Directory::with(&[
        ("model.gguf", "GGUF"),
        ("model.model", "GGUF\u{3}"),
        ("notes.txt", "text"),
        ("numbers.json", r#"{"a": 1}"#),
        ("tokenizer_config.json", CONFIG),
        ("half.json", r#"{"config": {}, "vocab": []}"#),
        ("broken.json", "{"),
    ]);
    for name in ["model.gguf", "model.model", "notes.txt", "absent.json", "absent"] {
        assert!(TokenizerFiles::open(directory.path(name)).unwrap().is_none(), "{name}");
    }
    for name in ["numbers.json", "tokenizer_config.json", ""] {
        let error = TokenizerFiles::open(directory.path(name)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Vocabulary, "{name}: {error}");
        assert!(error.to_string().contains(name), "{name}: {error}");
    }
    let error = TokenizerFiles::open(directory.path("broken.json")).unwrap_err();
    assert!(error.to_string().starts_with("broken.json: is not valid JSON"), "{error}");
    // Files that look like a tokenizer are read as one.
    let error = converted(&directory.path("half.json"), None).unwrap_err();
    assert!(error.to_string().starts_with("tekken.json: "), "{error}");
}
