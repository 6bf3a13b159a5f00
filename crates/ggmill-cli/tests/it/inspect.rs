//! `ggmill inspect` on valid files.

use std::process::Stdio;

use crate::support::{Directory, command, ggmill, outcome, real, shard, tiny};

#[test]
fn text() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let found = ggmill(directory.path(), &["inspect", "--all", "tiny.gguf"]);
    assert_eq!((found.code, found.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(found.stdout);
}

#[test]
fn a_summary_fits_a_screen() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let found = ggmill(directory.path(), &["inspect", "tiny.gguf"]);
    assert_eq!((found.code, found.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(found.stdout, @"
    Tiny
      architecture   llama
      parameters     40 · 2 tensors
      size           544 B · 144 B of weights · 28.80 bits per weight
      context        128 tokens
      format         GGUF v3 · little-endian · alignment 32 · 4 metadata entries · 544 bytes

      F32  1 tensor   128 B  █████████████████████▍     88.9%
      F16  1 tensor    16 B  ██▋                        11.1%

    4 metadata entries, 2 tensors: --metadata, --tensors, --all
    ");
    for name in ggmill_testdata::REAL_GGUF {
        let shown = ggmill(&real(""), &["inspect", name]).stdout;
        assert!(shown.lines().count() <= 24, "{shown}");
    }
    // The names of this command in other tools.
    let info = ggmill(directory.path(), &["info", "tiny.gguf"]);
    assert_eq!((info.code, info.stdout), (0, found.stdout));
    let dump = ggmill(directory.path(), &["dump", "tiny.gguf"]);
    let all = ggmill(directory.path(), &["inspect", "tiny.gguf", "--all"]);
    assert_eq!((dump.code, dump.stdout), (0, all.stdout));
}

#[test]
fn tensors_are_named_with_and_without_an_equals_sign() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let shown = |args: &[&str]| {
        let found = ggmill(directory.path(), &[&["inspect"], args].concat());
        assert_eq!((found.code, found.stderr.as_str()), (0, ""), "{args:?}");
        found.stdout
    };
    let one = shown(&["tiny.gguf", "--tensors=output*"]);
    assert!(one.contains("output_norm") && !one.contains("token_embd"), "{one}");
    assert_eq!(shown(&["tiny.gguf", "--tensors", "output*"]), one);
    assert_eq!(shown(&["--tensors", "output*", "tiny.gguf"]), one);
    let all = shown(&["tiny.gguf", "--tensors"]);
    assert_eq!(shown(&["--tensors", "tiny.gguf"]), all);
    let none = ggmill(directory.path(), &["inspect", "--tensors", "output*"]);
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("expected a file"), "{}", none.stderr);
    let absent = ggmill(directory.path(), &["inspect", "--tensors", "absent.gguf"]);
    assert!(absent.stderr.contains("absent.gguf: cannot open"), "{}", absent.stderr);
}

/// `--vocab '*ing'` is parsed like `--tensors 'blk.0.*'`.
#[test]
fn tokens_are_named_with_and_without_an_equals_sign() {
    let file = ggmill_testdata::real("tinystories260K").join("tokenizer.model");
    let directory = Directory::new().with("tokenizer.model", std::fs::read(file).unwrap());
    let shown = |args: &[&str]| {
        let found = ggmill(directory.path(), &[&["inspect"], args].concat());
        assert_eq!((found.code, found.stderr.as_str()), (0, ""), "{args:?}");
        found.stdout
    };
    let some = shown(&["tokenizer.model", "--vocab=*ing"]);
    assert!(some.lines().count() > 0 && some.lines().all(|line| line.contains("ing")), "{some}");
    assert_eq!(shown(&["tokenizer.model", "--vocab", "*ing"]), some);
    assert_eq!(shown(&["--vocab", "*ing", "tokenizer.model"]), some);
    let all = shown(&["tokenizer.model", "--vocab"]);
    assert!(all.len() > some.len());
    assert_eq!(shown(&["--vocab", "tokenizer.model"]), all);
    let none = ggmill(directory.path(), &["inspect", "--vocab", "*ing"]);
    assert!(none.code == 2 && none.stderr.contains("expected a file"), "{}", none.stderr);
}

#[test]
fn a_part_of_a_name_suggests_a_pattern() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let told = |args: &[&str]| {
        let found = ggmill(directory.path(), &[&["inspect", "tiny.gguf"], args].concat());
        assert_eq!(found.code, 1, "{args:?}");
        found.stderr
    };
    assert_eq!(
        told(&["--key", "context"]),
        "warning: no key matches \"context\"; try \"*context*\"\n"
    );
    assert_eq!(
        told(&["--tensors", "norm"]),
        "warning: no tensor matches \"norm\"; try \"*norm*\"\n"
    );
    assert_eq!(told(&["--key", "nope*"]), "warning: no key matches \"nope*\"\n");
}

#[test]
fn several_files_are_shown_one_after_another() {
    let directory = Directory::new().with("a.gguf", tiny()).with("b.gguf", tiny());
    let found = ggmill(directory.path(), &["inspect", "a.gguf", "absent.gguf", "b.gguf"]);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("absent.gguf: cannot open"), "{}", found.stderr);
    let (a, b) = (found.stdout.find("a.gguf:\nTiny"), found.stdout.find("b.gguf:\nTiny"));
    assert!(a < b && a.is_some(), "{}", found.stdout);
    let both = ggmill(directory.path(), &["inspect", "a.gguf", "b.gguf", "--json"]);
    let documents: Vec<serde_json::Value> = serde_json::Deserializer::from_str(&both.stdout)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    let names: Vec<_> = documents.iter().map(|document| &document["shards"][0]["file"]).collect();
    assert_eq!((both.code, names), (0, vec![&"a.gguf".into(), &"b.gguf".into()]));
}

#[test]
fn json_has_metadata_by_key() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let found = ggmill(directory.path(), &["inspect", "tiny.gguf", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
    let by_key = &report["metadata_by_key"];
    assert_eq!(by_key["llama.context_length"], 128);
    assert_eq!(by_key["general.name"], "Tiny");
    assert_eq!(by_key["tokenizer.ggml.scores"]["length"], 20);
}

#[test]
fn markdown_is_tables() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let found = ggmill(directory.path(), &["inspect", "tiny.gguf", "--markdown", "--all"]);
    assert_eq!((found.code, found.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(found.stdout);
    for line in found.stdout.lines().filter(|line| !line.is_empty()) {
        assert!(line.starts_with("| ") || line.starts_with("|-"), "{line}");
    }
}

#[test]
fn an_importance_matrix_is_named_as_one() {
    let llama =
        ggmill_testdata::models::models().into_iter().find(|model| model.name == "llama").unwrap();
    let directory = Directory::new().with("x.imatrix.dat", llama.legacy_imatrix());
    let found = ggmill(directory.path(), &["inspect", "x.imatrix.dat"]);
    assert_eq!(found.code, 2);
    assert!(
        found.stderr.contains("an importance matrix") && found.stderr.contains("imatrix show"),
        "{}",
        found.stderr
    );
}

#[test]
fn json() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let found = ggmill(directory.path(), &["inspect", "--json", "tiny.gguf"]);
    assert_eq!((found.code, found.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(found.stdout);
}

#[test]
fn a_real_file() {
    let found = ggmill(&real(""), &["inspect", "--all", "ggml-vocab-llama.v1.gguf"]);
    assert_eq!((found.code, found.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(found.stdout);
}

#[test]
fn sections() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let shown = |args: &[&str]| {
        ggmill(directory.path(), &[&["inspect", "tiny.gguf"], args].concat()).stdout
    };
    insta::assert_snapshot!(shown(&["--metadata"]), @r#"
    general.architecture   string   "llama"
    general.name           string   "Tiny"
    llama.context_length   u32      128
    tokenizer.ggml.scores  f32[20]  [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.25, 3.5, 3.75, …]
    "#);
    insta::assert_snapshot!(shown(&["--key", "*.name", "--key", "llama.*"]), @r#"
    general.name          string  "Tiny"
    llama.context_length  u32     128
    "#);
    insta::assert_snapshot!(shown(&["--tensors"]), @"
    #  name                shape  type   size  offset
    0  token_embd.weight   8 × 4  F32   128 B   0x180
    1  output_norm.weight  8      F16    16 B   0x200
    ");
    insta::assert_snapshot!(shown(&["--tensors=output*", "--key", "*.name"]), @r#"
    Metadata · 1 of 4
      general.name  string  "Tiny"

    Tensors · 1 of 2
      #  name                shape  type  size  offset
      1  output_norm.weight  8      F16   16 B   0x200
    "#);
}

#[test]
fn a_pattern_that_matches_nothing_is_a_finding() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let found = ggmill(directory.path(), &["inspect", "tiny.gguf", "--key", "nope"]);
    assert_eq!(
        (found.code, found.stdout.as_str(), found.stderr.as_str()),
        (1, "", "warning: no key matches \"nope\"\n")
    );
    let found =
        ggmill(directory.path(), &["inspect", "tiny.gguf", "--key", "nope", "--key", "*.name"]);
    assert_eq!((found.code, found.stderr.as_str()), (0, "warning: no key matches \"nope\"\n"));
    let found =
        ggmill(directory.path(), &["inspect", "tiny.gguf", "--tensors=nope", "--json", "--quiet"]);
    assert_eq!((found.code, found.stderr.as_str()), (1, ""));
}

#[test]
fn a_set_opens_by_any_shard() {
    let directory = Directory::new()
        .with("a-00001-of-00002.gguf", shard(0, 2))
        .with("a-00002-of-00002.gguf", shard(1, 2));
    let found = ggmill(directory.path(), &["inspect", "--tensors", "a-00002-of-00002.gguf"]);
    assert_eq!((found.code, found.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(found.stdout, @"
    #  name                 shape  type  size  offset  shard
    0  blk.0.attn_q.weight  8      F32   32 B    0xc0      0
    1  blk.1.attn_q.weight  8      F32   32 B    0xc0      1
    ");
    let alone =
        ggmill(directory.path(), &["inspect", "--tensors", "--alone", "a-00002-of-00002.gguf"]);
    assert!(
        alone.stdout.contains("blk.1.") && !alone.stdout.contains("blk.0."),
        "{}",
        alone.stdout
    );
}

#[test]
fn standard_input() {
    let directory =
        Directory::new().with("tiny.gguf", tiny()).with("cut.gguf", &tiny()[..tiny().len() - 40]);
    let given = |file: &str| {
        let file = std::fs::File::open(directory.path().join(file)).unwrap();
        outcome(command(directory.path()).args(["inspect", "--json", "-"]).stdin(Stdio::from(file)))
    };
    let piped = |bytes: &[u8]| {
        use std::io::Write as _;
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(bytes).unwrap();
        drop(writer);
        outcome(
            command(directory.path()).args(["inspect", "--json", "-"]).stdin(Stdio::from(reader)),
        )
    };
    // A redirected file has a length, which is checked.
    if cfg!(unix) {
        let found = given("tiny.gguf");
        assert_eq!((found.code, found.stderr.as_str()), (0, ""));
        let cut = given("cut.gguf");
        assert_eq!(cut.code, 2);
        assert!(cut.stderr.contains("tensor \"token_embd.weight\": data from"), "{}", cut.stderr);
    }
    let cut = piped(&tiny()[..100]);
    assert_eq!(cut.code, 2);
    assert!(cut.stderr.starts_with("error: standard input: offset 0x"), "{}", cut.stderr);
    let found = piped(&tiny());
    assert_eq!(
        (found.code, found.stderr.as_str()),
        (
            0,
            "warning: the length of the file is unknown, so tensor data was not checked \
             for completeness\n"
        )
    );
    let report: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
    assert!(report["file_size"].is_null() && report["shards"][0]["file"].is_null());
    assert_eq!(report["tensors"][1]["offset"], 0x200);
}

#[test]
fn colors_only_on_request() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let has_colours = |environment: Option<(&str, &str)>, args: &[&str]| {
        let found = outcome(
            command(directory.path()).envs(environment).args(["inspect", "tiny.gguf"]).args(args),
        );
        assert_eq!(found.code, 0);
        found.stdout.contains('\u{1b}')
    };
    assert!(!has_colours(None, &[]));
    assert!(has_colours(None, &["--color", "always"]));
    assert!(has_colours(Some(("CLICOLOR_FORCE", "1")), &[]));
    assert!(!has_colours(Some(("NO_COLOR", "1")), &[]));
    assert!(!has_colours(Some(("CLICOLOR_FORCE", "1")), &["--color", "never"]));
    assert!(!has_colours(Some(("CLICOLOR_FORCE", "1")), &["--json"]));
}

/// The help documents the object that scripts need.
#[test]
fn the_values_by_key_are_in_the_help() {
    let directory = Directory::new().with("m.gguf", tiny());
    let help = ggmill(directory.path(), &["inspect", "--help"]).stdout;
    let example = "ggmill inspect model.gguf --json | jq '.metadata_by_key[\"general.name\"]'\n";
    assert!(help.contains(example), "{help}");
    let found = ggmill(directory.path(), &["inspect", "m.gguf", "--json"]).stdout;
    let document: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(document["metadata_by_key"]["general.name"], "Tiny");
}
