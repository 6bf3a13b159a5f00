//! Trials: requantizing a tensor in memory has the same effect as quantizing it in the file.

use ggmill_core::{GgmlType, Model};
use ggmill_run::{
    Chunks, Error, ErrorKind, Options, Program, Runner, Trial, TrialOutcome, measure, trials,
};

use crate::models::{CASES, Case};

const CONTEXT: usize = 16;

fn chunks(count: u32) -> Chunks {
    let count = count * u32::try_from(CONTEXT).unwrap();
    let tokens: Vec<u32> = (0..count).map(|place| (place * place * 7 + place / 3) % 259).collect();
    Chunks::of(&tokens, CONTEXT, Some(1)).unwrap()
}

fn case(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).unwrap()
}

fn runner(options: Options) -> Runner {
    Runner::new(options).unwrap()
}

/// Returns distinct importance weights: a row per matrix of a tensor.
fn importance(model: &Model, tensor: &str) -> Vec<f32> {
    let dimensions = model.tensor(tensor).unwrap().shape().dimensions().to_vec();
    let count = dimensions[0] * dimensions.iter().skip(2).product::<u64>();
    (0..count).map(|place| f32::from(u16::try_from(place * 37 % 101).unwrap()) / 7.0).collect()
}

/// Returns the bytes of a model with one tensor quantized and decoded again.
fn quantized(file: &[u8], name: &str, ggml_type: GgmlType, importance: Option<&[f32]>) -> Vec<u8> {
    let model = Model::open(file.to_vec()).unwrap();
    let tensor = model.tensor(name).unwrap();
    let mut values = ggmill_quant::read_f32(&model, &tensor).unwrap();
    let dimensions = tensor.shape().dimensions();
    let [width, height] = [0, 1].map(|place| usize::try_from(dimensions[place]).unwrap());
    let mut blocks = vec![0; width * height * 4];
    for (matrix, values) in values.chunks_exact_mut(width * height).enumerate() {
        let importance = importance.map(|all| &all[matrix * width..][..width]);
        let size = ggml_type.layout().unwrap().bytes_for((width * height) as u64).unwrap();
        let blocks = &mut blocks[..usize::try_from(size).unwrap()];
        ggmill_quant::quantize(ggml_type, values, width, importance, blocks).unwrap();
        ggmill_quant::dequantize(ggml_type, blocks, values).unwrap();
    }
    let start = usize::try_from(tensor.offset()).unwrap();
    let mut file = file.to_vec();
    for (bytes, value) in file[start..].chunks_exact_mut(4).zip(&values) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
    file
}

/// Returns the matrices of a graph whose row length is a multiple of the block size.
fn matrices(program: &Program<'_>) -> Vec<String> {
    let weights = program.graph().weights().iter();
    let fitting = weights
        .filter(|weight| weight.dimensions.len() > 1 && weight.dimensions[0].is_multiple_of(32));
    fitting.map(|weight| weight.name.clone()).collect()
}

#[test]
fn a_trial_equals_a_quantized_file() {
    // Dense, mixture of experts, tied embeddings with position embeddings, window and softcap, shared
    // expert, encoder and decoder.
    for name in ["llama", "llama-experts", "gpt2", "gemma2", "qwen2moe", "t5"] {
        let case = case(name);
        let (bytes, model) = (case.bytes(), case.model());
        let program = Program::of(&model, case.described()).unwrap();
        let (runner, chunks) = (runner(Options::default()), chunks(2));
        let mut asked = Vec::new();
        for (number, tensor) in matrices(&program).into_iter().enumerate() {
            let ggml_type = [GgmlType::Q4_0, GgmlType::Q8_0][number % 2];
            let weights = (number % 3 == 0).then(|| importance(&model, &tensor));
            asked.push(Trial::new(tensor, ggml_type).with_importance(weights));
        }
        assert!(asked.len() > 8, "{name}");
        let found = trials(&runner, &program, &chunks, &asked, |_, _| Ok::<_, Error>(())).unwrap();
        for (number, (trial, found)) in asked.iter().zip(&found).enumerate() {
            let weights = (number % 3 == 0).then(|| importance(&model, &trial.tensor));
            let other = quantized(&bytes, &trial.tensor, trial.ggml_type, weights.as_deref());
            let other = Model::open(other).unwrap();
            let other = Program::of(&other, case.described()).unwrap();
            let measured =
                measure(&runner, &other, Some(&program), &chunks, false, |_| Ok::<_, Error>(()));
            let expected = measured.unwrap().comparison.unwrap().divergence.mean;
            assert_eq!(*found, TrialOutcome::Divergence(expected), "{name}, {}", trial.tensor);
            assert!(expected.value > 0.0, "{name}, {}: {expected:?}", trial.tensor);
        }
    }
}

#[test]
fn results_do_not_depend_on_memory_or_order() {
    let case = case("llama");
    let model = case.model();
    let program = Program::of(&model, case.described()).unwrap();
    let chunks = chunks(5);
    let mut asked: Vec<Trial> =
        matrices(&program).into_iter().map(|name| Trial::new(name, GgmlType::Q4_0)).collect();
    let run = |options: Options, asked: &[Trial]| {
        let mut seen = Vec::new();
        let found = trials(&runner(options), &program, &chunks, asked, |done, all| {
            seen.push((done, all));
            Ok::<_, Error>(())
        });
        (found.unwrap(), seen)
    };
    let (whole, seen) = run(Options::default(), &asked);
    let last = Some(&(asked.len(), asked.len()));
    assert_eq!((seen.len(), seen.last()), (asked.len(), last));
    let memory = 2 * program.memory(1, 16, 2);
    let few = Options::default().with_memory(memory).with_threads(Some(2));
    let (parts, seen) = run(few, &asked);
    assert!(seen.len() > asked.len(), "the text was divided");
    asked.reverse();
    let (reversed, _) = run(Options::default().with_threads(Some(1)), &asked);
    for ((found, part), reversed) in whole.iter().zip(&parts).zip(reversed.iter().rev()) {
        assert_eq!(found, part);
        assert_eq!(found, reversed);
    }
}

#[test]
fn an_unused_tensor_has_no_divergence() {
    let case = case("llama");
    let model = case.model();
    let program = Program::of(&model, case.described()).unwrap();
    let run = |asked: &[Trial]| {
        let runner = runner(Options::default());
        trials(&runner, &program, &chunks(2), asked, |_, _| Ok::<_, Error>(()))
    };
    let other = Trial::new("rope_freqs.weight", GgmlType::Q4_0);
    let output = Trial::new("output.weight", GgmlType::Q4_0);
    let found = run(&[other, output]).unwrap();
    assert!(matches!(found[..], [TrialOutcome::Unused, TrialOutcome::Divergence(_)]), "{found:?}");
    // 48 is not a multiple of the block size, and there is an importance weight per column.
    let wrong = Trial::new("blk.0.ffn_down.weight", GgmlType::Q4_0);
    let error = run(&[wrong]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tensor);
    assert!(
        error.to_string().contains("the row length 48 is not a multiple of the block size of Q4_0"),
        "{error}"
    );
    let wrong = Trial::new("output.weight", GgmlType::Q4_0).with_importance(Some(vec![1.0; 31]));
    let error = run(&[wrong]).unwrap_err();
    assert!(error.to_string().contains("31 importance weights, expected 32"), "{error}");
    // This type can be decoded, but not encoded.
    let error = run(&[Trial::new("output.weight", GgmlType::I8)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tensor);
    assert!(error.to_string().contains("\"output.weight\": I8 is an integer type"), "{error}");
}

/// A tensor that exceeds the range of a type ends only its own trial.
#[test]
fn an_output_that_is_not_finite_is_no_divergence() {
    let case = case("llama");
    let mut file = case.bytes();
    let start = Model::open(file.clone()).unwrap().tensor("output.weight").unwrap().offset();
    let start = usize::try_from(start).unwrap();
    // The value overflows F16.
    file[start..start + 4].copy_from_slice(&7e4f32.to_le_bytes());
    let model = Model::open(file).unwrap();
    let program = Program::of(&model, case.described()).unwrap();
    let [first, last] =
        ["blk.0.attn_q.weight", "blk.1.attn_q.weight"].map(|name| Trial::new(name, GgmlType::Q8_0));
    let asked = [first, Trial::new("output.weight", GgmlType::F16), last];
    let runner = runner(Options::default());
    let found = trials(&runner, &program, &chunks(2), &asked, |_, _| Ok::<_, Error>(())).unwrap();
    assert!(
        matches!(
            found[..],
            [TrialOutcome::Divergence(_), TrialOutcome::NotFinite, TrialOutcome::Divergence(_)]
        ),
        "{found:?}"
    );
}
