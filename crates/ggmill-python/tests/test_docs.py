"""The documentation runs."""

from __future__ import annotations

import doctest
import shutil
from pathlib import Path

import ggmill
import pytest
from conftest import ROOT

TOUR = ROOT / "docs" / "python.md"


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a page in a language."""
    return [block.split("```")[0] for block in text.split(f"```{language}\n")[1:]]


def test_the_tour(
    real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(real / "tinystories260K", tmp_path / "tinystories260K")
    monkeypatch.chdir(tmp_path)
    tour, *_ = blocks(TOUR.read_text(), "python")
    assert 25 <= len(tour.splitlines()) <= 40
    exec(compile(tour, str(TOUR), "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("llama\n5\n512 ")
    assert "Once upon a time" in printed
    assert ggmill.open("stories-Q8_0.gguf").metadata["general.name"] == "Tiny stories"


def test_docstrings() -> None:
    found = doctest.testmod(ggmill.quants)
    assert found.attempted > 3 and found.failed == 0


def test_every_public_name_has_a_docstring() -> None:
    for name in ggmill.__all__:
        item = getattr(ggmill, name)
        if not callable(item) or name in ("PathLike", "Progress"):
            continue
        assert item.__doc__, name
        for member, value in vars(item).items() if isinstance(item, type) else ():
            if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                assert value.__doc__, f"{name}.{member}"


def test_the_page_names_every_function() -> None:
    page = TOUR.read_text()
    for name in ggmill.__all__:
        if name.islower() and not name.startswith("_"):
            assert f"`{name}" in page or f"ggmill.{name}" in page, name
        if name.endswith("Error") and name != "Error":
            assert f"`{name}`" in page, name
