//! Operations along the sequence, compared with plain loops in double precision.

use ggmill_arch::graph::{Graph, dimensions_of};
use ggmill_core::Model;
use ggmill_run::{Options, Program, Runner};

use crate::models::{CASES, TOKENS};
use crate::stored::invented;

/// Returns the output of these steps for texts of these lengths: one row per token.
pub(crate) fn run(steps: &[&str], texts: &[usize]) -> Vec<Vec<f64>> {
    run_of(&CASES[0].model(), steps, texts)
}

/// Returns the output of these steps with the tensors of a model.
fn run_of(model: &Model, steps: &[&str], texts: &[usize]) -> Vec<Vec<f64>> {
    let dimensions = dimensions_of(model);
    let graph = Graph::of_steps(steps, &dimensions).unwrap();
    let mut metadata = ggmill_core::MetadataBuf::new();
    metadata.set("general.architecture", "invented");
    graph.write(&mut metadata).unwrap();
    let other = Model::open(invented(model, metadata)).unwrap();
    let program = Program::stored(&other).unwrap();
    let runner = Runner::new(Options::default().with_threads(Some(2))).unwrap();
    let texts: Vec<&[u32]> = texts.iter().map(|&length| &TOKENS[..length]).collect();
    let states = runner.states(&program, &texts).unwrap();
    let width = usize::try_from(program.output_len()).unwrap();
    let mut rows = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let output = runner.output(&program, &states, number, 0..text.len()).unwrap();
        rows.extend(
            output.chunks_exact(width).map(|row| row.iter().copied().map(f64::from).collect()),
        );
    }
    rows
}

pub(crate) const TEXTS: [usize; 3] = [7, 1, 12];

/// Steps that compute queries and keys of two heads, values and decays of four heads, and the `read` and
/// `write` vectors.
const STEPS: [&str; 15] = [
    "x = rows('token_embd', tokens)",
    "q1 = linear('blk.0.attn_k', x)",
    "q = split(q1, 2)",
    "k1 = linear('blk.0.attn_v', x)",
    "k = split(k1, 2)",
    "v1 = linear('blk.0.attn_q', x)",
    "v = split(v1, 4)",
    "w1 = linear('blk.1.attn_q', x)",
    "w2 = sigmoid(w1)",
    "w = split(w2, 4)",
    "f1 = linear('blk.1.attn_output', x)",
    "f2 = tanh(f1)",
    "f3 = f2 * 0.1",
    "f = split(f3, 4)",
    "d = softplus(w)",
];

/// Returns the output of these steps, appended to the common ones.
pub(crate) fn value(steps: &[&str], end: &str) -> Vec<Vec<f64>> {
    let last = format!("embedding = {end}");
    let steps: Vec<&str> =
        STEPS.iter().copied().chain(steps.iter().copied()).chain([&*last]).collect();
    run(&steps, &TEXTS)
}

/// Divides rows by text.
pub(crate) fn by_text(rows: &[Vec<f64>]) -> Vec<&[Vec<f64>]> {
    let mut rest = rows;
    TEXTS
        .iter()
        .map(|&length| {
            let (text, others) = rest.split_at(length);
            rest = others;
            text
        })
        .collect()
}

pub(crate) fn assert_close(found: &[Vec<f64>], expected: &[Vec<f64>]) {
    assert_eq!(found.len(), expected.len());
    for (token, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "token {token}: {a}, expected {b}");
        }
    }
}

/// The reference recurrence of four value heads with two key heads: S · diag(w) + (S · from) toᵀ + v kᵀ.
fn recurrence(decays: &[Vec<f64>], moves: Option<[&[Vec<f64>]; 2]>, before: bool) -> Vec<Vec<f64>> {
    let [q, k, v] = ["merge(q)", "merge(k)", "merge(v)"].map(|end| value(&[], end));
    let mut results = Vec::new();
    let mut token = 0;
    for text in by_text(&v) {
        let mut states = vec![vec![vec![0.0f64; 8]; 8]; 4];
        for _ in text {
            let mut row = Vec::new();
            for (head, state) in states.iter_mut().enumerate() {
                let part = |rows: &[Vec<f64>], part: usize| rows[token][part * 8..][..8].to_vec();
                let (query, key) = (part(&q, head / 2), part(&k, head / 2));
                let (value, decay) = (part(&v, head), part(decays, head));
                let times = |state: &[Vec<f64>], by: &[f64]| -> Vec<f64> {
                    state.iter().map(|row| row.iter().zip(by).map(|(a, b)| a * b).sum()).collect()
                };
                let result = times(state, &query);
                let read =
                    moves.map(|[from, to]| (times(state, &part(from, head)), part(to, head)));
                for (place, row) in state.iter_mut().enumerate() {
                    for (column, number) in row.iter_mut().enumerate() {
                        let added =
                            read.as_ref().map_or(0.0, |(read, to)| read[place] * to[column]);
                        *number = *number * decay[column] + added + value[place] * key[column];
                    }
                }
                row.extend(if before { result } else { times(state, &query) });
            }
            results.push(row);
            token += 1;
        }
    }
    results
}

#[test]
fn recurrences_equal_the_definition() {
    let decays = value(&[], "merge(w)");
    let found =
        |options: &str| value(&[&format!("y = recurrence(q, k, v, w{options})")], "merge(y)");
    assert_close(&found(""), &recurrence(&decays, None, false));
    assert_close(&found(", before = true"), &recurrence(&decays, None, true));
    let moves = value(&[], "merge(f)");
    let expected = recurrence(&decays, Some([&moves, &decays]), false);
    assert_close(&found(", from = f, to = w"), &expected);
    // One decay per head, and a rate per key element.
    let single = value(&["s = total(f)"], "merge(s)");
    let all: Vec<Vec<f64>> =
        single.iter().map(|row| row.iter().flat_map(|&number| [number; 8]).collect()).collect();
    let found = value(&["s = total(f)", "y = recurrence(q, k, v, s)"], "merge(y)");
    assert_close(&found, &recurrence(&all, None, false));
}

#[test]
fn shifts_and_convolutions_do_not_cross_texts() {
    let x = value(&[], "merge(x)");
    let mut shifted = Vec::new();
    let mut summed = Vec::new();
    // 48 taps per channel, 32 channels.
    let model = CASES[0].model();
    let kernel =
        ggmill_quant::read_f32(&model, &model.tensor("blk.0.ffn_down.weight").unwrap()).unwrap();
    for text in by_text(&x) {
        for token in 0..text.len() {
            shifted.push(if token == 0 { vec![0.0; 32] } else { text[token - 1].clone() });
            let sum = |channel: usize| -> f64 {
                let back = (0..=token).map(|back| {
                    text[token - back][channel] * f64::from(kernel[channel * 48 + 47 - back])
                });
                back.sum()
            };
            summed.push((0..32).map(sum).collect());
        }
    }
    assert_close(&value(&[], "shift(x)"), &shifted);
    assert_close(&value(&[], "conv('blk.0.ffn_down', x)"), &summed);
}

#[test]
fn values_are_repeated_summed_and_scaled() {
    let v = value(&[], "merge(v)");
    let each = |of: &dyn Fn(usize, &[f64]) -> Vec<f64>| -> Vec<Vec<f64>> {
        let texts = by_text(&v);
        texts
            .iter()
            .flat_map(|text| text.iter().enumerate().map(|(place, row)| of(place, row)))
            .collect()
    };
    assert_close(&value(&["y = repeat(v, 2)"], "merge(y)"), &each(&|_, row| [row, row].concat()));
    let doubled = each(&|_, row| row.chunks(8).flat_map(|part| [part, part].concat()).collect());
    assert_close(&value(&["y = repeat(v, 2, each = true)"], "merge(y)"), &doubled);
    let sums = each(&|_, row| row.chunks(8).map(|part| part.iter().sum()).collect());
    assert_close(&value(&["y = total(v)"], "merge(y)"), &sums);
    let unit = each(&|_, row| {
        let length = |part: &[f64]| part.iter().map(|x| x * x).sum::<f64>().sqrt().max(2.0);
        row.chunks(8)
            .flat_map(|part| part.iter().map(|x| x / length(part)).collect::<Vec<_>>())
            .collect()
    });
    assert_close(&value(&["y = l2_norm(v, 2.0)"], "merge(y)"), &unit);
    let grown = each(&|place, row| {
        let steps = f64::from((u32::try_from(place).unwrap() + 1) / 3);
        row.iter().map(|x| x * (1.0 + 0.5 * (1.0 + steps).ln())).collect()
    });
    assert_close(&value(&["y = by_position(v, 3.0, 0.5, offset = 1.0)"], "merge(y)"), &grown);
}

#[test]
fn attention_masks_chunks_and_limits_lookahead() {
    let [q, k, v] = ["merge(v)", "merge(w)", "merge(f)"].map(|end| value(&[], end));
    let expected = |sees: &dyn Fn(usize, usize) -> bool| {
        let mut results = Vec::new();
        let mut start = 0;
        for length in TEXTS {
            for token in 0..length {
                let mut row = Vec::new();
                for head in 0..4 {
                    let part = |rows: &[Vec<f64>], token: usize| {
                        rows[start + token][head * 8..][..8].to_vec()
                    };
                    let dot =
                        |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                    let seen: Vec<usize> =
                        (0..length).filter(|&other| sees(token, other)).collect();
                    let scores: Vec<f64> = seen
                        .iter()
                        .map(|&other| dot(&part(&q, token), &part(&k, other)).exp())
                        .collect();
                    let all: f64 = scores.iter().sum();
                    row.extend((0..8).map(|place| {
                        let shares = seen.iter().zip(&scores);
                        shares
                            .map(|(&other, score)| score / all * part(&v, other)[place])
                            .sum::<f64>()
                    }));
                }
                results.push(row);
            }
            start += length;
        }
        results
    };
    let found = |options: &str| value(&[], &format!("attention(v, w, f, 1.0{options})"));
    assert_close(&found(", chunk = 3"), &expected(&|a, b| b <= a && a / 3 == b / 3));
    assert_close(&found(", causal = false, chunk = 4"), &expected(&|a, b| a / 4 == b / 4));
    let near = expected(&|a, b| b + 3 > a && b <= a + 2);
    assert_close(&found(", causal = false, window = 3, ahead = 2"), &near);
}

#[test]
fn experts_are_selected_from_the_best_groups() {
    // A group of three is scored by the sum of its two greatest elements.
    let scores = value(&["s = linear('blk.0.ffn_up', x)"], "merge(s)");
    let expected: Vec<Vec<f64>> = scores
        .iter()
        .map(|row| {
            let mut groups: Vec<Vec<f64>> = row.chunks(3).map(<[f64]>::to_vec).collect();
            for group in &mut groups {
                group.sort_by(|a, b| b.total_cmp(a));
            }
            groups.sort_by(|a, b| (b[0] + b[1]).total_cmp(&(a[0] + a[1])));
            let mut best: Vec<f64> = groups[..4].concat();
            best.sort_by(|a, b| b.total_cmp(a));
            best[..5].to_vec()
        })
        .collect();
    let steps = ["s = linear('blk.0.ffn_up', x)", "e = top(s, 5, groups = 16, used_groups = 4)"];
    assert_close(&value(&steps, "take(s, e)"), &expected);
}

#[test]
fn head_linear_equals_the_definition() {
    // The matrices of all experts serve as matrices of heads.
    let experts = CASES.iter().find(|case| case.name == "llama-experts").unwrap();
    let model = experts.model();
    let tensor = model.tensor("blk.0.ffn_up_exps.weight").unwrap();
    let weights = ggmill_quant::read_f32(&model, &tensor).unwrap();
    let [inputs, found] = ["embedding = merge(h)", "embedding = merge(y)"].map(|end| {
        let steps = [
            "x = rows('token_embd', tokens)",
            "h = repeat(x, 6)",
            "y = linear_heads('blk.0.ffn_up_exps', h)",
            end,
        ];
        run_of(&model, &steps, &TEXTS)
    });
    let expected: Vec<Vec<f64>> = inputs
        .iter()
        .map(|row| {
            let of = |number: usize| -> f64 {
                let part = &row[number / 48 * 32..][..32];
                weights[number * 32..][..32].iter().zip(part).map(|(&a, b)| f64::from(a) * b).sum()
            };
            (0..6 * 48).map(of).collect()
        })
        .collect();
    assert_close(&found, &expected);
}

/// The reference attention of four heads with two key-value heads `k`. `picked` returns the tokens that a
/// token and a key head attend to.
pub(crate) fn attention_to(picked: &dyn Fn(usize, usize, usize) -> Vec<usize>) -> Vec<Vec<f64>> {
    let [q, k] = ["merge(v)", "merge(k)"].map(|end| value(&[], end));
    let mut results = Vec::new();
    let mut start = 0;
    for length in TEXTS {
        for token in 0..length {
            let mut row = Vec::new();
            for head in 0..4 {
                let query = &q[start + token][head * 8..][..8];
                let seen = picked(start, token, head / 2);
                let part = |other: usize| &k[start + other][head / 2 * 8..][..8];
                let score = |other: &usize| dot(query, part(*other)).exp();
                let scores: Vec<f64> = seen.iter().map(score).collect();
                let all: f64 = scores.iter().sum();
                row.extend((0..8).map(|place| {
                    let shares = seen.iter().zip(&scores);
                    shares.map(|(&other, score)| score / all * part(other)[place]).sum::<f64>()
                }));
            }
            results.push(row);
        }
        start += length;
    }
    results
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the indices of the greatest numbers; ties prefer the first.
pub(crate) fn greatest(numbers: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&a, &b| numbers[b].partial_cmp(&numbers[a]).unwrap());
    order.truncate(count);
    order
}

#[test]
fn attention_is_restricted_to_picked_tokens() {
    // Four query heads with a weight each, and one key head.
    let key = value(&["j, r = parts(k1, 8, 8)"], "merge(j)");
    let [queries, weights] = ["merge(v)", "merge(total(f))"].map(|end| {
        let end = end.replace("total(f)", "t");
        value(&["t = total(f)"], &end)
    });
    let expected = attention_to(&|start, token, _| {
        let scores: Vec<f64> = (0..=token)
            .map(|other| {
                let of = |head: usize| {
                    let query = &queries[start + token][head * 8..][..8];
                    dot(query, &key[start + other]).max(0.0) * weights[start + token][head]
                };
                (0..4).map(of).sum()
            })
            .collect();
        greatest(&scores, 3)
    });
    let steps = ["j, r = parts(k1, 8, 8)", "t = total(f)", "e = pick(v, j, t, 3)"];
    assert_close(&value(&steps, "attention(v, k, k, 1.0, picks = e)"), &expected);
    // Picking all tokens equals attention without picks.
    let steps = ["j, r = parts(k1, 8, 8)", "t = total(f)", "e = pick(v, j, t, 12)"];
    let found = value(&steps, "attention(v, k, k, 1.0, picks = e)");
    assert_close(&found, &value(&[], "attention(v, k, k, 1.0)"));

    // Two heads that pick separately: runs of two tokens, the run of the token itself first.
    let queries = value(&[], "merge(q)");
    let expected = attention_to(&|start, token, head| {
        let query = &queries[start + token][head * 8..][..8];
        let score = |other: usize| dot(query, &key[start + other]);
        let mut best: Vec<f64> = (0..=token / 2)
            .map(|run| (run * 2..=token.min(run * 2 + 1)).map(score).fold(f64::MIN, f64::max))
            .collect();
        best[token / 2] = f64::MAX;
        let runs = greatest(&best, 2);
        runs.iter().flat_map(|run| run * 2..=token.min(run * 2 + 1)).collect()
    });
    let steps = ["j, r = parts(k1, 8, 8)", "e = pick(q, j, none, 2, block = 2, local = 1)"];
    assert_close(&value(&steps, "attention(v, k, k, 1.0, picks = e)"), &expected);
}

#[test]
fn top_k_shares_indices_and_constants_are_repeated() {
    let scores = value(&["s = linear('blk.0.ffn_up', x)"], "merge(s)");
    let expected: Vec<Vec<f64>> = scores
        .iter()
        .map(|row| greatest(row, 7).iter().map(|place| row[place / 5]).collect())
        .collect();
    // With shared = 5, 48 numbers have ten indices, the last one for three numbers.
    let steps =
        ["s = linear('blk.0.ffn_up', x)", "e = top(s, 7, shared = 5)", "a, b = parts(s, 10, 38)"];
    assert_close(&value(&steps, "take(a, e)"), &expected);
    let rows = vec![vec![0.5, -2.0, 3.0]; TEXTS.iter().sum()];
    assert_close(&value(&[], "constant([0.5, -2, 3])"), &rows);
}
