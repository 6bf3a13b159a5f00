//! Seeds of the targets that read the side files of a checkpoint.

use crate::vocabulary::SEPARATOR;

/// A vocabulary of a few tokens with merges, for each class that makes a tokenizer of the two
/// files.
pub(super) fn byte_pairs() -> Vec<(String, Vec<u8>)> {
    const VOCABULARY: &str = r#"{"!": 0, "a": 1, "b": 2, "Ġ": 3, "Ċ": 4, "ab": 5, "Ġab": 6, "3": 7, "33": 8, "<|endoftext|>": 9, "<s>": 10, "</s>": 11, "<unk>": 12, "<mask>": 13, "<pad>": 14}"#;
    const MERGES: &str = "#version: 0.2\na b\nĠ ab\n3 3\n";
    const MAP: &str = r#"{"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": true}, "unk_token": "<unk>"}"#;
    const ADDED: &str = r#"{"<|im_start|>": 15, "c d": 16}"#;
    let seed = |choice: u8, parts: &[&str]| {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        [&[choice][..], &parts.join(SEPARATOR)].concat()
    };
    let mut seeds = Vec::new();
    for class in 0..9 {
        for flags in 0..8 {
            let choice = class | flags << 5;
            seeds.push((
                format!("class-{class}.{flags}"),
                seed(choice, &[VOCABULARY, MERGES, MAP, ADDED]),
            ));
        }
    }
    for (name, vocabulary, merges) in [
        ("a merge of three", VOCABULARY, "#version: 0.2\na b c\n"),
        ("an ID twice", r#"{"a": 1, "b": 1, "c": 4294967295}"#, MERGES),
        ("a token twice", r#"{"a": 1, "a": 2}"#, MERGES),
        ("another type", r#"{"a": -1.5, "b": {}}"#, MERGES),
        ("no merges", VOCABULARY, "#version: 0.2"),
        ("a merge of nothing", VOCABULARY, "\u{2028}\r\r\n a  b \n"),
    ] {
        seeds.push((name.replace(' ', "-"), seed(0, &[vocabulary, merges])));
    }
    seeds
}

/// Model cards with recommendations and a file of metadata.
pub(super) fn model_cards() -> Vec<(String, Vec<u8>)> {
    const SAMPLING: &str = r#"{"temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1, "sequence": "a"}"#;
    const METADATA: &str = r#"{"general.name": "A", "general.tags": ["b"], "general.base_models": [{"name": "c"}], "general.license": "mit"}"#;
    let cards = [
        (
            "usual",
            "---\nlicense: apache-2.0\nlicense_name: x\ntags: [a, 'b', no]\nlanguage:\n- en\n- no\nbase_model: org/Name-7B-v1.0\n\
             datasets:\n- a/b\n- name: c\nmodel_name: Name\nversion: 1.0\npipeline_tag: text-generation\n---\n# Name\n",
        ),
        ("aliases", "---\na: &a [x, x]\nb: &b [*a, *a]\ntags: [*b, *b]\n<<: *a\n---\n"),
        ("deep", "---\ntags: [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]\n---\n"),
        (
            "tagged",
            "---\ntags: !!set {a, b}\nversion: !!float 1\nauthor: 2020-01-01\nx: 0b1_0\n---\n",
        ),
        (
            "block",
            "---\ndescription: |\n  two\n  lines\nauthor: >-\n  folded\n  text\n? a\n: b\n---\n",
        ),
        ("broken", "---\ntags: [\n---\n"),
    ];
    let seed = |card: &str| [card, SAMPLING, METADATA].map(str::as_bytes).join(SEPARATOR);
    cards.into_iter().map(|(name, card)| (name.to_owned(), seed(card))).collect()
}
