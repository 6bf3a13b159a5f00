"""Compares what converted files compute with what transformers computes, for every class that it builds and for one changed setting at a time.

    python library.py GGMILL OUT.tsv [--defaults] [--class NAME]... [--setting NAME]... [--share PERCENT] [--seconds N] [--budget N] [--keep DIR] [--assume]
    python library.py summary TABLE.tsv...

A model of the class gets a small configuration (library_models.py), random weights in F32, and is saved by the library. `ggmill convert` writes a file without vocabulary,
`ggmill measure --logits` runs it, and the normalized mean squared error (NMSE) of the logits decides:

    exact        at most 1e-9
    near         at most 1e-6
    wrong        more: the file computes something else, and nothing said so
    refused      the conversion fails, with the message
    no graph     the file is written, but ggmill does not run it
    no effect    true, but the setting does not change what the library computes
    cannot build the library does not make or run such a model

OUT.tsv has a line for each case (class, setting, value, result, NMSE, message), sorted; cases that it already has are not repeated. --class and --setting take
regular expressions. --share runs a sample of the settings, this share of every class, chosen by a hash of the case. --seconds limits a case, --budget the whole run. --keep leaves the checkpoint and the file of each case in a directory.
--assume converts with --assume-defaults, so that what a file cannot express is wrong rather than refused: library_assumed.py reads such a table.
Needs torch 2.11.0, transformers (5.24.0; 4.57.6), numpy and safetensors.
"""

import argparse
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

EXACT, NEAR = 1e-9, 1e-6
HEADER = ["class", "setting", "value", "result", "nmse", "message"]
RESULTS = ["exact", "near", "wrong", "refused", "no graph", "no effect", "cannot build"]


def nmse(ours, theirs) -> float:
    import numpy

    theirs = theirs.astype("f8")
    if ours.shape != theirs.shape or not numpy.isfinite(ours).all():
        return float("inf")
    # Tokens that a model never predicts.
    ours, theirs = (numpy.where((abs(ours) > 1e30) | (abs(theirs) > 1e30), 0, values) for values in (ours, theirs))
    return float(((ours - theirs) ** 2).sum() / max((theirs ** 2).sum(), 1e-300))


def failure(done) -> str:
    """Returns the message of a command that failed, in one line."""
    text = done.stderr.decode(errors="replace").strip()
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("note")]
    errors = [line for line in lines if line.startswith(("error", "thread"))]
    at = lines.index(errors[0]) if errors else 0
    return " ".join(lines[at:at + 4]).replace("\t", " ")[:400] or f"exit status {done.returncode}"


class Table:
    """Results, with the file that keeps them."""

    def __init__(self, path: Path):
        self.path = path
        self.rows: dict[tuple[str, str, str], list[str]] = {}
        self.load()

    def load(self) -> None:
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                cells = line.split("\t")
                if not line.startswith("#") and cells != HEADER:
                    self.rows[tuple(cells[:3])] = cells[3:]

    def add(self, key: tuple[str, str, str], result: str, error: float | None, message: str = "") -> None:
        self.rows[key] = [result, "" if error is None else f"{error:.1e}", message]
        print("  ".join([*key, *self.rows[key]]), flush=True)
        self.save()

    def save(self) -> None:
        lines = ["\t".join(HEADER), *("\t".join([*key, *row]) for key, row in sorted(self.rows.items()))]
        part = self.path.with_suffix(".part")
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")
        part.replace(self.path)


class Timeout(Exception):
    pass


def alarm(*_):
    raise Timeout("time limit")


class Harness:
    def __init__(self, ggmill: str, seconds: int, keep: Path | None, assume: bool):
        self.ggmill, self.seconds, self.keep = ggmill, seconds, keep
        self.options = ["--assume-defaults"] if assume else []
        listed = json.loads(subprocess.run([ggmill, "architectures", "--json"], capture_output=True, check=True).stdout)
        self.classes = [name for entry in listed["architectures"] for name in entry.get("classes", [])]
        # Files are small, and many: in memory where the system has a place for that.
        self.directory = "/dev/shm" if Path("/dev/shm").is_dir() else None

    def command(self, *words):
        return subprocess.run([self.ggmill, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, timeout=self.seconds)

    def complete(self, file: Path, config) -> None:
        """Adds the keys on tokens that a file without vocabulary lacks, so that it can be run."""
        head = file.read_bytes()[:1 << 16]
        name = re.search(rb"general\.architecture\x08\0\0\0.{8}([\w-]+?)[^\w-]", head, re.S)
        keys = {f"{name[1].decode()}.vocab_size": config.vocab_size, "tokenizer.ggml.token_type_count": getattr(config, "type_vocab_size", None)}
        missing = [f"--set={key}:u32={value}" for key, value in keys.items() if value is not None and key.encode() not in head]
        if missing:
            self.command("edit", file, *missing, "--no-check")

    def run(self, family, changes: dict, how: dict, default=None):
        """Returns the result of a case: (result, NMSE, message, output of the library)."""
        import numpy
        import library_models as models

        directory = Path(tempfile.mkdtemp(prefix="library-", dir=self.directory))
        signal.signal(signal.SIGALRM, alarm)
        signal.alarm(self.seconds)
        try:
            try:
                config = family.config(changes)
                model, tokens = family.model(config), models.tokens_of(config)
                if how.get("dtype"):
                    # Values that BF16 has, computed in F32.
                    import torch

                    for weight in [*model.parameters(), *(buffer for _, buffer in models.persistent_buffers(model))]:
                        if weight.dtype.is_floating_point:
                            weight.data = weight.data.to(torch.bfloat16).to(torch.float32)
                theirs = models.output(model, config, tokens)
                if not numpy.isfinite(theirs).all():
                    return "cannot build", None, "outputs are not finite", None
                if how.get("dtype"):
                    model = model.to(torch.bfloat16)
                model.save_pretrained(directory / "checkpoint", **({"max_shard_size": how["shard"]} if "shard" in how else {}))
                if "prefix" in how:
                    add_prefix(directory / "checkpoint/model.safetensors", how["prefix"])
            except Exception as error:
                return "cannot build", None, models.reason(error), None
            file, ids, logits = directory / "out.gguf", directory / "ids.json", directory / "logits.npy"
            done = self.command("convert", directory / "checkpoint", file, "--no-vocab", "--type", "f32", *self.options)
            if done.returncode:
                return "refused", None, clean(failure(done), directory), theirs
            self.complete(file, models.at(config, family.path))
            # Perplexity needs two chunks. Chunks are independent, so that both give the same logits.
            ids.write_text(json.dumps(tokens * 2))
            measure = ["measure", file, "--tokens", ids, "--ctx", len(tokens), "--logits", logits, "--threads", 1]
            done = self.command(*measure)
            if b"outputs embeddings" in done.stderr:
                done = self.command(*measure, "--against", file)
            if done.returncode and not logits.exists():
                return "no graph", None, clean(failure(done), directory), theirs
            ours = numpy.load(logits)
            ours = ours[:len(ours) // 2]
            if ours.shape != theirs.shape:
                if how.get("dtype"):
                    model = model.to(torch.float32)
                theirs = models.output(model, config, tokens, ours.shape[-1])
            error = nmse(ours, theirs)
            word = "exact" if error <= EXACT else "near" if error <= NEAR else "wrong"
            message = "" if ours.shape == theirs.shape else f"shape {list(ours.shape)}, the library's {list(theirs.shape)}"
            if word != "wrong" and default is not None and default.shape == theirs.shape and nmse(default, theirs) <= 1e-14:
                word = "no effect"
            return word, error, message, theirs
        except (Timeout, subprocess.TimeoutExpired):
            return "cannot build", None, "time limit", None
        finally:
            signal.alarm(0)
            if self.keep:
                shutil.rmtree(self.keep, ignore_errors=True)
                shutil.copytree(directory, self.keep)
            shutil.rmtree(directory, ignore_errors=True)


def with_own_sizes(family, harness: Harness):
    """Returns the family with the class's own values of sizes for whose small value the conversion fails: a window that programs do not read shows in every text that is longer.

    Such a small value is a changed setting, and not the default of the class."""
    tried = set()
    while True:
        result, _, message, _ = found = harness.run(family, {}, {})
        named = set(re.findall(r"(\w+) is \S+, and programs assume", message)) - tried if result == "refused" else set()
        if not any([family.restore(name) for name in named]):
            return found
        tried |= named


def add_prefix(file: Path, prefix: str) -> None:
    """Renames the tensors of a checkpoint as wrappers of training programs do."""
    from safetensors.torch import load_file, save_file

    save_file({prefix + name: tensor for name, tensor in load_file(file).items()}, file, {"format": "pt"})


def clean(message: str, directory: Path) -> str:
    return re.sub(re.escape(str(directory)) + "/?", "", message)


def compare(options) -> None:
    import warnings

    warnings.simplefilter("ignore")
    import torch
    import transformers

    import library_models as models

    torch.set_num_threads(1)
    transformers.logging.set_verbosity(50)
    transformers.utils.logging.disable_progress_bar()
    table, harness = Table(options.out), Harness(options.ggmill, options.seconds, options.keep, options.assume)
    names = models.classes_of(harness.classes)
    start = time.monotonic()
    chosen = [name for name in names if not options.classes or any(re.fullmatch(pattern, name) for pattern in options.classes)]
    for defaults in [True, False][:1 if options.defaults else 2]:
        for name in chosen:
            if defaults and (name, "", "") in table.rows:
                continue
            if time.monotonic() - start > options.budget:
                return
            in_child(name, lambda: run_class(name, defaults, options, table, harness))
            table.load()


def in_child(name: str, work) -> None:
    """Runs work in a process of its own, which has what this one imported and leaves nothing behind in its memory."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(f"{name}  {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stdout.flush()
            os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(f"{name}  the process ended with status {status}", file=sys.stderr)


def run_class(name: str, defaults: bool, options, table: Table, harness: Harness) -> None:
    """Runs the default of a class, or its settings."""
    import library_models as models
    import library_settings as settings

    default_key = (name, "", "")
    if not defaults and table.rows[default_key][0] == "cannot build":
        return
    try:
        family = models.Family(name)
    except models.Unbuildable as error:
        table.add(default_key, "cannot build", None, str(error))
        return
    result, error, message, default = with_own_sizes(family, harness)
    if defaults:
        table.add(default_key, result, error, message)
        return
    cases = [case for case in settings.cases(family) if (name, *case[:2]) not in table.rows]
    if options.settings:
        cases = [case for case in cases if any(re.fullmatch(pattern, case[0]) for pattern in options.settings)]
    cases = [case for case in cases if zlib.crc32(" ".join((name, *case[:2])).encode()) % 100 < options.share]
    if not cases:
        return
    for setting, value, changes, how in cases:
        result, error, message, _ = harness.run(family, changes, how, default if changes else None)
        table.add((name, setting, value), result, error, message)


def summary(paths: list[Path]) -> None:
    """Prints counts by result, for defaults and for settings."""
    counts = {"defaults": collections.Counter(), "settings": collections.Counter()}
    for path in paths:
        for (_, setting, _), row in Table(path).rows.items():
            counts["settings" if setting else "defaults"][row[0]] += 1
    print("| | " + " | ".join(RESULTS) + " |\n|---|" + "--:|" * len(RESULTS))
    for kind, found in counts.items():
        print(f"| {kind} ({sum(found.values())}) | " + " | ".join(str(found[result]) for result in RESULTS) + " |")


def main() -> None:
    if sys.argv[1:2] == ["summary"]:
        return summary([Path(path) for path in sys.argv[2:]])
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    parser.add_argument("ggmill")
    parser.add_argument("out", type=Path)
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--class", dest="classes", action="append")
    parser.add_argument("--setting", dest="settings", action="append")
    parser.add_argument("--share", type=float, default=100)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--budget", type=float, default=float("inf"))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--assume", action="store_true")
    compare(parser.parse_args())


main()
