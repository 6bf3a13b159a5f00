"""Compares what ggmill-run computes with what transformers does, for tiny models of architectures that libllama does not run.

    python logits_transformers.py compare DIRECTORY             print the error of each model
    python logits_transformers.py record DIRECTORY FIXTURES     the same, and write what transformers computes to FIXTURES/NAME.f32

DIRECTORY is written by `cargo run -p ggmill-run --example models DIRECTORY`. The weights of a file, whose types are F32, become those of a model of transformers, which
computes in double precision. Error, exit status and what is recorded are those of logits.py.
Needs torch, transformers (4.57.3 and 5.23.0 were used), gguf 0.19.0 and numpy.
"""

import sys
from pathlib import Path

import gguf
import numpy
import torch
import transformers


def number(reader, key):
    return reader.fields[key].contents()


def gptj(reader):
    key = lambda name: number(reader, f"gptj.{name}")
    config = transformers.GPTJConfig(
        vocab_size=259, n_positions=key("context_length"), n_embd=key("embedding_length"), n_layer=key("block_count"), n_head=key("attention.head_count"),
        rotary_dim=key("rope.dimension_count"), n_inner=key("feed_forward_length"), layer_norm_epsilon=key("attention.layer_norm_epsilon"), tie_word_embeddings=False,
    )
    names = {"token_embd": "transformer.wte", "output_norm": "transformer.ln_f", "output": "lm_head"}
    blocks = {
        "attn_norm": "ln_1", "attn_q": "attn.q_proj", "attn_k": "attn.k_proj", "attn_v": "attn.v_proj", "attn_output": "attn.out_proj", "ffn_up": "mlp.fc_in", "ffn_down": "mlp.fc_out",
    }
    return transformers.GPTJForCausalLM, config, names, "transformer.h", blocks


def rwkv(reader):
    key = lambda name: number(reader, f"rwkv.{name}")
    config = transformers.RwkvConfig(
        vocab_size=259, context_length=key("context_length"), hidden_size=key("embedding_length"), num_hidden_layers=key("block_count"), attention_hidden_size=key("embedding_length"),
        intermediate_size=key("feed_forward_length"), layer_norm_epsilon=key("attention.layer_norm_epsilon"), rescale_every=0, tie_word_embeddings=False,
    )
    names = {"token_embd": "rwkv.embeddings", "token_embd_norm": "rwkv.blocks.0.pre_ln", "output_norm": "rwkv.ln_out", "output": "head"}
    blocks = {
        "attn_norm": "ln1", "attn_norm_2": "ln2", "time_mix_decay": "attention.time_decay", "time_mix_first": "attention.time_first", "time_mix_lerp_k": "attention.time_mix_key",
        "time_mix_lerp_v": "attention.time_mix_value", "time_mix_lerp_r": "attention.time_mix_receptance", "time_mix_key": "attention.key", "time_mix_value": "attention.value",
        "time_mix_receptance": "attention.receptance", "time_mix_output": "attention.output", "channel_mix_lerp_k": "feed_forward.time_mix_key",
        "channel_mix_lerp_r": "feed_forward.time_mix_receptance", "channel_mix_key": "feed_forward.key", "channel_mix_value": "feed_forward.value",
        "channel_mix_receptance": "feed_forward.receptance",
    }
    return transformers.RwkvForCausalLM, config, names, "rwkv.blocks", blocks


def whisper(reader):
    key = lambda name: number(reader, f"whisper.{name}")
    width = key("encoder.embedding_length")
    config = transformers.WhisperConfig(
        vocab_size=259, num_mel_bins=key("encoder.mels_count"), d_model=width, encoder_layers=key("encoder.block_count"), decoder_layers=key("decoder.block_count"),
        encoder_attention_heads=key("encoder.attention.head_count"), decoder_attention_heads=key("decoder.attention.head_count"), encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width, max_source_positions=key("encoder.context_length"), max_target_positions=key("decoder.context_length"), pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1,
    )
    names, blocks = {}, {}
    for side in ["encoder", "decoder"]:
        names |= {f"{side}.positional_embedding": f"model.{side}.embed_positions.weight"}
    names |= {"encoder.conv1": "model.encoder.conv1", "encoder.conv2": "model.encoder.conv2", "encoder.ln_post": "model.encoder.layer_norm", "decoder.ln": "model.decoder.layer_norm",
              "decoder.token_embedding": "model.decoder.embed_tokens"}
    for ours, theirs in [("attn", "self_attn"), ("cross_attn", "encoder_attn")]:
        blocks |= {f"{ours}_ln": f"{theirs}_layer_norm"}
        blocks |= {f"{ours}.{name}": f"{theirs}.{other}" for name, other in [("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("out", "out_proj")]}
    blocks |= {"mlp_ln": "final_layer_norm", "mlp.0": "fc1", "mlp.2": "fc2"}
    return transformers.WhisperForConditionalGeneration, config, names, "model.{}.layers", blocks


CLASSES = {"gptj": gptj, "rwkv": rwkv, "whisper": whisper}


def computed(path, tokens, described):
    reader = gguf.GGUFReader(path)
    kind, config, names, block_names, blocks = described(reader)
    with torch.device("cpu"):
        model = kind(config).double().eval()
    known = dict(model.named_parameters())
    given = {}
    for tensor in reader.tensors:
        stem, _, ending = tensor.name.rpartition(".")
        if stem.startswith("blk."):
            _, block, stem = stem.split(".", 2)
            name = f"{block_names}.{block}.{blocks[stem]}"
        elif ".blocks." in stem:
            side, _, block, stem = stem.split(".", 3)
            name = f"{block_names.format(side)}.{block}.{blocks[stem]}"
        else:
            name = names[tensor.name if tensor.name in names else stem]
        name = name if name in known else f"{name}.{ending}"
        given[name] = torch.from_numpy(tensor.data.astype(numpy.float64)).reshape(known[name].shape)
    missing = sorted(set(known) - set(given))
    if missing:
        raise SystemExit(f"{path}: no weights for {missing}")
    with torch.no_grad():
        for name, value in given.items():
            known[name].copy_(value)
        source = path.with_suffix(".source")
        if source.exists():
            # Vectors of two frames each; transformers has the frames side by side.
            frames = numpy.fromfile(source, dtype="<f4").astype(numpy.float64).reshape(-1, config.num_mel_bins)
            return model(input_features=torch.from_numpy(frames.T.copy())[None], decoder_input_ids=torch.tensor([tokens])).logits[0].numpy()
        return model(torch.tensor([tokens])).logits[0].numpy()


def main():
    word, directory = sys.argv[1], Path(sys.argv[2])
    recorded, tokens, _ = (directory / "tokens.txt").read_text().splitlines()
    tokens = [int(token) for token in tokens.split()]
    wrong = 0
    for line in (directory / "models.txt").read_text().splitlines():
        name, limit, _, peer = line.split()
        if peer != "transformers":
            continue
        path = directory / f"{name}.gguf"
        theirs = computed(path, tokens, CLASSES[name])
        ours = numpy.fromfile(path.with_suffix(".ours"), dtype="<f4").reshape(theirs.shape)
        error = float(((ours - theirs) ** 2).sum() / (theirs**2).sum())
        same = float((ours.argmax(1) == theirs.argmax(1)).mean())
        is_fine = error <= float(limit) and same == 1
        wrong += not is_fine
        print(f"{name}: NMSE {error:.1e}, same greatest {same:.0%}{'' if is_fine else ', too far off'}", flush=True)
        if word == "record":
            theirs[:: len(theirs) // int(recorded)].astype("<f4").tofile(Path(sys.argv[3]) / f"{name}.f32")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
