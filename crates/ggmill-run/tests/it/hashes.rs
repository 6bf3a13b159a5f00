//! Hashed n-gram embeddings and dilated convolutions, compared with plain loops.

use ggmill_arch::graph::{Graph, dimensions_of};
use ggmill_core::Model;
use ggmill_run::{ErrorKind, Options, Program, Runner};

use crate::models::{CASES, Case, Change, TOKENS};
use crate::sequences::{TEXTS, assert_close, by_text, run, value};
use crate::stored::{invented, named};

const MULTIPLIERS: [u64; 3] = [9_223_372_036_854_775_807, 7_046_029_254_386_353_131, 3];
const SIZES: [u64; 4] = [100, 57, 13, 7];
const OFFSETS: [u64; 4] = [0, 100, 157, 252];
/// Texts of 1, 7 and 12 tokens. The end token 2 occurs within and before n-grams.
const END: u64 = 102;

fn step(name: &str, end: u64) -> String {
    format!(
        "{name} = hashed_rows('token_embd', tokens, {MULTIPLIERS:?}, {SIZES:?}, {OFFSETS:?}, {end})"
    )
}

/// Returns the rows of the n-gram hashes of the last token of a text.
fn rows(text: &[u32], end: u64) -> Vec<usize> {
    let mut last: Vec<u64> = text.iter().rev().map(|&token| u64::from(token)).collect();
    last.extend([end; 3]);
    let ended = last.iter().skip(1).position(|&token| token == end).unwrap() + 1;
    last[ended..].fill(end);
    let product = |number: usize| {
        let whole = u128::from(last[number]) * u128::from(MULTIPLIERS[number]);
        u64::try_from(whole % (1 << 64)).unwrap()
    };
    let hash_of = |tokens: usize| (0..tokens).map(product).fold(0, |all, one| all ^ one);
    let of = |place: usize| hash_of(2 + place / 2) % SIZES[place] + OFFSETS[place];
    (0..4).map(|place| usize::try_from(of(place)).unwrap()).collect()
}

#[test]
fn hashed_rows_equal_the_definition() {
    let model = CASES[0].model();
    let table =
        ggmill_quant::read_f32(&model, &model.tensor("token_embd.weight").unwrap()).unwrap();
    for end in [END, 300] {
        let mut expected = Vec::new();
        for length in TEXTS {
            for token in 0..length {
                let rows = rows(&TOKENS[..=token], end).into_iter();
                let values = rows.flat_map(|row| &table[row * 32..][..32]);
                expected.push(values.copied().map(f64::from).collect::<Vec<_>>());
            }
        }
        let steps = ["x = rows('token_embd', tokens)", &step("h", end), "embedding = merge(h)"];
        assert_eq!(run(&steps, &TEXTS), expected);
    }
    // Tokens before the end token have no effect; the end token itself belongs to its n-gram.
    assert_eq!(rows(&[7, 102, 5], END), rows(&[9, 102, 5], END));
    assert_ne!(rows(&[7, 102], END), rows(&[9, 102], END));
    assert_ne!(rows(&[7, 102, 5], 300), rows(&[9, 102, 5], 300));
}

#[test]
fn dilated_convolutions_equal_the_definition() {
    let x = value(&[], "merge(x)");
    let model = CASES[0].model();
    let kernel =
        ggmill_quant::read_f32(&model, &model.tensor("blk.0.ffn_down.weight").unwrap()).unwrap();
    for dilation in [1, 3, 5, 1 << 60] {
        let mut expected = Vec::new();
        for text in by_text(&x) {
            for token in 0..text.len() {
                let sum = |channel: usize| -> f64 {
                    let back = (0..=token / dilation).map(|back| {
                        let value = text[token - back * dilation][channel];
                        value * f64::from(kernel[channel * 48 + 47 - back])
                    });
                    back.sum()
                };
                expected.push((0..32).map(sum).collect());
            }
        }
        let end = format!("conv('blk.0.ffn_down', x, dilation = {dilation})");
        assert_close(&value(&[], &end), &expected);
    }
}

fn case() -> &'static Case {
    CASES.iter().find(|case| case.name == "qwen4exp").unwrap()
}

#[test]
fn a_table_may_have_more_rows_than_hashes_but_not_fewer() {
    let with_rows = |shape: &'static [u64]| {
        let shape = Some(("per_layer_token_embd.weight", shape));
        Model::open(case().changed(&Change { shape, ..Change::default() })).unwrap()
    };
    let runner = Runner::new(Options::default()).unwrap();
    let model = with_rows(&[8, 64]);
    let program = Program::of(&model, case().described()).unwrap();
    let output = runner.states(&program, &[&TOKENS]).unwrap();
    let output = runner.output(&program, &output, 0, 0..TOKENS.len()).unwrap();
    assert!(output.iter().all(|number| number.is_finite()));
    for shape in [&[8, 59], &[9, 60], &[8, 30]] {
        let model = with_rows(shape);
        let error = Program::of(&model, case().described()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Tensor);
        assert!(error.to_string().contains("expected [8, 60]"), "{error}");
    }
}

#[test]
fn row_number_memory_is_limited() {
    let model = CASES[0].model();
    let graph = |hashes: usize| {
        let list = |number: u64| format!("{:?}", vec![number; hashes]);
        let (ones, zeros) = (list(1), list(0));
        let step = format!("h = hashed_rows('output_norm', tokens, [1, 1], {ones}, {zeros}, 2)");
        let steps = ["x = rows('token_embd', tokens)", &step, "logits = linear('output', x)"];
        let mut metadata = named();
        Graph::of_steps(&steps, &dimensions_of(&model)).unwrap().write(&mut metadata).unwrap();
        Model::open(invented(&model, metadata)).unwrap()
    };
    let memory =
        |hashes: usize, tokens: u64| Program::stored(&graph(hashes)).unwrap().memory(1, tokens, 1);
    // Per hash: a row of 32 elements, its row number, and its place in the sorted order.
    assert_eq!(memory(200, 1000) - memory(100, 1000), 100 * 1000 * (4 * 32 + 16));
}
