//! The types chosen for twelve real models, in files of every type: `tests/mixtures`, from the
//! reference's own expectations (`xtask/peers/mixtures.py`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use ggmill_core::{Builder, GgmlType, MetadataBuf, Shape};
use ggmill_pipeline::GgufCheckpoint;
use ggmill_quantize::quantize;

use super::options;

/// One of the files, taken apart.
#[derive(Default)]
struct Expectations {
    metadata: MetadataBuf,
    tensors: BTreeMap<String, Shape>,
    /// File type, default, and the tensors that have another.
    sections: Vec<(String, GgmlType, BTreeMap<String, GgmlType>)>,
}

/// The names that an ending and the numbers of layers stand for.
fn names(ending: &str, layers: &str) -> Vec<String> {
    if layers == "-" {
        return vec![ending.to_owned()];
    }
    let bounds = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<u32>().unwrap()..=last.parse().unwrap()
    };
    layers.split(',').flat_map(bounds).map(|layer| format!("blk.{layer}.{ending}")).collect()
}

fn read(path: &Path) -> Expectations {
    let mut read = Expectations::default();
    for line in std::fs::read_to_string(path).unwrap().lines().filter(|line| !line.starts_with('#'))
    {
        let words: Vec<&str> = line.split(' ').collect();
        match *words {
            ["hyper", architecture, ref values @ ..] => {
                read.metadata.set("general.architecture", architecture);
                for value in values {
                    let (name, number) = value.split_once('=').unwrap();
                    let key = match name {
                        "layers" => "block_count",
                        "heads" => "attention.head_count",
                        "kv_heads" => "attention.head_count_kv",
                        _ => "expert_count",
                    };
                    read.metadata
                        .set(format!("{architecture}.{key}"), number.parse::<u32>().unwrap());
                }
            }
            ["tensor", ending, layers, length, ref stack @ ..] => {
                // How many rows there are is of no importance.
                let length = length.parse().unwrap();
                let shape = if stack.is_empty() {
                    Shape::new(&[length, 2])
                } else {
                    Shape::new(&[length, 1, 2])
                }
                .unwrap();
                read.tensors.extend(names(ending, layers).into_iter().map(|name| (name, shape)));
            }
            [header, default] if header.starts_with('[') => {
                let file_type = header.trim_matches(['[', ']']).to_owned();
                read.sections.push((
                    file_type,
                    default.parse::<GgmlType>().unwrap(),
                    BTreeMap::new(),
                ));
            }
            [ggml_type, ending, layers] => {
                let ggml_type = ggml_type.parse::<GgmlType>().unwrap();
                let (_, _, others) = read.sections.last_mut().unwrap();
                others.extend(names(ending, layers).into_iter().map(|name| (name, ggml_type)));
            }
            _ => panic!("{line}"),
        }
    }
    read
}

/// The model as a file whose data are a hole.
fn hollow(model: &Expectations) -> tempfile::NamedTempFile {
    let builder = Builder::new().metadata(model.metadata.clone());
    let plan = model
        .tensors
        .iter()
        .fold(builder, |builder, (name, shape)| builder.tensor(name, GgmlType::F32, *shape))
        .plan()
        .unwrap();
    let file = tempfile::Builder::new().suffix(".gguf").tempfile().unwrap();
    File::create(file.path()).unwrap().write_all(plan.header()).unwrap();
    file.as_file().set_len(plan.total_len()).unwrap();
    file
}

#[test]
fn mixtures_are_the_references_tensor_for_tensor() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mixtures");
    let (mut models, mut choices) = (0, 0);
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let model = read(&path);
        let file = hollow(&model);
        let checkpoint = GgufCheckpoint::open(file.path()).unwrap();
        for (file_type, default, others) in &model.sections {
            let mut options = options(file_type);
            assert_eq!(options.target.default_type(), Some(*default), "{file_type}");
            // Importance is not needed to choose.
            options.dry_run = true;
            let plan = quantize(&checkpoint, &options).unwrap().plan(&checkpoint).unwrap();
            for tensor in plan.layout().tensors() {
                let name = tensor.name().to_string();
                let expected = others.get(&name).unwrap_or(default);
                assert_eq!(tensor.ggml_type(), *expected, "{} {file_type} {name}", path.display());
                choices += 1;
            }
            assert!(others.keys().all(|name| model.tensors.contains_key(name)), "{file_type}");
        }
        models += 1;
    }
    assert_eq!(models, 12);
    assert!(choices > 100_000, "{choices}");
}
