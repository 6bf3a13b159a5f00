//! The corpus of small files and the real files.

use ggmill_check::{Options, Severity};
use ggmill_testdata::{corpus, every_gguf};

use crate::support::{report, report_named};

/// Errors that are right on files which open: what llama.cpp refuses, or no model can do without.
const RIGHT: &[&str] = &[
    "GG1004", "GG1007", "GG1009", "GG1101", "GG1102", "GG1107", "GG1114", "GG1201", "GG1202",
    "GG1301", "GG1305", "GG1308", "GG1309", "GG1310", "GG1311", "GG1312",
];

#[test]
fn what_the_reader_refuses_has_an_error() {
    for case in
        corpus::broken().into_iter().filter(|case| case.limits == ggmill_core::Limits::default())
    {
        let found = report(&case.bytes);
        assert!(found.has_errors(), "{}: {}", case.name, case.why);
    }
}

#[test]
fn what_the_reader_takes_has_no_error_but_those_of_llama_cpp() {
    for case in corpus::all()
        .into_iter()
        .filter(|case| !case.is_broken() && case.limits == ggmill_core::Limits::default())
    {
        let found = report(&case.bytes);
        for diagnostic in
            found.diagnostics().iter().filter(|diagnostic| diagnostic.severity == Severity::Error)
        {
            assert!(
                RIGHT.contains(&diagnostic.rule.code),
                "{}: {}: {}",
                case.name,
                diagnostic.rule.code,
                diagnostic.message
            );
        }
    }
}

#[test]
fn real_files_have_no_error_but_their_version() {
    for path in every_gguf() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let found = report_named(name, &std::fs::read(&path).unwrap(), &Options::default());
        for diagnostic in
            found.diagnostics().iter().filter(|diagnostic| diagnostic.severity == Severity::Error)
        {
            // This file is of version 1, which llama.cpp refuses.
            let right = name == "ggml-vocab-llama.v1.gguf" && diagnostic.rule.code == "GG1004";
            assert!(
                right,
                "{name}: {}: {}: {}",
                diagnostic.rule.code, diagnostic.subject, diagnostic.message
            );
        }
    }
}

#[test]
fn a_file_cut_anywhere_or_with_a_byte_changed_is_answered() {
    let whole = crate::support::Model::llama().bytes();
    for end in (0..whole.len()).step_by(7) {
        assert!(report(&whole[..end]).has_errors(), "cut at {end}");
    }
    let mut changed = whole;
    for at in 0..changed.len().min(1600) {
        let byte = changed[at];
        for value in [0, byte ^ 0xff, byte.wrapping_add(1)] {
            changed[at] = value;
            let _ = report(&changed);
        }
        changed[at] = byte;
    }
}
