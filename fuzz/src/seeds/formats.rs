//! Seeds of the targets that read formats other than GGUF: small complete files.

use std::fs;

use ggmill_core::Endian;
use ggmill_testdata::bytes::{FileBytes, Value};
use ggmill_testdata::real;

fn file() -> FileBytes {
    FileBytes::new(3, Endian::Little)
}

/// Two entries: one is a stack of two matrices, one of which was never used.
pub(super) fn imatrices() -> Vec<(String, Vec<u8>)> {
    let mut gguf = FileBytes::v3(4, 4);
    gguf.pair("general.type", &"imatrix".into())
        .pair("imatrix.datasets", &Value::Array(8, vec!["one.txt".into(), "two.txt".into()]));
    gguf.pair("imatrix.chunk_count", &Value::U32(7)).pair("imatrix.chunk_size", &Value::U32(512));
    gguf.tensor("a.in_sum2", &[3], 0, 0)
        .tensor("a.counts", &[1], 0, 32)
        .tensor("b.in_sum2", &[2, 2], 0, 64)
        .tensor("b.counts", &[1, 2], 0, 96)
        .pad(32);
    for numbers in [&[1.0, 0.5, 7.0][..], &[96.0], &[1.0, 2.0, 3.0, 4.0], &[0.0, 96.0]] {
        for &number in numbers {
            gguf.f32(number);
        }
        gguf.pad(32);
    }
    let mut legacy = file();
    legacy
        .i32(2)
        .i32(1)
        .raw(b"a")
        .i32(5)
        .i32(3)
        .f32(1.0)
        .f32(0.5)
        .f32(7.0)
        .i32(1)
        .raw(b"b")
        .i32(0)
        .i32(1)
        .f32(2.0);
    legacy.i32(7).i32(7).raw(b"one.txt");
    vec![("gguf".to_owned(), gguf.into_bytes()), ("legacy".to_owned(), legacy.into_bytes())]
}

/// A LLaMA model of one block in each container, and vocabularies without a model in the others.
pub(super) fn legacy() -> Vec<(String, Vec<u8>)> {
    let llama = |magic: &[u8; 4], version: Option<u32>, type_id: u32, block: &[u8]| {
        let mut file = file();
        file.raw(magic);
        version.map(|version| file.u32(version));
        for parameter in [3, 32, 32, 2, 1, 16, 1] {
            file.u32(parameter);
        }
        for token in [b"a", b"b", b"c"] {
            file.u32(1).raw(token);
            if magic != b"lmgg" {
                file.f32(-1.0);
            }
        }
        let mut tensor = |name: &str, rows: Option<u32>| {
            let type_id = if rows.is_some() { type_id } else { 0 };
            file.u32(1 + u32::from(rows.is_some()))
                .u32(u32::try_from(name.len()).expect("short"))
                .u32(type_id)
                .u32(32);
            rows.map(|rows| file.u32(rows));
            file.raw(name.as_bytes());
            if magic == b"tjgg" {
                file.pad(32);
            }
            for _ in 0..rows.unwrap_or(1) {
                file.raw(if rows.is_some() { block } else { &[0; 128] });
            }
        };
        tensor("tok_embeddings.weight", Some(3));
        tensor("norm.weight", None);
        tensor("output.weight", Some(3));
        for (part, rows) in
            [("attention.wq", 32), ("attention.wk", 32), ("attention.wv", 32), ("attention.wo", 32)]
        {
            tensor(&format!("layers.0.{part}.weight"), Some(rows));
        }
        for part in ["feed_forward.w1", "feed_forward.w2", "feed_forward.w3"] {
            tensor(&format!("layers.0.{part}.weight"), Some(32));
        }
        tensor("layers.0.attention_norm.weight", None);
        tensor("layers.0.ffn_norm.weight", None);
        file.into_bytes()
    };
    let mut rwkv = file();
    rwkv.raw(b"fmgg").u32(101).u32(3).u32(4).u32(1).u32(1);
    rwkv.u32(1).u32(1).u32(0).u32(2).raw(b"a").raw(&[0; 8]);
    let mut whisper = file();
    whisper.raw(b"lmgg");
    for parameter in [3, 1500, 4, 1, 1, 448, 4, 1, 1, 80, 1, 0, 201, 1] {
        whisper.u32(parameter);
    }
    whisper.u32(1).raw(b"a");
    vec![
        ("ggml".to_owned(), llama(b"lmgg", None, 1, &[0; 64])),
        ("ggmf".to_owned(), llama(b"fmgg", Some(1), 2, &[0; 20])),
        ("ggjt1".to_owned(), llama(b"tjgg", Some(1), 6, &[0; 22])),
        ("ggjt2".to_owned(), llama(b"tjgg", Some(2), 3, &[0; 24])),
        ("ggjt3".to_owned(), llama(b"tjgg", Some(3), 2, &[0; 18])),
        ("rwkv".to_owned(), rwkv.into_bytes()),
        ("whisper".to_owned(), whisper.into_bytes()),
    ]
}

pub(super) fn npy() -> Vec<(String, Vec<u8>)> {
    let array = |version: u8, text: &str, data: usize| {
        let mut file = file();
        file.raw(b"\x93NUMPY").u8(version).u8(0);
        let len = u16::try_from(text.len()).expect("short");
        if version == 1 {
            file.u16(len)
        } else {
            file.u32(len.into())
        };
        file.raw(text.as_bytes()).raw(&vec![1; data]);
        file.into_bytes()
    };
    vec![
        (
            "f4".to_owned(),
            array(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24),
        ),
        (
            "i2".to_owned(),
            array(2, "{'descr': '<i2', 'fortran_order': True, 'shape': (5,), }\n", 10),
        ),
        (
            "u1".to_owned(),
            array(3, "{\"descr\": \"|u1\", \"fortran_order\": False, \"shape\": (2L, 34)}", 68),
        ),
    ]
}

pub(super) fn safetensors() -> Vec<(String, Vec<u8>)> {
    let with = |header: &str, data: usize| {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![1; data]].concat()
    };
    let two = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[3,1],"data_offsets":[8,14]}}"#;
    let raw = r#"{"__metadata__":{"ggmill.raw":"{\"a\":{\"type\":\"Q8_0\",\"shape\":[32]}}"},"a":{"dtype":"U8","shape":[34],"data_offsets":[0,34]}}"#;
    vec![("two".to_owned(), with(two, 14)), ("raw".to_owned(), with(raw, 34))]
}

/// Files that PyTorch wrote, and the pickles of those that are archives.
pub(super) fn torch() -> Vec<(String, Vec<u8>)> {
    let directory =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/ggmill-pipeline/tests/fixtures/torch");
    let names = ["attributes", "views", "types", "module", "protocol-4", "big-endian", "training"];
    let legacy = ["attributes-legacy", "views-legacy", "types-legacy"];
    let numbers = [4i32, 4, 1, 2, 1, 3, 2];
    let mut model: Vec<u8> = numbers.into_iter().flat_map(i32::to_le_bytes).collect();
    model.resize(28 + 4 * (12 + 4 + 16 + 8 + 8 + 16 + 4 + 16 + 16 + 16 + 4 + 2 + 2), 1);
    let mut seeds = vec![("llama2c".to_owned(), model)];
    for name in names.into_iter().chain(legacy) {
        let Ok(bytes) = fs::read(format!("{directory}/{name}.pt")) else { continue };
        let at = |word: &[u8]| bytes.windows(word.len()).position(|window| window == word);
        let pickle = at(b"\x80").zip(at(b".PK"));
        if let Some(pickle) = pickle.and_then(|(start, end)| bytes.get(start..=end)) {
            seeds.push((format!("{name}.pkl"), pickle.to_vec()));
        }
        seeds.push((name.to_owned(), bytes));
    }
    seeds
}

/// A file whose header grows within its padding, and the journal of that edit, whose checksums the
/// target fills in.
pub(super) fn journals() -> Vec<(String, Vec<u8>)> {
    let mut model = FileBytes::v3(1, 1);
    model.pair("general.alignment", &Value::U32(32)).tensor("a", &[4], 0, 0).pad(32).raw(&[7; 16]);
    let model = model.into_bytes();
    let header = model.len() - 16;
    [(0u64, "in-place"), (64, "inserted")]
        .into_iter()
        .map(|(grow, name)| {
            let mut journal = file();
            journal
                .raw(b"GGMILLJ1")
                .u64(model.len() as u64)
                .u64(grow)
                .u64(header as u64)
                .u64(0)
                .u64(0)
                .u64(0)
                .u64(0)
                .u64(header as u64 + grow);
            journal.raw(&model[..header]).raw(&vec![0; usize::try_from(grow).expect("small")]);
            let len = u16::try_from(model.len()).expect("small").to_le_bytes();
            (name.to_owned(), [&len, &*model, journal.as_bytes()].concat())
        })
        .collect()
}

/// The files of the bundled vocabulary, and of the cases that are compared with the reference.
pub(super) fn vocabularies() -> Vec<(String, Vec<u8>)> {
    const CASES: [(&str, &str, Option<u8>); 10] = [
        (
            "spm-added",
            include_str!("../../../crates/ggmill-convert/tests/vocabularies/spm-added.json"),
            None,
        ),
        (
            "spm-processor",
            include_str!("../../../crates/ggmill-convert/tests/vocabularies/spm-processor.json"),
            None,
        ),
        (
            "llama-hf",
            include_str!("../../../crates/ggmill-convert/tests/vocabularies/llama-hf.json"),
            None,
        ),
        (
            "gpt-2",
            include_str!("../../../crates/ggmill-convert/tests/vocabularies/gpt-2.json"),
            None,
        ),
        (
            "wordpiece",
            include_str!("../../../crates/ggmill-convert/tests/vocabularies/wordpiece.json"),
            Some(0),
        ),
        (
            "unigram",
            include_str!("../../../crates/ggmill-convert/tests/vocabularies/unigram.json"),
            Some(1),
        ),
        (
            "fairseq-unigram-json",
            include_str!(
                "../../../crates/ggmill-convert/tests/vocabularies/fairseq-unigram-json.json"
            ),
            Some(2),
        ),
        (
            "tekken-v11",
            include_str!("../../../crates/ggmill-convert/tests/vocabularies/tekken-v11.json"),
            Some(3),
        ),
        (
            "ranks",
            include_str!("../../../crates/ggmill-convert/tests/vocabularies/ranks.json"),
            Some(5),
        ),
        (
            "world",
            include_str!("../../../crates/ggmill-convert/tests/vocabularies/world.json"),
            Some(6),
        ),
    ];
    let model = fs::read(real("tinystories260K/tokenizer.model")).unwrap_or_default();
    let mut seeds = vec![("tokenizer-model".to_owned(), [&[0], &model[..]].concat())];
    // As many tokens as the model has.
    let token = |id: u32| {
        let text = format!("a {id}");
        let len = u32::try_from(text.len()).unwrap_or_default();
        [&(-1.0f32).to_le_bytes()[..], &len.to_le_bytes(), text.as_bytes()].concat()
    };
    let tokens = (0..600).map(token);
    let list = [[0; 4].to_vec()].into_iter().chain(tokens).collect::<Vec<_>>().concat();
    let described =
        [&[crate::vocabulary::DESCRIPTION, 6][..], crate::vocabulary::SEPARATOR].concat();
    seeds.push(("llama2c".to_owned(), [&*described, &[15], &list].concat()));
    for (name, case, described) in CASES {
        let case: serde_json::Value = serde_json::from_str(case).unwrap_or_default();
        let mut seed = Vec::new();
        if let Some(number) = described {
            seed.extend([crate::vocabulary::DESCRIPTION, number]);
            seed.extend_from_slice(crate::vocabulary::SEPARATOR);
        }
        for (number, file) in crate::vocabulary::FILES.into_iter().enumerate() {
            let content = match &case["files"][file] {
                serde_json::Value::Null => continue,
                serde_json::Value::String(text) if text.starts_with('@') => model.clone(),
                serde_json::Value::String(text) => text.clone().into_bytes(),
                json => json.to_string().into_bytes(),
            };
            seed.extend([&[u8::try_from(number).unwrap_or_default()], &content[..]].concat());
            seed.extend_from_slice(crate::vocabulary::SEPARATOR);
        }
        seeds.push((name.to_owned(), seed));
    }
    seeds
}

/// A file of a small model with a vocabulary, of every kind that converts back.
pub(super) fn restorable() -> Vec<(String, Vec<u8>)> {
    use ggmill_core::{Builder, GgmlType, MetadataBuf, Shape};
    let model = |kind: &str, pre: &str, tokens: [&str; 6]| {
        let mut metadata = MetadataBuf::new();
        metadata.set("general.architecture", "llama");
        for (key, value) in [
            ("block_count", 1u32),
            ("context_length", 32),
            ("embedding_length", 8),
            ("feed_forward_length", 8),
            ("attention.head_count", 2),
            ("attention.head_count_kv", 1),
            ("attention.key_length", 4),
            ("attention.value_length", 4),
            ("vocab_size", 6),
            ("rope.dimension_count", 4),
        ] {
            metadata.set(format!("llama.{key}"), value);
        }
        metadata.set("llama.rope.freq_base", 1e4f32);
        metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-6f32);
        metadata.set("tokenizer.ggml.model", kind);
        metadata.set("tokenizer.ggml.pre", pre);
        metadata.set("tokenizer.ggml.tokens", tokens.map(str::to_owned).to_vec());
        metadata.set("tokenizer.ggml.scores", vec![0.0f32, -1.0, -2.0, -3.0, -4.0, -1000.0]);
        metadata.set("tokenizer.ggml.token_type", vec![2i32, 3, 1, 1, 6, 4]);
        metadata.set("tokenizer.ggml.merges", vec!["a b".to_owned()]);
        metadata.set("tokenizer.ggml.bos_token_id", 1u32);
        let mut builder = Builder::new().metadata(metadata);
        for (name, shape) in [
            ("token_embd.weight", &[8, 6][..]),
            ("output_norm.weight", &[8]),
            ("blk.0.attn_norm.weight", &[8]),
            ("blk.0.attn_q.weight", &[8, 8]),
            ("blk.0.attn_k.weight", &[8, 4]),
            ("blk.0.attn_v.weight", &[8, 4]),
            ("blk.0.attn_output.weight", &[8, 8]),
            ("blk.0.ffn_norm.weight", &[8]),
            ("blk.0.ffn_gate.weight", &[8, 8]),
            ("blk.0.ffn_down.weight", &[8, 8]),
            ("blk.0.ffn_up.weight", &[8, 8]),
        ] {
            let shape = Shape::new(shape).expect("a shape");
            builder = builder.tensor(name, GgmlType::F16, shape);
        }
        let plan = builder.plan().expect("a file");
        let mut file = plan.header().to_vec();
        file.resize(usize::try_from(plan.total_len()).expect("a small file"), 0);
        file
    };
    let pieces = ["<unk>", "<s>", "\u{2581}a", "b", "<0x0A>", "<x>"];
    let words = ["[UNK]", "[CLS]", "a", "b", "ab", "[SEP]"];
    [
        ("llama", "default", pieces),
        ("gpt2", "gpt-2", words),
        ("bert", "jina-v2-en", words),
        ("t5", "default", pieces),
    ]
    .into_iter()
    .map(|(kind, pre, tokens)| (kind.to_owned(), model(kind, pre, tokens)))
    .collect()
}
