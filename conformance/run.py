"""Runs a comparison of this directory: builds what it needs, and gives the script its interpreter and paths.

    python3 conformance/run.py                       list the comparisons
    python3 conformance/run.py NAME [ARGUMENT]...    run one; further arguments go to its script

Needs Python 3.10 or later, without packages. Most scripts run in a virtual environment with PACKAGES, which is made in
target/conformance/venv the first time (llama-cpp-python is compiled: minutes, and a C++ compiler). Environment:

    CONFORMANCE_PYTHON    an interpreter that has PACKAGES, in place of that environment
    REFERENCE_PYTHON      an interpreter with torch, transformers 4.57.6 and numpy, for comparisons with the reference converter
    REFERENCE_PYTHON_5    an interpreter with torch and transformers 5.24.0, for `library`
    LLAMA_CPP             the directory vendor/llama.cpp of the source archive of llama-cpp-python 0.3.36, for the same
    GGMILL                a binary of ggmill to compare, in place of one that is built
"""

import argparse
import functools
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REAL = ROOT / "crates/ggmill-testdata/real"
CHECKPOINT = REAL / "tinystories260K"
DATA = ROOT.parent / "shared/data"
# What the scripts find depends on these versions, and every recorded number names them.
PACKAGES = ["gguf==0.19.0", "llama-cpp-python==0.3.36", "numpy", "safetensors", "jsonschema", "xxhash", "blake3"]
COMMANDS = {}


def comparison(function):
    COMMANDS[function.__name__.rstrip("_").replace("_", "-")] = function
    return function


def run(*words, **environment):
    subprocess.run([str(word) for word in words], cwd=ROOT, env=os.environ | environment, stdin=subprocess.DEVNULL, check=True)


def cargo(*words):
    run("cargo", *words)


@functools.cache
def target():
    metadata = subprocess.run(["cargo", "metadata", "--format-version=1", "--no-deps"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return Path(json.loads(metadata.stdout)["target_directory"])


def work(name):
    """Returns a directory in target/conformance, created if needed."""
    directory = target() / "conformance" / name
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@functools.cache
def python():
    if given := os.environ.get("CONFORMANCE_PYTHON"):
        return given
    environment = target() / "conformance/venv"
    interpreter = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    imports = "import gguf, llama_cpp, numpy, safetensors, jsonschema, xxhash, blake3"
    if not interpreter.exists() or subprocess.run([interpreter, "-c", imports], stderr=subprocess.DEVNULL).returncode:
        print(f"making {environment} with {', '.join(PACKAGES)}", flush=True)
        run(sys.executable, "-m", "venv", environment)
        run(interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES)
    return interpreter


def reference():
    if given := os.environ.get("REFERENCE_PYTHON"):
        return given
    sys.exit("REFERENCE_PYTHON is not set: an interpreter with torch, transformers 4.57.6 and numpy (see conformance/README.md)")


@functools.cache
def ggmill():
    if given := os.environ.get("GGMILL"):
        return given
    cargo("build", "--quiet", "--release", "--package=ggmill-cli")
    return target() / "release/ggmill"


def example(package, name):
    cargo("build", "--quiet", "--release", f"--package={package}", f"--example={name}")
    return target() / "release/examples" / name


def worker(name):
    cargo("build", "--quiet", "--release", "--package=ggmill-bench", f"--bin={name}")
    return target() / "release" / name


def script(name, *arguments, interpreter=None, **environment):
    run(interpreter or python(), ROOT / "conformance" / name, *arguments, **environment)


def classes_script(name, *arguments, interpreter=None, ours=True):
    """Runs a script over recipes of checkpoints (classes.py)."""
    environment = {"CLASSES_CACHE": os.environ.get("CLASSES_CACHE") or str(work("classes"))}
    if ours:
        environment["GGMILL"] = str(ggmill())
    reference()
    script(name, *arguments, interpreter=interpreter, **environment)


def real_files():
    return [directory for directory in (REAL, DATA) if directory.is_dir()]


def real_gguf():
    return [path for directory in real_files() for path in sorted(directory.rglob("*.gguf"))]


def llama_cpp_file(path):
    """Returns a file of llama.cpp from the source archive of llama-cpp-python, downloaded the first time."""
    name = f"llama_cpp_python-0.3.36/vendor/llama.cpp/{path}"
    if not (work(".") / name).is_file():
        print(f"fetching the source archive of llama-cpp-python 0.3.36 for {path}", flush=True)
        package = ["--no-deps", "--no-binary=llama-cpp-python", "llama-cpp-python==0.3.36", "--dest", work(".")]
        run(python(), "-m", "pip", "download", "--quiet", "--disable-pip-version-check", *package)
        with tarfile.open(work(".") / "llama_cpp_python-0.3.36.tar.gz") as archive:
            archive.extract(name, work("."), filter="data")
    return work(".") / name


def generated(kind):
    """Returns a directory with the models that ggmill-testdata generates: `legacy` or `quantize`."""
    directory = work(kind)
    shutil.rmtree(directory)
    cargo("run", "--quiet", "--package=ggmill-testdata", "--example=inputs", "--", kind, directory)
    return directory


def flag(arguments, name):
    """Removes a flag from the arguments. Returns whether it was there."""
    found = name in arguments
    arguments[:] = [argument for argument in arguments if argument != name]
    return found


def first(arguments):
    """Removes the first argument if it is not an option. Returns it."""
    return arguments.pop(0) if arguments and not arguments[0].startswith("-") else None


# Reading and writing files


@comparison
def open_(arguments):
    """speed of opening files, with other readers: [FILE]... [--rounds N] [--slow-rounds N] [--no-candle] [--record]"""
    default = [llama_cpp_file("models/ggml-vocab-gemma-4.gguf"), *(DATA / "vocab-gguf").rglob("*.gguf"), *(DATA / "gguf").rglob("*.gguf")]
    script("open.py", worker("open_worker"), python(), *arguments, "--default", *default, interpreter=sys.executable)


@comparison
def inspect(paths):
    """`ggmill inspect --json --full`, with gguf, value by value"""
    script("inspect_json.py", ggmill(), *(paths or real_files()))


@comparison
def expect(_):
    """record what gguf finds in real files: crates/ggmill-testdata/expected"""
    script("expect.py", ROOT / "crates/ggmill-testdata/expected", *real_gguf())


@comparison
def hash(arguments):
    """`ggmill hash`, with hashlib, xxhash and blake3; --write records manifests of bundled files"""
    if flag(arguments, "--write"):
        bundled = [REAL / "mobilenetv3_3class_v3_fp16.gguf", REAL / "ggml-vocab-phi-3.gguf"]
        script("hash.py", "--write", ROOT / "crates/ggmill-edit/tests/hashes", *bundled)
    else:
        script("hash.py", ggmill(), *(arguments or real_gguf()))


@comparison
def index(arguments):
    """tables of `ggmill index`, with DuckDB and pyarrow in REFERENCE_PYTHON; [FILES], or --record"""
    if flag(arguments, "--record"):
        golden = ROOT / "crates/ggmill-inspect/tests/golden/duckdb.jsonl"
        script("index.py", "record", ggmill(), REAL, golden, interpreter=reference())
    else:
        script("index.py", "compare", ggmill(), *(arguments or [20_000]), interpreter=reference())


@comparison
def write(arguments):
    """split, merged and repacked files, with gguf and libllama; their speed, with cp"""
    parser = argparse.ArgumentParser("write")
    parser.add_argument("--rounds", default=5, help="turns of each side")
    parser.add_argument("--megabytes", default=2048, help="size of the generated file")
    parser.add_argument("--seconds", default=240, help="no further turns after that time")
    parser.add_argument("--llama-cpp", help="sources of llama.cpp, for llama-gguf-hash and llama-gguf-split")
    parser.add_argument("--directory", help="where the generated files go; 10 GB")
    parser.add_argument("--no-time", action="store_true", help="compare the files only")
    options = parser.parse_args(arguments)
    legacy = [*sorted(generated("legacy").iterdir()), REAL / "ggml-vocab.ggjt-v1.bin"]
    script("write.py", ggmill(), CHECKPOINT, *legacy)
    if not options.no_time:
        directory = options.directory or work("write")
        tools = [options.llama_cpp] if options.llama_cpp else []
        script("write_speed.py", ggmill(), directory, options.rounds, options.megabytes, options.seconds, *tools)


@comparison
def older(arguments):
    """the command, with an older build of it: OLDER [--rounds N] [--megabytes N] [--row COMMAND]..."""
    parser = argparse.ArgumentParser("older")
    parser.add_argument("older")
    parser.add_argument("--rounds", default=9)
    parser.add_argument("--megabytes", default=1024)
    parser.add_argument("--row", action="append", default=[])
    options = parser.parse_args(arguments)
    script("older.py", options.older, ggmill(), work("older"), REAL, DATA, options.rounds, options.megabytes, *options.row)


@comparison
def legacy(arguments):
    """record what the reference makes of files from before GGUF: convert_llama_ggml_to_gguf.py of llama.cpp"""
    script("legacy.py", *arguments, generated("legacy"), ROOT / "crates/ggmill-testdata/expected/legacy.json")


# Codecs and quantization


@comparison
def vectors(arguments):
    """record golden vectors of the codecs: crates/ggmill-quant/tests/vectors"""
    script("quant_vectors.py", ROOT / "crates/ggmill-quant/tests/vectors", *arguments)


@comparison
def quant(arguments):
    """speed and bytes of the codecs, with libggml"""
    script("quant.py", worker("quant_worker"), *arguments)


@comparison
def quant_count(arguments):
    """instructions of the codecs, with libggml; --target MACHINE --llama-cpp DIR for another machine"""
    parser = argparse.ArgumentParser("quant-count", allow_abbrev=False)
    parser.add_argument("--target", choices=["aarch64", "wasm32", "x86_64"])
    parser.add_argument("--llama-cpp")
    options, rest = parser.parse_known_args(arguments)
    rest = [word for word in rest if word != "--"]
    if options.target:
        script("quant_count_target.py", options.target, options.llama_cpp, work("quant_count"), *rest)
    else:
        script("quant_count.py", worker("quant_worker"), *rest)


@comparison
def quantize(arguments):
    """`ggmill quantize`, with llama_model_quantize: bytes, or --speed TYPE [--weights N] [--threads N]"""
    script("quantize.py", ggmill(), generated("quantize"), *(arguments or [ROOT / "crates/ggmill-quantize/tests/quantize.sha256"]))


@comparison
def imatrix(_):
    """`ggmill imatrix merge` and `convert`, with the method of llama-imatrix"""
    script("imatrix.py", ggmill(), generated("quantize"))


@comparison
def fit(arguments):
    """types chosen for a size, with plain types of that size, by the KL divergence on held-out text: [MODEL] [--text FILE]..."""
    script("fit.py", ggmill(), work("fit"), first(arguments) or CHECKPOINT, *arguments)


@comparison
def calibrate(arguments):
    """calibrated rounding, with rounding weight by weight, by the KL divergence on held-out text: [--types TYPE,…]"""
    script("calibrate.py", ggmill(), work("calibrate"), CHECKPOINT, *arguments)


# Conversion


@comparison
def convert(arguments):
    """the bundled checkpoint, with an independent reading, and every recipe, with the reference converter: [--bundled] [--speed] [--jobs N]"""
    parser = argparse.ArgumentParser("convert")
    parser.add_argument("--jobs", "-j", default=2)
    parser.add_argument("--bundled", action="store_true", help="leave out the recipes")
    parser.add_argument("--speed", action="store_true", help="compare speed and memory on 1.1 billion weights instead")
    options = parser.parse_args(arguments)
    if options.speed:
        return script("convert_speed.py", ggmill(), CHECKPOINT)
    script("convert.py", ggmill(), CHECKPOINT, REAL / "tinystories260K.llama2c.bin")
    if not options.bundled:
        classes_script("classes.py", "all", options.jobs, interpreter=reference())


@comparison
def library(arguments):
    """what converted files compute, with transformers 5 in REFERENCE_PYTHON_5: OUT.tsv [--defaults] [--class NAME]... [--setting NAME]..., or summary TABLE..."""
    program = [] if arguments[:1] == ["summary"] else [ggmill()]
    script("library.py", *program, *arguments, interpreter=os.environ.get("REFERENCE_PYTHON_5") or reference())


@comparison
def classes(arguments):
    """checkpoints, class by class, with the reference converter: try NAME..., bless NAME..., ... (head of classes.py)"""
    classes_script("classes.py", *arguments, interpreter=reference(), ours=arguments[:1] in (["try"], ["bless"]))


@comparison
def lora(arguments):
    """adapters, with the reference's convert_lora_to_gguf.py: try NAME..., bless NAME..., ... (head of lora.py)"""
    classes_script("lora.py", *arguments, interpreter=reference(), ours=arguments[:1] in (["try"], ["bless"]))


@comparison
def one_pass(names):
    """recipes at Q4_K_M in one pass, with the reference converter and llama_model_quantize after it"""
    classes_script("one_pass.py", *names)


@comparison
def load(names):
    """libllama loads the converted file of each recipe and runs one token"""
    classes_script("load.py", *names)


@comparison
def lora_merge(names):
    """`ggmill lora merge`, with the graph of llama-export-lora"""
    classes_script("lora_merge.py", *names)


@comparison
def speak(_):
    """libllama continues a text with the converted bundled checkpoint"""
    script("speak.py", ggmill(), CHECKPOINT)


@comparison
def restore(arguments):
    """transformers computes with checkpoints that files were turned back into"""
    script("restore.py", ggmill(), *arguments, interpreter=reference())


@comparison
def vocabularies(arguments):
    """record the reference's pre-tokenizers, tokenizer classes and small vocabularies: LLAMA_CPP"""
    [llama_cpp] = arguments
    facts = ROOT / "crates/ggmill-convert/data"
    script("pretokenizers.py", llama_cpp, facts, interpreter=reference())
    script("tokenizer_classes.py", facts / "tokenizer-classes.json", interpreter=reference())
    script("builtin_vocabularies.py", llama_cpp, facts, interpreter=reference())
    script("vocabularies.py", llama_cpp, ROOT / "crates/ggmill-convert/tests/vocabularies", interpreter=reference())


@comparison
def architectures(arguments):
    """record names of architectures and tensors: [NAME=CONSTANTS.py]...; --load has llama.cpp's loader judge samples of every description"""
    if flag(arguments, "--load"):
        samples = target() / "conformance/samples"
        shutil.rmtree(samples, ignore_errors=True)
        make = ["run", "--quiet", "--release", "--package=ggmill-check", "--example=samples", "--"]
        cargo(*make, "make", samples)
        script("architectures.py", "load", samples, ROOT / "crates/ggmill-check/tests/loader.tsv")
        return cargo(*make, "check", samples / "saved")
    newer = arguments or [f"llama-cpp-python 0.3.36={llama_cpp_file('gguf-py/gguf/constants.py')}"]
    script("architectures.py", "names", ROOT / "crates/ggmill-arch/data/names.toml", *newer)


# Running models


def tiny_models():
    directory = target() / "conformance/logits"
    shutil.rmtree(directory, ignore_errors=True)
    cargo("run", "--quiet", "--package=ggmill-run", "--example=models", "--", directory)
    return directory


@comparison
def logits(arguments):
    """logits of tiny models, with libllama, or with --transformers; --record writes them to crates/ggmill-run/tests/fixtures"""
    record = flag(arguments, "--record")
    names = ["logits_transformers.py"] if flag(arguments, "--transformers") else ["logits.py", "logits_wavtokenizer.py"]
    models = tiny_models()
    for name in names:
        if record:
            script(name, "record", models, ROOT / "crates/ggmill-run/tests/fixtures")
        else:
            script(name, "compare", models)


@comparison
def activations(arguments):
    """sums of importance matrices, with libllama: --record, or --compare MODEL IDS.json CONTEXT FILE"""
    if flag(arguments, "--record"):
        models = tiny_models()
        names = (models / "measured.txt").read_text().split()
        script("activations.py", "record", models, ROOT / "crates/ggmill-run/tests/fixtures", *names)
    else:
        flag(arguments, "--compare")
        script("activations.py", "compare", *arguments)


@comparison
def perplexity(arguments):
    """`ggmill measure`, with llama-perplexity: MODEL --text FILE [--chunks N] [--llama-perplexity PROGRAM]"""
    script("perplexity.py", ggmill(), work("perplexity"), *arguments)


@comparison
def run_speed(arguments):
    """speed of computing logits, with libllama; --bounded: with a memory limit of half the file"""
    name = "run_bounded.py" if flag(arguments, "--bounded") else "run_speed.py"
    script(name, example("ggmill-run", "speed"), work("run-speed"), *arguments)


@comparison
def estimate(arguments):
    """`ggmill estimate`, with the memory that libllama accounts for; --record, or --collect headers of recipes"""
    directory = ROOT / "crates/ggmill-estimate/tests/reference"
    if flag(arguments, "--collect"):
        classes_script("estimate.py", "collect", directory / "models.txt", *arguments)
    elif flag(arguments, "--record"):
        script("estimate.py", "reference", directory / "models.txt", directory / "bytes.tsv")
    else:
        script("estimate.py", "compare", directory / "models.txt", directory / "bytes.tsv", ggmill())


# Text


@comparison
def tokenize(arguments):
    """tokens and detokenized texts, with llama.cpp: LLAMA_CPP [NAME]... [--each]; --record writes those of small vocabularies"""
    if flag(arguments, "--record"):
        [llama_cpp] = arguments
        script("tokenization.py", "--record", llama_cpp, DATA, ROOT / "crates/ggmill-tokenizer/tests/vocabularies")
    else:
        llama_cpp, *names = arguments
        script("tokenization.py", example("ggmill-tokenizer", "ids"), llama_cpp, DATA, work("tokens"), *names)


@comparison
def templates(arguments):
    """rendered chat templates, with Jinja as transformers sets it up: DIRECTORY... [--cases FILE]... or --record DIRECTORY..."""
    if flag(arguments, "--record"):
        script("templates.py", "--record", ROOT / "crates/ggmill-template/tests", *arguments, interpreter=reference())
    else:
        script("templates.py", example("ggmill-template", "render"), *arguments, interpreter=reference())


# Packages


@comparison
def vet(arguments):
    """DIRECTORY...: what ggmill and c4nary 0.3.1 report of templates with unexpected behavior and of those of published models (*.jinja in the directories); C4NARY names the command of c4nary"""
    c4nary = os.environ.get("C4NARY") or sys.exit("C4NARY is not set: the command of the package c4nary 0.3.1")
    script("vet.py", ggmill(), c4nary, ROOT / "crates/ggmill-template/tests/behaviors", *arguments, interpreter=sys.executable)


@comparison
def python_speed(arguments):
    """speed and memory of the Python package, with gguf: [VOCABULARY] [--turns N] [--only PART...]"""
    cargo("xtask", "python", "--release")
    interpreter = target() / "python/venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "gguf==0.19.0")
    vocabulary = first(arguments) or llama_cpp_file("models/ggml-vocab-gemma-4.gguf")
    script("python_speed.py", vocabulary, target() / "python/speed", *arguments, interpreter=interpreter)


@comparison
def npm(paths):
    """the npm package, with @huggingface/gguf 0.4.6: results, requests and bytes"""
    cargo("xtask", "npm", "--build")
    peer = target() / "npm-peer"
    if not (peer / "node_modules/.package-lock.json").is_file():
        run("npm", "install", "--no-audit", "--no-fund", "--no-save", "--prefix", peer, "@huggingface/gguf@0.4.6")
    run("node", ROOT / "conformance/npm.mjs", ROOT, peer / "node_modules", *(paths or real_files()))


@comparison
def environment(_):
    """make the virtual environment and print its interpreter"""
    print(python())


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(__doc__)
        width = max(map(len, COMMANDS))
        for name, function in COMMANDS.items():
            print(f"  {name:{width}}  {function.__doc__}")
        sys.exit(2 if len(sys.argv) > 1 else 0)
    try:
        COMMANDS[sys.argv[1]](sys.argv[2:])
    except subprocess.CalledProcessError as error:
        sys.exit(f"{' '.join(map(str, error.cmd[:3]))}: exit status {error.returncode}")


if __name__ == "__main__":
    main()
