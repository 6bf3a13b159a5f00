"""The structure of the package: imports without circles, and a build from a clone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "python" / "ggmill"
FILES = {
    path.relative_to(PACKAGE.parent).with_suffix("").parts: path for path in PACKAGE.rglob("*.py")
}


def imports(module: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Return the modules of the package that a module imports, also in functions and for types."""
    for node in ast.walk(ast.parse(FILES[module].read_text())):
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = module[: -node.level] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            names = [found for alias in node.names for found in (base, (*base, alias.name))]
        else:
            continue
        yield from (name for name in names if name in FILES)


def test_imports_have_no_circle() -> None:
    graph = {module: set(imports(module)) for module in FILES}
    assert ("ggmill", "_errors") in graph["ggmill", "_model"]
    assert ("ggmill", "_native") not in graph
    assert ("ggmill", "gguf", "constants") in graph["ggmill", "gguf", "scripts", "gguf_dump"]
    # Raises an exception that names the circle.
    TopologicalSorter(graph).prepare()


def test_a_clone_has_everything_that_the_build_needs() -> None:
    """`pip install` builds from a clone, where generated directories do not exist."""
    tomllib = pytest.importorskip("tomllib")
    settings = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())["tool"]["maturin"]
    # maturin fails if this directory does not exist, and it contains a built program.
    assert "data" not in settings
    assert (PACKAGE.parents[1] / settings["python-source"]).is_dir()
