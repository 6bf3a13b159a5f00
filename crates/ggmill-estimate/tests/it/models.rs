//! The models of `tests/reference/models.txt`: headers that `python3 conformance/run.py estimate --collect` takes
//! from converted recipes.

use std::fs;
use std::path::Path;

use ggmill_arch::Architecture;
use ggmill_core::{Builder, Endian, GgmlType, MetadataBuf, Model, Shape};

/// A model of the list.
pub(crate) struct Listed {
    pub(crate) name: String,
    metadata: MetadataBuf,
    tensors: Vec<(String, GgmlType, Vec<u64>)>,
}

impl Listed {
    /// The header alone, as a model.
    pub(crate) fn open(&self, endian: Endian) -> Model {
        let mut builder = Builder::new().endian(endian).metadata(self.metadata().clone());
        for (name, ggml_type, shape) in &self.tensors {
            builder = builder.tensor(name, *ggml_type, Shape::new(shape).unwrap());
        }
        let header = builder.plan().unwrap().header().to_vec();
        Model::open_damaged(header).unwrap()
    }

    pub(crate) fn metadata(&self) -> &MetadataBuf {
        &self.metadata
    }

    pub(crate) fn architecture(&self) -> &str {
        self.metadata.get("general.architecture").unwrap().as_str().unwrap()
    }

    pub(crate) fn description(&self) -> Option<&'static Architecture> {
        Architecture::builtin(self.architecture())
    }
}

/// All models of the list.
pub(crate) fn listed() -> Vec<Listed> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/models.txt");
    parse(&fs::read_to_string(path).unwrap())
}

/// The models of a list.
pub(crate) fn parse(text: &str) -> Vec<Listed> {
    let mut models: Vec<Listed> = Vec::new();
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap();
        match (word, models.last_mut()) {
            ("#", _) => {}
            ("model", _) => models.push(Listed {
                name: rest.to_owned(),
                metadata: MetadataBuf::new(),
                tensors: Vec::new(),
            }),
            ("tensor", Some(model)) => tensors(rest, &mut model.tensors),
            (key, Some(model)) => {
                let (kind, value) = rest.split_once(' ').unwrap();
                set(&mut model.metadata, key, kind, value);
            }
            (word, None) => panic!("{word} before the first model"),
        }
    }
    models
}

fn tensors(text: &str, all: &mut Vec<(String, GgmlType, Vec<u64>)>) {
    let words: Vec<_> = text.split(' ').collect();
    let [name, ggml_type, shape] = words[..] else { panic!("{text}") };
    let ggml_type: GgmlType = ggml_type.parse().unwrap();
    let shape: Vec<u64> = shape.split('x').map(|number| number.parse().unwrap()).collect();
    match name.split_once('{').map(|(before, rest)| (before, rest.split_once('}').unwrap())) {
        Some((before, (blocks, after))) => {
            for block in blocks.split(',') {
                all.push((format!("{before}{block}{after}"), ggml_type, shape.clone()));
            }
        }
        None => all.push((name.to_owned(), ggml_type, shape)),
    }
}

fn set(metadata: &mut MetadataBuf, key: &str, kind: &str, value: &str) {
    fn parse<T: std::str::FromStr>(text: &str) -> T {
        text.parse().unwrap_or_else(|_| panic!("{text}"))
    }
    fn list<T: std::str::FromStr>(text: &str) -> Vec<T> {
        text.split(',').filter(|text| !text.is_empty()).map(parse).collect()
    }
    match kind {
        "u32" => metadata.set(key, parse::<u32>(value)),
        "i32" => metadata.set(key, parse::<i32>(value)),
        "u64" => metadata.set(key, parse::<u64>(value)),
        "f32" => metadata.set(key, parse::<f32>(value)),
        "bool" => metadata.set(key, parse::<bool>(value)),
        "string" => metadata.set(key, value),
        "[u32]" => metadata.set(key, list::<u32>(value)),
        "[i32]" => metadata.set(key, list::<i32>(value)),
        "[u64]" => metadata.set(key, list::<u64>(value)),
        "[i64]" => metadata.set(key, list::<i64>(value)),
        "[f32]" => metadata.set(key, list::<f32>(value)),
        "[bool]" => metadata.set(key, list::<bool>(value)),
        "[string]" => {
            let texts: Vec<&str> = value.split(',').map(|text| text.trim_matches('\'')).collect();
            metadata.set(key, texts.as_slice());
        }
        _ => panic!("{kind}"),
    }
}
