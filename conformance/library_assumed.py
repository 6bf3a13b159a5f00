"""Writes which values of a setting a converted file computes with, from the tables of library.py.

    python library_assumed.py OUT.json TABLE.tsv...

OUT is crates/ggmill-arch/data/settings.json. A table has cases with one setting changed each, converted with --assume-defaults where the file cannot express the value. A setting is
listed for a model type if some value of it is wrong; the values that are listed with it are those of the cases that are exact or near, and that of the default if the class is right
by default. Settings that descriptions handle themselves, because it depends on more than their value, are left out. What OUT lists for other settings stays. Activations need no case:
no description but that of ModernBERT reads one, so that the default is the only one of a class that is right by default. Needs transformers 5.24.0 and torch.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

# Descriptions read these, or refuse them by a condition on other settings.
DESCRIBED = re.compile(r"^\(|^\.|^rope_|^layer_types$|^layer_rope_theta$|window|^no_rope|^head_dim$|^num_(attention|key_value|kv)|^n_head$|^num_labels$|^query_pre_attn|^scale_attn_by|softcapping$|^is_gated_act$|^dense_act_fn$|^rescale_every$|^tie_word_embeddings$|eps(ilon)?$|_types$|per_layer")
# What counts depends on the class, or on a size.
DEPENDENT = {("llama4_text", "use_qk_norm"), ("gemma3_text", "use_bidirectional_attention"), ("gemma", "use_bidirectional_attention")}
TRUE = {"exact", "near", "no effect"}
ACTIVATION = re.compile(r"(^|_)(act|activation|activation_function)$")
READS_ACTIVATION = {"modernbert"}
# Other names of the same function.
SAME = [["silu", "swish"], ["gelu", "gelu_python"], ["gelu_new", "gelu_pytorch_tanh", "gelu_accurate", "gelu_fast"]]


def with_same(values: list) -> list:
    more = [name for group in SAME for name in group if any(value in group for value in values)]
    return values + [name for name in more if name not in values]


def of_numbers(values: list) -> list:
    return [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]


def numbers(values: list, wrong: list) -> list:
    """Replaces several numbers by the word for all of them if none is wrong: the file has the value."""
    found = of_numbers(values)
    return values if len(found) < 2 or of_numbers(wrong) else [value for value in values if value not in found] + [{"type": "number"}]


def rows(paths: list[str]):
    for path in paths:
        for line in Path(path).read_text(encoding="utf-8").splitlines()[1:]:
            name, setting, value, result = line.split("\t")[:4]
            yield name, setting, value, result


def activations(model_type: str, config) -> dict[str, list]:
    """Returns the activations of a configuration with their other names."""
    import library_models as models

    known = models.fields(config).items()
    chosen = {name: value for name, value in known if ACTIVATION.search(name) and isinstance(value, str)}
    # The two formulas of GELU are near each other.
    gelu = with_same(["gelu", "gelu_new"])
    return {name: gelu if value in gelu else with_same([value]) for name, value in chosen.items() if model_type not in READS_ACTIVATION}


def main(out: str, tables: list[str]) -> None:
    import transformers

    import library_models as models
    import library_settings as settings

    transformers.logging.set_verbosity(50)
    cases = defaultdict(lambda: defaultdict(dict))
    right = {}
    for name, setting, value, result in rows(tables):
        if not setting:
            # A class of a later table replaces what an earlier one has.
            right[name] = result
            cases.pop(name, None)
        elif not DESCRIBED.search(setting):
            cases[name][setting][value] = result
    accepted, wrong = defaultdict(lambda: defaultdict(set)), defaultdict(lambda: defaultdict(set))
    for name, of_class in cases.items():
        family = models.Family(name)
        config = models.at(family.config(), family.path)
        for setting, values in of_class.items():
            default = settings.shown(models.fields(config).get(setting))
            found = values | ({default: right[name]} if right.get(name) else {})
            if setting in models.SIZES or (config.model_type, setting) in DEPENDENT or not any(result in TRUE for result in found.values()):
                continue
            for value, result in found.items():
                # A number may have no effect on this small model alone.
                is_chance = result == "no effect" and re.fullmatch(r"[-+.\de]+", value)
                if result in TRUE | {"wrong"} and not is_chance:
                    (accepted if result in TRUE else wrong)[config.model_type][setting].add(value)
    found = json.loads(Path(out).read_text(encoding="utf-8"))["settings"] if Path(out).exists() else {}
    for name, result in right.items():
        if result in TRUE:
            config = models.at(models.Family(name).config(), models.Family(name).path)
            known = found.get(config.model_type, {})
            if usual := activations(config.model_type, config) | known:
                found[config.model_type] = usual
    for model_type, of_type in sorted(wrong.items()):
        of_type = {name: sorted(accepted[model_type][name] - values) for name, values in sorted(of_type.items())}
        of_type = {name: numbers(with_same([json.loads(value) for value in values]), list(map(json.loads, wrong[model_type][name]))) for name, values in of_type.items() if values and "Infinity" not in "".join(values)}
        if of_type:
            found[model_type] = found.get(model_type, {}) | of_type
    found = {model_type: dict(sorted(of_type.items())) for model_type, of_type in sorted(found.items())}
    lines = [f"  {json.dumps(model_type)}: {json.dumps(of_type)}" for model_type, of_type in found.items()]
    text = f'{{\n "schema": "ggmill.settings/1",\n "source": "transformers {transformers.__version__}",\n "settings": {{\n' + ",\n".join(lines) + "\n }\n}\n"
    Path(out).write_text(text, encoding="utf-8")
    print(f"{len(found)} model types, {sum(map(len, found.values()))} settings: {out}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
