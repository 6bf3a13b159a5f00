//! Invalid options and invalid files.

use ggmill_arch::Architecture;
use ggmill_core::{Builder, GgmlType, MetadataBuf, Model, Shape};
use ggmill_estimate::{ErrorKind, FlashAttention, Options, Unknown, estimate};

fn metadata(keys: &[(&str, u32)]) -> MetadataBuf {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "llama");
    for (key, number) in keys {
        metadata.set(format!("llama.{key}"), *number);
    }
    metadata
}

fn model(metadata: MetadataBuf) -> Model {
    let builder = Builder::new().metadata(metadata).tensor(
        "output_norm.weight",
        GgmlType::F32,
        Shape::new(&[64]).unwrap(),
    );
    Model::open_damaged(builder.plan().unwrap().header().to_vec()).unwrap()
}

const SIZES: &[(&str, u32)] = &[
    ("block_count", 2),
    ("context_length", 512),
    ("embedding_length", 96),
    ("attention.head_count", 4),
    ("attention.head_count_kv", 1),
];

fn refused(change: impl Fn(&mut Options)) -> ErrorKind {
    let mut options = Options::default();
    change(&mut options);
    let error = estimate(&model(metadata(SIZES)), Architecture::builtin("llama"), &options);
    error.unwrap_err().kind().clone()
}

#[test]
fn invalid_options_are_refused() {
    assert!(matches!(
        refused(|options| options.context = Some(0)),
        ErrorKind::OutOfRange { what: "tokens of context", found: 0, .. }
    ));
    assert!(matches!(refused(|options| options.sequences = 0), ErrorKind::OutOfRange { .. }));
    assert!(matches!(refused(|options| options.batch = u64::MAX), ErrorKind::OutOfRange { .. }));
    assert!(matches!(refused(|options| options.micro_batch = 0), ErrorKind::OutOfRange { .. }));
    // A head has 24 elements.
    assert_eq!(
        refused(|options| options.key_type = GgmlType::Q8_0),
        ErrorKind::CacheType { found: GgmlType::Q8_0, elements: 24, block: 32 }
    );
    assert_eq!(
        refused(|options| options.key_type = GgmlType(57)),
        ErrorKind::NoCacheType(GgmlType(57))
    );
    assert_eq!(
        refused(|options| {
            options.value_type = GgmlType::Q8_0;
            options.flash_attention = FlashAttention::Off;
        }),
        ErrorKind::NeedsFlashAttention(GgmlType::Q8_0)
    );
    assert_eq!(refused(|options| options.placement.shares = vec![0.0]), ErrorKind::Shares);
    assert_eq!(
        refused(|options| {
            options.placement.shares = vec![1.0];
            options.placement.overrides.insert("output_norm.weight".to_owned(), 2);
        }),
        ErrorKind::NoDevice { what: "output_norm.weight".into(), found: 2, devices: 1 }
    );
}

#[test]
fn a_model_without_a_context_length_needs_one() {
    let sizes: Vec<_> = SIZES.iter().copied().filter(|(key, _)| *key != "context_length").collect();
    let llama = Architecture::builtin("llama");
    let error = estimate(&model(metadata(&sizes)), llama, &Options::default()).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NoContext);
}

#[test]
fn unknown_parts_are_listed_and_the_rest_is_estimated() {
    let mut unknown = MetadataBuf::new();
    unknown.set("general.architecture", "no-one-knows");
    let found = estimate(&model(unknown), None, &Options::default()).unwrap();
    assert!(
        matches!(&found.unknown[..], [Unknown::Architecture(name), Unknown::Compute(_)] if name == "no-one-knows")
    );
    assert_eq!((found.devices[0].weights, found.devices[0].context()), (256, 0));
    assert_eq!(found.cells, None);

    let without: Vec<_> = SIZES.iter().copied().filter(|(key, _)| *key != "block_count").collect();
    let llama = Architecture::builtin("llama");
    let found = estimate(&model(metadata(&without)), llama, &Options::default()).unwrap();
    assert!(found.unknown[0].to_string().contains("llama.block_count"), "{}", found.unknown[0]);
    assert_eq!((found.devices[0].weights, found.devices[0].context()), (256, 0));
}

/// Products beyond 64 bits, and counts beyond any memory.
#[test]
fn huge_numbers_fail_quickly() {
    let llama = Architecture::builtin("llama");
    let mut huge = metadata(SIZES);
    huge.set("llama.attention.head_count_kv", 1u32 << 20);
    huge.set("llama.attention.key_length", u32::MAX);
    let mut options = Options::default();
    options.context = Some(1 << 31);
    let error = estimate(&model(huge), llama, &options).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TooLarge);
    let mut blocks = metadata(SIZES);
    blocks.set("llama.block_count", u32::MAX);
    let found = estimate(&model(blocks), llama, &Options::default()).unwrap();
    assert!(matches!(found.unknown[0], Unknown::Metadata(_)));
}
