"""Writes what the configuration classes of transformers (4.57.6, or 5.24.0) take for granted.

    python transformers_defaults.py LLAMA_CPP OUT.json

OUT is crates/ggmill-arch/data/transformers.json, or transformers-5.json with release 5. Checkpoints leave out of config.json what their class has by default, and the reference converter reads the
configuration through that class. LLAMA_CPP is the directory `vendor/llama.cpp` of the source archive of llama-cpp-python 0.3.36: it says which classes of models
count. What is written, one line for each `model_type`:

    base       what every configuration has; `defaults` repeats it only where a class differs
    defaults   the values of the class; a configuration within (text_config) is only named
    computed   values that follow from others, with the names of these: head_dim from hidden_size and num_attention_heads. They are in `defaults` only where the
               constructor has them as they are, and changes them by another value: Gemma 3 halves its window if it looks in both directions
    aliases    names that config.json may use, with the name that the class has
    parts      values of a configuration within another (`qwen2_vl.vision_config`) that no `model_type` has: its class has that of another one
"""

import ast
import inspect
import json
import logging
import math
import os
import re
import sys
import warnings
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "critical"

import transformers  # noqa: E402
from transformers.models.auto import modeling_auto  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES, model_type_to_module_name  # noqa: E402

# About the file or the program that wrote it, not about the model.
LEFT_OUT = {"torch_dtype", "dtype", "transformers_version", "architectures", "_name_or_path", "model_type", "_attn_implementation_autoset"}

BASE = transformers.PretrainedConfig().to_dict()

# Architectures that ggmill converts and the reference does not.
OWN = {"GPTJForCausalLM", "RwkvForCausalLM", "WhisperForConditionalGeneration"}


def registered(root):
    """The names of classes that the reference converter takes."""
    tree = ast.parse((root / "conversion/__init__.py").read_text(encoding="utf-8"))
    maps = [node for node in tree.body if isinstance(node, ast.AnnAssign) and node.target.id in ("TEXT_MODEL_MAP", "MMPROJ_MODEL_MAP")]
    return {name for node in maps for name in ast.literal_eval(node.value)}


def flat(name):
    return re.sub("[-_]", "", name).lower()


def named_by(names):
    """The model types whose models have one of these names: by the tables of transformers, and by the packages that define such a class."""
    found = set()
    for table in (value for name, value in vars(modeling_auto).items() if name.endswith("_NAMES") and isinstance(value, dict)):
        for kind, models in table.items():
            if names & set([models] if isinstance(models, str) else models):
                found.add(kind)
    # Remote code often has a class of its own for a model type that transformers knows: PhiMoEForCausalLM, MPTForCausalLM, Qwen2_5OmniModel.
    stems = {flat(re.sub("(For[A-Z][A-Za-z]*|LMHeadModel|Model)$", "", name)) for name in names}
    found |= {kind for kind in CONFIG_MAPPING_NAMES if flat(kind) in stems}
    packages = set()
    for path in Path(transformers.__file__).parent.glob("models/*/modeling_*.py"):
        if names & set(re.findall(r"^class (\w+)\(", path.read_text(encoding="utf-8"), re.M)):
            packages.add(path.parent.name)
    for kind in CONFIG_MAPPING_NAMES:
        # A package with several configurations has them for parts, which `parts` finds; its own is the one of its name.
        if kind not in found and kind.replace("-", "_") == model_type_to_module_name(kind) and model_type_to_module_name(kind) in packages:
            found.add(kind)
    return found


def plain(value):
    """A value as JSON has it, where a configuration within is only named."""
    if isinstance(value, transformers.PretrainedConfig):
        value = value.to_dict()
    if isinstance(value, dict):
        if value.get("model_type"):
            return {"model_type": value["model_type"]}
        # One without a model type is a group of values of this class: MPT's attn_config.
        group = "model_type" in value
        return {str(name): plain(entry) for name, entry in value.items() if not group or name not in LEFT_OUT and (name not in BASE or entry != BASE[name])}
    return [plain(entry) for entry in value] if isinstance(value, (list, tuple, set)) else value


def finite(value):
    return all(map(finite, value)) if isinstance(value, list) else not isinstance(value, float) or math.isfinite(value)


def values(configuration, **arguments):
    """The values of a configuration. Numbers that JSON does not have are left out: the limits of Mamba's time steps, which no file has."""
    found = {name: plain(value) for name, value in configuration(**arguments).to_dict().items() if name not in LEFT_OUT}
    return {name: value for name, value in found.items() if finite(value)}


def is_made(configuration):
    """Whether the class makes a configuration without arguments: that of an assistant of Gemma 4 contradicts itself."""
    try:
        configuration()
    except Exception:
        return False
    return True


def parts(configuration):
    """The configurations within one, by the class that it declares and by what it has by default."""
    classes = dict(getattr(configuration, "sub_configs", {}))
    instance = configuration()
    classes.update({name: type(value) for name, value in vars(instance).items() if isinstance(value, transformers.PretrainedConfig)})
    return {name: part for name, part in classes.items() if part.model_type}


def computed(configuration, known):
    """The values that change with another one, and with which."""
    found = {}
    for name, value in known.items():
        others = [not value] if isinstance(value, bool) else [value * 2, value * 3] if isinstance(value, (int, float)) else []
        for other in others:
            try:
                changed = values(configuration, **{name: other})
            except Exception:
                continue
            for place, result in changed.items():
                if place != name and result != known.get(place):
                    found.setdefault(place, set()).add(name)
    return {place: sorted(by) for place, by in sorted(found.items())}


def constructor(configuration):
    """The defaults of the constructor."""
    owner = next(base for base in configuration.__mro__ if "__init__" in base.__dict__)
    return {name: plain(parameter.default) for name, parameter in inspect.signature(owner.__init__).parameters.items() if parameter.default is not parameter.empty}


def line(entries):
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)}" for name, value in sorted(entries.items())) + "\n }"


def main(root, out):
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    classes = {kind: CONFIG_MAPPING[kind] for kind in CONFIG_MAPPING_NAMES if is_made(CONFIG_MAPPING[kind])}
    chosen = {kind: classes[kind] for kind in named_by(registered(root) | OWN) if kind in classes}
    # A model of several parts is converted by the class of its text part, whatever the whole is called.
    for kind, configuration in classes.items():
        try:
            text = parts(configuration).get("text_config")
        except Exception:
            continue
        if text is not None and text.model_type in chosen:
            chosen[kind] = configuration
    while True:
        within = {part.model_type: part for configuration in chosen.values() for part in parts(configuration).values()}
        new = {kind: part for kind, part in within.items() if kind not in chosen and part is not transformers.AutoConfig and is_made(part)}
        if not new:
            break
        chosen.update(new)
    # A configuration within may be called by another name than its class says.
    chosen.update((kind, configuration) for kind, configuration in classes.items() if configuration in set(chosen.values()))
    base = values(transformers.PretrainedConfig)
    defaults, derived, aliases = {}, {}, {}
    for kind, configuration in chosen.items():
        known, given = values(configuration), constructor(configuration)
        follows = computed(configuration, known)
        own = {name: value for name, value in known.items() if name not in base or value != base[name]}
        defaults[kind] = {name: value for name, value in own.items() if name not in follows or value is not None and value == given.get(name)}
        if follows:
            derived[kind] = follows
        if configuration.attribute_map:
            aliases[kind] = configuration.attribute_map
    within = {}
    for kind, configuration in sorted(chosen.items()):
        for name, part in parts(configuration).items():
            if part is not transformers.AutoConfig and chosen.get(part.model_type) is not part:
                known = values(part)
                within[f"{kind}.{name}"] = {name: value for name, value in known.items() if name not in base or value != base[name]}
    with open(out, "w", encoding="utf-8", newline="\n") as file:
        file.write(
            '{\n "schema": "ggmill.transformers-defaults/1",\n "source": "transformers ' + transformers.__version__ + '",\n'
            + f' "base": {json.dumps(base, sort_keys=True)},\n "defaults": {line(defaults)},\n "computed": {line(derived)},\n "aliases": {line(aliases)},\n "parts": {line(within)}\n' + "}\n"
        )
    print(f"{len(defaults)} model types, {len(derived)} with values that follow from others, {len(aliases)} with aliases: {out}")


main(Path(sys.argv[1]), sys.argv[2])
