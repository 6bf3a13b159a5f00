use std::fs;

use ggmill_testdata::{REAL_GGUF, real, sha256};

/// The digests that `real/README.md` states, by file name.
fn stated() -> Vec<(String, String)> {
    let readme = fs::read_to_string(real("README.md")).unwrap();
    let (_, table) = readme.split_once("```text\n").unwrap();
    let (table, _) = table.split_once("```").unwrap();
    table
        .lines()
        .map(|line| line.split_once("  ").unwrap())
        .map(|(digest, name)| (name.to_owned(), digest.to_owned()))
        .collect()
}

#[test]
fn every_bundled_file_is_the_one_the_readme_names() {
    for (name, digest) in stated() {
        assert_eq!(sha256(&fs::read(real(&name)).unwrap()), digest, "{name}");
    }
}

#[test]
fn nothing_is_bundled_without_source_and_licence() {
    let readme = fs::read_to_string(real("README.md")).unwrap();
    let stated = stated();
    let mut total = 0;
    let mut directories = vec![real("")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let name = path.strip_prefix(real("")).unwrap().to_str().unwrap().to_owned();
            if name != "README.md" {
                assert!(stated.iter().any(|(stated, _)| *stated == name), "{name} has no digest");
                assert!(readme.contains(&format!("`{name}`")), "{name} has no row in the table");
            }
            total += entry.metadata().unwrap().len();
        }
    }
    assert!(total < 10_000_000, "{total} bytes are too many to bundle");
    assert!(REAL_GGUF.iter().all(|name| stated.iter().any(|(stated, _)| stated == name)));
}
