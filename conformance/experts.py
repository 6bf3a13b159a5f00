#!/usr/bin/env python3
"""Trains small models with experts or with a recurrence on stories that tinystories260K tells, for calibrate.py: their weights are not random, and their experts differ.

usage: experts.py TEACHER OUT CLASS [--minutes N]

TEACHER is the directory of tinystories260K; OUT becomes a checkpoint of CLASS (mixtral, qwen3_moe, mamba2) with its vocabulary. It learns for as long as is allowed, so the
numbers differ from run to run; the last line has the cross entropy. Needs torch and transformers.
"""

import pathlib
import shutil
import sys
import time

import numpy as np
import torch
from fit import CONTEXT, story_tokens

SIZES = {"vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 4, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}
ATTENTION = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": CONTEXT}
EXPERTS = {"num_experts_per_tok": 2}


def model_of(name):
    import transformers as library

    if name == "mixtral":
        config = library.MixtralConfig(**SIZES, **ATTENTION, **EXPERTS, intermediate_size=128, num_local_experts=8, sliding_window=None)
        return library.MixtralForCausalLM(config)
    if name == "qwen3_moe":
        config = library.Qwen3MoeConfig(
            **SIZES, **ATTENTION, **EXPERTS, intermediate_size=128, moe_intermediate_size=64, num_experts=8, norm_topk_prob=True, decoder_sparse_step=1
        )
        return library.Qwen3MoeForCausalLM(config)
    config = library.Mamba2Config(**SIZES, num_heads=8, head_dim=16, state_size=16, n_groups=1, expand=2, chunk_size=64)
    return library.Mamba2ForCausalLM(config)


def main():
    words, minutes = sys.argv[1:], 4.0
    if "--minutes" in words:
        place = words.index("--minutes")
        minutes = float(words[place + 1])
        del words[place : place + 2]
    teacher, out, name = pathlib.Path(words[0]), pathlib.Path(words[1]), words[2]
    texts = torch.tensor(np.array(story_tokens(teacher, 128), dtype=np.int64).reshape(-1, CONTEXT))
    torch.manual_seed(0)
    model = model_of(name)
    best = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    begin, deadline, number, losses = time.monotonic(), 60 * minutes, 0, []
    while (passed := (time.monotonic() - begin) / deadline) < 1:
        number += 1
        for group in best.param_groups:
            group["lr"] = 4e-3 * min(number / 30, 1) * max(0.02, 1 - passed)
        start = int(torch.randint(CONTEXT - 128, ()))
        batch = texts[torch.randint(len(texts), (16,)), start : start + 128]
        loss = model(input_ids=batch, labels=batch).loss
        best.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        best.step()
        losses.append(float(loss.detach()))
        if number % 50 == 0:
            print(f"{60 * passed * minutes:.0f} s, step {number}: cross entropy {np.mean(losses[-50:]):.3f}", flush=True)
    model.save_pretrained(out)
    for file in ["tokenizer.model", "tokenizer_config.json", "generation_config.json"]:
        shutil.copy(teacher / file, out / file)
    print(f"{number} steps: cross entropy {np.mean(losses[-50:]):.3f}")


main()
