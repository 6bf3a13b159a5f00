"""Writes the texts that the speed of tokenizers is measured on: english.txt, code.txt and mixed.txt, 4 MB each.

    python tokenization_corpora.py RUST LLAMA_CPP LOCALES DIRECTORY

RUST is a source tree of Rust 1.96, whose books are the English text; LLAMA_CPP a source tree of llama.cpp (that of llama-cpp-python 0.3.36), whose sources are the
code; LOCALES a directory of translations as gettext has them (/usr/share/locale), which are the text in mixed scripts: messages in thirteen languages by turns.
Files are taken in the order of their names. Which translations there are depends on the machine; RESULTS.md has the hashes of the texts that were measured.
"""

import gettext
import hashlib
import sys
from pathlib import Path

SIZE = 4_000_000
LANGUAGES = ["ja", "ru", "zh_CN", "ar", "fr", "ko", "el", "hi", "he", "th", "uk", "ta", "vi"]


def documents(directory, endings):
    files = sorted(path for path in directory.rglob("*") if path.suffix in endings and path.is_file())
    return "".join(path.read_text(encoding="utf-8", errors="ignore") for path in files)


def messages(locales, language):
    """The translations of a language, each once."""
    seen = set()
    for path in sorted((locales / language / "LC_MESSAGES").glob("*.mo")):
        try:
            with open(path, "rb") as file:
                catalog = gettext.GNUTranslations(file)._catalog
        except (OSError, UnicodeDecodeError, ValueError):
            continue
        for key, text in sorted(catalog.items(), key=str):
            if key and text not in seen and any(ord(each) > 127 for each in text):
                seen.add(text)
                yield text


def mixed(locales):
    languages = [messages(locales, language) for language in LANGUAGES]
    size, parts = 0, []
    while languages and size < SIZE:
        for each in list(languages):
            text = next(each, None)
            if text is None:
                languages.remove(each)
                continue
            parts.append(text + "\n")
            size += len(parts[-1].encode())
    return "".join(parts)


def main(rust, llama_cpp, locales, directory):
    texts = {
        "english": documents(Path(rust) / "src/doc", {".md"}),
        "code": documents(Path(llama_cpp) / "src", {".cpp", ".h"}) + documents(Path(llama_cpp) / "gguf-py", {".py"}) + documents(Path(llama_cpp) / "ggml/src", {".c", ".cpp", ".h"}),
        "mixed": mixed(Path(locales)),
    }
    Path(directory).mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        data = text.encode()[:SIZE].decode(errors="ignore").encode()
        (Path(directory) / f"{name}.txt").write_bytes(data)
        print(name, len(data), hashlib.sha256(data).hexdigest())


if __name__ == "__main__":
    sys.exit(__doc__) if len(sys.argv) != 5 else main(*sys.argv[1:])
