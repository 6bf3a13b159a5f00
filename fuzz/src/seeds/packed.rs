//! Seeds of quantized checkpoints: a configuration with the packed tensors of one matrix.

use super::texts::named;

/// The configuration of a model of one block, up to the quantization.
const MODEL: &str = r#"{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 8, "num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "max_position_embeddings": 64, "tie_word_embeddings": true, "#;

/// Every quantization method, with its packed tensors.
const PACKED: [(&str, &str); 10] = [
    (
        "gptq",
        r#""quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 16}, "packed": {"model.layers.0.mlp.up_proj.qweight": ["I32", [64, 8], [0, 37, 74, 111, 148, 185, 222, 3, 40, 77, 114, 151, 188]], "model.layers.0.mlp.up_proj.qzeros": ["I32", [8, 2], [0, 37, 74, 111, 148, 185, 222, 3, 40, 77, 114, 151, 188]], "model.layers.0.mlp.up_proj.scales": ["F16", [64, 2], [0, 56]], "model.layers.0.mlp.up_proj.g_idx": ["I32", [64], [0, 0, 0, 0, 1, 0, 0, 0]]}}"#,
    ),
    (
        "awq",
        r#""quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}, "packed": {"model.layers.0.mlp.up_proj.qweight": ["I32", [8, 64], [0, 37, 74, 111, 148, 185, 222, 3, 40, 77, 114, 151, 188]], "model.layers.0.mlp.up_proj.qzeros": ["I32", [8, 2], [0, 37, 74, 111, 148, 185, 222, 3, 40, 77, 114, 151, 188]], "model.layers.0.mlp.up_proj.scales": ["F16", [64, 2], [0, 56]]}}"#,
    ),
    (
        "pack",
        r#""quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}}}}, "packed": {"model.layers.0.mlp.up_proj.weight_packed": ["I32", [8, 64], [0, 37, 74, 111, 148, 185, 222, 3, 40, 77, 114, 151, 188]], "model.layers.0.mlp.up_proj.weight_scale": ["F32", [2, 64], [0, 0, 128, 63]], "model.layers.0.mlp.up_proj.weight_shape": ["I64", [2], [64, 0, 0, 0, 0, 0, 0, 0]], "model.layers.0.mlp.up_proj.weight_zero_point": ["I32", [2, 8], [0, 37, 74, 111, 148, 185, 222, 3, 40, 77, 114, 151, 188]], "model.layers.0.mlp.up_proj.weight_g_idx": ["I32", [64], [1, 0, 0, 0, 0, 0, 0, 0]]}}"#,
    ),
    (
        "channel",
        r#""quantization_config": {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}}, "packed": {"model.layers.0.mlp.up_proj.weight": ["I8", [64, 64], [0, 37, 74, 111, 148, 185, 222, 3, 40, 77, 114, 151, 188]], "model.layers.0.mlp.up_proj.weight_scale": ["BF16", [1, 64], [128, 63]]}}"#,
    ),
    (
        "fp8",
        r#""quantization_config": {"quant_method": "fp8", "weight_block_size": [32, 16]}, "packed": {"model.layers.0.mlp.up_proj.weight": ["F8_E4M3", [64, 64], [56, 64]], "model.layers.0.mlp.up_proj.weight_scale_inv": ["F32", [4, 2], [0, 0, 128, 63]]}}"#,
    ),
    (
        "nvfp4",
        r#""quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "quantized_layers": {"model.layers.0.mlp.up_proj": {"quant_algo": "W4A16_NVFP4"}}}, "packed": {"model.layers.0.mlp.up_proj.weight": ["U8", [32, 64], [0, 37, 74, 111, 148, 185, 222, 3, 40, 77, 114, 151, 188]], "model.layers.0.mlp.up_proj.weight_scale": ["F8_E4M3", [4, 64], [56, 64]], "model.layers.0.mlp.up_proj.weight_scale_2": ["F32", [], [0, 0, 128, 61]]}}"#,
    ),
    (
        "mxfp4",
        r#""quantization_config": {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "config_groups": {"group_0": {"weights": {"num_bits": 4}}}}, "packed": {"model.layers.0.mlp.up_proj.weight_packed": ["U8", [32, 64], [0, 37, 74, 111, 148, 185, 222, 3, 40, 77, 114, 151, 188]], "model.layers.0.mlp.up_proj.weight_scale": ["U8", [2, 64], [120, 127]]}}"#,
    ),
    (
        "nf4",
        r#""quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true}, "packed": {"model.layers.0.mlp.up_proj.weight": ["U8", [1, 2048], [0, 37, 74, 111, 148, 185, 222, 3, 40, 77, 114, 151, 188]], "model.layers.0.mlp.up_proj.weight.absmax": ["U8", [64], [0, 37, 74, 111, 148, 185, 222, 3, 40, 77, 114, 151, 188]], "model.layers.0.mlp.up_proj.weight.quant_map": ["F32", [16], [0, 0, 128, 63]], "model.layers.0.mlp.up_proj.weight.nested_absmax": ["F32", [1], [0, 0, 128, 63]], "model.layers.0.mlp.up_proj.weight.nested_quant_map": ["F32", [256], [0, 0, 128, 63]], "model.layers.0.mlp.up_proj.weight.quant_state.bitsandbytes__nf4": ["U8", [83], [123, 34, 98, 108, 111, 99, 107, 115, 105, 122, 101, 34, 58, 32, 54, 52, 44, 32, 34, 115, 104, 97, 112, 101, 34, 58, 32, 91, 54, 52, 44, 32, 54, 52, 93, 44, 32, 34, 110, 101, 115, 116, 101, 100, 95, 98, 108, 111, 99, 107, 115, 105, 122, 101, 34, 58, 32, 50, 53, 54, 44, 32, 34, 110, 101, 115, 116, 101, 100, 95, 111, 102, 102, 115, 101, 116, 34, 58, 32, 48, 46, 53, 125]]}}"#,
    ),
    (
        "int8",
        r#""quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": true}, "packed": {"model.layers.0.mlp.up_proj.weight": ["I8", [64, 64], [0, 37, 74, 111, 148, 185, 222, 3, 40, 77, 114, 151, 188]], "model.layers.0.mlp.up_proj.SCB": ["F32", [64], [0, 0, 128, 63]], "model.layers.0.mlp.up_proj.weight_format": ["U8", [], [0]]}}"#,
    ),
    (
        "bitnet",
        r#""quantization_config": {"quant_method": "bitnet"}, "packed": {"model.layers.0.mlp.up_proj.weight": ["U8", [64, 16], [0, 37, 74, 111, 148, 185, 222, 3, 40, 77, 114, 151, 188]], "model.layers.0.mlp.up_proj.weight_scale": ["BF16", [1], [128, 63]]}}"#,
    ),
];

pub(super) fn packed() -> Vec<(String, Vec<u8>)> {
    let texts: Vec<(&str, String)> =
        PACKED.iter().map(|(name, rest)| (*name, format!("{MODEL}{rest}"))).collect();
    named(&texts.iter().map(|(name, text)| (*name, &**text)).collect::<Vec<_>>())
}
