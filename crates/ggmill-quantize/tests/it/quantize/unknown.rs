//! Models whose architecture the reference does not know: there is nothing to be equal to, and more
//! to be right about.

use ggmill_core::{GgmlType, Gguf};
use ggmill_pipeline::GgufCheckpoint;
use ggmill_quantize::{QuantizeOptions, RoleRule, TensorType, quantize};
use ggmill_testdata::bytes::FileBytes;

use super::{options, quantized};

/// Tensors of F32 in this order, whose numbers are those of a slow wave.
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

/// Name, dimensions and type of every tensor of what comes out.
fn tensors(file: &[u8], options: &QuantizeOptions) -> Vec<(String, Vec<u64>, GgmlType)> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    std::fs::write(&path, file).unwrap();
    let file = quantized(&path, options).unwrap();
    let model = Gguf::parse(&file[..]).unwrap();
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

/// Order and shapes stay, whatever the target; for an architecture of the reference they become
/// what it makes of them.
#[test]
fn tensors_keep_their_places_and_shapes() {
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

/// A matrix is one of weights unless its name says otherwise; for architectures of the reference
/// only if it ends in `weight`.
#[test]
fn matrices_are_weights_whatever_their_names_end_in() {
    use GgmlType as G;
    let expected = |w: G, w512: G| {
        vec![w, w, w512, G::F32, G::F32, G::F32, G::F32, G::F32, G::F16, G::F32, G::F32]
    };
    assert_eq!(types(&options("Q4_K_M")), expected(G::Q4_K, G::Q4_K));
    let mut pure = options("Q6_K");
    pure.pure = true;
    assert_eq!(types(&pure), expected(G::Q6_K, G::Q6_K));

    // What was asked for by name is stronger than what names look like, and a role is stronger than
    // that.
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

/// Where neither metadata nor names say how many layers there are, tensors of a role are counted.
#[test]
fn places_are_counted_where_nothing_says_the_depth() {
    let names: Vec<String> = (0..8).map(|layer| format!("layers.{layer}.w2")).collect();
    let layers: Vec<(&str, &[u64])> =
        names.iter().map(|name| (&**name, &[256, 1, 2][..])).collect();
    let mut mixture = options("Q4_K_M");
    mixture.roles = RoleRule::parse_list("w2=ffn.down").unwrap();
    let found = tensors(&model("mynet", &layers), &mixture);
    // The first eighth, the last, and every third between.
    let more: Vec<usize> = (0..8).filter(|&layer| found[layer].2 == GgmlType::Q6_K).collect();
    assert_eq!(more, [0, 3, 6, 7], "{found:?}");
    assert_eq!(found[1].2, GgmlType::Q4_K);
}

#[test]
fn little_that_was_quantized_is_told_of() {
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
