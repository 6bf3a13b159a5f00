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
    for to in ["Q6_K", "Q8_0", "Q4_0", "Q4_K", "F16"] {
        let made = quantize(1e-12, to);
        assert_eq!(made.code, 2, "{to}: {}", made.stderr);
        assert!(made.stderr.contains("blk.0.ffn_up.weight"), "{to}: {}", made.stderr);
    }
    // Zeros are zeros.
    assert_eq!(quantize(0.0, "Q4_K").code, 0);
}

#[test]
fn doubles_below_the_range_of_floats_are_refused() {
    let write = |value: f64| {
        let mut file = FileBytes::v3(1, 2);
        file.pair("general.architecture", &"llama".into());
        file.pair("llama.block_count", &Value::U32(1));
        file.tensor("blk.0.ffn_up.weight", &[256, 4], 28, 0).pad(32);
        for _ in 0..1024 {
            file.raw(&value.to_le_bytes());
        }
        Directory::new().with("in.gguf", file.into_bytes())
    };
    for to in ["F32", "F16", "BF16"] {
        let made = ggmill(write(1e-60).path(), &["quantize", "in.gguf", "out.gguf", to]);
        assert_eq!(made.code, 2, "{to}: {}", made.stderr);
        assert!(made.stderr.contains("every value becomes zero"), "{to}: {}", made.stderr);
        let made = ggmill(write(0.5).path(), &["quantize", "in.gguf", "out.gguf", to]);
        assert_eq!(made.code, 0, "{to}: {}", made.stderr);
    }
}

#[test]
fn a_tensor_that_becomes_zero_is_written_on_request() {
    for to in ["Q6_K", "F16"] {
        let directory = Directory::new().with("in.gguf", model(1e-12));
        let args = ["quantize", "in.gguf", "out.gguf", to, "--pure"];
        let refused = ggmill(directory.path(), &args);
        assert_eq!(refused.code, 2, "{to}: {}", refused.stderr);
        assert!(refused.stderr.contains("--allow-zeros"), "{to}: {}", refused.stderr);
        let args = [&args[..], &["--allow-zeros", "--json"]].concat();
        let made = ggmill(directory.path(), &args);
        assert_eq!(made.code, 0, "{to}: {}", made.stderr);
        let said = "tensor \"blk.0.ffn_up.weight\": every value becomes zero in ";
        assert!(made.stderr.contains(&format!("warning: {said}{to}")), "{to}: {}", made.stderr);
        let plan: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
        let notes = plan["notes"].as_array().unwrap();
        assert!(notes.iter().any(|note| note.as_str().unwrap().starts_with(said)), "{plan}");
    }
}

/// In one pass with a conversion, and where a merge or a graft encodes.
#[test]
fn other_operations_refuse_zeros_too() {
    let directory = Directory::new();
    let source =
        checkpoint(
            &directory,
            |name, value| {
                if name.ends_with("q_proj.weight") { value * 1e-12 } else { value }
            },
        );
    for to in ["F16", "Q8_0", "Q4_K_M", "IQ4_NL"] {
        let args = ["convert", &source, "-o", "out.gguf", "--type", to, "--no-verify"];
        let made = ggmill(directory.path(), &args);
        assert_eq!(made.code, 2, "{to}: {}", made.stderr);
        assert!(made.stderr.contains("attn_q.weight"), "{to}: {}", made.stderr);
        assert!(made.stderr.contains("--allow-zeros"), "{to}: {}", made.stderr);
        let made = ggmill(directory.path(), &[&args[..], &["--allow-zeros"]].concat());
        assert_eq!(made.code, 0, "{to}: {}", made.stderr);
        assert!(made.stderr.contains("every value becomes zero"), "{to}: {}", made.stderr);
        std::fs::remove_file(directory.path().join("out.gguf")).unwrap();
    }
    let directory = Directory::new().with("donor.gguf", model(1e-12));
    let directory = directory.with("half.gguf", {
        let base = Directory::new().with("in.gguf", model(0.02));
        let made = ggmill(base.path(), &["quantize", "in.gguf", "half.gguf", "F16"]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        std::fs::read(base.path().join("half.gguf")).unwrap()
    });
    let args = ["graft", "half.gguf", "--from", "donor.gguf", "-o", "out.gguf", "--keep-types"];
    let made = ggmill(directory.path(), &args);
    assert_eq!(made.code, 2, "{}", made.stderr);
    assert!(made.stderr.contains("--allow-zeros"), "{}", made.stderr);
    let made = ggmill(directory.path(), &[&args[..], &["--allow-zeros"]].concat());
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(made.stderr.contains("every value becomes zero in F16"), "{}", made.stderr);
}

/// Copied floats that are not finite are named with their number.
#[test]
fn copied_values_that_are_not_finite_are_reported() {
    let directory = Directory::new();
    let source = checkpoint(&directory, |name, value| {
        let is_norm = name == "model.norm.weight";
        if is_norm && value > 1.0 {
            f32::NAN
        } else if name.ends_with("layers.1.mlp.up_proj.weight") && value == 0.0 {
            f32::INFINITY
        } else {
            value
        }
    });
    let made = ggmill(directory.path(), &["convert", &source, "-o", "out.gguf", "--type", "F32"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let warning = made.stderr.lines().find(|line| line.contains("output_norm.weight")).unwrap();
    assert!(warning.starts_with("warning:"), "{warning}");
    assert!(warning.contains(" of 64 values are NaN or infinite, the first in row 0, column "));
    assert!(!made.stderr.contains("no findings"), "{}", made.stderr);
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

/// Returns the names and numbers of the tensors of a file.
fn floats(directory: &Directory, file: &str) -> Vec<(String, Vec<f32>)> {
    let model = ggmill::Model::open(directory.path().join(file)).unwrap();
    let checkpoint = model.checkpoint().unwrap();
    let read = |(number, tensor): (usize, &ggmill_pipeline::SourceTensor)| {
        let values = ggmill_pipeline::Expression::tensor(&checkpoint, number).unwrap();
        let bytes = values.to_f32().unwrap().evaluate(&checkpoint, 0..tensor.shape.elements());
        let bytes = bytes.unwrap();
        let values = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        (tensor.name().to_string(), values)
    };
    ggmill_pipeline::Checkpoint::tensors(&checkpoint).iter().enumerate().map(read).collect()
}

/// NVFP4 blocks hold weights of any magnitude with a scale of the matrix, where llama.cpp reads one.
#[test]
fn nvfp4_tensors_get_a_scale() {
    for deviation in [1e-30, 1e-12, 1e-3, 3e3, 1e20] {
        let directory = Directory::new().with("in.gguf", model(deviation));
        let made =
            ggmill(directory.path(), &["quantize", "in.gguf", "out.gguf", "NVFP4", "--pure"]);
        assert_eq!(made.code, 0, "{deviation}: {}", made.stderr);
        assert!(!made.stderr.contains("relative error"), "{deviation}: {}", made.stderr);
        assert!(made.stderr.contains("blk.0.ffn_up.scale"), "{deviation}: {}", made.stderr);
        let [before] = &floats(&directory, "in.gguf")[..] else { panic!() };
        let [weight, scale] = &floats(&directory, "out.gguf")[..] else { panic!() };
        assert_eq!(scale.0, "blk.0.ffn_up.scale");
        let &[scale] = &scale.1[..] else { panic!("{scale:?}") };
        assert!(scale.to_bits().trailing_zeros() >= 23, "{scale} is not a power of two");
        let (mut error, mut energy) = (0.0, 0.0);
        for (before, after) in before.1.iter().zip(&weight.1) {
            // In units that do not overflow.
            let before = f64::from(*before) / f64::from(deviation);
            let after = f64::from(*after) * f64::from(scale) / f64::from(deviation);
            error += (before - after).powi(2);
            energy += before * before;
        }
        let relative = (error / energy).sqrt();
        assert!(relative < 0.12, "{deviation}: {relative}");
    }
}

/// The scale would multiply the change of an adapter too.
#[test]
fn a_merge_into_a_scaled_tensor_is_refused() {
    let mut adapter = FileBytes::v3(2, 4);
    adapter
        .pair("general.architecture", &"llama".into())
        .pair("general.type", &"adapter".into())
        .pair("adapter.type", &"lora".into())
        .pair("adapter.lora.alpha", &Value::F32(2.0))
        .tensor("blk.0.ffn_up.weight.lora_a", &[256, 2], 0, 0)
        .tensor("blk.0.ffn_up.weight.lora_b", &[2, 80], 0, 2048)
        .pad(32);
    for _ in 0..(512 + 160) {
        adapter.raw(&1e-3f32.to_le_bytes());
    }
    let directory =
        Directory::new().with("in.gguf", model(1e-3)).with("lora.gguf", adapter.into_bytes());
    let made = ggmill(directory.path(), &["quantize", "in.gguf", "nvfp4.gguf", "NVFP4", "--pure"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let merge = |base| {
        ggmill(directory.path(), &["lora", "merge", base, "lora.gguf", "-o", "out.gguf", "--force"])
    };
    let made = merge("nvfp4.gguf");
    assert_eq!(made.code, 2, "{}", made.stderr);
    assert!(made.stderr.contains("blk.0.ffn_up.scale"), "{}", made.stderr);
    assert_eq!(merge("in.gguf").code, 0);
}

/// Weights that blocks hold are those of the reference, and scales are written only where a loader applies
/// them.
#[test]
fn other_nvfp4_tensors_get_no_scale() {
    let directory = Directory::new().with("in.gguf", model(0.02));
    let made = ggmill(directory.path(), &["quantize", "in.gguf", "out.gguf", "NVFP4", "--pure"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert_eq!(floats(&directory, "out.gguf").len(), 1);
    // Qwen 2 reads scales of feed-forward layers and ignores them.
    let mut small = model(2.5e-3);
    while let Some(at) = small.windows(5).position(|part| part == b"llama") {
        small[at..at + 5].copy_from_slice(b"qwen2");
    }
    let directory = Directory::new().with("in.gguf", small);
    let made = ggmill(directory.path(), &["quantize", "in.gguf", "out.gguf", "NVFP4", "--pure"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(made.stderr.contains("relative error"), "{}", made.stderr);
    assert_eq!(floats(&directory, "out.gguf").len(), 1);
}

/// A model with scales computes what it computes without.
#[test]
fn scaled_tensors_are_checked_estimated_and_computed() {
    let story = "Once upon a time, there was a little girl named Lily. She loved to play outside \
                 in the park. One day, she saw a big, red ball. She wanted to play with it, but \
                 it was too high. Lily's mom said, \"Lily, let's go to the park.\" Lily was sad.\n";
    let directory = Directory::new().with("story.txt", story);
    // The product of both matrices stays.
    let source = checkpoint(&directory, |name, value| {
        if name.ends_with("v_proj.weight") {
            value * 2f32.powi(-20)
        } else if name.ends_with("o_proj.weight") {
            value * 2f32.powi(20)
        } else {
            value
        }
    });
    let plain = real("tinystories260K");
    let run = |args: &[&str]| {
        let made = ggmill(directory.path(), args);
        assert_eq!(made.code, 0, "{args:?}: {}", made.stderr);
        made
    };
    let plain = plain.to_str().unwrap();
    run(&["convert", plain, "-o", "base.gguf", "--type", "F32"]);
    run(&["convert", plain, "-o", "plain.gguf", "--type", "NVFP4", "--pure"]);
    let made = run(&["convert", &source, "-o", "scaled.gguf", "--type", "NVFP4", "--pure"]);
    assert!(made.stderr.contains("blk.0.attn_v.scale"), "{}", made.stderr);
    run(&["convert", &source, "-o", "f32.gguf", "--type", "F32"]);
    run(&["quantize", "f32.gguf", "again.gguf", "NVFP4", "--pure"]);
    assert_eq!(floats(&directory, "scaled.gguf"), floats(&directory, "again.gguf"));
    let divergence = |file: &str| {
        let args =
            ["measure", file, "--against", "base.gguf", "--text", "story.txt", "--ctx", "32"];
        let found: serde_json::Value =
            serde_json::from_str(&run(&[&args[..], &["--json"]].concat()).stdout).unwrap();
        found.pointer("/models/0/comparison/kl_divergence/mean/value").unwrap().as_f64().unwrap()
    };
    let (plain, scaled) = (divergence("plain.gguf"), divergence("scaled.gguf"));
    assert!(scaled < 1.5 * plain + 0.01, "{scaled}, {plain}");
    let checked = ggmill(directory.path(), &["check", "scaled.gguf"]);
    assert!(!checked.stdout.contains("error"), "{}", checked.stdout);
    run(&["estimate", "scaled.gguf"]);
    // Shards have the scales too.
    run(&["quantize", "f32.gguf", "split", "NVFP4", "--pure", "--split-max-tensors", "20"]);
}

/// Writes the real checkpoint with changed weights, and returns its name.
fn checkpoint(directory: &Directory, change: impl Fn(&str, f32) -> f32) -> String {
    let target = directory.path().join("model");
    std::fs::create_dir(&target).unwrap();
    let source = real("tinystories260K");
    for name in ["config.json", "tokenizer.model", "tokenizer_config.json"] {
        std::fs::copy(source.join(name), target.join(name)).unwrap();
    }
    let mut bytes = std::fs::read(source.join("model.safetensors")).unwrap();
    let len = u64::from_le_bytes(*bytes.first_chunk::<8>().unwrap());
    let data = 8 + usize::try_from(len).unwrap();
    let header: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&bytes[8..data]).unwrap();
    for (name, tensor) in &header {
        let Some(range) = tensor.get("data_offsets") else { continue };
        let at = |index: usize| data + usize::try_from(range[index].as_u64().unwrap()).unwrap();
        for value in bytes[at(0)..at(1)].as_chunks_mut::<4>().0 {
            *value = change(name, f32::from_le_bytes(*value)).to_le_bytes();
        }
    }
    std::fs::write(target.join("model.safetensors"), bytes).unwrap();
    "model".to_owned()
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
