//! Weights below the range of a type: reported by name, and refused if nothing is left of a tensor.

use ggmill_testdata::bytes::{FileBytes, Value};

use crate::support::{Directory, Outcome, ggmill, real};

/// A model with one matrix of nearly normal weights of this standard deviation.
fn model(deviation: f32) -> Vec<u8> {
    const COLUMNS: usize = 256;
    const ROWS: usize = 80;
    let mut file = FileBytes::v3(1, 3);
    file.pair("general.architecture", &"llama".into());
    file.pair("llama.block_count", &Value::U32(1));
    file.pair("general.file_type", &Value::U32(0));
    file.tensor("blk.0.ffn_up.weight", &[COLUMNS as u64, ROWS as u64], 0, 0).pad(32);
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        f32::from(u16::try_from(state >> 48).unwrap()) / 65_536.0 - 0.5
    };
    for _ in 0..COLUMNS * ROWS {
        let normal: f32 = (0..12).map(|_| uniform()).sum();
        file.raw(&(normal * deviation).to_le_bytes());
    }
    file.into_bytes()
}

fn quantize(deviation: f32, to: &str) -> Outcome {
    let directory = Directory::new().with("in.gguf", model(deviation));
    let made = ggmill(directory.path(), &["quantize", "in.gguf", "out.gguf", to, "--pure"]);
    assert_eq!(made.code != 0, !directory.files().contains(&"out.gguf".to_owned()));
    made
}

#[test]
fn small_weights_are_reported() {
    for (to, deviation) in [
        ("NVFP4", 1e-3),
        ("Q6_K", 1e-5),
        ("IQ4_XS", 1e-5),
        ("Q8_0", 1e-6),
        ("IQ4_NL", 1e-6),
        ("Q5_K", 1e-6),
        ("Q4_K", 1e-6),
        ("Q4_0", 1e-7),
        ("F16", 2e-8),
    ] {
        let made = quantize(deviation, to);
        let said = &made.stderr;
        assert!(said.contains("blk.0.ffn_up.weight"), "{to}: {said}");
        assert!(said.contains("below the range") && said.contains("BF16"), "{to}: {said}");
        if made.code == 0 {
            assert!(said.contains("warning:") && said.contains("relative error"), "{to}: {said}");
        }
    }
}

#[test]
fn a_tensor_that_would_become_zero_is_refused() {
    for to in ["NVFP4", "Q6_K", "Q8_0", "Q4_0", "Q4_K", "F16"] {
        let made = quantize(1e-12, to);
        assert_eq!(made.code, 2, "{to}: {}", made.stderr);
        assert!(made.stderr.contains("blk.0.ffn_up.weight"), "{to}: {}", made.stderr);
    }
    // Zeros are zeros.
    assert_eq!(quantize(0.0, "Q4_K").code, 0);
}

#[test]
fn ordinary_weights_are_not_reported() {
    for to in [
        "F16", "BF16", "Q8_0", "Q6_K", "Q5_K", "Q5_0", "Q4_K", "Q4_0", "Q3_K", "Q2_K", "IQ4_NL",
        "IQ4_XS", "IQ3_S", "NVFP4", "TQ2_0",
    ] {
        let made = quantize(0.02, to);
        assert_eq!(made.code, 0, "{to}: {}", made.stderr);
        assert!(!made.stderr.contains("relative error"), "{to}: {}", made.stderr);
    }
}

/// FP8 weights without a scale are converted as the library loads them, and reported.
#[test]
fn fp8_weights_without_scales_are_reported() {
    let directory = Directory::new();
    let checkpoint = directory.path().join("model");
    std::fs::create_dir(&checkpoint).unwrap();
    let source = real("tinystories260K");
    for name in ["config.json", "tokenizer.model", "tokenizer_config.json"] {
        std::fs::copy(source.join(name), checkpoint.join(name)).unwrap();
    }
    let bytes = std::fs::read(source.join("model.safetensors")).unwrap();
    let (len, rest) = bytes.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(usize::try_from(u64::from_le_bytes(*len)).unwrap());
    let mut header: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(header).unwrap();
    let mut new = Vec::new();
    for (name, tensor) in &mut header {
        let Some(range) = tensor.get("data_offsets").cloned() else { continue };
        let place = |index: usize| usize::try_from(range[index].as_u64().unwrap()).unwrap();
        let (start, content) = (new.len(), &data[place(0)..place(1)]);
        if name.ends_with("q_proj.weight") {
            new.extend(content.iter().step_by(4).map(|byte| 0x30 | byte & 0x87));
            tensor["dtype"] = "F8_E4M3".into();
        } else {
            new.extend_from_slice(content);
        }
        tensor["data_offsets"] = serde_json::json!([start, new.len()]);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let file = [&(header.len() as u64).to_le_bytes()[..], &header, &new].concat();
    std::fs::write(checkpoint.join("model.safetensors"), file).unwrap();
    let made = ggmill(directory.path(), &["convert", "model", "-o", "out.gguf"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(made.stderr.contains("q_proj.weight\" and 4 other FP8 tensors"), "{}", made.stderr);
    assert!(made.stderr.contains("as they are stored"), "{}", made.stderr);
}
