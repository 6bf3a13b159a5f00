"""Damaged and changing files, memory, threads, forks and signals."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import ggmill
import numpy as np
import pytest


def read_everything(path: Path, **options: bool) -> None:
    """Read all metadata and tensors of a file."""
    with ggmill.open(path, **options) as model:
        for number in range(len(model.paths)):
            metadata = model.metadata_of(number)
            for entry in metadata.entries():
                for value in metadata.all(entry.key):
                    if isinstance(value, ggmill.Array):
                        value.tolist()
                        value[:3], value[-1:], repr(value)
                        value.numpy()
        for tensor in model.tensors.values():
            repr(tensor)
            if tensor.type in ggmill.TENSOR_TYPES and tensor.type_info.decodes:
                tensor.numpy()
                tensor.dequantize()
        model._repr_html_()
        model.text(full=True)


def is_valid(path: Path) -> bool:
    """Return whether a file of the corpus opens. Files named limited-* are rejected only with limits
    that Python does not set."""
    return path.name.startswith(("valid-", "limited-"))


def test_broken_files_raise(corpus: list[Path]) -> None:
    opened, refused = 0, 0
    for path in corpus:
        for options in ({"mmap": True}, {"mmap": False}, {"damaged": True}):
            try:
                read_everything(path, **options)
            except ggmill.Error as error:
                refused += 1
                assert error.kind and str(error)
                assert path.name in str(error) or error.path is None
            else:
                opened += 1
                assert is_valid(path) or "damaged" in options, path
        ggmill.check(path, data=True)
    assert opened > 20 and refused > 50


def test_errors_of_broken_files_have_the_path(corpus: list[Path]) -> None:
    for path in corpus:
        if is_valid(path):
            continue
        with pytest.raises(ggmill.FormatError) as raised:
            ggmill.open(path)
        assert raised.value.path == str(path)


def test_every_truncation_raises(mobilenet: Path, tmp_path: Path) -> None:
    data = mobilenet.read_bytes()
    path = tmp_path / "cut.gguf"
    for length in [*range(0, 200, 7), 5000, 16000, 16768, len(data) - 40]:
        path.write_bytes(data[:length])
        with pytest.raises(ggmill.FormatError) as raised:
            ggmill.open(path)
        assert raised.value.kind in ("truncated", "not_gguf")
        path.unlink()


def test_damaged(mobilenet: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(mobilenet.read_bytes()[:20000])
    model = ggmill.open(path, damaged=True)
    assert len(model.faults) > 0
    assert model.metadata["general.architecture"] == "mobilenetv3-small"
    assert model.tensors["features.0.0.weight"].dequantize().shape == (16, 3, 3, 3)
    last = list(model.tensors.values())[-1]
    for read in (last.dequantize, last.numpy, last.raw):
        with pytest.raises(ggmill.FormatError):
            read()


def test_changed_file(mobilenet: Path, tmp_path: Path) -> None:
    path = tmp_path / "changing.gguf"
    path.write_bytes(mobilenet.read_bytes())
    model = ggmill.open(path, mmap=False)
    model.verify()
    os.truncate(path, 100000)
    with pytest.raises(ggmill.Error) as raised:
        list(model.tensors.values())[-1].dequantize()
    assert raised.value.kind in ("truncated", "changed", "io")
    with pytest.raises(ggmill.Error):
        model.verify()


def resident() -> int:
    """Return the resident memory of the process in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("mmap", [True, False])
def test_memory_does_not_grow(mobilenet: Path, mmap: bool) -> None:
    def once() -> None:
        with ggmill.open(mobilenet, mmap=mmap) as model:
            tensor = model.tensors["features.0.0.weight"]
            tensor.numpy()
            tensor.dequantize(rows=0)
            model.metadata["general.architecture"]

    for _ in range(500):
        once()
    gc.collect()
    before = resident()
    for _ in range(10_000):
        once()
    gc.collect()
    assert resident() - before < 8 << 20


def test_threads_agree(llama: Path) -> None:
    model = ggmill.open(llama)
    expected = {name: tensor.dequantize().sum() for name, tensor in model.tensors.items()}
    tokens = model.metadata["tokenizer.ggml.tokens"].tolist()
    tokenizer = model.tokenizer()
    ids = tokenizer.encode("Once upon a time")
    wrong: list[str] = []

    def work() -> None:
        for _ in range(10):
            for name, tensor in model.tensors.items():
                if tensor.dequantize(threads=2).sum() != expected[name]:
                    wrong.append(name)
            if model.metadata["tokenizer.ggml.tokens"][::5] != tokens[::5]:
                wrong.append("tokens")
            if tokenizer.encode("Once upon a time") != ids:
                wrong.append("ids")

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_long_calls_release_the_gil() -> None:
    values = np.random.default_rng(4).standard_normal((400, 4096)).astype(np.float32)
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    ggmill.quants.quantize(values, "Q4_K", threads=1)
    during = counted - before
    done.set()
    thread.join()
    assert during > 100


FORK = """
import os, sys
import numpy as np
import ggmill

path, out = sys.argv[1:]
model = ggmill.open(path)
tensor = model.tensors["blk.0.ffn_up.weight"]
before = tensor.dequantize(threads=4)
ggmill.quantize(path, out + ".1", "Q8_0", threads=3)
child = os.fork()
if child == 0:
    status = 1
    try:
        assert np.array_equal(tensor.dequantize(threads=4), before)
        ggmill.quantize(path, out + ".2", "Q8_0")
        ggmill.hash(path)
        assert ggmill.check(path, data=True).ok
        status = 0
    finally:
        os._exit(status)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert np.array_equal(tensor.dequantize(threads=4), before)
assert open(out + ".1", "rb").read() == open(out + ".2", "rb").read()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_fork_after_use(llama: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORK, str(llama), str(tmp_path / "out")]
    subprocess.run(command, check=True, timeout=120)


STOP = """
import os, signal, sys, threading, time
import ggmill, numpy as np

# Background jobs of a shell ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
path = sys.argv[1]
directory = os.path.dirname(path)
values = np.random.default_rng(5).standard_normal((2000, 4096)).astype(np.float32)
ggmill.write(path, {"general.architecture": "llama"}, {f"w{n}": values for n in range(4)})


def is_begun():
    if len(os.listdir(directory)) > 1:
        return True
    # On Linux the output has no name until it is complete.
    for number in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        try:
            if os.readlink("/proc/self/fd/" + number).startswith(directory + "/#"):
                return True
        except OSError:
            pass
    return False


def interrupt_once_the_output_is_begun():
    while not is_begun():
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=interrupt_once_the_output_is_begun, daemon=True).start()
try:
    ggmill.quantize(path, path + ".out", "IQ3_S", pure=True, threads=1)
except KeyboardInterrupt:
    assert not os.path.exists(path + ".out")
    print("stopped")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_stops_long_calls(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STOP, str(tmp_path / "m.gguf")]
    done = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True)
    assert done.stdout == "stopped\n"
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]


def test_the_wheel_includes_the_command(mobilenet: Path) -> None:
    program = Path(sys.executable).parent / ("ggmill.exe" if sys.platform == "win32" else "ggmill")
    done = subprocess.run(
        [str(program), "inspect", str(mobilenet)], check=True, capture_output=True, text=True
    )
    assert "mobilenetv3-small" in done.stdout
    version = subprocess.run(
        [str(program), "--version"], check=True, capture_output=True, text=True
    ).stdout
    assert ggmill.__version__ in version
