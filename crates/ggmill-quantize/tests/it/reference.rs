//! Comparison with the reference: whole files, byte for byte those of `llama_model_quantize`
//! (`tests/quantize.sha256`, written by `python3 conformance/run.py quantize`), and the types chosen for
//! twelve real models (`tests/mixtures`, written by `conformance/mixtures.py`).

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_core::{Builder, GgmlType, MetadataBuf, Shape};
use ggmill_pipeline::{GgufCheckpoint, Recipe, RunOptions, ShardLimit, SplitOptions, run, split};
use ggmill_quantize::{ImportanceFilter, quantize, quantize_shards};
use ggmill_testdata::sha256;

use crate::support::{Fixture, options, quantized};

/// The targets that are tested. `python3 conformance/run.py quantize` tests all of them.
const PLAIN: &[&str] = &[
    "Q4_K_M",
    "Q5_K_S",
    "Q2_K",
    "IQ4_XS",
    "Q8_0",
    "Q6_K",
    "Q4_0",
    "Q3_K_L",
    "MXFP4_MOE",
    "TQ1_0",
    "F16",
    "COPY",
];
const WITH_IMPORTANCE: &[&str] = &["Q4_K_M", "Q4_0", "IQ2_XS", "IQ3_XXS"];

fn expected() -> HashMap<(&'static str, &'static str, &'static str), &'static str> {
    let lines = include_str!("../quantize.sha256").lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap();
        ((word(), word(), word()), word())
    };
    lines.map(row).collect()
}

fn check(name: &str) {
    let (fixture, expected) = (Fixture::new(name), expected());
    for (types, form) in [(PLAIN, "none"), (WITH_IMPORTANCE, "imatrix")] {
        for &target in types {
            let mut options = options(target);
            options.importance =
                (form == "imatrix").then(|| fixture.importance(&ImportanceFilter::All));
            let file = quantized(&fixture.path(), &options).unwrap();
            assert_eq!(sha256(&file), expected[&(name, target, form)], "{name} {target} {form}");
        }
    }
}

#[test]
fn llama_equals_the_reference() {
    check("llama");
}

#[test]
fn mixture_of_experts_equals_the_reference() {
    check("mixtral");
}

#[test]
fn mamba_equals_the_reference() {
    check("mamba");
}

#[test]
fn falcon_equals_the_reference() {
    check("falcon");
}

/// With shards as input and output, each shard equals the reference's.
#[test]
fn shards_equal_the_reference() {
    let expected = expected();
    let sets = [
        ("llama", "Q4_K_M", "none"),
        ("llama", "Q3_K_M", "none-empty"),
        ("llama", "IQ2_XS", "imatrix"),
        ("mixtral", "Q2_K", "imatrix"),
        ("mamba", "Q6_K", "none"),
    ];
    for (name, target, form) in sets {
        let fixture = Fixture::new(name);
        let mut split = SplitOptions::new(ShardLimit::Tensors(30));
        split.no_tensor_first = form.ends_with("empty");
        let shards = cut(&fixture, &split);
        let mut options = options(target);
        options.importance =
            (form == "imatrix").then(|| fixture.importance(&ImportanceFilter::All));
        let checkpoint = GgufCheckpoint::open(shards.last().unwrap()).unwrap();
        let recipes = quantize_shards(&checkpoint, &options).unwrap();
        assert_eq!(recipes.len(), shards.len());
        for (number, recipe) in (1..).zip(recipes) {
            let plan = recipe.plan(&checkpoint).unwrap();
            let file = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(
                sha256(&file),
                expected[&(name, target, &*format!("{form}-shard-{number}"))],
                "{name} {target} {form} {number}"
            );
        }
    }
}

/// Quantizing shards to one file equals quantizing one file; quantizing one file to shards equals
/// splitting the quantized file.
#[test]
fn shards_are_merged_and_split() {
    let fixture = Fixture::new("llama");
    let whole = quantized(&fixture.path(), &options("Q4_K_M")).unwrap();
    let limit = SplitOptions::new(ShardLimit::Bytes(40_000));
    let shards = cut(&fixture, &SplitOptions::new(ShardLimit::Tensors(30)));
    assert!(quantized(&shards[1], &options("Q4_K_M")).unwrap() == whole);

    let checkpoint = GgufCheckpoint::open(&shards[0]).unwrap();
    let made = quantize(&checkpoint, &options("Q4_K_M")).unwrap().split(&limit).unwrap();
    let path = fixture.directory.path().join("whole.gguf");
    std::fs::write(&path, &whole).unwrap();
    let again = GgufCheckpoint::open(&path).unwrap();
    let cut = split(&again, &limit).unwrap();
    assert!(made.len() > 3 && made.len() == cut.len());
    for (made, cut) in made.into_iter().zip(cut) {
        let bytes = |recipe: Recipe, checkpoint| {
            run(
                &recipe.plan(checkpoint).unwrap(),
                checkpoint,
                Vec::new(),
                &RunOptions::default(),
                &mut |_| ControlFlow::Continue(()),
            )
            .unwrap()
        };
        assert!(bytes(made, &checkpoint) == bytes(cut, &again));
    }
}

/// Splits the model of a fixture into shards in its directory.
fn cut(fixture: &Fixture, options: &SplitOptions) -> Vec<PathBuf> {
    let checkpoint = GgufCheckpoint::open(fixture.path()).unwrap();
    let recipes = split(&checkpoint, options).unwrap();
    let count = u32::try_from(recipes.len()).unwrap();
    let write = |(number, recipe): (u32, Recipe)| {
        let path =
            fixture.directory.path().join(ggmill_core::shard_file_name("cut", number, count));
        let plan = recipe.plan(&checkpoint).unwrap();
        std::fs::write(
            &path,
            run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap(),
        )
        .unwrap();
        path
    };
    (1..).zip(recipes).map(write).collect()
}

/// A shard without remaining tensors is kept in the middle, which keeps the numbers of the others,
/// and dropped at the end.
#[test]
fn shards_without_tensors() {
    let fixture = Fixture::new("mamba");
    let shards = cut(&fixture, &SplitOptions::new(ShardLimit::Tensors(11)));
    let checkpoint = GgufCheckpoint::open(&shards[0]).unwrap();
    let counts = |layers: &[u64]| {
        let mut options = options("Q6_K");
        options.prune_layers = layers.iter().copied().collect();
        let recipes = quantize_shards(&checkpoint, &options).unwrap();
        recipes
            .into_iter()
            .map(|recipe| recipe.plan(&checkpoint).unwrap().layout().tensors().len())
            .collect::<Vec<_>>()
    };
    assert_eq!(counts(&[]), [11, 11, 11, 5]);
    assert_eq!(counts(&[3]), [11, 11, 7]);
    assert_eq!(counts(&[1, 2]), [11, 0, 4, 5]);
}

#[test]
fn bytes_do_not_depend_on_the_number_of_threads() {
    let fixture = Fixture::new("mixtral");
    let on = |threads| {
        let quantized = || quantized(&fixture.path(), &options("Q4_K_M"));
        RunOptions::with_threads(threads).install(quantized).unwrap().unwrap()
    };
    assert!(on(1) == on(3));
}

/// The parsed content of a file.
#[derive(Default)]
struct Expectations {
    metadata: MetadataBuf,
    tensors: BTreeMap<String, Shape>,
    /// The file type, the default type, and the tensors that have another type.
    sections: Vec<(String, GgmlType, BTreeMap<String, GgmlType>)>,
}

/// Returns the tensor names of an ending and layer numbers.
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

/// Writes the model as a sparse file without data.
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
fn mixtures_equal_the_reference() {
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
            // Types can be chosen without importance.
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
