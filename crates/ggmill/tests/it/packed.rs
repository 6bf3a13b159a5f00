//! Checkpoints with packed weights, quantized in one pass: the same bytes as converting them to
//! their own type and quantizing the result.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ggmill::arch::Catalogue;
use ggmill::convert::{ConvertOptions, convert, own_type};
use ggmill::core::Header;
use ggmill::pipeline::{
    Checkpoint, GgufCheckpoint, Pretrained, Recipe, Result, RunOptions, SideFiles, SourceTensor,
    run,
};
use ggmill::quantize::{QuantizeOptions, Target, quantize, quantize_recipe};
use ggmill::{FileType, GgmlType, Shape};
use serde_json::{Value, json};

/// A checkpoint in memory.
#[derive(Debug)]
struct Packed {
    config: Value,
    tensors: Vec<SourceTensor>,
    data: Vec<Vec<u8>>,
    files: BTreeMap<String, Vec<u8>>,
}

impl Checkpoint for Packed {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let start = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.data[number][start..][..out.len()]);
        Ok(())
    }
}

impl Pretrained for Packed {
    fn config(&self) -> &Value {
        &self.config
    }

    fn name(&self) -> Option<&str> {
        Some("packed")
    }

    fn side_files(&self) -> &dyn SideFiles {
        &self.files
    }
}

impl Packed {
    fn new(quantization: &Value) -> Self {
        let config = json!({
            "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 256,
            "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 128,
            "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "vocab_size": 96,
            "tie_word_embeddings": false, "hidden_act": "silu",
            "quantization_config": quantization,
        });
        Self { config, tensors: Vec::new(), data: Vec::new(), files: BTreeMap::new() }
    }

    /// Adds a tensor with these dimensions in stored order, filled by repeating `bytes`.
    fn add(
        &mut self,
        name: &str,
        of: (GgmlType, Option<&'static str>),
        shape: &[u64],
        bytes: &[u8],
    ) {
        let shape = Shape::new(shape).unwrap();
        let size = of.0.layout().unwrap().bytes_for(shape.elements()).unwrap();
        self.data
            .push(bytes.iter().copied().cycle().take(usize::try_from(size).unwrap()).collect());
        let tensor = SourceTensor::new(name, of.0, shape);
        self.tensors.push(of.1.map_or(tensor.clone(), |stored| tensor.with_stored_type(stored)));
    }

    /// Adds the whole model: matrices by `pack`, the other tensors in BF16.
    fn model(quantization: &Value, pack: impl Fn(&mut Self, &str, u64, u64)) -> Self {
        let mut this = Self::new(quantization);
        // Values of about 0.5, never NaN.
        let halves: Vec<u8> = (0..254u8).flat_map(|i| [i, 0x3e | i << 7]).collect();
        let plain = (GgmlType::BF16, None);
        this.add("model.embed_tokens.weight", plain, &[256, 96], &halves);
        this.add("lm_head.weight", plain, &[256, 96], &halves);
        this.add("model.norm.weight", plain, &[256], &halves);
        for layer in 0..2 {
            let name = |part: &str| format!("model.layers.{layer}.{part}");
            for norm in ["input_layernorm", "post_attention_layernorm"] {
                this.add(&name(&format!("{norm}.weight")), plain, &[256], &halves);
            }
            for norm in ["q_norm", "k_norm"] {
                this.add(&name(&format!("self_attn.{norm}.weight")), plain, &[64], &halves);
            }
            for (part, columns, rows) in [
                ("self_attn.q_proj", 256, 256),
                ("self_attn.k_proj", 256, 128),
                ("self_attn.v_proj", 256, 128),
                ("self_attn.o_proj", 256, 256),
                ("mlp.gate_proj", 256, 512),
                ("mlp.up_proj", 256, 512),
                ("mlp.down_proj", 512, 256),
            ] {
                pack(&mut this, &name(part), columns, rows);
            }
        }
        this
    }
}

fn written(recipe: Recipe, source: &dyn Checkpoint) -> Vec<u8> {
    let plan = recipe.plan(source).unwrap();
    run(&plan, source, Vec::new(), &RunOptions::with_threads(2), &mut |_| ControlFlow::Continue(()))
        .unwrap()
}

/// Checks that both ways give the same bytes, and returns the quantized file.
fn one_pass(checkpoint: &Packed, own: FileType) -> Vec<u8> {
    assert_eq!(own_type(checkpoint), own);
    let catalogue = Catalogue::new();
    let architecture = catalogue.for_checkpoint(checkpoint.config()).unwrap();
    let converted = || convert(checkpoint, architecture, &ConvertOptions::new(own)).unwrap();
    let options = QuantizeOptions::new("q4_k_m".parse::<Target>().unwrap());
    let at_once = written(quantize_recipe(&converted(), &options).unwrap(), checkpoint);

    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("converted.gguf");
    std::fs::write(&path, written(converted(), checkpoint)).unwrap();
    let file = GgufCheckpoint::open(path).unwrap();
    let in_steps = written(quantize(&file, &options).unwrap(), &file);
    assert!(at_once == in_steps);
    at_once
}

fn type_of(file: &[u8], name: &str) -> GgmlType {
    Header::parse(file).unwrap().tensor(name).unwrap().ggml_type()
}

/// Returns pseudorandom bytes.
fn noise(seed: u32) -> Vec<u8> {
    (0..997u32).map(|i| ((i + seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn fp8_is_quantized_from_f32() {
    let config = json!({ "quant_method": "fp8", "weight_block_size": [128, 128] });
    let weights: Vec<u8> = noise(1).into_iter().map(|byte| byte & 0xf7).collect();
    let checkpoint = Packed::model(&config, |this, name, columns, rows| {
        let fp8 = (GgmlType::I8, Some("F8_E4M3"));
        this.add(&format!("{name}.weight"), fp8, &[columns, rows], &weights);
        let scales = [columns / 128, rows / 128];
        let numbers: Vec<u8> = [0.3f32, 0.007].iter().flat_map(|n| n.to_le_bytes()).collect();
        this.add(&format!("{name}.weight_scale_inv"), (GgmlType::F32, None), &scales, &numbers);
    });
    let file = one_pass(&checkpoint, FileType::F32);
    assert_eq!(type_of(&file, "blk.0.ffn_up.weight"), GgmlType::Q4_K);
}

#[test]
fn gptq_is_quantized_from_f32() {
    let config = json!({ "quant_method": "gptq", "bits": 4, "group_size": 64 });
    let checkpoint = Packed::model(&config, |this, name, columns, rows| {
        let (words, halves) = ((GgmlType::I32, None), (GgmlType::F16, None));
        this.add(&format!("{name}.qweight"), words, &[rows, columns / 8], &noise(2));
        this.add(&format!("{name}.qzeros"), words, &[rows / 8, columns / 64], &noise(3));
        this.add(
            &format!("{name}.scales"),
            halves,
            &[rows, columns / 64],
            &[0x34, 0x21, 0x02, 0x1f],
        );
        let groups: Vec<u8> =
            (0..columns).flat_map(|column| ((column / 64) as u32).to_le_bytes()).collect();
        this.add(&format!("{name}.g_idx"), words, &[columns], &groups);
    });
    let file = one_pass(&checkpoint, FileType::F32);
    assert_eq!(type_of(&file, "blk.0.ffn_up.weight"), GgmlType::Q4_K);
}

/// Mixtures keep the NVFP4 blocks and their scales.
#[test]
fn nvfp4_is_kept() {
    let config = json!({ "quant_method": "modelopt", "quant_algo": "NVFP4" });
    let checkpoint = Packed::model(&config, |this, name, columns, rows| {
        let bytes = (GgmlType::I8, Some("U8"));
        this.add(&format!("{name}.weight"), bytes, &[columns / 2, rows], &noise(4));
        let scales = (GgmlType::I8, Some("F8_E4M3"));
        let numbers = [0x38, 0x41, 0x2f];
        this.add(&format!("{name}.weight_scale"), scales, &[columns / 16, rows], &numbers);
        let factor = 0.02f32.to_le_bytes();
        this.add(&format!("{name}.weight_scale_2"), (GgmlType::F32, None), &[], &factor);
    });
    let file = one_pass(&checkpoint, FileType::BF16);
    assert_eq!(type_of(&file, "blk.0.ffn_up.weight"), GgmlType::NVFP4);
    assert_eq!(type_of(&file, "blk.0.ffn_up.scale"), GgmlType::F32);
    assert_ne!(type_of(&file, "output.weight"), GgmlType::BF16);
}
