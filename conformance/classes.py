"""Checks descriptions of architectures against the reference converter, class by class, without weights from anywhere.

    python classes.py build v4|v5 CONFIG.json NAME     make the recipe NAME from a transformers configuration
    python classes.py quantize METHOD FROM NAME        make the recipe NAME from the recipe FROM, quantized (classes_quantized.py has the methods)
    python classes.py materialize NAME DIR             make the checkpoint DIR/NAME
    python classes.py ref NAME [TYPE]                  what the reference makes of it: keys and tensors
    python classes.py try [--arch-data DATA] NAME...   compare our conversion with the reference's, at f16, bf16 and q8_0
    python classes.py bless [--arch-data DATA] NAME... record the reference's hashes in recipes for which all types are equal
    python classes.py registry                         write the classes that the reference registers to fixtures/registry.txt
    python classes.py all [JOBS]                       compare every recipe, so many at once, and count the outcomes; by the descriptions that are built in

A *recipe* is an entry of crates/ggmill-convert/tests/fixtures/classes.json. One called mmproj/NAME is in fixtures/mmproj.json: what is made of that is the projector, as
--mmproj makes it. Those in fixtures/mixtures.json, called mixtures/NAME, have rows that are multiples of 256.

- class: the name in `architectures`; config: all of config.json;
- files: other files by name; those under target/ are of the model that a draft model is for: an object is written as JSON, a text as it is, {"tensors": {...}} under a name that ends in .safetensors as weights;
  a text under config.json goes before `config` (for what JSON does not have, such as Infinity);
- tensors: NAME: [DTYPE, SHAPE] or [DTYPE, SHAPE, VALUES], dtypes as safetensors spells them, shapes as PyTorch shows them;
- vocabulary: "none" (the reference's own step for models without a vocabulary takes the place of every class's), "spm", "bpe" or "wordpiece" (tiny tokenizers
  of this repository are put beside the weights), "tokens" (the recipe has its tokenizer under `files`) or "builtin" (there is none: every class does what it
  does then). With all but "none", the one thing that is not as the reference has it is that it takes every pre-tokenizer to be "gpt-2", as `--pre gpt-2` makes
  ours do;
- eager: whether the reference reads all tensors at once (`--no-lazy`), as it stops with an exception otherwise;
- exact: whether exponentials, sines and cosines are computed in double precision and rounded once, in place of the machine's vector library;
- expected: SHA-256 of the reference's whole file, for each type in which both write the same bytes. A type that the reference cannot write is left out.
  one_pass.py records q4_k_m beside them;
- reference: in place of `expected`, a sentence on what the reference does, where there are no hashes of it.

The weights follow from the recipe. For the tensor NAME let seed be the 64-bit FNV-1a hash of NAME in UTF-8. Element i (in the order of the file) comes from

    z = seed + (i + 1) * 0x9E3779B97F4A7C15;  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;  z = (z ^ z >> 27) * 0x94D049BB133111EB;  h = z ^ z >> 31

in wrapping 64-bit arithmetic (SplitMix64):

- BF16, F16: int8(h >> 56) / 2^8, which both hold exactly. F32, F64: (int(h >> 40) - 2^23) / 2^24;
- I64, I32, I16, U32, U16: h % 50. U8: h & 0xff. I8: int8(h & 0xff). BOOL: h & 1. F8_E4M3, F8_E5M2, F8_E8M0: the byte h & 0x77.

VALUES replaces this: "zeros"; "ones"; "bits", the lowest bits of h as an integer of the type; a list of numbers, taken from its beginning again where it is shorter than the tensor; {"like": OTHER}: generated as the
tensor OTHER is. model.safetensors has a tensor of a wider type before one of a narrower (F64, I64, F32, I32, U32, BF16, F16, ...: see WIDTHS), and by name
within a type, as the safetensors library writes it.

Environment: GGMILL, our binary; LLAMA_CPP, the directory vendor/llama.cpp of the source archive of llama-cpp-python 0.3.36; REFERENCE_PYTHON, an interpreter
with torch, transformers 4.57.6 and numpy, which runs the reference (and `build v4`); REFERENCE_PYTHON_5, one with transformers 5 for `build v5`; CLASSES_CACHE,
a directory for checkpoints and what the reference made of them. Needs numpy. Recipes and descriptions are those of the repository in which it is called.
"""

import ast
import copy
import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from math import prod
from pathlib import Path

import classes_quantized
import numpy as np

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
FIXTURES = "crates/ggmill-convert/tests/fixtures"
DATA = "crates/ggmill-arch/data"
TYPES = ["f16", "bf16", "q8_0"]

# numpy's type for each type of safetensors, in the order in which that library writes tensors.
WIDTHS = {
    "U64": "<u8", "I64": "<i8", "F64": "<f8", "F32": "<f4", "U32": "<u4", "I32": "<i4", "BF16": "<u2", "F16": "<f2", "U16": "<u2", "I16": "<i2",
    "F8_E8M0": "u1", "F8_E4M3": "u1", "F8_E5M2": "u1", "I8": "i1", "U8": "u1", "BOOL": "u1",
}


# Weights

def mixed(name, count):
    """The numbers h of the first elements of the tensor."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def weights(name, dtype, shape, values=None):
    """The bytes of a tensor."""
    kind = WIDTHS[dtype]
    count = prod(shape)
    if isinstance(values, dict):
        name, values = values["like"], None
    if values == "bits":
        return mixed(name, count).astype(kind).tobytes()
    if values is not None:
        numbers = {"zeros": [0], "ones": [1]}[values] if isinstance(values, str) else values
        numbers = np.resize(np.array(numbers, dtype=np.float64), count)
        if dtype == "BF16":
            return (numbers.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
        return numbers.astype(kind).tobytes()
    h = mixed(name, count)
    if dtype in ("BF16", "F16"):
        numbers = (h >> np.uint64(56)).astype(np.uint8).view(np.int8).astype("<f4") / np.float32(256)
        return (numbers.view("<u4") >> 16).astype("<u2").tobytes() if dtype == "BF16" else numbers.astype("<f2").tobytes()
    if dtype in ("F32", "F64"):
        return (((h >> np.uint64(40)).astype(np.int64) - 2**23) / 2**24).astype(kind).tobytes()
    if dtype.startswith("F8"):
        return (h & np.uint64(0x77)).astype(np.uint8).tobytes()
    if dtype in ("U8", "I8"):
        return (h & np.uint64(0xFF)).astype(np.uint8).tobytes()
    if dtype == "BOOL":
        return (h & np.uint64(1)).astype(np.uint8).tobytes()
    return (h % np.uint64(50)).astype(kind).tobytes()


def safetensors(tensors):
    """The bytes of a safetensors file."""
    widths = list(WIDTHS)
    header, data = {"__metadata__": {"format": "pt"}}, []
    offset = 0
    for name in sorted(tensors, key=lambda name: (widths.index(tensors[name][0]), name)):
        dtype, shape = tensors[name][:2]
        data.append(weights(name, *tensors[name]))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data[-1])]}
        offset += len(data[-1])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def materialize(recipe, directory):
    """Makes the checkpoint of a recipe."""
    directory.mkdir(parents=True, exist_ok=True)
    kind = recipe.get("vocabulary", "none")
    if kind == "spm":
        real = REPOSITORY / "crates/ggmill-testdata/real/tinystories260K"
        for name in ("tokenizer.model", "tokenizer_config.json"):
            shutil.copyfile(real / name, directory / name)
    elif kind in ("bpe", "wordpiece"):
        for file in (REPOSITORY / FIXTURES / "vocabularies" / kind).iterdir():
            shutil.copyfile(file, directory / file.name)
    elif kind not in ("none", "tokens", "builtin"):
        sys.exit(f"there is no vocabulary {kind!r}")
    (directory / "config.json").write_text(json.dumps(recipe["config"], indent=2))
    for name, content in recipe.get("files", {}).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".safetensors"):
            path.write_bytes(safetensors(content["tensors"]))
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    (directory / "model.safetensors").write_bytes(safetensors(recipe["tensors"]))


# Recipes

def top():
    """The repository in which this is called; this script's own if in none."""
    for directory in [Path.cwd(), *Path.cwd().parents]:
        if (directory / DATA).is_dir():
            return directory
    return REPOSITORY


def recipe_file(name):
    """The file that a recipe is an entry of, and the name of the entry."""
    kind, _, entry = name.rpartition("/")
    return top() / FIXTURES / f"{kind or 'classes'}.json", entry


@cache
def recipes(path):
    """The recipes of a file by name."""
    return json.loads(path.read_text())


def read_recipe(name):
    """Returns a recipe by its name."""
    path, entry = recipe_file(name)
    if entry not in recipes(path):
        sys.exit(f"{path} has no recipe {entry}")
    return copy.deepcopy(recipes(path)[entry])


def recipe_names(*kinds):
    """The names of all recipes of these kinds."""
    return [f"{kind}/{entry}".removeprefix("classes/") for kind in kinds for entry in sorted(recipes(top() / FIXTURES / f"{kind}.json"))]


def write_recipe(name, recipe):
    """Adds or replaces a recipe in its file, which has an empty line between recipes."""
    path, entry = recipe_file(name)
    recipes(path)[entry] = recipe
    entries = sorted(recipes(path).items())
    path.write_text("{\n" + ",\n\n".join(f"{json.dumps(entry)}: {recipe_text(recipe)}" for entry, recipe in entries) + "\n}\n")


def recipe_text(recipe):
    """A recipe with one line for each tensor."""
    def lines(value, one_each):
        if not one_each or not value:
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        return "{\n" + ",\n".join(f"    {json.dumps(k)}: {json.dumps(v, ensure_ascii=False, allow_nan=False)}" for k, v in value.items()) + "\n  }"

    order = ["class", "config", "of", "adapter", "files", "vocabulary", "eager", "exact", "tensors", "decoded", "expected", "refused", "reference"]
    rest = [key for key in recipe if key not in order]
    return "{\n" + ",\n".join(
        f"  {json.dumps(key)}: {lines(recipe[key], key in ('config', 'adapter', 'files', 'tensors', 'decoded', 'expected'))}" for key in order + rest if key in recipe
    ) + "\n}"


class Job:
    """A recipe with its checkpoint and what the reference makes of it, in the cache."""

    def __init__(self, name):
        self.recipe = read_recipe(name)
        self.name = name.rpartition("/")[2]
        self.vocabulary = self.recipe.get("vocabulary", "none")
        self.projector = name.startswith("mmproj/")
        content = {key: value for key, value in self.recipe.items() if key not in ("expected", "reference", "refused")}
        digest = hashlib.sha256(json.dumps([3, content, "mmproj"] if self.projector else [3, content]).encode()).hexdigest()[:16]
        self.cache = Path(os.environ["CLASSES_CACHE"]) / digest
        self.directory = self.cache / self.name
        if not (self.cache / "made").exists():
            materialize(self.recipe, self.directory)
            (self.cache / "made").touch()
        target = self.directory / "target"
        self.target = target if target.is_dir() else None

    def reference(self, kind):
        """The reference's file, or none and its log."""
        out, log = self.cache / f"{kind}.ref.gguf", self.cache / f"{kind}.ref.log"
        if not log.exists():
            ask_reference({"directory": str(self.directory), "out": str(out), "type": kind, "vocabulary": self.vocabulary, "eager": self.recipe.get("eager", False),
                           "exact": self.recipe.get("exact", False),
                           "log": str(log), "mmproj": self.projector, "target": str(self.target) if self.target else None})
        return (out if out.exists() else None), log.read_text(errors="replace")

    def ours(self, kind, data):
        """Our file, or none and what the command printed; by the descriptions in `data`, or by those that are built in."""
        out = self.cache / f"{self.name}.{kind}.{os.getpid()}.gguf"
        command = [os.environ["GGMILL"], "convert", str(self.directory), "-o", str(out), "--type", kind, "--force", "--no-check"]
        command += ["--arch-file", str(data)] if data else []
        command += ["--target", str(self.target)] if self.target else []
        # These have no pre-tokenizer.
        plain = any((self.directory / name).exists() for name in ("rwkv_vocab_v20230424.txt", "tokenizer.jsonl"))
        pre = ["--mmproj"] if self.projector else {"none": ["--no-vocab"], "spm": [], "builtin": []}.get(self.vocabulary, [] if plain else ["--pre", "gpt-2"])
        done = subprocess.run([*command, *pre], capture_output=True, text=True, errors="replace")
        return (out if done.returncode == 0 else None), done.stdout + done.stderr


# The reference, in a process of its own that has loaded everything (loading takes longer than ten conversions).

def ask_reference(job):
    """Has the server do a job, and starts one where there is none."""
    cache = Path(os.environ["CLASSES_CACHE"])
    address = cache / "reference.socket"
    for attempt in range(600):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            try:
                peer.connect(str(address))
                peer.sendall(json.dumps(job).encode() + b"\n")
                answer = peer.makefile().readline()
                if answer:
                    return json.loads(answer)
            except OSError:
                pass
        if attempt % 60 == 0:
            # The server itself sees to it that there is only one.
            command = [os.environ["REFERENCE_PYTHON"], str(HERE / "classes_reference.py"), "serve", str(cache), os.environ["LLAMA_CPP"]]
            with open(cache / "reference.log", "ab") as log:
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        time.sleep(0.5)
    sys.exit(f"the reference does not answer: see {cache / 'reference.log'}")


# GGUF files

SCALARS = ["B", "b", "H", "h", "I", "i", "f", "?", None, None, "Q", "q", "d"]
NAMES = ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"]
# GGML type: name, elements and bytes of a block
STORED = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 8: ("Q8_0", 32, 34), 24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
          30: ("BF16", 1, 2), 39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36)}


class Gguf:
    """Keys ({name: (type, value)}) and tensors ({name: (type, shape, bytes)}) of a file, in their order."""

    def __init__(self, path):
        self.bytes = Path(path).read_bytes()
        self.at = 0
        magic, version, tensors, keys = self.take("IIQQ")
        assert (magic, version) == (0x46554747, 3)
        self.keys = {}
        for _ in range(keys):
            name = self.text()
            self.keys[name] = self.value(self.take("I")[0])
        infos = []
        for _ in range(tensors):
            name = self.text()
            shape = list(self.take(f"{self.take('I')[0]}Q"))
            infos.append((name, shape, *self.take("IQ")))
        alignment = self.keys.get("general.alignment", (None, 32))[1]
        start = -(-self.at // alignment) * alignment
        self.tensors = {}
        for name, shape, kind, offset in infos:
            stored, elements, size = STORED.get(kind, (f"type {kind}", 1, 0))
            self.tensors[name] = (stored, shape, self.bytes[start + offset:start + offset + prod(shape) // elements * size])

    def take(self, form):
        """Numbers from here on."""
        values = struct.unpack_from("<" + form, self.bytes, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def text(self):
        """A string from here on."""
        length = self.take("Q")[0]
        self.at += length
        return self.bytes[self.at - length:self.at].decode(errors="replace")

    def value(self, kind):
        """A value of a type, with the type's name."""
        if NAMES[kind] == "string":
            return "string", self.text()
        if NAMES[kind] != "array":
            return NAMES[kind], self.take(SCALARS[kind])[0]
        element, count = self.take("IQ")
        if NAMES[element] in ("string", "array"):
            return f"[{NAMES[element]}]", [self.value(element)[1] for _ in range(count)]
        return f"[{NAMES[element]}]", list(self.take(f"{count}{SCALARS[element]}"))


def short(value):
    """A value in at most a line."""
    text = repr(value)
    return text if len(text) <= 150 else f"{text[:150]}… ({len(value)})"


def elements(stored, data):
    """What a tensor holds, as numbers; blocks as bytes."""
    if stored == "BF16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, {"F32": "<f4", "F16": "<f2", "I32": "<i4", "I64": "<i8", "I16": "<i2", "F64": "<f8"}.get(stored, "u1"))


def first_misplaced(ours, theirs):
    """Where the order of names that both have begins to differ."""
    both = [name for name in ours if name in theirs]
    order = [name for name in theirs if name in ours]
    for mine, their in zip(both, order):
        if mine != their:
            return [f"order: we have {mine} where the reference has {their}"]
    return []


def differences(ours, theirs):
    """Lines on how two files differ."""
    lines = [f"key missing: {name} = {kind} {short(value)}" for name, (kind, value) in theirs.keys.items() if name not in ours.keys]
    lines += [f"key extra: {name} = {kind} {short(value)}" for name, (kind, value) in ours.keys.items() if name not in theirs.keys]
    lines += [f"key {line}" for line in first_misplaced(ours.keys, theirs.keys)]
    for name, mine in ours.keys.items():
        their = theirs.keys.get(name, mine)
        if repr(mine) != repr(their):
            if isinstance(mine[1], list) and isinstance(their[1], list) and mine[0] == their[0]:
                at = next((i for i, (a, b) in enumerate(zip(mine[1], their[1])) if repr(a) != repr(b)), min(len(mine[1]), len(their[1])))
                lines.append(f"key differs: {name} {mine[0]} of {len(mine[1])}, from element {at}: {short(mine[1][at:at + 8])}; "
                             f"reference: {len(their[1])}, {short(their[1][at:at + 8])}")
                continue
            lines.append(f"key differs: {name} = {mine[0]} {short(mine[1])}; reference: {their[0]} {short(their[1])}")
    lines += [f"tensor missing: {name} {kind} {shape}" for name, (kind, shape, _) in theirs.tensors.items() if name not in ours.tensors]
    lines += [f"tensor extra: {name} {kind} {shape}" for name, (kind, shape, _) in ours.tensors.items() if name not in theirs.tensors]
    lines += [f"tensor {line}" for line in first_misplaced(ours.tensors, theirs.tensors)]
    for name, mine in ours.tensors.items():
        their = theirs.tensors.get(name, mine)
        if mine[:2] != their[:2]:
            lines.append(f"tensor differs: {name} is {mine[0]} {mine[1]}; reference: {their[0]} {their[1]}")
        elif mine[2] != their[2]:
            a, b = elements(mine[0], mine[2]), elements(mine[0], their[2])
            unequal = np.nonzero(np.frombuffer(mine[2], "u1").reshape(len(a), -1) != np.frombuffer(their[2], "u1").reshape(len(a), -1))[0]
            at = int(unequal[0])
            count = len(np.unique(unequal))
            place = f"byte {at}" if mine[0] not in ("F32", "F16", "BF16", "I32", "I64") else str([int(i) for i in np.unravel_index(at, mine[1][::-1])][::-1])
            lines.append(f"tensor differs: {name} {mine[0]} {mine[1]} in {count} of {len(a)}, first at {place}: {a[at]}; reference: {b[at]}")
    return lines or ["differ outside keys and tensors (padding?)"]


# Commands

def compare(job, kind, data):
    """Whether both files are equal, the reference's hash, and lines on what is not."""
    theirs, log = job.reference(kind)
    ours, printed = job.ours(kind, data)
    try:
        if theirs is None:
            lines = ["the reference fails: " + line for line in log.strip().splitlines()[-6:]]
            return (ours is None), None, lines + ["we " + ("succeed" if ours else "fail too")]
        if ours is None:
            return False, None, ["we fail: " + line for line in printed.strip().splitlines()[:12]]
        theirs_bytes = theirs.read_bytes()
        if ours.read_bytes() == theirs_bytes:
            return True, hashlib.sha256(theirs_bytes).hexdigest(), [line for line in printed.splitlines() if line.startswith("warning")]
        return False, None, differences(Gguf(ours), Gguf(theirs))
    finally:
        if ours:
            ours.unlink(missing_ok=True)


class Outcome:
    """How a recipe compares: whether all is as it should be, in a word and in lines."""

    def __init__(self, name, data):
        job = Job(name)
        self.job, self.expected, self.lines = job, {}, []
        verdicts, self.equal = [], True
        for kind in TYPES:
            same, digest, more = compare(job, kind, data)
            verdicts.append(f"{kind} {'equal' if digest else 'both fail' if same else 'DIFFERENT'}")
            if digest:
                self.expected[kind] = digest
            if not digest and not (same and self.expected):
                self.lines = more
            if not same:
                self.equal = False
                break
        self.equal = self.equal and bool(self.expected)
        recorded, reason = job.recipe.get("expected"), job.recipe.get("reference")
        # What other scripts record is theirs to compare.
        recorded = recorded and {kind: digest for kind, digest in recorded.items() if kind in TYPES}
        if self.equal and recorded is not None and recorded.items() < self.expected.items():
            self.word, more = "not recorded", [f"recorded: {', '.join(recorded)}"]
        elif self.equal and recorded not in (None, self.expected):
            self.word, more = "DIFFERENT", ["the reference's hashes are not those recorded"]
        elif self.equal:
            self.word, more = ("equal", []) if reason is None else ("DIFFERENT", [f"equal now, and the recipe says: {reason}"])
        elif recorded is None and reason is not None:
            self.word, more, self.lines = "without a file of the reference", [reason], []
        else:
            self.word, more = "DIFFERENT", []
        self.lines += more
        self.verdicts = ", ".join(verdicts)

    def show(self):
        print(f"{self.job.name}: {self.word if self.word.startswith('without') else self.verdicts}")
        for line in self.lines[:25]:
            print("  " + line[:400])
        if len(self.lines) > 25:
            print(f"  and {len(self.lines) - 25} more lines")
        sys.stdout.flush()


def run_try(names, data, bless=False):
    """Compares recipes, and records the hashes if asked to."""
    failed = 0
    for name in names:
        outcome = Outcome(name, data)
        outcome.show()
        failed += not outcome.equal
        if bless and outcome.equal:
            recipe = outcome.job.recipe
            recipe["expected"] = outcome.expected | {kind: digest for kind, digest in recipe.get("expected", {}).items() if kind not in TYPES}
            write_recipe(name, recipe)
            print("  recorded")
    return 1 if failed else 0


def run_all(jobs, data):
    """Compares every recipe, shows those that are not equal, and counts."""
    names = recipe_names("classes", "mixtures", "mmproj")
    counts = {}
    with ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(lambda name: Outcome(name, data), names):
            counts[outcome.word] = counts.get(outcome.word, 0) + 1
            if outcome.word != "equal":
                outcome.show()
    print(f"{len(names)} recipes: " + "; ".join(f"{counts[word]} {word}" for word in sorted(counts, key=counts.get, reverse=True)))
    return 1 if "DIFFERENT" in counts else 0


def show(file, log):
    """Prints keys and tensors of a file of the reference, or the end of its log where it made none; the exit status."""
    if file is None:
        print("\n".join(log.strip().splitlines()[-25:]))
        return 1
    file = Gguf(file)
    for key, (stored, value) in file.keys.items():
        print(f"{key} = {stored} {short(value)}")
    for tensor, (stored, shape, _) in file.tensors.items():
        print(f"{tensor} {stored} {shape}")
    return 0


def registry():
    """Writes the classes of the reference's two tables, models and projectors."""
    table = (Path(os.environ["LLAMA_CPP"]) / "conversion" / "__init__.py").read_text()
    maps = {target.id: ast.literal_eval(node.value) for node in ast.parse(table).body if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict)
            for target in [node.target]}
    lines = ["# Written by `python conformance/classes.py registry`: the classes that the reference converter of llama-cpp-python 0.3.36 registers, models and projectors."]
    for kind, name in [("model", "TEXT_MODEL_MAP"), ("projector", "MMPROJ_MODEL_MAP")]:
        lines += [f"{kind} {known}" for known in sorted(maps[name])]
    path = top() / FIXTURES / "registry.txt"
    path.write_text("\n".join(lines) + "\n")
    print(f"{path}: {len(lines) - 1} classes")
    return 0


def record(name, *command):
    """Makes a recipe of what a command prints; the exit status."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if done.returncode == 0:
        recipe = json.loads(done.stdout)
        write_recipe(name, recipe)
        print(f"{name}: {len(recipe['tensors'])} tensors")
    return done.returncode


def main():
    words = sys.argv[2:]
    data = top() / DATA
    if "--arch-data" in words:
        at = words.index("--arch-data")
        data = Path(words[at + 1])
        del words[at:at + 2]
    elif sys.argv[1:2] == ["all"]:
        data = None
    match sys.argv[1:2]:
        case ["build"] if len(words) == 3:
            python = os.environ["REFERENCE_PYTHON" if words[0] == "v4" else "REFERENCE_PYTHON_5"]
            return record(words[2], python, HERE / "classes_reference.py", "build", words[1])
        case ["quantize"] if len(words) == 3:
            recipe = classes_quantized.quantize(read_recipe(words[1]), words[0])
            write_recipe(words[2], recipe)
            return 0
        case ["materialize"] if len(words) == 2:
            materialize(read_recipe(words[0]), Path(words[1]) / words[0].rpartition("/")[2])
            return 0
        case ["ref"] if words:
            return show(*Job(words[0]).reference(words[1] if len(words) > 1 else "f16"))
        case ["registry"] if not words:
            return registry()
        case ["try"] if words:
            return run_try(words, data)
        case ["bless"] if words:
            return run_try(words, data, bless=True)
        case ["all"] if len(words) < 2:
            return run_all(int(words[0]) if words else os.cpu_count(), data)
    print(__doc__.split("\n\n")[1])
    return 2


if __name__ == "__main__":
    sys.exit(main())
