"""Writes the PyTorch files that the tests of ggmill-pipeline read, with what PyTorch finds in them.

    REFERENCE_PYTHON torch_files.py

writes crates/ggmill-pipeline/tests/fixtures/torch: files saved by torch.save in both forms, one written with zipfile as a machine of the other byte order
would (and read again by torch.load), and expected.json: for each file its tensors in the order of the dictionary, as `torch.load(weights_only=True)` gives them
(name, safetensors' name of the type, shape, the elements in little-endian order as hexadecimal digits), or the error that is expected of us; and shared.json, the
same for the files of others in ../shared/data/pytorch. Written with torch 2.11.0.
"""

import collections
import hashlib
import json
import zipfile
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "crates/ggmill-pipeline/tests/fixtures/torch"

NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64", torch.int32: "I32", torch.int16: "I16",
    torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL", torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64", torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.float8_e4m3fnuz: "F8_E4M3FNUZ", torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
    torch.float8_e8m0fnu: "F8_E8M0",
}


def elements(count, dtype):
    """Elements of a type with bytes that are all different, as far as there are so many."""
    size = torch.empty((), dtype=dtype).element_size()
    data = bytes((7 * i + 3) % 251 for i in range(count * size))
    if dtype == torch.bool:
        data = bytes(byte & 1 for byte in data)
    return torch.frombuffer(bytearray(data), dtype=dtype)


def types():
    """A tensor of every type."""
    return collections.OrderedDict((str(dtype).split(".")[1], elements(6, dtype).reshape(2, 3)) for dtype in NAMES)


def views():
    """Views of shared storages, of all kinds."""
    base = elements(120, torch.float32)
    half = elements(4 * 5 * 6, torch.bfloat16).reshape(4, 5, 6)
    return {
        "whole": base,
        "tied": base,
        "offset": base[7:19].reshape(3, 4),
        "transposed": base.reshape(10, 12).t(),
        "every-third": base[1::3],
        "block": base.reshape(10, 12)[2:7, 3:8],
        "diagonal": base.reshape(10, 12).diagonal(),
        "expanded": base[3:6].reshape(3, 1).expand(3, 4),
        "windows": base.unfold(0, 5, 2),
        "permuted": half.permute(2, 0, 1),
        "slice-of-permuted": half.permute(2, 0, 1)[1:5:2, 1:, ::2],
        "ones": half[:, 2:3, :].permute(1, 2, 0),
        "scalar": base[5],
        "empty": base[:0],
        "empty-rows": torch.empty(0, 4),
    }


def large():
    """More tensors than there are short memo indices, which share a storage."""
    base = torch.arange(300, dtype=torch.int16)
    return collections.OrderedDict((f"model.layers.{i}.weight", base[i:i + 1]) for i in range(300))


def module():
    """A state dictionary as a module gives it: parameters, buffers, versions."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).state_dict()


def attributes():
    """A tensor with an attribute of its own, and parameters."""
    marked = elements(3, torch.float16)
    marked.note = "text"
    return {"marked": marked, "parameter": torch.nn.Parameter(elements(2, torch.float32)), "frozen": torch.nn.Parameter(elements(2, torch.float32), requires_grad=False)}


def swapped(source, path):
    """The same file as a big-endian machine writes it."""
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as out:
        state = torch.load(source, weights_only=True)
        sizes = iter([tensor.real.element_size() if tensor.is_complex() else tensor.element_size() for tensor in state.values()])
        for info in archive.infolist():
            data = archive.read(info)
            if info.filename.endswith("/byteorder"):
                data = b"big"
            if "/data/" in info.filename:
                size = next(sizes)
                data = b"".join(data[i:i + size][::-1] for i in range(0, len(data), size))
            out.writestr(zipfile.ZipInfo(info.filename), data)


def described(state):
    """What a state dictionary has."""
    def data(tensor):
        tensor = tensor.detach().contiguous().reshape(-1)
        return bytes(tensor.view(torch.uint8).tolist()).hex() if tensor.numel() else ""
    return [[name, NAMES[tensor.dtype], list(tensor.shape), data(tensor)] for name, tensor in state.items()]


def shared():
    """What PyTorch finds in the files of ../shared/data/pytorch: for each its tensors with hashes of their elements, or nothing where it is not a state dictionary."""
    root, found = HERE.parents[1] / "shared/data/pytorch", {}
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".pt", ".pth", ".tar")):
        try:
            state = torch.load(path, weights_only=True, map_location="cpu")
            is_flat = isinstance(state, dict) and all(isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in state.items())
            tensors = [[*tensor[:3], hashlib.sha256(bytes.fromhex(tensor[3])).hexdigest()] for tensor in described(state)] if is_flat else None
        except Exception as error:
            print(path.name, str(error).splitlines()[0])
            tensors = None
        found[str(path.relative_to(root))] = tensors
    return found


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    expected = {}
    for name, state in [("types", types()), ("views", views()), ("large", large()), ("module", module()), ("attributes", attributes())]:
        torch.save(state, OUT / f"{name}.pt")
        forms = [f"{name}.pt"]
        if name != "large":
            torch.save(state, OUT / f"{name}-legacy.pt", _use_new_zipfile_serialization=False)
            forms.append(f"{name}-legacy.pt")
        for form in forms:
            # PyTorch writes types without a storage class in the old form, and does not read them again.
            loaded = state if form == "types-legacy.pt" else torch.load(OUT / form, weights_only=True)
            expected[form] = described(loaded)
    for protocol in (3, 4, 5):
        # With these, PyTorch itself needs the other of its unpicklers.
        path = OUT / f"protocol-{protocol}.pt"
        torch.save({"a": elements(4, torch.float32).reshape(2, 2).t(), "b": torch.nn.Parameter(elements(1, torch.float32))}, path, pickle_protocol=protocol)
        expected[path.name] = described(torch.load(path, weights_only=False))
    # Complex numbers are not in the order of storages' keys that `swapped` goes by where they are views; all of these are whole.
    swapped(OUT / "types.pt", OUT / "big-endian.pt")
    loaded = described(torch.load(OUT / "big-endian.pt", weights_only=True))
    # PyTorch forgets to swap the bytes of types without a storage class.
    assert [a[0] for a, b in zip(loaded, expected["types.pt"]) if a != b] == ["uint16", "uint32", "uint64"]
    expected["big-endian.pt"] = expected["types.pt"]

    faults = {
        "training.pt": ({"model": module(), "epoch": 3}, 'entry "model" is a dictionary of 7, expected a tensor'),
        "number.pt": ({"weight": elements(1, torch.float32), "epoch": 3}, 'entry "epoch" is 3, expected a tensor'),
        "conjugate.pt": ({"a": elements(2, torch.complex64).conj()}, "a negation or a conjugate"),
        "sparse.pt": ({"a": torch.eye(3).to_sparse()}, "torch._utils._rebuild_sparse_tensor"),
        "whole-module.pt": (torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        "list.pt": ([elements(2, torch.float32)], "is a list of 1, expected a dictionary of tensors"),
    }
    for name, (what, message) in faults.items():
        torch.save(what, OUT / name)
        expected[name] = message
    (OUT / "shared.json").write_text("{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in shared().items()) + "\n}\n")
    (OUT / "expected.json").write_text("{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in expected.items()) + "\n}\n")


main()
