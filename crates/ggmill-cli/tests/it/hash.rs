//! `ggmill hash`.

use crate::support::{Directory, ggmill, real, shard, tiny};

#[test]
fn lines_as_others_write_them() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    insta::assert_snapshot!(
        ggmill(directory.path(), &["hash", "tiny.gguf", "--all", "--uuid"]).stdout
    );
    let lines = ggmill(directory.path(), &["hash", "tiny.gguf"]).stdout;
    assert_eq!(lines.lines().count(), 3);
    assert!(lines.lines().all(|line| line.starts_with("xxh64     ")));
    assert_eq!(
        ggmill(directory.path(), &["hash", "tiny.gguf", "--no-layer"]).stdout,
        format!("{}\n", lines.lines().last().unwrap())
    );
}

#[test]
fn a_model_is_verified_against_a_manifest() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let manifest = ggmill(directory.path(), &["hash", "tiny.gguf", "--all", "--uuid"]).stdout;
    let mut changed = tiny();
    // Changes the first byte of the last tensor, before the padding at the end of the file.
    let last = changed.len() - 32;
    changed[last] = 1;
    let directory = directory
        .with("good.manifest", &manifest)
        .with("changed.gguf", &changed)
        .with("renamed.manifest", manifest.replace("tiny.gguf", "old/changed.gguf"));
    let directory = directory.with("junk.manifest", "nothing here\n").with(
        "short.manifest",
        manifest
            .split_inclusive('\n')
            .filter(|line| !line.ends_with("token_embd.weight\n"))
            .collect::<String>(),
    );
    let more = format!("{manifest}sha256    00  tiny.gguf:\u{1b}[31mred\n");
    let directory = directory
        .with("more.manifest", more)
        .with("unknown.manifest", "md5 00 tiny.gguf\nuuid 00 other.gguf\n");

    let good =
        ggmill(directory.path(), &["hash", "tiny.gguf", "--check", "good.manifest", "--verbose"]);
    assert_eq!(good.code, 0, "{}", good.stderr);
    insta::assert_snapshot!("good", good.stdout);
    assert_eq!(
        ggmill(directory.path(), &["hash", "tiny.gguf", "--all", "--uuid", "-c", "good.manifest"])
            .code,
        0
    );
    let bad = ggmill(
        directory.path(),
        &["hash", "changed.gguf", "--check", "renamed.manifest", "--xxh64", "--verbose"],
    );
    assert_eq!(bad.code, 1, "{}", bad.stderr);
    insta::assert_snapshot!("bad", bad.stdout);
    insta::assert_snapshot!(
        "bad_json",
        ggmill(
            directory.path(),
            &["hash", "changed.gguf", "-c", "renamed.manifest", "--xxh64", "--json"]
        )
        .stdout
    );
    // The manifest has a single model, so it applies under a different name.
    let renamed =
        ggmill(directory.path(), &["hash", "changed.gguf", "--check", "good.manifest", "-v"]);
    assert_eq!(renamed.code, 1, "{}", renamed.stderr);
    assert!(
        renamed.stderr.contains("all hashes in the list are of \"tiny.gguf\"; they are compared")
            && renamed.stdout.contains("  -  Ok"),
        "{}",
        renamed.stderr
    );
    let directory = directory.with("same.gguf", tiny());
    assert_eq!(
        ggmill(directory.path(), &["hash", "same.gguf", "--check", "good.manifest"]).code,
        0
    );
    // A tensor that only the model has, and one that only the manifest has.
    for manifest in ["short.manifest", "more.manifest"] {
        let found = ggmill(directory.path(), &["hash", "tiny.gguf", "-c", manifest]);
        assert_eq!(found.code, 1, "{}", found.stdout);
        assert!(!found.stdout.contains('\u{1b}'));
        assert_eq!(
            ggmill(directory.path(), &["hash", "tiny.gguf", "--no-layer", "-c", manifest]).code,
            0
        );
    }
    for (file, manifest, code) in [
        ("tiny.gguf", "junk.manifest", 2),
        ("tiny.gguf", "absent", 2),
        ("absent", "good.manifest", 2),
        ("tiny.gguf", "unknown.manifest", 1),
    ] {
        assert_eq!(
            ggmill(directory.path(), &["hash", file, "-c", manifest]).code,
            code,
            "{file} {manifest}"
        );
    }
}

/// Every changed byte of a tensor is detected, with every selection of hashes.
#[test]
fn every_changed_byte_is_detected() {
    let manifest = |args: &[&str], directory: &Directory| {
        ggmill(directory.path(), &[&["hash", "model.gguf"], args].concat()).stdout
    };
    let directory = Directory::new().with("model.gguf", tiny());
    let all = manifest(&["--all", "--uuid"], &directory);
    let of_tensors: String =
        all.split_inclusive('\n').filter(|line| line.contains("gguf:")).collect();
    let of_model = manifest(&["--no-layer", "--xxh64"], &directory);
    let uuid = manifest(&["--uuid"], &directory);
    let directory = directory
        .with("all", all)
        .with("tensors", of_tensors)
        .with("model", of_model)
        .with("uuid", uuid);
    let checks: [&[&str]; 9] = [
        &["-c", "all"],
        &["-c", "all", "--xxh64"],
        &["-c", "all", "--xxh64", "--no-layer"],
        &["-c", "all", "--uuid"],
        &["-c", "all", "--all", "--uuid"],
        &["-c", "tensors"],
        &["-c", "tensors", "--blake3"],
        &["-c", "model"],
        &["-c", "uuid"],
    ];
    let codes = |checks: &[&[&str]]| -> Vec<i32> {
        checks
            .iter()
            .map(|check| ggmill(directory.path(), &[&["hash", "model.gguf"], *check].concat()).code)
            .collect()
    };
    assert_eq!(codes(&checks), [0; 9]);
    // Hashes of tensors do not verify the model as a whole, and vice versa.
    assert_eq!(
        codes(&[
            &["-c", "tensors", "--no-layer"],
            &["-c", "model", "--sha1"],
            &["-c", "uuid", "--xxh64"]
        ]),
        [1; 3]
    );
    let start = tiny().len() - 160;
    // Half of the last 32 bytes are data; the rest is padding, which is not hashed.
    for (number, place) in (start..start + 128 + 16).enumerate() {
        let mut changed = tiny();
        changed[place] ^= 1 << (number % 8);
        std::fs::write(directory.path().join("model.gguf"), changed).unwrap();
        let some = [checks[number % 9], checks[(number + 4) % 9]];
        assert_eq!(codes(&some), [1; 2], "byte {place}: {some:?}");
    }
}

/// Mismatches in the output of a check are not used as a manifest.
#[test]
fn the_output_of_a_failed_check_is_not_a_manifest() {
    let directory = Directory::new().with("model.gguf", tiny());
    let directory = directory.with(
        "good",
        ggmill(Directory::new().with("model.gguf", tiny()).path(), &["hash", "model.gguf"]).stdout,
    );
    let held = ggmill(directory.path(), &["hash", "model.gguf", "-c", "good", "--verbose"]);
    let mut changed = tiny();
    let last = changed.len() - 32;
    changed[last] = 1;
    let directory = directory.with("held", held.stdout).with("model.gguf", changed);
    let failed = ggmill(directory.path(), &["hash", "model.gguf", "-c", "good", "--verbose"]);
    assert_eq!((held.code, failed.code), (0, 1));
    let directory = directory.with("failed", failed.stdout);
    for (manifest, code) in [("held", 1), ("failed", 1)] {
        assert_eq!(
            ggmill(directory.path(), &["hash", "model.gguf", "-c", manifest]).code,
            code,
            "{manifest}"
        );
    }
}

/// One manifest for several files: each is verified with its strongest hash.
#[test]
fn each_file_has_its_own_lines() {
    let directory = Directory::new().with("model.gguf", tiny());
    let mine = ggmill(directory.path(), &["hash", "model.gguf", "--xxh64"]).stdout;
    let directory = directory
        .with("both", format!("sha256  00  other.gguf\n{mine}"))
        .with("torn", format!("{mine}xxh64  00  elsewhere/model.gguf\n"));
    assert_eq!(ggmill(directory.path(), &["hash", "model.gguf", "-c", "both"]).code, 0);
    // A different path matches the lines of both directories, which contradict each other.
    assert_eq!(ggmill(directory.path(), &["hash", "model.gguf", "-c", "torn"]).code, 0);
    assert_eq!(ggmill(directory.path(), &["hash", "./model.gguf", "-c", "torn"]).code, 1);
}

#[test]
fn shards_are_one_model() {
    let directory = Directory::new()
        .with("a-00001-of-00002.gguf", shard(0, 2))
        .with("a-00002-of-00002.gguf", shard(1, 2));
    let first = ggmill(directory.path(), &["hash", "a-00001-of-00002.gguf", "--sha1"]);
    assert_eq!((first.code, first.stdout.lines().count()), (0, 3), "{}", first.stderr);
    let directory = directory.with("manifest", &first.stdout);
    let second =
        ggmill(directory.path(), &["hash", "a-00002-of-00002.gguf", "-c", "manifest", "-v"]);
    assert_eq!(second.code, 0, "{}", second.stdout);
    assert!(
        second.stdout.contains("a-00002-of-00002.gguf:blk.0.attn_q.weight  -  Ok"),
        "{}",
        second.stdout
    );
}

#[test]
fn a_model_without_tensors_has_a_hash() {
    let found = ggmill(&real(""), &["hash", "ggml-vocab-phi-3.gguf", "--uuid"]);
    assert_eq!((found.code, found.stdout.lines().count()), (0, 1));
}

#[test]
fn a_check_prints_failures_only_and_takes_several_models() {
    let mut changed = tiny();
    let last = changed.len() - 32;
    changed[last] = 1;
    let directory = Directory::new().with("a.gguf", tiny()).with("b.gguf", tiny());
    let both = ggmill(directory.path(), &["hash", "a.gguf", "b.gguf"]);
    assert_eq!((both.code, both.stdout.lines().count()), (0, 6), "{}", both.stderr);
    let directory = directory.with("manifest", &both.stdout).with("b.gguf", changed);
    let found = ggmill(directory.path(), &["hash", "a.gguf", "b.gguf", "-c", "manifest"]);
    assert_eq!(found.code, 1, "{}", found.stderr);
    let lines: Vec<&str> = found.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{}", found.stdout);
    assert_eq!(lines[0], "a.gguf: Verification results for manifest - Success");
    assert!(lines[1].ends_with("b.gguf:output_norm.weight  -  Mismatch"), "{}", found.stdout);
    assert!(lines[2].ends_with("b.gguf  -  Mismatch"), "{}", found.stdout);
    let absent = ggmill(directory.path(), &["hash", "absent.gguf", "a.gguf"]);
    assert_eq!((absent.code, absent.stdout.lines().count()), (2, 3), "{}", absent.stderr);
}

/// Lines of sha256sum are about whole files.
#[test]
fn whole_files_are_checked_by_the_lines_of_sha256sum() {
    let digest = ggmill_testdata::sha256(&tiny());
    let mut changed = tiny();
    // Changes a byte of the metadata, which the hashes of weights do not cover.
    changed[40] ^= 1;
    let directory = Directory::new().with("tiny.gguf", tiny()).with("changed.gguf", changed);
    let directory = directory
        .with("SHA256SUMS", format!("{digest}  elsewhere/tiny.gguf\n{digest} *changed.gguf\n"))
        .with("MD5SUMS", "d41d8cd98f00b204e9800998ecf8427e  tiny.gguf\n");
    let check = |args: &[&str]| ggmill(directory.path(), &[&["hash"], args].concat());
    let good = check(&["tiny.gguf", "--check", "SHA256SUMS"]);
    assert_eq!(
        (good.code, &*good.stdout),
        (0, "tiny.gguf: Verification results for SHA256SUMS - Success\n"),
        "{}",
        good.stderr
    );
    let bad = check(&["changed.gguf", "-c", "SHA256SUMS"]);
    assert_eq!(bad.code, 1, "{}", bad.stderr);
    assert!(bad.stdout.contains("changed.gguf (whole file)  -  Mismatch\n"), "{}", bad.stdout);
    let json = check(&["tiny.gguf", "-c", "SHA256SUMS", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["result"], &json["hashes"][0]["whole_file"]), (&"ok".into(), &true.into()));
    assert_eq!(check(&["SHA256SUMS", "-c", "SHA256SUMS"]).code, 1);
    // A list with a single file applies under any name, like a manifest.
    let one = Directory::new()
        .with("renamed.gguf", tiny())
        .with("other.gguf", "GGUF")
        .with("SUMS", format!("{digest}  tiny.gguf\n"));
    let check_one = |file: &str| ggmill(one.path(), &["hash", file, "-c", "SUMS"]);
    let renamed = check_one("renamed.gguf");
    let note = "note: all hashes in the list are of \"tiny.gguf\"; they are compared with those of \
                renamed.gguf\n";
    let success = "renamed.gguf: Verification results for SUMS - Success\n";
    assert_eq!((renamed.code, &*renamed.stdout, &*renamed.stderr), (0, success, note));
    assert_eq!(check_one("other.gguf").code, 1);
    for (args, words) in [
        (&["tiny.gguf", "-c", "MD5SUMS"][..], "or the output of sha256sum"),
        (
            &["tiny.gguf", "-c", "SHA256SUMS", "--xxh64"],
            "contains SHA-256 hashes of whole files, but xxh64",
        ),
    ] {
        let found = check(args);
        assert!(found.code == 2 && found.stderr.contains(words), "{}", found.stderr);
    }
}

#[test]
fn lists_of_windows_are_read() {
    let digest = ggmill_testdata::sha256(&tiny());
    let upper = digest.to_uppercase();
    let utf_16 = |text: &str| -> Vec<u8> {
        [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    let table = format!(
        "\r\nAlgorithm       Hash     Path\r\n---------       ----     ----\r\n\
         SHA256          {upper}       C:\\models\\tiny.gguf\r\n"
    );
    let list = format!("\nAlgorithm : SHA256\nHash      : {upper}\nPath      : C:\\tiny.gguf\n");
    let certutil = format!(
        "SHA256 hash of tiny.gguf:\r\n{digest}\r\nCertUtil: -hashfile command completed \
         successfully.\r\n"
    );
    // Spaces between bytes, as older versions print.
    let pairs: Vec<&str> =
        digest.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap()).collect();
    let old_certutil = format!("SHA256 hash of file tiny.gguf:\r\n{}\r\n", pairs.join(" "));
    let marked = format!("\u{feff}{digest}  tiny.gguf\n");
    let manifest =
        ggmill(Directory::new().with("tiny.gguf", tiny()).path(), &["hash", "tiny.gguf"]);
    let manifest = format!("\u{feff}{}", manifest.stdout);
    let lists: [Vec<u8>; 8] = [
        utf_16(&table),
        table.into_bytes(),
        utf_16(&list),
        list.into_bytes(),
        certutil.into_bytes(),
        old_certutil.into_bytes(),
        marked.into_bytes(),
        manifest.into_bytes(),
    ];
    let mut changed = tiny();
    let end = changed.len() - 32;
    changed[end] = 1;
    for (number, list) in lists.into_iter().enumerate() {
        let directory = Directory::new().with("tiny.gguf", tiny()).with("list", &list);
        let check = || ggmill(directory.path(), &["hash", "tiny.gguf", "--check", "list"]);
        let good = check();
        assert_eq!(good.code, 0, "{number}: {}{}", good.stdout, good.stderr);
        std::fs::write(directory.path().join("tiny.gguf"), &changed).unwrap();
        assert_eq!(check().code, 1, "{number}");
    }
}

#[test]
fn an_expected_hash_is_that_of_the_whole_file() {
    let digest = ggmill_testdata::sha256(&tiny());
    let directory = Directory::new().with("tiny.gguf", tiny());
    let expect = |hex: &str| ggmill(directory.path(), &["hash", "tiny.gguf", "--expect", hex]);
    assert_eq!(expect(&digest).code, 0);
    assert_eq!(expect(&digest.to_uppercase()).code, 0);
    assert_eq!(expect(&"0".repeat(64)).code, 1);
    for wrong in ["", "12", &"g".repeat(64)] {
        let found = expect(wrong);
        assert!(found.code == 2 && found.stderr.contains("64 hexadecimal"), "{}", found.stderr);
    }
    let two = ["hash", "tiny.gguf", "tiny.gguf", "--expect", &digest];
    assert_eq!(ggmill(directory.path(), &two).code, 2);
}

#[test]
fn standard_input_is_refused_with_a_hint() {
    let directory = Directory::new();
    for args in [&["hash", "-"][..], &["measure", "-", "--tokens", "ids.json"]] {
        let found = ggmill(directory.path(), args);
        assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}");
        assert!(found.stderr.contains("-: tensor data is read at any place"), "{}", found.stderr);
        assert!(found.stderr.contains("hint: save it to a file"), "{}", found.stderr);
    }
}
