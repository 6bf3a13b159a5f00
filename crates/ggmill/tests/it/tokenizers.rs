//! Tokenizers from published files give the IDs of the libraries that these files are for: the
//! shared data in `tokenizer/kitoken` and `tokenizer/rwkv`, whose manifest documents how it was
//! recorded. Every difference has a reason.

use std::path::Path;

use ggmill::convert::{TokenizerFiles, convert_tokenizer};
use ggmill::tokenizer::{EncodeOptions, Tokenizer};
use ggmill_testdata::shared;

/// A vocabulary, its IDs from another library, and the texts that differ.
struct Case {
    vocabulary: &'static str,
    pre: Option<&'static str>,
    /// The directory of the recorded IDs, and the end of their file names.
    recorded: [&'static str; 2],
    /// If true, special tokens were recognized.
    special: bool,
    /// The texts that differ, by their beginning, and the reason.
    differ: &'static [(&'static str, &'static str)],
}

const SENTENCEPIECE: &str = "tokenizer/kitoken/sentencepiece";
const TOKENIZERS: &str = "tokenizer/kitoken/tokenizers";

const CASES: [Case; 10] = [
    Case {
        vocabulary: "tokenizer/kitoken/models/sentencepiece/llama2.model",
        pre: None,
        recorded: [SENTENCEPIECE, "llama2"],
        special: false,
        differ: &[],
    },
    Case {
        vocabulary: "vocab-gguf/ggml-vocab-llama-spm.gguf",
        pre: None,
        recorded: [SENTENCEPIECE, "llama2"],
        special: false,
        differ: &[],
    },
    Case {
        vocabulary: "vocab-gguf/ggml-vocab-llama-spm.gguf",
        pre: None,
        recorded: [TOKENIZERS, "llama2"],
        special: true,
        differ: &[],
    },
    Case {
        vocabulary: "tokenizer/kitoken/models/sentencepiece/nai-t5.model",
        pre: None,
        recorded: [SENTENCEPIECE, "nai-t5"],
        special: false,
        differ: &[],
    },
    Case {
        vocabulary: "tokenizer/kitoken/models/tokenizers/bert_base_cased.json",
        pre: Some("default"),
        recorded: [TOKENIZERS, "bert_base_cased"],
        special: true,
        differ: &[(
            " iyまo不rだ tլeいlづtd元」osnt ɝ。",
            "U+0085 is white space to llama.cpp, and a control character that is dropped to the \
             library",
        )],
    },
    Case {
        vocabulary: "tokenizer/kitoken/models/tiktoken/p50k_base.tiktoken",
        pre: Some("gpt-2"),
        recorded: ["tokenizer/kitoken/tiktoken", "p50k_base"],
        special: false,
        differ: &[("<|endoftext|>", "a file of ranks has no special tokens: it is text")],
    },
    Case {
        vocabulary: "vocab-gguf/ggml-vocab-gpt-2.gguf",
        pre: None,
        recorded: [TOKENIZERS, "gpt2"],
        special: true,
        differ: &[],
    },
    Case {
        vocabulary: "vocab-gguf/ggml-vocab-llama-bpe.gguf",
        pre: None,
        recorded: [TOKENIZERS, "llama32"],
        special: false,
        differ: &[],
    },
    Case {
        vocabulary: "tokenizer/rwkv/rwkv_vocab_v20230424.txt",
        pre: None,
        recorded: ["tokenizer/rwkv", "rwkv_world"],
        special: false,
        differ: &[(
            "<s>[PAD]</s>",
            "llama.cpp finds the text of token 0, which the vocabulary of the library lacks",
        )],
    },
    // There are no recorded IDs for the files of torchtune.
    Case {
        vocabulary: "tokenizer/torchtune/tiktoken_small.model",
        pre: Some("llama-bpe"),
        recorded: ["", ""],
        special: false,
        differ: &[],
    },
];

fn tokenizer(path: &Path, pre: Option<&str>) -> Tokenizer {
    match TokenizerFiles::open(path).unwrap() {
        Some(files) => Tokenizer::from_entries(convert_tokenizer(&files, pre).unwrap().0).unwrap(),
        None => Tokenizer::from_metadata(&ggmill::io::open(path).unwrap().metadata()).unwrap(),
    }
}

/// Returns the texts of a kind: lines with three escapes, or one text.
fn texts(kind: &str) -> Vec<String> {
    let path = shared(&format!("tokenizer/kitoken/{kind}_input.txt")).unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| line.replace(r"\n", "\n").replace(r"\s", " ").replace(r"\x", "")).collect()
}

#[test]
fn published_vocabularies_give_the_ids_of_their_libraries() {
    if shared("tokenizer/kitoken").is_none() {
        return;
    }
    for case in &CASES {
        let name = case.vocabulary;
        let tokenizer = tokenizer(&shared(name).unwrap(), case.pre);
        let options = EncodeOptions::new().add_special(false).parse_special(case.special);
        if case.recorded[0].is_empty() {
            assert!(tokenizer.count("Hello, world", &options).unwrap() > 0, "{name}");
            continue;
        }
        let mut differ = Vec::new();
        // The third text of each vocabulary is skipped: together they take a minute.
        for kind in ["small", "mixed"] {
            let [directory, end] = case.recorded;
            let path = shared(&format!("{directory}/{kind}_tokens_{end}.txt")).unwrap();
            let recorded = std::fs::read_to_string(path).unwrap();
            let recorded: Vec<&str> = recorded.lines().filter(|line| !line.is_empty()).collect();
            let texts = texts(kind);
            assert_eq!(texts.len(), recorded.len(), "{name}: {kind}");
            for (text, ids) in texts.iter().zip(recorded) {
                let numbers = ids.split(',').map(str::trim).filter(|id| !id.is_empty());
                let expected: Vec<u32> = numbers.map(|id| id.parse().unwrap()).collect();
                let mut found = Vec::new();
                tokenizer.encode(text, &options, &mut found).unwrap();
                if found != expected {
                    differ.push(text.clone());
                }
            }
        }
        let explained: Vec<&str> = case.differ.iter().map(|(begin, _)| *begin).collect();
        let are_explained = differ.len() == explained.len()
            && differ.iter().zip(&explained).all(|(text, begin)| text.starts_with(begin));
        assert!(are_explained, "{name}: {differ:?} and not {explained:?}");
    }
}
