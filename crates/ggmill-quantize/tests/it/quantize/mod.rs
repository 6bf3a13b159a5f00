//! Quantization: the types chosen, the bytes written, and what is refused.

mod fit;
mod imatrix;
mod imatrix_run;
mod loss;
mod mixtures;
mod remarks;
mod unknown;
mod whole_files;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_core::{GgmlType, Gguf};
use ggmill_pipeline::{Error, ErrorKind, GgufCheckpoint, RunOptions, run};
use ggmill_quantize::{
    Imatrix, Importance, ImportanceFilter, QuantizeOptions, RoleRule, Target, TensorType, quantize,
};
use ggmill_testdata::models::{Model, models};

/// A model of ggmill-testdata, in a file.
struct Fixture {
    model: Model,
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new(name: &str) -> Self {
        let model = models().into_iter().find(|model| model.name == name).unwrap();
        let this = Self { model, directory: tempfile::tempdir().unwrap() };
        std::fs::write(this.path(), &this.model.file).unwrap();
        this
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("model.gguf")
    }

    /// Where the data of a tensor begin in the file.
    fn data(&self, name: &str) -> usize {
        usize::try_from(Gguf::parse(&self.model.file).unwrap().tensor(name).unwrap().offset())
            .unwrap()
    }

    fn importance(&self, filter: &ImportanceFilter) -> Importance {
        Importance::new(&Imatrix::parse(&self.model.imatrix()).unwrap(), Some("imatrix"), filter)
            .unwrap()
    }
}

/// An importance matrix of the legacy form with these entries, measured once.
fn legacy_imatrix(entries: &[(String, Vec<f32>)]) -> Imatrix {
    let number = |number: usize| i32::try_from(number).unwrap().to_le_bytes();
    let mut file = number(entries.len()).to_vec();
    for (name, weights) in entries {
        file.extend(number(name.len()));
        file.extend(name.as_bytes());
        file.extend([1, weights.len()].into_iter().flat_map(number));
        file.extend(weights.iter().flat_map(|weight| weight.to_le_bytes()));
    }
    Imatrix::parse(&file).unwrap()
}

fn options(target: &str) -> QuantizeOptions {
    QuantizeOptions::new(target.parse::<Target>().unwrap())
}

fn quantized(path: &Path, options: &QuantizeOptions) -> Result<Vec<u8>, Error> {
    let checkpoint = GgufCheckpoint::open(path)?;
    let plan = quantize(&checkpoint, options)?.plan(&checkpoint)?;
    run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| ControlFlow::Continue(()))
}

fn refusal(path: &Path, options: &QuantizeOptions) -> (ErrorKind, String) {
    let error = quantized(path, options).expect_err("a refusal");
    (error.kind(), error.to_string())
}

#[test]
fn a_number_that_is_none_is_named_with_its_place() {
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
    // A tensor that is only copied is held to the same.
    assert_eq!(refusal(&fixture.path(), &options("COPY")).0, ErrorKind::NonFinite);
}

#[test]
fn a_number_that_becomes_infinite_is_refused() {
    let fixture = Fixture::new("mamba");
    let mut file = fixture.model.file.clone();
    let place = fixture.data("blk.1.ssm_in.weight") + 4 * (256 + 3);
    file[place..place + 4].copy_from_slice(&70_000.0f32.to_le_bytes());
    std::fs::write(fixture.path(), &file).unwrap();
    let (kind, message) = refusal(&fixture.path(), &options("F16"));
    let expected =
        r#"tensor "blk.1.ssm_in.weight": row 1, column 3 is 7e4, which is too large for F16"#;
    assert_eq!((kind, &*message), (ErrorKind::NonFinite, expected));
    assert!(quantized(&fixture.path(), &options("BF16")).is_ok());
    // A scale is the largest number over eight here, and fits.
    assert!(quantized(&fixture.path(), &options("Q4_0")).is_ok());
    file[place..place + 4].copy_from_slice(&2e30f32.to_le_bytes());
    std::fs::write(fixture.path(), &file).unwrap();
    let (kind, message) = refusal(&fixture.path(), &options("Q4_0"));
    let expected = r#"tensor "blk.1.ssm_in.weight": row 1, column "#;
    assert!(
        kind == ErrorKind::NonFinite
            && message.starts_with(expected)
            && message.contains(", in a block with numbers that are too large for Q4_0"),
        "{message}"
    );
}

#[test]
fn a_number_beyond_what_a_type_holds_is_refused() {
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
        assert_eq!((kind, message), (ErrorKind::NonFinite, expected));
    }
    // Its squares overflow, and the scale that comes of them is zero.
    let (kind, message) = refusal(&fixture.path(), &options("Q3_K"));
    let expected = r#"tensor "blk.1.ssm_in.weight": row 1, column 3 is -1e38, in a block with numbers that are too large for Q"#;
    assert!(kind == ErrorKind::NonFinite && message.starts_with(expected), "{message}");
}

#[test]
fn importance_is_asked_for_by_name() {
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
fn importance_of_another_model_does_not_fit() {
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
fn what_is_quantized_already_is_left_alone_unless_asked() {
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
    // The same type is no second loss.
    assert!(quantized(&path, &options("Q8_0")).unwrap() == once);
}

/// Patterns keep their case, where the reference lowers it and then finds nothing.
#[test]
fn patterns_tell_upper_and_lower_case() {
    let fixture = Fixture::new("llama");
    let mut options = options("Q8_0");
    options.tensor_types = vec![
        "ATTN_Q=f16".parse::<TensorType>().unwrap(),
        r"\.attn_[kv]\.=q4_1".parse::<TensorType>().unwrap(),
    ];
    let file = quantized(&fixture.path(), &options).unwrap();
    let types = |name: &str| Gguf::parse(&file).unwrap().tensor(name).unwrap().ggml_type();
    assert_eq!(
        ["blk.0.attn_q.weight", "blk.0.attn_k.weight"].map(types),
        [GgmlType::Q8_0, GgmlType::Q4_1]
    );
}

/// An architecture nobody has heard of, with names like those everybody has.
#[test]
fn any_architecture_will_do() {
    let fixture = Fixture::new("llama");
    let mut file = fixture.model.file.clone();
    let at = file.windows(5).position(|window| window == b"llama").unwrap();
    file[at..at + 5].copy_from_slice(b"novel");
    std::fs::write(fixture.path(), &file).unwrap();
    let file = quantized(&fixture.path(), &options("Q4_K_M")).unwrap();
    let model = Gguf::parse(&file).unwrap();
    // Nine layers by their names: the first and the last have more bits.
    let types = [0, 1, 8]
        .map(|layer| model.tensor(&format!("blk.{layer}.attn_v.weight")).unwrap().ggml_type());
    assert_eq!(types, [GgmlType::Q6_K, GgmlType::Q4_K, GgmlType::Q6_K]);
}

/// Names of nobody's convention: rules say what they are, and without rules nothing is known of
/// them but that they do not end in `weight`.
#[test]
fn rules_say_what_names_do_not() {
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
        let model = Gguf::parse(&file).unwrap();
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
    let model = Gguf::parse(&fixture.model.file).unwrap();
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
