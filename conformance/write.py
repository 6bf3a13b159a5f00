"""Files that are reshaped: whether others read them.

    python write.py GGMILL CHECKPOINT LEGACY...

What every command that reshapes makes of a small LLaMA model is read by gguf and loaded by libllama, and so is what `ggmill convert` makes of files from before
GGUF. GGMILL is the binary, CHECKPOINT the directory of the bundled LLaMA checkpoint, LEGACY files of LLaMA from before GGUF. Shards are made through the C library
too, call by call as llama-gguf-split does, and their headers compared byte by byte.
"""

import ctypes
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done


def library(name):
    """A library of llama-cpp-python."""
    import llama_cpp

    return next((Path(llama_cpp.__file__).parent / "lib").glob(f"lib{name}.so"))


def content(path):
    """What gguf reads: keys without those that say how the file lies, tensors with their bytes."""
    reader = gguf.GGUFReader(path)
    form = ("GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.alignment", "split.no", "split.count", "split.tensors.count")
    keys = {name: field.contents() for name, field in reader.fields.items() if name not in form}
    return keys, [(t.name, t.tensor_type, t.shape.tolist(), t) for t in reader.tensors]


def numbers(tensor):
    """A tensor's data as numbers where gguf views them as such, whatever their byte order."""
    return np.asarray(tensor.data, dtype=tensor.data.dtype.newbyteorder("="))


def same(expected, found, what, data=True):
    assert found[0] == expected[0], f"{what}: other keys"
    assert [t[:3] for t in found[1]] == [t[:3] for t in expected[1]], f"{what}: other tensors"
    for ours, theirs in zip(found[1], expected[1]):
        assert not data or np.array_equal(numbers(ours[3]), numbers(theirs[3])), f"{what}: {ours[0]} has other data"


def loads(path, vocab_only=False):
    """Loads a model, and says how many parameters it has, or, of a vocabulary, how many tokens."""
    import llama_cpp

    parameters = llama_cpp.llama_model_default_params()
    parameters.load_mode, parameters.vocab_only = llama_cpp.LLAMA_LOAD_MODE_NONE, vocab_only
    quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(quiet, None)
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
    assert model, f"libllama refuses {path.name}"
    count = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model)) if vocab_only else llama_cpp.llama_model_n_params(model)
    llama_cpp.llama_model_free(model)
    return count


def reference_headers(path, most):
    """The headers of the shards that llama-gguf-split makes with --split-max-tensors, by the same calls of the C library."""
    lib = ctypes.CDLL(str(library("ggml-base")))

    class Init(ctypes.Structure):
        _fields_ = [("no_alloc", ctypes.c_bool), ("ctx", ctypes.POINTER(ctypes.c_void_p))]

    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    signatures = {
        "gguf_init_from_file": (pointer, [text, Init]), "gguf_init_empty": (pointer, []), "gguf_get_n_tensors": (ctypes.c_int64, [pointer]),
        "gguf_get_tensor_name": (text, [pointer, ctypes.c_int64]), "ggml_get_tensor": (pointer, [pointer, text]), "gguf_set_kv": (None, [pointer, pointer]),
        "gguf_set_val_u16": (None, [pointer, text, ctypes.c_uint16]), "gguf_set_val_i32": (None, [pointer, text, ctypes.c_int32]),
        "gguf_add_tensor": (None, [pointer, pointer]), "gguf_get_meta_size": (ctypes.c_size_t, [pointer]), "gguf_get_meta_data": (None, [pointer, pointer]),
    }
    for name, (result, arguments) in signatures.items():
        getattr(lib, name).restype, getattr(lib, name).argtypes = result, arguments
    meta = pointer()
    source = lib.gguf_init_from_file(str(path).encode(), Init(True, ctypes.pointer(meta)))
    count = lib.gguf_get_n_tensors(source)
    shards = []
    for number in range(count):
        if number % most == 0:
            shard = lib.gguf_init_empty()
            if number == 0:
                lib.gguf_set_kv(shard, source)
            lib.gguf_set_val_u16(shard, b"split.no", len(shards))
            lib.gguf_set_val_u16(shard, b"split.count", 0)
            lib.gguf_set_val_i32(shard, b"split.tensors.count", count)
            shards.append(shard)
        lib.gguf_add_tensor(shards[-1], lib.ggml_get_tensor(meta, lib.gguf_get_tensor_name(source, number)))
    headers = []
    for shard in shards:
        lib.gguf_set_val_u16(shard, b"split.count", len(shards))
        buffer = ctypes.create_string_buffer(lib.gguf_get_meta_size(shard))
        lib.gguf_get_meta_data(shard, buffer)
        headers.append(buffer.raw)
    return headers


def check(ggmill, checkpoint, legacy):
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        model = directory / "model.gguf"
        run(ggmill, "convert", checkpoint, "-o", model, "--type", "q8_0", "--no-vocab")
        shards(ggmill, model, directory)
        forms(ggmill, model, directory)
        edits(ggmill, model, directory)
        taken_out_and_put_back(ggmill, model, directory)
        floats = directory / "floats.gguf"
        run(ggmill, "convert", checkpoint, "-o", floats, "--type", "f32", "--no-vocab")
        big = directory / "big.gguf"
        run(ggmill, "repack", floats, "-o", big, "--endian", "big")
        same(content(floats), content(big), "big-endian floats")
        print("repack --endian big of floats: the same numbers to gguf")
        convert_endian(model, directory, ggmill)
        for path in legacy:
            ancestor(ggmill, path, directory)


def shards(ggmill, model, directory):
    parameters = loads(model)
    run(ggmill, "split", model, directory / "part", "--max-tensors", 10)
    parts = sorted(directory.glob("part-*.gguf"))
    for part, header in zip(parts, reference_headers(model, 10), strict=True):
        assert part.read_bytes()[: len(header)] == header, f"{part.name}: the C library's header is another"
        gguf.GGUFReader(part)
    assert loads(parts[0]) == parameters
    print(f"split, {len(parts)} shards: headers as the C library makes them, read by gguf, loaded by libllama")

    run(ggmill, "split", model, directory / "bare", "--max-size", "200K", "--no-tensor-first-split")
    bare = sorted(directory.glob("bare-*.gguf"))
    assert len(gguf.GGUFReader(bare[0]).tensors) == 0 and loads(bare[0]) == parameters
    print(f"split, {len(bare)} shards, the first without tensors: read by gguf, loaded by libllama")

    merged = directory / "merged.gguf"
    run(ggmill, "merge", parts[-1], merged)
    assert merged.read_bytes() == model.read_bytes() and loads(merged) == parameters
    print("merge: the file that was split, loaded by libllama")


def forms(ggmill, model, directory):
    for options in (["--align", 4096], ["--align", 8], ["--format-version", 2]):
        other = directory / "other.gguf"
        run(ggmill, "repack", model, "-o", other, "--force", *options)
        same(content(model), content(other), options)
        assert loads(other) == loads(model)
        print(f"repack {' '.join(map(str, options))}: read by gguf, loaded by libllama")


def edits(ggmill, model, directory):
    """Each way an edit can go, one after the other on one file."""
    keys, tensors = content(model)
    edited = directory / "edited.gguf"
    shutil.copy(model, edited)
    name = keys["general.name"]
    ways = [("the same length", name[::-1]), ("room taken", name + " and more"), ("room given", "x"), ("blocks inserted", "long " * 20_000)]
    for way, text in ways:
        run(ggmill, "edit", edited, "--set", f"general.name={text}")
        found = content(edited)
        found[0].pop("ggmill.padding", None)
        same((keys | {"general.name": text}, tensors), found, f"edit, {way}")
        assert loads(edited) == loads(model)
    copy = directory / "copy.gguf"
    run(ggmill, "edit", edited, "-o", copy, "--set", f"general.name={name}", "--unset", "ggmill.padding")
    same((keys, tensors), content(copy), "edit -o")
    assert loads(copy) == loads(model)
    print(f"edit in place ({', '.join(way for way, _ in ways)}) and edit -o: read by gguf, loaded by libllama")


def taken_out_and_put_back(ggmill, model, directory):
    keys, tensors = content(model)
    whole, some, norms = directory / "whole.gguf", directory / "some.gguf", directory / "norms.safetensors"
    run(ggmill, "extract", model, "*", "--key", "*", "-o", whole)
    same((keys, tensors), content(whole), "extract")
    assert loads(whole) == loads(model)
    run(ggmill, "extract", model, "blk.0.*", "-o", some)
    same((keys, [tensor for tensor in tensors if tensor[0].startswith("blk.0.")]), content(some), "extract of one block")
    print("extract: read by gguf; all of it loaded by libllama")

    run(ggmill, "extract", model, "*norm*", "-o", norms)
    grafted = directory / "grafted.gguf"
    run(ggmill, "graft", model, "--from", some, "--from", norms, "-o", grafted)
    assert grafted.read_bytes() == model.read_bytes()
    run(ggmill, "graft", model, "--from", norms, "--order", "output*", "--order", "blk.4.*", "-o", grafted, "--force")
    found = content(grafted)
    assert [tensor[0] for tensor in found[1]] != [tensor[0] for tensor in tensors]
    by_name = lambda tensor: tensor[0]
    same((keys, sorted(tensors, key=by_name)), (found[0], sorted(found[1], key=by_name)), "graft --order")
    assert loads(grafted) == loads(model)
    print("graft: what was taken out put back, and in another order: read by gguf, loaded by libllama")


def ancestor(ggmill, path, directory):
    """A file from before GGUF; one without tensors is a vocabulary."""
    converted = directory / (path.stem + ".gguf")
    run(ggmill, "convert", path, "-o", converted)
    reader = gguf.GGUFReader(converted)
    tokens = len(reader.fields["tokenizer.ggml.tokens"].data)
    if reader.tensors:
        count = loads(converted)
        assert count == sum(int(np.prod(tensor.shape)) for tensor in reader.tensors), path.name
        print(f"convert {path.name}: read by gguf, loaded by libllama with {count} parameters and {tokens} tokens")
    else:
        assert loads(converted, vocab_only=True) == tokens
        print(f"convert {path.name}: read by gguf, loaded by libllama as a vocabulary of {tokens} tokens")


def convert_endian(model, directory, ggmill):
    """gguf's own tool changes a file in place, for the types it knows; ours makes the same bytes."""
    theirs, ours = directory / "theirs.gguf", directory / "ours.gguf"
    shutil.copy(model, theirs)
    done = subprocess.run([sys.executable, "-m", "gguf.scripts.gguf_convert_endian", str(theirs), "big"], input="YES\n", capture_output=True, text=True)
    if done.returncode != 0:
        print(f"gguf-convert-endian refuses: {done.stderr.strip().splitlines()[-1]}")
        return
    run(ggmill, "repack", model, "-o", ours, "--endian", "big")
    equal = ours.read_bytes() == theirs.read_bytes()
    print(f"big-endian Q8_0: {'the bytes' if equal else 'NOT the bytes'} of gguf-convert-endian")


if __name__ == "__main__":
    check(Path(sys.argv[1]), Path(sys.argv[2]), [Path(path) for path in sys.argv[3:]])
