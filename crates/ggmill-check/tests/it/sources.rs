//! Every rule and every required key of every description has a source, and rules are consistent with
//! their sources.

use ggmill_arch::{Architecture, LoaderKey, Refusal, RequiredBy, SpecifiedKey};
use ggmill_check::{Authority, Force, Rule, Source, StatedBy, rule_page, rules};

/// The variable with the path of the specification at the cited revision.
const SPECIFICATION: &str = "GGMILL_SPECIFICATION";
/// The variable with the path of llama.cpp at the cited revision.
const LLAMA_CPP: &str = "GGMILL_LLAMA_CPP";

/// Returns `true` if the forces of a rule's sources imply its authority.
fn agrees(rule: &Rule) -> bool {
    let sources: Vec<Source> = rule.sources().collect();
    let has = |forces: &[Force]| sources.iter().any(|source| forces.contains(&source.force));
    let must = has(&[Force::Must]);
    let states = must || has(&[Force::Should, Force::Defines]);
    let by_loader =
        has(&[Force::Refuses, Force::Partly, Force::Misreads, Force::Fails, Force::Warns]);
    match rule.authority {
        Authority::Both => (must || has(&[Force::Defines])) && by_loader,
        Authority::Must => must && !by_loader,
        Authority::Specification => states && !must && !by_loader,
        Authority::Reference => by_loader && !states,
        Authority::Letter => states && !by_loader,
        Authority::Practice => has(&[Force::Recommended]) && !must,
        _ => false,
    }
}

#[test]
fn every_rule_has_sources_consistent_with_its_authority() {
    for rule in rules() {
        assert!(agrees(rule), "{}: {:?}", rule.code, rule.sources().collect::<Vec<_>>());
        let practice = rule.sources().any(|source| source.by == StatedBy::Practice);
        assert_eq!(practice, rule.authority == Authority::Practice, "{}", rule.code);
    }
}

/// Pages refer to the cases described below; the text printed with findings must not.
#[test]
fn partial_requirements_say_so() {
    for (code, said) in [
        (
            "GG1504",
            "Rejected by llama.cpp; conforms to the specification (section \"Standardized \
                    key-value pairs\", line 336) in some cases",
        ),
        (
            "GG1603",
            "Violates the specification (section \"GGML\", line 656); rejected by llama.cpp in \
                    some cases",
        ),
        ("GG1618", "Loaded by llama.cpp, which can fail later"),
    ] {
        let rule = rules().find(|rule| rule.code == code).unwrap();
        let (requirement, page) = (rule.requirement(), rule_page(rule));
        assert!(requirement.starts_with(said) && !requirement.contains("below"), "{requirement}");
        assert!(page.contains(&format!("{said} (see below)")), "{page}");
    }
}

#[test]
fn every_required_key_of_every_description_has_its_source() {
    for architecture in Architecture::builtins() {
        let name = architecture.name();
        for key in architecture.keys() {
            let specified = SpecifiedKey::of(key.name).is_some();
            let loader = LoaderKey::of(name, key.name).is_some() && architecture.loader().is_some();
            let expected = match (specified, loader) {
                (true, true) => Some(RequiredBy::Both),
                (true, false) => Some(RequiredBy::Specification),
                (false, true) => Some(RequiredBy::Loader),
                (false, false) => None,
            };
            // Descriptions without a loader can use parts of others.
            if architecture.loader().is_some() || key.required_by != Some(RequiredBy::Loader) {
                assert_eq!(key.required_by, expected, "{name}: {}", key.name);
            }
        }
    }
}

#[test]
fn every_source_refers_to_a_described_key() {
    let described = |architecture: &str, key: &str| {
        Architecture::builtin(architecture)
            .is_some_and(|architecture| architecture.keys().any(|known| known.name == key))
    };
    for key in LoaderKey::all() {
        let Some(architecture) = key.architecture else { continue };
        let own = format!("{architecture}.{}", key.key);
        assert!(described(architecture, &own) || described(architecture, key.key), "{own}");
    }
    for key in SpecifiedKey::all() {
        assert!(Architecture::builtin(key.architecture()).is_some(), "{}", key.name);
        // Architectures that only the specification mentions are not described.
        let is_known = described(key.architecture(), key.name);
        assert!(is_known || key.is_rare || key.definition.is_some(), "{}", key.name);
    }
    // Every line of both tables parses.
    assert_eq!((SpecifiedKey::all().count(), LoaderKey::all().count()), (67, 114));
}

/// Returns the last heading at or before a line, without its marks.
fn section<'a>(lines: &[&'a str], line: usize) -> &'a str {
    let heading =
        lines[..line].iter().rev().find(|line| line.starts_with('#') && line.contains("# "));
    heading.map_or("", |heading| heading.trim_start_matches('#').trim())
}

#[test]
fn quotations_are_in_the_specification_if_available() {
    let Some(path) = std::env::var_os(SPECIFICATION) else {
        return eprintln!("skipped: {SPECIFICATION} names no copy of the specification");
    };
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let held = |what: &str, place: &str, name: &str, quotation: &str| {
        let line: usize = place.parse().unwrap();
        assert!(lines[line - 1].contains(quotation), "{what}: line {line}: {}", lines[line - 1]);
        assert_eq!(section(&lines, line), name, "{what}: line {line}");
    };
    for source in rules().flat_map(Rule::sources) {
        if source.by == StatedBy::Specification && !source.place.is_empty() {
            held(source.rule, source.place, source.name, source.quotation);
        }
    }
    for key in SpecifiedKey::all() {
        held(key.name, &key.line.to_string(), key.section, &format!("`{}", key.name));
    }
}

#[test]
fn functions_are_in_llama_cpp_if_available() {
    let Some(directory) = std::env::var_os(LLAMA_CPP) else {
        return eprintln!("skipped: {LLAMA_CPP} names no directory");
    };
    let directory = std::path::Path::new(&directory);
    let read = |file: &str| std::fs::read_to_string(directory.join(file)).unwrap();
    for source in rules().flat_map(Rule::sources).filter(|source| source.by == StatedBy::LlamaCpp) {
        let text = read(source.place);
        let name = source.name.rsplit("::").next().unwrap();
        assert!(text.contains(name), "{}: {}", source.rule, source.name);
        assert!(text.contains(source.quotation), "{}: {}", source.rule, source.quotation);
    }
    let names = read("src/llama-arch.cpp");
    for key in LoaderKey::all() {
        let text = read(key.file);
        let start = text.find(&format!("{}(llama_model_loader", key.function)).unwrap();
        let body = text[start..].split("\n}\n").next().unwrap();
        let pattern = if key.key.starts_with("tokenizer.") { "" } else { "%s." };
        let quoted = format!("\"{pattern}{}\"", key.key);
        let line = names.lines().find(|line| line.contains(&quoted)).unwrap();
        let constant = line.split(['{', ',']).nth(1).unwrap().trim();
        let reads = body
            .lines()
            .any(|line| line.contains(&format!("{constant},")) && !line.contains("false)"));
        assert_eq!(reads, key.refusal == Refusal::MissingKey, "{key:?}");
    }
}
