//! Computation graphs of descriptions: what is an error when one is loaded.

use ggmill_arch::Architecture;
use ggmill_arch::graph::{Operation, Output};
use ggmill_core::MetadataBuf;

/// A small description with these groups of steps.
fn description(graph: &str) -> String {
    format!(
        r#"
schema = "ggmill.architecture/1"
name = "tiny"
title = "Tiny"
[parameters]
blocks = {{ type = "int", keys = ["block_count"] }}
width = {{ type = "int", keys = ["embedding_length"] }}
inner = {{ type = "int", keys = ["feed_forward_length"] }}
vocab_size = {{ type = "int", keys = ["vocab_size"] }}
gated = {{ type = "bool", keys = ["gated"], default = false }}
[[tensors]]
[tensors.tensor]
"token_embd.weight" = {{ shape = ["width", "vocab_size"] }}
"output.weight" = {{ shape = ["width", "vocab_size"], tied = "token_embd.weight" }}
[[tensors]]
for = "i in 0..blocks"
[tensors.tensor]
"blk.{{i}}.ffn_up.weight" = {{ shape = ["width", "inner"] }}
"blk.{{i}}.ffn_down.weight" = {{ shape = ["inner", "width"] }}
"blk.{{i}}.ffn_gate.weight" = {{ shape = ["width", "inner"], required = "gated", when = "gated" }}
{graph}
"#
    )
}

const BLOCK: &str = r#"
[[graph]]
steps = ["x = rows(token_embd, tokens)"]
[[graph]]
for = "bid in 0..blocks"
steps = ["u = linear(ffn_up, x)"]
[[graph]]
for = "bid in 0..blocks"
when = "gated"
steps = ["u = u * silu(linear(ffn_gate, x))"]
[[graph]]
for = "bid in 0..blocks"
steps = ["x = x + linear(ffn_down, u)"]
[[graph]]
steps = ["logits = linear(output, x)"]
"#;

fn refused(graph: &str) -> String {
    Architecture::parse(&description(graph)).unwrap_err().to_string()
}

/// The sizes of a model.
fn metadata() -> MetadataBuf {
    let mut metadata = MetadataBuf::new();
    for (key, value) in [
        ("block_count", 2u32),
        ("embedding_length", 6),
        ("feed_forward_length", 10),
        ("vocab_size", 30),
    ] {
        metadata.set(format!("tiny.{key}"), value);
    }
    metadata
}

#[test]
fn a_graph_is_made_of_the_numbers_of_a_model() {
    let tiny = Architecture::parse(&description(BLOCK)).unwrap();
    let mut metadata = metadata();
    metadata.set("tiny.gated", true);
    let model = tiny.resolve_metadata(&metadata).unwrap();
    let graph =
        model.graph(&|name| name != "output.weight" && model.tensor(name).is_some()).unwrap();
    assert_eq!(graph.output_kind(), Output::Logits);
    let extents: Vec<u64> = graph.nodes().iter().map(|node| node.extent.length).collect();
    let block = [10, 10, 10, 10, 6, 6];
    assert_eq!(extents, [&[6][..], &block, &block, &[30]].concat());
    let blocks: Vec<_> = graph.sections().iter().map(|section| section.block).collect();
    assert_eq!(blocks, [None, Some(0), Some(1), None]);
    // The output is that of the embedding, which is needed once.
    let Operation::Linear { matrix, bias: None, scale: None } =
        graph.nodes()[graph.output()].operation
    else {
        panic!("{:?}", graph.nodes().last());
    };
    assert_eq!(graph.weights()[matrix].name, "token_embd.weight");
    assert_eq!(graph.weights().len(), 7);
}

#[test]
fn the_text_of_a_graph_has_its_loops_and_conditions() {
    let text = Architecture::parse(&description(BLOCK)).unwrap().graph_text().unwrap();
    let expected = "x = rows(token_embd, tokens)\nfor bid in 0..blocks:\n    u = linear(ffn_up, x)\n    \
                    when gated:\n        u = u * silu(linear(ffn_gate, x))\n    x = x + linear(ffn_down, u)\n\
                    logits = linear(output, x)\n";
    assert_eq!(text, expected);
}

#[test]
fn what_does_not_fit_is_an_error_of_loading() {
    for (from, to, expected) in [
        // Names, arguments and options.
        ("linear(ffn_up, x)", "linear(ffn_upp, x)", "\"ffn_upp\" is neither a hyperparameter"),
        ("linear(ffn_up, x)", "linear(ffn_up)", "linear takes 2 arguments, found 1"),
        ("silu(", "silly(", "there is no function \"silly\""),
        (
            "silu(linear(ffn_gate, x))",
            "attention(x, x, x, 1, sideways = 1)",
            "attention has no option \"sideways\"",
        ),
        ("\"u = linear", "\"width = linear", "the name width is already in use"),
        ("logits = ", "logit = ", "no step produces logits or embedding"),
        // Shapes, in each branch.
        ("linear(ffn_up, x)", "linear(ffn_down, x)", "ffn_down.weight, which has"),
        ("x + linear(ffn_down, u)", "x + u", "numbers per token"),
        ("u * silu(linear(ffn_gate, x))", "u * silu(x)", "combines"),
        ("linear(ffn_up, x)", "rope(linear(ffn_up, x), 'pairs', width, 10000.0)", "rope rotates"),
        ("silu(linear", "split(linear", "split takes"),
        // A tensor that only some models have.
        ("when = \"gated\"", "when = \"not gated\"", "ffn_gate, which the model does not have"),
        // A value that only some models have.
        (
            "steps = [\"u = linear(ffn_up, x)\"]",
            "when = \"gated\"\nsteps = [\"u = linear(ffn_up, x)\"]",
            "takes a per-token value, but u is a tensor",
        ),
        // A condition of which one side is never taken.
        (
            "when = \"gated\"\nsteps = [\"u = u * silu(linear(ffn_gate, x))\"]",
            "when = \"blocks > 0\"\nsteps = [\"u = silu(u)\"]",
            "is true in all of",
        ),
        ("linear(output, x)", "linear(output, x) + 'a'", "takes a single-precision number"),
    ] {
        let graph = BLOCK.replacen(from, to, 1);
        assert_ne!(graph, BLOCK, "{from}");
        let error = refused(&graph);
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn what_a_graph_excludes_is_not_checked_and_is_said() {
    let exclusion = "[[graph]]\nwhen = \"width % 4 != 0\"\nbecause = \"the width is odd\"\n";
    let split = BLOCK.replacen("linear(ffn_up, x)", "linear(ffn_up, merge(split(x, 4)))", 1);
    assert!(refused(&split).contains("cannot divide"), "{}", refused(&split));
    let tiny = Architecture::parse(&description(&(exclusion.to_owned() + &split))).unwrap();
    let metadata = metadata();
    let model = tiny.resolve_metadata(&metadata).unwrap();
    let error = model.graph(&|_| true).unwrap_err();
    assert_eq!(error.kind(), ggmill_arch::ErrorKind::Unsupported);
    assert_eq!(error.to_string(), "architecture \"tiny\": the width is odd");
}

#[test]
fn the_check_of_a_graph_begins_with_the_example_of_the_description() {
    // 77 and 343 are not made up by chance.
    let odd = "[[graph]]\nwhen = \"width * width + inner * inner != 123578\"\nbecause = \"the widths are others\"\n";
    let odd = format!("{odd}{BLOCK}");
    let error = refused(&odd);
    assert!(error.contains("generated models has a graph: the widths are others"), "{error}");
    let example =
        "title = \"Tiny\"\nexample = { embedding_length = 77, feed_forward_length = \"343\" }";
    let given = description(&odd).replace("title = \"Tiny\"", example);
    let odd = Architecture::parse(&given).unwrap();
    assert!(odd.has_graph());
    // It says what metadata could say.
    for (value, expected) in [("width", "embedding_length"), ("1 +", "example")] {
        let given = given.replace("= 77", &format!("= \"{value}\""));
        let error = Architecture::parse(&given).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
