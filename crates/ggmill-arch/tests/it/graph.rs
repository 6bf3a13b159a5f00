//! Computation graphs of descriptions: what is an error when one is loaded.

use ggmill_arch::Architecture;
use ggmill_arch::graph::{Operation, Output};
use ggmill_core::MetadataBuf;

/// A small description with this computation.
fn description(computation: &str) -> String {
    format!(
        r#"
schema = "ggmill.architecture/1"
name = "tiny"
title = "Tiny"
computation = '''
{computation}'''
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
"#
    )
}

const BLOCK: &str = r#"
def layer(x, i):
    """A feed-forward layer."""
    u = linear(ffn_up[i], x)
    if gated:
        u = u * silu(linear(ffn_gate[i], x))
    return x + linear(ffn_down[i], u)

def model():
    x = embed(token_embd, tokens)
    for i in range(blocks):  # all of them
        x = layer(x, i)
    return logits(linear(output, x))
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
fn the_text_of_a_graph_is_its_source() {
    let tiny = Architecture::parse(&description(BLOCK)).unwrap();
    assert_eq!(tiny.graph_text().unwrap(), BLOCK);
    let groups = tiny.graph_outline().unwrap();
    let steps: Vec<_> = groups.iter().flat_map(|group| &group.steps).collect();
    assert_eq!(steps[2].text, "u = u * silu(linear(ffn_gate[i], x))");
    assert_eq!(steps[2].takes, [(1, "u".to_owned())]);
    assert_eq!(groups[1].when.as_deref(), Some("gated"));
}

#[test]
fn errors_of_loading_have_a_place() {
    let mut wrong = Vec::new();
    for (from, to, expected) in [
        // Names, arguments and options.
        (
            "linear(ffn_up[i]",
            "linear(ffn_upp[i]",
            "tiny.py:4:16: \"ffn_upp\" is neither assigned here, nor a hyperparameter, nor a \
             tensor; did you mean ffn_up?",
        ),
        (
            "linear(ffn_up[i], x)",
            "linear(ffn_up[i])",
            "tiny.py:4:9: linear takes 2 arguments, found 1",
        ),
        ("linear(ffn_up[i], x)", "linear(ffn_up, x)", "ffn_up belongs to a block: ffn_up[NUMBER]"),
        ("linear(output, x)", "linear(output[0], x)", "the tensor output belongs to no block"),
        ("silu(", "siluu(", "there is no function \"siluu\"; did you mean silu?"),
        (
            "silu(linear(ffn_gate[i], x))",
            "attention(x, x, x, 1, sideways=1)",
            "attention has no option \"sideways\"",
        ),
        ("layer(x, i)\n", "layer(x)\n", "layer needs i"),
        ("layer(x, i)\n", "layer(x, i, 1)\n", "layer takes 2 arguments, found 3"),
        ("layer(x, i)\n", "layer(x, 0, i=i)\n", "layer is given i twice"),
        ("layer(x, i)\n", "layer(x, i, n=1)\n", "layer has no parameter \"n\""),
        // The language.
        ("    return x + linear(ffn_down[i], u)", "    return layer(x, i)", "layer calls itself"),
        ("def model", "def modell", "there is no function model"),
        ("def model():", "def model(x):", "model takes no arguments"),
        ("    return x + linear(ffn_down[i], u)\n", "", "takes a per-token value"),
        ("        u = u *", "        u = (u *", "expected"),
        ("    if gated:", "    while gated:", "while is not part of the language of graphs"),
        ("if gated:\n", "if gated\n", "expected \":\""),
        ("        u = u *", "        u = u\n      u = u *", "is not that of any open block"),
        ("x = layer(x, i)", "x == layer(x, i)", "expected NAME = VALUE"),
        ("linear(ffn_up[i], x)", "width < inner < 3", "comparisons cannot be chained"),
        // Shapes, in each branch.
        (
            "linear(ffn_up[i], x)",
            "linear(ffn_down[i], x)",
            "tiny.py:4:9: linear(ffn_down[i], x): applies blk.0.ffn_down.weight, which has",
        ),
        ("x + linear(ffn_down[i], u)", "x + u", ", where x = "),
        ("u * silu(linear(ffn_gate[i], x))", "u * silu(x)", "combines"),
        ("silu(linear", "split_heads(linear", "split_heads takes 2 arguments"),
        // A tensor that only some models have.
        ("if gated:", "if not gated:", "blk.0.ffn_gate, which the model does not have"),
        // A value that only some models have.
        (
            "    u = linear(ffn_up[i], x)\n",
            "    if gated:\n        u = linear(ffn_up[i], x)\n",
            "u: has no value here",
        ),
        // A condition of which one side is never taken.
        (
            "if gated:\n        u = u * silu(linear(ffn_gate[i], x))",
            "if blocks > 0:\n        u = silu(u)",
            "is true in all of",
        ),
        ("logits(linear(output, x))", "linear(output, x)", "expected logits(…) or embedding(…)"),
        ("linear(output, x)", "linear(output, x) + 'a'", "takes a single-precision number"),
    ] {
        let graph = BLOCK.replacen(from, to, 1);
        assert_ne!(graph, BLOCK, "{from}");
        let error = refused(&graph);
        if !error.contains(expected) {
            wrong.push(format!("{to}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_a_graph_excludes_is_not_checked_and_is_said() {
    let split = BLOCK.replacen("(ffn_up[i], x)", "(ffn_up[i], merge_heads(split_heads(x, 4)))", 1);
    assert!(refused(&split).contains("cannot divide"), "{}", refused(&split));
    let excluding = split.replacen(
        "    x = embed",
        "    assert width % 4 == 0, \"the width is odd\"\n    x = embed",
        1,
    );
    let tiny = Architecture::parse(&description(&excluding)).unwrap();
    let metadata = metadata();
    let model = tiny.resolve_metadata(&metadata).unwrap();
    let error = model.graph(&|_| true).unwrap_err();
    assert_eq!(error.kind(), ggmill_arch::ErrorKind::Unsupported);
    assert_eq!(error.to_string(), "architecture \"tiny\": the width is odd");
}

#[test]
fn the_check_of_a_graph_begins_with_the_example_of_the_description() {
    // 77 and 343 are not made up by chance.
    let odd = "    assert width * width + inner * inner == 123578, \"the widths are others\"\n    x = embed";
    let odd = BLOCK.replacen("    x = embed", odd, 1);
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

#[test]
fn the_example_of_the_document_is_a_graph() {
    let document = include_str!("../../../../docs/formats/graph.md");
    let example = document.split_once("```python\n").unwrap().1.split_once("```").unwrap().0;
    let text = Architecture::builtin_text("qwen3").unwrap();
    let (head, rest) = text.split_once("computation = '''\n").unwrap();
    let (_, rest) = rest.split_once("'''\n").unwrap();
    let described = Architecture::parse_with_source(&format!("{head}{rest}"), example).unwrap();
    assert_eq!(described.graph_text().as_deref(), Some(example));
}
