//! `ggmill extract` and `ggmill graft`.

use std::fs;

use ggmill_testdata::bytes::{FileBytes, Value};

use crate::support::{Directory, ggmill, real};

const MODEL: &str = "mobilenetv3_3class_v3_fp16.gguf";

fn run(directory: &Directory, args: &[&str]) -> String {
    let found = ggmill(directory.path(), args);
    assert_eq!(found.code, 0, "{args:?}: {}", found.stderr);
    found.stdout
}

fn refused(directory: &Directory, args: &[&str], words: &str) {
    let names = || {
        fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect::<std::collections::BTreeSet<_>>()
    };
    let before = names();
    let found = ggmill(directory.path(), args);
    assert_eq!((found.code, found.stdout.as_str()), (2, ""), "{args:?}: {}", found.stderr);
    assert!(found.stderr.contains(words), "{args:?}: {}", found.stderr);
    assert_eq!(names(), before, "{args:?}");
}

#[test]
fn extracted_tensors_can_be_inserted_again() {
    let directory = Directory::new().with("model.gguf", fs::read(real(MODEL)).unwrap());
    let tensors: serde_json::Value =
        serde_json::from_str(&run(&directory, &["inspect", "model.gguf", "--json"])).unwrap();
    let count = tensors["tensors"].as_array().unwrap().len();
    let first = tensors["tensors"][0]["name"].as_str().unwrap().to_owned();
    run(&directory, &["extract", "model.gguf", &first, "-o", "some.gguf"]);
    run(&directory, &["extract", "model.gguf", "*", "-o", "all.safetensors"]);
    run(&directory, &["extract", "model.gguf", "-o", "all/"]);
    run(&directory, &["extract", "model.gguf", "--key", "*", "-o", "all.json"]);
    assert_eq!(fs::read_dir(directory.path().join("all")).unwrap().count(), count);
    let one = format!("all/{first}.npy");
    for (number, donor) in
        ["some.gguf", "all.safetensors", &one, "all.json"].into_iter().enumerate()
    {
        let output = format!("out-{number}.gguf");
        run(&directory, &["graft", "model.gguf", "--from", donor, "-o", &output]);
        assert!(
            fs::read(directory.path().join(&output)).unwrap() == fs::read(real(MODEL)).unwrap(),
            "{donor}"
        );
    }
    assert_eq!(
        run(&directory, &["extract", "model.gguf", "--key", "*", "-o", "-"]),
        fs::read_to_string(directory.path().join("all.json")).unwrap()
    );
    // Only the selected key, no tensors.
    run(&directory, &["extract", "model.gguf", "--key", "general.architecture", "-o", "keys.gguf"]);
    let keys: serde_json::Value =
        serde_json::from_str(&run(&directory, &["inspect", "keys.gguf", "--json"])).unwrap();
    assert_eq!(
        (keys["metadata"].as_array().unwrap().len(), keys["tensors"].as_array().unwrap().len()),
        (1, 0)
    );
}

/// A tensor with nine dimensions is not written, and an existing file is kept.
#[test]
fn nine_dimensions_are_not_written() {
    let mut header =
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 2)}".to_owned();
    header.push_str(&" ".repeat(118 - 1 - header.len()));
    header.push('\n');
    let array =
        [b"\x93NUMPY\x01\0", &118u16.to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat();
    let good = fs::read(real(MODEL)).unwrap();
    let directory =
        Directory::new().with("model.gguf", &good).with("good.gguf", &good).with("d9.npy", array);
    refused(
        &directory,
        &["graft", "model.gguf", "--from", "d9.npy", "--add", "-o", "good.gguf", "--force"],
        "dimensions 9, the limit is 8",
    );
    assert!(fs::read(directory.path().join("good.gguf")).unwrap() == good);
}

#[test]
fn tensors_are_dropped_renamed_and_put_in_order() {
    let directory = Directory::new().with("model.gguf", fs::read(real(MODEL)).unwrap());
    run(
        &directory,
        &[
            "graft",
            "model.gguf",
            "--drop",
            "*.bias",
            "--rename",
            "features.*=trunk.*",
            "--order",
            "*classifier*",
            "--endian",
            "big",
            "-o",
            "new.gguf",
        ],
    );
    let names = |file: &str| -> Vec<String> {
        let shown: serde_json::Value =
            serde_json::from_str(&run(&directory, &["inspect", file, "--json"])).unwrap();
        shown["tensors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tensor| tensor["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut expected: Vec<String> = names("model.gguf")
        .into_iter()
        .filter(|name| name.strip_suffix(".bias").is_none())
        .collect();
    expected.sort_by_key(|name| !name.contains("classifier"));
    let renamed = expected.iter().map(|name| {
        name.strip_prefix("features.").map_or(name.clone(), |rest| format!("trunk.{rest}"))
    });
    assert_eq!(names("new.gguf"), renamed.collect::<Vec<_>>());
    assert!(names("new.gguf").iter().any(|name| name.starts_with("trunk.")));
}

#[test]
fn contradictory_arguments_are_refused() {
    let directory = Directory::new()
        .with("model.gguf", fs::read(real(MODEL)).unwrap())
        .with("text.npy", "no array")
        .with("bad.json", "[1]");
    for (args, words) in [
        (&["model.gguf", "-o", "out"][..], "the output format cannot be determined from the name"),
        (&["model.gguf", "-o", "out.npy"], "a .npy file contains only one array"),
        (&["model.gguf", "nothing*", "-o", "out.gguf"], "no tensor matches \"nothing*\""),
        (&["model.gguf", "--key", "nothing", "-o", "out.json"], "no key matches \"nothing\""),
        (&["model.gguf", "--key", "general.*", "-o", "out.npy"], "no tensors to extract"),
        (&["model.gguf", "*", "-o", "out.json"], "a JSON file contains metadata, not tensors"),
        (&["model.gguf", "-o", "model.gguf", "--force"], "is an input, so it cannot be the output"),
        (&["model.gguf", "-o", "text.npy", "--format", "safetensors"], "already exists"),
        (
            &["model.gguf", "--format", "npy", "-o", "no/such/directory/"],
            "no/such: cannot write into this directory: no such file\nhint: `mkdir -p no/such`",
        ),
    ] {
        refused(&directory, &[&["extract"], args].concat(), words);
    }
    for (args, words) in [
        (
            &["model.gguf", "--from", "text.npy", "-o", "out.gguf"][..],
            "text.npy: is not a NumPy file",
        ),
        (&["model.gguf", "--from", "bad.json", "-o", "out.gguf"], "bad.json: expected a table"),
        (&["model.gguf", "--from", "absent.gguf", "-o", "out.gguf"], "absent.gguf: cannot open"),
        (&["model.gguf", "--drop", "nothing", "-o", "out.gguf"], "no tensor matches \"nothing\""),
        (
            &["model.gguf", "--rename", "nothing=x", "-o", "out.gguf"],
            "no tensor matches \"nothing\"",
        ),
        (
            &["model.gguf", "--from", "model.gguf", "--take", "nothing", "-o", "out.gguf"],
            "no tensor of a donor matches",
        ),
        (
            &["model.gguf", "--from", "model.gguf", "--force", "-o", "./model.gguf"],
            "is an input, so it cannot be the output",
        ),
        (
            &["model.gguf", "--rename", "*=x*", "--align", "9", "-o", "out.gguf"],
            "expected a multiple of 8",
        ),
    ] {
        refused(&directory, &[&["graft"], args].concat(), words);
    }
}

/// A dry run writes nothing and knows every size.
#[test]
fn a_dry_run_prints_sizes() {
    let directory = Directory::new().with("model.gguf", fs::read(real(MODEL)).unwrap());
    let names = || {
        fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect::<std::collections::BTreeSet<_>>()
    };
    for args in [
        &["model.gguf", "classifier.*", "-o", "some.safetensors"][..],
        &["model.gguf", "classifier.0.weight", "-o", "one.npy"],
        &["model.gguf", "classifier.*", "-o", "directory/"],
        &["model.gguf", "--key", "*", "-o", "keys.json"],
        &["model.gguf", "classifier.*", "-o", "some.gguf"],
    ] {
        let args = [&["extract"], args].concat();
        let before = names();
        let told = run(&directory, &[&args[..], &["--dry-run"]].concat());
        assert_eq!(names(), before, "{args:?}");
        run(&directory, &args);
        if args.contains(&"some.gguf") {
            let size = fs::metadata(directory.path().join("some.gguf")).unwrap().len();
            assert!(told.contains(&format!("{size} bytes in all; nothing was written")), "{told}");
            continue;
        }
        assert!(!told.is_empty(), "{args:?}");
        for line in told.lines() {
            let (path, size) = line.split_once("  ").unwrap();
            assert_eq!(
                size,
                format!("{} bytes", fs::metadata(directory.path().join(path)).unwrap().len()),
                "{path}"
            );
        }
    }
    assert_eq!(fs::read_dir(directory.path().join("directory")).unwrap().count(), 4);
}

/// The extension of a donor selects its format; an unknown extension is recognized by content; if
/// both disagree, the error names the actual format.
#[test]
fn donors_with_other_extensions() {
    let directory = Directory::new().with("model.gguf", fs::read(real(MODEL)).unwrap());
    for (ending, other) in [("gguf", "a.bin"), ("safetensors", "b.bin"), ("json", "c")] {
        let taken = format!("taken.{ending}");
        let keys: &[&str] = if ending == "json" { &["--key", "*"] } else { &[] };
        run(&directory, &[&["extract", "model.gguf", "-o", &taken], keys].concat());
        fs::rename(directory.path().join(taken), directory.path().join(other)).unwrap();
        run(&directory, &["graft", "model.gguf", "--from", other, "-o", "out.gguf"]);
        assert!(
            fs::read(directory.path().join("out.gguf")).unwrap() == fs::read(real(MODEL)).unwrap(),
            "{other}"
        );
        fs::remove_file(directory.path().join("out.gguf")).unwrap();
    }
    for (from, to) in
        [("b.bin", "d.gguf"), ("a.bin", "e.npy"), ("a.bin", "f.safetensors"), ("b.bin", "g.json")]
    {
        fs::copy(directory.path().join(from), directory.path().join(to)).unwrap();
    }
    let directory = directory.with("page.gguf", "<!DOCTYPE html><html></html>");
    for (donor, words) in [
        (
            "d.gguf",
            "hint: this is a safetensors file; the name of a donor must end in .gguf, \
             .safetensors, .npy or .json",
        ),
        ("e.npy", "hint: this is a GGUF file; the name of a donor"),
        ("f.safetensors", "hint: this is a GGUF file; the name of a donor"),
        ("g.json", "hint: this is a safetensors file; the name of a donor"),
        ("page.gguf", "hint: this is a web page; the name of a donor"),
    ] {
        refused(&directory, &["graft", "model.gguf", "--from", donor, "-o", "out.gguf"], words);
    }
    // The model itself as the donor.
    for command in [
        &["graft", "d.gguf", "-o", "x.gguf"][..],
        &["extract", "d.gguf", "-o", "x.gguf"],
        &["split", "d.gguf", "x"],
        &["hash", "d.gguf"],
    ] {
        refused(
            &directory,
            command,
            "hint: this is a safetensors file; `ggmill convert` converts the directory",
        );
    }
}

/// A directory of arrays is complete or does not exist.
#[test]
fn a_directory_is_complete_or_absent() {
    let directory = Directory::new().with("model.gguf", fs::read(real(MODEL)).unwrap());
    let shown: serde_json::Value =
        serde_json::from_str(&run(&directory, &["inspect", "model.gguf", "--json"])).unwrap();
    let third = shown["tensors"][2]["name"].as_str().unwrap();
    let taken = directory.path().join("all");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join(format!("{third}.npy")), "mine").unwrap();
    refused(&directory, &["extract", "model.gguf", "-o", "all/"], "already exists");
    assert_eq!(fs::read_dir(&taken).unwrap().count(), 1);
    assert_eq!(fs::read(taken.join(format!("{third}.npy"))).unwrap(), b"mine");
}

/// The examples of `--help`, run one after the other in one directory.
#[test]
fn the_examples_of_the_help_work_in_sequence() {
    let mut file = FileBytes::v3(9, 3);
    file.pair("general.architecture", &"llama".into())
        .pair("tokenizer.ggml.model", &"llama".into())
        .pair("tokenizer.ggml.tokens", &Value::Array(8, vec!["a".into(), "b".into()]));
    let names = [
        "token_embd.weight",
        "blk.0.attn_q.weight",
        "blk.0.attn_norm.weight",
        "output_norm.weight",
        "output.weight",
        "mm.0.weight",
        "mm.1.weight",
        "old.0.weight",
        "old.1.weight",
    ];
    for (number, name) in (0..).zip(names) {
        file.tensor(name, &[8], 0, number * 32);
    }
    file.pad(32).raw(&[0; 9 * 32]);
    let bytes = file.into_bytes();
    let directory = Directory::new().with("model.gguf", &bytes).with("other.gguf", &bytes);
    let mut run_of_them = 0;
    for command in ["extract", "graft"] {
        let help = run(&directory, &[command, "--help"]);
        let examples = help.lines().map(str::trim);
        for example in examples.filter_map(|line| line.strip_prefix("ggmill ")) {
            let args: Vec<&str> =
                example.split_whitespace().map(|word| word.trim_matches('\'')).collect();
            if args.contains(&"[OPTIONS]") {
                continue;
            }
            run(&directory, &args);
            run_of_them += 1;
        }
    }
    assert_eq!(run_of_them, 8);
    // Inserting the extracted tensors again leaves the model unchanged.
    for same in ["new.gguf", "new-output.gguf", "new-tokenizer.gguf"] {
        assert!(fs::read(directory.path().join(same)).unwrap() == bytes, "{same}");
    }
}

/// A donor with a different tensor name is usually a mistake.
#[test]
fn a_donor_that_replaces_nothing_is_refused() {
    let directory = Directory::new().with("model.gguf", fs::read(real(MODEL)).unwrap());
    let extract = ["extract", "model.gguf", "classifier.0.weight", "-o", "embedding.npy"];
    run(&directory, &extract);
    let graft = ["graft", "model.gguf", "--from", "embedding.npy", "-o", "out.gguf"];
    refused(&directory, &graft, "embedding.npy: the model has no tensor \"embedding\"");
    let hint = "hint: --from NAME=embedding.npy names the tensor to replace, such as \
                classifier.0.weight, of the same shape; --add adds it";
    refused(&directory, &graft, hint);
    let named = ["--from", "nothing=embedding.npy"];
    refused(
        &directory,
        &[&["graft", "model.gguf", "-o", "out.gguf"], &named[..]].concat(),
        "the model has no tensor \"nothing\"",
    );
    run(&directory, &[&graft[..], &["--add"]].concat());
    let shown = run(&directory, &["inspect", "out.gguf", "--json"]);
    assert!(shown.contains("\"embedding\""), "{shown}");
    let named = ["graft", "model.gguf", "--from", "classifier.0.weight=embedding.npy"];
    run(&directory, &[&named[..], &["-o", "same.gguf"]].concat());
    assert!(
        fs::read(directory.path().join("same.gguf")).unwrap() == fs::read(real(MODEL)).unwrap()
    );
    // A name is only for a donor with one tensor.
    let several = ["graft", "model.gguf", "--from", "x=model.gguf", "-o", "out2.gguf"];
    refused(&directory, &several, "hint: --take selects one of them");
    // A file whose name contains `=`.
    fs::rename(directory.path().join("embedding.npy"), directory.path().join("a=b.npy")).unwrap();
    refused(
        &directory,
        &["graft", "model.gguf", "--from", "a=b.npy", "-o", "out2.gguf"],
        "the model has no tensor \"a=b\"",
    );
}
