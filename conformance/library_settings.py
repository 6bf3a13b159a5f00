"""Changes of one setting at a time, from the fields of a configuration class. library.py runs a case for each."""

import json
import re
import typing
from collections.abc import Iterator

# Fields that do not say what a model computes for tokens, and sizes that every model has.
LEFT_OUT = re.compile(
    r"dropout|pdrop|drop$|initializer|^init_|_init$|^use_cache$|^output_(attentions|hidden|router)|router_aux|z_loss|loss|jitter|^return_dict|torchscript|dtype|transformers_version"
    r"|^architectures$|_id$|_ids$|_index$|token_id|^vocab_size|^chunk_size_feed|pruned|summary_|mask_(time|feature)|apply_spec|use_mambapy|use_mamba_kernels|use_associative|cache_dtype"
    r"|^hidden_size$|^num_hidden_layers$|^n_layers?$|^num_layers$|^d_model$|^n_embd$|^dim$|intermediate_size|^max_position|^n_positions$|^problem_type|^id2label|^label2id"
    r"|^is_encoder_decoder|^is_decoder|^add_cross|^seed$|^ignore_keys|^attn_implementation|^experts_implementation|^vocabulary_map|time_step_(min|max|floor)|chunk_size$|pretraining_tp"
    r"|deterministic|^tokenizer|num_logits_to_keep|^name_or_path|time_step_init|time_step_scale|^task_specific|per_layer_config|max_source_positions|^median_filter|classifier_activation"
)
ACTIVATIONS = ["silu", "gelu", "gelu_pytorch_tanh", "gelu_new", "relu", "relu2", "tanh"]
# Other legal values, by field. With few index heads, many scores are 0, and which of equal ones are chosen is arbitrary.
VALUES: dict[str, list] = {
    "scoring_func": ["softmax", "sigmoid", "sqrtsoftplus"], "topk_method": ["greedy", "group_limited_greedy", "noaux_tc"], "expert_selection_fn": ["softmax", "sigmoid"],
    "position_embedding_type": ["absolute", "relative_key", "rope", "nope"], "feed_forward_proj": ["relu", "gated-gelu", "gated-silu", "gelu"], "dense_act_fn": ["relu", "gelu_new", "silu"],
    "classifier_pooling": ["cls", "mean", "late"], "output_gate_type": ["swish", "sigmoid", None], "use_bidirectional_attention": [True, False, "all", "vision", None],
    "num_key_value_heads": [1, 2, 4, None], "num_kv_heads": [1, 2, 4], "num_global_key_value_heads": [1, 2, None], "num_attention_heads": [2, 8], "n_head": [2, 8],
    "head_dim": [8, 16, 32, 64, None], "global_head_dim": [16, 64], "qk_rope_head_dim": [8, 32], "qk_nope_head_dim": [16], "v_head_dim": [16, 64], "kv_lora_rank": [16], "q_lora_rank": [None, 24],
    "sliding_window": [4, 8, 16, None], "local_attention": [4, 16], "attention_chunk_size": [4, None], "max_window_layers": [0, 1, 4], "sliding_window_pattern": [1, 2, 4],
    "global_attn_every_n_layers": [1, 2], "full_attention_interval": [1, 2], "no_rope_layer_interval": [1, 2], "first_k_dense_replace": [0, 2, 4], "num_dense_layers": [0, 2],
    "decoder_sparse_step": [2], "moe_layer_freq": [2], "moe_layer_interval": [2], "interleave_moe_layer_step": [2], "num_nextn_predict_layers": [0, 1], "mlp_only_layers": [[0], [1, 2]],
    "num_experts_per_tok": [1, 3], "num_experts_per_token": [1, 3], "moe_k": [1, 3], "top_k_experts": [1, 3], "n_shared_experts": [1, 2, None], "num_shared_experts": [0, 1, 2],
    "moe_num_shared_experts": [0, 1], "n_group": [1, 2, 4, None], "topk_group": [1, 2, None], "num_kv_shared_layers": [0, 1, 2], "index_topk": [4, 32], "index_n_heads": [8], "moe_top_k": [2],
    "final_logit_softcapping": [None, 5.0], "attn_logit_softcapping": [None, 5.0], "moe_router_logit_softcapping": [2.0], "query_pre_attn_scalar": [64, 16], "rotary_dim": [4, 16],
    "swiglu_limit": [0.5, None], "softmax_scale": [0.5], "clip_qkv": [0.5], "logit_scale": [0.5, None], "rescale_every": [0, 2], "mamba_d_conv": [3], "conv_kernel": [3], "conv_L_cache": [4],
    "linear_conv_kernel_dim": [3], "relative_attention_num_buckets": [8], "relative_attention_max_distance": [16], "n_inner": [96], "alibi_bias_max": [4], "hidden_size_per_layer_input": [0],
    "type_vocab_size": [1, 3], "moe_latent_size": [None, 32], "rope_interleave": [True, False], "swiglu_limits": [[0.5, 0.0, 1.0, 0.0]], "num_labels": [1, 3], "norm_type": ["default_eps"],
    "layer_norm_eps": [1e-3], "mamba_n_groups": [1, 4], "n_groups": [1, 4], "multi_query": [True, False], "head_dim_per_layer": [], "attn_layer_indices": [[0, 2]],
    "floor_scale": [4], "attn_scale": [0.5], "attention_k_eq_v": [True], "altup_num_inputs": [2], "o_groups": [1], "hc_mult": [2], "hc_count": [2], "dim_model_base": [32],
}
SCALING: dict[str, dict] = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0, "original_max_position_embeddings": 16},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 32},
    "longrope": {"factor": 4.0, "original_max_position_embeddings": 32},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
    "proportional": {"partial_rotary_factor": 0.5},
}
YARN = {"attention_factor": 0.7, "beta_fast": 8.0, "beta_slow": 2.0, "mscale": 0.7, "mscale_all_dim": 0.5, "truncate": False}
STORAGE: dict[str, dict] = {"sharded": {"shard": "200KB"}, "bf16": {"dtype": "bf16"}, **{f"prefix {name}": {"prefix": name} for name in ["_orig_mod.", "module.", "model."]}}


def shown(value) -> str:
    return json.dumps(value, sort_keys=True, default=str).replace("\t", " ")


def accepts(owner: type, name: str) -> list:
    """Returns None, and the values of Literal, if the annotation of a field allows them."""
    try:
        annotation = typing.get_type_hints(owner).get(name)
    except Exception:
        return []
    parts = typing.get_args(annotation) or (annotation,)
    found: list = [None] if type(None) in parts else []
    for part in (annotation, *parts):
        if typing.get_origin(part) is typing.Literal:
            found += list(typing.get_args(part))
    return found


def of_lists(value: list) -> list:
    """Returns lists of the same length: in another order, and of one kind."""
    texts = {json.dumps(entry, default=str): entry for entry in value}
    found = [value[::-1], *([entry] * len(value) for entry in texts.values())]
    if all(isinstance(entry, bool) for entry in value):
        found += [[True] * len(value), [False] * len(value)]
    elif all(isinstance(entry, (int, float)) for entry in value):
        found += [[entry * 0.5 + 0.5 if isinstance(entry, float) else 1 - entry if entry in (0, 1) else entry for entry in value]]
    return found


def others(owner: type, name: str, value) -> list:
    """Returns other legal values of a field."""
    found = list(VALUES.get(name, []))
    if isinstance(value, bool):
        found.append(not value)
    elif re.search(r"(^|_)(act|activation|act_fn|activation_function)$", name) and isinstance(value, str):
        found += ACTIVATIONS
    elif isinstance(value, float):
        found.append(0.01 if "eps" in name else 0.5 if value in (0.0, 1.0) else value * 1.5)
    elif isinstance(value, (list, tuple)) and value and not isinstance(value[0], (list, dict)):
        found += of_lists(list(value))
    elif name not in VALUES and isinstance(value, int):
        return accepts(owner, name)
    return found + accepts(owner, name)


def rotary(parameters: dict, half: int) -> Iterator[tuple[str, dict]]:
    """Yields other parameters of a rotary embedding, with what is changed."""
    theta = parameters.get("rope_theta", 10000.0)
    yield "rope_theta", parameters | {"rope_theta": 500.0}
    for part in [0.25, 0.5, 1.0]:
        if parameters.get("partial_rotary_factor") != part:
            yield f"partial_rotary_factor {part}", parameters | {"partial_rotary_factor": part}
    for kind, values in SCALING.items():
        changed = parameters | {"rope_type": kind, "rope_theta": theta} | values
        if kind == "longrope":
            changed |= {"short_factor": [1.0 + 0.1 * i for i in range(half)], "long_factor": [1.5 + 0.2 * i for i in range(half)]}
        yield kind, changed
        if kind == "yarn":
            for name, value in YARN.items():
                yield f"yarn {name}", changed | {name: value}
            yield "yarn mscale both", changed | {"mscale": 0.7, "mscale_all_dim": 0.7}
            yield "yarn without original length", {name: value for name, value in changed.items() if name != "original_max_position_embeddings"}
        if kind == "longrope":
            yield "longrope attention_factor", changed | {"attention_factor": 0.7}


def rotary_cases(config, known: dict) -> Iterator[tuple[str, str, dict]]:
    parameters = known.get("rope_parameters")
    head = known.get("qk_rope_head_dim") or known.get("head_dim") or 16
    if isinstance(parameters, dict) and any(isinstance(value, dict) for value in parameters.values()):
        for kind, inner in parameters.items():
            if isinstance(inner, dict):
                for what, changed in rotary(inner, head // 2):
                    yield f"rope_parameters.{kind}", what, {"rope_parameters": parameters | {kind: changed}}
    elif isinstance(parameters, dict):
        for what, changed in rotary(parameters, head // 2):
            yield "rope_parameters", what, {"rope_parameters": changed}
    elif "rope_theta" in known:
        yield "rope_theta", "500.0", {"rope_theta": 500.0}
        for what, changed in rotary({}, head // 2):
            if "rope_type" in changed:
                yield "rope_scaling", what, {"rope_scaling": {name: value for name, value in changed.items() if name != "rope_theta"}}


def cases(family) -> Iterator[tuple[str, str, dict, dict]]:
    """Yields the cases of a class: setting, value as text, changed arguments, and how the checkpoint is saved."""
    import library_models as models

    config = models.at(family.config(), family.path)
    owner = type(config)
    # Defaults of every configuration are not in the table of fields of a class (v5: fields of the base class).
    known = {name: value for name, value in models.fields(config).items() if not isinstance(value, models.transformers.PretrainedConfig)}
    for name in sorted(known):
        value = known[name]
        if LEFT_OUT.search(name) or name in ("rope_parameters", "rope_scaling") or name == "rope_theta" and "rope_parameters" in known:
            continue
        seen = {shown(list(value) if isinstance(value, tuple) else value)}
        for other in others(owner, name, value):
            if shown(other) not in seen:
                seen.add(shown(other))
                yield name, shown(other), {name: other}, {}
    if family.path:
        tied = bool(getattr(family.config(), "tie_word_embeddings", False))
        yield ".tie_word_embeddings", shown(not tied), {".tie_word_embeddings": not tied}, {}
    for setting, what, changes in rotary_cases(config, known):
        yield setting, what, changes, {}
    if re.search("SequenceClassification", family.name):
        for count in [1, 3]:
            yield "num_labels", str(count), {"num_labels": count}, {}
    for how, options in STORAGE.items():
        yield "(saved)", how, {}, options
