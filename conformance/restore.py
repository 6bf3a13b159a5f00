"""Turns files back into checkpoints and lets the `transformers` library compute with them.

    REFERENCE_PYTHON restore.py GGMILL [FAMILY]…

GGMILL is the binary. The interpreter has torch and transformers 4.57.6. For each family a tiny model with random weights is saved, converted with `ggmill
convert --type f32` and turned back with `ggmill convert --to safetensors`. `AutoModel…` loads the result from its own config.json, and its logits for the same
tokens have to be those of the original to the bit. A BF16 copy of each goes the same way, by auto types, and each of its tensors has to be the same to the bit.
The tokenizers that come of files with vocabularies alone (GGMILL_VOCABULARIES, a directory of ggml-vocab-*.gguf with the texts and IDs that llama.cpp has beside
them) have to give those IDs.
Exit status 1 where something differs.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file

COMMON = dict(vocab_size=320, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, max_position_embeddings=128)
GROUPED = dict(COMMON, num_key_value_heads=2)
HEAD = dict(GROUPED, head_dim=16)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64)

# Of images: no file has it, and the language model is compared with a tower of the same size.
TOWER = dict(depth=3, hidden_size=32, num_heads=2, intermediate_size=48, out_hidden_size=64, deepstack_visual_indexes=[0, 1, 2], num_position_embeddings=16)

FAMILIES = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "llama-tied": ("LlamaForCausalLM", "LlamaConfig", dict(GROUPED, tie_word_embeddings=True)),
    "llama3": ("LlamaForCausalLM", "LlamaConfig", dict(GROUPED, rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64))),
    "mistral": ("MistralForCausalLM", "MistralConfig", dict(GROUPED, sliding_window=None)),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", dict(GROUPED, num_local_experts=4, num_experts_per_tok=2)),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPED),
    "qwen2moe": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", dict(GROUPED, **EXPERTS, shared_expert_intermediate_size=96)),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", HEAD),
    "qwen3moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", dict(HEAD, **EXPERTS, norm_topk_prob=True)),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", HEAD),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", dict(HEAD, sliding_window=32)),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", dict(HEAD, sliding_window=32)),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", dict(GROUPED, vocab_size=32064)),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", dict(vocab_size=320, n_embd=64, n_layer=2, n_head=4, n_positions=128)),
    "gptneox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", dict(COMMON, rotary_pct=0.25)),
    "bloom": ("BloomForCausalLM", "BloomConfig", dict(vocab_size=320, hidden_size=64, n_layer=2, n_head=4)),
    "falcon": ("FalconForCausalLM", "FalconConfig", dict(vocab_size=320, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, new_decoder_architecture=True, num_kv_heads=2)),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", GROUPED),
    "starcoder2": ("Starcoder2ForCausalLM", "Starcoder2Config", dict(GROUPED, sliding_window=None)),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", GROUPED),
    "olmoe": ("OlmoeForCausalLM", "OlmoeConfig", dict(GROUPED, num_experts=4, num_experts_per_tok=2)),
    "granite": ("GraniteForCausalLM", "GraniteConfig", dict(GROUPED, attention_multiplier=0.25, embedding_multiplier=2.0, residual_multiplier=0.5, logits_scaling=2.0)),
    "cohere": ("CohereForCausalLM", "CohereConfig", GROUPED),
    "deepseek3": ("DeepseekV3ForCausalLM", "DeepseekV3Config", dict(COMMON, num_key_value_heads=4, q_lora_rank=32, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16, n_routed_experts=8, num_experts_per_tok=2, n_group=2, topk_group=1, moe_intermediate_size=32, first_k_dense_replace=1, n_shared_experts=1)),
    "mamba": ("MambaForCausalLM", "MambaConfig", dict(vocab_size=320, hidden_size=64, num_hidden_layers=2, state_size=8)),
    "bert": ("BertModel", "BertConfig", dict(COMMON)),
    "roberta": ("RobertaModel", "RobertaConfig", dict(COMMON, type_vocab_size=1, pad_token_id=1)),
    "lfm2": ("Lfm2ForCausalLM", "Lfm2Config", dict(GROUPED, num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], block_auto_adjust_ff_dim=False)),
    "jamba": ("JambaForCausalLM", "JambaConfig", dict(GROUPED, num_hidden_layers=4, attn_layer_period=4, attn_layer_offset=2, expert_layer_period=2, expert_layer_offset=1, num_experts=4, num_experts_per_tok=2, mamba_d_state=8, use_mamba_kernels=False)),
    "qwen3next": ("Qwen3NextForCausalLM", "Qwen3NextConfig", dict(HEAD, **EXPERTS, num_hidden_layers=4, shared_expert_intermediate_size=64, linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4)),
    "granitehybrid": ("GraniteMoeHybridForCausalLM", "GraniteMoeHybridConfig", dict(GROUPED, layer_types=["mamba", "attention"], mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=1, mamba_d_state=16, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=128)),
    "qwen3vl": ("Qwen3VLForConditionalGeneration", "Qwen3VLConfig", dict(text_config=dict(HEAD, rope_scaling=dict(rope_type="default", mrope_section=[3, 3, 2])), vision_config=TOWER)),
    "qwen3vlmoe": ("Qwen3VLMoeForConditionalGeneration", "Qwen3VLMoeConfig", dict(text_config=dict(HEAD, **EXPERTS, rope_scaling=dict(rope_type="default", mrope_section=[3, 3, 2])), vision_config=TOWER)),
}

# Classes that no file without a vocabulary tells from others.
CLASSES = {"RobertaModel": ("--class", "RobertaModel")}


def run(*command):
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
    return done.stderr


def restored(ggmill, work, source, name, *options):
    run(ggmill, "convert", source, "-o", work / f"{name}.gguf", "--no-vocab", "--quiet", *options)
    run(ggmill, "convert", work / f"{name}.gguf", "--to", "safetensors", "-o", work / name, *CLASSES.get(source_class(source), ()))
    return work / name


def source_class(source):
    return json.loads((source / "config.json").read_text())["architectures"][0]


def logits(model, tokens):
    with torch.no_grad():
        found = model.eval()(tokens)
    return found.logits if hasattr(found, "logits") else found.last_hidden_state


def family(ggmill, name, work):
    class_name, config_name, values = FAMILIES[name]
    torch.manual_seed(len(name))
    model_class = getattr(transformers, class_name)
    model = model_class(getattr(transformers, config_name)(**values))
    # What is always one or zero when it is made would hide a mistake.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
            # Numbers that BF16 has, and so have survived a sum with 1.
            parameter.copy_(parameter.to(torch.bfloat16).float())
    tokens = torch.tensor([[7, 1, 200, 31, 5, 99, 42, 3]])
    source = work / "source"
    model.save_pretrained(source)
    expected = logits(model_class.from_pretrained(source, torch_dtype=torch.float32, attn_implementation="eager"), tokens)
    back = restored(ggmill, work, source, "back", "--type", "f32")
    found_class = json.loads((back / "config.json").read_text())["architectures"][0]
    auto = transformers.AutoModelForCausalLM if "CausalLM" in class_name or "LMHead" in class_name else transformers.AutoModel
    options = {}
    if "vision_config" in values:
        auto = transformers.AutoModelForImageTextToText
        options["config"] = transformers.AutoConfig.from_pretrained(back)
        options["config"].vision_config = model.config.vision_config
    if "use_mamba_kernels" in values:
        # Without it the library computes on other machines only; no file says it.
        options["use_mamba_kernels"] = values["use_mamba_kernels"]
    found, told = auto.from_pretrained(back, torch_dtype=torch.float32, attn_implementation="eager", output_loading_info=True, **options)
    # No file has the pooler of a model for embeddings, nor the tower for images.
    missing = [key for key in told["missing_keys"] if not key.startswith(("pooler.", "model.visual."))]
    if missing or told["unexpected_keys"] or told["mismatched_keys"]:
        return f"DIFFERS: {told}"
    given = logits(found, tokens)
    if not torch.equal(given, expected):
        return f"DIFFERS: logits by up to {(given - expected).abs().max().item():.3g} ({found_class})"
    # In 16 bits, by the types of the file.
    half = work / "half"
    model.to(torch.bfloat16).save_pretrained(half)
    again = restored(ggmill, work, half, "again", "--type", "auto")
    ours, theirs = load_file(again / "model.safetensors"), load_file(half / "model.safetensors")
    # A tied output is written once, under one of its names.
    for key, tensor in theirs.items():
        if key.startswith(("pooler.", "model.visual.")):
            continue
        if key not in ours:
            return f"DIFFERS: {key} is missing in bf16"
        if "position_embeddings" in key and class_name in CLASSES:
            # The first rows are for padding, and not in the file.
            first = model.config.pad_token_id + 1
            ours[key], tensor = ours[key][first:], tensor[first:]
        if ours[key].dtype != tensor.dtype or not torch.equal(ours[key], tensor):
            return f"DIFFERS: {key} in bf16 ({ours[key].dtype})"
    return f"equal ({found_class})"


def check_vocabularies(ggmill, directory):
    """The IDs of texts, as llama.cpp's own vectors beside its vocabularies have them."""
    wrong = 0
    for path in sorted(Path(directory).glob("*.gguf")):
        texts, ids = Path(f"{path}.inp"), Path(f"{path}.out")
        if not texts.exists():
            continue
        with tempfile.TemporaryDirectory() as work:
            target = Path(work) / "tokenizer"
            try:
                run(ggmill, "convert", path, "--to", "safetensors", "--vocab-only", "-o", target)
                tokenizer = transformers.AutoTokenizer.from_pretrained(target)
            except Exception as error:
                print(f"refused  {path.name}: {str(error)[:150]}")
                continue
        texts = texts.read_bytes().decode().split("\n__ggml_vocab_test__\n")
        ids = [[int(number) for number in line.split()] for line in ids.read_text().split("\n")]
        differing = [text for text, expected in zip(texts, ids) if tokenizer.encode(text, add_special_tokens=False) != expected]
        wrong += bool(differing)
        print(f"{'DIFFERS' if differing else 'equal'}  {path.name}: {len(texts) - len(differing)} of {len(texts)} texts {differing[:3] if differing else ''}")
    return wrong


def main(ggmill, *names):
    wrong = 0
    for name in names or FAMILIES:
        with tempfile.TemporaryDirectory() as work:
            try:
                found = family(ggmill, name, Path(work))
            except Exception as error:
                found = f"refused: {str(error)[:300]}"
        wrong += not found.startswith("equal")
        print(f"{name}: {found}", flush=True)
    vocabularies = os.environ.get("GGMILL_VOCABULARIES")
    if vocabularies:
        wrong += check_vocabularies(ggmill, vocabularies)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
