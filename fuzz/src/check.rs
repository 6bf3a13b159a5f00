//! Checks any bytes, with a limit of findings, in every output format.

use ggmill_check::render::{Checked, Text, github, json, sarif};
use ggmill_check::{
    Authority, DataFacts, Input, Options, Profile, Report, Rule, Severity, check as hold_to_rules,
    data_pieces, unreadable,
};
use ggmill_core::{Header, Model};

/// Reported findings per rule.
const FINDINGS_PER_RULE: usize = 3;

/// Checks the bytes as a file, and writes the report in one format.
///
/// The sum of the bytes selects the format and the profile, so that any change of an input selects
/// another. Every format for each input would take most of the time, because the fuzzer tracks
/// every allocation.
pub fn check(data: &[u8]) {
    let chosen = data.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let options = Options::default().with_findings_per_rule(FINDINGS_PER_RULE);
    let report = match Model::open_damaged(data.to_vec()) {
        Ok(model) => {
            let (part, faults) = (&model.parts()[0], model.parts()[0].faults());
            let mut facts = DataFacts::default();
            for piece in data_pieces(part) {
                let start = usize::try_from(piece.offset()).expect("within the data");
                facts.add(piece.examine(&data[start..start + piece.len()]));
            }
            let input = Input::new(part).named("Tiny-1K-v1.0.gguf").with_data(&facts);
            let report = hold_to_rules(&input, &options);
            assert_eq!(
                faults.is_empty(),
                Header::parse(data).is_ok(),
                "a damaged file without a fault opens"
            );
            assert!(
                faults.is_empty() || report.has_errors(),
                "a file that does not open has an error: {faults:?}"
            );
            let profile = if chosen & 4 == 0 { Profile::Spec } else { Profile::Ggml };
            let part = hold_to_rules(&input, &options.clone().with_profile(profile));
            let of_all = |found: &&(&Rule, u64)| found.0.authority != Authority::Letter;
            // An unknown entry is a note in general and an error by another rule, that of
            // llama.cpp.
            let unknown = report.counts().iter().any(|(rule, _)| rule.code == "GG1503");
            let is_found = |found: &(&Rule, u64)| {
                let is_known = report.counts().contains(found);
                // File names are checked on request and by the profile of the specification.
                is_known || unknown && found.0.code == "GG1517" || found.0.code.starts_with("GG18")
            };
            assert!(
                part.counts().iter().filter(of_all).all(is_found),
                "a profile finds what all find"
            );
            report
        }
        Err(error) => {
            assert!(Header::parse(data).is_err(), "{error}: not readable, and opens");
            unreadable(&error, &options)
        }
    };
    told(&report, chosen);
}

fn told(report: &Report, chosen: u8) {
    let plain = |text: &str| !text.chars().any(char::is_control);
    for diagnostic in report.diagnostics() {
        assert!(
            !diagnostic.message.is_empty() && plain(&diagnostic.message),
            "{:?}",
            diagnostic.message
        );
        assert!(plain(&diagnostic.subject.to_string()), "{}", diagnostic.subject);
    }
    for (rule, count) in report.counts() {
        let told =
            report.diagnostics().iter().filter(|diagnostic| diagnostic.rule == *rule).count();
        assert_eq!(told as u64, (*count).min(FINDINGS_PER_RULE as u64), "{}", rule.code);
    }
    let by_severity: u64 = [Severity::Error, Severity::Warning, Severity::Note]
        .map(|severity| report.count(severity))
        .iter()
        .sum();
    let by_rule: u64 = report.counts().iter().map(|(_, count)| count).sum();
    assert_eq!(by_severity, by_rule);
    let checked = Checked::new("Tiny-1K-v1.0.gguf", report);
    let mut lines = Vec::new();
    match chosen % 4 {
        0 => {
            github(&mut lines, &checked).expect("memory is written");
            assert_eq!(
                lines.split_inclusive(|&byte| byte == b'\n').count(),
                report.diagnostics().len(),
                "a line for each finding"
            );
        }
        1 => Text::new(false, Some(60)).file(&mut lines, &checked).expect("memory is written"),
        2 => drop(json(&[checked]).to_string()),
        _ => drop(sarif(&[checked]).to_string()),
    }
    assert!(String::from_utf8(lines).is_ok_and(|lines| lines.lines().all(plain)));
}
