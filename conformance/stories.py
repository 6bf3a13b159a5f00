#!/usr/bin/env python3
"""Trains a llama whose rows k-quants take, on stories that tinystories260K tells: a model of F32 numbers that have never been quantized, for fit.py.

usage: stories.py TEACHER OUT [--minutes N] [--width N]

TEACHER is the directory of tinystories260K; OUT becomes a directory of the same layout, with its vocabulary. The student has 6 blocks of width 256 (8 heads, 4 KV
heads, feed-forward 768): 4.9 million parameters. It learns the teacher's probabilities (the cross entropy with them), over texts of 256 tokens that the teacher
samples, for as long as is allowed: so the numbers differ from run to run, and what is measured of a model is to be said with its size and loss. Needs numpy and jax.
"""

import json
import pathlib
import shutil
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

CONTEXT, BATCH = 256, 16


def read(directory):
    config = json.loads((directory / "config.json").read_text())
    data = (directory / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    at = lambda entry: data[8 + length + entry["data_offsets"][0] : 8 + length + entry["data_offsets"][1]]
    return config, {name: jnp.array(np.frombuffer(at(entry), np.float32).reshape(entry["shape"])) for name, entry in header.items() if name != "__metadata__"}


def write(directory, config, weights):
    directory.mkdir(parents=True, exist_ok=True)
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, values in sorted(weights.items()):
        values = np.asarray(values, np.float32)
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    head = json.dumps(header).encode()
    (directory / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + data)
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def blocks(config):
    return range(config["num_hidden_layers"])


def norm(x, weight, config):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * weight


def turned(x, places):
    """`x` has the dimensions text, place, head, number."""
    half = x.shape[-1] // 2
    angles = places[:, None] * (10000.0 ** -(jnp.arange(half) / half))[None]
    cosine, sine = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)


def forward(config, weights, tokens, places, cache):
    """Logits of some places of each text, and the keys and values of all places so far."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size = config["hidden_size"] // heads
    x = weights["model.embed_tokens.weight"][tokens]
    count, length, width = x.shape
    kept = []
    for layer in blocks(config):
        at = lambda name: weights[f"model.layers.{layer}.{name}.weight"]
        h = norm(x, at("input_layernorm"), config)
        q = turned((h @ at("self_attn.q_proj").T).reshape(count, length, heads, size), places)
        k = turned((h @ at("self_attn.k_proj").T).reshape(count, length, kv_heads, size), places)
        v = (h @ at("self_attn.v_proj").T).reshape(count, length, kv_heads, size)
        seen = places
        if cache is not None:
            k, v = (jax.lax.dynamic_update_slice(old, new, (0, places[0], 0, 0)) for old, new in zip(cache[layer], (k, v)))
            seen = jnp.arange(k.shape[1])
        kept.append((k, v))
        q = q.reshape(count, length, kv_heads, heads // kv_heads, size)
        scores = jnp.einsum("bqhgd,bkhd->bhgqk", q, k) / np.sqrt(size)
        scores = jax.nn.softmax(jnp.where(seen[None, :] <= places[:, None], scores, -1e30), -1)
        x = x + jnp.einsum("bhgqk,bkhd->bqhgd", scores, v).reshape(count, length, width) @ at("self_attn.o_proj").T
        h = norm(x, at("post_attention_layernorm"), config)
        x = x + (jax.nn.silu(h @ at("mlp.gate_proj").T) * (h @ at("mlp.up_proj").T)) @ at("mlp.down_proj").T
    return norm(x, weights["model.norm.weight"], config) @ weights["model.embed_tokens.weight"].T, kept


def sampler(config, weights, count):
    """A function that samples so many texts."""
    size = config["hidden_size"] // config["num_attention_heads"]
    empty = lambda: jnp.zeros((count, CONTEXT, config["num_key_value_heads"], size))

    def step(state, place):
        tokens, cache, key = state
        logits, cache = forward(config, weights, tokens[:, None], place[None], cache)
        key, own = jax.random.split(key)
        return (jax.random.categorical(own, logits[:, 0]), cache, key), tokens

    @jax.jit
    def sample(key):
        start = (jnp.full(count, config["bos_token_id"]), [(empty(), empty()) for _ in blocks(config)], key)
        return jax.lax.scan(step, start, jnp.arange(CONTEXT))[1].T

    return sample


def fresh(config, key):
    """Weights to begin with."""
    width, hidden = config["hidden_size"], config["intermediate_size"]
    narrow = width // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], width), "model.norm.weight": (width,)}
    for layer in blocks(config):
        inner = {"self_attn.q_proj": (width, width), "self_attn.k_proj": (narrow, width), "self_attn.v_proj": (narrow, width), "self_attn.o_proj": (width, width),
                 "mlp.gate_proj": (hidden, width), "mlp.up_proj": (hidden, width), "mlp.down_proj": (width, hidden),
                 "input_layernorm": (width,), "post_attention_layernorm": (width,)}
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in inner.items()}
    weights = {}
    for name, shape in shapes.items():
        key, own = jax.random.split(key)
        deep = (2 * config["num_hidden_layers"]) ** -0.5 if name.endswith(("o_proj.weight", "down_proj.weight")) else 1
        weights[name] = jnp.ones(shape) if len(shape) == 1 else deep * shape[1] ** -0.5 * jax.random.normal(own, shape)
    weights["model.embed_tokens.weight"] *= 0.5
    return weights


def trainer(config, teacher_config, teacher):
    places = jnp.arange(CONTEXT)

    def loss(weights, tokens):
        logits = jax.nn.log_softmax(forward(config, weights, tokens, places, None)[0])
        wanted = jax.nn.softmax(forward(teacher_config, teacher, tokens, places, None)[0])
        return -(wanted * logits).sum(-1).mean(), (wanted * (jnp.log(wanted + 1e-30) - logits)).sum(-1).mean()

    @jax.jit
    def step(weights, first, second, tokens, number, rate):
        (value, divergence), slope = jax.value_and_grad(loss, has_aux=True)(weights, tokens)
        length = jnp.sqrt(sum((part * part).sum() for part in slope.values()))
        slope = {name: part / jnp.maximum(length, 1.0) for name, part in slope.items()}
        first = {name: 0.9 * first[name] + 0.1 * part for name, part in slope.items()}
        second = {name: 0.95 * second[name] + 0.05 * part * part for name, part in slope.items()}
        adam = lambda name: first[name] / (1 - 0.9**number) / (jnp.sqrt(second[name] / (1 - 0.95**number)) + 1e-8)
        weights = {name: part - rate * (adam(name) + (0.1 * part if part.ndim > 1 else 0)) for name, part in weights.items()}
        return weights, first, second, value, divergence

    return step


def main():
    words = sys.argv[1:]
    options = {"--minutes": 30.0, "--width": 256.0}
    for name in options:
        if name in words:
            place = words.index(name)
            options[name] = float(words[place + 1])
            del words[place : place + 2]
    source, out = map(pathlib.Path, words)
    teacher_config, teacher = read(source)
    width = int(options["--width"])
    config = teacher_config | {"hidden_size": width, "head_dim": width // 8, "num_hidden_layers": 6, "intermediate_size": 3 * width}
    key = jax.random.PRNGKey(0)
    weights = fresh(config, key)
    zeros = lambda: {name: jnp.zeros_like(part) for name, part in weights.items()}
    first, second = zeros(), zeros()
    sample, step = sampler(teacher_config, teacher, 32 * BATCH), trainer(config, teacher_config, teacher)
    begin, number, deadline, texts = time.monotonic(), 0, 60 * options["--minutes"], []
    while (passed := (time.monotonic() - begin) / deadline) < 1:
        if not texts:
            key, own = jax.random.split(key)
            texts = list(np.asarray(sample(own)).reshape(32, BATCH, CONTEXT))
        number += 1
        rate = 1.5e-3 * min(number / 50, 1) * max(0.02, 1 - passed)
        weights, first, second, value, divergence = step(weights, first, second, texts.pop(), number, rate)
        if number % 50 == 0:
            print(f"{60 * passed * options['--minutes']:.0f} s, {number * BATCH * CONTEXT:,} tokens: cross entropy {value:.4f}, KL divergence from the teacher {divergence:.4f}", flush=True)
            write(out, config, weights)
    write(out, config, weights)
    for name in ["tokenizer.model", "tokenizer_config.json", "generation_config.json"]:
        shutil.copy(source / name, out / name)


if __name__ == "__main__":
    main()
