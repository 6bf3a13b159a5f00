//! `ggmill explain`.

use ggmill_core::{GgmlType, ValueType};

use crate::support::{Directory, ggmill};

#[test]
fn layouts_are_drawn() {
    let directory = Directory::new();
    let page = |topic: &str| {
        let found = ggmill(directory.path(), &["explain", topic]);
        assert_eq!(found.code, 0, "{topic}: {}", found.stderr);
        found.stdout
    };
    insta::assert_snapshot!("q4_k", page("q4_k"));
    insta::assert_snapshot!("iq1_m", page("IQ1_M"));
    insta::assert_snapshot!("bf16", page("BF16"));
    insta::assert_snapshot!("array", page("array"));
    for topic in GgmlType::all()
        .map(|ggml_type| ggml_type.to_string())
        .chain((0..13).map(|number| ValueType(number).to_string()))
    {
        assert!(page(&topic).starts_with(&format!("# {topic}\n")), "{topic}");
    }
}

#[test]
fn rules_groups_keys_and_architectures_have_pages() {
    let directory = Directory::new();
    let page = |topic: &str| ggmill(directory.path(), &["explain", topic]).stdout;
    insta::assert_snapshot!("rule", page("gg1302"));
    insta::assert_snapshot!("group", page("shards"));
    insta::assert_snapshot!("key", page("general.alignment"));
    assert!(page("llama.context_length").contains("The context length in tokens"));
    assert!(page("llama").starts_with("# llama"));
    assert!(page("MistralForCausalLM").starts_with("# llama"));
    let why = "There is no computation graph: it needs the states of another model.";
    assert!(page("eagle3").contains(why));
    assert!(
        page("general.base_model.3.url")
            .contains("The URL of the home page of base model number n.")
    );
}

#[test]
fn an_unknown_topic_is_refused_with_similar_names() {
    let directory = Directory::new();
    let found = ggmill(directory.path(), &["explain", "general.licence"]);
    assert_eq!((found.code, found.stdout.as_str()), (2, ""));
    assert!(found.stderr.contains("hint: did you mean general.license or "), "{}", found.stderr);
    let found = ggmill(directory.path(), &["explain", "q4km"]);
    assert!(found.stderr.contains("hint: did you mean Q4_K_M?"), "{}", found.stderr);
    let found = ggmill(directory.path(), &["explain", "\u{1b}[2J"]);
    assert!(found.code == 2 && !found.stderr.contains('\u{1b}'), "{}", found.stderr);
    // An architecture with a page, but without a description.
    for option in ["--description", "--graph"] {
        let found = ggmill(directory.path(), &["explain", "jina-bert-v3", option]);
        let message = "error: there is no description of architecture \"jina-bert-v3\": only its \
                       tensor names are known\nhint: --arch-file ";
        assert!(found.code == 2 && found.stderr.starts_with(message), "{}", found.stderr);
    }
    let all = ggmill(directory.path(), &["explain"]);
    assert!(
        all.code == 0
            && ["Q4_K", "tokenizer.ggml.tokens", "structure", "llama"]
                .iter()
                .all(|topic| all.stdout.contains(topic))
    );
}

#[test]
fn each_topic_has_one_line() {
    let directory = Directory::new();
    let all = ggmill(directory.path(), &["explain"]).stdout;
    for start in ["    GG1302  ", "    Q4_K ", "    Q4_K_M ", "    general.name ", "    llama "] {
        assert_eq!(all.lines().filter(|line| line.starts_with(start)).count(), 1, "{start}");
    }
    assert!(
        all.lines()
            .filter(|line| !line.starts_with('#'))
            .all(|line| { line.is_empty() || line.starts_with("    ") })
    );
    let page = ggmill(directory.path(), &["explain", "context_length"]);
    assert!(
        page.code == 0 && page.stdout.starts_with("# {arch}.context_length\n"),
        "{}",
        page.stderr
    );
    let list = |name: &str| ggmill(directory.path(), &["explain", name]).stdout;
    for (name, within, without) in [
        ("types", ["    Q4_K ", "    Q4_K_M "], "    llama "),
        ("standard-keys", ["    general.name ", "    {arch}.block_count "], "    Q4_K "),
        ("Architectures", ["    llama ", "    qwen2 "], "    general.name "),
    ] {
        let list = list(name);
        assert!(within.iter().all(|line| list.contains(line)), "{list}");
        assert!(list.starts_with("# ") && !list.contains(without), "{list}");
    }
    let page = ggmill(directory.path(), &["explain", "q4_k_m"]).stdout;
    assert!(page.contains("4.89 bits per weight") && page.contains("The usual choice"), "{page}");
}
