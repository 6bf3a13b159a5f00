//! `ggmill hash`.

use crate::support::{Folder, ggmill, real, shard, tiny};

#[test]
fn lines_as_others_write_them() {
    let folder = Folder::new().with("tiny.gguf", tiny());
    insta::assert_snapshot!(ggmill(folder.path(), &["hash", "tiny.gguf", "--all", "--uuid"]).stdout);
    let lines = ggmill(folder.path(), &["hash", "tiny.gguf"]).stdout;
    assert_eq!(lines.lines().count(), 3);
    assert!(lines.lines().all(|line| line.starts_with("xxh64     ")));
    assert_eq!(ggmill(folder.path(), &["hash", "tiny.gguf", "--no-layer"]).stdout, format!("{}\n", lines.lines().last().unwrap()));
}

#[test]
fn a_manifest_holds_the_model_to_it() {
    let folder = Folder::new().with("tiny.gguf", tiny());
    let manifest = ggmill(folder.path(), &["hash", "tiny.gguf", "--all", "--uuid"]).stdout;
    let mut changed = tiny();
    // The first byte of the last tensor, which the padding of the file follows.
    let last = changed.len() - 32;
    changed[last] = 1;
    let folder =
        folder.with("good.manifest", &manifest).with("changed.gguf", &changed).with("renamed.manifest", manifest.replace("tiny.gguf", "old/changed.gguf"));
    let folder = folder
        .with("junk.manifest", "nothing here\n")
        .with("short.manifest", manifest.lines().filter(|line| !line.ends_with("token_embd.weight")).map(|line| format!("{line}\n")).collect::<String>());
    let more = format!("{manifest}sha256    00  tiny.gguf:\u{1b}[31mred\n");
    let folder = folder.with("more.manifest", more).with("unknown.manifest", "md5 00 tiny.gguf\nuuid 00 other.gguf\n");

    let good = ggmill(folder.path(), &["hash", "tiny.gguf", "--check", "good.manifest"]);
    assert_eq!(good.code, 0, "{}", good.stderr);
    insta::assert_snapshot!("good", good.stdout);
    assert_eq!(ggmill(folder.path(), &["hash", "tiny.gguf", "--all", "--uuid", "-c", "good.manifest"]).code, 0);
    let bad = ggmill(folder.path(), &["hash", "changed.gguf", "--check", "renamed.manifest", "--xxh64"]);
    assert_eq!(bad.code, 1, "{}", bad.stderr);
    insta::assert_snapshot!("bad", bad.stdout);
    insta::assert_snapshot!("bad_json", ggmill(folder.path(), &["hash", "changed.gguf", "-c", "renamed.manifest", "--xxh64", "--json"]).stdout);
    // A tensor that the manifest leaves out although it has others, and one that only it has.
    for manifest in ["short.manifest", "more.manifest"] {
        let found = ggmill(folder.path(), &["hash", "tiny.gguf", "-c", manifest]);
        assert_eq!(found.code, 1, "{}", found.stdout);
        assert!(!found.stdout.contains('\u{1b}'));
        assert_eq!(ggmill(folder.path(), &["hash", "tiny.gguf", "--no-layer", "-c", manifest]).code, 0);
    }
    for (file, manifest, code) in
        [("tiny.gguf", "junk.manifest", 2), ("tiny.gguf", "absent", 2), ("absent", "good.manifest", 2), ("tiny.gguf", "unknown.manifest", 1)]
    {
        assert_eq!(ggmill(folder.path(), &["hash", file, "-c", manifest]).code, code, "{file} {manifest}");
    }
}

#[test]
fn shards_are_one_model() {
    let folder = Folder::new().with("a-00001-of-00002.gguf", shard(0, 2)).with("a-00002-of-00002.gguf", shard(1, 2));
    let first = ggmill(folder.path(), &["hash", "a-00001-of-00002.gguf", "--sha1"]);
    assert_eq!((first.code, first.stdout.lines().count()), (0, 3), "{}", first.stderr);
    let folder = folder.with("manifest", &first.stdout);
    let second = ggmill(folder.path(), &["hash", "a-00002-of-00002.gguf", "-c", "manifest"]);
    assert_eq!(second.code, 0, "{}", second.stdout);
    assert!(second.stdout.contains("a-00002-of-00002.gguf:blk.0.attn_q.weight  -  Ok"), "{}", second.stdout);
}

#[test]
fn a_model_without_tensors_has_a_hash() {
    let found = ggmill(&real(""), &["hash", "ggml-vocab-phi-3.gguf", "--uuid"]);
    assert_eq!((found.code, found.stdout.lines().count()), (0, 1));
}
