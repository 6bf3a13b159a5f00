"""Compares ggmill.gguf with the reference's package, both imported.

    python_gguf.py GGUF_PY [PART…] [--files FILE…]

GGUF_PY is the directory gguf-py of llama.cpp; ggmill must be installed, or in PYTHONPATH. The parts,
all of them if none is named: names, writer, reader, quants, metadata, vocab, scripts. `reader` and
`scripts` read the bundled files, files that are written for them, and those of --files. Ends with 1 and says what differs.
The part `speed` alone measures both on --files.
"""

import argparse
import builtins
import contextlib
import enum
import importlib
import inspect
import io
import json
import logging
import random
import sys
import tempfile
import time
import types
import warnings
from pathlib import Path

import numpy as np

logging.disable(logging.CRITICAL)

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "crates/ggmill-python/tests"
sys.path.insert(0, str(TESTS))
import gguf_cases as cases  # noqa: E402
from gguf_cases import outcome  # noqa: E402

failures: list[str] = []
counts: dict[str, int] = {}


def check(part: str, what: str, ours, theirs) -> None:
    counts[part] = counts.get(part, 0) + 1
    if not same(ours, theirs):
        failures.append(f"{part}: {what}: {shown(ours)} here, {shown(theirs)} there")


def shown(value) -> str:
    text = repr(value)
    return text if len(text) < 200 else text[:200] + "…"


def same(a, b) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(b, enum.Enum):
        return isinstance(a, enum.Enum) and a.name == b.name and a.value == b.value
    if isinstance(b, (list, tuple)):
        kind = list if isinstance(b, list) else tuple
        return isinstance(a, kind) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(b, dict):
        return isinstance(a, dict) and list(map(str, a)) == list(map(str, b)) and all(same(x, y) for x, y in zip(a.values(), b.values()))
    if isinstance(b, float) and b != b:
        return a != a
    return type(a) is type(b) and a == b


# ---------------------------------------------------------------- names

def public(module) -> dict:
    return {name: value for name, value in vars(module).items() if not name.startswith("_") and not isinstance(value, types.ModuleType)}


FOREIGN = ("typing", "dataclasses", "enum", "abc", "math", "pathlib", "io", "numpy", "collections", "string", "__future__",
           "mistral_common", "sentencepiece", "builtins", "types", "functools")


def names(ours, theirs) -> None:
    for name, value in public(theirs).items():
        home = getattr(value, "__module__", None) or ""
        if home.split(".")[0] in FOREIGN and not isinstance(value, dict) or type(value).__name__ == "_Feature" or name in ("logger", "annotations"):
            continue
        if not hasattr(ours, name):
            failures.append(f"names: {name} is not served")
            continue
        compare_value(name, getattr(ours, name), value)
    for module in ("constants", "lazy", "gguf_reader", "gguf_writer", "quants", "tensor_mapping", "vocab", "utility", "metadata"):
        for name, value in public(getattr(theirs, module)).items():
            if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == f"gguf.{module}":
                check("names", f"{module}.{name}", hasattr(getattr(ours, module), name), True)


def by_name(table: dict) -> dict:
    return {getattr(key, "name", key): value for key, value in table.items()}


def compare_value(path: str, ours, theirs) -> None:
    if isinstance(theirs, dict):
        left, right = by_name(ours), by_name(theirs)
        check("names", f"keys of {path}", sorted(map(str, left)), sorted(map(str, right)))
        for key in left.keys() & right.keys():
            if isinstance(right[key], dict):
                compare_value(f"{path}[{key}]", left[key], right[key])
            else:
                check("names", f"{path}[{key}]", left[key], right[key])
    elif inspect.isclass(theirs) and issubclass(theirs, enum.Enum):
        check("names", path, {k: v.value for k, v in ours.__members__.items()}, {k: v.value for k, v in theirs.__members__.items()})
        check("names", f"base of {path}", [b.__name__ for b in ours.__mro__], [b.__name__ for b in theirs.__mro__])
    elif inspect.isclass(theirs):
        for name, value in vars(theirs).items():
            if name.startswith("_") and name != "__init__":
                continue
            if name not in dir(ours):
                failures.append(f"names: {path}.{name} is not served")
            elif inspect.isclass(value):
                compare_value(f"{path}.{name}", getattr(ours, name), value)
            elif isinstance(value, (str, int, float, tuple)) and name not in ("alignment",):
                check("names", f"{path}.{name}", getattr(ours, name), value)
            elif callable(value) or isinstance(value, (staticmethod, classmethod)):
                compare_parameters(f"{path}.{name}", getattr(ours, name), getattr(theirs, name))
    elif inspect.isfunction(theirs):
        compare_parameters(path, ours, theirs)
    elif isinstance(theirs, (str, int, float, list, tuple)):
        check("names", path, ours, theirs)


def compare_parameters(path: str, ours, theirs) -> None:
    def parameters(function):
        found = inspect.signature(function).parameters.values()
        return [(one.name, one.kind, one.default) for one in found]

    mine, other = outcome(lambda: parameters(ours)), outcome(lambda: parameters(theirs))
    # More parameters are welcome behind those of the reference, if they have a default.
    if isinstance(mine, list) and isinstance(other, list):
        extra = mine[len(other):]
        mine = mine[: len(other)] if all(one[2] is not inspect.Parameter.empty for one in extra) else mine
        check("names", f"parameters of {path}", [(n, str(k), str(d)) for n, k, d in mine], [(n, str(k), str(d)) for n, k, d in other])


# ---------------------------------------------------------------- writer

def writer(ours, theirs) -> None:
    for label, case in cases.writer_cases().items():
        check("writer", label, *(cases.written(module, case) for module in (ours, theirs)))
    check("writer", "methods", cases.key_methods(ours), cases.key_methods(theirs))
    for name in cases.key_methods(theirs):
        check("writer", name, *(cases.written_key(module, name) for module in (ours, theirs)))
    for name, call in cases.refusals().items():
        check("writer", f"refusal of {name}", *(outcome(lambda m=module: call(m)) for module in (ours, theirs)))
    for value in (0, 999, 1000, 123456, 10**9, 10**13):
        check("writer", f"{value} bytes", *(m.GGUFWriter.format_n_bytes_to_str(value) for m in (ours, theirs)))
    for case in cases.counted():
        found = []
        for module in (ours, theirs):
            one = module.GGUFWriter(None, "llama")
            for name, shape in case:
                one.add_tensor_info(name, shape, np.dtype(np.float32), 4)
            found.append(one.get_total_parameter_count())
        check("writer", f"count of {case}", *found)


# ---------------------------------------------------------------- reader

def field_of(field) -> tuple:
    return (field.offset, field.name, [np.asarray(p) for p in field.parts], list(field.data), [t.name for t in field.types], outcome(field.contents))


def compare_files(path: Path, ours, theirs, slow: bool = True) -> None:
    mine, other = (outcome(lambda m=module: m.GGUFReader(path)) for module in (ours, theirs))
    if isinstance(other, str) or isinstance(mine, str):
        # The reference fails anywhere past the end of a file; ours is always a ValueError there.
        known = str(other).split(":")[0] in ("IndexError", "ValueError", "TypeError")
        if known and str(mine).startswith("ValueError") and mine != other:
            counts["reader"] = counts.get("reader", 0) + 1
            return
        check("reader", f"{path}: refusal", mine if isinstance(mine, str) else "opened", other if isinstance(other, str) else "opened")
        return
    for name in ("byte_order", "alignment", "data_offset"):
        check("reader", f"{path}: {name}", *(int(v) if name != "byte_order" else v for v in (getattr(mine, name), getattr(other, name))))
    check("reader", f"{path}: endianess", mine.endianess, other.endianess)
    check("reader", f"{path}: keys", list(mine.fields), list(other.fields))
    for key, field in other.fields.items():
        check("reader", f"{path}: {key}", field_of(mine.fields[key]), field_of(field))
        if len(field.data) > 1:
            for index in (0, -1, slice(0, 3), slice(None, None, -2), slice(5, 2)):
                check("reader", f"{path}: {key}{index}", mine.fields[key].contents(index), field.contents(index))
    check("reader", f"{path}: tensors", len(mine.tensors), len(other.tensors))
    for a, b in zip(mine.tensors, other.tensors):
        for name in b._fields:
            left, right = getattr(a, name), getattr(b, name)
            if name == "field":
                left, right = field_of(left), field_of(right)
            if name == "data":
                check("reader", f"{path}: {b.name}: class of data", type(left), type(right))
                left, right = np.asarray(left), np.asarray(right)
            check("reader", f"{path}: {b.name}.{name}", left, right)


def reader(ours, theirs, files: list[Path]) -> None:
    bundled = sorted((ROOT / "crates/ggmill-testdata").rglob("*.gguf"))
    for path in [*bundled, *files]:
        compare_files(path, ours, theirs)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "x.gguf"
        for endian in ("LITTLE", "BIG"):
            cases.write_all(theirs, path, "held", endianess=theirs.GGUFEndian[endian])
            compare_files(path, ours, theirs)
            whole = path.read_bytes()
            changed = []
            for module in (ours, theirs):
                path.write_bytes(whole)
                one = module.GGUFReader(path, "r+")
                one.fields["x.add_uint32"].parts[-1][0] = 77
                one.fields["tokenizer.ggml.tokens"].parts[6][:] = ord("z")
                one.tensors[1].data[0, 0] = 5
                one.data.flush()
                del one
                changed.append(path.read_bytes())
            check("reader", f"{endian}: r+", *changed)
            path.write_bytes(whole)
            copied = [module.GGUFReader(path, "c") for module in (ours, theirs)]
            for one in copied:
                one.fields["x.add_uint32"].parts[-1][0] = 77
            check("reader", f"{endian}: c", path.read_bytes(), whole)
            for cut in [*range(0, 600, 7), *range(600, len(whole), 997)]:
                path.write_bytes(whole[:cut])
                compare_files(path, ours, theirs)
        for label, content in cases.hostile().items():
            path.write_bytes(content)
            check("reader", label, *(outcome(lambda m=module: m.GGUFReader(path)) for module in (ours, theirs)))


# ---------------------------------------------------------------- quants

def quants(ours, theirs) -> None:
    r = np.random.default_rng(3)
    values = cases.values()
    for qtype, traits in theirs.quants._type_traits.items():
        kind = ours.GGMLQuantizationType(int(qtype))
        data = cases.blocks(theirs, qtype.name)
        with np.errstate(all="ignore"):
            expected = theirs.dequantize(data, qtype)
            found = ours.dequantize(data, kind)
        check("quants", f"dequantize {qtype.name}", cases.without_nan(found), cases.without_nan(expected))
        check("quants", f"NaN of {qtype.name}", np.isnan(found), np.isnan(expected))
        check("quants", f"blocks of {qtype.name}", ours.quants._type_traits[kind].dequantize_blocks(data.reshape(-1, traits.type_size)[:3]).shape,
              (3, traits.block_size))
        try:
            expected = theirs.quantize(values, qtype)
        except NotImplementedError:
            expected = None
        if expected is not None:
            check("quants", f"quantize {qtype.name}", ours.quantize(values, kind), expected)
            lazy = [m.LazyNumpyTensor.from_eager(values) for m in (ours, theirs)]
            both = [m.quantize(one, k) for m, one, k in zip((ours, theirs), lazy, (kind, qtype))]
            check("quants", f"lazily: shape of {qtype.name}", both[0].shape, both[1].shape)
            check("quants", f"lazily: {qtype.name}", *(m.LazyNumpyTensor.to_eager(one) for m, one in zip((ours, theirs), both)))
        if traits.grid_hex is not None:
            mine = ours.quants._type_traits[kind]
            for one in (mine, traits):
                one.init_grid()
            check("quants", f"grid of {qtype.name}", mine.grid, traits.grid)
            check("quants", f"grid_hex of {qtype.name}", mine.grid_hex, traits.grid_hex)
    scales = r.integers(0, 256, (6, 12)).astype(np.uint8)
    check("quants", "get_scale_min", tuple(ours.quants.Q4_K.get_scale_min(scales)), tuple(theirs.quants.Q4_K.get_scale_min(scales)))
    every = np.arange(256, dtype=np.uint8)
    check("quants", "e8m0", ours.quants.MXFP4.e8m0_to_fp32_half(every), theirs.quants.MXFP4.e8m0_to_fp32_half(every))
    check("quants", "ue4m3", ours.quants.NVFP4.ue4m3_to_fp32(every), theirs.quants.NVFP4.ue4m3_to_fp32(every))
    floats = np.concatenate([r.uniform(0, 500, 4000), np.exp2(r.uniform(-12, 9, 4000)), [0, -1, 448, 449]]).astype(np.float32)
    check("quants", "to ue4m3", ours.quants.NVFP4.fp32_to_ue4m3(floats), theirs.quants.NVFP4.fp32_to_ue4m3(floats))
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997], np.float32)
    check("quants", "np_roundf", ours.np_roundf(halves), theirs.np_roundf(halves))
    for label, call in {
        "row": lambda m: m.quantize(np.zeros((2, 33), np.float32), m.GGMLQuantizationType.Q8_0),
        "integers": lambda m: m.quantize(np.zeros((2, 32), np.float32), m.GGMLQuantizationType.I8),
        "from integers": lambda m: m.dequantize(np.zeros((2, 32), np.int8), m.GGMLQuantizationType.I8),
        "bytes": lambda m: m.dequantize(np.zeros((2, 33), np.uint8), m.GGMLQuantizationType.Q8_0),
        "F16": lambda m: m.dequantize(np.arange(8, dtype=np.float16), m.GGMLQuantizationType.F16),
        "F32": lambda m: m.quantize(np.arange(8, dtype=np.float64), m.GGMLQuantizationType.F32),
    }.items():
        check("quants", label, *(outcome(lambda m=module: call(m)) for module in (ours, theirs)))


# ---------------------------------------------------------------- metadata, vocab

def metadata(ours, theirs) -> None:
    ids = [line.split("|")[0] for line in (ROOT / "crates/ggmill-convert/tests/names.txt").read_text().splitlines() if line and line[0] != "#"]
    ids += ["", "/a", "a/", "..", "./x-7B", "a b", "x-A3B-instruct", "q-1_5b", "m-7b1", "m-small-7B", "m-small", "m-128k", "lora-x-lora", "-", "a--b", "X-8x7B-v2"]
    r = random.Random(5)
    words = ["Llama", "3", "v2", "7B", "8x7B", "instruct", "Chat", "128k", "small", "xl", "q4_k_m", "fp16", "lora", "A3B", "1_5B", "iter10", "x", "7b1", "hf"]
    ids += ["-".join(r.choices(words, k=r.randrange(1, 6))) for _ in range(3000)]
    for model_id in [None, *ids]:
        for total in (0, 7_000_000_000, -7_000_000_000, 1000):
            check("metadata", f"{model_id} {total}", *(outcome(lambda m=m: m.Metadata.get_model_id_components(model_id, total)) for m in (ours, theirs)))
    for text in ("a-b C v1.5 7b", "", "Meta-llama 3d x"):
        check("metadata", text, *(m.Metadata.id_to_title(text) for m in (ours, theirs)))
    cards = [
        "", "no head\n", "---\n---\n", "---\n- a\n---\n", "---\nlanguage:\n- no\n- en\ntags:\t[x]\nlicense: mit\n---\n# x\n",
        "---\nbase_model: meta-llama/Llama-3-8B\ndatasets:\n- a/b-v2\n- https://huggingface.co/c/d\n- http://x/y\n---\n",
        "---\nbase_model:\n- a/b\n- {name: n, author: q}\n- 3\nname: N\nmodel_name: M\nmodel_creator: C\nmodel_type: T\nlicense: [mit, apache-2.0]\npipeline_tag: t\nlanguages: [de]\n---\n",
        "---\nbase_model:\nmodel_author: A\nurl: u\nmodel_url: v\ndoi: d\n",
    ]
    configs = [None, "{}", '{"_name_or_path": "meta-llama/Llama-2-7b-hf"}', '{"_name_or_path": "/a/b/c"}']
    generations = [None, '{"temperature": 0.5, "top_k": 3, "repetition_penalty": 1.1}', "{", '{"penalty_repeat": 2, "repetition_penalty": 3, "sequence": "x"}']
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "Qwen2.5-0.5B-Instruct"
        place.mkdir()
        override = Path(directory) / "override.json"
        override.write_text('{"general.name": "O", "general.sampling.temp": 2, "general.base_models": [{"name": "p", "doi": "d"}], "general.tags": ["t"]}')
        for card in cards:
            for config in configs:
                for generation in generations:
                    for name, content in (("README.md", card), ("config.json", config), ("generation_config.json", generation)):
                        (place / name).unlink(missing_ok=True)
                        if content is not None:
                            (place / name).write_text(content)
                    for extra in ({}, {"metadata_override_path": override}, {"model_name": "given"}):
                        both = [outcome(lambda m=m: vars(m.Metadata.load(model_path=place, total_params=494032768, **extra))) for m in (ours, theirs)]
                        check("metadata", f"{card!r} {config} {generation} {extra}", *both)
                    written = []
                    for module in (ours, theirs):
                        writer = module.GGUFWriter(None, "llama")
                        outcome(lambda m=module: m.Metadata.load(model_path=place).set_gguf_meta_model(writer))
                        written.append([(key, value.value, value.type.name) for key, value in writer.kv_data[0].items()])
                    check("metadata", f"writing {card!r} {config} {generation}", *written)
    for arguments in ((None,) * 6, ("a b/c", None, "x y", "v1", "7B", "q8_0"), (None, "B a", None, " v", None, None, "LoRA"), ("n", "", "f", None, "8x7B", "f16", "vocab")):
        check("metadata", f"{arguments}", *(m.naming_convention(*arguments) for m in (ours, theirs)))
    for number in (0, 1, 999, 12345, 999_999, 1_000_001, 7_241_000_000, 1.5e12, 10**15):
        check("metadata", f"{number}", *(m.size_label(number, number // 2, number // 3, number % 5) for m in (ours, theirs)))
    for name in ("a.{ftype}.gguf", "{OUTTYPE}-{outtype}", "{}", "plain", "{FTYPE}"):
        for kind in ("q8_0", None):
            check("metadata", f"{name} {kind}", *(m.fill_templated_filename(name, kind) for m in (ours, theirs)))
    for arch in theirs.MODEL_ARCH:
        for blocks in (0, 3):
            other = outcome(lambda: type(theirs.TensorNameMap)("fresh", (theirs.TensorNameMap,), {"block_mappings_cfg": dict(PRISTINE)})(arch, blocks).mapping)
            mine = outcome(lambda: ours.get_tensor_name_map(ours.MODEL_ARCH[arch.name], blocks).mapping)
            check("metadata", f"names of {arch.name}", mine, other)


PRISTINE: dict = {}


def vocab(ours, theirs) -> None:
    for path in sorted((ROOT / "crates/ggmill-convert/tests/vocabularies").glob("*.json")):
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory)
            for name, content in json.loads(path.read_text())["files"].items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                data = json.dumps(content).encode() if isinstance(content, (dict, list)) and name.endswith(".json") else content
                if isinstance(data, str):
                    data = bytes.fromhex(data) if set(data) <= set("0123456789abcdef") and len(data) % 2 == 0 else data.encode()
                if isinstance(data, bytes):
                    (place / name).write_bytes(data)
            compare_vocabularies(path.stem, place, ours, theirs)
    for label, files in templates().items():
        with tempfile.TemporaryDirectory() as directory:
            for name, content in files.items():
                (Path(directory) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(directory) / name).write_text(content if isinstance(content, str) else json.dumps(content))
            compare_vocabularies(label, Path(directory), ours, theirs)
    check("vocab", "bytes_to_unicode", dict(sorted(ours.bytes_to_unicode().items())), dict(sorted(theirs.bytes_to_unicode().items())))


# ---------------------------------------------------------------- scripts

def run_script(package: str, name: str, arguments: list[str]) -> str:
    """What a program prints, and how it ends."""
    module = importlib.import_module(f"{package}.scripts.{name}")
    out = io.StringIO()
    before, asked = sys.argv, builtins.input
    sys.argv, builtins.input = [name, *map(str, arguments)], lambda *_: "YES"
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            try:
                module.main()
                end = ""
            except SystemExit as error:
                end = f"exit {error.code}"
            except Exception as error:  # noqa: BLE001
                end = f"{type(error).__name__}: {error}"
    finally:
        sys.argv, builtins.input = before, asked
    return out.getvalue() + end


def scripts(ours, theirs, files: list[Path]) -> None:
    packages = ("ggmill.gguf", "gguf")
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory) / "made.gguf"
        swapped = Path(directory) / "swapped.gguf"
        cases.write_all(theirs, made, "held")
        cases.write_blocks(theirs, swapped)
        for path in [*sorted((ROOT / "crates/ggmill-testdata").rglob("*.gguf")), made, swapped, *files]:
            for options in ([], ["--no-tensors"], ["--json"], ["--json", "--json-array"], ["--markdown"], ["--markdown", "--no-tensors"], ["--data-offset"], ["--data-alignment"]):
                check("scripts", f"gguf-dump {path} {options}", *(run_script(one, "gguf_dump", [path, *options]) for one in packages))
            check("scripts", f"gguf-hash {path}", *(run_script(one, "gguf_hash", [path]) for one in packages))
            check("scripts", f"gguf-hash {path} --no-layer", *(run_script(one, "gguf_hash", [path, "--no-layer"]) for one in packages))
        target = Path(directory) / "target.gguf"

        def changed(source, name, arguments) -> list:
            found = []
            for one in packages:
                target.write_bytes(source.read_bytes())
                said = run_script(one, name, arguments)
                found.append((said, target.read_bytes()))
            return found

        for key, value in (("x.add_uint32", "9"), ("x.add_float32", "1.5"), ("x.add_string", "1"), ("no.such", "1"), ("general.alignment", "64"), ("x.add_bool", "1")):
            for options in ([], ["--force"], ["--dry-run"]):
                check("scripts", f"gguf-set-metadata {key} {value} {options}", *changed(made, "gguf_set_metadata", [target, key, value, *options]))
        for source in (swapped, made):
            for order in ("big", "little", "native"):
                for options in ([], ["--dry-run"]):
                    both = changed(source, "gguf_convert_endian", [target, order, *options])
                    if source == made and order == "big":
                        continue  # the reference cannot swap all of its types
                    check("scripts", f"gguf-convert-endian {order} {options}", *both)
        config = Path(directory) / "tokenizer_config.json"
        config.write_text('{"chat_template": [{"name": "default", "template": "d"}, {"name": "x", "template": "y"}]}')
        template = Path(directory) / "template.jinja"
        template.write_text("{{ file }}")
        copy = Path(directory) / "copy.gguf"
        for source in (made, swapped, *files):
            for options in (["--general-name", "n", "--general-description", "d"], ["--chat-template", "{{ t }}"], ["--chat-template-config", config], ["--chat-template-file", template],
                            ["--chat-template", '[{"name": "default", "template": "1"}]'], ["--pre-tokenizer", "gpt-2"], ["--remove-metadata", "general.name", "--remove-metadata", "x.add_uint32"],
                            ["--special-token-by-id", "bos", "0"], ["--special-token-by-id", "eot", "999999999"], ["--special-token", "eos", "missing"], ["--special-token", "nonsense", "a"]):
                found = []
                for one in packages:
                    copy.unlink(missing_ok=True)
                    said = run_script(one, "gguf_new_metadata", [source, copy, *options])
                    found.append((said, copy.read_bytes() if copy.exists() else b""))
                check("scripts", f"gguf-new-metadata {source} {options}", *found)


def compare_vocabularies(label: str, place: Path, ours, theirs) -> None:
    for merges in (False, True):
        for n_vocab in (None, 3):
            both = []
            for module in (ours, theirs):
                def load(m=module):
                    special = m.SpecialVocab(place, load_merges=merges, n_vocab=n_vocab)
                    writer = m.GGUFWriter(None, "llama")
                    special.add_to_gguf(writer)
                    return repr(special), tuple(special.special_token_types), [(k, v.value, v.type.name) for k, v in writer.kv_data[0].items()]
                both.append(outcome(load))
            check("vocab", f"{label}: SpecialVocab {merges} {n_vocab}", *both)
    for name in ("BpeVocab", "SentencePieceVocab", "MistralVocab", "LlamaHfVocab"):
        both = []
        for module in (ours, theirs):
            def tokens(m=module):
                found = getattr(m, name)(place)
                return repr(found) if name != "MistralVocab" else "", found.vocab_size, [(a, b, c.name) for a, b, c in found.all_tokens()]
            both.append(outcome(tokens))
        if isinstance(both[1], tuple):
            counts[name] = counts.get(name, 0) + 1
        check("vocab", f"{label}: {name}", *both)


def templates() -> dict[str, dict]:
    """Post-processors, normalizers, merges and templates of many kinds."""
    def token(text):
        return {"SpecialToken": {"id": text, "type_id": 0}}

    def piece(name):
        return {"Sequence": {"id": name, "type_id": 0}}

    added = [{"id": number, "content": text} for number, text in enumerate(("<s>", "</s>", "<eot>", "[CLS]", "[SEP]", "<s>"))]
    found: dict[str, dict] = {}

    def case(label, tokenizer, config=None, **files):
        found[label] = {"tokenizer.json": {"added_tokens": added, "model": {"merges": [["a", "b c"], ["d", "e"]]}} | tokenizer}
        if config is not None:
            found[label]["tokenizer_config.json"] = config
        found[label] |= files

    A, B, S, E, T = piece("A"), piece("B"), token("<s>"), token("</s>"), token("<eot>")
    singles = {"A": [A], "S A": [S, A], "S A E": [S, A, E], "A T": [A, T], "T A": [T, A]}
    pairs = {"": [], "S A E B E": [S, A, E, B, E], "S A S B": [S, A, S, B], "A E E B": [A, E, E, B], "S A E E B E": [S, A, E, E, B, E], "B A": [B, A],
             "A T B": [A, T, B], "A A B": [A, A, B], "S A E T B": [S, A, E, T, B], "S A E A B": [S, A, E, A, B], "A B": [A, B]}
    configs = {
        "none": None, "empty": {}, "both": {"bos_token": "<s>", "eos_token": "</s>"}, "cls": {"cls_token": "[CLS]", "sep_token": "[SEP]"},
        "as mappings": {"bos_token": {"content": "<s>"}, "eos_token": {"content": 3}, "add_bos_token": False, "add_eos_token": 1},
        "other end": {"eos_token": "<eot>", "add_eos_token": True}, "pad": {"pad_token": "<eot>", "unk_token": "missing", "eos_token": None},
    }
    for one, single in singles.items():
        for two, pair in pairs.items():
            for three, config in configs.items():
                case(f"{one} / {two} / {three}", {"post_processor": {"type": "TemplateProcessing", "single": single, "pair": pair}}, config)
    for three, config in configs.items():
        case(f"roberta {three}", {"post_processor": {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 1]}}, config)
        case(f"roberta bare {three}", {"post_processor": {"type": "RobertaProcessing"}}, config)
        case(f"sequence {three}", {"post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": [S, A], "pair": []}]}}, config)
    for number, normalizer in enumerate((
        {"type": "Lowercase"}, {"type": "StripAccents"}, {"type": "BertNormalizer", "lowercase": False}, {"type": "BertNormalizer", "strip_accents": True, "lowercase": True},
        {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}, {"type": "Sequence", "normalizers": [{"type": "StripAccents"}]}]},
    )):
        case(f"normalizer {number}", {"normalizer": normalizer}, {})
    for number, merges in enumerate((["a b", "c d"], [], [["a"]], [3], "x", [[" ", "a"]])):
        case(f"merges {number}", {"model": {"merges": merges}}, **{"merges.txt": "#version: 0.2\na b\n\nc d e\n x  y \n"})
        case(f"merges {number} without a head", {"model": {"merges": merges}}, **{"merges.txt": "a b\n c\n"})
    for number, template in enumerate(("{{ x }}", [{"name": "default", "template": "t"}, {"name": "b", "template": "u"}], 3, None, [{"name": "b", "template": "u"}])):
        case(f"template {number}", {}, {"x": 1, "chat_template": template})
    case("template file", {}, {"x": 1}, **{"chat_template.jinja": "j"})
    case("template files", {}, {"x": 1}, **{"chat_template.jinja": "j", "additional_chat_templates/rag.jinja": "r"})
    case("template json", {}, {"x": 1}, **{"chat_template.json": {"chat_template": "k"}})
    case("config", {}, None, **{"config.json": {"bos_token_id": 1, "eos_token_id": [1, 2], "pad_token_id": 99, "unk_token_id": None}})
    case("negative", {}, None, **{"config.json": {"pad_token_id": -1}})
    case("text config", {}, {"bos_token": "<s>"}, **{"config.json": {"text_config": {"eos_token_id": 2}}})
    found["nothing"] = {}
    found["merges alone"] = {"merges.txt": "a b\n"}
    found["vocab"] = {"vocab.json": {"a": 0, "b": 1}, "added_tokens.json": {"<x>": 2, "<y>": 3}}
    found["vocab with a gap"] = {"vocab.json": {"a": 0, "b": 1}, "added_tokens.json": {"<x>": 2, "<y>": 4}}
    bpe = {"type": "BPE", "vocab": {"a": 0, "b": 1}}
    found["fast"] = {"tokenizer.json": {"model": bpe, "decoder": {"type": "ByteLevel"}, "added_tokens": [{"id": 2, "content": "<x>"}, {"id": 0, "content": "a"}]}}
    found["llama 3"] = {"tokenizer.json": {"model": bpe | {"ignore_merges": True, "byte_fallback": False}, "decoder": {"type": "ByteLevel"}}}
    found["unigram"] = {"tokenizer.json": {"model": {"type": "Unigram"}, "decoder": {"type": "Metaspace"}}}
    return found


def speed(ours, theirs, files: list[Path]) -> None:
    """Processor time of opening files and of decoding blocks, both sides in turn; the least of several."""
    def least(call, times: int) -> float:
        found = []
        for _ in range(times):
            start = time.process_time()
            call()
            found.append(time.process_time() - start)
        return min(found)

    for path in files:
        mine, other = least(lambda: ours.GGUFReader(path), 20), least(lambda: theirs.GGUFReader(path), 1)
        print(f"open {path.name}: {mine * 1e3:.2f} ms here, {other * 1e3:.0f} ms there, {other / mine:.0f} times")
    for name in ("Q8_0", "Q4_K", "Q6_K", "IQ4_XS"):
        size = theirs.quant_shape_to_byte_shape((4096,), theirs.GGMLQuantizationType[name])[0]
        data = np.random.default_rng(1).integers(0, 64, (1024, size)).astype(np.uint8)
        with np.errstate(all="ignore"):
            mine, other = (least(lambda m=m: m.dequantize(data, m.GGMLQuantizationType[name]), 3) for m in (ours, theirs))
        print(f"dequantize 4 Mi elements of {name}: {mine * 1e3:.1f} ms here, {other * 1e3:.0f} ms there, {other / mine:.1f} times")


def record(theirs) -> None:
    """What the reference makes of the cases, for the tests of the package."""
    found: dict = {"source": "written by conformance/python_gguf.py --record from gguf-py of llama.cpp, as in llama-cpp-python 0.3.36"}
    found["writer"] = {label: {name: cases.digest(data) for name, data in cases.written(theirs, case).items()} for label, case in cases.writer_cases().items()}
    found["keys"] = {name: cases.digest(cases.written_key(theirs, name)) for name in cases.key_methods(theirs)}
    found["refusals"] = {label: outcome(lambda call=call: call(theirs)) for label, call in cases.refusals().items()}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "x.gguf"
        found["hostile"] = {}
        for label, content in cases.hostile().items():
            path.write_bytes(content)
            found["hostile"][label] = outcome(lambda: theirs.GGUFReader(path))
    found["dequantize"], found["quantize"] = {}, {}
    for qtype in theirs.quants._type_traits:
        with np.errstate(all="ignore"):
            found["dequantize"][qtype.name] = cases.digest(cases.without_nan(theirs.dequantize(cases.blocks(theirs, qtype.name), qtype)).tobytes())
        made = outcome(lambda: theirs.quantize(cases.values(), qtype))
        if not isinstance(made, str):
            found["quantize"][qtype.name] = cases.digest(made.tobytes())
    found["model_ids"] = [theirs.Metadata.get_model_id_components(*one) for one in cases.model_ids()]
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False, indent=1 if isinstance(value, dict) else None)}" for key, value in found.items()]
    (TESTS / "fixtures").mkdir(exist_ok=True)
    (TESTS / "fixtures/gguf_reference.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf_py", type=Path)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--files", type=Path, nargs="*", default=[])
    parser.add_argument("--record", action="store_true", help="write what the reference does for the tests of the package, and compare nothing")
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.gguf_py))
    import gguf as theirs

    warnings.simplefilter("ignore")
    if arguments.record:
        record(theirs)
        return 0
    import ggmill.gguf as ours

    PRISTINE.update(theirs.TensorNameMap.block_mappings_cfg)
    parts = {"names": names, "writer": writer, "reader": lambda a, b: reader(a, b, arguments.files), "quants": quants, "metadata": metadata, "vocab": vocab,
             "scripts": lambda a, b: scripts(a, b, arguments.files)}
    if arguments.parts == ["speed"]:
        speed(ours, theirs, arguments.files)
        return 0
    for name in arguments.parts or parts:
        parts[name](ours, theirs)
        print(name, counts.get(name, 0), "compared", flush=True)
    for failure in failures[:40]:
        print(failure)
    print(", ".join(f"{counts.get(name, 0)} with {name}" for name in ("BpeVocab", "SentencePieceVocab", "MistralVocab", "LlamaHfVocab")))
    print(f"{len(failures)} differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
