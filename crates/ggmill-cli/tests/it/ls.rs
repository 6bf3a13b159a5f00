//! `ggmill ls` on directories.

use std::fs;

use crate::support::{Directory, command, ggmill, outcome, real, shard};

fn directory() -> Directory {
    let directory = Directory::new().with("broken.gguf", "GGUF").with("README.md", "# Models");
    let mut convert = command(directory.path());
    convert.arg("convert").arg(real("tinystories260K")).args(["-o", "m.gguf", "--type", "q8_0"]);
    assert_eq!(outcome(&mut convert).code, 0);
    let below = directory.path().join("below");
    fs::create_dir(&below).unwrap();
    fs::write(below.join("s-00001-of-00002.gguf"), shard(0, 2)).unwrap();
    fs::write(below.join("s-00002-of-00002.gguf"), shard(1, 2)).unwrap();
    fs::write(below.join("t-00002-of-00003.gguf"), shard(1, 3)).unwrap();
    directory
}

#[test]
fn a_directory_is_listed_like_a_repository() {
    let directory = directory();
    let found = ggmill(directory.path(), &["ls", "."]);
    let said: Vec<&str> = found.stderr.lines().collect();
    assert_eq!((found.code, said.len()), (0, 2), "{}", found.stderr);
    assert!(said[0].ends_with("t-00001-of-00003.gguf: missing: shards 1, 3 of 3"), "{said:?}");
    assert!(said[1].starts_with("warning: ./broken.gguf: offset 0x4: "), "{said:?}");
    insta::assert_snapshot!("directory", found.stdout);
    let found = ggmill(directory.path(), &["ls", "below", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(document["location"], "below");
    let files = &document["files"];
    assert_eq!(files[0]["name"], "s-00001-of-00002.gguf");
    assert_eq!((&files[0]["shards"], &files[0]["bits_per_weight"]), (&2.into(), &32.0.into()));
    assert_eq!(files[1]["name"], "t-00002-of-00003.gguf");
    assert_eq!(files.as_array().unwrap().len(), 2);
}

#[test]
fn a_file_is_refused_with_a_hint() {
    let directory = directory();
    for (path, expected) in [
        ("m.gguf", "hint: `ggmill inspect` shows a file or a shard set"),
        ("owner/name", "hint: a repository on the Hugging Face Hub is `hf://owner/name`"),
        (
            "none",
            "none: no such file or directory\nhint: a repository on the Hugging Face Hub is `hf://OWNER/NAME`",
        ),
    ] {
        let found = ggmill(directory.path(), &["ls", path]);
        assert_eq!((found.code, &*found.stdout), (2, ""));
        assert!(found.stderr.contains(expected), "{path}: {}", found.stderr);
    }
    fs::create_dir(directory.path().join("nothing")).unwrap();
    let found = ggmill(directory.path(), &["ls", "nothing"]);
    assert_eq!((found.code, &*found.stdout), (1, ""));
    assert_eq!(found.stderr, "warning: nothing: no .gguf files found\n");
}
