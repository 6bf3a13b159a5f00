"""The sums of squared activations that libllama's matrices are multiplied with, by the rules of llama-imatrix, beside those of `ggmill imatrix make`.

    python activations.py record DIRECTORY FIXTURES NAME…        of tiny models with weights by chance: write FIXTURES/NAME.imatrix.gguf
    python activations.py compare MODEL IDS.json CONTEXT FILE    of a model over chunks of tokens: print how far the sums of an importance matrix are from libllama's

DIRECTORY is written by `cargo run -p ggmill-run --example models DIRECTORY`: models, and the tokens. libllama computes with F32 keys and values, without flash attention and
without repacked weights. The callback is told of every node of the graph: products with matrices (MUL_MAT) whose names begin with `blk.`, or of output.weight, and with those of
experts (MUL_MAT_ID), are summed in double precision, column by column. Compared are the medians of the relative differences of the columns of each matrix; exit status 1 where
that of all columns is more than 1e-4, or a count differs. IDS.json is what `ggmill imatrix make --tokens` takes, with `--process-output` and `--ctx CONTEXT`.
Needs llama-cpp-python 0.3.36, gguf 0.19.0 and numpy.
"""

import ctypes
import json
import sys
from pathlib import Path

import gguf
import llama_cpp
import numpy
from libllama import alone


class Tensor(ctypes.Structure):
    """struct ggml_tensor of ggml.h."""


Tensor._fields_ = [
    ("type", ctypes.c_int),
    ("buffer", ctypes.c_void_p),
    ("ne", ctypes.c_int64 * 4),
    ("nb", ctypes.c_size_t * 4),
    ("op", ctypes.c_int),
    ("op_params", ctypes.c_int32 * 16),
    ("flags", ctypes.c_int32),
    ("src", ctypes.POINTER(Tensor) * 10),
    ("view_src", ctypes.c_void_p),
    ("view_offs", ctypes.c_size_t),
    ("data", ctypes.c_void_p),
    ("name", ctypes.c_char * 64),
    ("extra", ctypes.c_void_p),
    ("padding", ctypes.c_char * 8),
]

base = ctypes.CDLL(str(Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"))
base.ggml_op_name.restype = ctypes.c_char_p


def numbers(tensor, dtype):
    """The elements of a tensor with any strides but that of its elements; the first dimension is the last axis."""
    size = numpy.dtype(dtype).itemsize
    last = sum((tensor.ne[i] - 1) * tensor.nb[i] for i in range(4)) + size
    memory = (ctypes.c_char * last).from_address(tensor.data)
    shape, strides = [tensor.ne[i] for i in (3, 2, 1, 0)], [tensor.nb[i] for i in (3, 2, 1, 0)]
    return numpy.ndarray(shape, dtype, memory, 0, strides)


def sums(path, texts):
    """For each matrix its sums, a row for each matrix of a stack, and the counts."""
    found = {}

    def add(pointer, ask, _):
        tensor = ctypes.cast(pointer, ctypes.POINTER(Tensor)).contents
        op = base.ggml_op_name(tensor.op)
        if op not in (b"MUL_MAT", b"MUL_MAT_ID"):
            return False
        matrix, values = tensor.src[0].contents, tensor.src[1].contents
        name = matrix.name.decode().partition("#")[2].partition("#")[0] or matrix.name.decode()
        if op == b"MUL_MAT" and (values.ne[1] < 16 or values.type != 0 or not (name.startswith("blk.") or name == "output.weight")):
            return False
        if ask:
            return True
        columns, matrices = matrix.ne[0], matrix.ne[2] * matrix.ne[3] if op == b"MUL_MAT_ID" else 1
        total, counts = found.setdefault(name, (numpy.zeros((matrices, columns)), numpy.zeros(matrices, int)))
        rows = numbers(values, numpy.float32).astype(float) ** 2
        if op == b"MUL_MAT":
            total[0] += rows.sum((0, 1, 2))
            counts[0] += rows.size // columns
            return True
        chosen = numbers(tensor.src[2].contents, numpy.int32)[0, 0]
        for token, experts in enumerate(chosen):
            for place, expert in enumerate(experts):
                total[expert] += rows[0, token, place % values.ne[1]]
                counts[expert] += 1
        return True

    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers, params.use_mmap, params.use_extra_bufts = 0, False, False
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise RuntimeError("error: does not load")
    options = llama_cpp.llama_context_default_params()
    options.n_ctx = options.n_batch = options.n_ubatch = max(64, max(map(len, texts)))
    options.n_threads = options.n_threads_batch = 1
    options.type_k = options.type_v = llama_cpp.GGML_TYPE_F32
    options.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    callback = llama_cpp.llama_cpp.ggml_backend_sched_eval_callback(add)
    options.cb_eval = callback
    context = llama_cpp.llama_init_from_model(model, options)
    for tokens in texts:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for place, token in enumerate(tokens):
            batch.token[place], batch.pos[place], batch.n_seq_id[place], batch.logits[place] = token, place, 1, 1
            batch.seq_id[place][0] = 0
        if llama_cpp.llama_decode(context, batch) != 0:
            raise RuntimeError("error: does not run")
        llama_cpp.llama_batch_free(batch)
    return {name: (total.tolist(), counts.tolist()) for name, (total, counts) in found.items()}


def record(directory, fixtures, names):
    _, tokens, _ = (directory / "tokens.txt").read_text().splitlines()
    tokens = [int(token) for token in tokens.split()]
    for name in names:
        found, reasons = alone(sums, directory / f"{name}.gguf", [tokens])
        if found is None:
            sys.exit(f"{name}: libllama fails: {reasons[-3:]}")
        writer = gguf.GGUFWriter(fixtures / f"{name}.imatrix.gguf", "")
        writer.add_string("general.type", "imatrix")
        for matrix in sorted(found):
            total, counts = found[matrix]
            writer.add_tensor(f"{matrix}.in_sum2", numpy.array(total, numpy.float32))
            writer.add_tensor(f"{matrix}.counts", numpy.array(counts, numpy.float32).reshape(-1, 1))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        print(f"{name}: {len(found)} matrices")


def compare(model, ids, context, file):
    tokens = json.loads(ids.read_text())
    texts = [tokens[start : start + context] for start in range(0, len(tokens) - context + 1, context)]
    theirs = sums(model, texts)
    reader = gguf.GGUFReader(file)
    ours = {tensor.name: numpy.array(tensor.data, float).reshape(-1) for tensor in reader.tensors}
    wrong, all_of_them, worst = 0, [], (0.0, "")
    for name, (total, counts) in sorted(theirs.items()):
        total, counts = numpy.array(total).reshape(-1), numpy.array(counts)
        if f"{name}.counts" not in ours or (ours[f"{name}.counts"] != counts).any():
            print(f"{name}: counts {ours.get(f'{name}.counts')}, expected {counts}")
            wrong += 1
            continue
        difference = (numpy.abs(ours[f"{name}.in_sum2"] - total) / numpy.maximum(total, 1e-30))[total > 0]
        all_of_them.append(difference)
        worst = max(worst, (float(numpy.median(difference)), name))
    more = {name.removesuffix(".counts") for name in ours if name.endswith(".counts")} - set(theirs)
    median = float(numpy.median(numpy.concatenate(all_of_them)))
    print(f"{len(theirs)} matrices, {len(texts)} chunks: median relative difference {median:.1e}; greatest median of a matrix {worst[0]:.1e}, {worst[1]}")
    print(*(f"{name}: not in libllama's" for name in sorted(more)), sep="\n")
    sys.exit(1 if wrong or more or median > 1e-4 else 0)


def main():
    if sys.argv[1] == "record":
        record(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
    else:
        compare(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))


if __name__ == "__main__":
    main()
