"""Prints what the reference makes of model cards, generation configurations and metadata overrides, for crates/ggmill-convert/tests/fixtures/authorship/cases.json.

    python authorship.py LLAMA_CPP
    python authorship.py LLAMA_CPP CHECKPOINT

LLAMA_CPP is the directory `vendor/llama.cpp` of the source archive of llama-cpp-python 0.3.36. Each case runs `Metadata.load` and `set_gguf_meta_model` as the
converter does (conversion/base.py, prepare_metadata) on a directory with these files. With the bundled
checkpoint (crates/ggmill-testdata/real/tinystories260K), the hashes of whole files of the converter, for files.sha256 beside it.
"""
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, sys.argv[1] + "/gguf-py")
import gguf  # noqa: E402

LLAMA = """---
language:
- en
- de
- no
library_name: transformers
pipeline_tag: text-generation
tags:
- facebook
- meta
- llama-3
license: llama3.2
extra_gated_prompt: >-
  ### LLAMA 3.2 COMMUNITY LICENSE AGREEMENT

  Llama 3.2 Version Release Date: September 25, 2024
extra_gated_fields:
  First Name: text
  Date of birth: date_picker
  Job title:
    type: select
    options:
      - Student
      - Other
  ? geo
  : ip_location
extra_gated_button_content: Submit
widget:
- example_title: Hello
  messages:
  - role: user
    content: "Hey my name is Julien! How are you?"
---

# Model
---
not: front matter
"""
MERGE = """---
base_model:
  - mistralai/Mistral-7B-Instruct-v0.2
  - https://huggingface.co/NousResearch/Hermes-2-Pro-Mistral-7B
  - https://huggingface.co/a/b/tree/main
  - https://example.org/model
  - ssh://git@host/model
  - local-model
  - name: Own Model
    author: Someone
    version: v3
    organization: Some Org
    description: what it is
    url: https://example.org
    doi: 10.1000/182
    uuid: 123e4567-e89b-12d3-a456-426614174000
    repo_url: https://example.org/repo
    other: ignored
  - A model with spaces
tags: [mergekit, merge]
license: apache-2.0
datasets:
- HuggingFaceH4/ultrachat_200k
- https://huggingface.co/datasets/x/y
- https://huggingface.co/Org-Name/some-data-v1.5
- {name: Data, repo_url: 'https://example.org/data'}
---
"""
BLOKE = """---
base_model: mistralai/Mistral-7B-Instruct-v0.2
inference: false
license: apache-2.0
model_creator: Mistral AI_
model_name: Mistral 7B Instruct v0.2
model_type: mistral
pipeline_tag: text-generation
prompt_template: '<s>[INST] {prompt} [/INST]

  '
quantized_by: TheBloke
---
"""
OWN = """---
name: First
model_name: Second
author: "An Author"
version: v1.5
organization: Org
description: |
  Several
  lines.
finetune: Chat
basename: Base
size_label: 7B
url: https://example.org/model
doi: 10.1000/182
uuid: 123e4567-e89b-12d3-a456-426614174000
repo_url: https://example.org/repo
license: other
license_name: own-licence
license_link: https://example.org/LICENSE
languages: [en]
language: fr
tags: one
dataset: single/dataset
---
"""
CASES = [
    ("llama", "Llama-3.2-1B-Instruct", 1235814400, {"card": LLAMA, "generation": '{"bos_token_id": 128000, "do_sample": true, "eos_token_id": [128001, 128008], "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.45.0.dev0"}'}),
    ("qwen", "Qwen2.5-0.5B-Instruct", 494032768, {"card": "---\nlicense: apache-2.0\nlicense_link: https://huggingface.co/Qwen/Qwen2.5-0.5B-Instruct/blob/main/LICENSE\nlanguage:\n- en\npipeline_tag: text-generation\nbase_model: Qwen/Qwen2.5-0.5B\ntags:\n- chat\nlibrary_name: transformers\n---\n", "generation": '{"repetition_penalty": 1.1, "temperature": 0.7, "top_p": 0.8, "top_k": 20}'}),
    ("merge", "merged", 7241732096, {"card": MERGE}),
    ("bloke", "Mistral-7B-Instruct-v0.2", 7241732096, {"card": BLOKE}),
    ("own", "directory", 260032, {"card": OWN, "config": {"_name_or_path": "org/Other-7B-v2"}}),
    ("tiny parameters", "Llama-3.2-1B-Instruct", 260032, {"card": MERGE}),
    ("name or path", "directory", 7241732096, {"config": {"_name_or_path": "mistralai/Mistral-7B-v0.1"}}),
    ("path", "directory-7B", 7241732096, {"config": {"_name_or_path": "/home/me/model"}}),
    ("empty path", "directory-7B", 7241732096, {"config": {"_name_or_path": ""}}),
    ("no card", "plain", 260032, {}),
    ("no front matter", "plain", 260032, {"card": "# A model\n---\nlicense: mit\n---\n"}),
    ("empty card", "plain", 260032, {"card": ""}),
    ("empty front matter", "plain", 260032, {"card": "---\n---\n"}),
    ("unclosed", "plain", 260032, {"card": "---\nlicense: mit\ntags:\n- a"}),
    ("crlf and tabs", "plain", 260032, {"card": "---\r\nlicense: mit\r\ntags:\r\n\t- a\r\n\t- b\r\n---\r\ntext\r\n"}),
    ("byte order mark", "plain", 260032, {"card": "\ufeff---\nlicense: mit\n---\n"}),
    ("licences", "plain", 260032, {"card": "---\nlicense:\n- mit\n- apache-2.0\n---\n"}),
    ("empty values", "plain-1B", 1000000000, {"card": "---\nlicense:\nname: ''\nauthor: ~\ntags: []\nlanguage:\nbase_model:\ndatasets: []\nversion: ''\nsize_label: ''\n---\n"}),
    ("false values", "plain-1B-v2", 1000000000, {"card": "---\nlicense: no\nversion: 0.0\norganization: false\nlanguage: no\ntags: 5\nbase_model: 7\nauthor: []\nfinetune: {}\n---\n"}),
    ("aliases", "plain", 260032, {"card": "---\nx: &x {author: Merged, license: mit}\n<<: *x\nlicense: apache-2.0\ntags: &t [a, b]\nlanguages: *t\n---\n"}),
    ("duplicates", "plain", 260032, {"card": "---\nlicense: mit\nlicense: apache-2.0\ntags: [a, a]\npipeline_tag: a\n---\n"}),
    ("typed text", "plain", 260032, {"card": "---\nversion: !!str 1.0\nlicense: \"no\"\nauthor: 'null'\ndescription: >\n  folded\n  text\n\n  more\nlicense_name: a # comment\nlicense_link: a#b\norganization: plain\n  continued\n---\n"}),
    ("unicode", "plain", 260032, {"card": "---\nauthor: \"Jos\\u00e9 \\U0001F600\"\norganization: 株式会社\ntags:\n- 日本語\n---\n"}),
    ("not a mapping", "plain", 260032, {"card": "---\n- a\n---\n"}),
    ("base models", "plain", 260032, {"card": "---\nbase_models: [a/b-7B-v1, '']\ndataset_sources: http://huggingface.co/a/b\n---\n"}),
    ("base null wins", "plain", 260032, {"card": "---\nbase_model:\nbase_models: [a/b]\n---\n"}),
    ("leading dot", "plain", 260032, {"card": "---\nbase_model: [./a, ../b, /c, d/]\n---\n"}),
    ("all sampling", "plain", 260032, {"generation": '{"mirostat_eta": 0.1, "mirostat_tau": 5, "mirostat": 2, "penalty_repeat": 1.3, "repetition_penalty": 1.1, "penalty_last_n": 64, "temperature": 1, "xtc_threshold": 0.15, "xtc_probability": 0.5, "min_p": 0.05, "top_p": 0.95, "top_k": 40, "sequence": "kt"}'}),
    ("null sampling", "plain", 260032, {"generation": '{"temperature": null, "penalty_repeat": null, "repetition_penalty": 1.1, "top_k": true, "top_p": 0.1}'}),
    ("bad sampling", "plain", 260032, {"generation": '{"temperature": '}),
    ("empty sampling", "plain", 260032, {"generation": '{}'}),
    ("override", "plain-1B", 1000000000, {"card": OWN, "generation": '{"temperature": 0.5, "top_k": 3}', "override": {
        "general.name": "Given", "general.author": "Giver", "general.version": "v9", "general.quantized_by": "Me", "general.license.name": "L", "general.license.link": None,
        "general.url": "https://u", "general.doi": "d", "general.uuid": "u", "general.repo_url": "r", "general.source.url": "su", "general.source.doi": None, "general.source.uuid": "", "general.source.repo_url": "sr",
        "general.tags": ["x", "y"], "general.languages": None, "general.sampling.temp": 0.25, "general.sampling.top_k": None, "general.sampling.mirostat": 1,
        "general.base_models": [{"name": "B", "doi": "D", "z": 1}, {}], "general.datasets": [], "unknown.key": 4, "general.description": "D"}}),
    ("override without a name", "plain-1B", 1000000000, {"override": {"general.name": None, "general.size_label": None, "general.basename": None}}),
    ("a name asked for", "plain-1B", 1000000000, {"override": {"general.name": "Given"}, "name": "Asked"}),
]

# The cases of which the converter makes a whole file.
WHOLE = ["llama", "merge", "own", "override", "all sampling"]


def run(directory, parameters, files):
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / directory
        path.mkdir()
        if "card" in files:
            (path / "README.md").write_bytes(files["card"].encode())
        if "generation" in files:
            (path / "generation_config.json").write_text(files["generation"])
        (path / "config.json").write_text(json.dumps(files.get("config", {})))
        override = Path(root) / "override.json"
        if "override" in files:
            override.write_text(json.dumps(files["override"]))
        metadata = gguf.Metadata.load(override, path, files.get("name"), parameters)
        if metadata.name is None:
            metadata.name = path.name
        if metadata.size_label is None and parameters > 0:
            metadata.size_label = gguf.size_label(parameters, parameters, 0, 0)
        writer = gguf.GGUFWriter(None, "x")
        writer.kv_data[0].clear()
        metadata.set_gguf_meta_model(writer)
        for key, value in writer.kv_data[0].items():
            packed = writer._pack_val(value.value, value.type, add_vtype=True, sub_type=value.sub_type)
            yield [key, packed.hex()]


def listing():
    print("[")
    for number, (case, directory, parameters, files) in enumerate(CASES):
        label = gguf.size_label(parameters, parameters, 0, 0)
        entry = {"case": case, "directory": directory, "parameters": parameters, "label": label, **files}
        expected = ",\n".join("    " + json.dumps(pair) for pair in run(directory, parameters, files))
        text = json.dumps(entry, ensure_ascii=True)[:-1] + ', "expected": [' + ("\n" + expected if expected else "") + "]}"
        print(text + ("," if number + 1 < len(CASES) else ""))
    print("]")


def hashes(root, checkpoint):
    for case, directory, _, files in CASES:
        if case not in WHOLE:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / directory
            shutil.copytree(checkpoint, path)
            if "card" in files:
                (path / "README.md").write_bytes(files["card"].encode())
            if "generation" in files:
                (path / "generation_config.json").write_text(files["generation"])
            config = json.loads((path / "config.json").read_text())
            (path / "config.json").write_text(json.dumps({**config, **files.get("config", {})}))
            override = Path(scratch) / "override.json"
            override.write_text(json.dumps(files.get("override", {})))
            out = Path(scratch) / "out.gguf"
            script = [sys.executable, root + "/convert_hf_to_gguf.py", str(path), "--outfile", str(out), "--outtype", "f16", "--metadata", str(override)]
            subprocess.run(script, check=True, stderr=subprocess.DEVNULL)
            print(hashlib.sha256(out.read_bytes()).hexdigest(), case)


if len(sys.argv) > 2:
    hashes(sys.argv[1], sys.argv[2])
else:
    listing()
