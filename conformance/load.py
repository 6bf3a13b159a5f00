"""Has libllama load the files that `ggmill convert` makes of the recipes of classes.py, and compute with one token.

    python load.py [NAME]...

Without names, all recipes of models. Each file is made at F16 and loaded, its vocabulary included, in a process of its own. A file without a vocabulary is given the
numbers of its tokens and of their types first (`ARCHITECTURE.vocab_size`, `tokenizer.ggml.token_type_count`), which the reference converter writes with a vocabulary only and
libllama needs. Where there is a vocabulary, a text becomes tokens and the first one is computed with; otherwise token 1 is. Encoders encode it. All logits, or the embedding,
have to be finite numbers.

Printed is each file that does not load or run, with the library's reason, and whether the reference converter's file is the same one to the byte; then counts. Exit status 1
where a file that is not the reference's does not load.

Environment: as for classes.py; the interpreter that runs this has numpy and llama-cpp-python 0.3.36.
"""

import ctypes
import math
import os
import subprocess
import sys

import classes
import llama_cpp
from libllama import alone

TEXT = b"the in 12 and"
# What a file that the reference does not make as well must not do.
UNSOUND = ("does not load", "ends the process", "fails")


def computed(path, has_vocabulary, is_embedding):
    """What happened, in a word."""
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers, params.use_mmap = 0, False
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        return "does not load"
    vocabulary = llama_cpp.llama_model_get_vocab(model)
    token = 1
    if has_vocabulary:
        tokens = (llama_cpp.llama_token * 64)()
        count = llama_cpp.llama_tokenize(vocabulary, TEXT, len(TEXT), tokens, 64, True, True)
        if count < 1:
            return f"loads, no tokens ({count})"
        token = tokens[0]
    options = llama_cpp.llama_context_default_params()
    options.n_ctx, options.n_batch, options.n_ubatch, options.n_threads, options.n_threads_batch = 64, 32, 32, 1, 1
    has_decoder = llama_cpp.llama_model_has_decoder(model)
    options.embeddings = is_embedding or not has_decoder
    context = llama_cpp.llama_init_from_model(model, options)
    if not context:
        return "loads, no context"
    batch = llama_cpp.llama_batch_get_one((llama_cpp.llama_token * 1)(token), 1)
    if llama_cpp.llama_model_has_encoder(model):
        if llama_cpp.llama_encode(context, batch) != 0:
            return "loads, does not encode"
    if has_decoder and llama_cpp.llama_decode(context, batch) != 0:
        return "loads, does not decode"
    if options.embeddings:
        found = llama_cpp.llama_get_embeddings_seq(context, 0) or llama_cpp.llama_get_embeddings(context)
        ranks = llama_cpp.llama_pooling_type(context) == llama_cpp.LLAMA_POOLING_TYPE_RANK
        count = llama_cpp.llama_model_n_cls_out(model) if ranks else llama_cpp.llama_model_n_embd(model)
    else:
        found, count = llama_cpp.llama_get_logits_ith(context, -1), llama_cpp.llama_vocab_n_tokens(vocabulary)
    if not found:
        return "loads, no numbers"
    return "runs" if all(math.isfinite(found[i]) for i in range(count)) else "runs, numbers are not finite"


def look(name):
    """What happens with our file of a recipe, and whether the reference's is the same."""
    job = classes.Job(name)
    ours, printed = job.ours("f16", None)
    if ours is None:
        return "not converted", printed.strip().splitlines()[:1], None
    theirs, _ = job.reference("f16")
    is_same = theirs is not None and theirs.read_bytes() == ours.read_bytes()
    file = classes.Gguf(ours)
    architecture = file.keys["general.architecture"][1]
    has_vocabulary = file.keys.get("tokenizer.ggml.model", (None, "none"))[1] != "none"
    # What a vocabulary would say, by the tensor that has a row for each.
    of_vocabulary = {f"{architecture}.vocab_size": "token_embd.weight", "tokenizer.ggml.token_type_count": "token_types.weight"}
    counts = [f"{key}:u32={file.tensors[name][1][1]}" for key, name in of_vocabulary.items() if key not in file.keys and name in file.tensors]
    if not has_vocabulary and counts:
        command = [os.environ["GGMILL"], "edit", str(ours), "-o", str(ours) + ".open", "--force", "--no-check"]
        subprocess.run([*command, *(word for count in counts for word in ("--set", count))], check=True, capture_output=True)
        os.replace(str(ours) + ".open", ours)
    is_embedding = f"{architecture}.pooling_type" in file.keys or file.keys.get(f"{architecture}.attention.causal", (None, True))[1] is False
    word, reasons = alone(computed, ours, has_vocabulary, is_embedding)
    ours.unlink()
    word = word or ("ends the process" if reasons and "ended by" in reasons[-1] else "fails")
    if any("model architecture: " in reason for reason in reasons):
        return "has an architecture that libllama does not know", [], (has_vocabulary, is_same)
    reasons = [reason for reason in reasons if "failed to load model" not in reason]
    return word, reasons[-2:], (has_vocabulary, is_same)


def main():
    names = sys.argv[1:] or classes.recipe_names("classes", "mixtures")
    counts, wrong = {}, 0
    for name in names:
        word, reasons, facts = look(name)
        has_vocabulary, is_same = facts or (False, False)
        row = counts.setdefault(word, {})
        for what, is_true in (("all", True), ("with vocabulary", has_vocabulary), ("the reference's bytes", is_same)):
            row[what] = row.get(what, 0) + is_true
        if word != "runs":
            same = "the reference's file is the same" if is_same else "the reference has no such file"
            wrong += not is_same and word in UNSOUND
            print(f"{name}: {word} ({same})", *reasons, sep="\n  ", flush=True)
    print(f"{len(names)} recipes:")
    for word, row in sorted(counts.items(), key=lambda item: -item[1]["all"]):
        print(f"  {word}: " + ", ".join(f"{count} {what}" for what, count in row.items()))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
