//! Operations of operation set 5, compared with plain loops in double precision.

use ggmill_arch::graph::Graph;
use ggmill_core::{MetadataBuf, Model};
use ggmill_run::{Options, Program, Runner};

use crate::models::{CASES, TOKENS};
use crate::sequences::{TEXTS, assert_close, attention_to, by_text, dot, greatest, run, value};
use crate::stored::invented;

/// Returns the elements of keys `k` and queries `q`: two parts of 8 per token.
fn keys_and_others() -> [Vec<Vec<f64>>; 2] {
    ["merge(k)", "merge(q)"].map(|end| value(&[], end))
}

#[test]
fn pooling_equals_the_definition() {
    let [values, scores] = keys_and_others();
    for (parts, step) in [(1, "pool(k1, q1, 3)"), (2, "pool(k, q, 3)")] {
        let width = 16 / parts;
        let mut expected = Vec::new();
        for (values, scores) in by_text(&values).into_iter().zip(by_text(&scores)) {
            for token in 0..values.len() {
                let is_first = token % 3 == 0 && token + 3 <= values.len();
                let pooled = |place: usize| -> f64 {
                    // The last part is for this run, the part before it for the previous run.
                    let of_part = |part: usize| {
                        let back = 3 * (parts - 1 - part);
                        let tokens = (token..token + 3).filter(move |other| *other >= back);
                        tokens.map(move |other| (other - back, part * width + place))
                    };
                    let taken: Vec<_> = (0..parts).flat_map(of_part).collect();
                    let all: f64 = taken.iter().map(|&(token, at)| scores[token][at].exp()).sum();
                    let products = taken.iter();
                    products
                        .map(|&(token, at)| values[token][at] * scores[token][at].exp())
                        .sum::<f64>()
                        / all
                };
                let of = |place| if is_first { pooled(place) } else { 0.0 };
                expected.push((0..width).map(of).collect());
            }
        }
        assert_close(&value(&[], step), &expected);
    }
}

/// The reference attention of four heads with two key-value heads to a window of three tokens and to
/// complete runs of three tokens, which may be restricted per key head.
fn attention_to_runs(picked: &dyn Fn(usize, usize, usize) -> Vec<usize>) -> Vec<Vec<f64>> {
    let queries = value(&[], "merge(v)");
    let [keys, of_runs] = keys_and_others();
    let mut results = Vec::new();
    let mut start = 0;
    for length in TEXTS {
        for token in 0..length {
            let mut row = Vec::new();
            for head in 0..4 {
                let query = &queries[start + token][head * 8..][..8];
                let part = |row: &Vec<f64>| row[head / 2 * 8..][..8].to_vec();
                let tokens = token.saturating_sub(2)..=token;
                let mut seen: Vec<Vec<f64>> =
                    tokens.map(|other| part(&keys[start + other])).collect();
                let runs = picked(start, token, head / 2);
                seen.extend(runs.iter().map(|run| part(&of_runs[start + run * 3])));
                let shares: Vec<f64> = seen.iter().map(|key| dot(query, key).exp()).collect();
                let all: f64 = shares.iter().sum();
                row.extend((0..8).map(|place| {
                    let products = seen.iter().zip(&shares);
                    products.map(|(value, share)| value[place] * share / all).sum::<f64>()
                }));
            }
            results.push(row);
        }
        start += length;
    }
    results
}

/// Returns the run of three tokens that a head of `q` picks, by the first half of `k1`.
fn best_whole_run(start: usize, token: usize, head: usize) -> Vec<usize> {
    let [keys, queries] = keys_and_others();
    let query = &queries[start + token][head * 8..][..8];
    let scores: Vec<f64> =
        (0..(token + 1) / 3).map(|run| dot(query, &keys[start + run * 3][..8])).collect();
    greatest(&scores, 1)
}

#[test]
fn attention_to_window_and_runs_equals_the_definition() {
    let end = "attention(v, k, k, 1.0, window = 3, run = 3, run_keys = q, run_values = q)";
    let every = |_: usize, token: usize, _: usize| (0..(token + 1) / 3).collect();
    assert_close(&value(&[], end), &attention_to_runs(&every));
    let steps = ["j, r = parts(k1, 8, 8)", "e = pick(q, j, none, 1, block = 3, whole = true)"];
    let end = format!("{}, picks = e)", end.strip_suffix(')').unwrap());
    assert_close(&value(&steps, &end), &attention_to_runs(&best_whole_run));
}

#[test]
fn complete_runs_and_the_incomplete_one_are_picked() {
    let seen = |start: usize, token: usize, head: usize| -> Vec<usize> {
        let runs = best_whole_run(start, token, head).into_iter();
        let left = (token + 1) / 3 * 3..=token;
        runs.flat_map(|run| run * 3..run * 3 + 3).chain(left).collect()
    };
    let steps = ["j, r = parts(k1, 8, 8)", "e = pick(q, j, none, 1, block = 3, whole = true)"];
    assert_close(&value(&steps, "attention(v, k, k, 1.0, picks = e)"), &attention_to(&seen));
    // Scores are summed over heads, each with its weight.
    let [keys, queries] = keys_and_others();
    let weights = value(&["p, s = parts(w2, 2, 30)"], "merge(p)");
    let seen = |start: usize, token: usize, _: usize| -> Vec<usize> {
        let score = |run: usize| -> f64 {
            let key = &keys[start + run * 3][..8];
            let of = |head: usize| dot(&queries[start + token][head * 8..][..8], key).max(0.0);
            (0..2).map(|head| of(head) * weights[start + token][head]).sum()
        };
        let scores: Vec<f64> = (0..(token + 1) / 3).map(score).collect();
        let left = (token + 1) / 3 * 3..=token;
        let runs = greatest(&scores, 1).into_iter();
        runs.flat_map(|run| run * 3..run * 3 + 3).chain(left).collect()
    };
    let steps = [
        "j, r = parts(k1, 8, 8)",
        "p, s = parts(w2, 2, 30)",
        "e = pick(q, j, p, 1, block = 3, whole = true)",
    ];
    assert_close(&value(&steps, "attention(v, k, k, 1.0, picks = e)"), &attention_to(&seen));
}

#[test]
fn sinkhorn_sums_are_near_one() {
    let rows = value(&["p = exp(v)"], "merge(p)");
    let divided = |count: usize| -> Vec<Vec<f64>> {
        let of = |row: &Vec<f64>| {
            let mut row = row.clone();
            for turn in 0..count {
                if turn > 0 {
                    for part in row.chunks_mut(8) {
                        let sum = part.iter().sum::<f64>() + 0.25;
                        for value in part.iter_mut() {
                            *value /= sum;
                        }
                    }
                }
                let sums: Vec<f64> =
                    (0..8).map(|at| row.iter().skip(at).step_by(8).sum::<f64>() + 0.25).collect();
                for part in row.chunks_mut(8) {
                    part.iter_mut().zip(&sums).for_each(|(value, sum)| *value /= sum);
                }
            }
            row
        };
        rows.iter().map(of).collect()
    };
    for count in [1, 3] {
        let end = format!("sinkhorn(p, {count}, 0.25)");
        let steps = ["p = exp(v)", &*format!("s = {end}")];
        assert_close(&value(&steps, "merge(s)"), &divided(count));
    }
}

#[test]
fn inverse_rope_and_sqrt_equal_the_definition() {
    let options = "'halves', 6, 50.0, scale = 0.5, yarn = [4.0, 32.0, 1.0, 1.0]";
    let steps = [format!("r = rope(v, {options})"), format!("b = rope(r, {options}, back = true)")];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    assert_close(&value(&steps, "merge(b)"), &value(&[], "merge(v)"));
    let expected: Vec<Vec<f64>> = value(&[], "sigmoid(x)")
        .iter()
        .map(|row| row.iter().map(|value| value.sqrt()).collect())
        .collect();
    assert_close(&value(&["s = sigmoid(x)"], "root(s)"), &expected);
}

#[test]
fn cyclic_positions_and_undivided_head_matrices() {
    let begin = "x = rows('token_embd', tokens)";
    let found = run(&[begin, "embedding = rows('blk.0.attn_k', positions, cyclic = true)"], &[20]);
    assert_eq!((&found[16..], found.len()), (&found[..4], 20));
    assert_ne!(found[0], found[1]);
    // Positions of the second text begin at 0.
    let both =
        run(&[begin, "embedding = rows('blk.0.attn_k', positions, cyclic = true)"], &[3, 17]);
    assert_eq!(both[3..], found[..17]);
    let products = value(&[], "linear('blk.0.ffn_up', x)");
    let signs = |(place, value): (usize, &f64)| if place < 24 { *value } else { -value };
    let expected: Vec<Vec<f64>> =
        products.iter().map(|row| row.iter().enumerate().map(signs).collect()).collect();
    let steps = [
        "n = 0.0 - x",
        "c = concat(x, n)",
        "p = split(c, 2)",
        "h = linear_heads('blk.0.ffn_up', p)",
    ];
    assert_close(&value(&steps, "merge(h)"), &expected);
}

#[test]
fn numbers_are_expert_indices() {
    let scores = value(&[], "merge(k)");
    let expected: Vec<Vec<f64>> =
        scores.iter().map(|row| [2, 0, 4].map(|place: usize| row[place]).to_vec()).collect();
    let steps = ["a, b = parts(k1, 5, 11)", "c = constant([2, 0, 4])", "e = choice(c, 5)"];
    assert_close(&value(&steps, "take(a, e)"), &expected);
    // Other numbers are errors.
    let model = CASES[0].model();
    for number in ["0.5", "5", "-1", "1e30"] {
        let steps = [
            "x = rows('token_embd', tokens)",
            &format!("c = constant([{number}])"),
            "e = choice(c, 5)",
            "a, b = parts(x, 5, 27)",
            "embedding = take(a, e)",
        ];
        let dimensions = |name: &str| {
            let tensor = model.tensor(name).ok()?;
            Some(tensor.shape().dimensions().to_vec())
        };
        let mut metadata = MetadataBuf::new();
        metadata.set("general.architecture", "invented");
        Graph::of_steps(&steps, &dimensions).unwrap().write(&mut metadata).unwrap();
        let other = Model::open(invented(&model, metadata)).unwrap();
        let program = Program::stored(&other).unwrap();
        let runner = Runner::new(Options::default()).unwrap();
        let error = runner.states(&program, &[&TOKENS]).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("expected an integer from 0 to 4"), "{error}");
    }
}
