"""Tiny models of transformers with random weights: classes, configurations, weights and outputs. library.py compares them with ggmill."""

import copy
import functools
import importlib
import re
import zlib
from pathlib import Path

import numpy
import torch
import transformers

VOCABULARY = 160
# No token here has a special meaning in a shrunk configuration: special tokens that would not fit get IDs from SPECIAL on.
TOKENS = [17, 42, 99, 5, 64, 23, 118, 71, 8, 90, 33, 111, 56, 29, 77, 102, 14, 68, 47, 85, 126, 11, 93, 38]
SPECIAL = 132


def tokens_of(config) -> list[int]:
    """Returns the tokens of the text. Those below 8196 are images for Chameleon, which never predicts them."""
    return [8196 + token for token in TOKENS if token < 124] if config.model_type == "chameleon" else TOKENS


HIDDEN, HEADS, LAYERS, WINDOW = 64, 4, 4, 8

# Sizes by field. Fields that a configuration does not have, or has as None or 0, stay as they are.
SIZES: dict[str, int | list] = {
    **dict.fromkeys(["hidden_size", "d_model", "dim", "n_embd", "backbone_hidden_size", "text_hidden_size", "attention_hidden_size"], HIDDEN),
    **dict.fromkeys(["num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers"], LAYERS),
    **dict.fromkeys(["intermediate_size", "ffn_hidden_size", "d_ff", "n_inner", "encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim", "dense_intermediate_size"], 96),
    **dict.fromkeys(["intermediate_size_mlp", "prefix_dense_intermediate_size", "shared_intermediate_size"], 128),
    **dict.fromkeys(["moe_intermediate_size", "share_expert_dim", "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_experts_intermediate_size"], 32),
    **dict.fromkeys(["num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"], 8),
    **dict.fromkeys(["vocab_size", "vocab_size_per_layer_input"], VOCABULARY),
    **dict.fromkeys(["sliding_window", "index_topk", "local_attention"], WINDOW),
    **dict.fromkeys(["linear_key_head_dim", "linear_value_head_dim", "linear_head_dim", "d_kv", "hidden_size_per_layer_input", "laurel_rank", "swa_head_dim"], 16),
    **dict.fromkeys(["kv_lora_rank", "qk_nope_head_dim", "v_head_dim", "index_head_dim", "global_head_dim", "indexer_head_dim", "o_lora_rank"], 32),
    **dict.fromkeys(["mamba_n_heads", "mamba_num_heads", "mamba_d_state", "ssm_state_size", "state_size", "mamba_chunk_size", "chunk_size"], 8),
    "index_n_heads": 16,
    **dict.fromkeys(["linear_num_value_heads", "linear_num_heads", "mamba_dt_rank", "time_step_rank", "num_attention_heads_per_layer"], 4),
    **dict.fromkeys(["linear_num_key_heads", "mamba_n_groups", "n_groups", "o_groups"], 2),
    **dict.fromkeys(["mamba_head_dim", "mamba_d_head", "qk_rope_head_dim"], 16),
    "mamba_d_ssm": 128, "q_lora_rank": 48, "qk_head_dim": 48, "rotary_dim": 8, "first_k_dense_replace": 1, "max_source_positions": 24,
    "index_block_size": 4, "index_topk_blocks": 2, "num_patches": 4, "num_mel_bins": 8, "max_window_layers": 2, "dim_model_base": 16, "moe_latent_size": 32,
    "num_dense_layers": 1, "num_nextn_predict_layers": 0,
}
# Towers for images and sound take no part; they are only made small.
TOWER: dict[str, int | list] = {
    **dict.fromkeys(["hidden_size", "embed_dim", "d_model", "encoder_hidden_dim", "model_dim", "hidden_dim"], 32),
    **dict.fromkeys(["num_hidden_layers", "depth", "encoder_layers", "num_layers", "num_decoder_layers"], 2),
    **dict.fromkeys(["num_attention_heads", "num_heads", "encoder_attention_heads", "num_key_value_heads", "conf_num_attention_heads"], 2),
    **dict.fromkeys(["intermediate_size", "mlp_dim", "encoder_ffn_dim", "projector_hidden_size", "projection_hidden_size", "merged_hidden_size"], 64),
    **dict.fromkeys(["out_hidden_size", "output_dim", "projection_dim", "vision_output_dim", "projector_input_dim", "projector_output_dim", "output_proj_dims", "text_hidden_size"], HIDDEN),
    **dict.fromkeys(["conf_num_hidden_layers", "num_patches"], 2),
    "channel_multiplier": [1, 1], "fullatt_block_indexes": [1], "deepstack_visual_indexes": [0], "num_position_embeddings": 16, "downsample_hidden_size": 32,
    "head_dim": 16, "vocab_size": 128, "image_size": 56, "patch_size": 14, "max_source_positions": 24,
    "base_channels": 32, "adapter_out_dim": HIDDEN,
}
HEAD_COUNTS = ["num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads", "num_sliding_attention_heads", "swa_num_attention_heads"]
KV_COUNTS = ["num_key_value_heads", "num_kv_heads", "kv_n_heads", "num_global_key_value_heads", "swa_num_key_value_heads", "num_attention_groups", "num_sliding_key_value_heads"]
EXPERTS_USED = ["num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_k", "moe_top_k", "moe_topk", "num_experts_per_topk"]

# Where shrinking needs care, by model type: fields in the configuration of the text model, or dotted from the top.
# Some also give what the library has no default for, and without which its model cannot be made or run.
HYBRID = ["linear_attention", "full_attention", "linear_attention", "full_attention"]
WINDOWED = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
OVERRIDES: dict[str, dict] = {
    "bamba": {"attn_layer_indices": [1, 3]},
    "chameleon": {"vocabulary_map": {"<image>": SPECIAL}, "vocab_size": 8320},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0}, "ffn_config": {"hidden_size": HIDDEN, "ffn_hidden_size": 96}},
    "deepseek_v2": {"num_experts_per_tok": 2, "n_group": 1, "topk_group": 1},
    "deepseek_v4": {"head_dim": 32, "partial_rotary_factor": 0.5, "qk_rope_head_dim": 16, "num_nextn_predict_layers": 0},
    "dots3_note_text": {"head_dim": 64, "per_layer_config": {str(i): {"kv_lora_rank": 32, "num_attention_heads": 8, "num_key_value_heads": 8, "q_lora_rank": 48, "qk_nope_head_dim": 48, "qk_rope_head_dim": 16, "v_head_dim": 16} for i in [2, 3]}},
    "dots1": {"n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1},
    "ernie4_5_moe": {"moe_layer_end_index": LAYERS - 1, "num_key_value_heads": 2, "intermediate_size": 128},
    "gemma3n_text": {"num_kv_shared_layers": 2, "layer_types": ["full_attention" if i % 5 == 4 else "sliding_attention" for i in range(22)], "num_hidden_layers": 22, "intermediate_size": [16384] * 22, "activation_sparsity_pattern": [0.95] * 10 + [0.0] * 12},
    # Programs read windows of models with as many layers only.
    "exaone4": {"num_hidden_layers": 64},
    "gemma4_text": {"layer_types": ["sliding_attention", *WINDOWED[1:]]},
    "glm5_next_text": {"index_topk": 8, "index_kpool": 4, "qk_rope_head_dim": 0, "head_dim": 0, "qk_head_dim": 32},
    "granitemoehybrid": {"layer_types": HYBRID},
    "hunyuan_v1_dense": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "head_dim": 16},
    "hunyuan_v1_moe": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "head_dim": 16},
    "hunyuan_vl_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "head_dim": 16},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "full_attention"]},
    "minimax_m3_vl_text": {"shared_intermediate_size": 96, "num_key_value_heads": 1, "index_n_heads": 1, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "layer_types": ["full_attention", *["minimax_m3_sparse"] * 3]},
    "nemotron_h": {"layers_block_type": ["linear_attention", "moe", "full_attention", "moe"]},
    "nemotron": {"num_key_value_heads": 2, "head_dim": 16},
    "qwen4_exp_text": {"layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"], "indexer_n_heads": 4, "indexer_kv_heads": 1,
                       "indexer_head_dim": 32, "indexer_budget": 8, "indexer_compress_ratio": 4},
    "step3p7_text": {"sliding_window": WINDOW},
    "t5": {"decoder_start_token_id": 0},
}
OVERRIDES["qwen4_exp"] = OVERRIDES["qwen4_exp_text"]


class Unbuildable(Exception):
    """The library has no such class, or cannot make a model of it."""


@functools.cache
def library_classes() -> dict[str, str]:
    """Returns the module of every model class of the library, by class name."""
    found: dict[str, str] = {}
    for path in sorted(Path(transformers.__file__).parent.glob("models/*/modeling_*.py")):
        for name in re.findall(r"^class (\w+)\(", path.read_text(encoding="utf-8"), re.M):
            found.setdefault(name, f"transformers.models.{path.parent.name}.{path.stem}")
    return found


def plain_name(name: str) -> str:
    return name.rpartition(".")[2].replace("_", "").lower()


def classes_of(names: list[str]) -> list[str]:
    """Returns the library's classes with these names, which may differ in case and underscores (PhiMoEForCausalLM is PhimoeForCausalLM)."""
    known = {plain_name(name): name for name in library_classes()}
    return sorted({known[plain_name(name)] for name in names if plain_name(name) in known})


def model_class(name: str) -> type:
    return getattr(importlib.import_module(library_classes()[name]), name)


def fields(config) -> dict:
    return {name: value for name, value in vars(config).items() if not name.startswith("_")}


def nested(config) -> dict:
    """Returns the configurations within one, by field."""
    return {name: value for name, value in fields(config).items() if isinstance(value, transformers.PretrainedConfig)}


TEXT_PARTS = ["text_config", "thinker_config", "llm_config", "language_config", "decoder"]


def text_path(config) -> list[str]:
    """Returns the fields that lead to the configuration of the text model."""
    for name in TEXT_PARTS:
        if name in nested(config):
            return [name, *text_path(nested(config)[name])]
    return []


def special_tokens(known: dict) -> dict:
    """Gives special tokens IDs that a small vocabulary has."""
    found = {}
    for name, value in known.items():
        if not re.search(r"(token_id|token_index|_id|token_ids)$", name) or "cutoff" in name:
            continue
        if isinstance(value, int) and not isinstance(value, bool) and value >= SPECIAL:
            found[name] = SPECIAL + zlib.crc32(name.encode()) % (VOCABULARY - SPECIAL)
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], int) and max(value) >= SPECIAL:
            found[name] = [SPECIAL]
    return found


def shrink_text(config) -> dict:
    """Returns the fields of a text configuration that change where it is made small."""
    known = fields(config)
    small = {name: SIZES[name] for name in known if name in SIZES and isinstance(known[name], int) and known[name] > 0}
    heads = next((known[name] for name in HEAD_COUNTS if isinstance(known.get(name), int)), 0)
    for name in HEAD_COUNTS:
        if isinstance(known.get(name), int):
            small[name] = HEADS
    for name in KV_COUNTS:
        if isinstance(known.get(name), int):
            small[name] = max(1, min(HEADS, HEADS * known[name] // max(1, heads)))
    for name in EXPERTS_USED:
        if isinstance(known.get(name), int):
            small[name] = min(known[name], 2)
    if (known.get("n_group") or 1) > 1:
        small |= {"n_group": 4, "topk_group": 2}
    hidden = known.get("hidden_size") or known.get("d_model") or 0
    for name in ["intermediate_size", "ffn_hidden_size"]:
        # Some converters take a multiple of the width for granted.
        if isinstance(known.get(name), int) and hidden and known[name] in (2 * hidden, 4 * hidden):
            small[name] = known[name] // hidden * HIDDEN
    if isinstance(known.get("head_dim"), int) and heads and "qk_rope_head_dim" not in known:
        small["head_dim"] = HIDDEN // HEADS if known["head_dim"] * heads == hidden else 32
    if isinstance(known.get("max_window_layers"), int) and known["max_window_layers"] >= layer_count(config):
        small["max_window_layers"] = LAYERS
    if known.get("query_pre_attn_scalar") is not None and known["query_pre_attn_scalar"] == known.get("head_dim"):
        small["query_pre_attn_scalar"] = small["head_dim"]
    return small | special_tokens(known)


def shrink_tower(config) -> dict:
    known = fields(config)
    small = {name: TOWER[name] for name in known if name in TOWER and known[name] is not None}
    small |= {name: shrink_tower(part) for name, part in nested(config).items()}
    return small | {"model_type": config.model_type} | special_tokens(known)


def shrink(config, path: list[str]) -> dict:
    """Returns the arguments of the constructor that make a small configuration. `path` leads to the text model."""
    if not path:
        small = shrink_text(config)
        small |= {name: shrink_tower(part) for name, part in nested(config).items()}
        return small | OVERRIDES.get(config.model_type, {})
    small = special_tokens(fields(config))
    for name, part in nested(config).items():
        small[name] = shrink(part, path[1:]) | {"model_type": part.model_type} if name == path[0] else shrink_tower(part)
    for name, value in OVERRIDES.get(config.model_type, {}).items():
        place = small
        *parents, last = name.split(".")
        for parent in parents:
            place = place[parent]
        place[last] = value
    return small


def per_layer(config, layers: int, before: int) -> dict:
    """Returns the lists that still have an entry for each layer of the large model, cut so that every kind of layer stays."""
    found = {}
    for name, value in fields(config).items():
        if isinstance(value, (list, tuple)) and len(value) == before and before != layers:
            found[name] = kinds(list(value), layers)
    return found


def kinds(value: list, layers: int) -> list:
    """Shortens a list, and keeps each value that it has."""
    short = value[:layers]
    texts = [repr(entry) for entry in value]
    missing = [value[texts.index(text)] for text in dict.fromkeys(texts) if text not in texts[:layers]]
    if missing:
        missing = missing[:layers - 1]
        short[layers - len(missing):] = missing
    return short


def layer_count(config) -> int:
    known = fields(config)
    return next((known[name] for name in ["num_hidden_layers", "n_layer", "n_layers", "num_layers"] if isinstance(known.get(name), int)), 0)


def at(config, path: list[str]):
    for name in path:
        config = getattr(config, name)
    return config


def place(arguments: dict, path: list[str]) -> dict:
    """Returns the arguments for the configuration at a path."""
    for name in path:
        arguments = arguments.setdefault(name, {})
    return arguments


class Family:
    """A class of the library with the arguments of its small configuration."""

    def __init__(self, name: str):
        self.name = name
        self.model_class = model_class(name)
        self.config_class = self.model_class.config_class
        if self.config_class is None:
            raise Unbuildable("the class has no configuration class")
        try:
            large = self.config_class(**FIRST.get(self.config_class.model_type, {}))
        except Exception as error:
            raise Unbuildable(f"default configuration: {reason(error)}") from error
        self.path = text_path(large)
        self.arguments = shrink(large, self.path)
        try:
            small = at(self.config_class(**self.arguments), self.path)
        except Exception as error:
            raise Unbuildable(f"small configuration: {reason(error)}") from error
        text = at(large, self.path)
        lists = per_layer(small, layer_count(small), layer_count(text))
        if "layer_types" in fields(small) and "layer_types" not in place(self.arguments, self.path) and small.layer_types:
            wanted = kinds(list(text.layer_types), layer_count(small))
            # Ratios of the large model stay where they show; otherwise each kind of layer gets one.
            if set(wanted) > set(small.layer_types):
                lists["layer_types"] = wanted
        place(self.arguments, self.path).update({key: value for key, value in lists.items() if key not in place(self.arguments, self.path)})
        self.fit_sections()

    def fit_sections(self):
        """Fits the sections of a rotary embedding for images to the small heads: the library has them only as a default of its code."""
        if not self.path and "VL" not in self.name:
            return
        try:
            config = self.config()
            output(self.model(config), config, tokens_of(config))
        except RuntimeError as error:
            found = re.search(r"sum exactly to (\d+) .*split_sizes=\[(\d+), (\d+), (\d+)\]", str(error))
            if found:
                half, *large = map(int, found.groups())
                rest = [max(1, half * part // sum(large)) for part in large[1:]]
                known = at(config, self.path).rope_parameters
                place(self.arguments, self.path)["rope_parameters"] = dict(known) | {"mrope_section": [half - sum(rest), *rest]}
        except Exception:
            pass  # The default case reports it.

    def restore(self, name: str) -> bool:
        """Gives a field of the text model the class's own value in place of a small one. Returns whether it had a small one."""
        arguments, own = place(self.arguments, self.path), fields(at(self.config_class(**FIRST.get(self.config_class.model_type, {})), self.path)).get(name)
        is_small = name in SIZES and name in arguments and arguments[name] != own
        if is_small:
            arguments[name] = own
        return is_small

    def config(self, changes: dict | None = None):
        """Returns the small configuration. Keys of `changes` are fields of the text model, or dotted from the top with a leading dot."""
        arguments = copy.deepcopy(self.arguments)
        for name, value in (changes or {}).items():
            if name.startswith("."):
                arguments[name[1:]] = value
            else:
                place(arguments, self.path)[name] = value
        config = self.config_class(**arguments)
        config.architectures = [self.name]
        return config

    def model(self, config, seed: int = 0):
        model = self.model_class(config).to(torch.float32).eval()
        randomize(model, seed)
        return model


# Arguments without which the constructor fails.
FIRST: dict[str, dict] = {}


def randomize(model, seed: int) -> None:
    """Gives every weight a random value that depends on its name and shape alone, so that a setting leaves the other weights as they are."""
    with torch.no_grad():
        for name, weight in [*model.named_parameters(), *persistent_buffers(model)]:
            if not weight.dtype.is_floating_point:
                continue
            generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name} {tuple(weight.shape)}".encode()))
            noise = torch.randn(weight.shape, generator=generator)
            if weight.ndim >= 2 and "embed" in name.rpartition(".")[0].rpartition(".")[2]:
                weight.copy_(noise * 0.5)
            elif weight.ndim >= 2 and not re.search(r"A_log|sink|scalar", name):
                fan = max(weight.shape[-2:]) if weight.ndim == 3 and weight.shape[1] > 1 else weight[0].numel()
                weight.copy_(noise * fan ** -0.5)
            else:
                kept = torch.where(torch.isfinite(weight), weight, torch.zeros_like(weight)) if weight.ndim else weight.clone()
                if kept.ndim and kept.abs().max() > 1e3:
                    kept = torch.zeros_like(kept)
                weight.copy_(kept + noise * 0.2)
        model.tie_weights()


def persistent_buffers(model):
    saved = model.state_dict().keys()
    return [(name, buffer) for name, buffer in model.named_buffers() if name in saved and not re.search("inv_freq|rotary", name)]


def output(model, config, tokens: list[int], width: int | None = None) -> numpy.ndarray:
    """Returns what a model computes: logits, or the last hidden states of an encoder (`width` numbers each)."""
    ids = torch.tensor([tokens])
    encoder_decoder = getattr(config, "is_encoder_decoder", False)
    with torch.no_grad():
        if encoder_decoder:
            # As `ggmill measure` divides a text.
            source = len(tokens) // 2 + 1
            start = torch.tensor([[config.decoder_start_token_id]])
            found = model(input_ids=ids[:, :source], decoder_input_ids=torch.cat([start, ids[:, source:]], 1), use_cache=False)
        elif hasattr(model, "get_output_embeddings") and model.get_output_embeddings() is not None and not is_encoder(model):
            try:
                found = model(input_ids=ids)
            except AttributeError:
                # Llama 4 without images.
                found = model.language_model(input_ids=ids)
        else:
            base = model.base_model if not re.search("T5Encoder", type(model).__name__) else model
            found = base(input_ids=ids)
    rows = getattr(found, "logits", None)
    if rows is None:
        rows = found.last_hidden_state
        if width is not None and width != rows.shape[-1] and model.get_input_embeddings() is not None and width == model.get_input_embeddings().weight.shape[0]:
            rows = rows @ model.get_input_embeddings().weight.detach().T
    return rows[0].float().numpy()


def is_encoder(model) -> bool:
    return bool(re.search("ForMaskedLM|ForSequenceClassification|EncoderModel", type(model).__name__))


def reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]
