//! Seeds of the targets that read text.

use std::fs;
use std::path::Path;

/// The length of the longest description among the seeds: the smoke run truncates inputs at twice
/// that.
const LONGEST: usize = 3000;

const CONFIG: &str = r#"{"architectures": ["LlamaForCausalLM"], "vocab_size": 8, "num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 2,
"num_key_value_heads": 1, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 64, "tie_word_embeddings": false}"#;

const MIXTRAL: &str = r#"{"architectures": ["MixtralForCausalLM"], "vocab_size": 8, "num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 4, "num_attention_heads": 2,
"num_key_value_heads": 2, "num_local_experts": 2, "num_experts_per_tok": 1, "rms_norm_eps": 1e-5}"#;

const ROPE: &str = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 8, "num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 4,
"num_attention_heads": 2, "rms_norm_eps": 1e-5, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
"original_max_position_embeddings": 8192}}"#;

const SMALL: &str = r#"schema = "ggmill.architecture/1"
name = "small"
title = "Small"
[[checkpoint]]
classes = ["SmallForCausalLM"]
[parameters]
n = { type = "int", from = ["n"] }
width = { type = "int", from = ["width"], default = "max(2 * n, 16) + min(n, 3) - n % 2" }
list = { type = "[int]", from = ["list"], default = "[n, 2, 3]" }
flag = { type = "bool", default = "n > 2 and not (width == 8 or width != 9)" }
[keys]
"block_count" = { type = "u32", value = "n" }
"feed_forward_length" = { type = "[i32]", value = "list", when = "flag" }
"general.file_type" = { type = "u32" }
[[tensors]]
for = "bid in 0..n"
[tensors.tensor]
"blk.{bid}.ssm_a" = { shape = ["width", 2], role = "ssm.a", keep_f32 = true, from = ["layers.{bid}.A_log"], operations = ["neg_exp"] }
"blk.{bid}.attn_qkv.weight" = { shape = ["n", "3 * n"], role = "attention.qkv", from = [{ names = ["h.{bid}.q", "h.{bid}.k", "h.{bid}.v"], operations = ["concat"] }] }
"blk.{bid}.attn_k.weight" = { shape = ["width", "n"], role = "attention.k", from = ["h.{bid}.kk"], operations = ["permute(2)", "reshape(width, n)"] }
"#;

/// The short built-in descriptions, and one that uses every feature, each with a configuration.
pub(super) fn descriptions() -> Vec<(String, Vec<u8>)> {
    let with = |text: &str, config: &str| [text.as_bytes(), b"\0", config.as_bytes()].concat();
    let mut seeds =
        vec![("small".to_owned(), with(SMALL, r#"{"n": 3, "width": 8, "list": [1, 2, 3]}"#))];
    let directory =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/ggmill-arch/data/architectures");
    for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let name = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
        if let Some((name, text)) =
            name.zip(fs::read_to_string(&path).ok().filter(|text| text.len() <= LONGEST))
        {
            seeds.push((name, with(&text, CONFIG)));
        }
    }
    seeds.sort();
    seeds
}

/// Sources of computation graphs: of every eighth architecture, and of those with most operations.
pub(super) fn programs() -> Vec<(String, Vec<u8>)> {
    let directory =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/ggmill-arch/data/architectures");
    let files = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .filter_map(|path| {
            let name = path.file_stem()?.to_str()?.to_owned();
            Some((name, fs::read(&path).ok()?))
        })
        .collect();
    files.sort();
    let most = ["deepseek4", "gemma3n", "qwen4exp", "rwkv7", "t5"];
    files
        .into_iter()
        .enumerate()
        .filter(|(number, (name, _))| number % 8 == 0 || most.contains(&&**name))
        .map(|(_, (name, source))| {
            let seed = [name.as_bytes(), b"\0", &source].concat();
            (name, seed)
        })
        .collect()
}

/// The steps of graphs: for each operation set one with all of its operations, and one minimal
/// graph.
pub(super) fn graphs() -> Vec<(String, Vec<u8>)> {
    named(&[
        ("all", include_str!("graph.txt")),
        ("set-2", include_str!("graph-2.txt")),
        ("set-3", include_str!("graph-3.txt")),
        ("set-4", include_str!("graph-4.txt")),
        ("set-5", include_str!("graph-5.txt")),
        ("set-6", include_str!("graph-6.txt")),
        ("set-6-hashes", include_str!("graph-6-hashes.txt")),
        ("small", "x = rows('t_8x9', tokens)\nlogits = linear('o_8x9', x)\n"),
    ])
}

/// The configuration of an adapter.
const ADAPTER: &str = r#"{"peft_type": "LORA", "r": 2, "lora_alpha": 4.0, "fan_in_fan_out": false, "use_rslora": true,
    "use_dora": false, "alpha_pattern": {"q_proj": 8}, "alora_invocation_tokens": [5, 6], "invocation_string": "go"}"#;

pub(super) fn configurations() -> Vec<(String, Vec<u8>)> {
    let mut seeds = named(&[("llama", CONFIG), ("mixtral", MIXTRAL), ("rope", ROPE)]);
    let adapter = [CONFIG.as_bytes(), b"\0", ADAPTER.as_bytes()].concat();
    seeds.push(("adapter".to_owned(), adapter));
    seeds
}

/// Configurations of a class without a description, with tensor names.
pub(super) fn unknown_classes() -> Vec<(String, Vec<u8>)> {
    let names = "model.embed_tokens.weight\nmodel.norm.weight\nmodel.layers.0.mlp.up_proj.weight\n\
                 model.layers.0.self_attn.q_proj.weight\nmodel.gate.weight";
    let with = |config: &str| [config.as_bytes(), b"\0", names.as_bytes()].concat();
    let named_by = |member: &str| {
        with(&CONFIG.replacen(r#""architectures": ["LlamaForCausalLM"]"#, member, 1))
    };
    vec![
        ("class".to_owned(), named_by(r#""architectures": ["NewForCausalLM"]"#)),
        ("model_type".to_owned(), named_by(r#""model_type": "new""#)),
        ("nothing_else".to_owned(), with(r#"{"architectures": ["\u001b]\"\\New\u009b"]}"#)),
    ]
}

pub(super) fn file_names() -> Vec<(String, Vec<u8>)> {
    named(&[
        ("experts", "Mixtral-8x7B-v0.1-KQ2.gguf"),
        ("shard", "Grok-100B-v1.0-Q4_0-00003-of-00009.gguf"),
        ("attributes", "Phi-3-mini-3.8B-ContextLength4k-instruct-v1.0.gguf"),
        ("sidecar", "mmproj-Tiny-1K-tuned-v1.0-F16-LoRA.gguf"),
        ("none", "not-a-known-arrangement.gguf"),
    ])
}

pub(super) fn locations() -> Vec<(String, Vec<u8>)> {
    named(&[
        ("web", "https://Example.com:443/a b/m-00001-of-00002.gguf?X-Amz-Signature=1#x"),
        ("hub", "hf://datasets/a/b@refs/pr/3/d/m.gguf"),
        ("branch", "hf://a/b@dev%2Fx/m.gguf"),
        ("page", "https://huggingface.co/a/b/blob/main/x%20y/m.gguf?download=true"),
        ("s3", "s3://bucket/k e/y.gguf"),
        (
            "profiles",
            "[default]\nregion=r\n[profile a]\ncredential_process = x\0[a]\n\
             aws_access_key_id = K\naws_secret_access_key = S\naws_session_token = T\n",
        ),
        (
            "process",
            "{\"Version\":1,\"AccessKeyId\":\"K\",\"SecretAccessKey\":\"S\",\"SessionToken\":\"T\"}",
        ),
    ])
}

pub(super) fn manifests() -> Vec<(String, Vec<u8>)> {
    named(&[
        (
            "both",
            "xxh64     f66e9cd66a4396a0  models/test.gguf:output.weight\nxxh64     \
             5a54d3aad816f302  models/test.gguf\n",
        ),
        (
            "sha",
            "sha256    ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.gguf  \
             -  Ok\nsha1  00  a.gguf  -  Mismatch\n",
        ),
        ("twice", "xxh64 00 a.gguf:b\nxxh64 01 a.gguf:b\nuuid x a.gguf\n"),
    ])
}

pub(super) fn earlier_indexes() -> Vec<(String, Vec<u8>)> {
    let file = |path: &str, rest: &str| {
        format!(
            "{{\"record\":\"file\",\"path\":\"{path}\",\"size\":4,\"modified\":\"1970-01-01T00:00:00.000004Z\",{rest}}}\n"
        )
    };
    let entry = "{\"record\":\"metadata\",\"path\":\"a\",\"position\":0}\n";
    let tensor = "{\"record\":\"tensor\",\"path\":\"a\",\"position\":0}\n";
    let whole = file("a", "\"error\":null,\"tensor_count\":1,\"metadata_count\":1");
    let none = file("b", "\"error\":null,\"tensor_count\":0,\"metadata_count\":0");
    let broken = file("a", "\"error\":\"x\",\"tensor_count\":1,\"metadata_count\":1");
    [
        ("columns", include_str!("index.ndjson").to_owned()),
        ("whole", [&*whole, entry, tensor, &none].concat()),
        ("broken", [&*none, &broken, entry, tensor].concat()),
        ("cut", [&*whole, entry].concat()),
        ("twice", [&*none, &*none, &none].concat()),
    ]
    .into_iter()
    .map(|(name, text)| (name.to_owned(), text.into_bytes()))
    .collect()
}

pub(super) fn requests() -> Vec<(String, Vec<u8>)> {
    named(&[
        ("page", "GET /0123/ HTTP/1.1\r\nHost: localhost:8000\r\nAccept: */*\r\n\r\n"),
        ("part", "GET /0123/model/a.gguf HTTP/1.1\r\nhost:127.0.0.1\r\nRange: bytes=2-5\r\n\r\n"),
        ("end", "HEAD /a%20b?c#d HTTP/1.0\r\nRange: bytes=-3\r\n\r\n"),
        ("twice", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    ])
}

pub(super) fn indexes() -> Vec<(String, Vec<u8>)> {
    named(&[
        (
            "right",
            r#"{"metadata": {"total_size": 8}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}"#,
        ),
        ("elsewhere", r#"{"weight_map": {"a": "../1.safetensors", "b": "2.safetensors"}}"#),
        ("missing", r#"{"weight_map": {"a": "1.safetensors", "c": "3.safetensors"}}"#),
    ])
}

pub(super) fn type_plans() -> Vec<(String, Vec<u8>)> {
    named(&[
        (
            "one",
            r#"{"schema": "ggmill.plan/1", "tensors": [{"name": "output.weight", "type": "Q6_K"}, {"name": {"bytes_hex": "ff00"}, "type": "F32"}]}"#,
        ),
        (
            "set",
            r#"{"schema": "ggmill.plans/1", "plans": [{"tensors": [{"name": "a", "type": "Q4_K"}]}, {"tensors": [{"name": "b", "type": "Q8_0"}]}]}"#,
        ),
    ])
}

pub(super) fn scores() -> Vec<(String, Vec<u8>)> {
    named(&[
        (
            "alone",
            r#"{"schema": "ggmill.scores/1", "base": null, "context": 4, "models": [{"file": "m.gguf", "first_chunk": 1, "chunks": 2, "surprise": [0.5, 1.25]}]}"#,
        ),
        (
            "compared",
            r#"{"schema": "ggmill.scores/1", "base": "b.gguf", "context": 4, "models": [{"file": "m.gguf", "first_chunk": 0, "chunks": 1, "surprise": [0.5], "base": {"surprise": [0.25], "divergence": [1e-3], "same_top": [true]}}]}"#,
        ),
        (
            "embeddings",
            r#"{"schema": "ggmill.scores/1", "base": "b.gguf", "context": 4, "models": [{"file": "m.gguf", "first_chunk": 0, "chunks": 1, "cosine": [1.0, 0.5, 0.75, 1.0]}]}"#,
        ),
    ])
}

/// The templates of the tests, line by line, and templates that exceed limits.
pub(super) fn templates() -> Vec<(String, Vec<u8>)> {
    let directory =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/ggmill-template/tests/templates");
    let mut seeds = named(&[
        (
            "doubled",
            "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        ),
        ("recursive", "{% macro m(x) %}{{ m([x]) ~ x }}{% endmacro %}{{ m(1) }}"),
        ("wide", "{{ '%0999999999d' % 1 }}{{ '{:>999999999}'.format('x') }}{{ 'x' * 10 ** 9 }}"),
        (
            "endless",
            "{% for i in range(100000) %}{% for j in range(100000) %}{{ i }}{% endfor %}{% endfor %}",
        ),
        (
            "loops",
            "{% for m in messages recursive %}{{ loop.cycle(1, 2) }}{{ loop.changed(loop) }}{{ loop([]) }}{% endfor %}",
        ),
        (
            "file",
            r#"{"bos_token": {"content": "<s>"}, "chat_template": [{"name": "default", "template": "{{ bos_token }}"}, {"name": "a b", "template": "x"}]}"#,
        ),
        (
            "conversation",
            r#"{"messages": [{"role": "user", "content": "a"}], "tools": [], "documents": null, "add_generation_prompt": true, "x": 1}"#,
        ),
        (
            "accesses",
            "{% set n = '__cl' ~ 'ass__' %}{{ ''[n] }}{{ '{0.__mro__}'.format(x)|attr('f_' ~ y) }}",
        ),
    ]);
    let mut files: Vec<_> =
        fs::read_dir(directory).into_iter().flatten().flatten().map(|file| file.path()).collect();
    files.sort();
    for path in files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (number, line) in text.lines().enumerate().filter(|(_, line)| line.len() > 20) {
            seeds.push((format!("{name}.{number}"), line.as_bytes().to_vec()));
        }
        if text.len() <= LONGEST {
            seeds.push((name, text.into_bytes()));
        }
    }
    seeds
}

pub(super) fn named(seeds: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    seeds.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
}
