//! Which types tensors get, and which values and options are errors; models of architectures that
//! the reference does not support.

use ggmill_core::{GgmlType, Header};
use ggmill_pipeline::{ErrorKind, GgufCheckpoint};
use ggmill_quantize::{
    Imatrix, Importance, ImportanceFilter, QuantizeOptions, RoleRule, TensorType, quantize,
};
use ggmill_testdata::bytes::FileBytes;

use crate::support::{Fixture, options, quantized, refusal};

#[test]
fn nan_is_an_error_with_its_position() {
    let fixture = Fixture::new("llama");
    let mut file = fixture.model.file.clone();
    let place = fixture.data("blk.4.ffn_down.weight") + 2 * (3 * 160 + 17);
    file[place..place + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
    std::fs::write(fixture.path(), &file).unwrap();
    let (kind, message) = refusal(&fixture.path(), &options("Q4_K_M"));
    assert_eq!(
        (kind, &*message),
        (
            ErrorKind::NonFinite,
            r#"tensor "blk.4.ffn_down.weight": row 3, column 17 is NaN, expected a finite number"#
        )
    );
    // Values are also checked if a tensor is only copied.
    assert_eq!(refusal(&fixture.path(), &options("COPY")).0, ErrorKind::NonFinite);
}

#[test]
fn overflow_of_half_precision_is_an_error() {
    let fixture = Fixture::new("mamba");
    let mut file = fixture.model.file.clone();
    let place = fixture.data("blk.1.ssm_in.weight") + 4 * (256 + 3);
    file[place..place + 4].copy_from_slice(&70_000.0f32.to_le_bytes());
    std::fs::write(fixture.path(), &file).unwrap();
    let (kind, message) = refusal(&fixture.path(), &options("F16"));
    let expected =
        r#"tensor "blk.1.ssm_in.weight": row 1, column 3 is 7e4, which is too large for F16"#;
    assert_eq!((kind, &*message), (ErrorKind::Range, expected));
    assert!(quantized(&fixture.path(), &options("BF16")).is_ok());
    // The scale is the largest value divided by eight, which fits.
    assert!(quantized(&fixture.path(), &options("Q4_0")).is_ok());
    file[place..place + 4].copy_from_slice(&2e30f32.to_le_bytes());
    std::fs::write(fixture.path(), &file).unwrap();
    let (kind, message) = refusal(&fixture.path(), &options("Q4_0"));
    let expected = r#"tensor "blk.1.ssm_in.weight": row 1, column "#;
    assert!(
        kind == ErrorKind::Range
            && message.starts_with(expected)
            && message.contains(", in a block with numbers that are too large for Q4_0"),
        "{message}"
    );
}

#[test]
fn a_value_out_of_range_of_the_type_is_an_error() {
    let fixture = Fixture::new("mamba");
    let mut file = fixture.model.file.clone();
    let place = fixture.data("blk.1.ssm_in.weight") + 4 * (256 + 3);
    for value in [2689.0, 1e6, -1e38f32] {
        file[place..place + 4].copy_from_slice(&value.to_le_bytes());
        std::fs::write(fixture.path(), &file).unwrap();
        let (kind, message) = refusal(&fixture.path(), &options("NVFP4"));
        let expected = format!(
            r#"tensor "blk.1.ssm_in.weight": row 1, column 3 is {value:e}, in a block with numbers that are too large for NVFP4"#
        );
        assert_eq!((kind, message), (ErrorKind::Range, expected));
    }
    // The squares overflow, so the scale becomes zero.
    let (kind, message) = refusal(&fixture.path(), &options("Q3_K"));
    let expected = r#"tensor "blk.1.ssm_in.weight": row 1, column 3 is -1e38, in a block with numbers that are too large for Q"#;
    assert!(kind == ErrorKind::Range && message.starts_with(expected), "{message}");
}

#[test]
fn missing_importance_is_an_error_with_the_tensor() {
    let fixture = Fixture::new("llama");
    let (kind, message) = refusal(&fixture.path(), &options("IQ2_XS"));
    assert_eq!(
        (kind, &*message),
        (
            ErrorKind::Importance,
            r#"tensor "blk.0.attn_k.weight": IQ2_XS requires importance weights, but there are none"#
        )
    );

    let mut some = options("IQ2_XS");
    some.importance =
        Some(fixture.importance(&ImportanceFilter::Exclude(vec!["blk.3.ffn_up".into()])));
    let expected = r#"tensor "blk.3.ffn_up.weight": IQ2_XS requires importance weights, but the importance matrix has none for this tensor"#;
    assert_eq!(refusal(&fixture.path(), &some).1, expected);

    some.dry_run = true;
    let checkpoint = GgufCheckpoint::open(fixture.path()).unwrap();
    let recipe = quantize(&checkpoint, &some).unwrap();
    assert!(
        recipe.notes()[0].starts_with("quantization would fail: tensor \"blk.3.ffn_up.weight\""),
        "{:?}",
        recipe.notes()
    );
}

#[test]
fn importance_of_another_model_is_an_error() {
    let (fixture, other) = (Fixture::new("llama"), Fixture::new("falcon"));
    let mut options = options("Q4_K_M");
    options.importance = Some(
        Importance::new(
            &Imatrix::parse(&other.model.imatrix()).unwrap(),
            Some("x"),
            &ImportanceFilter::All,
        )
        .unwrap(),
    );
    let expected = "tensor \"blk.0.ffn_down.weight\": 256 importance weights, expected 512 for \
                    shape 512 × 8: the importance matrix belongs to a different model";
    assert_eq!(refusal(&fixture.path(), &options), (ErrorKind::Importance, expected.to_owned()));
}

#[test]
fn requantization_is_an_error_unless_allowed() {
    let fixture = Fixture::new("llama");
    let once = quantized(&fixture.path(), &options("Q8_0")).unwrap();
    let path = fixture.directory.path().join("once.gguf");
    std::fs::write(&path, &once).unwrap();
    let (kind, message) = refusal(&path, &options("Q4_0"));
    assert_eq!(
        (kind, &*message),
        (
            ErrorKind::Quantized,
            r#"tensor "output.weight": is already Q8_0, and quantizing it again to Q6_K would lose more precision"#
        )
    );
    let mut again = options("Q4_0");
    again.allow_requantize = true;
    assert!(quantized(&path, &again).unwrap().len() < once.len());
    // Keeping the type loses nothing.
    assert!(quantized(&path, &options("Q8_0")).unwrap() == once);
}

/// Patterns are case-sensitive. The reference converts them to lower case, so patterns with upper
/// case match nothing there.
#[test]
fn patterns_are_case_sensitive() {
    let fixture = Fixture::new("llama");
    let mut options = options("Q8_0");
    options.tensor_types = vec![
        "ATTN_Q=f16".parse::<TensorType>().unwrap(),
        r"\.attn_[kv]\.=q4_1".parse::<TensorType>().unwrap(),
    ];
    let file = quantized(&fixture.path(), &options).unwrap();
    let types = |name: &str| Header::parse(&file).unwrap().tensor(name).unwrap().ggml_type();
    assert_eq!(
        ["blk.0.attn_q.weight", "blk.0.attn_k.weight"].map(types),
        [GgmlType::Q8_0, GgmlType::Q4_1]
    );
}

/// An unknown architecture with the usual tensor names.
#[test]
fn unknown_architectures_are_quantized() {
    let fixture = Fixture::new("llama");
    let mut file = fixture.model.file.clone();
    let at = file.windows(5).position(|window| window == b"llama").unwrap();
    file[at..at + 5].copy_from_slice(b"novel");
    std::fs::write(fixture.path(), &file).unwrap();
    let file = quantized(&fixture.path(), &options("Q4_K_M")).unwrap();
    let model = Header::parse(&file).unwrap();
    // The names give nine layers, of which the first and the last get more bits.
    let types = [0, 1, 8]
        .map(|layer| model.tensor(format!("blk.{layer}.attn_v.weight")).unwrap().ggml_type());
    assert_eq!(types, [GgmlType::Q6_K, GgmlType::Q4_K, GgmlType::Q6_K]);
}

/// Rules give roles to tensors with unknown names. Without rules they are kept, because their names
/// do not end in `weight`.
#[test]
fn rules_give_roles_to_unknown_names() {
    let fixture = Fixture::new("llama");
    let mut file = fixture.model.file.clone();
    for (name, other) in [
        (&b"ffn_down.weight"[..], &b"mlp.w2.kernel.."[..]),
        (b"attn_v.weight", b"self.v.kernel"),
        (b"attn_k.weight", b"self.k.kernel"),
    ] {
        let places: Vec<usize> = file
            .windows(name.len())
            .enumerate()
            .filter(|(_, window)| *window == name)
            .map(|(at, _)| at)
            .collect();
        assert_eq!(places.len(), 9);
        places.into_iter().for_each(|at| file[at..at + name.len()].copy_from_slice(other));
    }
    std::fs::write(fixture.path(), &file).unwrap();
    let types = |rules: &str| {
        let mut options = options("Q4_K_M");
        options.roles = RoleRule::parse_list(rules).unwrap();
        let file = quantized(&fixture.path(), &options).unwrap();
        let model = Header::parse(&file).unwrap();
        [
            "blk.0.mlp.w2.kernel..",
            "blk.1.self.v.kernel",
            "blk.2.self.v.kernel",
            "blk.1.self.k.kernel",
        ]
        .map(|name| model.tensor(name).unwrap().ggml_type())
    };
    assert_eq!(types(""), [GgmlType::F16; 4]);
    let rules = "w2=ffn.down\nself\\.v=attention.v self\\.k=norm";
    assert_eq!(types(rules), [GgmlType::Q6_K, GgmlType::Q4_K, GgmlType::Q4_K, GgmlType::F16]);
    assert_eq!(types("kernel=other"), [GgmlType::Q4_K; 4]);
}

#[test]
fn shards_become_one_file() {
    let fixture = Fixture::new("llama");
    let whole = quantized(&fixture.path(), &options("Q5_K_S")).unwrap();
    let model = Header::parse(&fixture.model.file).unwrap();
    let tensors: Vec<_> = model.tensors().iter().collect();
    for (number, part) in tensors.chunks(tensors.len().div_ceil(3)).enumerate() {
        let mut metadata = if number == 0 {
            ggmill_core::MetadataBuf::copy_of(&model.metadata()).unwrap()
        } else {
            ggmill_core::MetadataBuf::new()
        };
        metadata.set("split.no", u16::try_from(number).unwrap());
        metadata.set("split.count", 3u16);
        metadata.set("split.tensors.count", i32::try_from(tensors.len()).unwrap());
        let builder = ggmill_core::Builder::new().metadata(metadata);
        let builder = part.iter().fold(builder, |builder, tensor| {
            builder.tensor(tensor.name().as_bytes(), tensor.ggml_type(), *tensor.shape())
        });
        let plan = builder.plan().unwrap();
        let mut writer = ggmill_core::Writer::start(&plan, Vec::new()).unwrap();
        for (place, tensor) in part.iter().enumerate() {
            writer.write(place, tensor.raw_data().unwrap()).unwrap();
        }
        let name = ggmill_core::shard_file_name("shards", u32::try_from(number).unwrap() + 1, 3);
        std::fs::write(fixture.directory.path().join(name), writer.finish().unwrap()).unwrap();
    }
    let shard = fixture.directory.path().join("shards-00002-of-00003.gguf");
    assert!(quantized(&shard, &options("Q5_K_S")).unwrap() == whole);
}

/// Returns a model of F32 tensors in this order, with the values of a slow wave.
fn model(architecture: &str, tensors: &[(&str, &[u64])]) -> Vec<u8> {
    let mut file = FileBytes::v3(tensors.len() as u64, 1);
    file.pair("general.architecture", &architecture.into());
    let mut data = FileBytes::new(3, ggmill_core::Endian::Little);
    for (name, dimensions) in tensors {
        file.tensor(name, dimensions, 0, data.position());
        for number in 0..dimensions.iter().product::<u64>() {
            data.f32((number as f32 * 0.37).sin());
        }
        data.pad(32);
    }
    file.pad(32).raw(data.as_bytes());
    file.into_bytes()
}

const MINE: &[(&str, &[u64])] = &[
    ("head", &[256, 40]),
    ("layers.1.w1", &[256, 8]),
    ("layers.0.w1", &[512, 8]),
    ("layers.0.norm2d", &[256, 2]),
    ("pos_embed", &[256, 7, 1]),
    ("layers.0.bias", &[256]),
    ("steps", &[]),
    ("odd", &[48, 3]),
    ("conv.weight", &[3, 3, 4]),
    ("blk.0.state", &[256, 2]),
    ("one", &[64, 1, 1]),
];

/// Quantizes a file and returns the name, dimensions and type of every tensor.
fn tensors(file: &[u8], options: &QuantizeOptions) -> Vec<(String, Vec<u64>, GgmlType)> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    std::fs::write(&path, file).unwrap();
    let file = quantized(&path, options).unwrap();
    let model = Header::parse(&file[..]).unwrap();
    model
        .tensors()
        .iter()
        .map(|tensor| {
            (tensor.name().to_string(), tensor.shape().dimensions().to_vec(), tensor.ggml_type())
        })
        .collect()
}

fn types(options: &QuantizeOptions) -> Vec<GgmlType> {
    tensors(&model("mynet", MINE), options).into_iter().map(|(_, _, ggml_type)| ggml_type).collect()
}

/// Order and shapes are kept for every target, unlike for architectures that the reference
/// supports.
#[test]
fn unknown_architectures_keep_order_and_shapes() {
    let stays: Vec<_> =
        MINE.iter().map(|(name, dimensions)| ((*name).to_owned(), dimensions.to_vec())).collect();
    for target in ["COPY", "Q8_0", "F16"] {
        let found: Vec<_> = tensors(&model("mynet", MINE), &options(target))
            .into_iter()
            .map(|(name, dimensions, _)| (name, dimensions))
            .collect();
        assert_eq!(found, stays, "{target}");
    }
    let known = tensors(&model("llama", MINE), &options("COPY"));
    assert_eq!((&*known[0].0, &*known.last().unwrap().0), ("conv.weight", "blk.0.state"));
    let dimensions = |name: &str| known.iter().find(|tensor| tensor.0 == name).unwrap().1.clone();
    assert_eq!(["steps", "one", "pos_embed"].map(dimensions), [vec![1], vec![64], vec![256, 7]]);
}

/// A matrix is quantized unless its name indicates otherwise; for architectures that the reference
/// supports, only if the name ends in `weight`.
#[test]
fn matrices_of_unknown_architectures_are_quantized() {
    use GgmlType as G;
    let expected = |w: G, w512: G| {
        vec![w, w, w512, G::F32, G::F32, G::F32, G::F32, G::F32, G::F16, G::F32, G::F32]
    };
    assert_eq!(types(&options("Q4_K_M")), expected(G::Q4_K, G::Q4_K));
    let mut pure = options("Q6_K");
    pure.pure = true;
    assert_eq!(types(&pure), expected(G::Q6_K, G::Q6_K));

    // A type pattern takes precedence over the guess from the name, and a role over the pattern.
    let mut asked = options("Q8_0");
    asked.tensor_types =
        TensorType::parse_list(r"layers\.0\.w1=q5_k norm2d=q4_k state=q4_0 bias=q4_0").unwrap();
    asked.roles = RoleRule::parse_list("state=norm").unwrap();
    let mut named = expected(G::Q8_0, G::Q5_K);
    named[3] = G::Q4_K;
    assert_eq!(types(&asked), named);
    let known = tensors(&model("llama", MINE), &asked);
    assert!(known.iter().all(|(_, _, ggml_type)| !ggml_type.is_quantized()), "{known:?}");
}

/// If neither metadata nor names give the number of layers, the tensors of a role are counted.
#[test]
fn layers_are_counted_by_role_without_a_block_count() {
    let names: Vec<String> = (0..8).map(|layer| format!("layers.{layer}.w2")).collect();
    let layers: Vec<(&str, &[u64])> =
        names.iter().map(|name| (&**name, &[256, 1, 2][..])).collect();
    let mut mixture = options("Q4_K_M");
    mixture.roles = RoleRule::parse_list("w2=ffn.down").unwrap();
    let found = tensors(&model("mynet", &layers), &mixture);
    // The first eighth, the last, and every third in between.
    let more: Vec<usize> = (0..8).filter(|&layer| found[layer].2 == GgmlType::Q6_K).collect();
    assert_eq!(more, [0, 3, 6, 7], "{found:?}");
    assert_eq!(found[1].2, GgmlType::Q4_K);
}

#[test]
fn low_coverage_gives_a_note() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let notes = |architecture: &str, target: &str| {
        std::fs::write(&path, model(architecture, MINE)).unwrap();
        quantize(&GgufCheckpoint::open(&path).unwrap(), &options(target)).unwrap().notes().to_vec()
    };
    let [ragged, coverage] = &notes("llama", "Q8_0")[..] else { panic!("two notes") };
    assert_eq!(
        ragged,
        "\"conv.weight\" is F16 instead of Q8_0 (rows of 3), because the row length is not a multiple of the block size; no tensor is Q8_0"
    );
    assert_eq!(
        coverage,
        "0 of 11 tensors are quantized, with 0.0% of the weights; of the others, 3 are not matrices, 7 are kept for their names or roles"
    );
    assert_eq!(notes("mynet", "Q8_0").len(), 1);
    assert!(notes("llama", "COPY").is_empty() && notes("llama", "F16").is_empty());
}
