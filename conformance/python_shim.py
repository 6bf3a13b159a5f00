"""Puts ggmill.gguf in the place of the package gguf, for comparisons: `install()` before anything imports it.

As `sitecustomize` in a directory of PYTHONPATH (`from python_shim import install; install()`) it does that for any program. ggmill itself never does:
it installs no package of that name.
"""

import importlib
import pkgutil
import sys


def install() -> None:
    import ggmill.gguf as package

    sys.modules["gguf"] = package
    for found in pkgutil.walk_packages(package.__path__, "ggmill.gguf."):
        name = found.name.removeprefix("ggmill.")
        if not name.rsplit(".", 1)[-1].startswith("_"):
            sys.modules[name] = importlib.import_module(found.name)
