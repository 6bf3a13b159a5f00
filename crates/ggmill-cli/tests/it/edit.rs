//! `ggmill edit`, from the command line.

use std::fs;
use std::path::Path;

use ggmill_core::Header;
use serde_json::Value;

use crate::support::{Directory, Outcome, command, ggmill, outcome, shard, tiny};

fn edit(directory: &Directory, args: &[&str]) -> Outcome {
    outcome(command(directory.path()).arg("edit").args(args))
}

fn bytes(directory: &Directory, name: &str) -> Vec<u8> {
    fs::read(directory.path().join(name)).unwrap()
}

fn text(directory: &Directory, name: &str, key: &str) -> String {
    let bytes = bytes(directory, name);
    Header::parse(&bytes).unwrap().metadata().str(key).unwrap().to_owned()
}

#[test]
fn the_report_matches_the_edit() {
    let directory =
        Directory::new().with("tiny.gguf", tiny()).with("template.jinja", "{{ bos_token }}");
    let args = ["tiny.gguf", "--set", "general.name=Tidy", "--set", "llama.context_length=256"];
    let dry = edit(&directory, &[&args[..], &["--dry-run"]].concat());
    assert_eq!((dry.code, dry.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(dry.stdout, @r#"
    ~ general.name  "Tiny" → "Tidy"
    ~ llama.context_length  128 (u32) → 256 (u32)
    tiny.gguf: would be edited in place (36 bytes to write); nothing was written
    "#);
    assert!(bytes(&directory, "tiny.gguf") == tiny());
    let done = edit(&directory, &args);
    let told = dry.stdout.replace(
        "would be edited in place (36 bytes to write); nothing was written",
        "edited in place",
    );
    assert_eq!((done.code, done.stdout), (0, told));
    assert_eq!(text(&directory, "tiny.gguf", "general.name"), "Tidy");
    let before = tiny();
    let differ = bytes(&directory, "tiny.gguf").iter().zip(&before).filter(|(a, b)| a != b).count();
    assert!(differ <= 36, "{differ}");

    let copy = edit(
        &directory,
        &[
            "tiny.gguf",
            "--chat-template",
            "template.jinja",
            "--unset",
            "general.n*",
            "-o",
            "copy.gguf",
        ],
    );
    assert_eq!(copy.code, 0, "{}", copy.stderr);
    insta::assert_snapshot!(copy.stdout, @r#"
    - general.name  "Tidy"
    + tokenizer.chat_template  "{{ bos_token }}"
    copy.gguf: written
    "#);
    assert_eq!(directory.files(), ["copy.gguf", "template.jinja", "tiny.gguf"]);
    let nothing = edit(&directory, &["tiny.gguf", "--set", "general.name=Tidy"]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (0, "tiny.gguf: nothing to change\n"));
}

#[test]
fn edits_keep_their_order_across_options() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let args = [
        "tiny.gguf",
        "--set",
        "a.x=1",
        "--rename",
        "a.x=a.y",
        "--set",
        "a.x=2",
        "--unset",
        "a.y",
        "--set",
        "a.y=three",
        "--rename",
        "a.x=a.z",
        "--json",
    ];
    let found = edit(&directory, &args);
    assert_eq!(found.code, 0, "{}", found.stderr);
    let report: Value = serde_json::from_str(&found.stdout).unwrap();
    let keys: Vec<&str> = report["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["key"].as_str().unwrap())
        .collect();
    assert_eq!(
        (&report["schema"], &report["written"], keys),
        (&"ggmill.edit/1".into(), &true.into(), vec!["a.z", "a.y"])
    );
    assert_eq!(report["file_size"], bytes(&directory, "tiny.gguf").len());
}

#[test]
fn values_come_from_files() {
    let directory = Directory::new()
        .with("tiny.gguf", tiny())
        .with("list.txt", "one\n[two]\n")
        .with("about.txt", "two\nlines\n")
        .with(
            "keys.json",
            r#"{"general": {"author": "A", "tags": ["x"]}, "my.number:u64": 18446744073709551615}"#,
        )
        .with("keys.toml", "[general]\nlicense = \"MIT\"\n[llama.rope]\nfreq_base = 10000\n")
        .with("patch.json", r#"{"my.gone": null, "my.infinite:f32": "Infinity"}"#);
    let args = [
        "tiny.gguf",
        "--set",
        "my.gone=1",
        "--set",
        "my.list:[string]=@list.txt",
        "--set",
        "general.description=@about.txt",
        "--set",
        "my.at=@@home",
        "--set-from",
        "keys.json",
    ];
    let documents = ["--set-from", "keys.toml", "--patch", "patch.json"];
    let found = edit(&directory, &[&args[..], &documents].concat());
    assert_eq!(found.code, 0, "{}", found.stderr);
    let shown = ggmill(directory.path(), &["inspect", "tiny.gguf", "--metadata"]).stdout;
    for line in [
        r#"my.list string[2] ["one", "[two]"]"#,
        r#"general.description string "two\nlines\n""#,
        r#"my.at string "@home""#,
        r#"general.author string "A""#,
        r#"general.tags string[1] ["x"]"#,
        "my.number u64 18446744073709551615",
        r#"general.license string "MIT""#,
        "llama.rope.freq_base f32 10000.0",
        "my.infinite f32 inf",
    ] {
        let found = shown
            .lines()
            .any(|shown| shown.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(line));
        assert!(found, "{line}\n{shown}");
    }
    assert!(!shown.contains("my.gone"), "{shown}");
}

/// Exit code 2, a helpful message, and unchanged files.
#[test]
fn a_refused_edit_changes_nothing() {
    let directory = Directory::new()
        .with("tiny.gguf", tiny())
        .with("other.gguf", tiny())
        .with("latin.txt", b"caf\xe9")
        .with("broken.json", "{")
        .with("date.toml", "[general]\nday = 2024-01-01\n")
        .with("a-00001-of-00002.gguf", shard(0, 2))
        .with("a-00002-of-00002.gguf", shard(1, 2))
        .with("page.gguf", "<!DOCTYPE html>");
    let before = directory.files();
    for (args, words) in [
        (&["a-00001-of-00002.gguf", "--unset", "split.*"][..], "which could no longer be opened"),
        (&["tiny.gguf"][..], "error: no edits\nhint: --set"),
        (&["tiny.gguf", "--set", "x"], "--set x: expected key=value"),
        (&["tiny.gguf", "--set", "x:u33=1"], "\"u33\" is not a type, expected one such as u32"),
        (&["tiny.gguf", "--set", "x=@missing.txt"], "missing.txt: cannot open: no such file"),
        (&["tiny.gguf", "--set", "x=@latin.txt"], "latin.txt: not valid UTF-8 from byte 3"),
        (&["tiny.gguf", "--set-from", "broken.json"], "broken.json: "),
        (&["tiny.gguf", "--set-from", "date.toml"], "date.toml: contains a date or a time"),
        (&["tiny.gguf", "--unset", "nope"], "error: no key matches \"nope\""),
        (&["tiny.gguf", "--rename", "x"], "--rename x: expected OLD=NEW"),
        (&["tiny.gguf", "--special-token", "bos=<s>"], "the file has no vocabulary"),
        (
            &["tiny.gguf", "--set", "x=1", "-o", "tiny.gguf"],
            "tiny.gguf: is an input, so it cannot be the output\nhint: without -o",
        ),
        (
            &["tiny.gguf", "--set", "x=1", "-o", "other.gguf"],
            "other.gguf: already exists\nhint: --force",
        ),
        (&["tiny.gguf", "--set", "x=1", "--force"], "--output"),
        (&["page.gguf", "--set", "x=1"], "page.gguf: "),
        (&["missing.gguf", "--set", "x=1"], "missing.gguf: cannot open for writing: no such file"),
        (&[".", "--set", "x=1"], "."),
        (
            &["a-00002-of-00002.gguf", "--set", "x=1"],
            "is shard 2 of 2, expected the first\nhint: a-00001-of-00002.gguf has the model's \
             metadata",
        ),
        (&["a-00001-of-00002.gguf", "--set", "split.count=3"], "which could no longer be opened"),
    ] {
        let found = edit(&directory, args);
        assert_eq!((found.code, found.stdout.as_str()), (2, ""), "{args:?}: {}", found.stderr);
        assert!(found.stderr.contains(words), "{args:?}: {}", found.stderr);
        assert_eq!(directory.files(), before);
    }
    assert!(bytes(&directory, "tiny.gguf") == tiny() && bytes(&directory, "other.gguf") == tiny());
    let first = edit(&directory, &["a-00001-of-00002.gguf", "--set", "general.name=Set"]);
    assert_eq!(
        (first.code, first.stderr.as_str()),
        (0, "note: this is the first of 2 shards, from which readers take the metadata\n")
    );
    assert_eq!(
        ggmill(directory.path(), &["inspect", "a-00002-of-00002.gguf", "--key", "general.name"])
            .code,
        0,
        "the set still opens"
    );
}

#[cfg(unix)]
#[test]
fn read_only_files_and_links_are_not_edited() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = Directory::new().with("tiny.gguf", tiny());
    let path = directory.path().join("tiny.gguf");
    std::os::unix::fs::symlink("tiny.gguf", directory.path().join("link.gguf")).unwrap();
    let link = edit(&directory, &["link.gguf", "--set", "x=1"]);
    assert_eq!(link.code, 2);
    assert!(
        link.stderr.starts_with("error: link.gguf: is a symbolic link to ")
            && link.stderr.contains("hint: edit the file that the link points to"),
        "{}",
        link.stderr
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let found = edit(&directory, &["tiny.gguf", "--set", "general.name=Tidy"]);
    assert_eq!(found.code, 2);
    assert!(
        found.stderr.contains("tiny.gguf: is read-only\nhint: -o writes an edited copy")
            || found.stderr.contains("permission denied"),
        "{}",
        found.stderr
    );
    assert!(bytes(&directory, "tiny.gguf") == tiny());
    let copy = edit(&directory, &["link.gguf", "--set", "x=1", "-o", "copy.gguf"]);
    assert_eq!(copy.code, 0, "{}", copy.stderr);
}

/// Whatever state a killed edit leaves, also a file that begins with zeros, every command names the
/// journal and what to do with it.
#[test]
fn every_command_names_the_journal_of_an_interrupted_edit() {
    let zeros = [&vec![0; 4096][..], &tiny()].concat();
    for (state, content) in [("torn", tiny()), ("zeros", zeros)] {
        let directory = Directory::new()
            .with("other.gguf", tiny())
            .with("text", "text")
            .with("m.gguf", content)
            .with("m.gguf.ggmill-journal", "a journal");
        let commands: &[&[&str]] = &[
            &["inspect", "m.gguf"],
            &["check", "m.gguf"],
            &["hash", "m.gguf"],
            &["get", "m.gguf", "general.name"],
            &["ls", "."],
            &["index", "m.gguf", "-o", "index.parquet"],
            &["diff", "other.gguf", "m.gguf"],
            &["estimate", "m.gguf"],
            &["explain", "m.gguf", "--graph"],
            &["tokenize", "m.gguf", "a"],
            &["detokenize", "m.gguf", "0"],
            &["template", "list", "m.gguf"],
            &["template", "render", "m.gguf", "-m", "user:a"],
            &["measure", "m.gguf", "--text", "text"],
            &["quantize", "m.gguf", "out.gguf", "Q8_0"],
            &["convert", "m.gguf", "-o", "out"],
            &["split", "m.gguf", "out", "--split-max-tensors", "1"],
            &["repack", "m.gguf", "-o", "out.gguf"],
            &["extract", "m.gguf", "-o", "out.safetensors"],
            &["graft", "other.gguf", "--from", "m.gguf", "--add", "-o", "out.gguf"],
            &["imatrix", "show", "m.gguf"],
            &["name", "build", "m.gguf"],
            &["name", "rename", "m.gguf"],
            &["edit", "m.gguf", "--set", "x=1"],
            &["edit", "m.gguf", "--set", "x=1", "-o", "out.gguf"],
            &["check", "m.gguf", "--profile", "threat", "--quiet"],
            &["merge", "m.gguf", "-o", "out.gguf"],
            &["lora", "merge", "m.gguf", "other.gguf", "-o", "out.gguf"],
            &["lora", "merge", "other.gguf", "m.gguf", "-o", "out.gguf"],
            &["diff", "m.gguf", "other.gguf"],
            &["quantize", "other.gguf", "out.gguf", "Q8_0", "--imatrix", "m.gguf"],
            &["measure", "other.gguf", "--against", "m.gguf", "--text", "text"],
            &["estimate", "other.gguf", "--mmproj", "m.gguf"],
            &["template", "lint", "m.gguf"],
        ];
        for args in commands {
            let found = ggmill(directory.path(), args);
            let said = format!("{}{}", found.stdout, found.stderr);
            assert!(said.contains("m.gguf.ggmill-journal"), "{state}, {args:?}: {said}");
            assert!(said.contains("edit --recover"), "{state}, {args:?}: {said}");
            assert!(!said.contains("download"), "{state}, {args:?}: {said}");
        }
    }
}

/// The journal of an interrupted edit: every command reports it, and only `--recover` resolves it.
#[test]
fn an_interrupted_edit_is_reported_and_finished() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let path = directory.path().join("tiny.gguf");
    let journal = directory.path().join("tiny.gguf.ggmill-journal");
    assert_eq!(
        edit(&directory, &["tiny.gguf", "--recover"]).stdout,
        "tiny.gguf: no edit was interrupted\n"
    );

    // The journal of an edit that stopped between two writes, constructed from the finished edit.
    assert_eq!(edit(&directory, &["tiny.gguf", "--set", "general.name=Tidy"]).code, 0);
    let (old, new) = (tiny(), bytes(&directory, "tiny.gguf"));
    fs::write(&journal, journal_of(&old, &new)).unwrap();
    let mut torn = old.clone();
    torn[76] = new[76];
    fs::write(&path, &torn).unwrap();

    let told = ggmill(directory.path(), &["inspect", "tiny.gguf"]);
    assert!(
        told.stderr.contains(
            "an edit of this file was interrupted: its journal tiny.gguf.ggmill-journal is next to \
             the file; `ggmill edit --recover tiny.gguf` finishes or undoes it"
        ),
        "{}",
        told.stderr
    );
    let dry = edit(&directory, &["tiny.gguf", "--set", "x=1", "--dry-run"]);
    assert!(
        dry.code == 2 && dry.stderr.contains("an edit of this file was interrupted"),
        "{}",
        dry.stderr
    );
    let copy = edit(&directory, &["tiny.gguf", "--set", "x=1", "-o", "copy.gguf"]);
    assert_eq!((copy.code, directory.files().len()), (2, 2));
    assert_eq!(
        edit(&directory, &["tiny.gguf", "--recover"]).stdout,
        "tiny.gguf: the interrupted edit was completed\n"
    );
    assert!(bytes(&directory, "tiny.gguf") == new && !journal.exists());

    // The next edit does not recover the file.
    fs::write(&journal, journal_of(&old, &new)).unwrap();
    fs::write(&path, &torn).unwrap();
    let next = edit(&directory, &["tiny.gguf", "--set", "llama.context_length=1"]);
    assert!(
        next.code == 2
            && next.stderr.contains("`ggmill edit --recover tiny.gguf` finishes or undoes it"),
        "{}",
        next.stderr
    );
    assert!(bytes(&directory, "tiny.gguf") == torn && journal.exists());
    assert_eq!(edit(&directory, &["tiny.gguf", "--recover"]).code, 0);
    assert_eq!(edit(&directory, &["tiny.gguf", "--set", "llama.context_length=1"]).code, 0);
    assert_eq!(text(&directory, "tiny.gguf", "general.name"), "Tidy");

    // A journal of a different file and a damaged one are kept for the user.
    let content = bytes(&directory, "tiny.gguf");
    for (bytes, words) in [
        (journal_of(&old, &new), "belongs to a different file"),
        (b"GGMILLJ1".to_vec(), "is damaged"),
    ] {
        fs::write(&journal, &bytes).unwrap();
        let found = edit(&directory, &["tiny.gguf", "--recover"]);
        assert!(
            found.code == 2
                && found.stderr.contains(words)
                && found.stderr.contains("delete the journal"),
            "{}",
            found.stderr
        );
        assert!(journal.exists() && self::bytes(&directory, "tiny.gguf") == content);
    }

    // A journal with valid checksums that would produce an invalid file or move tensors.
    let start =
        usize::try_from(ggmill_core::Header::parse(&content[..]).unwrap().data_offset()).unwrap();
    let mut garbage = content.clone();
    garbage[..start].fill(0);
    let mut moved = content.clone();
    moved[start - 40..start].fill(0xff);
    for forged in [garbage, moved] {
        fs::write(&journal, journal_of(&content, &forged)).unwrap();
        let found = edit(&directory, &["tiny.gguf", "--set", "x=1"]);
        assert!(found.code == 2 && found.stderr.contains("--recover"), "{}", found.stderr);
        let found = edit(&directory, &["tiny.gguf", "--recover"]);
        assert!(
            found.code == 2 && found.stderr.contains("belongs to a different file"),
            "{}",
            found.stderr
        );
        assert!(journal.exists() && self::bytes(&directory, "tiny.gguf") == content);
    }
}

/// A journal that is too long to be valid is not read into memory.
#[test]
fn a_journal_of_gigabytes_is_damaged() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let journal = fs::File::create(directory.path().join("tiny.gguf.ggmill-journal")).unwrap();
    // A sparse file takes no disk space.
    journal.set_len(1 << 40).unwrap();
    let found = edit(&directory, &["tiny.gguf", "--recover"]);
    assert!(found.code == 2 && found.stderr.contains("is damaged"), "{}", found.stderr);
    assert!(bytes(&directory, "tiny.gguf") == tiny());
}

/// Returns a journal as in `docs/formats/journal.md`, for an edit of the first 64 bytes and the
/// bytes from there to the data.
fn journal_of(old: &[u8], new: &[u8]) -> Vec<u8> {
    let xxh64 = |bytes: &[u8]| xxhash_rust::xxh64::xxh64(bytes, 0);
    let kept_from = usize::try_from(Header::parse(old).unwrap().data_offset()).unwrap();
    let start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let end = kept_from
        - old[..kept_from]
            .iter()
            .rev()
            .zip(new[..kept_from].iter().rev())
            .take_while(|(old, new)| old == new)
            .count();
    let kept = [&old[kept_from..], &old[kept_from..]].concat();
    let numbers = [old.len(), 0, kept_from].map(|number| number as u64);
    let sums = [xxh64(&old[..kept_from]), xxh64(&new[..kept_from]), xxh64(&kept)];
    let place = [start as u64, (end - start) as u64];
    let mut journal = b"GGMILLJ1".to_vec();
    journal.extend(numbers.into_iter().chain(sums).chain(place).flat_map(u64::to_le_bytes));
    journal.extend(&new[start..end]);
    let sum = xxh64(&journal);
    journal.extend(sum.to_le_bytes());
    journal
}

/// The help names every option that edits.
#[test]
fn help_has_every_option() {
    let help = ggmill(Path::new("."), &["edit", "--help"]).stdout;
    for option in [
        "--set <",
        "--unset <",
        "--rename <",
        "--chat-template <",
        "--special-token <",
        "--set-from <",
        "--tokens-from <",
        "--recover",
        "--dry-run",
    ] {
        assert!(help.contains(option), "{option}");
    }
}

/// JSON that is not a patch is rejected with a hint about patches, for any file name.
#[test]
fn json_that_is_not_a_patch_gets_a_hint() {
    let directory = Directory::new()
        .with("tiny.gguf", tiny())
        .with("list.json", "[1, 2]")
        .with("list", "[\"general.name\"]")
        .with("text.json", "\"general.name\"")
        .with("text", "\"general.name\"");
    let inspected = ggmill(directory.path(), &["inspect", "tiny.gguf", "--json"]).stdout;
    let directory = directory.with("inspected.json", &inspected).with("inspected", &inspected);
    let table = "expected a table of keys and values\nhint: a patch is a JSON object of keys and \
                 values, with null for a key to remove: {\"general.name\": \"New\"";
    for (name, document) in [
        ("list.json", ""),
        ("list", ""),
        ("text.json", ""),
        ("text", ""),
        ("inspected.json", "is a ggmill.inspect/1 document, "),
        ("inspected", "is a ggmill.inspect/1 document, "),
    ] {
        let found = edit(&directory, &["tiny.gguf", "--patch", name]);
        assert_eq!((found.code, &*found.stdout), (2, ""), "{name}");
        let expected = format!("{name}: {document}{table}");
        assert!(found.stderr.contains(&expected), "{name}: {}", found.stderr);
    }
    // The command in the hint writes a patch.
    let args = ["extract", "tiny.gguf", "--key", "general.*", "-o", "patch.json"];
    assert_eq!(ggmill(directory.path(), &args).code, 0);
    let found = edit(&directory, &["tiny.gguf", "--patch", "patch.json"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
}
