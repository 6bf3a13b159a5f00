//! Errors and their messages.

use ggmill_arch::Architecture;
use ggmill_core::Model;
use ggmill_run::{ErrorKind, Options, Program, Runner};

use crate::models::{CASES, Change, TOKENS};

fn refused(change: &Change) -> (ErrorKind, String) {
    let model = Model::open(CASES[0].changed(change)).unwrap();
    let error = Program::of(&model, CASES[0].described()).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn tensors_that_are_missing_or_misshapen_are_named() {
    let (kind, message) =
        refused(&Change { without: Some("blk.1.ffn_up.weight"), ..Change::default() });
    assert_eq!(kind, ErrorKind::Graph);
    assert!(message.contains("blk.1.ffn_up"), "{message}");
    let (kind, message) =
        refused(&Change { shape: Some(("blk.1.ffn_up.weight", &[32, 47])), ..Change::default() });
    assert_eq!(kind, ErrorKind::Tensor);
    let expected = "tensor \"blk.1.ffn_up.weight\": shape [32, 47], expected [32, 48]";
    assert_eq!(message, expected);
}

#[test]
fn an_architecture_without_a_graph_is_an_error() {
    let model = CASES[0].model();
    let whisper = Architecture::builtin("whisper").unwrap();
    let error = Program::of(&model, whisper).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoGraph | ErrorKind::Graph), "{error}");
}

#[test]
fn weights_that_are_not_finite_are_named_with_their_row() {
    let case = &CASES[0];
    let nan = Some(("blk.0.ffn_gate.weight", 5 * 32 + 3));
    let model = Model::open(case.changed(&Change { nan, ..Change::default() })).unwrap();
    let program = Program::of(&model, case.described()).unwrap();
    let runner = Runner::new(Options::default()).unwrap();
    let error = runner.states(&program, &[&TOKENS]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFinite);
    assert_eq!(
        error.to_string(),
        "tensor \"blk.0.ffn_gate.weight\", row 5: NaN, expected a finite number"
    );
}

#[test]
fn tokens_and_memory_are_bounded() {
    let model = CASES[0].model();
    let program = Program::of(&model, CASES[0].described()).unwrap();
    let runner = Runner::new(Options::default()).unwrap();
    let error = runner.states(&program, &[&[3, 259]]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tokens);
    assert_eq!(error.to_string(), "token ID 259, but the model has 259 tokens");
    let small = Runner::new(Options::default().with_memory(1 << 20)).unwrap();
    let error = small.states(&program, &[&TOKENS]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
    assert_eq!(small.texts_at_once(&program, 24).unwrap_err().kind(), ErrorKind::Memory);
    assert!(runner.texts_at_once(&program, 24).unwrap() > 100);
    let gpt2 = CASES.iter().find(|case| case.architecture == "gpt2").unwrap();
    let model = gpt2.model();
    let program = Program::of(&model, gpt2.described()).unwrap();
    assert_eq!(runner.states(&program, &[&[1; 65]]).unwrap_err().kind(), ErrorKind::Tokens);
}
