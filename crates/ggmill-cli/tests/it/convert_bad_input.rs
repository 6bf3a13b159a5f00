//! Invalid checkpoints: each is rejected with the file, the tensor, and what was found and
//! expected, and no files remain.

use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::support::{Directory, Outcome, ggmill, real};

const UP: &str = "model.layers.0.mlp.up_proj.weight";

/// A copy of the checkpoint, which each case changes.
pub(crate) struct Copied {
    pub(crate) directory: Directory,
}

impl Copied {
    pub(crate) fn new() -> Self {
        let directory = Directory::new();
        fs::create_dir(directory.path().join("model")).unwrap();
        for entry in fs::read_dir(real("tinystories260K")).unwrap() {
            let from = entry.unwrap().path();
            fs::copy(&from, directory.path().join("model").join(from.file_name().unwrap()))
                .unwrap();
        }
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("model").join(name)
    }

    pub(crate) fn text(&self, name: &str, change: impl Fn(String) -> String) {
        let text = fs::read_to_string(self.path(name)).unwrap();
        fs::write(self.path(name), change(text)).unwrap();
    }

    pub(crate) fn json(&self, name: &str, change: impl Fn(&mut Value)) {
        let mut value: Value = serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap();
        change(&mut value);
        fs::write(self.path(name), value.to_string()).unwrap();
    }

    /// Returns the header of the weights, and the data after it.
    pub(crate) fn weights(&self) -> (Map<String, Value>, Vec<u8>) {
        let bytes = fs::read(self.path("model.safetensors")).unwrap();
        let (length, rest) = bytes.split_first_chunk().unwrap();
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap();
        (serde_json::from_slice(&rest[..length]).unwrap(), rest[length..].to_vec())
    }

    pub(crate) fn write_header(&self, header: &str, data: &[u8]) {
        let length = (header.len() as u64).to_le_bytes();
        let file = [&length[..], header.as_bytes(), data].concat();
        fs::write(self.path("model.safetensors"), file).unwrap();
    }

    pub(crate) fn entry(&self, name: &str, change: impl Fn(&mut Value)) {
        let (mut header, data) = self.weights();
        change(&mut header[name]);
        self.write_header(&Value::from(header).to_string(), &data);
    }

    /// Writes the weights in two shards, the second with the last block.
    pub(crate) fn shards(&self, with_index: bool) {
        let (header, data) = self.weights();
        let is_second = |name: &str| name.starts_with("model.layers.4.");
        let names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
        let mut map = Map::new();
        for (number, file) in names.into_iter().enumerate() {
            let mut entries: Vec<_> = header
                .iter()
                .filter(|(name, _)| *name != "__metadata__" && is_second(name) == (number == 1))
                .collect();
            entries.sort_by_key(|(_, entry)| entry["data_offsets"][0].as_u64());
            let (mut kept, mut bytes) = (Map::new(), Vec::new());
            for (name, entry) in entries {
                map.insert(name.clone(), file.into());
                let offset = |at: usize| {
                    usize::try_from(entry["data_offsets"][at].as_u64().unwrap()).unwrap()
                };
                let start = bytes.len();
                bytes.extend_from_slice(&data[offset(0)..offset(1)]);
                let mut entry = entry.clone();
                entry["data_offsets"] = json!([start, bytes.len()]);
                kept.insert(name.clone(), entry);
            }
            self.write_header(&Value::from(kept).to_string(), &bytes);
            fs::rename(self.path("model.safetensors"), self.path(file)).unwrap();
        }
        if with_index {
            let index = json!({ "metadata": {}, "weight_map": map }).to_string();
            fs::write(self.path("model.safetensors.index.json"), index).unwrap();
        }
    }

    /// Returns the error for the checkpoint.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let args = [&["convert", "model", "-o", "out.gguf"], arguments].concat();
        let Outcome { code, stdout, stderr } = ggmill(self.directory.path(), &args);
        assert_eq!((code, &*stdout), (2, ""), "{stderr}");
        assert_eq!(self.directory.files(), ["model"]);
        stderr
    }
}

pub(crate) fn check(change: impl Fn(&Copied), expected: &str) {
    let copied = Copied::new();
    change(&copied);
    let stderr = copied.refused(&[]);
    assert!(stderr.starts_with(expected), "{stderr}");
}

/// With and without an index.
#[test]
fn a_missing_shard_is_named() {
    for with_index in [false, true] {
        let copied = Copied::new();
        copied.shards(with_index);
        let made = ggmill(copied.directory.path(), &["convert", "model", "-o", "out.gguf"]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        fs::remove_file(copied.directory.path().join("out.gguf")).unwrap();
        for missing in ["00001", "00002"] {
            let name = format!("model-{missing}-of-00002.safetensors");
            let kept = fs::read(copied.path(&name)).unwrap();
            fs::remove_file(copied.path(&name)).unwrap();
            let stderr = copied.refused(&[]);
            if with_index {
                let expected = format!("error: model/{name}: cannot open: no such file");
                assert!(stderr.starts_with(&expected), "{stderr}");
            } else {
                let present = if missing == "00001" { 2 } else { 1 };
                let number = missing.trim_start_matches('0');
                let expected = format!(
                    "error: model: shard {number} of 2 is missing: found 1 of 2, for example \
                     \"model-0000{present}-of-00002.safetensors\"\n"
                );
                assert_eq!(stderr, expected);
            }
            fs::write(copied.path(&name), kept).unwrap();
        }
    }
}

#[test]
fn a_tensor_with_a_wrong_shape_is_named_with_its_file() {
    check(
        |copied| copied.entry(UP, |entry| entry["shape"] = json!([64, 172])),
        "error: model/model.safetensors: tensor \"blk.0.ffn_up.weight\": \
         \"model.layers.0.mlp.up_proj.weight\" results in shape 172 × 64, but the configuration \
         requires 64 × 172\n",
    );
    check(
        |copied| copied.entry(UP, |entry| entry["shape"] = json!([170, 64])),
        "error: model/model.safetensors: tensor \"model.layers.0.mlp.up_proj.weight\": 44032 bytes, \
         expected 43520 for F32 of the shape [170, 64]\n",
    );
    check(
        |copied| copied.entry(UP, |entry| entry["data_offsets"][0] = json!(0)),
        "error: model/model.safetensors: tensor \"",
    );
    check(
        |copied| copied.json("config.json", |config| config["intermediate_size"] = json!(171)),
        "error: model/model.safetensors: tensor \"blk.",
    );
    check(
        |copied| copied.json("config.json", |config| config["num_hidden_layers"] = json!(6)),
        "error: architecture \"llama\", tensor \"blk.5.attn_norm.weight\": not in the checkpoint, \
         expected \"model.layers.5.input_layernorm.weight\"",
    );
}

#[test]
fn an_unknown_type_is_named_with_its_tensor() {
    check(
        |copied| copied.entry(UP, |entry| entry["dtype"] = json!("X9")),
        "error: model/model.safetensors: the header is not a valid safetensors header: tensor \
         \"model.layers.0.mlp.up_proj.weight\": unknown variant `X9`, expected one of ",
    );
    // The data of a 4-bit type is half as long.
    check(
        |copied| copied.entry(UP, |entry| entry["dtype"] = json!("F4")),
        "error: model/model.safetensors: tensor \"model.layers.0.mlp.up_proj.weight\": 44032 bytes, \
         expected 5504 for F4 of the shape [172, 64]\n",
    );
    check(
        |copied| copied.entry(UP, |entry| entry["dtype"] = json!("U32")),
        "error: model/model.safetensors: tensor \"blk.0.ffn_up.weight\": \
         \"model.layers.0.mlp.up_proj.weight\" has elements of type U32, expected floating-point \
         weights\n",
    );
}

/// In every JSON file.
#[test]
fn a_duplicate_key_is_refused_in_every_file() {
    let twice = |text: String, entry: &str| {
        let before = text.trim_end().strip_suffix('}').expect("an object");
        format!("{}, {entry}}}", before.trim_end())
    };
    check(
        |copied| copied.text("config.json", |text| twice(text, "\"hidden_size\": 65")),
        "error: model/config.json: has unexpected content: key \"hidden_size\" has two values at \
         line ",
    );
    check(
        |copied| {
            let (header, data) = copied.weights();
            let entry = format!("\"{UP}\": {}", header[UP]);
            copied.write_header(&twice(Value::from(header).to_string(), &entry), &data);
        },
        "error: tensor \"model.layers.0.mlp.up_proj.weight\": is a duplicate: the header of \
         model/model.safetensors has two entries with this name\n",
    );
    check(
        |copied| {
            copied.shards(true);
            copied.text("model.safetensors.index.json", |text| {
                text.replacen(
                    "\"weight_map\":{",
                    &format!("\"weight_map\":{{\"{UP}\":\"a.safetensors\","),
                    1,
                )
            });
        },
        "error: model/model.safetensors.index.json: has unexpected content: key \
         \"model.layers.0.mlp.up_proj.weight\" has two values at line ",
    );
    check(
        |copied| {
            let text = "{\"bos_token\": \"<s>\", \"bos_token\": \"</s>\"}";
            fs::write(copied.path("tokenizer_config.json"), text).unwrap();
        },
        "error: tokenizer_config.json: has unexpected content: key \"bos_token\" has two values at \
         line 1",
    );
}

/// Deeply nested JSON would overflow the stack of a recursive parser.
#[test]
fn nested_json_is_refused() {
    for (name, expected) in
        [("config.json", "model/config.json"), ("tokenizer_config.json", "tokenizer_config.json")]
    {
        check(
            |copied| fs::write(copied.path(name), "{\"a\":".repeat(100_000)).unwrap(),
            &format!(
                "error: {expected}: is not valid JSON: recursion limit exceeded at line 1 column "
            ),
        );
    }
}

/// The embedding decides between a vocabulary of the model's size and one of another size.
#[test]
fn a_vocabulary_that_disagrees_with_the_embedding_is_refused() {
    check(
        |copied| copied.json("config.json", |config| config["vocab_size"] = json!(500)),
        "error: model/model.safetensors: tensor \"token_embd.weight\": \
         \"model.embed_tokens.weight\" results in shape 64 × 512, but the configuration requires \
         64 × 500\n",
    );
    // A byte-level vocabulary of 300 tokens with 512 rows, and one token beyond the rows.
    let tokenizer = |last: u32| {
        let mut vocab: Map<String, Value> = Map::new();
        for id in 0..300 {
            vocab.insert(format!("t{id}"), id.into());
        }
        vocab.insert("last".to_owned(), last.into());
        json!({ "model": { "type": "BPE", "vocab": vocab, "merges": [] }, "added_tokens": [] })
            .to_string()
    };
    let copied = Copied::new();
    fs::remove_file(copied.path("tokenizer.model")).unwrap();
    fs::write(copied.path("tokenizer.json"), tokenizer(512)).unwrap();
    let stderr = copied.refused(&["--pre", "gpt-2"]);
    assert!(stderr.contains("512"), "{stderr}");
    assert!(stderr.contains("--no-vocab converts only the weights"), "{stderr}");
    fs::write(copied.path("tokenizer.json"), tokenizer(511)).unwrap();
    let args = ["convert", "model", "-o", "out.gguf", "--pre", "gpt-2", "--no-check"];
    let made = ggmill(copied.directory.path(), &args);
    assert_eq!(made.code, 0, "{}", made.stderr);
}

/// An adapter for a different model.
#[test]
fn an_adapter_that_does_not_fit_is_refused_by_its_tensor() {
    let copied = Copied::new();
    let at = |name: &str| copied.directory.path().join("model").join(name);
    let adapter = |target: &str, columns: u64, rows: u64| {
        let entry = |shape: [u64; 2], from: u64| {
            let to = from + shape[0] * shape[1] * 4;
            json!({ "dtype": "F32", "shape": shape, "data_offsets": [from, to] })
        };
        let name = |half: &str| format!("base_model.model.{target}.lora_{half}.weight");
        let middle = 2 * columns * 4;
        let mut header = Map::new();
        header.insert(name("A"), entry([2, columns], 0));
        header.insert(name("B"), entry([rows, 2], middle));
        let header = Value::from(header).to_string();
        let size = usize::try_from(middle + rows * 2 * 4).unwrap();
        let length = (header.len() as u64).to_le_bytes();
        fs::create_dir_all(at("adapter")).unwrap();
        fs::write(
            at("adapter/adapter_model.safetensors"),
            [&length[..], header.as_bytes(), &vec![0; size]].concat(),
        )
        .unwrap();
        let config = json!({ "peft_type": "LORA", "r": 2, "lora_alpha": 4 });
        fs::write(at("adapter/adapter_config.json"), config.to_string()).unwrap();
    };
    let refused = || {
        let args = ["convert", "model/adapter", "--base", "model", "-o", "out.gguf"];
        let Outcome { code, stdout, stderr } = ggmill(copied.directory.path(), &args);
        assert_eq!((code, &*stdout), (2, ""), "{stderr}");
        assert_eq!(copied.directory.files(), ["model"]);
        stderr
    };
    // A block that does not exist in the base.
    adapter("model.layers.9.self_attn.q_proj", 64, 64);
    let stderr = refused();
    assert!(stderr.contains("model.layers.9.self_attn.q_proj"), "{stderr}");
    // A matrix with a different width.
    adapter("model.layers.0.self_attn.q_proj", 32, 64);
    let stderr = refused();
    assert!(stderr.contains("model.layers.0.self_attn.q_proj"), "{stderr}");
    assert!(stderr.contains("32") && stderr.contains("64"), "{stderr}");
}

/// The cache of the Hub has links into a directory of blobs.
#[test]
#[cfg(unix)]
fn a_snapshot_of_links_is_a_checkpoint() {
    const REVISION: &str = "0123456789abcdef";
    let copied = Copied::new();
    copied.shards(true);
    let place = copied.directory.path();
    fs::rename(place.join("model"), place.join(REVISION)).unwrap();
    let convert = |source: &str, output: &str| ggmill(place, &["convert", source, "-o", output]);
    let made = convert(REVISION, "plain.gguf");
    assert_eq!(made.code, 0, "{}", made.stderr);

    let hub = place.join("hub/models--org--stories");
    let snapshot = hub.join("snapshots").join(REVISION);
    for directory in [hub.join("blobs"), snapshot.clone()] {
        fs::create_dir_all(directory).unwrap();
    }
    for entry in fs::read_dir(place.join(REVISION)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        fs::rename(entry.path(), hub.join("blobs").join(format!("sha256-{name}"))).unwrap();
        let target = format!("../../blobs/sha256-{name}");
        std::os::unix::fs::symlink(target, snapshot.join(name)).unwrap();
    }
    let source = format!("hub/models--org--stories/snapshots/{REVISION}");
    let made = convert(&source, "linked.gguf");
    assert_eq!(made.code, 0, "{}", made.stderr);
    let read = |name: &str| fs::read(place.join(name)).unwrap();
    assert!(read("plain.gguf") == read("linked.gguf"), "the same file");

    // A dangling link: the download of this blob is incomplete.
    fs::remove_file(hub.join("blobs/sha256-model-00002-of-00002.safetensors")).unwrap();
    let Outcome { code, stdout, stderr } = convert(&source, "out.gguf");
    assert_eq!((code, &*stdout), (2, ""), "{stderr}");
    let expected =
        format!("error: {source}/model-00002-of-00002.safetensors: cannot open: no such");
    assert!(stderr.starts_with(&expected), "{stderr}");
    assert!(!place.join("out.gguf").exists());
}

/// A missing path is reported as missing; one that looks like a repository of the Hub gets a hint.
#[test]
fn a_missing_path_is_reported() {
    let copied = Copied::new();
    let refused = |args: &[&str]| {
        let found = ggmill(copied.directory.path(), &[&["convert"], args].concat());
        assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}");
        found.stderr
    };
    for args in [&["nodir"][..], &["nodir", "--base", "model", "-o", "x.gguf"]] {
        assert_eq!(refused(args), "error: nodir: no such file or directory\n");
    }
    let hint = "hint: a repository on the Hugging Face Hub is `hf://karpathy/tinyllamas`\n";
    assert_eq!(
        refused(&["karpathy/tinyllamas"]),
        format!("error: karpathy/tinyllamas: no such file or directory\n{hint}")
    );
    // A missing file in an existing directory.
    assert_eq!(refused(&["model/nodir"]), "error: model/nodir: no such file or directory\n");
    let base = refused(&["model", "--base", "model", "-o", "x.gguf"]);
    assert!(base.contains("model: is not an adapter (it has no adapter_config.json)"), "{base}");
}

#[test]
fn a_directory_of_gguf_files_is_not_a_checkpoint() {
    let directory = Directory::new();
    fs::create_dir(directory.path().join("models")).unwrap();
    let found = ggmill(directory.path(), &["convert", "models"]);
    assert_eq!(found.code, 2);
    assert!(!found.stderr.contains("hint:"), "{}", found.stderr);
    fs::write(directory.path().join("models/x.gguf"), crate::support::tiny()).unwrap();
    let found = ggmill(directory.path(), &["convert", "models"]);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("GGUF files, which need no conversion"), "{}", found.stderr);
}

/// The error for a directory without weights says what its files can be used for.
#[test]
fn a_directory_without_weights_gets_a_hint_about_its_files() {
    let copied = Copied::new();
    fs::remove_file(copied.path("model.safetensors")).unwrap();
    let refused = |name: &str| {
        let found = ggmill(copied.directory.path(), &["convert", name, "-o", "x.gguf"]);
        assert_eq!((found.code, &*found.stdout), (2, ""));
        assert!(
            found.stderr.contains("contains neither model.safetensors nor"),
            "{}",
            found.stderr
        );
        found.stderr
    };
    let hint = "hint: the directory has tokenizer files: --vocab-only converts the vocabulary \
                without weights\n";
    let found = refused("model");
    assert!(found.ends_with(hint), "{found}");
    let args = ["convert", "model", "-o", "x.gguf", "--vocab-only"];
    assert_eq!(ggmill(copied.directory.path(), &args).code, 0);
    fs::remove_file(copied.path("config.json")).unwrap();
    let found = refused("model");
    assert!(found.contains("with config.json, --vocab-only converts"), "{found}");
    assert!(found.contains("`ggmill tokenize DIR TEXT` needs only these files"), "{found}");
    assert_eq!(ggmill(copied.directory.path(), &["tokenize", "model", "Once"]).code, 0);
    fs::create_dir(copied.directory.path().join("none")).unwrap();
    assert!(!refused("none").contains("hint"));
}

/// A setting that programs do not read is refused; the assumed value is used on request, and the file
/// says so.
#[test]
fn a_setting_that_the_file_cannot_express_is_named() {
    let copied = Copied::new();
    copied.json("config.json", |config| {
        config["rope_scaling"] = json!({ "rope_type": "longrope", "factor": 4.0 });
    });
    let stderr = copied.refused(&[]);
    let expected = "error: config.json: rope_scaling.rope_type is \"longrope\", and programs assume \
                    default\nhint: --assume-defaults";
    assert!(stderr.starts_with(expected), "{stderr}");

    let args = ["convert", "model", "-o", "out.gguf", "--assume-defaults"];
    let made = ggmill(copied.directory.path(), &args);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(
        made.stderr.contains("the file does not compute what the checkpoint does"),
        "{}",
        made.stderr
    );
    let args = ["get", "out.gguf", "ggmill.assumed_settings"];
    let listed = ggmill(copied.directory.path(), &args);
    assert!(listed.stdout.contains("longrope"), "{}", listed.stdout);
}
