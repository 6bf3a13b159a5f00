"""The names that the Python package `ggmill.gguf` shares with `gguf`: recorded, and written as Python.

    python_tables.py record GGUF_PY   reads the reference's package (the directory gguf-py of llama.cpp) and writes
                                      crates/ggmill-python/data/*.toml: names and numbers, nothing of its code
    python_tables.py write            writes the generated modules of ggmill.gguf from these files
    python_tables.py write --check    fails if that would change them

The architectures of the files must be known to ggmill: crates/ggmill-arch/data/names.toml has the same list.
"""

import ast
import sys
import textwrap
import tomllib
from pathlib import Path

CRATE = Path(__file__).resolve().parents[1] / "crates/ggmill-python"
DATA = CRATE / "data"
PACKAGE = CRATE / "python/ggmill/gguf"
NAMES = CRATE.parent / "ggmill-arch/data/names.toml"

SOURCE = "gguf-py of llama.cpp, as in llama-cpp-python 0.3.36"
PLAIN = {
    "add_uint8", "add_int8", "add_uint16", "add_int16", "add_uint32", "add_int32", "add_float32",
    "add_uint64", "add_int64", "add_float64", "add_bool", "add_string", "add_array",
}
ENUMERATIONS = {
    "MODEL_ARCH": "IntEnum", "VISION_PROJECTOR_TYPE": "IntEnum", "MODEL_TENSOR": "IntEnum", "TokenType": "IntEnum",
    "RopeScalingType": "Enum", "PoolingType": "IntEnum", "GGMLQuantizationType": "IntEnum",
    "ExpertGatingFuncType": "IntEnum", "LlamaFileType": "IntEnum", "GGUFEndian": "IntEnum", "GGUFValueType": "IntEnum",
}
NAMED = {"GGUFType", "VisionProjectorType"}
NUMBERS = ("GGUF_MAGIC", "GGUF_VERSION", "GGUF_DEFAULT_ALIGNMENT", "GGML_QUANT_VERSION", "GGML_MAX_DIMS", "QK_K")


# ---------------------------------------------------------------- TOML

def text(value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(text(one) for one in value) + "]"
    return "{ " + ", ".join(f"{key} = {text(one)}" for key, one in value.items()) + " }"


def table(name: str, entries: dict) -> str:
    return f"\n[{name}]\n" + "".join(f"{key} = {text(value)}\n" for key, value in entries.items())


# ---------------------------------------------------------------- record

def key_classes(owner: type, path: str) -> dict[str, dict[str, str]]:
    own = {name: value for name, value in vars(owner).items() if isinstance(value, str) and not name.startswith("__")}
    found = {path: own} if own else {}
    for name, value in vars(owner).items():
        if isinstance(value, type):
            found |= key_classes(value, f"{path}.{name}" if path else name)
    return found


def attribute(node: ast.expr) -> str | None:
    """The path of `Keys.LLM.X` or `Keys.LLM.X.format(...)`, without `Keys`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        node = node.func.value
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed(parts)) if isinstance(node, ast.Name) and node.id == "Keys" else None


def one_call(statement: ast.stmt):
    """(method, key, value expression) of `self.add_x(Keys..., value)`."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return None
    call = statement.value
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in PLAIN | {"_add_u64_array"} and len(call.args) == 2):
        return None
    key = attribute(call.args[0])
    return (call.func.attr, key, ast.unparse(call.args[1])) if key else None


def method(function: ast.FunctionDef) -> dict | None:
    """What a method that sets one key does, or None for one that does more."""
    body = [one for one in function.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    parameters = [(one.arg, ast.unparse(one.annotation)) for one in function.args.args[1:]]
    if function.args.defaults or not parameters:
        return None
    aliases = {}
    while body and isinstance(body[0], ast.Assign) and attribute(body[0].value):
        aliases[body[0].targets[0].id] = body[0].value
        body = body[1:]

    def resolve(statement):
        if aliases and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and statement.value.args:
            first = statement.value.args[0]
            if isinstance(first, ast.Name) and first.id in aliases:
                statement.value.args[0] = aliases[first.id]
        return one_call(statement)

    if len(body) != 1:
        return None
    found, either = resolve(body[0]), False
    if found is None and isinstance(body[0], ast.If) and ast.unparse(body[0].test).startswith("isinstance("):
        found, other = resolve(body[0].body[0]), resolve(body[0].orelse[0]) if body[0].orelse else None
        either = bool(found and other and found[1:] == other[1:] and (found[0], other[0]) == ("add_uint32", "add_array"))
        if not either:
            return None
    if found is None:
        return None
    call, key, value = found
    name, annotation = parameters[-1]
    form = {name: "", f"{name}.value": "value", f"list({name})": "list"}.get(value)
    if form is None:
        return None
    kind = {"_add_u64_array": "uint64s"}.get(call, call.removeprefix("add_")) + ("|array" if either else "")
    entry = {"key": key, "type": kind, "parameter": name, "annotation": annotation}
    if form:
        entry["form"] = form
    if len(parameters) > 1:
        entry["before"] = [f"{one}: {kind}" for one, kind in parameters[:-1]]
    return entry


def record(directory: Path) -> None:
    sys.path.insert(0, str(directory))
    import gguf.constants as c
    from gguf.tensor_mapping import TensorNameMap

    head = f"# Recorded by conformance/python_tables.py: {{}}\nsource = {text(SOURCE)}\n"
    out = head.format("numbers, metadata keys and enumerations that Python programs know by these names.")
    out += table("numbers", {name: getattr(c, name) for name in NUMBERS})
    for path, entries in key_classes(c.Keys, "").items():
        out += table(f"keys.{path}", entries)
    where = {value: f"{path}.{name}" for path, entries in key_classes(c.Keys, "").items() for name, value in entries.items()}
    aliases = {}
    for node in ast.parse((directory / "gguf/constants.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.startswith("KEY_"):
            aliases[node.targets[0].id] = attribute(node.value)
            assert where[getattr(c, node.targets[0].id)]
    out += table("key-aliases", aliases)
    for name in ENUMERATIONS:
        if name not in ("MODEL_ARCH", "MODEL_TENSOR"):
            out += table(f"enumerations.{name}", {key: member.value for key, member in getattr(c, name).__members__.items()})
    for name in sorted(NAMED):
        out += table(f"names.{name}", {key: value for key, value in vars(getattr(c, name)).items() if isinstance(value, str) and not key.startswith("__")})
    out += table("projector-names", {key.name: value for key, value in c.VISION_PROJECTOR_TYPE_NAMES.items()})
    out += table("block-and-type-sizes", {key.name: value for key, value in c.GGML_QUANT_SIZES.items()})
    (DATA / "constants.toml").write_text(out)

    out = head.format("architectures and tensors by the names Python programs know them by, and the names of tensors in checkpoints.")
    assert [one.value for one in c.MODEL_ARCH] == list(range(1, len(c.MODEL_ARCH) + 1))
    assert [one.value for one in c.MODEL_TENSOR] == list(range(1, len(c.MODEL_TENSOR) + 1))
    assert set(c.MODEL_ARCH_NAMES) == set(c.MODEL_ARCH), set(c.MODEL_ARCH) - set(c.MODEL_ARCH_NAMES)
    out += table("architectures", {one.name: c.MODEL_ARCH_NAMES[one] for one in c.MODEL_ARCH})
    out += table("tensors", {one.name: c.TENSOR_NAMES.get(one, "") for one in c.MODEL_TENSOR})
    out += table("tensors-of", {one.name: " ".join(t.name for t in c.MODEL_TENSORS[one]) for one in c.MODEL_ARCH if one in c.MODEL_TENSORS})
    out += table("tensors-skipped", {key.name: " ".join(t.name for t in value) for key, value in c.MODEL_TENSOR_SKIP.items()})
    out += table("checkpoint-names", {key.name: value for key, value in TensorNameMap.mappings_cfg.items()})
    out += table("checkpoint-block-names", {key.name: value for key, value in TensorNameMap.block_mappings_cfg.items()})
    for arch, names in TensorNameMap.arch_block_mappings_cfg.items():
        out += table(f"checkpoint-block-names-of.{arch.name}", {key.name: value for key, value in names.items()})
    (DATA / "tensors.toml").write_text(out)

    out = head.format("the methods of GGUFWriter that set one metadata key.")
    [writer] = [one for one in ast.parse((directory / "gguf/gguf_writer.py").read_text()).body
                if isinstance(one, ast.ClassDef) and one.name == "GGUFWriter"]
    entries, more = {}, []
    for function in writer.body:
        if isinstance(function, ast.FunctionDef):
            entry = method(function)
            if entry is not None:
                entries[function.name] = entry
            elif not function.name.startswith("_"):
                more.append(function.name)
    out += table("methods", entries)
    (DATA / "writer.toml").write_text(out)
    print(len(entries), "methods set one key; by hand:", " ".join(more))


# ---------------------------------------------------------------- write

def data(name: str) -> dict:
    return tomllib.loads((DATA / f"{name}.toml").read_text())


def module(name: str, what: str) -> str:
    return (f'"""{what}\n\nGenerated by conformance/python_tables.py from {name}:\nedit these files, not this one.\n"""\n\n'
            "from __future__ import annotations\n\n")


def words(value: str, indent: str) -> str:
    """A string of words as Python, in lines of at most a hundred columns."""
    lines = textwrap.wrap(value, 88 - len(indent))
    if len(lines) < 2:
        return f'"{value}"'
    return "(\n" + "\n".join(f'{indent}    "{line}{" " if n + 1 < len(lines) else ""}"' for n, line in enumerate(lines)) + f"\n{indent})"


def strings(values: list[str], indent: str) -> str:
    return "(\n" + "".join(f'{indent}    "{one}",\n' for one in values) + f"{indent})"


def keys_class(name: str, entries: dict, indent: str) -> str:
    lines = [f"{indent}class {name}:"]
    for key, value in entries.items():
        if isinstance(value, dict):
            lines += ["", keys_class(key, value, indent + "    ").rstrip()]
        else:
            lines.append(f'{indent}    {key} = "{value}"')
    return "\n".join(lines) + "\n\n"


GET_TYPE = '''
    @staticmethod
    def get_type(val: Any) -> GGUFValueType:
        """Return the type for a Python value; raise ValueError if there is none."""
        if isinstance(val, (str, bytes, bytearray)):
            return GGUFValueType.STRING
        if isinstance(val, list):
            return GGUFValueType.ARRAY
        if isinstance(val, float):
            return GGUFValueType.FLOAT32
        if isinstance(val, bool):
            return GGUFValueType.BOOL
        if isinstance(val, int):
            return GGUFValueType.INT32
        raise ValueError(f"Unknown type: {type(val)}")
'''

DOCS = {
    "MODEL_ARCH": "The architectures; `MODEL_ARCH_NAMES` has their values of general.architecture.",
    "MODEL_TENSOR": "The roles of tensors; `TENSOR_NAMES` has their names in files.",
    "VISION_PROJECTOR_TYPE": "The projectors of early multimodal models.",
    "TokenType": "The values of tokenizer.ggml.token_type.",
    "RopeScalingType": "The values of rope.scaling.type.",
    "PoolingType": "The values of pooling_type.",
    "GGMLQuantizationType": "The tensor types and their numbers.",
    "ExpertGatingFuncType": "The values of expert_gating_func.",
    "LlamaFileType": "The values of general.file_type.",
    "GGUFEndian": "The byte orders of files.",
    "GGUFValueType": "The types of metadata values and their numbers.",
    "GGUFType": "The values of general.type.",
    "VisionProjectorType": "The values of clip.projector_type.",
}


def enumeration(name: str, entries: dict) -> str:
    lines = [f"class {name}({ENUMERATIONS[name]}):", f'    """{DOCS[name]}"""', ""]
    lines += [f"    {key} = {text(value)}" for key, value in entries.items()]
    return "\n".join(lines) + "\n" + (GET_TYPE if name == "GGUFValueType" else "") + "\n\n"


def constants() -> str:
    facts, tensors = data("constants"), data("tensors")
    known = tomllib.loads(NAMES.read_text())["architectures"]
    unknown = set(tensors["architectures"].values()) - set(known)
    assert not unknown, f"not in names.toml: {unknown}"
    out = module("data/constants.toml and data/tensors.toml", "Numbers, metadata keys and enumerations of GGUF files.")
    out += "from enum import Enum, IntEnum\nfrom typing import Any\n\n"
    for name, value in facts["numbers"].items():
        out += f"{name} = {hex(value) if name == 'GGUF_MAGIC' else value}\n"
    body = "".join(keys_class(name, entries, "    ") for name, entries in facts["keys"].items())
    out += '\n\nclass Keys:\n    """Metadata keys; `{arch}` stands for the architecture."""\n\n' + body.rstrip() + "\n\n\n"
    for name, entries in facts["names"].items():
        out += f'class {name}:\n    """{DOCS[name]}"""\n\n' + "".join(f'    {key} = "{value}"\n' for key, value in entries.items()) + "\n\n"
    count = lambda names: {name: number for number, name in enumerate(names, 1)}
    out += enumeration("MODEL_ARCH", count(tensors["architectures"]))
    out += enumeration("MODEL_TENSOR", count(tensors["tensors"]))
    for name, entries in facts["enumerations"].items():
        out += enumeration(name, entries)
    out = out.rstrip() + "\n\n\n"
    out += "MODEL_ARCH_NAMES: dict[MODEL_ARCH, str] = {\n"
    out += "".join(f'    MODEL_ARCH.{key}: "{value}",\n' for key, value in tensors["architectures"].items()) + "}\n\n"
    out += "VISION_PROJECTOR_TYPE_NAMES: dict[VISION_PROJECTOR_TYPE, str] = {\n"
    out += "".join(f'    VISION_PROJECTOR_TYPE.{key}: "{value}",\n' for key, value in facts["projector-names"].items()) + "}\n\n"
    out += "TENSOR_NAMES: dict[MODEL_TENSOR, str] = {\n"
    out += "".join(f'    MODEL_TENSOR.{key}: "{value}",\n' for key, value in tensors["tensors"].items() if value) + "}\n\n"
    for name, section in (("_TENSORS_OF", "tensors-of"), ("_TENSORS_SKIPPED", "tensors-skipped")):
        out += f"{name} = {{\n" + "".join(f'    "{key}": {words(value, "    ")},\n' for key, value in tensors[section].items()) + "}\n\n"
    out += "\ndef _by_role(table: dict[str, str]) -> dict[MODEL_ARCH, list[MODEL_TENSOR]]:\n"
    out += "    return {\n        MODEL_ARCH[arch]: [MODEL_TENSOR[tensor] for tensor in tensors.split()]\n"
    out += "        for arch, tensors in table.items()\n    }\n\n\n"
    out += "MODEL_TENSORS: dict[MODEL_ARCH, list[MODEL_TENSOR]] = _by_role(_TENSORS_OF)\n"
    out += "MODEL_TENSOR_SKIP: dict[MODEL_ARCH, list[MODEL_TENSOR]] = _by_role(_TENSORS_SKIPPED)\n\n"
    out += "# The number of elements and of bytes in a block.\nGGML_QUANT_SIZES: dict[GGMLQuantizationType, tuple[int, int]] = {\n"
    out += "".join(f"    GGMLQuantizationType.{key}: ({block}, {size}),\n" for key, (block, size) in facts["block-and-type-sizes"].items()) + "}\n\n"
    out += "# Names of keys from before `Keys` existed.\n"
    out += "".join(f"{key} = Keys.{value}\n" for key, value in facts["key-aliases"].items())
    return out


def checkpoint_names() -> str:
    tensors = data("tensors")
    out = module("data/tensors.toml", "Names of tensors in checkpoints, by their role.")
    out += "from .constants import MODEL_ARCH, MODEL_TENSOR\n\n"
    kind = "dict[MODEL_TENSOR, tuple[str, ...]]"
    entries = lambda names, indent: "".join(f"{indent}MODEL_TENSOR.{key}: {strings(value, indent)},\n" for key, value in names.items())
    out += f"MODEL: {kind} = {{\n{entries(tensors['checkpoint-names'], '    ')}}}\n\n"
    out += f"BLOCK: {kind} = {{\n{entries(tensors['checkpoint-block-names'], '    ')}}}\n\n"
    out += f"BLOCK_OF: dict[MODEL_ARCH, {kind}] = {{\n"
    for arch, names in tensors["checkpoint-block-names-of"].items():
        out += f"    MODEL_ARCH.{arch}: {{\n{entries(names, '        ')}    }},\n"
    return out + "}\n"


def writer_methods() -> str:
    keys = data("constants")["keys"]
    out = module("data/writer.toml", "The methods of `GGUFWriter` that set one metadata key each.")
    out += "from collections.abc import Sequence\n\nfrom ._writer_base import WriterBase\n"
    out += "from .constants import (\n    ExpertGatingFuncType,\n    Keys,\n    PoolingType,\n    RopeScalingType,\n    TokenType,\n)\n\n\n"
    out += 'class KeyMethods(WriterBase):\n    """Methods that set one metadata key each."""\n'
    for name, method in data("writer")["methods"].items():
        found = keys
        for part in method["key"].split("."):
            found = found[part]
        arguments = []
        if "{arch}" in found:
            arguments.append("arch=self.arch")
        before = method.get("before", [])
        for placeholder, parameter in zip((one for one in ("id",) if f"{{{one}}}" in found), before, strict=True):
            arguments.append(f"{placeholder}={parameter.split(':')[0]}")
        key = f"Keys.{method['key']}" + (f".format({', '.join(arguments)})" if arguments else "")
        value = method["parameter"]
        shown = {"value": f"{value}.value", "list": f"list({value})"}.get(method.get("form", ""), value)
        kind, _, other = method["type"].partition("|")
        parameters = ", ".join(["self", *before, f"{value}: {method['annotation']}"])
        head = f"    def {name}({parameters}) -> None:"
        if len(head) > 100:
            head = f"    def {name}(\n        {parameters}\n    ) -> None:"
        what = "array" if kind == "uint64s" else kind
        out += f"\n{head}\n"
        out += f'        """Set {found} ({"array of uint64" if kind == "uint64s" else kind + (" or array" if other else "")})."""\n'
        if other:
            out += f"        key = {key}\n        if isinstance({value}, int):\n            self.add_{kind}(key, {shown})\n"
            out += f"        else:\n            self.add_{other}(key, {shown})\n"
        elif kind == "uint64s":
            out += f"        self._add_uint64s({key}, {shown})\n"
        else:
            line = f"        self.add_{what}({key}, {shown})"
            if len(line) > 100:
                line = f"        self.add_{what}(\n            {key}, {shown}\n        )"
            out += line + "\n"
    return out


def write(check: bool) -> int:
    stale = 0
    for name, content in (("constants.py", constants()), ("_checkpoint_names.py", checkpoint_names()), ("_writer_keys.py", writer_methods())):
        path = PACKAGE / name
        if check:
            if not path.is_file() or path.read_text() != content:
                print(f"{path} is not what {Path(__file__).name} write makes", file=sys.stderr)
                stale = 1
        else:
            path.write_text(content)
    return stale


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", directory]:
            record(Path(directory))
        case ["write", *rest]:
            sys.exit(write("--check" in rest))
        case _:
            sys.exit(__doc__)
