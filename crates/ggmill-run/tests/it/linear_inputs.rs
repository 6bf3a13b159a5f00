//! The inputs of matrices in a model and in a copy whose matrices are replaced.

use std::collections::BTreeMap;

use ggmill_core::{GgmlType, Model};
use ggmill_run::{Chunks, Error, ErrorKind, Options, Program, Replacement, Runner, linear_inputs};

use crate::models::{CASES, Case};

/// The inputs of each tensor, in the model and in the copy, and the number of matrices.
type Seen = BTreeMap<String, (Vec<f32>, Vec<f32>, usize)>;

fn case(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).unwrap()
}

fn chunks() -> Chunks {
    let tokens: Vec<u32> = (0..48).map(|place| (place * place * 7 + place / 3) % 259).collect();
    Chunks::of(&tokens, 16, Some(1)).unwrap()
}

/// Returns the blocks of a tensor in another type.
fn encoded(model: &Model, name: &str, ggml_type: GgmlType) -> Vec<u8> {
    let tensor = model.tensor(name).unwrap();
    let values = ggmill_quant::read_f32(model, &tensor).unwrap();
    let size = ggml_type.layout().unwrap().bytes_for(values.len() as u64).unwrap();
    let mut blocks = vec![0; usize::try_from(size).unwrap()];
    let columns = usize::try_from(tensor.shape().row_len()).unwrap();
    ggmill_quant::quantize(ggml_type, &values, columns, None, &mut blocks).unwrap();
    blocks
}

/// Returns the file of a model with one tensor encoded and decoded.
fn with_encoded(file: &[u8], name: &str, ggml_type: GgmlType) -> Vec<u8> {
    let model = Model::open(file.to_vec()).unwrap();
    let blocks = encoded(&model, name, ggml_type);
    let tensor = model.tensor(name).unwrap();
    let mut values = vec![0.0; usize::try_from(tensor.shape().elements()).unwrap()];
    ggmill_quant::dequantize(ggml_type, &blocks, &mut values).unwrap();
    let start = usize::try_from(tensor.offset()).unwrap();
    let mut file = file.to_vec();
    for (bytes, value) in file[start..].chunks_exact_mut(4).zip(&values) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
    file
}

/// Returns the inputs of all matrices, with one tensor of the copy replaced.
fn seen(file: &[u8], case: &Case, replaced: Option<(&str, GgmlType)>) -> Seen {
    let model = Model::open(file.to_vec()).unwrap();
    let program = Program::of(&model, case.described()).unwrap();
    let runner = Runner::new(Options::default().with_threads(Some(2))).unwrap();
    let mut seen = Seen::new();
    linear_inputs(&runner, &program, chunks().texts(), 0, |inputs| {
        let found = (inputs.original().to_vec(), inputs.replaced().to_vec(), inputs.matrices());
        // The inputs of all experts are those of all their tokens.
        if inputs.matrices() == 1 {
            assert_eq!(inputs.of_matrix(0, 0..3), found.1);
        } else {
            let rows = |texts: core::ops::Range<usize>| -> usize {
                (0..inputs.matrices())
                    .map(|expert| inputs.of_matrix(expert, texts.clone()).len())
                    .sum()
            };
            assert_eq!(rows(0..1) + rows(1..3), rows(0..3));
            assert!(rows(0..3) >= found.1.len());
        }
        seen.insert(inputs.name().to_owned(), found);
        let replaced = replaced.filter(|(name, _)| *name == inputs.name());
        Ok::<_, Error>(replaced.map(|(name, ggml_type)| {
            Replacement::new(ggml_type, encoded(&model, name, ggml_type).into())
        }))
    })
    .unwrap();
    seen
}

#[test]
fn later_inputs_are_those_of_a_file_with_the_replacement() {
    // Dense, experts, heads with separate matrices, an encoder and a decoder.
    for (name, tensor) in [
        ("llama", "blk.0.attn_v.weight"),
        ("llama-experts", "blk.0.ffn_gate_exps.weight"),
        ("qwen2moe", "blk.0.attn_output.weight"),
        ("t5", "enc.blk.0.attn_q.weight"),
    ] {
        let case = case(name);
        let bytes = case.bytes();
        let plain = seen(&bytes, case, None);
        let found = seen(&bytes, case, Some((tensor, GgmlType::Q4_0)));
        let other = seen(&with_encoded(&bytes, tensor, GgmlType::Q4_0), case, None);
        assert!(plain.len() > 8 && plain.contains_key(tensor), "{name}: {:?}", plain.keys());
        let mut changed = 0;
        for (key, (original, replaced, matrices)) in &found {
            assert_eq!(
                plain[key],
                (original.clone(), original.clone(), *matrices),
                "{name}: {key}"
            );
            assert_eq!(other[key].0, *replaced, "{name}: {key}");
            changed += usize::from(original != replaced);
        }
        assert!(changed > 4, "{name}: {changed}");
    }
}

#[test]
fn results_are_added_to_residual_streams() {
    let case = case("llama");
    let model = case.model();
    let program = Program::of(&model, case.described()).unwrap();
    let runner = Runner::new(Options::default()).unwrap();
    let mut with_residual = Vec::new();
    let mut visited = Vec::new();
    linear_inputs(&runner, &program, chunks().texts(), 0, |inputs| {
        if let Some([original, replaced]) = inputs.residuals() {
            assert_eq!(original, replaced);
            assert_eq!(original.len(), 48 * 32);
            with_residual.push(inputs.name().to_owned());
        }
        visited.push(inputs.name().to_owned());
        Ok::<_, Error>(None)
    })
    .unwrap();
    assert!(with_residual.contains(&"blk.0.attn_output.weight".to_owned()));
    assert!(with_residual.contains(&"blk.1.ffn_down.weight".to_owned()));
    assert!(with_residual.iter().all(|name| name.contains("output") || name.contains("down")));
    assert_eq!(visited.last().unwrap(), "output.weight");
}

#[test]
fn memory_and_the_size_of_replacements_are_checked() {
    let case = case("llama");
    let model = case.model();
    let program = Program::of(&model, case.described()).unwrap();
    let run = |memory: u64, reserved: u64, blocks: usize| {
        let options = Options::default().with_memory(memory);
        let runner = Runner::new(options).unwrap();
        linear_inputs(&runner, &program, chunks().texts(), reserved, |_| {
            let blocks = vec![0; blocks].into();
            Ok::<_, Error>((blocks != [].into()).then(|| Replacement::new(GgmlType::Q4_0, blocks)))
        })
    };
    let needed = 1 << 30;
    run(needed, 0, 0).unwrap();
    assert_eq!(run(needed, needed, 0).unwrap_err().kind(), ErrorKind::Memory);
    let error = run(needed, 0, 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tensor);
    assert!(error.to_string().contains("5 bytes are not its size in Q4_0"), "{error}");
}
