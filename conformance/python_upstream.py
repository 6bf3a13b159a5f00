"""Runs the reference's own tests of its Python package against ggmill.gguf.

    python_upstream.py GGUF_PY [LIBGGML]

GGUF_PY is the directory gguf-py of llama.cpp. With LIBGGML, the library libggml-base, also test_quants.py, which compares every type with it: it ends well
if it says that all match. Needs ggmill (installed or in PYTHONPATH) and pytest.
"""

import io
import logging
import runpy
import sys
from pathlib import Path

import python_shim

python_shim.install()


def main() -> int:
    import pytest

    tests = Path(sys.argv[1]) / "tests"
    code = pytest.main(["-q", "-p", "no:cacheprovider", str(tests)])
    if code or len(sys.argv) < 3:
        return int(code)
    import gguf
    assert gguf.__name__ == "ggmill.gguf"
    said = io.StringIO()
    logging.basicConfig(level=logging.DEBUG, stream=said, format="%(message)s", force=True)
    sys.argv = ["test_quants.py", "--libggml", sys.argv[2]]
    runpy.run_path(str(tests / "test_quants.py"), run_name="__main__")
    results = [line for line in said.getvalue().splitlines() if "match" in line and "but" not in line]
    bad = [line for line in results if "does not" in line]
    print(*bad, sep="\n")
    print(f"test_quants.py: {len(results) - len(bad)} of {len(results)} match, {said.getvalue().count('Testing ')} types")
    return int(bool(bad) or not results)


if __name__ == "__main__":
    sys.exit(main())
