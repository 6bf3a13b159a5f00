"""Count the instructions of the codecs on another machine, both sides compiled for it: `python3 conformance/run.py quant-count --target`.

usage: quant_count_target.py aarch64|wasm32|x86_64 LLAMA_CPP WORK [--type NAME ...] [--work quantize|importance|dequantize ...] [--isa NAME ...]

LLAMA_CPP is a source tree of llama.cpp: `vendor/llama.cpp` of llama-cpp-python's source. WORK is a directory for what is built. The reference is compiled by
`zig cc` (PyPI: ziglang) with `-O3 -ffp-contract=off`, so that it rounds alike everywhere. AArch64, and x86-64 with SSE2 alone, run under QEMU in user mode with a
plugin that counts instructions (a C compiler and qemu-user are needed); WebAssembly runs in wasmtime (PyPI), whose fuel counts instructions, those of structure
left out. Each count is half of the difference between doing the work once and three times, over the weights. What both sides write must be the same, byte for byte.
"""

import argparse
import os
import pathlib
import subprocess
import sys

import numpy as np

from quant import NAMES, cases
from quant_vectors import TYPES, Reference, bell, weights

HERE = pathlib.Path(__file__).resolve().parent
# What ggml-cpu has code of its own for, with instructions of the machine.
ACTIVATIONS = {"aarch64": ("Q8_0", "Q8_1"), "wasm32": ("Q8_0", "Q8_1", "Q8_K"), "x86_64": ()}
TRIPLES = {"aarch64": "aarch64-unknown-linux-musl", "wasm32": "wasm32-wasip1", "x86_64": "x86_64-unknown-linux-gnu"}


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr.decode(errors='replace')[-2000:]}")
    return done


def build_reference(target, llama_cpp, work):
    ggml = llama_cpp / "ggml"
    (work / "ggml-version.h").write_text('#define GGML_VERSION "0"\n#define GGML_COMMIT "0"\n')
    program = work / f"reference-{target}"
    extra, arch = {
        "aarch64": (["-target", "aarch64-linux-musl"], "arm"),
        "x86_64": (["-target", "x86_64-linux-musl", "-mcpu=x86_64"], "x86"),
        "wasm32": (["-target", "wasm32-wasi", "-msimd128", "-D_WASI_EMULATED_SIGNAL", "-D_WASI_EMULATED_PROCESS_CLOCKS"], "wasm"),
    }[target]
    sources = ["ggml.c", "ggml-quants.c", "ggml-cpu/quants.c", f"ggml-cpu/arch/{arch}/quants.c"]
    run(
        sys.executable, "-m", "ziglang", "cc", *extra, "-O3", "-DNDEBUG", "-D_GNU_SOURCE", "-ffp-contract=off", "-w",
        "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections",
        f"-I{work}", f"-I{ggml}/include", f"-I{ggml}/src", f"-I{ggml}/src/ggml-cpu",
        HERE / "quant_reference.c", *(ggml / "src" / source for source in sources), "-lm", "-o", program,
    )  # fmt: skip
    return program


def build_ours(target, work):
    environment = dict(os.environ, CARGO_TARGET_DIR=str(work / "ours"))
    environment.setdefault("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld")
    if target == "wasm32":
        environment["RUSTFLAGS"] = "-Ctarget-feature=+simd128"
    manifest = HERE / "quant_work/Cargo.toml"
    run("cargo", "build", "--quiet", "--release", "--target", TRIPLES[target], "--manifest-path", manifest, env=environment)
    ending = ".wasm" if target == "wasm32" else ""
    return work / "ours" / TRIPLES[target] / f"release/ggmill-quant-work{ending}"


class Qemu:
    """Runs programs for a processor and counts their instructions."""

    def __init__(self, target, work):
        self.emulator = f"qemu-{target}"
        self.plugin = work / "count_instructions.so"
        for version in range(1, 10):
            run("cc", "-O2", "-shared", "-fPIC", f"-DVERSION={version}", HERE / "count_instructions.c", "-o", self.plugin)
            # Which versions it accepts depends on the release; without a program it says that only after the plugin.
            if b"plugin" not in subprocess.run([*self.command(), "/nonexistent"], stderr=subprocess.PIPE).stderr.lower():
                return
        raise SystemExit(f"{self.emulator} takes no plugin")

    def command(self):
        return [self.emulator, "-plugin", str(self.plugin)]

    def __call__(self, program, arguments, data=b""):
        done = run(*self.command(), program, *arguments, input=data)
        return done.stdout, int(done.stderr.rsplit(b"instructions ", 1)[1])


class Wasmtime:
    """Runs programs of WebAssembly and counts their instructions."""

    def __init__(self, work):
        import wasmtime

        self.wasmtime, self.work, self.modules = wasmtime, work, {}
        config = wasmtime.Config()
        config.consume_fuel = True
        self.engine = wasmtime.Engine(config)
        self.linker = wasmtime.Linker(self.engine)
        self.linker.define_wasi()

    def __call__(self, program, arguments, data=b""):
        if program not in self.modules:
            self.modules[program] = self.wasmtime.Module.from_file(self.engine, str(program))
        source, out = self.work / "stdin", self.work / "stdout"
        source.write_bytes(data)
        store, fuel = self.wasmtime.Store(self.engine), 1 << 62
        store.set_fuel(fuel)
        wasi = self.wasmtime.WasiConfig()
        wasi.argv = ["work", *map(str, arguments)]
        wasi.stdin_file, wasi.stdout_file = str(source), str(out)
        wasi.inherit_stderr()
        store.set_wasi(wasi)
        instance = self.linker.instantiate(store, self.modules[program])
        try:
            instance.exports(store)["_start"](store)
        except self.wasmtime.ExitTrap as trap:
            if trap.code:
                raise SystemExit(f"{program} {arguments}: status {trap.code}") from trap
        return out.read_bytes(), fuel - store.get_fuel()


def count(runner, program, work, name, isa, data, columns, number):
    """Instructions for each weight, and what came out."""
    out, once = runner(program, [work, name, isa, columns, 1], data)
    again, thrice = runner(program, [work, name, isa, columns, 3], data)
    if out != again:
        raise SystemExit(f"{name} {work} {isa}: the result depends on how often it is done")
    return (thrice - once) / 2 / number, out


def same_values(theirs, ours):
    """Whether floats are the same, whichever NaN they are."""
    theirs, ours = (np.frombuffer(side, np.float32) for side in (theirs, ours))
    return bool(((theirs.view(np.uint32) == ours.view(np.uint32)) | np.isnan(theirs) & np.isnan(ours)).all())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", choices=TRIPLES)
    parser.add_argument("llama_cpp", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--type", action="append", choices=TYPES, dest="types")
    parser.add_argument("--work", action="append", choices=NAMES)
    parser.add_argument("--isa", action="append", help="an instruction set [default: all]")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    reference = Reference()
    theirs = build_reference(arguments.target, arguments.llama_cpp, arguments.directory)
    ours = build_ours(arguments.target, arguments.directory)
    runner = Wasmtime(arguments.directory) if arguments.target == "wasm32" else Qemu(arguments.target, arguments.directory)
    isas = arguments.isa or runner(ours, ["isas"])[0].decode().split()
    print("Instructions for each weight; in parentheses how many times as many the reference takes.\n")
    print(f"| type | work | reference | {' | '.join(isas)} |")
    print(f"|---|---|--:|{'--:|' * len(isas)}", flush=True)
    for work, name in cases(reference, arguments.work or NAMES, arguments.types or TYPES):
        number, elements, size, _ = TYPES[name]
        columns = 512 if work != "dequantize" and name.startswith(("IQ1", "IQ2", "IQ3")) else 4096
        rows = np.ascontiguousarray((bell(number, columns) * np.float32(0.0625)).reshape(1, columns))
        importance = weights("random", 1, columns)
        if work == "dequantize":
            data = reference.quantize(name, rows, importance if reference.requires_importance(number) else None)
        else:
            data = (importance.tobytes() if work == "importance" else b"") + rows.tobytes()
        expected, out = count(runner, theirs, work, name, "reference", data, columns, columns)
        cells = []
        for isa in isas:
            found, written = count(runner, ours, work, name, isa, data, columns, columns)
            if not (same_values(out, written) if work == "dequantize" else out == written):
                raise SystemExit(f"{name} {work} {isa}: the bytes differ")
            cells.append(f"{found:.4g} ({expected / found:.2f}×)")
        print(f"| {name} | {NAMES[work]} | {expected:.4g} | {' | '.join(cells)} |", flush=True)
        if work == "quantize" and name in ACTIVATIONS[arguments.target]:
            expected, _ = count(runner, theirs, work, name, "activations", data, columns, columns)
            print(f"| {name} | quantize activations | {expected:.4g} |{' |' * len(isas)}", flush=True)


if __name__ == "__main__":
    main()
