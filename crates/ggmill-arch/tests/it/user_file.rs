//! Descriptions as a user writes them, with features of several architectures.

use ggmill_arch::{Architecture, Catalogue, KeyValue, Operation, Origin, Role};
use ggmill_core::Shape;
use serde_json::json;

/// A state-space model: different names, derived sizes, a decay that is computed from a stored tensor, and
/// a convolution with a squeezed dimension.
const SSM: &str = r#"
schema = "ggmill.architecture/1"
name = "mamba"
title = "Mamba"

[[checkpoint]]
classes = ["MambaForCausalLM"]

[parameters]
embedding_length = { type = "int", from = ["hidden_size", "d_model"] }
block_count = { type = "int", from = ["n_layer"] }
inner = { type = "int", from = ["intermediate_size", "d_inner"], default = "2 * embedding_length" }
state = { type = "int", from = ["state_size"], default = 16 }
kernel = { type = "int", from = ["conv_kernel"], default = 4 }
rank = { type = "int", from = ["time_step_rank"], default = "div_ceil(embedding_length, 16)" }

[keys]
"context_length" = { type = "u32", value = 1048576 }
"ssm.time_step_rank" = { type = "u32", value = "rank" }
"general.file_type" = { type = "u32" }

[[tensors]]
for = "bid in 0..block_count"
[tensors.tensor]
"blk.{bid}.ssm_a" = { shape = ["state", "inner"], role = "ssm.a", keep_f32 = true, from = ["backbone.layers.{bid}.mixer.A_log"], operations = ["neg_exp"] }
"blk.{bid}.ssm_conv1d.weight" = { shape = ["kernel", "inner"], role = "ssm.conv", keep_f32 = true, from = ["backbone.layers.{bid}.mixer.conv1d.weight"], operations = ["reshape(kernel, inner)"] }
"#;

/// A model with lists of one value per block, fused matrices that are split or joined, and norms with an
/// offset.
const PER_BLOCK: &str = r#"
schema = "ggmill.architecture/1"
name = "uneven"
title = "Uneven"

[[checkpoint]]
classes = ["LlamaForCausalLM"]

[parameters]
n_embd = { type = "int", from = ["dim"] }
n_layer = { type = "int", from = ["layers"] }
n_ff = { type = "int | [int]", from = ["ff"] }
dense = { type = "int", from = ["first_dense"], default = 0 }

[keys]
"feed_forward_length" = { type = "u32 | [i32]", value = "n_ff" }

[[tensors]]
for = "il in dense..n_layer"
when = "n_ff[il] > 0"
[tensors.tensor]
"blk.{il}.ffn_gate.weight" = { shape = ["n_embd", "n_ff[il]"], role = "ffn.gate", from = ["h.{il}.gate_up"], operations = ["slice(0, n_ff[il])"] }
"blk.{il}.attn_qkv.weight" = { shape = ["n_embd", "3 * n_embd"], role = "attention.qkv", from = [{ names = ["h.{il}.q", "h.{il}.k", "h.{il}.v"], operations = ["concat"] }] }
"blk.{il}.ffn_norm.weight" = { shape = ["n_embd"], role = "norm", from = ["h.{il}.norm"], operations = ["add(1)"] }
"#;

#[test]
fn a_state_space_model_is_a_file() {
    let architecture = Architecture::parse(SSM).unwrap();
    let model = architecture.resolve(&json!({ "d_model": 100, "n_layer": 2 })).unwrap();
    let keys: Vec<_> = model.keys().iter().map(|key| (&*key.name, key.value.clone())).collect();
    let expected = [
        ("mamba.context_length", KeyValue::U32(1 << 20)),
        ("mamba.ssm.time_step_rank", KeyValue::U32(7)),
        ("general.file_type", KeyValue::FileType),
    ];
    assert_eq!(keys, expected);
    let conv = model.tensor("blk.1.ssm_conv1d.weight").unwrap();
    let Origin::Checkpoint(sources) = &conv.origin else { panic!() };
    assert_eq!(
        sources[0].shape(&[Shape::from_row_major(&[200, 1, 4]).unwrap()]).unwrap(),
        conv.shape
    );
    let a = model.tensor("blk.0.ssm_a").unwrap();
    assert_eq!((a.role, a.is_f32(), a.shape.dimensions()), (Role::SSM_A, true, &[16, 200][..]));
}

#[test]
fn blocks_may_differ() {
    let architecture = Architecture::parse(PER_BLOCK).unwrap();
    let model =
        architecture.resolve(&json!({ "dim": 8, "layers": 3, "ff": [16, 0, 32.0] })).unwrap();
    assert_eq!(model.keys()[0].value, KeyValue::I32Array(vec![16, 0, 32]));
    let names: Vec<_> = model.tensors().iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names.len(), 6);
    assert!(model.tensor("blk.1.ffn_gate.weight").is_none());
    let gate = model.tensor("blk.2.ffn_gate.weight").unwrap();
    let source = gate.source(|_| true).unwrap().unwrap();
    assert_eq!(
        source.operations,
        [Operation::Slice { dimension: None, start: 0, count: 32, step: 1 }]
    );
    assert_eq!(source.shape(&[Shape::new(&[8, 64]).unwrap()]).unwrap(), gate.shape);
    let qkv = model.tensor("blk.0.attn_qkv.weight").unwrap().source(|_| true).unwrap().unwrap();
    assert_eq!(
        (qkv.names.len(), qkv.shape(&[Shape::new(&[8, 8]).unwrap(); 3]).unwrap().dimensions()),
        (3, &[8, 24][..])
    );
    assert_eq!(
        model
            .tensor("blk.0.ffn_norm.weight")
            .unwrap()
            .source(|_| true)
            .unwrap()
            .unwrap()
            .operations,
        [Operation::Add(1.0)]
    );

    // The same description for a model of equal blocks.
    let model = architecture
        .resolve(&json!({ "dim": 8, "layers": 3, "ff": 16, "first_dense": 2 }))
        .unwrap();
    assert_eq!(model.keys()[0].value, KeyValue::U32(16));
    assert_eq!(model.tensors().len(), 3);
    // The error for a list that is too short names the expression.
    let error = architecture.resolve(&json!({ "dim": 8, "layers": 3, "ff": [1] })).unwrap_err();
    assert_eq!(
        error.to_string(),
        "architecture \"uneven\": n_ff[il] > 0 needs element 1, but there are 1"
    );
}

#[test]
fn a_users_description_goes_first() {
    let config = json!({ "architectures": ["LlamaForCausalLM"] });
    let catalogue = Catalogue::new()
        .with(Architecture::parse(PER_BLOCK).unwrap())
        .with(Architecture::parse(SSM).unwrap());
    assert_eq!(catalogue.for_checkpoint(&config).unwrap().name(), "uneven");
    assert_eq!(catalogue.by_name("llama").unwrap().title(), "LLaMA, Mistral and Mixtral");
    assert_eq!(catalogue.by_name("mamba").unwrap().title(), "Mamba");
    assert_eq!(
        catalogue.architectures().map(Architecture::name).take(2).collect::<Vec<_>>(),
        ["mamba", "uneven"]
    );
    assert_eq!(catalogue.architectures().count(), 2 + Architecture::builtin_names().len());
}

#[test]
fn the_example_of_the_documentation_works() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/architecture.md");
    // A published package has no docs directory.
    let Ok(page) = std::fs::read_to_string(path) else { return };
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let architecture = Architecture::parse(example).unwrap();
    let config = json!({ "architectures": ["TinyForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2 });
    let model = architecture.resolve(&config).unwrap();
    assert_eq!((model.keys().len(), model.tensors().len()), (3, 4));
    assert_eq!(model.tensor("blk.1.attn_k.weight").unwrap().shape.dimensions(), [64, 16]);
    // The page lists every role.
    for (role, _) in Role::ALL {
        let name = role.name();
        let short = name.split_once('.').map_or(name.to_owned(), |(_, last)| format!(".{last}`"));
        assert!(
            page.contains(&format!("`{name}`")) || page.contains(&format!("`{short}")),
            "{name}"
        );
    }
}

/// Returns the tensors of a description that includes the usual parts, in order, with these changes.
fn order_with(changes: &str) -> ggmill_arch::Result<Vec<String>> {
    let text = format!(
        r#"
schema = "ggmill.architecture/1"
name = "order"
title = "Order"
include = ["base", "model", "attention", "rms-norm", "feed-forward", "hf-model", "hf-norms", "hf-attention", "hf-ffn"]
[[checkpoint]]
classes = ["OrderForCausalLM"]
[vocabulary]
kinds = ["bpe"]
[change]
{changes}"#
    );
    let config = json!({ "architectures": ["OrderForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 32, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "tie_word_embeddings": false });
    let architecture = Architecture::parse(&text)?;
    let model = architecture.resolve(&config)?;
    Ok(model.tensors().iter().map(|tensor| tensor.name.clone()).collect())
}

#[test]
fn changing_a_tensor_keeps_the_order() {
    let plain = order_with("").unwrap();
    assert_eq!(plain.len(), 3 + 2 * 13, "{plain:?}");
    for name in plain.iter().filter(|name| !name.starts_with("blk.1.")) {
        let name = name.replace("blk.0.", "blk.{bid}.");
        for change in ["{}", "{ role = \"other\" }", "{ operations = [\"mul(2.0)\"] }"] {
            let found = order_with(&format!("\"{name}\" = {change}\n")).unwrap();
            assert_eq!(found, plain, "{name} = {change}");
        }
    }
    let error = order_with("\"blk.{bid}.attn_r.weight\" = {}\n").unwrap_err().to_string();
    assert!(
        error.contains("change \"blk.{bid}.attn_r.weight\": no included part has this tensor"),
        "{error}"
    );
}
