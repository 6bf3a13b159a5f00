//! Reads GGUF files with descriptions: hyperparameters from metadata, and the differences in tensors.

use ggmill_arch::{Architecture, Difference, ErrorKind, RequiredBy};
use ggmill_core::{Builder, Header, MetadataBuf, Shape};

/// A description of a model whose blocks differ in width, in whether they have a gate, and in whether
/// they have attention or a recurrent state.
const DIFFERENT: &str = r#"
schema = "ggmill.architecture/1"
name = "different"
title = "Different"
include = ["base", "model"]
[parameters]
widths = { type = "[int]" }
heads = { type = "int | [int]" }
state = { type = "int", default = 16, in_file = 8 }
[keys]
"feed_forward_length" = { type = "[u32]", value = "widths", required = "loader" }
"attention.head_count" = { type = "u32 | [u32]", value = "heads", required = "specification" }
[[contradiction]]
when = "len(widths) != block_count"
because = "a width is needed for each block"
[[tensors]]
for = "bid in 0..block_count"
[tensors.tensor]
"blk.{bid}.ffn_up.weight" = { shape = ["embedding_length", "widths[bid]"], role = "ffn.up" }
"blk.{bid}.ffn_gate.weight" = { shape = ["embedding_length", "widths[bid]"], role = "ffn.gate", unless = "blk.{bid}.ffn_gate_up.weight" }
"blk.{bid}.ffn_gate_up.weight" = { shape = ["embedding_length", "2 * widths[bid]"], role = "ffn.gate_up", required = false }
"blk.{bid}.attn_q.weight" = { shape = ["embedding_length", "heads[bid] * 4"], role = "attention.q", when = "heads[bid] > 0" }
"blk.{bid}.ssm_a" = { shape = ["state", 1], role = "ssm.a", when = "heads[bid] == 0" }
"#;

fn metadata() -> MetadataBuf {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "different");
    metadata.set("different.block_count", 2u32);
    metadata.set("different.context_length", 64u32);
    metadata.set("different.embedding_length", 8u32);
    metadata.set("different.feed_forward_length", &[12u32, 20][..]);
    metadata.set("different.attention.head_count", &[2u32, 0][..]);
    metadata.set("tokenizer.ggml.tokens", &["a", "b", "c"][..]);
    metadata
}

/// Returns a file with these tensors, without data.
fn header(metadata: &MetadataBuf, tensors: &[(&str, &[u64])]) -> Vec<u8> {
    let mut builder = Builder::new().metadata(metadata.clone());
    for (name, shape) in tensors {
        builder = builder.tensor(name, ggmill_core::GgmlType::F32, Shape::new(shape).unwrap());
    }
    let plan = builder.plan().unwrap();
    let mut file = plan.header().to_vec();
    file.resize(usize::try_from(plan.total_len()).unwrap(), 0);
    file
}

const WHOLE: [(&str, &[u64]); 7] = [
    ("token_embd.weight", &[8, 3]),
    ("blk.0.ffn_up.weight", &[8, 12]),
    ("blk.0.ffn_gate.weight", &[8, 12]),
    ("blk.0.attn_q.weight", &[8, 8]),
    ("blk.1.ffn_up.weight", &[8, 20]),
    ("blk.1.ffn_gate_up.weight", &[8, 40]),
    ("blk.1.ssm_a", &[8]),
];

fn differences(tensors: &[(&str, &[u64])]) -> Vec<String> {
    let architecture = Architecture::parse(DIFFERENT).unwrap();
    let file = header(&metadata(), tensors);
    let file = Header::parse(&file).unwrap();
    let model = architecture.resolve_file(file.metadata()).unwrap();
    let tensors: Vec<_> = file.tensors().iter().collect();
    let shown = |difference: &Difference<'_>| match difference {
        Difference::Missing(spec) => format!("missing {}", spec.name),
        Difference::Unexpected(place) => format!("unexpected {}", tensors[*place].name()),
        Difference::Excluded { spec, place } => format!("excluded {} at {place}", spec.name),
        Difference::Shape { expected, place } => {
            format!("{} is {}, expected {}", expected.name, tensors[*place].shape(), expected.shape)
        }
        _ => panic!(),
    };
    model.compare(&tensors).iter().map(shown).collect()
}

#[test]
fn each_block_has_numbers_of_its_own() {
    assert_eq!(differences(&WHOLE), Vec::<String>::new());
    let mut tensors = WHOLE.to_vec();
    tensors[1].1 = &[8, 20];
    tensors.push(("blk.1.ffn_gate.weight", &[8, 20]));
    tensors.push(("blk.1.attn_q.weight", &[8, 8]));
    tensors.push(("blk.0.ffn_up.scale", &[1]));
    tensors.remove(3);
    let expected = [
        "blk.0.ffn_up.weight is 8 × 20, expected 8 × 12",
        "missing blk.0.attn_q.weight",
        "excluded blk.1.ffn_gate.weight at 6",
        "unexpected blk.1.attn_q.weight",
    ];
    assert_eq!(differences(&tensors), expected);
}

#[test]
fn what_the_metadata_lack_or_have_wrong_is_named() {
    let architecture = Architecture::parse(DIFFERENT).unwrap();
    let resolve = |metadata: &MetadataBuf| {
        let file = header(metadata, &[]);
        let file = Header::parse(&file).unwrap();
        architecture
            .resolve_file(file.metadata())
            .map(|_| ())
            .map_err(|error| (error.kind(), error.to_string()))
    };
    let error = |change: &dyn Fn(&mut MetadataBuf)| {
        let mut metadata = metadata();
        change(&mut metadata);
        let (kind, message) = resolve(&metadata).unwrap_err();
        assert_eq!(kind, ErrorKind::Configuration, "{message}");
        message.strip_prefix("architecture \"different\"").unwrap().to_owned()
    };
    assert_eq!(
        error(&|metadata| metadata.set("different.feed_forward_length", &[1u32][..])),
        ": a width is needed for each block"
    );
    let message = error(&|metadata| metadata.set("different.feed_forward_length", 12u32));
    assert_eq!(
        message,
        ", hyperparameter \"widths\": different.feed_forward_length is 12, expected a list of \
         integers"
    );
    let message = error(&|metadata| metadata.set("different.block_count", "two"));
    assert_eq!(
        message,
        ", hyperparameter \"block_count\": different.block_count is \"two\", expected an integer"
    );
    let message =
        error(&|metadata| metadata.set("different.feed_forward_length", &vec![1u32; 70_000][..]));
    assert_eq!(
        message,
        ", hyperparameter \"widths\": different.feed_forward_length is too long, too large, or of \
         a type that hyperparameters cannot have"
    );
    let message = error(&|metadata| metadata.set("different.block_count", u64::MAX));
    assert_eq!(
        message,
        ", hyperparameter \"block_count\": different.block_count is too long, too large, or of a \
         type that hyperparameters cannot have"
    );

    let empty = header(&MetadataBuf::new(), &[]);
    let empty = Header::parse(&empty).unwrap();
    let missing: Vec<_> = architecture
        .missing_keys(empty.metadata())
        .iter()
        .map(|key| (key.name, key.required_by.unwrap()))
        .collect();
    assert_eq!(missing.len(), 5);
    assert!(missing.contains(&("different.block_count", RequiredBy::Loader)));
    assert!(missing.contains(&("different.attention.head_count", RequiredBy::Specification)));
}

#[test]
fn every_description_answers_metadata_that_are_absurd() {
    for architecture in Architecture::builtins() {
        for number in [0u32, 1, 3, u32::MAX] {
            let mut metadata = MetadataBuf::new();
            for key in architecture.keys() {
                metadata.set(key.name, number);
            }
            let file = header(&metadata, &[]);
            let file = Header::parse(&file).unwrap();
            // A result or an error: no panic and no endless loop.
            if let Err(error) = architecture.resolve_file(file.metadata()) {
                assert!(error.to_string().starts_with("architecture "), "{error}");
            }
        }
    }
}
