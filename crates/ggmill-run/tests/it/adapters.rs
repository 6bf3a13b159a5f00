//! Operations of operation set 6, and the model that selects adapters with them.

use ggmill_core::Model;
use ggmill_run::{Options, Program, Runner};

use crate::models::{CASES, Case, TOKENS};
use crate::sequences::{TEXTS, assert_close, run, value};

#[test]
fn is_token_marks_all_occurrences() {
    let begin = "x = rows('token_embd', tokens)";
    for token in [TOKENS[5], TOKENS[0], 258] {
        let is = format!("embedding = is_token({token})");
        let found = run(&[begin, &is], &TEXTS);
        let of_text = |length: usize| TOKENS[..length].iter().map(|&found| found == token);
        let expected: Vec<Vec<f64>> =
            TEXTS.into_iter().flat_map(of_text).map(|is| vec![f64::from(u8::from(is))]).collect();
        assert_eq!(found, expected);
    }
    // A token ID beyond every vocabulary.
    let found = run(&[begin, "embedding = is_token(9007199254740993)"], &[5]);
    assert_eq!(found, vec![vec![0.0]; 5]);
}

#[test]
fn round_equals_the_definition() {
    let numbers = [0.5, -0.5, 1.5, 2.5, -2.5, 0.499_999_97, 3.2, -3.7, 8_388_609.0, 0.0];
    let nearest = [1.0, -1.0, 2.0, 3.0, -3.0, 0.0, 3.0, -4.0, 8_388_609.0, 0.0];
    let constant = format!("c = constant({numbers:?})");
    let begin = "x = rows('token_embd', tokens)";
    let found = run(&[begin, &constant, "embedding = nearest(c)"], &[2]);
    assert_eq!(found, vec![nearest.to_vec(); 2]);
    let expected: Vec<Vec<f64>> = value(&[], "merge(v)")
        .iter()
        .map(|row| row.iter().map(|number| number.round()).collect())
        .collect();
    assert_close(&value(&[], "nearest(v1)"), &expected);
}

/// The text of the model has tokens of the adapters 2, 3 and 1, in this order.
#[test]
fn the_adapter_index_is_the_mean_so_far() {
    let steps = [
        "x = rows('token_embd', tokens)",
        "t1 = is_token(77)",
        "t2 = is_token(99)",
        "t3 = is_token(150)",
        "a = concat(t1, t2)",
        "b = concat(a, t3)",
        "n = constant([1.0, 2.0, 3.0])",
        "p = b * n",
        "place = total(p)",
        "s = total(b)",
        "d = s * 24.0",
        "chooses = d - 12.0",
        "one = constant([1.0])",
        "mean = attention(one, chooses, place, 1.0)",
        "embedding = nearest(mean)",
    ];
    let found = run(&steps, &[24]);
    // The means are 2, 2.5 and 2.
    let expected = |token: usize| match token {
        0..7 => 0.0,
        16..21 => 3.0,
        _ => 2.0,
    };
    assert_eq!(found, (0..24).map(|token| vec![expected(token)]).collect::<Vec<_>>());
}

#[test]
fn an_adapter_token_has_the_embedding_of_another_token() {
    let case = CASES.iter().find(|case| case.name == "graniteswitch").unwrap();
    let model = case.model();
    let program = Program::of(&model, case.described()).unwrap();
    let runner = Runner::new(Options::default()).unwrap();
    let first = |text: &[u32]| {
        let states = runner.states(&program, &[text]).unwrap();
        runner.output(&program, &states, 0, 0..1).unwrap()
    };
    // Two adapter tokens share an embedding with a token without an adapter.
    let (second, third) = (first(&[99]), first(&[150]));
    assert_ne!(second, third);
    assert_ne!(second, first(&[5]));
    // With zero adapter matrices, the adapter tokens have no other effect.
    let zeros = Model::open(without_adapters(case)).unwrap();
    let program = Program::of(&zeros, case.described()).unwrap();
    let first = |token: u32| {
        let states = runner.states(&program, &[&[token]]).unwrap();
        runner.output(&program, &states, 0, 0..1).unwrap()
    };
    assert_eq!(first(99), first(5));
    assert_eq!(first(150), first(5));
    assert_eq!(first(77), first(200));
    assert_ne!(first(77), first(5));
}

/// Returns the file of a model with zero adapter matrices.
fn without_adapters(case: &Case) -> Vec<u8> {
    let (mut bytes, model) = (case.bytes(), case.model());
    for tensor in
        model.tensors().iter().filter(|tensor| tensor.name().to_string().contains("lora_b"))
    {
        let start = usize::try_from(tensor.offset()).unwrap();
        let size = usize::try_from(tensor.size().unwrap()).unwrap();
        bytes[start..start + size].fill(0);
    }
    bytes
}
