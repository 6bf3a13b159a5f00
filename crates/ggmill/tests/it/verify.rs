//! `verify`: files against their sources, and files that were changed.

use std::path::{Path, PathBuf};

use ggmill::{Model, Verdict, Verified, verify};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn convert(&self, to: &str) -> PathBuf {
        let path = self.path(&format!("{to}.gguf"));
        ggmill::convert(checkpoint()).unwrap().to(to).unwrap().write(&path).unwrap();
        path
    }

    fn quantize(&self, from: &Path, to: &str) -> PathBuf {
        let path = self.path(&format!("quantized-{to}.gguf"));
        let model = Model::open(from).unwrap();
        ggmill::quantize(&model, to).unwrap().overwrite(true).write(&path).unwrap();
        path
    }

    /// Changes bytes of a file.
    fn changed(&self, path: &Path, change: impl Fn(&mut Vec<u8>)) -> PathBuf {
        let mut bytes = std::fs::read(path).unwrap();
        change(&mut bytes);
        let changed = self.path("changed.gguf");
        std::fs::write(&changed, bytes).unwrap();
        changed
    }
}

fn checkpoint() -> PathBuf {
    ggmill_testdata::real("tinystories260K")
}

fn verified(file: &Path, source: &Path) -> Verified {
    verify(&Model::open(file).unwrap(), source).unwrap().run().unwrap()
}

/// Returns the names of tensors with this verdict.
fn names(verified: &Verified, verdict: Verdict) -> Vec<String> {
    let tensors = verified.tensors().iter().filter(|tensor| tensor.verdict() == verdict);
    tensors.map(|tensor| String::from_utf8(tensor.name.clone()).unwrap()).collect()
}

fn range_of(path: &Path, tensor: &str) -> std::ops::Range<usize> {
    let model = Model::open(path).unwrap();
    let tensor = model.core().tensor(tensor).unwrap();
    let start = usize::try_from(tensor.offset()).unwrap();
    start..start + usize::try_from(tensor.size().unwrap()).unwrap()
}

#[test]
fn files_are_identical_to_their_sources() {
    let place = Place::new();
    for float_type in ["F32", "F16", "BF16"] {
        let converted = place.convert(float_type);
        let found = verified(&converted, &checkpoint());
        assert_eq!(found.verdict(), Verdict::Identical, "{float_type}");
        assert_eq!(found.float_type(), None);
        for quantized in ["Q4_0", "Q5_1", "IQ4_NL", "Q8_0"] {
            let quantized = place.quantize(&converted, quantized);
            let found = verified(&quantized, &checkpoint());
            assert_eq!(found.verdict(), Verdict::Identical, "{float_type}: {:?}", found.tensors());
            assert_eq!(verified(&quantized, &converted).verdict(), Verdict::Identical);
            // The checkpoint has F32, and the quantized file shows what it was rounded to.
            let rounded = found.float_type().map(|float_type| float_type.to_string());
            assert_eq!(rounded, (float_type != "F32").then(|| float_type.to_owned()));
        }
    }
    assert_eq!(verified(&place.convert("Q8_0"), &checkpoint()).verdict(), Verdict::Identical);
}

#[test]
fn shards_and_big_endian_files_are_verified() {
    let place = Place::new();
    let quantized = place.quantize(&place.convert("F16"), "Q4_1");
    let model = Model::open(&quantized).unwrap();
    let big = place.path("big.gguf");
    ggmill::repack(&model).unwrap().endian(ggmill::Endian::Big).write(&big).unwrap();
    assert_eq!(verified(&big, &checkpoint()).verdict(), Verdict::Identical);
    let prefix = place.path("part");
    let limit = ggmill::pipeline::ShardLimit::Tensors(20);
    let split = ggmill::split(&model).unwrap().limit(limit).write(prefix).unwrap();
    assert_eq!(verified(&split.paths()[1], &checkpoint()).verdict(), Verdict::Identical);
}

#[test]
fn a_weight_that_was_changed_by_one_step_is_named() {
    let place = Place::new();
    let quantized = place.quantize(&place.convert("F16"), "Q4_0");
    let range = range_of(&quantized, "blk.2.ffn_up.weight");
    // The lowest bit of a code in the second block, whose first two bytes are the scale.
    let changed = place.changed(&quantized, |bytes| bytes[range.start + 18 + 2] ^= 1);
    let found = verified(&changed, &checkpoint());
    assert_eq!(found.verdict(), Verdict::Consistent);
    assert_eq!(names(&found, Verdict::Consistent), ["blk.2.ffn_up.weight"]);
    let tensor = found.tensors().iter().find(|tensor| tensor.difference().is_some()).unwrap();
    let difference = tensor.difference().unwrap();
    assert_eq!((difference.different, difference.rows), (1, Some((0, 0))));
    assert!(difference.error > difference.expected);
}

#[test]
fn tensors_that_are_not_from_the_source_are_named() {
    let place = Place::new();
    let converted = place.convert("F16");
    let [a, b] = ["blk.0.attn_q.weight", "blk.3.attn_q.weight"];
    for ggml_type in ["Q4_0", "Q8_0", "Q5_1"] {
        let quantized = place.quantize(&converted, ggml_type);
        let (in_a, in_b) = (range_of(&quantized, a), range_of(&quantized, b));
        let swapped = place.changed(&quantized, |bytes| {
            let (left, right) = (bytes[in_a.clone()].to_vec(), bytes[in_b.clone()].to_vec());
            bytes[in_a.clone()].copy_from_slice(&right);
            bytes[in_b.clone()].copy_from_slice(&left);
        });
        let found = verified(&swapped, &checkpoint());
        assert_eq!(names(&found, Verdict::Different), [a, b], "{ggml_type}");
        // One block of zeros.
        let zeroed = place.changed(&quantized, |bytes| bytes[in_a.start..in_a.start + 18].fill(0));
        let found = verified(&zeroed, &checkpoint());
        assert_eq!(names(&found, Verdict::Different), [a], "{ggml_type}");
        assert_eq!(names(&found, Verdict::Consistent), [""; 0], "{ggml_type}");
    }
    // A norm, which has no blocks, by one unit in the last place.
    let norm = range_of(&converted, "output_norm.weight");
    let changed = place.changed(&converted, |bytes| bytes[norm.start] ^= 1);
    let found = verified(&changed, &checkpoint());
    assert_eq!(names(&found, Verdict::Different), ["output_norm.weight"]);
}

#[test]
fn missing_and_added_tensors_are_named() {
    let place = Place::new();
    let converted = place.convert("F16");
    let model = Model::open(&converted).unwrap();
    let path = place.path("renamed.gguf");
    ggmill::graft(&model)
        .unwrap()
        .rename(["blk.1.attn_v.weight=blk.1.attn_w.weight".parse().unwrap()])
        .write(&path)
        .unwrap();
    let found = verified(&path, &checkpoint());
    let different = names(&found, Verdict::Different);
    assert_eq!(different, ["blk.1.attn_w.weight", "blk.1.attn_v.weight"]);
    let missing = found.tensors().last().unwrap();
    assert_eq!(missing.ggml_type, None);
}

#[test]
fn metadata_that_changes_the_model_counts() {
    let place = Place::new();
    let converted = place.convert("F16");
    let edited = |key: &str, value: &str| {
        let path = place.path("edited.gguf");
        std::fs::copy(&converted, &path).unwrap();
        ggmill::edit(&path).unwrap().set(key, value).unwrap().apply().unwrap();
        let found = verified(&path, &checkpoint());
        assert_eq!(found.tensors_verdict(), Verdict::Identical);
        (found.verdict(), found.metadata().unwrap().metadata().unwrap().len())
    };
    assert_eq!(edited("general.name", "Other"), (Verdict::Identical, 1));
    assert_eq!(edited("general.sampling.temp", "5.0"), (Verdict::Different, 1));
    assert_eq!(edited("tokenizer.chat_template", "{{ 1 }}"), (Verdict::Different, 1));
    assert_eq!(edited("llama.attention.layer_norm_rms_epsilon", "0.5"), (Verdict::Different, 1));
}

#[test]
fn a_changed_shape_is_named() {
    let place = Place::new();
    for (converted, name) in [
        (place.convert("F32"), "blk.0.attn_k.weight"),
        (place.quantize(&place.path("F32.gguf"), "Q8_0"), "blk.1.attn_v.weight"),
    ] {
        // The dimensions 64 x 32 follow the name and their number.
        let changed = place.changed(&converted, |bytes| {
            let name = name.as_bytes();
            let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
            let at = at + name.len() + 4;
            assert_eq!(bytes[at..at + 16], [64u64, 32].map(u64::to_le_bytes).concat());
            bytes[at..at + 16].copy_from_slice(&[32u64, 64].map(u64::to_le_bytes).concat());
        });
        let found = verified(&changed, &checkpoint());
        assert_eq!(names(&found, Verdict::Different), [name]);
    }
}

/// A block whose values the type represents exactly has a great multiple of its expected error after any
/// change. It must not hide blocks of zeros.
#[test]
fn a_decoy_does_not_hide_destroyed_blocks() {
    let place = Place::new();
    let converted = place.convert("F32");
    let name = "blk.0.attn_q.weight";
    // The first block of the source has one value; the others are as they were.
    let range = range_of(&converted, name);
    let source = place.path("source.gguf");
    std::fs::copy(
        place.changed(&converted, |bytes| {
            bytes[range.start..range.start + 4].copy_from_slice(&4f32.to_le_bytes());
            bytes[range.start + 4..range.start + 128].fill(0);
        }),
        &source,
    )
    .unwrap();
    let quantized = place.quantize(&source, "Q8_0");
    let range = range_of(&quantized, name);
    let changed = place.changed(&quantized, |bytes| {
        bytes[range.start] ^= 1;
        bytes[range.start + 34 * 9..range.start + 34 * 10].fill(0);
    });
    let found = verified(&changed, &source);
    assert_eq!(names(&found, Verdict::Different), [name]);
}

#[test]
fn values_that_f16_does_not_hold_have_a_verdict() {
    let place = Place::new();
    let converted = place.convert("F32");
    let range = range_of(&converted, "blk.0.attn_q.weight");
    let source = place.path("source.gguf");
    let large = place.changed(&converted, |bytes| {
        bytes[range.start..range.start + 4].copy_from_slice(&1e5f32.to_le_bytes());
    });
    std::fs::copy(large, &source).unwrap();
    let quantized = place.quantize(&source, "Q8_0");
    assert_eq!(verified(&quantized, &source).verdict(), Verdict::Identical);
    let range = range_of(&quantized, "blk.0.attn_q.weight");
    let changed = place.changed(&quantized, |bytes| bytes[range.start + 40] ^= 0x7f);
    assert_ne!(verified(&changed, &source).verdict(), Verdict::Identical);
}

#[test]
fn the_matrix_of_another_model_is_refused() {
    let place = Place::new();
    let quantized = place.quantize(&place.convert("F16"), "Q8_0");
    let matrix = ggmill_testdata::models::models();
    let matrix = matrix.iter().find(|model| model.name == "mamba").unwrap().imatrix();
    let path = place.path("imatrix.gguf");
    std::fs::write(&path, matrix).unwrap();
    let builder = verify(&Model::open(&quantized).unwrap(), checkpoint()).unwrap();
    let error = builder.imatrix(&path).unwrap().run().unwrap_err();
    assert!(error.to_string().contains("no weights for any quantized tensor"), "{error}");
}

#[test]
fn an_importance_matrix_proves_what_it_made() {
    let place = Place::new();
    let converted = place.convert("F32");
    let model = Model::open(&converted).unwrap();
    let text = place.path("text.txt");
    std::fs::write(&text, "Once upon a time, there was a little girl named Lily. ".repeat(40))
        .unwrap();
    let matrix = place.path("imatrix.gguf");
    let text = ggmill::RunText::file(&text).context(32);
    ggmill::imatrix(&model).unwrap().text(text).write(&matrix).unwrap();
    let quantized = place.path("weighted.gguf");
    ggmill::quantize(&model, "IQ4_NL")
        .unwrap()
        .imatrix(&matrix)
        .unwrap()
        .write(&quantized)
        .unwrap();
    let without = verified(&quantized, &converted);
    assert_eq!(without.verdict(), Verdict::Consistent);
    assert!(without.lacks_importance());
    assert!(names(&without, Verdict::Different).is_empty());
    let with = verify(&Model::open(&quantized).unwrap(), &converted).unwrap();
    let with = with.imatrix(&matrix).unwrap().run().unwrap();
    assert_eq!(with.verdict(), Verdict::Identical);
    assert!(!with.lacks_importance());
}

#[test]
fn another_model_is_refused_before_the_work() {
    let place = Place::new();
    let other = ggmill_testdata::real("mobilenetv3_3class_v3_fp16.gguf");
    let model = Model::open(place.convert("F16")).unwrap();
    let error = verify(&model, &other).unwrap().run().unwrap_err();
    assert!(error.to_string().contains("has the architecture"), "{error}");
}

#[test]
fn the_result_does_not_depend_on_threads() {
    let place = Place::new();
    let quantized = place.quantize(&place.convert("F16"), "Q5_0");
    let source = place.convert("BF16");
    let model = Model::open(&quantized).unwrap();
    let of = |threads| verify(&model, &source).unwrap().threads(threads).run().unwrap();
    let (one, five) = (of(1), of(5));
    assert_eq!(one.tensors(), five.tensors());
    assert_eq!(one.document().unwrap(), five.document().unwrap());
}
