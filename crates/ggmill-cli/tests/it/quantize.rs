//! `ggmill quantize` and `ggmill imatrix`.

use std::fs;

use ggmill_core::{GgmlType, Header};
use ggmill_testdata::bytes::{FileBytes, Value as Number};
use ggmill_testdata::models::{Model, models};
use ggmill_testdata::sha256;
use serde_json::Value;

use crate::support::{Directory, Outcome, ggmill, quantized};

fn model(name: &str) -> Model {
    models().into_iter().find(|model| model.name == name).unwrap()
}

fn directory() -> Directory {
    let llama = model("llama");
    Directory::new()
        .with("llama.gguf", &llama.file)
        .with("imatrix", llama.imatrix())
        .with("old.dat", llama.legacy_imatrix())
}

/// Returns the model with one of its F16 values replaced.
fn with_bits(name: &str, row: usize, column: usize, bits: u16) -> Vec<u8> {
    let mut file = model("llama").file;
    let model = Header::parse(&file[..]).unwrap();
    let tensor = model.tensors().get(name).unwrap();
    assert_eq!(tensor.ggml_type(), GgmlType::F16);
    let number = row * usize::try_from(tensor.shape().row_len()).unwrap() + column;
    let start = tensor.data().unwrap().as_ptr().addr() - file.as_ptr().addr();
    file[start + 2 * number..][..2].copy_from_slice(&bits.to_le_bytes());
    file
}

/// Returns the mamba model with other values at the beginning of a row of `blk.1.ssm_in.weight`.
fn with_row(row: usize, numbers: &[f32]) -> Vec<u8> {
    let mut file = model("mamba").file;
    let model = Header::parse(&file[..]).unwrap();
    let tensor = model.tensors().get("blk.1.ssm_in.weight").unwrap();
    assert_eq!(tensor.ggml_type(), GgmlType::F32);
    let start = tensor.data().unwrap().as_ptr().addr() - file.as_ptr().addr()
        + 4 * row * usize::try_from(tensor.shape().row_len()).unwrap();
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    file[start..].iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    file
}

/// Returns the hash of the reference's result, from `tests/quantize.sha256` of ggmill-convert.
fn expected(row: &str) -> &'static str {
    let rows = include_str!("../../../ggmill-quantize/tests/quantize.sha256");
    rows.lines().find_map(|line| line.strip_prefix(row)?.strip_prefix(' ')).unwrap()
}

#[test]
fn the_default_output_is_in_the_directory_of_the_input() {
    let directory = directory();
    let Outcome { code, stdout, stderr } =
        ggmill(directory.path(), &["quantize", "llama.gguf", "q4_k_m", "1"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("note: wrote ggml-model-Q4_K_M.gguf"), "{stderr}");
    assert!(stdout.contains("Q6_K"), "{stdout}");
    let file = fs::read(directory.path().join("ggml-model-Q4_K_M.gguf")).unwrap();
    assert_eq!(sha256(&file), expected("llama Q4_K_M none"));

    let named = ggmill(
        directory.path(),
        &[
            "quantize",
            "llama.gguf",
            "small.gguf",
            "--type",
            "IQ2_XS",
            "--imatrix",
            "imatrix",
            "-t",
            "2",
        ],
    );
    assert_eq!(named.code, 0, "{}", named.stderr);
    assert_eq!(
        sha256(&fs::read(directory.path().join("small.gguf")).unwrap()),
        expected("llama IQ2_XS imatrix")
    );
}

#[test]
fn a_dry_run_prints_the_plan() {
    let directory = directory();
    let dry =
        ggmill(directory.path(), &["quantize", "llama.gguf", "IQ3_XXS", "--dry-run", "--json"]);
    // It prints the plan, and fails as the run would.
    assert_eq!((dry.code, directory.files().len()), (2, 3), "{}", dry.stderr);
    assert!(dry.stderr.contains("quantization would fail"), "{}", dry.stderr);
    assert!(dry.stderr.contains("--imatrix FILE gives the importance matrix"), "{}", dry.stderr);
    let plan: Value = serde_json::from_str(&dry.stdout).unwrap();
    let with = ggmill(
        directory.path(),
        &["quantize", "llama.gguf", "out.gguf", "IQ3_XXS", "--imatrix", "old.dat", "--json"],
    );
    assert_eq!(with.code, 0, "{}", with.stderr);
    let written: Value = serde_json::from_str(&with.stdout).unwrap();
    assert_eq!(
        written["tensors"].as_array().unwrap().len(),
        plan["tensors"].as_array().unwrap().len()
    );
    assert_eq!(
        written["file_size"],
        fs::metadata(directory.path().join("out.gguf")).unwrap().len()
    );
}

#[test]
fn a_dry_run_ends_with_size_bits_and_types() {
    let directory = directory();
    let dry = ggmill(directory.path(), &["quantize", "llama.gguf", "Q4_K_M", "--dry-run"]);
    assert_eq!((dry.code, directory.files().len()), (0, 3), "{}", dry.stderr);
    let (_, end) = dry.stdout.split_once("nothing was written\n\n").unwrap();
    let mut lines = end.lines();
    assert!(lines.next().unwrap().ends_with(" bits per weight"), "{end}");
    assert!(lines.any(|line| line.starts_with("  Q4_K ") && line.ends_with('%')), "{end}");
}

#[test]
fn several_types_are_compared_in_one_dry_run() {
    let directory = directory();
    let types = "q4_k_m,Q6_K,IQ2_XS";
    let args = ["quantize", "llama.gguf", "--dry-run", "--compare", types];
    let found = ggmill(directory.path(), &args);
    assert_eq!((found.code, directory.files().len()), (0, 3), "{}", found.stderr);
    let lines: Vec<&str> = found.stdout.lines().collect();
    assert!(lines[0].contains("bits per weight"), "{}", found.stdout);
    assert!(lines[1].starts_with("Q4_K_M ") && lines[1].contains("Q4_K "), "{}", found.stdout);
    assert!(lines[2].starts_with("Q6_K "), "{}", found.stdout);
    assert!(
        lines[3].starts_with("IQ2_XS ") && lines[4].contains("requires importance weights"),
        "{}",
        found.stdout
    );
    // The notes of a run are printed here, too.
    assert!(
        found.stderr.contains(", because the row length is not a multiple of the block size"),
        "{}",
        found.stderr
    );
    // A size is that of the written file.
    let json = ggmill(directory.path(), &[&args[..], &["--json"]].concat());
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(document["candidates"].as_array().unwrap().len(), 3);
    let made = ggmill(directory.path(), &["quantize", "llama.gguf", "out.gguf", "Q6_K", "-q"]);
    // With --quiet, there are no notes.
    assert_eq!((made.code, &*made.stdout, &*made.stderr), (0, "", ""));
    assert_eq!(
        document["candidates"][1]["file_size"],
        fs::metadata(directory.path().join("out.gguf")).unwrap().len()
    );
    let refused = ggmill(directory.path(), &["quantize", "llama.gguf", "Q8_0", "--compare", types]);
    assert_eq!(refused.code, 2, "{}", refused.stdout);
}

#[test]
fn an_imatrix_of_another_model_is_refused() {
    // One with other tensor names, and one with other shapes.
    let directory = directory()
        .with("names", model("mamba").imatrix())
        .with("shapes", model("falcon").imatrix());
    for imatrix in ["names", "shapes"] {
        let args = ["quantize", "llama.gguf", "x.gguf", "Q4_K_M", "--dry-run", "--imatrix"];
        let found = ggmill(directory.path(), &[&args[..], &[imatrix]].concat());
        assert!(
            found.stderr.contains("belongs to a different model"),
            "{imatrix}: {}",
            found.stderr
        );
    }
}

#[test]
fn tensors_that_the_imatrix_lacks_are_named() {
    let llama = model("llama");
    let entries = llama.imatrix();
    let directory = directory().with("all", &entries);
    let args = ["quantize", "llama.gguf", "x.gguf", "IQ2_XXS", "--imatrix", "all"];
    let without = ["--include-weights", "attn"];
    let found = ggmill(directory.path(), &[&args[..], &without].concat());
    assert_eq!(found.code, 2);
    for words in [
        "requires importance weights, but the importance matrix has none for this tensor; the same \
         applies to: \"blk.",
        "hint: --tensor-type PATTERN=TYPE",
    ] {
        assert!(found.stderr.contains(words), "{}", found.stderr);
    }
    assert!(!found.stderr.contains("--imatrix FILE gives"), "{}", found.stderr);
}

#[test]
fn values_that_f16_cannot_hold_have_a_remedy() {
    let mut file = FileBytes::v3(1, 2);
    file.pair("general.architecture", &"llama".into());
    file.pair("general.file_type", &Number::U32(32));
    // BF16, in rows that fit no block.
    file.tensor("blk.0.ffn_down.weight", &[36, 2], 30, 0).pad(32);
    for _ in 0..72 {
        file.raw(&[0xc3, 0x47]);
    }
    let directory = Directory::new().with("in.gguf", file.into_bytes());
    let found = ggmill(directory.path(), &["quantize", "in.gguf", "out.gguf", "Q4_K_M"]);
    assert_eq!(found.code, 2);
    let remedy = "--tensor-type '^blk\\.0\\.ffn_down\\.weight$=bf16'";
    assert!(found.stderr.contains("rows of 36 elements fit no block type"), "{}", found.stderr);
    assert!(found.stderr.contains(remedy), "{}", found.stderr);
    let rule = "^blk\\.0\\.ffn_down\\.weight$=bf16";
    quantized(&directory, &["in.gguf", "out.gguf", "Q4_K_M", "--tensor-type", rule]);
}

#[test]
#[cfg(unix)]
fn a_name_that_is_too_long_is_no_missing_directory() {
    let directory = directory();
    let name = format!("{}.gguf", "a".repeat(251));
    let found = ggmill(directory.path(), &["quantize", "llama.gguf", &name, "Q8_0"]);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("File name too long"), "{}", found.stderr);
    assert!(!found.stderr.contains("mkdir"), "{}", found.stderr);
    // The name of the journal does not fit.
    let name = format!("{}.gguf", "b".repeat(248));
    fs::copy(directory.path().join("llama.gguf"), directory.path().join(&name)).unwrap();
    let set = ["edit", &name, "--set", "general.name=another"];
    let found = ggmill(directory.path(), &set);
    assert!(found.code == 2 && found.stderr.contains("-o"), "{}", found.stderr);
}

#[test]
fn a_refusal_leaves_no_files() {
    let directory = directory()
        .with("rules", "attn_q=q8_0\nffn=q9")
        .with("out.gguf", "precious")
        .with("infinite.gguf", with_bits("blk.3.ffn_down.weight", 7, 300, 0x7c00))
        .with("nan.gguf", with_bits("token_embd.weight", 2, 0, 0x7e00))
        .with("huge.gguf", with_row(2, &[0.5, 1e38]))
        .with("denormal.gguf", with_row(1, &[-1e-40; 32]));
    let before = directory.files();
    let cases: &[(&[&str], &str)] = &[
        (
            &["llama.gguf", "new.gguf", "Q9"],
            "\"Q9\" is not a type to quantize to\nhint: perhaps Q8_0; `ggmill explain types` lists",
        ),
        (&["llama.gguf", "new.gguf"], "\"new.gguf\" is not a type"),
        (
            &["llama.gguf", "new.gguf", "q4km"],
            "\"q4km\" is not a type to quantize to\nhint: perhaps Q4_K_M; `ggmill explain types` lists",
        ),
        (
            &["llama.gguf", "--type", "MXFP4"],
            "not a type, perhaps MXFP4_MOE; `ggmill explain types` lists all",
        ),
        (
            &["llama.gguf", "new.gguf", "Q8_0", "--output-tensor-type", "q9"],
            "expected a tensor type for weights: F32, F16, ",
        ),
        (
            &["llama.gguf", "new.gguf", "Q8_0", "--tensor-type", "ffn_down(?!x)=q8_0"],
            "look-around is not supported",
        ),
        (
            &["llama.gguf", "new.gguf", "Q8_0", "--prune-layers", "1,a"],
            "expected layer numbers, such as 3,4,10",
        ),
        (
            &["llama.gguf", "new.gguf", "Q8_0", "--override-kv", "split.count=int:3"],
            "identifies a shard",
        ),
        (
            &["llama.gguf", "new.gguf", "IQ1_S"],
            "IQ1_S requires importance weights, but there are none\nhint: --imatrix FILE",
        ),
        (
            &["llama.gguf", "out.gguf", "Q8_0"],
            "out.gguf: already exists\nhint: --force replaces it",
        ),
        (
            &["llama.gguf", "llama.gguf", "Q8_0", "--force"],
            "llama.gguf: is an input, so it cannot be the output",
        ),
        (
            &["llama.gguf", "new.gguf", "Q8_0", "--tensor-type", "ffn=q9"],
            "\"q9\" is not a tensor type",
        ),
        (
            &["llama.gguf", "new.gguf", "Q8_0", "--tensor-type-file", "rules"],
            "rules: line 2: \"ffn=q9\": \"q9\" is not a tensor type for weights, expected one of F32",
        ),
        (&["llama.gguf", "new.gguf", "Q8_0", "--tensor-type", "(=q8_0"], "the pattern is invalid"),
        (
            &["llama.gguf", "new.gguf", "Q8_0", "--override-kv", "a=int:x"],
            "the value is not an integer",
        ),
        (
            &["llama.gguf", "new.gguf", "Q8_0", "--imatrix", "llama.gguf"],
            "has no tensors NAME.in_sum2",
        ),
        (
            &["llama.gguf", "new.gguf", "Q8_0", "--prune-layers", "1,99"],
            "there is no layer 99 to remove: the model has layers 0 to 8",
        ),
        (
            &["llama.gguf", "new.gguf", "Q8_0", "--keep-split", "--split-max-tensors", "9"],
            "cannot be used with",
        ),
        (
            &["llama.gguf", "new.gguf", "Q8_0", "--split-max-size", "0"],
            "expected a number followed by K, M, G or T",
        ),
        (&["missing.gguf", "new.gguf", "Q8_0"], "missing.gguf: "),
        (
            &["infinite.gguf", "new.gguf", "Q4_K_M"],
            "\"blk.3.ffn_down.weight\": row 7, column 300 is inf",
        ),
        (
            &["infinite.gguf", "new.gguf", "IQ2_M", "--imatrix", "imatrix"],
            "\"blk.3.ffn_down.weight\": row 7, column 300 is inf",
        ),
        (
            &["infinite.gguf", "out.gguf", "Q8_0", "--force"],
            "\"blk.3.ffn_down.weight\": row 7, column 300 is inf",
        ),
        (
            &["nan.gguf", "new.gguf", "Q4_0", "--pure"],
            "\"token_embd.weight\": row 2, column 0 is NaN",
        ),
        (
            &["huge.gguf", "new.gguf", "NVFP4"],
            "\"blk.1.ssm_in.weight\": row 2, column 1 is 1e38, in a block with numbers that are \
             too large for NVFP4",
        ),
        (
            &["denormal.gguf", "new.gguf", "Q8_0", "--tensor-type", "ssm_in=mxfp4"],
            "\"blk.1.ssm_in.weight\": row 1, column 0 is -1e-40, in a block with numbers that are \
             too small for MXFP4",
        ),
    ];
    for (args, words) in cases {
        let Outcome { code, stdout, stderr } =
            ggmill(directory.path(), &[&["quantize"], *args].concat());
        assert_eq!((code, &*stdout), (2, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(words), "{args:?}: {stderr}");
        assert_eq!(directory.files(), before, "{args:?}");
    }
    assert_eq!(fs::read(directory.path().join("out.gguf")).unwrap(), b"precious");
}

#[test]
fn shards_are_kept_on_request() {
    let directory = directory();
    let cut = ggmill(directory.path(), &["split", "llama.gguf", "in", "--max-tensors", "30"]);
    assert_eq!((cut.code, cut.stdout.lines().count()), (0, 4), "{}", cut.stderr);
    let args = ["quantize", "in-00003-of-00004.gguf", "out.gguf", "Q4_K_M", "--keep-split"];
    let dry = ggmill(directory.path(), &[&args[..], &["--dry-run"]].concat());
    assert_eq!((dry.code, directory.files().len()), (0, 7), "{}", dry.stderr);
    let kept = ggmill(directory.path(), &args);
    assert_eq!((kept.code, &kept.stdout), (0, &dry.stdout), "{}", kept.stderr);
    for number in 1..=4 {
        let file =
            fs::read(directory.path().join(format!("out-0000{number}-of-00004.gguf"))).unwrap();
        assert_eq!(sha256(&file), expected(&format!("llama Q4_K_M none-shard-{number}")));
    }
    let one =
        ggmill(directory.path(), &["quantize", "in-00002-of-00004.gguf", "one.gguf", "Q4_K_M"]);
    assert_eq!(one.code, 0, "{}", one.stderr);
    assert_eq!(
        sha256(&fs::read(directory.path().join("one.gguf")).unwrap()),
        expected("llama Q4_K_M none")
    );

    let again = ggmill(directory.path(), &args);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("out-00001-of-00004.gguf: already exists"), "{}", again.stderr);
    let onto = ggmill(
        directory.path(),
        &["quantize", "in-00003-of-00004.gguf", "in", "Q4_K_M", "--keep-split", "--force"],
    );
    assert!(
        onto.code == 2 && onto.stderr.contains("is an input, so it cannot be the output"),
        "{}",
        onto.stderr
    );

    let cut = ggmill(
        directory.path(),
        &["quantize", "llama.gguf", "cut", "Q4_K_M", "--split-max-size", "40K"],
    );
    assert_eq!((cut.code, cut.stdout.lines().count()), (0, 4), "{}{}", cut.stdout, cut.stderr);
    let fewer = ggmill(
        directory.path(),
        &["quantize", "llama.gguf", "cut", "Q4_K_M", "--max-tensors", "60", "--force"],
    );
    assert!(
        fewer.stderr.contains(
            "note: cut-00001-of-00004.gguf and other shards of an earlier set are still in the \
             same directory\n"
        ),
        "{}",
        fewer.stderr
    );
    assert!(!cut.stderr.contains("are still in the same directory"), "{}", cut.stderr);
    let merged = ggmill(directory.path(), &["merge", "cut-00001-of-00004.gguf", "merged.gguf"]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    assert_eq!(
        sha256(&fs::read(directory.path().join("merged.gguf")).unwrap()),
        expected("llama Q4_K_M none")
    );
}

/// Options that have no effect are noted.
#[test]
fn unmatched_patterns_are_noted() {
    let directory = directory().with("roles", "zzz=ffn.down\nffn_up=ffn.up").with("empty", "\n");
    let said = |args: &[&str], words: &str| {
        let found =
            ggmill(directory.path(), &[&["quantize", "llama.gguf", "--dry-run"], args].concat());
        assert_eq!(found.code, 0, "{args:?}: {}", found.stderr);
        assert_eq!(found.stderr.matches(words).count(), 1, "{args:?}: {words}: {}", found.stderr);
    };
    said(
        &["Q8_0", "--role-file", "roles"],
        "note: roles: the pattern \"zzz\" matches no tensor name; patterns are case-sensitive\n",
    );
    said(&["Q8_0", "--role-file", "roles"], "the pattern");
    said(&["Q8_0", "--tensor-type-file", "empty"], "note: empty: contains no PATTERN=TYPE\n");
    said(
        &["Q8_0", "--imatrix", "imatrix", "--include-weights", "zzz", "--include-weights", "ffn"],
        "note: imatrix: no entry has \"zzz\" in its name\n",
    );
    said(
        &["Q8_0", "--imatrix", "imatrix", "--include-weights", "zzz"],
        "no entry remains, so the importance matrix has no effect\n",
    );
    said(
        &["Q8_0", "--prune-layers", " 1, 2"],
        "the row length is not a multiple of the block size",
    );
    said(&["Q8_0", "--split-max-size", "1K"], "by itself has");
    // Requests for single tensors have their own notes.
    said(
        &["Q8_0", "--tensor-type", "ffn_down=q6_k"],
        "note: Q6_K was requested but does not fit, so the type is Q8_0: the row length is not a \
         multiple of 256: \"blk.",
    );
    for (pattern, hint) in [
        ("atn_q", "did you mean --tensor-type attn_q=Q6_K?"),
        ("^zzz$", "a pattern is a case-sensitive regular expression"),
    ] {
        let rule = format!("{pattern}=q6_k");
        let args = ["quantize", "llama.gguf", "new.gguf", "Q8_0", "--tensor-type", &rule];
        let found = ggmill(directory.path(), &args);
        let expected = format!(
            "error: --tensor-type {pattern}=Q6_K: the pattern matches no tensor name\nhint: \
             {hint}\n"
        );
        assert_eq!((found.code, &*found.stderr), (2, &*expected));
        assert!(!directory.path().join("new.gguf").exists());
    }
    let dry = ggmill(directory.path(), &["quantize", "llama.gguf", "--dry-run", "IQ2_XS"]);
    assert_eq!((dry.code, dry.stderr.matches("quantization would fail").count()), (2, 1));
}

#[test]
fn help_lists_every_role() {
    let help = ggmill(directory().path(), &["quantize", "--help"]).stdout;
    let listed = help.split("Roles for --role-file: ").nth(1).unwrap().split_whitespace();
    assert!(listed.eq(ggmill_arch::Role::ALL.iter().map(|(role, _)| role.name())), "{help}");
}

#[test]
fn importance_matrices_are_merged_and_converted() {
    let directory = directory().with("other", model("falcon").imatrix());
    let merged =
        ggmill(directory.path(), &["imatrix", "merge", "imatrix", "old.dat", "-o", "both.gguf"]);
    assert_eq!((merged.code, &*merged.stdout), (0, ""), "{}", merged.stderr);
    assert_eq!(merged.stderr, "note: wrote both.gguf: GGUF, 72 entries, 5 chunks\n");
    let shown = ggmill(directory.path(), &["imatrix", "show", "both.gguf"]).stdout;
    assert!(
        shown.starts_with(
            "GGUF importance matrix, 72 entries\nmeasured on  one.txt\nmeasured on  \
             two.txt\nmeasured on  one.txt\n"
        ),
        "{shown}"
    );
    let converted = ggmill(directory.path(), &["imatrix", "convert", "both.gguf", "both.dat"]);
    assert_eq!(converted.code, 0, "{}", converted.stderr);
    assert!(
        converted.stderr.starts_with(
            "warning: the legacy format stores the name of only one dataset, the last\n"
        ),
        "{}",
        converted.stderr
    );
    assert!(
        ggmill(directory.path(), &["imatrix", "show", "both.dat"])
            .stdout
            .starts_with("legacy importance matrix, 72 entries")
    );
    // Counts of 96 tokens are not a chunk of 512, whatever the file claims.
    let few = ggmill(directory.path(), &["imatrix", "convert", "imatrix", "few.bin"]);
    assert!(
        few.stderr.starts_with(
            "note: no tensor was measured over a whole chunk of 512 tokens, so the output has 0 \
             chunks"
        ),
        "{}",
        few.stderr
    );
    assert!(
        few.stderr.ends_with("note: wrote few.bin: GGUF, 72 entries, 0 chunks\n"),
        "{}",
        few.stderr
    );
    let fewer = ggmill(
        directory.path(),
        &["imatrix", "convert", "imatrix", "fewer.gguf", "--chunk-size", "32"],
    );
    assert_eq!(fewer.stderr, "note: wrote fewer.gguf: GGUF, 72 entries, 3 chunks\n");
    // The merged matrix can be used for quantization.
    assert_eq!(
        ggmill(
            directory.path(),
            &["quantize", "llama.gguf", "small.gguf", "IQ2_XS", "--imatrix", "both.dat"]
        )
        .code,
        0
    );

    let before = directory.files();
    let cases: &[(&[&str], &str)] = &[
        (
            &["merge", "imatrix", "other", "-o", "new"],
            "entry \"blk.0.ffn_down.weight\": 512 columns, but 256 in a different input",
        ),
        (
            &["merge", "imatrix", "-o", "both.gguf"],
            "both.gguf: already exists\nhint: --force replaces it",
        ),
        (
            &["merge", "imatrix", "-o", "imatrix", "--force"],
            "imatrix: is an input, so it cannot be the output",
        ),
        (
            &["merge", "imatrix", "llama.gguf", "-o", "new"],
            "llama.gguf: has no tensors NAME.in_sum2",
        ),
        (&["convert", "missing", "new"], "missing: "),
        (&["convert", "imatrix", "new", "--chunk-size", "0"], "--chunk-size"),
    ];
    for (args, words) in cases {
        let found = ggmill(directory.path(), &[&["imatrix"], *args].concat());
        assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}: {}", found.stderr);
        assert!(found.stderr.contains(words), "{args:?}: {}", found.stderr);
        assert_eq!(directory.files(), before, "{args:?}");
    }
}

#[test]
fn an_importance_matrix_is_shown_without_its_model() {
    let directory = directory();
    let Outcome { code, stdout, stderr } =
        ggmill(directory.path(), &["imatrix", "show", "imatrix"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stdout.starts_with(
            "GGUF importance matrix, 72 entries\nmeasured on  one.txt\nmeasured on  \
             two.txt\nchunks       7 of 512 tokens\n"
        ),
        "{stdout}"
    );
    assert!(stdout.contains("blk.8.ffn_down.weight         512         1"), "{stdout}");

    let old = ggmill(directory.path(), &["imatrix", "show", "old.dat", "--json"]);
    let shown: Value = serde_json::from_str(&old.stdout).unwrap();
    assert_eq!(
        (&shown["schema"], &shown["form"], &shown["datasets"][0]),
        (&"ggmill.imatrix/1".into(), &"legacy".into(), &"one.txt".into())
    );
    assert_eq!(shown["entries"].as_array().unwrap().len(), 72);
    assert_eq!(ggmill(directory.path(), &["imatrix", "show", "llama.gguf"]).code, 2);
}
