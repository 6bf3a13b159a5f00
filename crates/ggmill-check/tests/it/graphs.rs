//! Stored graphs are compared with descriptions.

use ggmill_arch::Architecture;
use ggmill_core::{GgmlType, Header};
use ggmill_testdata::bytes::Value;

use crate::support::{Model, codes, report, strings};

/// Builds a model whose n-grams use 60 rows of a table.
fn with_ngrams() -> Model {
    let numbers = |kind: u32, numbers: &[u32]| {
        let of = |&number: &u32| match kind {
            5 => Value::I32(i32::try_from(number).unwrap()),
            7 => Value::Bool(u8::try_from(number).unwrap()),
            _ => Value::U64(u64::from(number)),
        };
        Value::Array(kind, numbers.iter().map(of).collect())
    };
    let mut model = Model::empty().set("general.architecture", "qwen4exp");
    for (key, number) in [
        ("block_count", 2),
        ("context_length", 24),
        ("embedding_length", 32),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
        ("ssm.conv_kernel", 4),
        ("ssm.inner_size", 32),
        ("ssm.state_size", 8),
        ("ssm.group_count", 2),
        ("ssm.time_step_rank", 4),
        ("rope.dimension_count", 4),
        ("expert_count", 6),
        ("expert_used_count", 2),
        ("expert_feed_forward_length", 20),
        ("expert_shared_feed_forward_length", 28),
        ("hyper_connection.count", 3),
        ("hyper_connection.low_rank", 6),
        ("attention.indexer.head_count", 4),
        ("attention.indexer.key_length", 8),
        ("attention.indexer.top_k", 8),
        ("ple.ngram_size", 3),
        ("ple.heads_per_ngram", 2),
        ("ple.conv_kernel", 4),
        ("ple.eos_token_id", 2),
        ("embedding_length_per_layer_input", 8),
        ("vocab_size", 50),
    ] {
        model = model.set(format!("qwen4exp.{key}"), Value::U32(number));
    }
    model
        .set("qwen4exp.attention.layer_norm_rms_epsilon", Value::F32(1e-5))
        .set("qwen4exp.attention.recurrent_layers", numbers(7, &[1, 0]))
        .set("qwen4exp.attention.compress_ratios", numbers(5, &[0, 4]))
        .set("qwen4exp.ple.layers", numbers(5, &[0]))
        .set("qwen4exp.ple.layer_multipliers", numbers(10, &[5, 7, 9]))
        .set("qwen4exp.ple.head_offsets", numbers(10, &[0, 11, 24, 41]))
        .set("qwen4exp.ple.head_vocab_sizes", numbers(10, &[11, 13, 17, 19]))
}

#[test]
fn a_hash_table_with_more_rows_is_the_same_graph() {
    let architecture = Architecture::builtin("qwen4exp").unwrap();
    let mut model = with_ngrams();
    let header = Header::parse(model.bytes()).unwrap();
    let resolved = architecture.resolve_file(header.metadata()).unwrap();
    let tensors = resolved.tensors().iter().filter(|spec| spec.required && spec.tied.is_none());
    for spec in tensors {
        model = model.tensor(&spec.name, spec.shape.dimensions(), GgmlType::F32);
    }
    let has = |name: &str| model.tensors.iter().any(|(found, ..)| found == name.as_bytes());
    let steps = resolved.graph(&has).unwrap().steps().unwrap();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let plain = model.clone();
    let model = model.set("ggmill.graph.version", Value::U32(6));
    let longer = |steps: &[&str], rows: u64| {
        let model = model.clone().set("ggmill.graph", strings(steps));
        let shape = Some((&[8, rows][..], GgmlType::F32));
        codes(&report(&model.retensor("per_layer_token_embd.weight", shape).bytes()))
    };
    for rows in [60, 64] {
        let found = longer(&steps, rows);
        assert!(!found.contains(&"GG1528"), "{rows}: {found:?}");
        assert!(!found.contains(&"GG1515"), "{rows}: {found:?}");
    }
    // Without a stored graph, the table is still checked against the description.
    for (shape, fits) in [([8, 60], true), ([8, 64], true), ([8, 59], false), ([9, 60], false)] {
        let table = Some((&shape[..], GgmlType::F32));
        let model = plain.clone().retensor("per_layer_token_embd.weight", table);
        assert_eq!(!codes(&report(&model.bytes())).contains(&"GG1515"), fits, "{shape:?}");
    }
    // Fewer rows than the hashes use, and a graph with another number.
    assert!(longer(&steps, 59).contains(&"GG1528"));
    let other: Vec<String> =
        steps.iter().map(|step| step.replace("dilation = 3", "dilation = 2")).collect();
    let other: Vec<&str> = other.iter().map(String::as_str).collect();
    assert_ne!(other, steps);
    assert!(longer(&other, 64).contains(&"GG1528"));
}
