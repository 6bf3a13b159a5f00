"""Writes a small checkpoint of LLaMA 3.2 in Meta's own layout (params.json, consolidated.00.pth, a tokenizer.model of ranks), for the tests of ggmill-convert, with
hashes of what the reference converter makes of it in Hugging Face's layout: of all metadata, and of each tensor, as the two layouts order tensors otherwise.

    python meta_llama3.py LLAMA_CPP DIRECTORY

LLAMA_CPP is a llama.cpp source tree (that of llama-cpp-python 0.3.36), DIRECTORY crates/ggmill-convert/tests/fixtures/own-layouts; the interpreter needs torch
2.11.0, transformers 4.57.6 and gguf 0.19.0. The step between is that of convert_llama_weights_to_hf.py of transformers with `--llama_version 3.2`: its rows of
rotary heads, its numbers, the library's own converter of ranks, and the tokens that are put around a text. Its generation_config.json is left out: it has the same
numbers for every model. The reference does not know the tokenizer, so it is told that its pre-tokenizer is `llama-bpe`.
"""

import base64
import hashlib
import json
import runpy
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import processors
from transformers import LlamaConfig, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import TikTokenConverter

LLAMA_CPP, OUT = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path[:0] = [str(LLAMA_CPP), str(LLAMA_CPP / "gguf-py")]

import conversion  # noqa: E402
import gguf  # noqa: E402

NAME = "meta-3.2"
TEXT = b"the the then there that than hat has was a an and in on once upon"
SPECIAL = [
    "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>",
    "<|reserved_special_token_2|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>",
] + [f"<|reserved_special_token_{number}|>" for number in range(3, 248)]
DIM, HEADS, KV, HIDDEN = 16, 2, 1, 32


def ranks():
    """Byte pairs of the text, the most frequent first, after the bytes."""
    found = [bytes([byte]) for byte in range(256)]
    words = [[bytes([byte]) for byte in word] for word in TEXT.split(b" ")]
    for _ in range(12):
        counts = {}
        for word in words:
            for pair in zip(word, word[1:]):
                counts[pair] = counts.get(pair, 0) + 1
        left, right = max(counts, key=lambda pair: (counts[pair], pair))
        found.append(left + right)
        for word in words:
            at = 0
            while at + 1 < len(word):
                if word[at] == left and word[at + 1] == right:
                    word[at:at + 2] = [left + right]
                at += 1
    return list(dict.fromkeys(found))


def main():
    place = OUT / NAME
    place.mkdir(exist_ok=True)
    tokens = ranks()
    (place / "tokenizer.model").write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)))
    rows = len(tokens) + len(SPECIAL)
    params = dict(dim=DIM, ffn_dim_multiplier=1.5, multiple_of=16, n_heads=HEADS, n_kv_heads=KV, n_layers=1, norm_eps=1e-05, rope_theta=500000.0,
                  use_scaled_rope=True, vocab_size=rows)
    (place / "params.json").write_text(json.dumps(params) + "\n")
    torch.manual_seed(3)
    shapes = {
        "tok_embeddings.weight": [rows, DIM], "layers.0.attention.wq.weight": [DIM, DIM], "layers.0.attention.wk.weight": [DIM // HEADS * KV, DIM],
        "layers.0.attention.wv.weight": [DIM // HEADS * KV, DIM], "layers.0.attention.wo.weight": [DIM, DIM], "layers.0.feed_forward.w1.weight": [HIDDEN, DIM],
        "layers.0.feed_forward.w3.weight": [HIDDEN, DIM], "layers.0.feed_forward.w2.weight": [DIM, HIDDEN], "layers.0.attention_norm.weight": [DIM],
        "layers.0.ffn_norm.weight": [DIM], "norm.weight": [DIM],
    }
    own = {name: torch.randn(shape).to(torch.bfloat16) for name, shape in shapes.items()}
    own["output.weight"] = own["tok_embeddings.weight"]
    torch.save(own, place / "consolidated.00.pth")
    with tempfile.TemporaryDirectory() as work:
        theirs = Path(work) / NAME
        theirs.mkdir()
        written(theirs, own, rows)
        expected = {kind: converted(theirs, Path(work) / "out.gguf", kind) for kind in ("f16", "bf16")}
    path = OUT / "expected.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {NAME: expected}, indent=2) + "\n")
    print(expected)


def written(place, own, rows):
    """The checkpoint in Hugging Face's layout."""
    def halves(weight, heads):
        return weight.view(heads, weight.shape[0] // heads // 2, 2, DIM).transpose(1, 2).reshape(weight.shape).contiguous()

    layer = {
        "self_attn.q_proj": halves(own["layers.0.attention.wq.weight"], HEADS), "self_attn.k_proj": halves(own["layers.0.attention.wk.weight"], KV),
        "self_attn.v_proj": own["layers.0.attention.wv.weight"], "self_attn.o_proj": own["layers.0.attention.wo.weight"],
        "mlp.gate_proj": own["layers.0.feed_forward.w1.weight"], "mlp.down_proj": own["layers.0.feed_forward.w2.weight"],
        "mlp.up_proj": own["layers.0.feed_forward.w3.weight"], "input_layernorm": own["layers.0.attention_norm.weight"],
        "post_attention_layernorm": own["layers.0.ffn_norm.weight"],
    }
    tensors = {f"model.layers.0.{name}.weight": weight for name, weight in layer.items()}
    save_file(tensors | {"model.embed_tokens.weight": own["tok_embeddings.weight"], "model.norm.weight": own["norm.weight"]}, place / "model.safetensors")
    made = TikTokenConverter(str(OUT / NAME / "tokenizer.model"), additional_special_tokens=SPECIAL).converted()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<|begin_of_text|>", eos_token="<|end_of_text|>", clean_up_tokenization_spaces=True)
    begin, end = (tokenizer.convert_tokens_to_ids(token) for token in SPECIAL[:2])
    tokenizer._tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|>:0 $A:0 <|begin_of_text|>:1 $B:1", special_tokens=[("<|begin_of_text|>", begin)]),
    ])
    tokenizer.save_pretrained(place)
    scaling = dict(factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192, rope_type="llama3")
    LlamaConfig(
        architectures=["LlamaForCausalLM"], hidden_size=DIM, intermediate_size=HIDDEN, num_attention_heads=HEADS, num_hidden_layers=1, rms_norm_eps=1e-05, num_key_value_heads=KV,
        vocab_size=rows, rope_theta=500000.0, rope_scaling=scaling, max_position_embeddings=131072, bos_token_id=begin, eos_token_id=end, tie_word_embeddings=True,
    ).save_pretrained(place)


def converted(place, out, kind):
    """The hashes of the reference's metadata and tensors."""
    conversion.base.TextModel.get_vocab_base_pre = lambda model, tokenizer: "llama-bpe"
    sys.argv = ["convert_hf_to_gguf.py", str(place), "--outfile", str(out), "--outtype", kind]
    runpy.run_path(str(LLAMA_CPP / "convert_hf_to_gguf.py"), run_name="__main__")
    file = gguf.GGUFReader(out)
    # Behind magic, version and counts, before the first tensor info.
    metadata = out.read_bytes()[24:file.tensors[0].field.offset]
    return dict(metadata=hashlib.sha256(metadata).hexdigest(), tensors={each.name: hashlib.sha256(each.data.tobytes()).hexdigest() for each in file.tensors})


main()
