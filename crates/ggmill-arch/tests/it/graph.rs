//! Computation graphs of descriptions, and the errors of loading one.

use ggmill_arch::Architecture;
use ggmill_arch::graph::{Operation, Output};
use ggmill_core::MetadataBuf;

/// Returns a small description with this computation.
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

/// Returns the configuration of a small model.
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
    // The output matrix is the embedding, so the graph has this weight once.
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
        // Errors in names, arguments and options.
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
        // Errors in the syntax.
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
        // Errors in shapes, in each branch.
        (
            "linear(ffn_up[i], x)",
            "linear(ffn_down[i], x)",
            "tiny.py:4:9: linear(ffn_down[i], x): applies blk.0.ffn_down.weight, which has",
        ),
        ("x + linear(ffn_down[i], u)", "x + u", ", where x = "),
        ("u * silu(linear(ffn_gate[i], x))", "u * silu(x)", "combines"),
        ("silu(linear", "split_heads(linear", "split_heads takes 2 arguments"),
        // A tensor that some models lack.
        ("if gated:", "if not gated:", "blk.0.ffn_gate, which the model does not have"),
        // A variable that some models do not set.
        (
            "    u = linear(ffn_up[i], x)\n",
            "    if gated:\n        u = linear(ffn_up[i], x)\n",
            "u: has no value here",
        ),
        // A condition with a branch that no generated model takes.
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

/// Complete error messages of programs: the location, the expression, the values of the names in it, and
/// the calls.
#[test]
fn errors_say_place_expression_values_and_calls() {
    let before = "architecture \"tiny\": ";
    for (from, to, expected) in [
        (
            "silu(linear(ffn_gate",
            "silo(linear(ffn_gate",
            "tiny.py:6:17: there is no function \"silo\"; did you mean silu?, in: u = u * \
             silo(linear(ffn_gate[i], x))",
        ),
        (
            "linear(ffn_up[i], x)",
            "linear(ffn_up[i], widh)",
            "tiny.py:4:27: \"widh\" is neither assigned here, nor a hyperparameter, nor a tensor; \
             did you mean width?, in: u = linear(ffn_up[i], widh)",
        ),
        (
            "    return x + linear(ffn_down[i], u)",
            "    return layer(u, i)",
            "tiny.py:2:1: layer calls itself, perhaps through others, in: def layer(x, i):",
        ),
        (
            "    for i in range(blocks):  # all of them\n        x = layer(x, i)",
            "    while True:\n        x = layer(x, 0)",
            "tiny.py:11:5: while is not part of the language of graphs, in: while True:",
        ),
        (
            "for i in range(blocks)",
            "for i in range(1000000)",
            "graph: tiny.py:11:14: range(1000000): has 1000000 numbers, the limit is 65536; in a \
             model with ",
        ),
        (
            "linear(ffn_down[i], u)",
            "linear(ffn_up[i], u)",
            "graph: tiny.py:7:16: linear(ffn_up[i], u): applies blk.0.ffn_up.weight, which has \
             dimensions",
        ),
        (
            "x + linear(ffn_down[i], u)",
            "x + gelu_mlp(x, ffn_up[i], ffn_up[i])",
            "graph: library.py:",
        ),
    ] {
        let graph = BLOCK.replacen(from, to, 1);
        assert_ne!(graph, BLOCK, "{from}");
        let error = refused(&graph);
        assert!(
            error.strip_prefix(before).is_some_and(|error| error.starts_with(expected)),
            "expected {expected}\nfound    {error}"
        );
    }
}

/// Error messages of the tables: the line and the column of the expression, and the most similar name.
#[test]
fn errors_of_tables_have_a_place() {
    for (from, to, expected) in [
        (
            "shape = [\"width\", \"inner\"], required",
            "shape = [\"widh\", \"inner\"], required",
            "line 35, column 41: architecture \"tiny\", tensor \"blk.{i}.ffn_gate.weight\": shape: \
             expression \"widh\": \"widh\" is not a hyperparameter; did you mean width?",
        ),
        (
            "for = \"i in 0..blocks\"",
            "for = \"i in 0..block\"",
            "line 31, column 16: architecture \"tiny\": expression \"block\": \"block\" is not a \
             hyperparameter; did you mean blocks?",
        ),
    ] {
        let toml = description(BLOCK).replacen(from, to, 1);
        assert_eq!(Architecture::parse(&toml).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_hyperparameter_that_no_configuration_gives_is_an_error_with_its_places() {
    let tiny = Architecture::parse(&description(BLOCK)).unwrap();
    let error = tiny.resolve_metadata(&MetadataBuf::new()).unwrap_err().to_string();
    let expected = "architecture \"tiny\", hyperparameter \"blocks\": missing, expected \
                    tiny.block_count in the metadata";
    assert_eq!(error, expected);
}

#[test]
fn functions_of_other_architectures_can_be_imported() {
    let of = |source: &str| {
        let text = Architecture::builtin_text("qwen3").unwrap();
        let (head, rest) = text.split_once("computation = '''\n").unwrap();
        let (_, tail) = rest.split_once("\n'''\n").unwrap();
        Architecture::parse_with_source(&format!("{head}{tail}"), source)
    };
    let whole = of("\"\"\"Mine.\"\"\"\n\nfrom qwen3 import model\n").unwrap();
    let text = whole.graph_text().unwrap();
    assert!(text.contains("\n# qwen3.py\n\ndef model():\n"), "{text}");
    assert!(text.contains("\n\ndef layer(x, i, rope_params):\n"), "{text}");
    for (source, expected) in [
        (
            "from qwen3 import modl\n",
            "qwen3.py:1:19: the file has no function \"modl\"; did you mean model?, in: from qwen3 \
             import modl",
        ),
        (
            "from qwen33 import model\n",
            "qwen3.py:1:1: \"qwen33\" is not a built-in architecture, in: from qwen33 import model",
        ),
        (
            "from qwen3 import model\ndef model():\n    return 1\n",
            "qwen3.py:1:19: model is defined twice, in: from qwen3 import model",
        ),
        (
            "from qwen3 import layer\n",
            "qwen3.py:1:1: there is no function model, in: from qwen3 import layer",
        ),
        // A tensor that the description does not list.
        ("from rwkv7 import model\n", "rwkv7.py:"),
    ] {
        let error = of(source).unwrap_err().to_string();
        let error = error.strip_prefix("architecture \"qwen3\": ").unwrap();
        assert!(error.starts_with(expected), "expected {expected}\nfound    {error}");
    }
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
    // No generated model has the widths 77 and 343.
    let odd = "    assert width * width + inner * inner == 123578, \"the widths are others\"\n    x = embed";
    let odd = BLOCK.replacen("    x = embed", odd, 1);
    let error = refused(&odd);
    assert!(error.contains("generated models has a graph: the widths are others"), "{error}");
    let example =
        "title = \"Tiny\"\nexample = { embedding_length = 77, feed_forward_length = \"343\" }";
    let given = description(&odd).replace("title = \"Tiny\"", example);
    let odd = Architecture::parse(&given).unwrap();
    assert!(odd.has_graph());
    // The values of an example have the types of metadata.
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
