//! The pages under `docs/rules`, and the formats for other programs.

use std::fmt::Write as _;
use std::path::PathBuf;

use ggmill_check::render::{Checked, Run, Text, github, json, sarif};
use ggmill_check::{Authority, Profile, rule_page, rules, rules_index};

use crate::support::{Model, report};

/// The variable that makes the tests write the pages instead of comparing them.
const BLESS: &str = "GGMILL_BLESS";

/// Returns the findings of every rule in its example, as `ggmill check` prints them.
fn printed_findings() -> String {
    let mut lines = String::new();
    for rule in rules() {
        let (name, bytes) = crate::examples::example(rule.code).unwrap();
        let profile = match rule.authority {
            Authority::Letter => Profile::Spec,
            Authority::Reference => Profile::Ggml,
            _ => Profile::All,
        };
        let reports = [profile, Profile::All].map(|profile| {
            let select = vec![rule.code.parse().unwrap()];
            let options =
                ggmill_check::Options::default().with_profile(profile).with_select(select);
            crate::support::report_named(name, &bytes, &options)
        });
        let report = reports.iter().find(|report| !report.is_clean()).unwrap();
        let mut printed = Vec::new();
        Text::new(false, None).file(&mut printed, &Checked::new(name, report)).unwrap();
        let printed = String::from_utf8(printed).unwrap();
        let heading = format!("  {} {} · {}", report.severity(rule), rule.summary, rule.code);
        assert!(printed.contains(&heading), "{printed}");
        let mut findings = printed
            .lines()
            .skip_while(|line| *line != heading)
            .skip(1)
            .take_while(|line| !line.starts_with("    why: "))
            .peekable();
        if findings.peek().unwrap().contains("key \"tokenizer.chat_template\": ") {
            writeln!(lines, "{} | {}", rule.code, template(&bytes)).unwrap();
        }
        for finding in findings {
            writeln!(lines, "{} {}", rule.code, finding.trim_start()).unwrap();
        }
    }
    lines
}

/// Returns the chat template of a file as `ggmill` prints it, shortened if it is long.
fn template(bytes: &[u8]) -> String {
    let file = ggmill_core::Header::parse(bytes).unwrap();
    let text = file.metadata().raw_str("tokenizer.chat_template").unwrap().to_string();
    match text.char_indices().nth(120) {
        Some(_) => {
            format!("\"{}…\" ({} bytes)", text.chars().take(40).collect::<String>(), text.len())
        }
        None => format!("\"{text}\""),
    }
}

/// The examples on the pages are what `ggmill check` prints.
#[test]
fn examples_equal_the_printed_findings() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/examples.txt");
    let printed = printed_findings();
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == printed, "data/examples.txt is out of date; run this test with {BLESS}=1");
}

/// Every page has the same sections in the same order, a finding of its rule, and says whether
/// there is an automatic fix.
#[test]
fn pages_have_one_form() {
    for rule in rules() {
        let page = rule_page(rule);
        let headings: Vec<_> = page.lines().filter(|line| line.starts_with('#')).collect();
        let title = format!("# {}: {}", rule.code, rule.summary);
        let mut expected = vec![
            &*title,
            "## What it checks",
            "## Why",
            "## Example",
            "## How to fix",
            "## Sources",
        ];
        if rule.advisories().next().is_some() {
            expected.insert(5, "## Advisories");
        }
        assert_eq!(headings, expected, "{}", rule.code);
        let heading = format!("{} {} · {}\n  ", rule.severity, rule.summary, rule.code);
        let about_template = page.contains("  0x459 key \"tokenizer.chat_template\": ");
        let has_template = page.contains("```text\ntokenizer.chat_template: \"");
        assert!(has_template || !about_template, "{}: no template", rule.code);
        assert!(page.contains(&heading), "{}: no finding", rule.code);
        let has_fix = page.contains(". This is safe: ");
        assert_ne!(
            has_fix,
            page.contains("\n`ggmill check --fix` does not fix this.\n"),
            "{}",
            rule.code
        );
        assert_eq!(has_fix, rule.automatic.is_some(), "{}", rule.code);
        assert!(!rule.fixed.is_empty(), "{}", rule.code);
        // The condition precedes the requirement.
        assert!(rule.clause.starts_with("Reported when "), "{}: {}", rule.code, rule.clause);
    }
}

#[test]
fn the_pages_of_the_rules_are_up_to_date() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules");
    let mut pages: Vec<(String, String)> =
        rules().map(|rule| (format!("{}.md", rule.code), rule_page(rule))).collect();
    pages.push(("README.md".into(), rules_index()));
    if std::env::var_os(BLESS).is_some() {
        std::fs::create_dir_all(&directory).unwrap();
        for (name, page) in &pages {
            std::fs::write(directory.join(name), page).unwrap();
        }
    }
    for (name, page) in &pages {
        let found = std::fs::read_to_string(directory.join(name)).unwrap_or_default();
        assert!(found == *page, "docs/rules/{name} is out of date; run this test with {BLESS}=1");
    }
    assert_eq!(
        std::fs::read_dir(&directory).unwrap().count(),
        pages.len(),
        "a page without a rule"
    );
}

/// Returns a run with implausible outputs.
fn run() -> Run {
    let faults = vec!["for 3 tokens all outputs are equal".to_owned()];
    Run { document: serde_json::json!({ "tokens": 16, "faults": faults }), faults }
}

#[test]
fn faults_of_a_run_are_reported_with_the_findings() {
    let found = report(&Model::llama().bytes());
    let run = run();
    let checked = Checked::new("a.gguf", &found).with_run(Some(&run));
    assert_eq!(json(&[checked])["files"][0]["run"], run.document);
    let without = json(&[Checked::new("a.gguf", &found)]);
    assert!(without["files"][0].get("run").is_none());
    let mut lines = Vec::new();
    github(&mut lines, &checked).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let expected = "::error file=a.gguf,title=run%3A running the model gives no plausible \
                    outputs::for 3 tokens all outputs are equal";
    assert_eq!(lines.lines().last(), Some(expected));
    let log = sarif(&[checked]);
    let result = log["runs"][0]["results"].as_array().unwrap().last().unwrap();
    assert_eq!((&result["ruleId"], &result["level"]), (&"run".into(), &"error".into()));
    assert_eq!(result["message"]["text"], "for 3 tokens all outputs are equal");
}

#[test]
fn sarif_has_what_its_schema_requires() {
    let found =
        report(&Model::llama().unset("general.architecture").push("general.name", "x").bytes());
    let log =
        sarif(&[Checked::new("a directory/Tiny-1K-v1.0.gguf", &found).with_run(Some(&run()))]);
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "ggmill");
    let described: Vec<_> = run["tool"]["driver"]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["id"].clone())
        .collect();
    let results = run["results"].as_array().unwrap();
    assert!(!results.is_empty());
    for result in results {
        assert!(described.contains(&result["ruleId"]) && result["message"]["text"].is_string());
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
        assert_eq!(
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            "a%20directory/Tiny-1K-v1.0.gguf"
        );
    }
}

/// A file with the schema of SARIF 2.1.0, as OASIS publishes it; it is not bundled.
const SARIF_SCHEMA: &str = "GGMILL_SARIF_SCHEMA";

#[test]
fn sarif_is_valid_by_its_schema() {
    let Some(path) = std::env::var_os(SARIF_SCHEMA) else {
        return eprintln!("skipped: {SARIF_SCHEMA} names no schema");
    };
    // One of its patterns has a bracket that is literal only in JavaScript.
    let text = std::fs::read_to_string(path).unwrap().replace("{2}]?$", r"{2}\\]?$");
    let schema = serde_json::from_str(&text).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let run = run();
    let reports: Vec<_> = rules()
        .map(|rule| {
            let (name, bytes) = crate::examples::example(rule.code).unwrap();
            (name, crate::support::report_named(name, &bytes, &ggmill_check::Options::default()))
        })
        .collect();
    let files: Vec<_> = reports
        .iter()
        .map(|(name, report)| Checked::new(name, report).with_run(Some(&run)))
        .collect();
    let errors: Vec<_> =
        validator.iter_errors(&sarif(&files)).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn json_counts_findings_beyond_the_limit() {
    let options = ggmill_check::Options::default().with_findings_per_rule(1);
    let bytes = Model::llama().push("X", "1").push("Y", "2").bytes();
    let found = crate::support::report_named("Tiny-1K-v1.0.gguf", &bytes, &options);
    let file = &json(&[Checked::new("Tiny-1K-v1.0.gguf", &found)])["files"][0];
    assert_eq!(
        (file["findings"].as_array().unwrap().len(), &file["unlisted"][0]["count"]),
        (1, &1.into())
    );
}

/// Programs get the name that is in the file; text gets a short and escaped one.
#[test]
fn names_are_complete_in_json_and_sarif() {
    let special = format!("{}\u{1b}\\\"", "Ä".repeat(200));
    let longest = "X".repeat(70_000);
    for (key, expected) in [
        (&*special, special.clone()),
        (&*longest, format!("{}…", &longest[..65_535])),
        ("A \u{202e}b", "A \u{202e}b".to_owned()),
    ] {
        let found = report(&Model::llama().set(key, "1").bytes());
        let checked = Checked::new("m.gguf", &found);
        let subject = |finding: &serde_json::Value| finding["subject"]["name"] == *expected;
        let findings = &json(&[checked])["files"][0]["findings"];
        assert!(findings.as_array().unwrap().iter().any(subject), "{findings:.500}");
        let log = sarif(&[checked]);
        let location = |result: &serde_json::Value| {
            result["locations"][0]["logicalLocations"][0]["name"] == *expected
        };
        assert!(log["runs"][0]["results"].as_array().unwrap().iter().any(location));
        let diagnostic = &found.diagnostics()[0];
        assert_eq!(diagnostic.subject.name().unwrap().as_bytes(), key.as_bytes());
        let text = diagnostic.subject.to_string();
        assert!(text.len() < 1000 && text.chars().all(ggmill_core::RawStr::is_plain), "{text}");
    }
}

#[test]
fn hostile_text_stays_in_its_line() {
    let found = report(&Model::llama().set("x.\n::error::\u{1b}[2J", "1").bytes());
    let checked = Checked::new("model\n.gguf", &found);
    let mut out = Vec::new();
    Text::new(false, Some(60)).file(&mut out, &checked).unwrap();
    github(&mut out, &checked).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(
        !out.contains('\u{1b}') && !out.lines().any(|line| line.starts_with("::error::")),
        "{out}"
    );
}
