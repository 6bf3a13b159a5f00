//! Every finding on a real file is listed with the reason why it is right.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ggmill_check::Options;
use ggmill_testdata::every_gguf;

use crate::support::report_named;

/// Lines of file, code and subject, and the reason for the finding.
const LISTED: &str = include_str!("real-findings.txt");
/// A directory with the vocabularies of llama.cpp's sources, of which only some are bundled here.
const VOCABULARIES: &str = "GGMILL_VOCABULARIES";

fn listed(file: &str) -> BTreeSet<String> {
    let lines = LISTED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.splitn(4, " | ").collect::<Vec<_>>());
    lines
        .filter(|fields| fields[0] == file)
        .map(|fields| format!("{} | {}", fields[1], fields[2]))
        .collect()
}

fn found(path: &Path, file: &str) -> BTreeSet<String> {
    let bytes = std::fs::read(path).unwrap();
    // Rules about the name of a file, and those that run the tokenizer, are checked on request.
    let group = |name: &str| vec![name.parse().unwrap()];
    let [content, name, tokenizer] =
        [vec![], group("naming"), group("segmentation")].map(|select| {
            let options = Options::default().with_findings_per_rule(usize::MAX).with_select(select);
            report_named(file, &bytes, &options)
        });
    content
        .diagnostics()
        .iter()
        .chain(name.diagnostics())
        .chain(tokenizer.diagnostics())
        .map(|diagnostic| format!("{} | {}", diagnostic.rule.code, diagnostic.subject))
        .collect()
}

#[test]
fn every_finding_on_a_real_file_is_listed() {
    let more = std::env::var_os(VOCABULARIES)
        .map(PathBuf::from)
        .into_iter()
        .flat_map(|directory| std::fs::read_dir(directory).unwrap());
    let more = more
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "gguf"));
    let mut unlisted = Vec::new();
    for path in every_gguf().into_iter().chain(more) {
        let file = path.file_name().unwrap().to_str().unwrap();
        let (found, listed) = (found(&path, file), listed(file));
        unlisted.extend(found.symmetric_difference(&listed).map(|line| format!("{file} | {line}")));
    }
    assert_eq!(unlisted, Vec::<String>::new());
}

#[test]
fn every_line_has_its_reason() {
    for line in LISTED.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = line.splitn(4, " | ").collect();
        assert!(fields.len() == 4 && fields[3].ends_with('.'), "{line}");
    }
}
