//! Sums of squared activations, compared with sums that `python3 conformance/run.py activations --record`
//! recorded from libllama, and their invariants.

use std::collections::BTreeMap;

use ggmill_core::Model;
use ggmill_run::{Activations, Error, ErrorKind, Matrices, Options, Program, Runner, activations};

use crate::models::{CASES, Case, Change, MEASURED, TOKENS};

fn case(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).unwrap()
}

fn summed(options: Options, program: &Program<'_>, chunks: &[Vec<u32>]) -> Activations {
    let runner = Runner::new(options).unwrap();
    let matrices = Matrices::BlocksAndOutput;
    activations(&runner, program, chunks, matrices, |_, _| Ok::<_, Error>(())).unwrap()
}

/// Returns the recorded sums by tensor name.
fn recorded(name: &str) -> BTreeMap<String, Vec<f32>> {
    let path = format!("{}/tests/fixtures/{name}.imatrix.gguf", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let model = Model::open(file).unwrap();
    let values = |tensor| ggmill_quant::read_f32(&model, &tensor).unwrap();
    model.tensors().into_iter().map(|tensor| (tensor.name().to_string(), values(tensor))).collect()
}

#[test]
fn sums_are_those_of_libllama() {
    for name in MEASURED {
        let case = case(name);
        let model = case.model();
        let program = Program::of(&model, case.described()).unwrap();
        let found = summed(Options::default(), &program, &[TOKENS.to_vec()]);
        let mut expected = recorded(name);
        let mut differences = Vec::new();
        for tensor in found.tensors() {
            let sums = expected.remove(&format!("{}.in_sum2", tensor.name));
            let counts = expected.remove(&format!("{}.counts", tensor.name));
            let (sums, counts) = sums.zip(counts).unwrap_or_else(|| panic!("{}", tensor.name));
            let ours: Vec<f32> = tensor
                .counts
                .iter()
                .map(|&count| f32::from(u16::try_from(count).unwrap()))
                .collect();
            assert_eq!(ours, counts, "{name}, {}", tensor.name);
            assert_eq!(tensor.sums.len(), sums.len(), "{name}, {}", tensor.name);
            for (ours, theirs) in tensor.sums.iter().zip(sums) {
                let theirs = f64::from(theirs);
                assert_eq!(*ours == 0.0, theirs == 0.0, "{name}, {}", tensor.name);
                differences.push((ours - theirs).abs() / theirs.max(f64::MIN_POSITIVE));
            }
        }
        assert!(expected.is_empty(), "{name}: {:?}", expected.keys());
        differences.sort_by(f64::total_cmp);
        let (median, most) = (differences[differences.len() / 2], differences.last().unwrap());
        assert!(median <= 1e-4 && *most <= 1e-2, "{name}: median {median:.1e}, most {most:.1e}");
    }
}

fn texts() -> Vec<Vec<u32>> {
    (0..5u32).map(|text| (0..24).map(|place| (place * 31 + text * 7) % 259).collect()).collect()
}

#[test]
fn sums_do_not_depend_on_threads_or_memory() {
    let case = case("qwen2moe");
    let model = case.model();
    let program = Program::of(&model, case.described()).unwrap();
    let whole = summed(Options::default().with_threads(Some(1)), &program, &texts());
    let memory = program.memory(1, 24, 2) + 1;
    let few = Options::default().with_threads(Some(2)).with_memory(memory);
    assert_eq!(Runner::new(few).unwrap().texts_at_once(&program, 24).unwrap(), 1);
    assert!(whole == summed(few, &program, &texts()));
    assert!(whole == summed(Options::default().with_threads(Some(3)), &program, &texts()));
}

#[test]
fn sums_are_additive_over_chunks() {
    let case = case("llama-experts");
    let model = case.model();
    let program = Program::of(&model, case.described()).unwrap();
    let sums = |chunks: &[Vec<u32>]| summed(Options::default(), &program, chunks);
    let all = texts();
    let (whole, parts) = (sums(&all), [sums(&all[..2]), sums(&all[2..])]);
    for tensor in whole.tensors() {
        let of_part = |part: &Activations| {
            part.tensors().find(|other| other.name == tensor.name).unwrap().clone()
        };
        let [a, b] = [of_part(&parts[0]), of_part(&parts[1])];
        let counts: Vec<u64> = a.counts.iter().zip(&b.counts).map(|(a, b)| a + b).collect();
        assert_eq!(counts, tensor.counts);
        for ((a, b), sum) in a.sums.iter().zip(&b.sums).zip(&tensor.sums) {
            assert!((a + b - sum).abs() <= 1e-12 * sum, "{}: {a} + {b}, not {sum}", tensor.name);
        }
    }
}

#[test]
fn matrices_outside_blocks_are_optional() {
    let names = |case: &Case, matrices| {
        let model = case.model();
        let program = Program::of(&model, case.described()).unwrap();
        let runner = Runner::new(Options::default()).unwrap();
        let mut seen = Vec::new();
        let found = activations(&runner, &program, &texts(), matrices, |sums, done| {
            seen.push((sums.tensors().len(), done));
            Ok::<_, Error>(())
        });
        let found = found.unwrap();
        assert_eq!(seen, [(found.tensors().len(), 5)]);
        found.tensors().map(|tensor| tensor.name.clone()).collect::<Vec<_>>()
    };
    let llama = case("llama");
    let blocks = names(llama, Matrices::Blocks);
    assert!(blocks.iter().all(|name| name.starts_with("blk.")), "{blocks:?}");
    assert_eq!(blocks.len(), 14, "seven matrices for each of two blocks");
    let more = |case, matrices| {
        let is_outside = |name: &String| !name.starts_with("blk.");
        names(case, matrices).into_iter().filter(is_outside).collect::<Vec<_>>()
    };
    for matrices in [Matrices::BlocksAndOutput, Matrices::All] {
        assert_eq!(more(llama, matrices), ["output.weight"]);
    }
    // The embeddings are tied to the output matrix, which llama-imatrix never measures.
    let tied = case("gemma");
    assert_eq!(more(tied, Matrices::BlocksAndOutput), Vec::<String>::new());
    assert_eq!(more(tied, Matrices::All), ["token_embd.weight"]);
}

#[test]
fn short_chunks_and_callback_errors_are_returned() {
    let model = case("llama").model();
    let program = Program::of(&model, case("llama").described()).unwrap();
    let runner = Runner::new(Options::default()).unwrap();
    let blocks = Matrices::Blocks;
    let short = activations(&runner, &program, &[vec![1; 15]], blocks, |_, _| Ok::<_, Error>(()));
    assert_eq!(short.unwrap_err().kind(), ErrorKind::TooShort);
    let none = activations(&runner, &program, &[], blocks, |_, _| Ok::<_, Error>(()));
    assert_eq!(none.unwrap_err().kind(), ErrorKind::TooShort);
    let nan = Some(("blk.0.ffn_gate.weight", 7));
    let broken = Model::open(case("llama").changed(&Change { nan, ..Change::default() })).unwrap();
    let program = Program::of(&broken, case("llama").described()).unwrap();
    let found = activations(&runner, &program, &texts(), blocks, |_, _| Ok::<_, Error>(()));
    assert_eq!(found.unwrap_err().kind(), ErrorKind::NotFinite);
}

#[test]
fn a_file_that_changed_is_an_error() {
    let model = case("llama").changing();
    let program = Program::of(&model, case("llama").described()).unwrap();
    let runner = Runner::new(Options::default()).unwrap();
    let mut calls = 0;
    let error = activations(&runner, &program, &texts(), Matrices::Blocks, |_, _| {
        calls += 1;
        Ok::<_, Error>(())
    });
    let error = error.unwrap_err();
    assert_eq!(calls, 0);
    assert_eq!(error.kind(), ErrorKind::Read);
    assert!(error.to_string().contains("the file changed"), "{error}");
}
