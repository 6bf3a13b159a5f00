"""Files that are reshaped: whether others read them, and how long it takes beside copying.

    python write.py check GGMILL CHECKPOINT      shards, merged files and other forms of a small LLaMA model, read by gguf and loaded by libllama
    python write.py time GGMILL FOLDER ROUNDS MB [LLAMA_CPP]
                                                 split and merge of a generated file in FOLDER beside cp, edit beside gguf-new-metadata, change of byte order
                                                 beside gguf-convert-endian, hash beside llama-gguf-hash of the sources of llama.cpp, all in turns

GGMILL is the binary, CHECKPOINT the folder of the bundled LLaMA checkpoint. `check` also makes shards through the C library, call by call as llama-gguf-split
does, and compares their headers byte by byte. `time` prints rows of a table in Markdown.
"""

import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gguf
import numpy as np


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done


# ---- check


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


def loads(path):
    import llama_cpp

    parameters = llama_cpp.llama_model_default_params()
    parameters.use_mmap = False
    quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(quiet, None)
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
    assert model, f"libllama refuses {path.name}"
    count = llama_cpp.llama_model_n_params(model)
    llama_cpp.llama_model_free(model)
    return count


def reference_headers(path, most):
    """The headers of the shards that llama-gguf-split makes with --split-max-tensors, by the same calls of the C library."""
    import llama_cpp

    folder = Path(llama_cpp.__file__).parent / "lib"
    lib = ctypes.CDLL(str(next(folder.glob("libggml-base.so*"))))

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


def check(ggmill, checkpoint):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model = folder / "model.gguf"
        run(ggmill, "convert", checkpoint, "-o", model, "--type", "q8_0", "--no-vocab")
        expected = content(model)
        parameters = loads(model)

        run(ggmill, "split", model, folder / "part", "--max-tensors", 10)
        shards = sorted(folder.glob("part-*.gguf"))
        for shard, header in zip(shards, reference_headers(model, 10), strict=True):
            assert shard.read_bytes()[: len(header)] == header, f"{shard.name}: the C library's header is another"
            gguf.GGUFReader(shard)
        assert loads(shards[0]) == parameters
        print(f"{len(shards)} shards: headers as the C library makes them, read by gguf, loaded by libllama")

        run(ggmill, "split", model, folder / "bare", "--max-size", "200K", "--no-tensor-first-split")
        bare = sorted(folder.glob("bare-*.gguf"))
        assert len(gguf.GGUFReader(bare[0]).tensors) == 0 and loads(bare[0]) == parameters
        print(f"{len(bare)} shards, the first without tensors: read by gguf, loaded by libllama")

        merged = folder / "merged.gguf"
        run(ggmill, "merge", shards[-1], merged)
        assert merged.read_bytes() == model.read_bytes() and loads(merged) == parameters
        print("merged: the file that was split")

        for options in (["--align", 4096], ["--align", 8], ["--format-version", 2]):
            other = folder / "other.gguf"
            run(ggmill, "repack", model, "-o", other, "--force", *options)
            same(expected, content(other), options)
            assert loads(other) == parameters
            print(f"{' '.join(map(str, options))}: read by gguf, loaded by libllama")

        floats = folder / "floats.gguf"
        run(ggmill, "convert", checkpoint, "-o", floats, "--type", "f32", "--no-vocab")
        big = folder / "big.gguf"
        run(ggmill, "repack", floats, "-o", big, "--endian", "big")
        same(content(floats), content(big), "big-endian floats")
        print("big-endian floats: the same numbers to gguf")
        convert_endian(model, folder, ggmill)


def convert_endian(model, folder, ggmill):
    """gguf's own tool changes a file in place, for the types it knows; ours makes the same bytes."""
    theirs, ours = folder / "theirs.gguf", folder / "ours.gguf"
    shutil.copy(model, theirs)
    done = subprocess.run([sys.executable, "-m", "gguf.scripts.gguf_convert_endian", str(theirs), "big"], input="YES\n", capture_output=True, text=True)
    if done.returncode != 0:
        print(f"gguf-convert-endian refuses: {done.stderr.strip().splitlines()[-1]}")
        return
    run(ggmill, "repack", model, "-o", ours, "--endian", "big")
    equal = ours.read_bytes() == theirs.read_bytes()
    print(f"big-endian Q8_0: {'the bytes' if equal else 'NOT the bytes'} of gguf-convert-endian")


# ---- time


OLD = "A model of two gigabytes"


def generate(path, megabytes):
    """So many MB in 32 layers, with a vocabulary of 32,000 tokens."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(OLD)
    writer.add_token_list([f"token {number}" for number in range(32_000)])
    layer = np.random.default_rng(1).integers(0, 255, size=(megabytes << 20) // 32, dtype=np.uint8).view(np.float16).reshape(-1, 8192)
    for number in range(32):
        writer.add_tensor(f"blk.{number}.ffn_up.weight", layer)
        writer.add_tensor(f"blk.{number}.ffn_norm.weight", np.ones(1001, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# From a small program: the memory of the one that starts another counts as the other's.
STARTER = """
import os, resource, subprocess, sys, time
begin = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
sys.stderr.buffer.write(done.stderr)
sys.exit(done.returncode)
"""


def timed(command):
    """Seconds, and the most memory resident in MB."""
    done = subprocess.run([sys.executable, "-c", STARTER, *map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}")
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


def reference_hash(sources, folder):
    """llama-gguf-hash, built of llama.cpp's sources with the C library of llama-cpp-python."""
    import llama_cpp

    library = next((Path(llama_cpp.__file__).parent / "lib").glob("libggml-base.so"))
    tool, objects = folder / "llama-gguf-hash", []
    hashes = sources / "vendor/hash"
    for source in ("xxhash/xxhash.c", "sha1/sha1.c", "sha256/sha256.c"):
        objects.append(folder / (Path(source).stem + ".o"))
        # This one has a namespace, against names that others have too.
        language = ["-x", "c++"] if source.startswith("sha1") else []
        run("cc", *language, "-O3", "-DNDEBUG", "-I", hashes, "-I", hashes / "rotate-bits", "-I", sources / "vendor", "-c", hashes / source, "-o", objects[-1])
    include = ["-I", sources / "ggml/include", "-I", sources / "vendor", "-I", hashes]
    run("c++", "-O3", "-DNDEBUG", "-std=c++17", *include, sources / "examples/gguf-hash/gguf-hash.cpp", *objects, library, f"-Wl,-rpath,{library.parent}", "-o", tool)
    return tool


def accepted(path, tensors):
    """Whether gguf and the C library read the header of a large file."""
    import llama_cpp

    assert len(gguf.GGUFReader(path).tensors) == tensors, path
    lib = ctypes.CDLL(str(next((Path(llama_cpp.__file__).parent / "lib").glob("libggml-base.so"))))

    class Init(ctypes.Structure):
        _fields_ = [("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p)]

    lib.gguf_init_from_file.restype, lib.gguf_init_from_file.argtypes = ctypes.c_void_p, [ctypes.c_char_p, Init]
    lib.gguf_free.argtypes = [ctypes.c_void_p]
    found = lib.gguf_init_from_file(str(path).encode(), Init(True, None))
    assert found, f"the C library refuses {path}"
    lib.gguf_free(found)


def measure(ggmill, folder, rounds, megabytes, sources):
    model, out, edited, theirs = folder / "write.gguf", folder / "out", folder / "edited.gguf", folder / "theirs.gguf"
    generate(model, megabytes)
    shutil.copy(model, edited)
    out.mkdir(exist_ok=True)
    limit = f"{megabytes // 4}M"
    run(ggmill, "split", model, folder / "shard", "--max-size", limit, "--force")
    shards = sorted(folder.glob("shard-*.gguf"))
    copy = out / "copy.gguf"
    names = ["a model of two gigabytes", OLD]
    edit = lambda turn: [ggmill, "edit", edited, "--set", f"general.name={names[turn % 2]}"]
    convert_endian = ["sh", "-c", f"echo YES | '{sys.executable}' -m gguf.scripts.gguf_convert_endian '{theirs}' big"]
    new_metadata = [sys.executable, "-m", "gguf.scripts.gguf_new_metadata", model, out / "new.gguf", "--general-name", names[0], "--force"]
    # What each is compared with, and how often: the slow ones do not need as many turns.
    sides = {
        "cp": (None, rounds, lambda _: ["cp", model, copy]),
        "cp, then sync of the copy": (None, rounds, lambda _: ["sh", "-c", f"cp '{model}' '{copy}' && sync '{copy}'"]),
        "ggmill split": ("cp, then sync of the copy", rounds, lambda _: [ggmill, "split", model, out / "part", "--max-size", limit]),
        "ggmill merge": ("cp, then sync of the copy", rounds, lambda _: [ggmill, "merge", shards[0], out / "merged.gguf"]),
        "ggmill edit, in place": ("gguf-new-metadata", rounds, edit),
        "gguf-new-metadata": (None, 2, lambda _: new_metadata),
        "ggmill repack --endian big": ("gguf-convert-endian", rounds, lambda _: [ggmill, "repack", model, "-o", out / "big.gguf", "--endian", "big"]),
        "gguf-convert-endian": (None, 2, lambda _: convert_endian),
        "ggmill hash --xxh64": ("llama-gguf-hash --xxh64" if sources else None, rounds, lambda _: [ggmill, "hash", model, "--xxh64"]),
    }
    if sources:
        tool = reference_hash(sources, folder)
        sides["llama-gguf-hash --xxh64"] = (None, min(rounds, 3), lambda _: [tool, "--xxh64", model])
        assert hash_lines([ggmill, "hash", model, "--xxh64"]) == hash_lines([tool, "--xxh64", model]), "other hashes"
    times, memory = {name: [] for name in sides}, dict.fromkeys(sides, 0.0)
    for turn in range(rounds):
        order = list(sides)
        for name in order[turn % len(order) :] + order[: turn % len(order)]:
            _, most, command = sides[name]
            if turn >= most:
                continue
            shutil.rmtree(out)
            out.mkdir()
            if name == "gguf-convert-endian":
                shutil.copy(model, theirs)
            os.sync()
            # Into the page cache, which the turns before may have pushed it out of.
            for path in [model, edited, *shards]:
                with open(path, "rb") as file:
                    while file.read(1 << 24):
                        pass
            seconds, resident = timed(command(turn))
            times[name].append(seconds)
            memory[name] = max(memory[name], resident)
            hold(name, out, edited, model, shards)
    report(model, sides, times, memory, rounds, shards)
    for path in [model, edited, theirs, *shards]:
        path.unlink(missing_ok=True)
    shutil.rmtree(out)


def hash_lines(command):
    return [line.split()[:2] for line in run(*command).stdout.splitlines() if line.startswith("xxh64")]


def hold(name, out, edited, model, shards):
    """What a command made is what others read."""
    if name == "ggmill split":
        for path in sorted(out.glob("part-*.gguf")):
            accepted(path, len(gguf.GGUFReader(path).tensors))
    elif name == "ggmill merge":
        accepted(out / "merged.gguf", 64)
        run("cmp", out / "merged.gguf", model)
    elif name == "ggmill edit, in place":
        accepted(edited, 64)
    elif name == "ggmill repack --endian big":
        assert len(gguf.GGUFReader(out / "big.gguf").tensors) == 64


def report(model, sides, times, memory, rounds, shards):
    header = gguf.GGUFReader(model).data_offset / 1e6
    print(f"{model.stat().st_size} bytes, header of {header:.1f} MB, {len(shards)} shards, {rounds} rounds; load {os.getloadavg()[0]:.0f} at the end\n")
    print("| command | turns | median s | fastest s | beside | ratio of medians | ratio of fastest | MB resident |\n|---|--:|--:|--:|---|--:|--:|--:|")
    for name, taken in times.items():
        beside, median = sides[name][0], statistics.median(taken)
        ratios = "– | – | –"
        if beside:
            ratios = f"{beside} | {median / statistics.median(times[beside]):.4g} | {min(taken) / min(times[beside]):.4g}"
        print(f"| {name} | {len(taken)} | {median:.3f} | {min(taken):.3f} | {ratios} | {memory[name]:.0f} |")


if __name__ == "__main__":
    if sys.argv[1] == "check":
        check(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        folder, rounds, megabytes = Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
        measure(Path(sys.argv[2]), folder, rounds, megabytes, Path(sys.argv[6]) if len(sys.argv) > 6 else None)
