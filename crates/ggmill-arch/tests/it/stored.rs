//! Graphs stored in files: reading returns the written graph, and hostile graphs are refused before
//! anything is computed.

use std::time::Instant;

use ggmill_arch::ErrorKind;
use ggmill_arch::graph::{Graph, STEPS_KEY, VERSION_KEY};
use ggmill_core::{Builder, Header, MetadataBuf};

/// Returns the dimensions in the name of a tensor: `w_8x16` has the dimensions 8 and 16.
fn dimensions(name: &str) -> Option<Vec<u64>> {
    let (_, sizes) = name.strip_suffix(".weight")?.split_once('_')?;
    sizes.split('x').map(|size| size.parse().ok()).collect()
}

fn read(steps: &[&str]) -> Result<Graph, (ErrorKind, String)> {
    Graph::of_steps(steps, &dimensions).map_err(|error| (error.kind(), error.to_string()))
}

const BEGIN: &str = "x = rows('t_8x100', tokens)";
const END: &str = "logits = linear('o_8x100', y)";

/// Returns a graph with these steps between the embedding and the output.
fn between(steps: &[&str]) -> Result<Graph, (ErrorKind, String)> {
    read(&[&[BEGIN], steps, &[END]].concat())
}

#[test]
fn every_operation_of_set_2_is_written_as_it_is_read() {
    let steps = [
        "v0 = rows('t_8x100', tokens)",
        "v1 = by_position(v0, 2.0, 0.5, offset = 1.0)",
        "v2 = shift(v1)",
        "v3 = conv('c_3x8', v2)",
        "v4 = split(v3, 2)",
        "v5 = repeat(v4, 2)",
        "v6 = repeat(v4, 2, each = true)",
        "v7 = linear_heads('h_4x3x2', v4)",
        "v8 = l2_norm(v6, 1e-6)",
        "v9 = total(v8)",
        "v10 = softplus(v9)",
        "v11 = exp(v10)",
        "v12 = recurrence(v4, v4, v5, v11, rates = 'r_4x4')",
        "v13 = recurrence(v4, v5, v6, v8, before = true, from = v5, to = v6)",
        "v14 = v12 + v13",
        "v15 = attention(v14, v14, v14, 0.5, causal = false, ahead = 1, chunk = 2, buckets = 'b_4x6', distance = 20)",
        "v16 = linear('g_16x6', v15)",
        "v17 = top(v16, 2, groups = 3, used_groups = 2)",
        "v18 = take(v16, v17)",
        "v19 = merge(v7)",
        "v20 = concat(v18, v19)",
        "v21 = constant([0.5, -2.0])",
        "v22 = top(v16, 2, shared = 3)",
        "v23 = take(v21, v22)",
        "v24, v25 = parts(v20, 4, 4)",
        "v26 = pick(v4, v24, none, 2, block = 3, local = 1)",
        "v27 = attention(v4, v4, v4, 1.0, picks = v26)",
        "v28 = pick(v5, v25, v24, 3)",
        "v29 = attention(v5, v4, v4, 1.0, picks = v28)",
        "v30 = concat(v27, v23)",
        "v31 = linear('p_16x10', v29)",
        "v32 = v30 + v31",
        "logits = linear('o_10x100', v32)",
    ];
    let graph = read(&steps).unwrap();
    assert_eq!(graph.steps().unwrap(), steps);
    assert_eq!(graph.operation_set(), 2);
    let sizes: Vec<_> =
        [5, 7, 9, 12].map(|node: usize| graph.nodes()[node].extent.to_string()).into();
    assert_eq!(sizes, ["4 × 4", "2 × 3", "4 × 1", "4 × 4"]);
    // Tensors and options that do not match the operands are refused.
    for (step, expected) in [
        ("y = linear_heads('h_8x3x2', x)", "h_8x3x2.weight"),
        ("y = conv('c_3x9', x)", "c_3x9.weight"),
        ("y = repeat(x, 0)", "numbers per token"),
        ("y = l2_norm(x, 0.0)", "expected more than 0"),
        ("y = by_position(x, 0.5, 1.0)", "expected at least 1"),
        ("y = attention(x, x, x, 1.0, buckets = 'b_1x3')", "expected at least 4"),
        ("y = attention(x, x, x, 1.0, buckets = 'b_1x8', distance = 8)", "above their number"),
        ("y = attention(x, x, x, 1.0, buckets = 'b_2x8')", "b_2x8"),
        ("y = attention(x, x, x, 1.0, distance = 8)", "an option of buckets"),
        ("y = attention(x, x, x, 1.0, picks = x)", "expected a result of pick"),
        ("y = pick(x, x, x, 2)", "weights of 8 numbers, expected 1"),
        ("y = pick(x, x, none, 0)", "picks 0 runs"),
        ("y = pick(x, x, none, 2, block = 0)", "runs of 0 tokens"),
        ("y = pick(x, x, 1.0, 2)", "per-token value or none"),
        ("y = constant(1.0)", "needs a list"),
        ("y = constant([])", "numbers per token"),
        ("y = recurrence(x, x, x, x, from = x)", "without the other"),
        ("y = recurrence(x, x, x, x, before = 1)", "expected true or false"),
        ("y = recurrence(x, x, x, 'w_8')", "per-token value"),
        ("y = recurrence(x, x, x, x, rates = 'r_8x1')", "cannot combine"),
        ("y = recurrence(x, x, x, x, from = 'w_8', to = x)", "expected a per-token value"),
    ] {
        let (_, message) = between(&[step]).unwrap_err();
        assert!(message.contains(expected), "{step}: {message}");
    }
    let groups = |options: &str| {
        let step = format!("e = top(x, 2, {options})");
        between(&[&step, "c = take(x, e)", "y = concat(c, c)"]).map(|_| ()).unwrap_err().1
    };
    assert!(groups("groups = 3, used_groups = 1").contains("cannot use 1 of 3 groups"));
    assert!(groups("groups = 8, used_groups = 8").contains("cannot use 8 of 8 groups"));
    assert!(groups("groups = 4").contains("cannot use 0 of 4 groups"));
    assert!(groups("shared = 0").contains("expected at least 1"));
    assert!(groups("shared = 3").contains("takes one vector of 3 numbers"));
    let picks = |options: &str| {
        let step = format!("y = attention(x, x, x, 1.0, picks = e, {options})");
        between(&["e = pick(x, x, none, 2)", &step]).map(|_| ()).unwrap_err().1
    };
    assert!(picks("window = 2").contains("without other masks"));
    assert!(picks("causal = false").contains("without other masks"));
    let (_, message) = between(&[
        "q = split(x, 4)",
        "k, r = parts(x, 2, 6)",
        "e = pick(q, k, none, 2)",
        "y = attention(x, x, x, 1.0, picks = e)",
    ])
    .unwrap_err();
    assert!(message.contains("picks of 4 heads, expected 1 or 1"), "{message}");
    // More factors than rotated elements need operation set 2.
    let set = |factors: &str| {
        let step = format!("y = rope(x, 'pairs', 4, 100.0, factors = '{factors}')");
        between(&[&step]).map(|graph| graph.operation_set())
    };
    assert_eq!(set("f_2").unwrap(), 1);
    assert_eq!(set("f_4").unwrap(), 2);
    assert!(set("f_1").is_err());
}

#[test]
fn every_operation_of_set_3_is_written_as_it_is_read() {
    let steps = [
        "v0 = rows('t_8x100', tokens, source = true)",
        "v1 = rows('t_8x100', positions, source = true)",
        "v2 = rows('t_8x100', 3, source = true)",
        "v3 = v0 + v1",
        "v4 = v3 * v2",
        "v5 = rope(v4, 'pairs', 8, 10000.0)",
        "v6 = attention(v5, v5, v5, 1.0, window = 2)",
        "v7 = rows('t_8x100', tokens)",
        "v8 = attention(v7, v6, v6, 0.5, causal = false, softcap = 2.0)",
        "v9 = v7 + v8",
        "logits = linear('o_8x100', v9)",
    ];
    let graph = read(&steps).unwrap();
    assert_eq!(graph.steps().unwrap(), steps);
    assert_eq!((graph.operation_set(), graph.has_source()), (3, true));
    let of_source: Vec<bool> = graph.nodes().iter().map(|node| node.of_source).collect();
    assert_eq!(of_source, [true, true, true, true, true, true, true, false, false, false, false]);
    // Only attention combines values of the text and of the source, and not by position.
    let source = "s = rows('t_8x100', tokens, source = true)";
    for (step, expected) in [
        ("y = x + s", "values of the text with values of the source"),
        ("y = concat(s, x)", "values of the text with values of the source"),
        ("y = attention(x, s, x, 1.0, causal = false)", "values of the source"),
        ("y = attention(s, x, x, 1.0, causal = false)", "values of the source"),
        ("y = attention(x, s, s, 1.0)", "expected causal = false"),
        ("y = attention(x, s, s, 1.0, causal = false, window = 3)", "depends on positions"),
        ("y = attention(x, s, s, 1.0, causal = false, alibi = 1.0)", "depends on positions"),
        ("y = attention(x, s, s, 1.0, causal = false, ahead = 0)", "depends on positions"),
        ("y = attention(x, s, s, 1.0, causal = false, buckets = 'b_1x8')", "on positions"),
        ("y = silu(s)", "the output is of the source"),
        ("y = rows('t_8x100', tokens, source = 1)", "expected true or false"),
    ] {
        let (_, message) = between(&[source, step]).unwrap_err();
        assert!(message.contains(expected), "{step}: {message}");
    }
    // A value may have the name of an option that a later operation set added.
    let named = [BEGIN, "source = silu(x)", "y = x + source", END];
    assert_eq!(read(&named).unwrap().operation_set(), 1);
}

#[test]
fn every_operation_of_set_4_is_written_as_it_is_read() {
    let steps = [
        "v0 = source_vectors(16)",
        "v1, v2 = parts(v0, 8, 8)",
        "v3 = shift(v2)",
        "v4 = shift(v1, ahead = true)",
        "v5 = concat(v3, v1)",
        "v6 = concat(v5, v2)",
        "v7 = split(v6, 3)",
        "v8 = linear_taps('k_3x8x8', v7)",
        "v9 = v8 + v4",
        "v10 = rows('t_8x100', positions, source = true)",
        "v11 = v9 * v10",
        "v12 = rows('t_8x100', tokens)",
        "v13 = attention(v12, v11, v11, 1.0, causal = false)",
        "logits = linear('o_8x100', v13)",
    ];
    let graph = read(&steps).unwrap();
    assert_eq!(graph.steps().unwrap(), steps);
    assert_eq!((graph.operation_set(), graph.source_width()), (4, Some(16)));
    assert_eq!(between(&["y = shift(x, ahead = true)"]).unwrap().operation_set(), 4);
    // Each element of a kernel is one multiplication.
    let taps = between(&["p = split(x, 2)", "y = linear_taps('k_2x4x8', p)"]).unwrap();
    assert_eq!((taps.operation_set(), taps.source_width()), (4, None));
    assert_eq!(taps.multiplications(), 8 * 8 + 8 * 100);
    for (steps, expected) in [
        (vec!["p = split(x, 2)", "y = linear_taps('k_2x3x8', p)"], "applies k_2x3x8.weight"),
        (vec!["p = split(x, 4)", "y = linear_taps('k_2x4x8', p)"], "applies k_2x4x8.weight"),
        (vec!["y = source_vectors(0)"], "0 numbers per token"),
        (vec!["y = source_vectors(8)"], "the output is of the source"),
        (
            vec![
                "s = rows('t_8x100', tokens, source = true)",
                "u = source_vectors(8)",
                "v = s + u",
                "y = attention(x, v, v, 1.0, causal = false)",
            ],
            "both tokens and vectors",
        ),
        (
            vec![
                "u = source_vectors(8)",
                "w = source_vectors(16)",
                "k = linear('o_16x8', w)",
                "y = attention(x, u, k, 1.0, causal = false)",
            ],
            "two lengths",
        ),
    ] {
        let (_, message) = between(&steps).unwrap_err();
        assert!(message.contains(expected), "{steps:?}: {message}");
    }
}

#[test]
fn every_operation_of_set_5_is_written_as_it_is_read() {
    let steps = [
        "v0 = rows('t_8x100', tokens)",
        "v1 = rows('a_8x4', positions, cyclic = true)",
        "v2 = v0 + v1",
        "v3 = softplus(v2)",
        "v4 = root(v3)",
        "v5 = softmax(v4)",
        "v6 = split(v5, 2)",
        "v7 = sinkhorn(v6, 3, 1e-6)",
        "v8 = linear_heads('h_4x8', v7)",
        "v9 = merge(v8)",
        "v10 = split(v2, 2)",
        "v11 = pool(v7, v10, 4)",
        "v12 = pool(v9, v4, 4)",
        "v13 = rope(v12, 'pairs', 8, 100.0)",
        "v14 = linear('w_8x2', v2)",
        "v15 = pick(v7, v11, v14, 2, block = 4, whole = true)",
        "v16 = attention(v2, v9, v9, 1.0, picks = v15)",
        "v17 = attention(v16, v9, v9, 1.0, window = 3, picks = v15, run = 4, run_keys = v12, run_values = v13)",
        "v18 = attention(v17, v9, v9, 1.0, run = 5, run_keys = v12, run_values = v13)",
        "v19 = rope(v18, 'pairs', 8, 100.0, back = true)",
        "v20 = rows('e_2x100', tokens)",
        "v21 = choice(v20, 6)",
        "v22 = linear('g_8x6', v19)",
        "v23 = take(v22, v21)",
        "v24 = linear_of('x_8x8x6', v19, v21)",
        "v25 = mix(v24, v23)",
        "logits = linear('o_8x100', v25)",
    ];
    let graph = read(&steps).unwrap();
    assert_eq!(graph.steps().unwrap(), steps);
    assert_eq!(graph.operation_set(), 5);
    let sizes: Vec<_> =
        [8, 11, 15, 21].map(|node: usize| graph.nodes()[node].extent.to_string()).into();
    // The incomplete run is selected in addition.
    assert_eq!(sizes, ["2 × 4", "4", "3", "2"]);
    let set = |steps: &[&str]| between(steps).unwrap().operation_set();
    assert_eq!(set(&["y = root(x)"]), 5);
    assert_eq!(set(&["y = rope(x, 'pairs', 8, 100.0, back = true)"]), 5);
    assert_eq!(set(&["y = rope(x, 'pairs', 8, 100.0, back = false)"]), 1);
    // A single matrix for several parts needs set 5; one for a single part does not.
    assert_eq!(set(&["p = split(x, 2)", "q = linear_heads('h_4x8', p)", "y = merge(q)"]), 5);
    assert_eq!(set(&["y = linear_heads('h_8x8', x)"]), 2);
    // Each division of Sinkhorn normalization reads all elements.
    let turns = |count: u64| {
        let step = format!("y = sinkhorn(x, {count}, 0.0)");
        between(&[&step]).map(|graph| graph.reads())
    };
    assert_eq!(turns(3).unwrap() - turns(1).unwrap(), 2 * 2 * 8);
    assert_eq!(turns(1 << 40).unwrap_err().0, ErrorKind::Limit);
    let pairs = |options: &str| {
        let step = format!("y = attention(x, x, x, 1.0{options})");
        between(&[&step]).unwrap().attention_multiplications()
    };
    assert_eq!(pairs(", run = 4, run_keys = x, run_values = x"), pairs("") + pairs("") / 4);
    for (step, expected) in [
        ("y = rows('t_8x100', tokens, cyclic = true)", "needs positions"),
        ("y = rows('t_8x100', 1, cyclic = true)", "needs positions"),
        ("y = sinkhorn(x, 0, 0.1)", "divides 0 times"),
        ("y = pool(x, x, 0)", "runs of 0 tokens"),
        ("y = choice(x, 7)", "cannot select 8 of 7"),
        ("y = choice(x, 8)", "found a selection of experts"),
        ("y = pick(x, x, none, 2, local = 1, whole = true)", "both local and whole"),
        ("y = linear_heads('h_8x9x2', x)", "h_8x9x2.weight"),
        ("y = attention(x, x, x, 1.0, run = 4)", "without the others"),
        ("y = attention(x, x, x, 1.0, run_keys = x, run_values = x)", "without the others"),
        ("y = attention(x, x, x, 1.0, run = 0, run_keys = x, run_values = x)", "without the"),
        ("y = attention(x, x, x, 1.0, run = 2, run_keys = x)", "without the others"),
    ] {
        let (_, message) = between(&[step]).unwrap_err();
        assert!(message.contains(expected), "{step}: {message}");
    }
    let runs = |before: &[&str], options: &str| {
        let step = format!("y = attention(x, x, x, 1.0, run = 4, run_values = x, {options})");
        between(&[before, &[&step]].concat()).map(|_| ()).unwrap_err().1
    };
    for options in ["causal = false", "chunk = 8", "alibi = 1.0"] {
        let message = runs(&[], &format!("run_keys = x, {options}"));
        assert!(message.contains("need causal attention without chunks"), "{options}: {message}");
    }
    let message = runs(&["k = linear('w_8x4', x)"], "run_keys = k");
    assert!(message.contains("keys of 8 and values of 8 numbers"), "{message}");
    for pick in ["block = 4", "block = 2, whole = true"] {
        let pick = format!("e = pick(x, x, none, 2, {pick})");
        let message = runs(&[&pick], "run_keys = x, picks = e");
        assert!(message.contains("not of whole runs of this length"), "{pick}: {message}");
    }
}

#[test]
fn every_operation_of_set_6_is_written_as_it_is_read() {
    let steps = [
        "v0 = rows('t_8x100', tokens)",
        "v1 = is_token(7)",
        "v2 = v0 * v1",
        "v3 = is_token(4294967295)",
        "v4 = concat(v1, v3)",
        "v5 = nearest(v4)",
        "v6 = choice(v5, 6)",
        "v7 = linear_of('x_8x8x6', v2, v6)",
        "v8 = merge(v7)",
        "logits = linear('o_16x100', v8)",
    ];
    let graph = read(&steps).unwrap();
    assert_eq!(graph.steps().unwrap(), steps);
    assert_eq!(graph.operation_set(), 6);
    assert_eq!(graph.nodes()[4].extent.to_string(), "2");
    let set = |steps: &[&str]| between(steps).unwrap().operation_set();
    assert_eq!(set(&["y = nearest(x)"]), 6);
    assert_eq!(set(&["t = is_token(0)", "y = x * t"]), 6);
    // `is_token` has no operand, so it is computed for all tokens of the text.
    assert!(graph.nodes()[1].operation.is_of_text() && !graph.nodes()[5].operation.is_of_text());
    for (step, expected) in [
        ("y = is_token(-1)", "takes an integer of at least 0, found -1"),
        ("y = is_token(0.5)", "takes an integer of at least 0, found 0.5"),
        ("y = is_token(x)", "needs a number, found a per-token value"),
        ("y = is_token()", "is_token takes"),
        ("y = nearest(tokens)", "takes a per-token value, found an input"),
    ] {
        let (_, message) = between(&[step]).unwrap_err();
        assert!(message.contains(expected), "{step}: {message}");
    }
}

#[test]
fn hashes_and_distances_of_set_6_are_written_as_they_are_read() {
    let steps = [
        "v0 = hashed_rows('h_4x60', tokens, [9223372036854775807, 0, 7], [11, 13, 17, 19], [0, 11, 24, 41], 2)",
        "v1 = merge(v0)",
        "v2 = conv('c_3x16', v1, dilation = 3)",
        "v3 = linear('p_16x8', v2)",
        "v4 = rows('t_8x100', tokens)",
        "v5 = v3 + v4",
        "logits = linear('o_8x100', v5)",
    ];
    let graph = read(&steps).unwrap();
    assert_eq!(graph.steps().unwrap(), steps);
    assert_eq!(graph.operation_set(), 6);
    assert_eq!(graph.nodes()[0].extent.to_string(), "4 × 4");
    let set = |steps: &[&str]| between(steps).unwrap().operation_set();
    assert_eq!(set(&["y = conv('c_3x8', x, dilation = 2)"]), 6);
    assert_eq!(set(&["y = conv('c_3x8', x, dilation = 1)"]), 2);
    let hashed = |arguments: &str| {
        let step = format!("h = hashed_rows('h_4x60', {arguments})");
        between(&[&step, "m = merge(h)", "y = linear('m_8x8', m)"]).map(|_| ())
    };
    assert_eq!(hashed("tokens, [1, 2], [30, 30], [0, 30], 2"), Ok(()));
    for (arguments, expected) in [
        ("positions, [1, 2], [30, 30], [0, 30], 2", "takes tokens"),
        ("3, [1, 2], [30, 30], [0, 30], 2", "takes tokens"),
        ("tokens, [1], [30, 30], [0, 30], 2", "has 1 multipliers, 2 sizes and 2 offsets"),
        ("tokens, [], [30, 30], [0, 30], 2", "has 0 multipliers"),
        ("tokens, [1, 2, 3], [60], [0], 2", "has 3 multipliers, 1 sizes and 1 offsets"),
        ("tokens, [1, 2], [30, 30], [0], 2", "has 2 multipliers, 2 sizes and 1 offsets"),
        ("tokens, [1, 2], [], [], 2", "produces 0 × 4 numbers"),
        ("tokens, [1, 2], [30, 0], [0, 30], 2", "uses 0 rows of h_4x60.weight from row 30 on"),
        ("tokens, [1, 2], [30, 31], [0, 30], 2", "uses 31 rows of h_4x60.weight from row 30 on"),
        ("tokens, [1, 2], [1, 1], [0, 9223372036854775807], 2", "from row 9223372036854775807 on"),
        ("tokens, [1, -2], [30, 30], [0, 30], 2", "an integer of at least 0, found -2"),
        ("tokens, [1, 2.5], [30, 30], [0, 30], 2", "an integer of at least 0, found 2.5"),
        ("tokens, [1, 2], [30, 30], [0, 30], -1", "an integer of at least 0, found -1"),
        ("tokens, 1, [30, 30], [0, 30], 2", "needs a list"),
    ] {
        let (_, message) = hashed(arguments).unwrap_err();
        assert!(message.contains(expected), "{arguments}: {message}");
    }
    let (_, message) = between(&["y = conv('c_3x8', x, dilation = 0)"]).unwrap_err();
    assert!(message.contains("dilation = 0, expected at least 1"), "{message}");
}

#[test]
fn the_work_of_set_2_is_bounded() {
    // A recurrent state of 2²⁰ elements for vectors of 2¹⁰: more multiplications than the tensors permit.
    let wide =
        ["a = linear('a_8x1024', x)", "s = recurrence(a, a, a, a)", "y = linear('b_1024x8', s)"];
    let (kind, message) = between(&wide).unwrap_err();
    assert_eq!(kind, ErrorKind::Limit, "{message}");
    assert!(message.contains("multiplications per token"), "{message}");
    // The number of taps must be that of the kernel.
    let (kind, message) =
        between(&["a = repeat(x, 65536)", "b = merge(a)", "c = conv('c_1024x524288', b)", "y = x"])
            .unwrap_err();
    assert_eq!(kind, ErrorKind::Configuration, "{message}");
    let far =
        ["a = repeat(x, 65536)", "b = merge(a)", "c = conv('c_1024x524288', b)", "y = silu(x)"];
    let (kind, message) = between(&far).unwrap_err();
    assert_eq!(kind, ErrorKind::Limit, "{message}");
    assert!(message.contains("reads"), "{message}");
}

#[test]
fn every_operation_is_written_as_it_is_read() {
    let steps = [
        "v0 = rows('t_8x100', tokens)",
        "v1 = rows('p_8x64', positions)",
        "v2 = rows('k_8x2', 1)",
        "v3 = v0 + v1",
        "v4 = v3 * v2",
        "v5 = layer_norm(v4, 'n_8', 1e-5)",
        "v6 = linear('q_8x16', v5)",
        "v7, v8, v9 = parts(v6, 8, 4, 4)",
        "v10 = split(v7, 2)",
        "v11 = rope(v10, 'halves', 4, 10000.0, factors = 'f_2', scale = 0.25, magnitude = 1.5, yarn = [64.0, 32.0, 1.0, 0.5])",
        "v12 = split(v8, 1)",
        "v13 = rope(v12, 'pairs', 2, 500000.0)",
        "v14 = split(v9, 1)",
        "v15 = attention(v11, v13, v14, 0.5, causal = false, window = 3, softcap = 30.0, alibi = 8.0, sinks = 's_2')",
        "v16 = rms_norm(v15, none, 1e-6)",
        "v17 = linear('g_8x6', v16)",
        "v18 = softmax(v17)",
        "v19 = top(v18, 2)",
        "v20 = linear_of('e_8x4x6', v16, v19)",
        "v21 = linear_of('u_8x4x6', v16, v19)",
        "v22 = swiglu_oai(v20, v21)",
        "v23 = silu(v22)",
        "v24 = gelu(v23)",
        "v25 = gelu_erf(v24)",
        "v26 = relu(v25)",
        "v27 = tanh(v26)",
        "v28 = sigmoid(v27)",
        "v29 = linear_of('d_4x8x6', v28, v19)",
        "v30 = take(v18, v19)",
        "v31 = normalize(v30)",
        "v32 = mix(v29, v31)",
        "v33 = clamp(v32, -0.5, 0.5)",
        "v34 = v33 * 'm_8'",
        "v35 = 'm_8' - v34",
        "v36 = v35 / 3.0",
        "v37 = 1.0 - v36",
        "v38 = concat(v37, v0)",
        "v39 = split(v38, 4)",
        "v40 = merge(v39)",
        "logits = linear('o_16x100', v40)",
    ];
    let graph = read(&steps).unwrap();
    assert_eq!(graph.steps().unwrap(), steps);
    assert!(graph.multiplications() > 0 && graph.numbers() > 0);
}

#[test]
fn a_step_is_one_operation_on_what_is_known() {
    for (step, expected) in [
        ("y = silu(relu(x))", "a step stored in a file must have exactly one operation"),
        ("y = x + x * 2", "a step stored in a file must have exactly one operation"),
        ("y = if(true, x, x)", "a step stored in a file must have exactly one operation"),
        ("y = silu(z)", "uses \"z\", which no earlier step defines"),
        ("y = x + 'w_9'", "applies w_9.weight, which has dimensions 9, to 8 numbers per token"),
        ("y = linear('none', x)", "needs the tensor none, which the model does not have"),
        ("tokens = silu(x)", "the name tokens is already in use"),
        ("silu = silu(x)", "the name silu is already in use"),
        ("x = silu(x)", "the name x is already in use"),
        ("y = rows('t_8x100', 100)", "uses row 100 of t_8x100.weight, which has 100 rows"),
        ("y = silu(x, x)", "silu takes 1 arguments, found 2"),
        ("y = fold(x)", "there is no function"),
        ("y = conv(x)", "conv takes 2 arguments, found 1"),
        ("y = rope(x, 'odd', 4, 1e4)", "has the style \"odd\""),
        ("y = split(x, 0)", "cannot divide 8 numbers into 0 equal parts"),
    ] {
        let (_, message) = between(&[step]).unwrap_err();
        assert!(message.contains(expected), "{step}: {message}");
    }
    // Indices beyond the operand are refused.
    let choice = ["a = linear('a_8x9', x)", "e = top(a, 2)"];
    let wrong = |step| between(&[&choice[..], &[step]].concat()).unwrap_err().1;
    let message = wrong("y = take(x, e)");
    assert!(message.contains("takes one vector of 9 numbers, found 8"), "{message}");
    let message = wrong("y = linear_of('w_8x8x4', x, e)");
    assert!(message.contains("selects among 9 experts, but w_8x8x4.weight has 4"), "{message}");
}

#[test]
fn work_is_bounded_before_it_is_done() {
    let start = Instant::now();
    let limited = |result: Result<Graph, (ErrorKind, String)>| {
        let (kind, message) = result.unwrap_err();
        assert_eq!(kind, ErrorKind::Limit, "{message}");
        message
    };
    // A graph with too many steps.
    let names: Vec<String> = (0..40_000).map(|number| format!("v{number} = silu(x)")).collect();
    let many: Vec<&str> = names.iter().map(String::as_str).collect();
    limited(read(&many));
    // Repeated multiplications by one small matrix.
    let repeated = |count: usize| {
        let mut steps: Vec<String> = vec!["v0 = silu(x)".into()];
        steps.extend(
            (1..count).map(|number| format!("v{number} = linear('w_8x8', v{})", number - 1)),
        );
        steps.push(format!("y = relu(v{})", count - 1));
        steps
    };
    let few = repeated(1000);
    between(&few.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let many = repeated(2000);
    let message = limited(between(&many.iter().map(String::as_str).collect::<Vec<_>>()));
    assert!(message.contains("64 per number in its tensors"), "{message}");
    // Results whose lengths double.
    let doubled = |count: usize| {
        let mut steps = vec!["v0 = silu(x)".to_owned()];
        let double = |number| format!("v{number} = concat(v{0}, v{0})", number - 1);
        steps.extend((1..=count).map(double));
        steps.push("y = silu(x)".to_owned());
        steps
    };
    let some = doubled(22);
    between(&some.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let more = doubled(24);
    let message = limited(between(&more.iter().map(String::as_str).collect::<Vec<_>>()));
    assert!(message.contains("numbers per token, but the limit is 134217728"), "{message}");
    let most = doubled(40);
    assert!(between(&most.iter().map(String::as_str).collect::<Vec<_>>()).is_err());
    // Long and deeply nested texts.
    let long = format!("y = silu({}x)", " ".repeat(3000));
    assert!(between(&[&long]).unwrap_err().1.contains("the limit is 2048"));
    let deep = format!("y = {}x{}", "(".repeat(500), ")".repeat(500));
    assert!(between(&[&deep]).unwrap_err().1.contains("nested deeper"));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn what_operations_read_is_bounded() {
    let limited = |steps: Vec<String>| {
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let (kind, message) = read(&steps).unwrap_err();
        assert_eq!(kind, ErrorKind::Limit, "{message}");
        message
    };
    let repeated = |begin: &[&str], count: usize, step: &str, end: &str| {
        let mut steps: Vec<String> = begin.iter().map(ToString::to_string).collect();
        steps.extend((0..count).map(|number| format!("r{number} = {step}")));
        steps.push(end.to_owned());
        steps
    };
    // Small results of wide operands.
    let wide = "x = rows('t_65536x4', tokens)";
    let end = "logits = linear('o_65536x4', x)";
    let message = limited(repeated(&[wide], 20_000, "top(x, 1)", end));
    assert!(message.contains("reads 1310785536 numbers per token"), "{message}");
    let choice = [wide, "e = top(x, 1)"];
    let message = limited(repeated(&choice, 20_000, "take(x, e)", end));
    assert!(message.contains("numbers per token, but the limit is 268435456"), "{message}");
    let mixed = [wide, "h = split(x, 65536)"];
    let message = limited(repeated(&mixed, 20_000, "mix(h, x)", end));
    assert!(message.contains("numbers per token, but the limit is 268435456"), "{message}");
    // Experts that are searched, but not selected.
    let experts = [wide, "s = linear('s_65536x1', x)", "e = top(x, 1)"];
    let message = limited(repeated(&experts, 5_000, "linear_of('w_1x1x65536', s, e)", end));
    assert!(message.contains("numbers per token, but the limit is 268435456"), "{message}");
    // Attention, per pair of tokens.
    let one = [wide, "v = linear('s_65536x1', x)"];
    let message = limited(repeated(&one, 20, "attention(x, x, v, 1.0)", end));
    assert!(message.contains("needs 1310740 multiplications per pair"), "{message}");
    let large = [wide, "v = linear('s_65536x1000', x)"];
    let message = limited(repeated(&large, 300, "attention(x, x, v, 1.0)", end));
    assert!(message.contains("the limit is 16777216"), "{message}");
    let some = repeated(&one, 8, "attention(x, x, v, 1.0)", end);
    let some: Vec<&str> = some.iter().map(String::as_str).collect();
    assert_eq!(read(&some).unwrap().attention_multiplications(), 8 * 65_537);
}

#[test]
fn a_scale_has_the_dimensions_that_its_matrix_needs() {
    let read = |scale: &'static [u64], steps: &[&str]| {
        let dimensions = |name: &str| match name {
            "x.scale" => Some(scale.to_vec()),
            "x.weight" => Some(vec![8, 4, 16]),
            "p.weight" | "y.weight" | "y.scale" => Some(vec![8, 2]),
            "g.weight" => Some(vec![8, 16]),
            "token_embd.weight" => Some(vec![8, 32]),
            "output.weight" => Some(vec![64, 32]),
            _ => None,
        };
        Graph::of_steps(steps, &dimensions).map_err(|error| error.to_string())
    };
    let experts = [
        "x = rows('token_embd', tokens)",
        "p = linear('p', x)",
        "g = linear('g', x)",
        "e = top(g, 16)",
        "y = linear_of('x', x, e)",
        "m = merge(y)",
        "logits = linear('output', m)",
    ];
    read(&[16], &experts).unwrap();
    read(&[16, 1], &experts).unwrap();
    for scale in [&[2u64][..], &[32], &[4, 4], &[1]] {
        let message = read(scale, &experts).unwrap_err();
        assert!(message.contains("uses x.scale, which has"), "{message}");
        assert!(message.contains(", expected 16"), "{message}");
    }
    // The tensor is a weight of an earlier step.
    let mut known = experts.to_vec();
    known.insert(2, "q = p * 'x.scale'");
    let message = read(&[2], &known).unwrap_err();
    assert!(message.contains("uses x.scale, which has dimensions 2, expected 16"), "{message}");
    // A single matrix has one scale.
    let one = ["x = rows('token_embd', tokens)", "logits = linear('y', x)"];
    let message = read(&[16], &one).unwrap_err();
    assert!(message.contains("uses y.scale, which has dimensions 8 × 2, expected 1"), "{message}");
}

#[test]
fn sections_are_of_the_blocks_that_names_have() {
    let blocks = |step| {
        let graph = between(&[step]).unwrap();
        graph.sections().iter().map(|section| section.block).collect::<Vec<_>>()
    };
    assert_eq!(blocks("y = linear('blk.1.w_8x8', x)"), [None, Some(1), None]);
    assert_eq!(blocks("y = linear('blk.+1.w_8x8', x)"), [None]);
    assert_eq!(blocks("y = linear('blk.01.w_8x8', x)"), [None]);
    assert_eq!(blocks("y = linear('blk.18446744073709551616.w_8x8', x)"), [None]);
}

/// Returns the graph stored in a file with these metadata entries.
fn stored(set: impl Fn(&mut MetadataBuf)) -> Option<Result<Graph, ggmill_arch::Error>> {
    let mut metadata = MetadataBuf::new();
    set(&mut metadata);
    let plan = Builder::new().metadata(metadata).plan().unwrap();
    let file = Header::parse(plan.header()).unwrap();
    Graph::stored(file.metadata(), &dimensions)
}

#[test]
fn a_graph_of_metadata_has_its_operation_set() {
    let steps = [BEGIN, "y = silu(x)", END];
    let graph = stored(|metadata| read(&steps).unwrap().write(metadata).unwrap()).unwrap().unwrap();
    assert_eq!(graph, read(&steps).unwrap());
    assert_eq!(graph.operation_set(), 1);
    assert!(stored(|_| {}).is_none());
    let message = |set: &dyn Fn(&mut MetadataBuf)| stored(set).unwrap().unwrap_err().to_string();
    let without = message(&|metadata| {
        metadata.set(STEPS_KEY, &steps[..]);
    });
    assert!(without.contains(VERSION_KEY), "{without}");
    let later = message(&|metadata| {
        metadata.set(VERSION_KEY, 7u32);
        metadata.set(STEPS_KEY, &steps[..]);
    });
    assert!(later.contains("is 7, but the newest operation set that is known is 6"), "{later}");
    // The operation set of a graph is the lowest one that has its operations.
    let newer = [BEGIN, "y = shift(x)", END];
    let graph = stored(|metadata| read(&newer).unwrap().write(metadata).unwrap()).unwrap();
    assert_eq!(graph.unwrap().operation_set(), 2);
    let earlier = message(&|metadata| {
        metadata.set(VERSION_KEY, 1u32);
        metadata.set(STEPS_KEY, &newer[..]);
    });
    assert!(earlier.contains("is 1, but the steps have operations of set 2"), "{earlier}");
    let text = message(&|metadata| {
        metadata.set(VERSION_KEY, 1u32);
        metadata.set(STEPS_KEY, "x = 1");
    });
    assert!(text.contains(STEPS_KEY), "{text}");
    let numbers = message(&|metadata| {
        metadata.set(VERSION_KEY, 1u32);
        metadata.set(STEPS_KEY, &[1u32, 2][..]);
    });
    assert!(numbers.contains("not an array of strings"), "{numbers}");
}
