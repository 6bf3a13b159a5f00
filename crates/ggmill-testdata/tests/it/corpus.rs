use std::collections::HashSet;

use ggmill_testdata::corpus;

const ATTACKS: &str = include_str!("../../ATTACKS.md");

#[test]
fn names_are_unique() {
    let mut seen = HashSet::new();
    for case in corpus::all() {
        assert!(seen.insert(case.name), "{} stands twice", case.name);
        assert!(!case.why.is_empty() && !case.why.ends_with('.'), "{}: {:?}", case.name, case.why);
    }
}

#[test]
fn every_broken_file_is_minimal() {
    for case in corpus::broken() {
        assert!(case.bytes.len() < 200_000, "{} has {} bytes", case.name, case.bytes.len());
    }
}

#[test]
fn every_broken_file_belongs_to_an_attack() {
    let unnamed: Vec<&str> = corpus::broken()
        .iter()
        .map(|case| case.name)
        .filter(|name| !ATTACKS.contains(&format!("`{name}`")))
        .collect();
    assert!(unnamed.is_empty(), "not in ATTACKS.md: {unnamed:?}");
}

#[test]
fn every_file_an_attack_names_is_there() {
    let names: HashSet<&str> = corpus::all().iter().map(|case| case.name).collect();
    let files = ATTACKS
        .lines()
        .filter(|line| line.starts_with("Files: "))
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    for name in files {
        assert!(names.contains(name), "{name} is not in the corpus");
    }
}

#[test]
fn the_reference_test_is_covered_whole() {
    let reference = corpus::all()
        .iter()
        .filter(|case| case.name.starts_with(|c: char| c.is_ascii_uppercase()))
        .count();
    assert_eq!(reference, 34);
}
