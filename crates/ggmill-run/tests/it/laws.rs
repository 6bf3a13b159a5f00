//! Invariants of every model: results do not depend on the division of work, on other texts in the run, or
//! on later tokens.

use ggmill_arch::graph::Operation;
use ggmill_core::{Endian, Model};
use ggmill_quant::Isa;
use ggmill_run::{Options, Program, Runner};

use crate::models::{CASES, Case, Change, TOKENS, states};

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Every n-th model, and the models of operation sets 5 and 6.
fn some_cases(step: usize) -> impl Iterator<Item = &'static Case> {
    let named =
        ["chameleon", "deepseek4", "glm5-next", "graniteswitch", "qwen4exp", "wavtokenizer-dec"];
    let cases = CASES.iter().copied().enumerate();
    let some = cases.filter(move |(at, case)| at % step == 0 || named.contains(&case.name));
    some.map(|(_, case)| case)
}

#[test]
fn results_do_not_depend_on_threads_or_other_texts() {
    for case in some_cases(3) {
        let text = case.text();
        let model = case.model();
        let program = Program::of(&model, case.described()).unwrap();
        let run = |threads, texts: &[&[u32]], text: usize| {
            let runner = Runner::new(Options::default().with_threads(Some(threads))).unwrap();
            let states = states(&runner, &program, texts).unwrap();
            assert_eq!(states.texts(), texts.len());
            bits(&runner.output(&program, &states, text, 0..texts[text].len()).unwrap())
        };
        let alone = run(1, &[&text], 0);
        assert_eq!(alone, run(3, &[&text], 0), "{}", case.name);
        assert_eq!(alone, run(2, &[&text[5..], &text, &text[..1]], 1), "{}", case.name);
    }
}

#[test]
fn results_do_not_depend_on_the_instruction_set() {
    for case in some_cases(4) {
        let model = case.model();
        let program = Program::of(&model, case.described()).unwrap();
        let run = |isa| {
            let runner = Runner::new(Options::default().with_isa(isa)).unwrap();
            let states = states(&runner, &program, &[&TOKENS[3..], &TOKENS]).unwrap();
            bits(&runner.output(&program, &states, 1, 0..TOKENS.len()).unwrap())
        };
        let scalar = run(Isa::SCALAR);
        for isa in Isa::available() {
            assert!(run(isa) == scalar, "{}: {isa}", case.name);
        }
    }
}

#[test]
fn causal_models_do_not_depend_on_later_tokens() {
    let runner = Runner::new(Options::default()).unwrap();
    for case in CASES.iter() {
        let model = case.model();
        let program = Program::of(&model, case.described()).unwrap();
        let mut operations = program.graph().nodes().iter().map(|node| &node.operation);
        if operations.any(|it| matches!(it, Operation::Attention(attention) if !attention.causal)) {
            continue;
        }
        let (start, mut changed) = (10, TOKENS);
        changed[start..].iter_mut().for_each(|token| *token = 120 - *token % 100);
        let states = runner.states(&program, &[&TOKENS, &changed]).unwrap();
        let before = |text| bits(&runner.output(&program, &states, text, 0..start).unwrap());
        assert_eq!(before(0), before(1), "{}", case.name);
        let after = |text| bits(&runner.output(&program, &states, text, start..24).unwrap());
        assert_ne!(after(0), after(1), "{}", case.name);
    }
}

#[test]
fn partial_output_equals_full_output() {
    let runner = Runner::new(Options::default()).unwrap();
    let case = &CASES[0];
    let model = case.model();
    let program = Program::of(&model, case.described()).unwrap();
    let states = runner.states(&program, &[&TOKENS]).unwrap();
    let all = bits(&runner.output(&program, &states, 0, 0..24).unwrap());
    let some = bits(&runner.output(&program, &states, 0, 7..13).unwrap());
    let width = usize::try_from(program.output_len()).unwrap();
    assert_eq!(some, all[7 * width..13 * width]);
}

#[test]
fn byte_order_does_not_matter() {
    let runner = Runner::new(Options::default()).unwrap();
    let case = &CASES[0];
    let model = case.model();
    let change = Change { endian: Endian::Big, ..Change::default() };
    let swapped = Model::open(case.changed(&change)).unwrap();
    let run = |model| {
        let program = Program::of(model, case.described()).unwrap();
        let states = runner.states(&program, &[&TOKENS]).unwrap();
        bits(&runner.output(&program, &states, 0, 20..24).unwrap())
    };
    assert_eq!(run(&model), run(&swapped));
}
