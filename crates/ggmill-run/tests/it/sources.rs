//! Models that take two texts.

use ggmill_arch::graph::Extent;
use ggmill_core::Model;
use ggmill_run::{ErrorKind, Options, Program, Runner};

use crate::models::{CASES, Case, SOURCE, TOKENS};

fn case(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).unwrap()
}

fn runner() -> Runner {
    Runner::new(Options::default()).unwrap()
}

fn program<'m>(model: &'m Model, name: &str) -> Program<'m> {
    Program::of(model, case(name).described()).unwrap()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn a_text_does_not_see_what_comes_and_sees_all_of_its_source() {
    let model = case("t5").model();
    let program = program(&model, "t5");
    let runner = runner();
    let mut changed = TOKENS;
    changed[10..].iter_mut().for_each(|token| *token = 120 - *token % 100);
    let mut other = SOURCE;
    other[SOURCE.len() - 1] = 3;
    let texts: [&[u32]; 4] = [&TOKENS, &changed, &TOKENS, &TOKENS];
    let sources: [&[u32]; 4] = [&SOURCE, &SOURCE, &other, &SOURCE[1..]];
    let states = runner.states_with_sources(&program, &texts, &sources).unwrap();
    let of = |text, tokens| bits(&runner.output(&program, &states, text, tokens).unwrap());
    assert_eq!(of(0, 0..10), of(1, 0..10));
    assert_ne!(of(0, 10..24), of(1, 10..24));
    // The first token alone depends on the last one of the source, and on how many it has.
    assert_ne!(of(0, 0..1), of(2, 0..1));
    assert_ne!(of(0, 0..1), of(3, 0..1));
    // A text alone gives the same.
    let alone = runner.states_with_sources(&program, &[&TOKENS], &[&other]).unwrap();
    let alone = runner.output(&program, &alone, 0, 0..24).unwrap();
    assert_eq!(bits(&alone), of(2, 0..24));
}

#[test]
fn a_source_that_is_missing_or_not_taken_is_refused() {
    let (two, one) = (case("t5").model(), CASES[0].model());
    let (two, one) = (program(&two, "t5"), Program::of(&one, CASES[0].described()).unwrap());
    assert!(two.has_source() && !one.has_source());
    let runner = runner();
    let failed = |program: &Program<'_>, texts: &[&[u32]], sources: &[&[u32]]| {
        let error = runner.states_with_sources(program, texts, sources).unwrap_err();
        (error.kind(), error.to_string())
    };
    let missing = runner.states(&two, &[&TOKENS]).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Source);
    assert!(missing.to_string().contains("a second text, the source"), "{missing}");
    let (kind, message) = failed(&one, &[&TOKENS], &[&SOURCE]);
    assert_eq!(kind, ErrorKind::Source);
    assert!(message.contains("takes one text"), "{message}");
    let (kind, message) = failed(&two, &[&TOKENS, &TOKENS], &[&SOURCE]);
    assert_eq!(kind, ErrorKind::Source);
    assert!(message.contains("one source for each text"), "{message}");
    let (kind, message) = failed(&two, &[&TOKENS], &[&[]]);
    assert_eq!(kind, ErrorKind::Source);
    assert!(message.contains("has no tokens"), "{message}");
    let (kind, message) = failed(&two, &[&TOKENS], &[&[259]]);
    assert_eq!(kind, ErrorKind::Tokens);
    assert!(message.contains("token ID 259"), "{message}");
}

#[test]
fn the_memory_of_a_long_source_is_bounded() {
    let model = case("t5").model();
    let program = program(&model, "t5");
    let source = [5u32; 3000];
    let needed = program.memory(1, 3000, 1);
    let elements = |extent: Extent| extent.elements();
    // Queries, keys and values of the encoder are there at once.
    let widest = program.graph().nodes().iter().map(|node| elements(node.extent)).max().unwrap();
    assert!(needed > 3 * 3000 * 4 * widest.min(32), "{needed}");
    let with = |memory| {
        let options = Options::default().with_threads(Some(1)).with_memory(memory);
        Runner::new(options).unwrap().states_with_sources(&program, &[&TOKENS], &[&source])
    };
    assert_eq!(with(program.memory(1, 24, 1)).unwrap_err().kind(), ErrorKind::Memory);
    assert!(with(needed).is_ok());
}
