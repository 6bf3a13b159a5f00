"""Checks the conversion of adapters against the reference's convert_lora_to_gguf.py, without weights from anywhere.

    python lora.py build OF ADAPTER.json NAME          make the recipe NAME: an adapter that peft makes for the model of the class recipe OF
    python lora.py materialize NAME DIR                make the adapter DIR/NAME and its base DIR/base
    python lora.py ref NAME [TYPE]                     what the reference makes of it: keys and tensors
    python lora.py try [NAME]...                       compare our conversion with the reference's, at every type; of all recipes without a name
    python lora.py bless NAME...                       record the reference's hashes in recipes for which all are equal

A *recipe* is an entry of crates/ggmill-convert/tests/fixtures/lora.json:

- of: the recipe of classes.py whose `config` is the base's config.json;
- adapter: all of adapter_config.json;
- files: other files of the adapter by name, as texts;
- tensors: NAME: [DTYPE, SHAPE] or [DTYPE, SHAPE, VALUES], as in the recipes of classes.py, which also says what weights follow from them;
- expected: SHA-256 of the reference's whole file, for each type in which both write the same bytes;
- refused: in place of `expected`, a part of our message, where an adapter is refused;
- reference: a sentence about what the reference does, where there are no hashes of it.

`build` takes the arguments of peft.LoraConfig.

Environment: as for classes.py; REFERENCE_PYTHON also needs peft for `build`, and the reference runs in a process of its own (lora_reference.py).
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from classes import Gguf, differences, read_recipe, recipe_names, record, safetensors, show, write_recipe  # noqa: E402

HERE = Path(__file__).resolve().parent
TYPES = ["f32", "f16", "bf16", "q8_0"]


def materialize(recipe, name, directory):
    """Makes the adapter of a recipe, and its base."""
    base, adapter = directory / "base", directory / name
    for path in (base, adapter):
        path.mkdir(parents=True, exist_ok=True)
    config = read_recipe(recipe["of"])["config"]
    (base / "config.json").write_text(json.dumps(config, indent=2))
    (adapter / "adapter_config.json").write_text(json.dumps(recipe["adapter"], indent=2))
    for file, content in recipe.get("files", {}).items():
        (adapter / file).write_text(content)
    (adapter / "adapter_model.safetensors").write_bytes(safetensors(recipe["tensors"]))
    return base, adapter


class Job:
    """A recipe with its adapter and what the reference makes of it, in the cache."""

    def __init__(self, name):
        self.name = name
        self.recipe = read_recipe(f"lora/{name}")
        content = {key: value for key, value in self.recipe.items() if key not in ("expected", "refused", "reference")}
        digest = hashlib.sha256(json.dumps(["lora 1", content]).encode()).hexdigest()[:16]
        self.cache = Path(os.environ["CLASSES_CACHE"]) / digest
        self.base, self.adapter = materialize(self.recipe, self.name, self.cache)

    def references(self):
        """The reference's file of each type, or none, and its logs."""
        jobs = []
        for kind in TYPES:
            out, log = self.cache / f"{kind}.ref.gguf", self.cache / f"{kind}.ref.log"
            if not log.exists():
                jobs.append({"base": str(self.base), "adapter": str(self.adapter), "out": str(out), "type": kind, "log": str(log)})
        return jobs

    def reference(self, kind):
        out, log = self.cache / f"{kind}.ref.gguf", self.cache / f"{kind}.ref.log"
        return (out if out.exists() else None), log.read_text(errors="replace")

    def ours(self, kind):
        """Our file, or none and what the command printed."""
        out = self.cache / f"{kind}.{os.getpid()}.gguf"
        command = [os.environ["GGMILL"], "convert", str(self.adapter), "--base", str(self.base), "-o", str(out), "--type", kind, "--force"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        return (out if done.returncode == 0 else None), done.stdout + done.stderr


def ask_reference(jobs):
    """Has the reference do jobs, all in one process."""
    if jobs:
        command = [os.environ["REFERENCE_PYTHON"], str(HERE / "lora_reference.py"), "convert", os.environ["LLAMA_CPP"]]
        subprocess.run(command, input="".join(json.dumps(job) + "\n" for job in jobs), text=True, check=True)


def compare(job, kind):
    """Whether both do the same, the hash if both write, and lines about it."""
    theirs, log = job.reference(kind)
    ours, printed = job.ours(kind)
    try:
        refused = job.recipe.get("refused")
        if refused is not None:
            return ours is None and refused in printed, None, ["ours: " + printed.strip(), "theirs: " + (log.strip().splitlines() or ["a file"])[-1]]
        if theirs is None:
            return False, None, ["the reference fails: " + line for line in log.strip().splitlines()[-12:]] + ["ours: " + printed.strip()]
        if ours is None:
            return False, None, ["we fail: " + printed.strip()]
        expected = theirs.read_bytes()
        if ours.read_bytes() == expected:
            return True, hashlib.sha256(expected).hexdigest(), []
        return False, None, differences(Gguf(ours), Gguf(theirs))
    finally:
        if ours:
            ours.unlink(missing_ok=True)


def run_try(names, bless=False):
    jobs = [Job(name) for name in names]
    ask_reference([reference for job in jobs for reference in job.references()])
    wrong, counts = set(), {}
    for job in jobs:
        expected, verdicts, lines = {}, [], []
        for kind in TYPES if "refused" not in job.recipe else TYPES[:1]:
            same, digest, more = compare(job, kind)
            same |= "reference" in job.recipe
            word = "equal" if digest else "refused" if "refused" in job.recipe and same else "different by design" if same else "DIFFERENT"
            counts[word] = counts.get(word, 0) + 1
            verdicts.append(f"{kind} {word}")
            lines = lines or ([] if digest else more)
            if digest:
                expected[kind] = digest
            if not same or job.recipe.get("expected", {}).get(kind, digest) != digest:
                wrong.add(job.name)
        print(f"{job.name}: {', '.join(verdicts)}")
        for line in lines[:20]:
            print("  " + line[:500])
        if bless and len(expected) == len(TYPES):
            job.recipe["expected"] = expected
            write_recipe(f"lora/{job.name}", job.recipe)
            print("  recorded")
    print(f"{len(jobs)} adapters, files: " + ", ".join(f"{count} {word}" for word, count in counts.items()))
    if wrong:
        print("not as recorded: " + ", ".join(sorted(wrong)))
    return 1 if wrong else 0


def main():
    words = sys.argv[2:]
    match sys.argv[1:2]:
        case ["build"] if len(words) == 3:
            return record(f"lora/{words[2]}", os.environ["REFERENCE_PYTHON"], HERE / "lora_reference.py", "build", words[0], words[1])
        case ["materialize"] if len(words) == 2:
            materialize(read_recipe(f"lora/{words[0]}"), words[0], Path(words[1]))
            return 0
        case ["ref"] if words:
            job = Job(words[0])
            ask_reference(job.references())
            return show(*job.reference(words[1] if len(words) > 1 else "f32"))
        case ["try"]:
            return run_try(words or [name.removeprefix("lora/") for name in recipe_names("lora")])
        case ["bless"] if words:
            return run_try(words, bless=True)
    print(__doc__.split("\n\n")[1])
    return 2


if __name__ == "__main__":
    sys.exit(main())
