"""`ggmill index`, read back by others: `index.py compare GGMILL FILES` and
`index.py record GGMILL DIRECTORY GOLDEN`.

compare: generates the headers of so many models, of which every hundredth is broken, makes an index of
them as Parquet and as NDJSON, updates it after a hundredth of the files has changed, and compares the
counts and sums that DuckDB and pyarrow find with those that the generator knows.

record: writes what DuckDB reads of the index of the bundled files, a row on each line.

Needs duckdb (2.0.0) and pyarrow.
"""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

TABLES = {"files": "", "tensors": ".tensors", "metadata": ".metadata"}
LAYERS = 12
TENSORS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "attn_norm", "ffn_norm"]


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def header(number):
    """A model's header, with how many tensors, elements and entries it has."""
    width = 64 * (1 + number % 16)
    names = [f"blk.{layer}.{name}.weight" for layer in range(LAYERS) for name in TENSORS]
    entries = [
        string("general.architecture") + struct.pack("<I", 8) + string(("llama", "qwen2", "gemma3")[number % 3]),
        string("general.name") + struct.pack("<I", 8) + string(f"Model {number}"),
        string("tokenizer.ggml.tokens")
        + struct.pack("<IIQ", 9, 8, 256)
        + b"".join(string(f"t{token}") for token in range(256)),
    ]
    for key in range(17 + number % 5):
        entries.append(string(f"llama.key_{key}") + struct.pack("<If", 6, key + number / 2))
    infos, offset = [], 0
    for name in names:
        infos.append(string(name) + struct.pack("<IQQIQ", 2, width, width, 0, offset))
        offset += width * width * 4
    body = b"GGUF" + struct.pack("<IQQ", 3, len(names), len(entries)) + b"".join(entries) + b"".join(infos)
    body += bytes(-len(body) % 32)
    return body, offset, len(names), len(names) * width * width, len(entries)


def generate(directory, count):
    known = {"files": count, "broken": 0, "tensors": 0, "elements": 0, "metadata": 0}
    for number in range(count):
        parent = directory / f"{number // 1000:03}"
        parent.mkdir(exist_ok=True)
        path = parent / f"model-{number:06}.gguf"
        body, data, tensors, elements, entries = header(number)
        if number % 100 == 99:
            path.write_bytes(b"GGUF" + b"\xff" * 100)
            known["broken"] += 1
            continue
        with open(path, "wb") as file:
            file.write(body)
            file.truncate(len(body) + data)
        known["tensors"] += tensors
        known["elements"] += elements
        known["metadata"] += entries
    return known


def run(ggmill, *arguments):
    begin = time.perf_counter()
    done = subprocess.run([ggmill, "index", *map(str, arguments)], capture_output=True, text=True)
    taken = time.perf_counter() - begin
    if done.returncode != 0:
        sys.exit(f"ggmill index {arguments}: {done.stderr}")
    return taken, done.stderr


def counts_of(files, tensors, metadata):
    """What is found in the tables, by these expressions of DuckDB."""
    one = lambda query: duckdb.sql(query).fetchall()[0]
    count, broken = one(f"SELECT count(*), count(error) FROM {files}")
    rows, elements = one(f"SELECT count(*), sum(elements) FROM {tensors}")
    (entries,) = one(f"SELECT count(*) FROM {metadata}")
    (same,) = one(
        f"SELECT count(*) FROM {files} f LEFT JOIN (SELECT path, count(*) AS found FROM {tensors} GROUP BY path) t "
        "ON f.path = t.path WHERE f.tensor_count <> coalesce(t.found, 0)"
    )
    if same:
        sys.exit(f"{same} files have other numbers of tensors than rows")
    return {"files": count, "broken": broken, "tensors": rows, "elements": int(elements), "metadata": entries}


def of_parquet(stem):
    return counts_of(*(f"'{stem}{suffix}.parquet'" for suffix in TABLES.values()))


def of_ndjson(path):
    table = lambda record: f"(SELECT * FROM read_json('{path}', format = 'newline_delimited') WHERE record = '{record}')"
    return counts_of(table("file"), table("tensor"), table("metadata"))


def of_arrow(stem):
    import pyarrow.compute
    import pyarrow.parquet

    files, tensors, metadata = (pyarrow.parquet.read_table(f"{stem}{suffix}.parquet") for suffix in TABLES.values())
    return {
        "files": len(files),
        "broken": len(files) - files["error"].null_count,
        "tensors": len(tensors),
        "elements": pyarrow.compute.sum(tensors["elements"]).as_py(),
        "metadata": len(metadata),
    }


def check(name, found, known):
    print(f"{'same' if found == known else 'DIFFERENT':10}{name}: {found}")
    if found != known:
        sys.exit(f"expected {known}")


def compare(ggmill, count):
    with tempfile.TemporaryDirectory() as scratch:
        models, stem = Path(scratch) / "models", Path(scratch) / "index"
        models.mkdir()
        known = generate(models, count)
        print(f"{count} files of {sum(p.stat().st_blocks for p in models.rglob('*.gguf')) * 512 >> 20} MiB on the disk")
        for output in (f"{stem}.parquet", f"{stem}.ndjson"):
            taken, _ = run(ggmill, models, "-o", output)
            size = sum(p.stat().st_size for p in Path(scratch).glob(f"index*{Path(output).suffix}"))
            print(f"{Path(output).suffix:10}{taken:.2f} s, {count / taken:,.0f} files/s, {size / 2**20:.1f} MiB")
        check("DuckDB, Parquet", of_parquet(stem), known)
        check("pyarrow", of_arrow(stem), known)
        check("DuckDB, NDJSON", of_ndjson(f"{stem}.ndjson"), known)
        changed = sorted(models.rglob("*.gguf"))[::100]
        for path in changed:
            os.utime(path, ns=(1, 1_000_000_000_000_000))
        for output in (f"{stem}.parquet", f"{stem}.ndjson"):
            taken, said = run(ggmill, models, "-o", output, "--resume")
            kept = int(re.search(r"\((\d+) unchanged\)", said)[1])
            print(f"{'resumed':10}{Path(output).suffix}: {taken:.2f} s, {kept} unchanged")
            if kept != count - len(changed) - known["broken"]:
                sys.exit(f"expected {count - len(changed) - known['broken']} unchanged")
        check("DuckDB, Parquet, resumed", of_parquet(stem), known)
        check("DuckDB, NDJSON, resumed", of_ndjson(f"{stem}.ndjson"), known)


def record(ggmill, directory, golden):
    with tempfile.TemporaryDirectory() as scratch:
        stem = Path(scratch) / "index"
        subprocess.run([ggmill, "--quiet", "index", ".", "-o", f"{stem}.parquet"], cwd=directory, check=True)
        lines = []
        for name, suffix in TABLES.items():
            order = "path" if name == "files" else "path, position"
            # A time with a zone needs pytz, and differs from checkout to checkout.
            columns = "* EXCLUDE modified" if name == "files" else "*"
            rows = duckdb.sql(f"SELECT {columns} FROM '{stem}{suffix}.parquet' ORDER BY {order}")
            for row in rows.fetchall():
                cells = dict(zip(rows.columns, row))
                cells["path"] = cells["path"].removeprefix("./")
                lines.append(json.dumps([name, cells]))
    Path(golden).parent.mkdir(exist_ok=True)
    Path(golden).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["compare", ggmill, count]:
            compare(ggmill, int(count))
        case ["record", ggmill, directory, golden]:
            record(ggmill, directory, golden)
        case _:
            sys.exit(__doc__)
