"""Paths of the test files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TESTDATA = ROOT / "crates" / "ggmill-testdata"


@pytest.fixture(scope="session")
def real() -> Path:
    """The directory of real files."""
    return TESTDATA / "real"


@pytest.fixture(scope="session")
def expected() -> Path:
    """The directory of recorded results of other programs."""
    return TESTDATA / "expected"


@pytest.fixture(scope="session")
def corpus() -> list[Path]:
    """Small files, damaged ones and unusual valid ones, which `cargo xtask python` writes."""
    directory = os.environ.get("GGMILL_CORPUS")
    if not directory:
        pytest.skip("GGMILL_CORPUS is not set: cargo xtask python sets it")
    files = sorted(Path(directory).glob("*.gguf"))
    assert len(files) > 50
    return files


@pytest.fixture
def mobilenet(real: Path) -> Path:
    """A model with tensors in F16 and F32, of 1, 2 and 4 dimensions."""
    return real / "mobilenetv3_3class_v3_fp16.gguf"


@pytest.fixture
def vocabulary(real: Path) -> Path:
    """A vocabulary without tensors."""
    return real / "ggml-vocab-phi-3.gguf"


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory, real: Path) -> Path:
    """A small language model, converted to F32."""
    import ggmill

    path = tmp_path_factory.mktemp("llama") / "stories-F32.gguf"
    ggmill.convert(real / "tinystories260K", path, "F32")
    return path
