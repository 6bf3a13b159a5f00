//! `ggmill split`, `merge` and `repack`: their results, and unchanged files after a failure.

use std::collections::BTreeMap;
use std::fs;
#[cfg(unix)]
use std::process::Command;

use serde_json::Value;

#[cfg(unix)]
use crate::support::outcome;
use crate::support::{Directory, Outcome, ggmill, real, shard, tiny};

/// Returns every file of a directory with its bytes.
fn content(directory: &Directory) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect()
}

fn model() -> Vec<u8> {
    fs::read(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap()
}

/// Returns a directory with a model and its three shards.
fn shards() -> Directory {
    let directory = Directory::new().with("model.gguf", model());
    let Outcome { code, stdout, stderr } =
        ggmill(directory.path(), &["split", "model.gguf", "part", "--max-size", "1200K"]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(stdout.lines().count(), 3, "{stdout}");
    assert!(stdout.starts_with("part-00001-of-00003.gguf  "), "{stdout}");
    directory
}

const SHARDS: [&str; 3] =
    ["part-00001-of-00003.gguf", "part-00002-of-00003.gguf", "part-00003-of-00003.gguf"];

/// Runs a command that must fail with exit code 2 and this message, and leave every file unchanged.
fn refused(directory: &Directory, args: &[&str], words: &str) -> String {
    let before = content(directory);
    let Outcome { code, stdout, stderr } = ggmill(directory.path(), args);
    assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
    assert!(stderr.contains(words), "{args:?}: {stderr}");
    assert!(content(directory) == before, "{args:?}");
    stderr
}

#[test]
fn merged_shards_equal_the_model() {
    let directory = shards();
    for (number, shards) in
        [&SHARDS[1..2], &[SHARDS[2], SHARDS[0], SHARDS[1]]].into_iter().enumerate()
    {
        let output = format!("merged-{number}.gguf");
        let found = ggmill(directory.path(), &[&["merge"], shards, &[&*output]].concat());
        assert_eq!(found.code, 0, "{}", found.stderr);
        assert!(fs::read(directory.path().join(output)).unwrap() == model());
    }
    let found =
        ggmill(directory.path(), &["merge", SHARDS[0], "-o", "merged-2.gguf", "--delete-parts"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(found.stderr.contains("note: deleted 3 shards"), "{}", found.stderr);
    assert_eq!(
        directory.files(),
        ["merged-0.gguf", "merged-1.gguf", "merged-2.gguf", "model.gguf"]
    );
}

/// The shell expands `ggmill merge part-*.gguf`, which makes the last shard the output.
#[test]
fn a_shard_is_never_the_output() {
    let directory = shards();
    let globbed = [&["merge"][..], &SHARDS].concat();
    let stderr = refused(
        &directory,
        &globbed,
        "error: part-00003-of-00003.gguf: has the name of a shard, but would be the output",
    );
    assert!(stderr.ends_with("hint: -o OUT specifies the file to write\n"), "{stderr}");
    refused(&directory, &[&globbed[..], &["--force"]].concat(), "has the name of a shard");
    refused(&directory, &["merge", SHARDS[0]], "no output file was given");
    refused(
        &directory,
        &["merge", SHARDS[0], "-o", SHARDS[1], "--force"],
        "has the name of a shard",
    );

    // A renamed shard, and the same shard by a different path.
    fs::copy(directory.path().join(SHARDS[1]), directory.path().join("b.gguf")).unwrap();
    refused(
        &directory,
        &["merge", SHARDS[0], SHARDS[2], "b.gguf", "--force"],
        "error: b.gguf: is a shard, but would be overwritten by the output",
    );
    fs::hard_link(directory.path().join(SHARDS[1]), directory.path().join("link.gguf")).unwrap();
    refused(
        &directory,
        &["merge", SHARDS[0], "-o", "link.gguf", "--force"],
        "error: link.gguf: is an input, so it cannot be the output",
    );
}

#[test]
fn missing_shards_and_existing_outputs_are_reported() {
    let directory = shards().with("precious.gguf", "precious");
    refused(
        &directory,
        &["merge", SHARDS[0], "precious.gguf"],
        "error: precious.gguf: already exists\nhint: --force replaces it\n",
    );
    let stderr = refused(
        &directory,
        &["merge", SHARDS[0], SHARDS[2], "out.gguf"],
        "part-00001-of-00003.gguf: shard 2 of 3 not given",
    );
    assert!(
        stderr.contains("hint: pass only one shard: the others are found from its name"),
        "{stderr}"
    );
    fs::remove_file(directory.path().join(SHARDS[1])).unwrap();
    refused(
        &directory,
        &["merge", SHARDS[0], "out.gguf"],
        "part-00002-of-00003.gguf: missing: shard 2 of 3",
    );
    refused(
        &directory,
        &["split", "model.gguf", "part", "--max-size", "1200K"],
        "part-00001-of-00003.gguf: already exists",
    );
    let written = ggmill(
        directory.path(),
        &["split", "model.gguf", "part", "--max-size", "1200K", "--force"],
    );
    assert_eq!(written.code, 0, "{}", written.stderr);
}

#[test]
fn bad_arguments() {
    let directory =
        Directory::new().with("model.gguf", tiny()).with("one-00001-of-00001.gguf", tiny());
    for size in ["0", "K", "1X", "1.5.1G", "é"] {
        refused(&directory, &["split", "model.gguf", "x", "--max-size", size], "--max-size");
    }
    refused(&directory, &["split", "model.gguf", "x", "--max-tensors", "0"], "--max-tensors");
    refused(
        &directory,
        &["split", "model.gguf", "directory/"],
        "expected the prefix of the shards' names",
    );
    refused(
        &directory,
        &["split", "model.gguf", "no/such/directory/x"],
        "no/such/directory: cannot write into this directory: no such file",
    );
    refused(&directory, &["split", "missing.gguf", "x"], "missing.gguf: cannot open: no such file");
    for align in ["0", "12", "33554432", "x"] {
        refused(
            &directory,
            &["repack", "model.gguf", "-o", "x.gguf", "--align", align],
            "expected a multiple of 8 up to 16777216",
        );
    }
    refused(
        &directory,
        &["repack", "model.gguf", "-o", "./model.gguf", "--force"],
        "./model.gguf: is an input, so it cannot be the output",
    );
    refused(
        &directory,
        &["repack", "model.gguf", "-o", "x.gguf", "--endian", "big", "--format-version", "2"],
        "version 2 does not support big-endian files",
    );
}

/// A model split into one shard would be a set whose name is that of the input.
#[test]
fn shards_never_replace_their_input() {
    let directory = shards();
    for name in SHARDS {
        let other = name.replace("part", "again");
        fs::rename(directory.path().join(name), directory.path().join(&other)).unwrap();
    }
    refused(
        &directory,
        &["split", "again-00002-of-00003.gguf", "again", "--max-size", "1200K", "--force"],
        "is an input, so it cannot be the output",
    );
}

#[test]
fn a_dry_run_writes_nothing_and_prints_sizes() {
    let directory = shards();
    let before = content(&directory);
    let dry = ggmill(
        directory.path(),
        &["split", "model.gguf", "part", "--max-size", "1200K", "--dry-run", "--json", "--force"],
    );
    let plans: Value = serde_json::from_str(&dry.stdout).unwrap();
    assert_eq!(
        (&plans["schema"], plans["plans"].as_array().unwrap().len()),
        (&"ggmill.plans/1".into(), 3)
    );
    for plan in plans["plans"].as_array().unwrap() {
        assert_eq!(plan["file_size"], before[plan["output"].as_str().unwrap()].len());
        assert_eq!(plan["written"], false);
    }
    for args in [
        &["split", "model.gguf", "other", "--dry-run"][..],
        &["merge", SHARDS[0], "other.gguf", "--dry-run"],
        &["repack", "model.gguf", "-o", "other.gguf", "--endian", "big", "--dry-run"],
    ] {
        assert_eq!(ggmill(directory.path(), args).code, 0, "{args:?}");
    }
    assert!(content(&directory) == before);
}

#[test]
fn repacking_round_trips() {
    let directory = Directory::new().with("model.gguf", model());
    let run = |args: &[&str]| {
        let found = ggmill(directory.path(), &[&["repack"], args].concat());
        assert_eq!(found.code, 0, "{}", found.stderr);
        found
    };
    let big = run(&["model.gguf", "-o", "big.gguf", "--endian", "big"]);
    assert!(big.stdout.contains("big-endian"), "{}", big.stdout);
    run(&["big.gguf", "-o", "little.gguf", "--endian", "little"]);
    assert!(fs::read(directory.path().join("little.gguf")).unwrap() == model());
    let odd = run(&["model.gguf", "-o", "odd.gguf", "--align", "24", "--format-version", "2"]);
    assert!(odd.stderr.contains("warning: alignment 24 is not a power of two"), "{}", odd.stderr);
    assert!(odd.stdout.contains("GGUF v2 · little-endian · alignment 24"), "{}", odd.stdout);
}

#[test]
fn shards_are_found_by_an_unexpanded_pattern() {
    let directory = shards();
    let found = ggmill(directory.path(), &["merge", "part-*-of-00003.gguf", "merged.gguf"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(fs::read(directory.path().join("merged.gguf")).unwrap() == model());
    refused(
        &directory,
        &["merge", "nothing-*.gguf", "other.gguf"],
        "nothing-*.gguf: no file matches",
    );
}

#[test]
fn parts_of_a_file_are_concatenated() {
    let model = model();
    let (first, second) = model.split_at(1_000_000);
    let directory = Directory::new()
        .with("m.gguf.part1of2", first)
        .with("m.gguf.part2of2", second)
        .with("l.gguf-split-b", second);
    refused(
        &directory,
        &["merge", "m.gguf.part1of2", "m.gguf.part2of2"],
        "m.gguf.part2of2: has the name of a shard, but would be the output",
    );
    refused(
        &directory,
        &["merge", "l.gguf-split-b", "out.gguf"],
        "part 1 is missing: \"l.gguf-split-a\"",
    );
    refused(
        &directory,
        &["merge", "m.gguf.part1of2", "m.gguf.part1of2", "-o", "out.gguf"],
        "part 1 occurs twice",
    );
    let long =
        directory.with("n.gguf.part1of2", [first, b"x"].concat()).with("n.gguf.part2of2", second);
    refused(
        &long,
        &["merge", "n.gguf.part1of2", "n.gguf", "--delete-parts"],
        "the parts have 1 bytes more than the model they belong to",
    );
    for part in ["n.gguf.part1of2", "n.gguf.part2of2"] {
        fs::remove_file(long.path().join(part)).unwrap();
    }
    let directory = long;
    let found = ggmill(
        directory.path(),
        &["merge", "m.gguf.part2of2", "m.gguf", "--delete-parts", "--json"],
    );
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert_eq!(directory.files(), ["l.gguf-split-b", "m.gguf"]);
    assert!(fs::read(directory.path().join("m.gguf")).unwrap() == model);
}

/// A read-only directory. Not tested as root, which can write to it.
#[cfg(unix)]
#[test]
fn a_read_only_directory() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = shards();
    let closed = directory.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(closed.join("probe"), "").is_ok() {
        println!("skipped: this user may write anywhere");
        return;
    }
    refused(
        &directory,
        &["merge", SHARDS[0], "closed/out.gguf"],
        "closed: cannot write into this directory: permission denied",
    );
    refused(
        &directory,
        &["split", "model.gguf", "closed/x"],
        "closed: cannot write into this directory: permission denied",
    );
}

/// More shards than the limit of open files, written, read and merged.
#[cfg(unix)]
#[test]
fn a_set_of_more_files_than_the_limit_of_open_files() {
    let directory = Directory::new().with("model.gguf", model());
    let program = env!("CARGO_BIN_EXE_ggmill");
    for args in [
        "split model.gguf part --max-tensors 1",
        "hash part-00001-of-00244.gguf",
        "merge part-00001-of-00244.gguf out.gguf",
        "split out.gguf other",
    ] {
        let script = format!("ulimit -n 130; exec {program} {args}");
        let found = outcome(Command::new("sh").current_dir(directory.path()).args(["-c", &script]));
        assert_eq!(found.code, 0, "{args}: {}", found.stderr);
    }
    let shards = directory.files().iter().filter(|name| name.starts_with("part-")).count();
    assert!(shards > 130, "{shards}");
    assert!(fs::read(directory.path().join("out.gguf")).unwrap() == model());
    assert!(
        directory.files().iter().all(|name| !name.starts_with('.')),
        "what was put aside is left"
    );

    // If one shard cannot be written, none of them remains.
    let directory = Directory::new().with("model.gguf", model());
    fs::create_dir(directory.path().join("part-00244-of-00244.gguf")).unwrap();
    refused(
        &directory,
        &["split", "model.gguf", "part", "--max-tensors", "1"],
        "part-00244-of-00244.gguf: is a directory",
    );
}

#[test]
fn split_merges_as_llama_gguf_split_does() {
    let directory = Directory::new()
        .with("a-00001-of-00002.gguf", shard(0, 2))
        .with("a-00002-of-00002.gguf", shard(1, 2));
    let ours = ["merge", "a-00001-of-00002.gguf", "ours.gguf"];
    let theirs = ["split", "--merge", "a-00001-of-00002.gguf", "theirs.gguf"];
    for args in [&ours[..], &theirs] {
        let found = ggmill(directory.path(), args);
        assert_eq!(found.code, 0, "{}", found.stderr);
    }
    let read = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
    assert_eq!(read("ours.gguf"), read("theirs.gguf"));
}

/// A pattern without a wildcard that matches nothing gets a similar pattern as a hint.
#[test]
fn an_unmatched_pattern_gets_a_hint() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    for (args, hint) in [
        (&["extract", "tiny.gguf", "token_embd", "-o", "x.npy"][..], "'token_embd.*'"),
        (&["extract", "tiny.gguf", "token_emdb.weight", "-o", "x.npy"], "'token_embd.weight'"),
        (&["extract", "tiny.gguf", "--key", "general", "-o", "x.json"], "'general.*'"),
        (&["graft", "tiny.gguf", "--drop", "norm", "-o", "x.gguf"], "'*norm*'"),
        (&["graft", "tiny.gguf", "--rename", "output_norm=x", "-o", "x.gguf"], "'output_norm.*'"),
    ] {
        let found = ggmill(directory.path(), args);
        assert_eq!(found.code, 2, "{args:?}");
        let expected = format!("\nhint: did you mean {hint}?\n");
        assert!(found.stderr.contains(&expected), "{args:?}: {}", found.stderr);
    }
    let found = ggmill(directory.path(), &["get", "tiny.gguf", "general.*"]);
    assert!(
        found.code == 2 && found.stderr.contains("`ggmill extract FILE --key"),
        "{}",
        found.stderr
    );
}
