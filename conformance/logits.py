"""Compares what ggmill-run computes with what libllama does: logits, or embeddings of encoders, of tiny models with weights by chance.

    python logits.py compare DIRECTORY             print the error of each model
    python logits.py record DIRECTORY FIXTURES     the same, and write what libllama computes to FIXTURES/NAME.f32

DIRECTORY is written by `cargo run -p ggmill-run --example models DIRECTORY`: models, the tokens, and ggmill's results. libllama computes with F32 keys and values, without
flash attention (but for models that it computes differently without) and without repacked weights, on one thread. The error is NMSE: the sum of squared differences divided by the sum of squares of libllama's. Exit status 1 where
it is more than models.txt allows, or where the greatest logit of a token is another one.
Models that libllama does not run are left out: logits_transformers.py compares them.
A model may have a text of its own, NAME.tokens. Tokens of the vocabulary that ggmill never predicts (their logit is the least number there is) are left out of the error and of what is
recorded. They must be those that libllama never predicts after the first token of the text: it leaves the logits after all others of a batch as they are (Chameleon).
libllama computes a model with whole runs of tokens (RUNS) several times, as it attends to parts of another run otherwise.
Recorded are as many tokens, at equal distances, as tokens.txt says first: float32, little-endian, a row for each.
Needs llama-cpp-python 0.3.36 and numpy.
"""

import sys
from pathlib import Path

import llama_cpp
import numpy
from libllama import alone


# Models whose attention is sparse only with flash attention. Blocks that are not sparse have keys and values of half precision then, so the model has none.
WITH_FLASH = ["minimax-m3"]
# Models whose last block, and no other, attends to the whole runs of so many tokens that an indexer picks, up to a budget: the key of it, and the budget. libllama fills up what the last run, which
# is not whole, leaves of its length with tokens of the next best run; which of them is not defined. With a budget that is less by as many it attends to whole runs, so each of these numbers
# is computed apart, for the tokens that it is right for.
RUNS = {"qwen4exp-sparse": (4, "qwen4exp.attention.indexer.top_k", 8)}


def of(tokens):
    """A batch with all tokens of a text, the output of each of which is computed."""
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for place, token in enumerate(tokens):
        batch.token[place], batch.pos[place], batch.n_seq_id[place], batch.logits[place] = token, place, 1, 1
        batch.seq_id[place][0] = 0
    return batch


def computed(path, tokens, is_encoder, source, changed=None):
    """A row of numbers for each token. Where there is a source, the encoder runs over it first. A key of metadata may have another number."""
    params = llama_cpp.llama_model_default_params()
    if changed:
        # The second one, which is empty, is the end.
        overrides = (llama_cpp.llama_model_kv_override * 2)()
        overrides[0].tag, overrides[0].key, overrides[0].value.val_i64 = llama_cpp.LLAMA_KV_OVERRIDE_TYPE_INT, changed[0].encode(), changed[1]
        params.kv_overrides = overrides
    params.n_gpu_layers, params.use_mmap, params.use_extra_bufts = 0, False, False
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise RuntimeError("error: does not load")
    options = llama_cpp.llama_context_default_params()
    options.n_ctx = options.n_batch = options.n_ubatch = max(64, len(tokens))
    options.n_threads = options.n_threads_batch = 1
    options.type_k = options.type_v = llama_cpp.GGML_TYPE_F32
    has_flash = path.stem in WITH_FLASH
    options.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED if has_flash else llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    options.embeddings = is_encoder
    options.pooling_type = llama_cpp.LLAMA_POOLING_TYPE_NONE
    context = llama_cpp.llama_init_from_model(model, options)
    if source and llama_cpp.llama_encode(context, of(source)) != 0:
        raise RuntimeError("error: the encoder does not run")
    run = llama_cpp.llama_encode if is_encoder else llama_cpp.llama_decode
    if run(context, of(tokens)) != 0:
        raise RuntimeError("error: does not run")
    take = llama_cpp.llama_get_embeddings_ith if is_encoder else llama_cpp.llama_get_logits_ith
    count = llama_cpp.llama_model_n_embd_out(model) if is_encoder else llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    return [[take(context, place)[i] for i in range(count)] for place in range(len(tokens))]


def of_whole_runs(path, tokens):
    """The same for a model with whole runs of tokens."""
    length, key, budget = RUNS[path.stem]
    by_rest = [computed(path, tokens, False, [], (key, budget - (length - 1 - rest))) for rest in range(length)]
    return [by_rest[(place + 1) % length][place] for place in range(len(tokens))]


def main():
    word, directory = sys.argv[1], Path(sys.argv[2])
    recorded, *texts = (directory / "tokens.txt").read_text().splitlines()
    tokens, source = ([int(token) for token in text.split()] for text in texts)
    wrong = 0
    for line in (directory / "models.txt").read_text().splitlines():
        name, limit, kind, peer = line.split()
        if peer != "libllama":
            continue
        path = directory / f"{name}.gguf"
        own = path.with_suffix(".tokens")
        text = [int(token) for token in own.read_text().split()] if own.exists() else tokens
        if name in RUNS:
            rows, reasons = alone(of_whole_runs, path, text)
        else:
            rows, reasons = alone(computed, path, text, kind == "embedding", source if kind == "logits-of-two" else [])
        if rows is None:
            print(f"{name}: libllama fails", *reasons[-3:], sep="\n  ")
            wrong += 1
            continue
        theirs = numpy.array(rows, dtype=numpy.float32)
        ours = numpy.fromfile(path.with_suffix(".ours"), dtype="<f4").reshape(theirs.shape)
        least = numpy.finfo(numpy.float32).min
        never = ours == least
        are_theirs = (never == (theirs[0] == least)).all()
        counted = ours.astype(float)[~never], theirs.astype(float)[~never]
        error = float(((counted[0] - counted[1]) ** 2).sum() / (counted[1] ** 2).sum())
        same = float((ours.argmax(1) == numpy.where(never, least, theirs).argmax(1)).mean())
        is_fine = error <= float(limit) and (same == 1 or kind == "embedding") and are_theirs
        wrong += not is_fine
        print(f"{name}: NMSE {error:.1e}, same greatest {same:.0%}{'' if is_fine else ', too far off'}", flush=True)
        if word == "record":
            every = len(theirs) // int(recorded)
            theirs[::every][~never[::every]].astype("<f4").tofile(Path(sys.argv[3]) / f"{name}.f32")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
