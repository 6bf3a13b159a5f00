//! Side files in a directory and in memory.

use std::collections::BTreeMap;
use std::fs;

use ggmill_core::{FileType, Header};
use ggmill_pipeline::formats::CheckpointDirectory;
use ggmill_pipeline::{Pretrained as _, SideFiles};
use ggmill_testdata::{real, sha256};

use crate::support::converted;

/// In a Hugging Face cache, the files of a snapshot are links into a directory of blobs.
#[test]
#[cfg(unix)]
fn a_hub_snapshot_of_links_is_a_checkpoint() {
    use std::os::unix::fs::symlink;

    let cache = tempfile::tempdir().unwrap();
    let (blobs, snapshot) = (cache.path().join("blobs"), cache.path().join("snapshots/0"));
    fs::create_dir_all(&blobs).unwrap();
    fs::create_dir_all(&snapshot).unwrap();
    for entry in fs::read_dir(real("tinystories260K")).unwrap().map(|entry| entry.unwrap()) {
        let content = fs::read(entry.path()).unwrap();
        let blob = sha256(&content);
        fs::write(blobs.join(&blob), content).unwrap();
        symlink(format!("../../blobs/{blob}"), snapshot.join(entry.file_name())).unwrap();
    }
    // The directory itself can be a link.
    symlink(&snapshot, cache.path().join("tinystories260K")).unwrap();
    let file = converted(&cache.path().join("tinystories260K"), FileType::F16).unwrap();
    let model = Header::parse(&file).unwrap();
    assert_eq!(model.metadata().array("tokenizer.ggml.tokens").unwrap().len(), 512);
    // Links can lead out of the directory, names cannot.
    let checkpoint = CheckpointDirectory::open(&snapshot).unwrap();
    for name in ["../../blobs/x", "/etc/hostname", "..", "a/../b", "a/b/c", "", "C:x", "a\\b"] {
        assert!(!checkpoint.side_files().has(name), "{name}");
        assert!(!matches!(checkpoint.side_files().read(name, 1 << 20), Ok(Some(_))), "{name}");
    }
}

/// Both implementations of the interface return the same.
#[test]
fn a_directory_and_a_map_are_equivalent() {
    let contents = [
        ("tokenizer.json", "{}"),
        ("additional_chat_templates/rag.jinja", "rag"),
        ("additional_chat_templates/tools.jinja", "tools"),
    ];
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("additional_chat_templates")).unwrap();
    let mut map = BTreeMap::new();
    for (name, content) in contents {
        fs::write(directory.path().join(name), content).unwrap();
        map.insert(name.to_owned(), content.as_bytes().to_vec());
    }
    let directory = ggmill_io::Directory::open(directory.path()).unwrap();
    for files in [&directory as &dyn SideFiles, &map] {
        for (name, content) in contents {
            assert!(files.has(name), "{name}");
            let len = content.len() as u64;
            assert_eq!(files.read(name, len).unwrap().as_deref(), Some(content.as_bytes()));
            assert!(files.read(name, len - 1).is_err(), "{name} is longer than the limit");
        }
        let templates = files.list("additional_chat_templates").unwrap();
        assert_eq!(templates, ["rag.jinja", "tools.jinja"]);
        assert_eq!(files.list("none").unwrap(), Vec::<String>::new());
        assert_eq!(files.read("none/file", 1).unwrap(), None);
        assert!(!files.has("additional_chat_templates"));
    }
}
