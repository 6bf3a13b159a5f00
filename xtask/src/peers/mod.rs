//! Comparisons with other implementations: gguf and llama-cpp-python (PyPI) in an environment of
//! their own, candle-core in a workspace of its own.
//!
//! The scripts are in `xtask/peers`. Nothing here is needed to build or test ggmill: what the peers
//! say is committed as fixtures.

mod activations;
mod architectures;
mod classes;
mod environment;
mod estimate;
mod hash;
mod index;
mod legacy;
mod logits;
mod older;
mod open;
mod perplexity;
mod python;
mod quant;
mod quantize;
mod run_speed;
mod source;
mod templates;
mod tokenize;
mod write;

use std::path::{Path, PathBuf};

use crate::process::{Done, cargo, root, run, target};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Peers {
    /// Compare the speed of opening files with other readers
    Open(open::Args),
    /// Compare the speed and the bytes of the codecs with the reference's
    Quant(quant::Args),
    /// Count the instructions of the codecs and of the reference's, one by one
    QuantCount(quant::CountArgs),
    /// Compare `ggmill inspect --json --full` with gguf, value by value
    Inspect {
        /// Files, or directories to look for them in [default: the bundled files, and ../shared/data]
        paths: Vec<PathBuf>,
    },
    /// Compare the converted bundled checkpoint with an independent reading, and every recipe of a
    /// checkpoint with what the reference converter makes of it (needs the environment of classes)
    Convert {
        /// How many recipes are compared at once
        #[arg(long, short, value_name = "N", default_value_t = 2)]
        jobs: usize,
        /// Leave out the recipes
        #[arg(long, conflicts_with = "speed")]
        bundled: bool,
        /// Compare speed and memory on 1.1 billion random weights and on a vocabulary of 262,144
        /// tokens, instead of bytes
        #[arg(long)]
        speed: bool,
    },
    /// Compare checkpoints, class by class, with the reference converter: xtask/peers/classes.py, whose
    /// head lists the words and the environment
    Classes(classes::Args),
    /// Compare recipes at Q4_K_M in one pass with the reference converter and llama_model_quantize
    /// after it [default: those in fixtures/mixtures.json]
    OnePass {
        /// Recipes, `all`, or `bless` and recipes whose hashes are recorded
        names: Vec<String>,
    },
    /// Let libllama load the converted file of each recipe, vocabulary included, and run one token
    Load {
        /// Recipes [default: all]
        names: Vec<String>,
    },
    /// Compare adapters with the reference's convert_lora_to_gguf.py: xtask/peers/lora.py, whose head
    /// lists the words
    Lora(classes::Args),
    /// Compare `ggmill lora merge` with the graph of llama-export-lora
    LoraMerge {
        /// Recipes of adapters [default: all]
        names: Vec<String>,
    },
    /// Let libllama continue a text with the converted bundled checkpoint
    Speak,
    /// Let the transformers library compute with checkpoints that files were turned back into, in
    /// the environment of classes
    Restore,
    /// Write what the reference converter makes of small tokenizers of every kind into
    /// crates/ggmill-convert/tests/vocabularies, and the facts it goes by into data; needs torch,
    /// transformers and sentencepiece
    Vocabularies {
        /// A source tree of llama.cpp: `vendor/llama.cpp` of llama-cpp-python 0.3.36
        llama_cpp: PathBuf,
    },
    /// Compare `ggmill hash` with hashlib, xxhash and blake3, or write what they find
    Hash(hash::Args),
    /// Write what the reference makes of files from before GGUF into
    /// crates/ggmill-testdata/expected
    Legacy(legacy::Args),
    /// Write what gguf finds in real files into crates/ggmill-testdata/expected
    Expect,
    /// Write the golden vectors of the codecs into crates/ggmill-quant/tests/vectors
    Vectors,
    /// Compare the speed of the command with that of an older build of it
    Older(older::Args),
    /// Compare `ggmill quantize` with llama_model_quantize: bytes of whole files, or speed and
    /// memory
    Quantize(quantize::Args),
    /// Compare types chosen for a size, by error and by measured sensitivity, with plain types of that
    /// size: the KL divergence on text that was held out
    Fit(quantize::FitArgs),
    /// Compare `ggmill measure` on a real model with llama-perplexity, and with its method in double
    /// precision
    Perplexity(perplexity::Args),
    /// Compare `ggmill imatrix merge` and `convert` with what llama-imatrix does
    Imatrix,
    /// Compare `ggmill estimate` with what libllama accounts for: weights, caches and states
    Estimate(estimate::Args),
    /// Compare the tables of `ggmill index` with what DuckDB and pyarrow read of them, and time it
    Index(index::Args),
    /// Compare what models compute with libllama: logits of tiny models of every computation graph
    Logits(logits::Args),
    /// Compare or record what the matrices of models are multiplied with in libllama: the sums of
    /// importance matrices
    Activations(activations::Args),
    /// Compare how fast logits are computed with libllama: tokens per second of processor time, memory
    RunSpeed(run_speed::Args),
    /// Hold split, merged and repacked files against gguf and libllama, and their speed against cp
    Write(write::Args),
    /// Compare tokens with llama.cpp's: IDs of texts of every kind, and the texts they give back
    Tokenize(tokenize::Args),
    /// Compare rendered chat templates with Jinja's, as transformers sets it up
    Templates(templates::Args),
    /// Import the names of architectures and of their tensors from gguf, or hold the descriptions
    /// against llama.cpp's loader
    Architectures(architectures::Args),
    /// Compare speed and memory of the Python package, optimized, with gguf's: opening, dequantizing,
    /// writing, one metadata value
    PythonSpeed(python::Args),
    /// Compare results of the npm package, and the requests and bytes it takes, with those of
    /// @huggingface/gguf 0.4.6
    Npm {
        /// Files, or directories to look for them in [default: the bundled files, and ../shared/data]
        paths: Vec<PathBuf>,
    },
    /// Make the Python environment and say where its interpreter is
    Environment,
}

impl Peers {
    pub(crate) fn run(&self) -> Done {
        match self {
            Self::Open(args) => open::run(args),
            Self::Quant(args) => quant::run(args),
            Self::QuantCount(args) => quant::count(args),
            Self::Inspect { paths } => inspect(paths),
            Self::Convert { speed: true, .. } => convert_speed(),
            Self::Convert { bundled: true, .. } => convert(),
            Self::Convert { jobs, .. } => convert().and_then(|()| classes::all(*jobs)),
            Self::Classes(args) => classes::execute("classes.py", args),
            Self::OnePass { names } => classes::beside("one_pass.py", names),
            Self::Load { names } => classes::beside("load.py", names),
            Self::Lora(args) => classes::execute("lora.py", args),
            Self::LoraMerge { names } => classes::beside("lora_merge.py", names),
            Self::Speak => speak(),
            Self::Restore => restore(),
            Self::Vocabularies { llama_cpp } => vocabularies(llama_cpp),
            Self::Hash(args) => hash::execute(args),
            Self::Legacy(args) => legacy::execute(args),
            Self::Expect => expect(),
            Self::Vectors => vectors(),
            Self::Older(args) => older::execute(args),
            Self::Quantize(args) => quantize::execute(args),
            Self::Perplexity(args) => perplexity::execute(args),
            Self::Fit(args) => quantize::fit(args),
            Self::Imatrix => quantize::imatrix(),
            Self::Estimate(args) => estimate::execute(args),
            Self::Index(args) => index::execute(args),
            Self::Logits(args) => logits::execute(args),
            Self::Activations(args) => activations::execute(args),
            Self::RunSpeed(args) => run_speed::execute(args),
            Self::Write(args) => write::execute(args),
            Self::Tokenize(args) => tokenize::execute(args),
            Self::Templates(args) => templates::execute(args),
            Self::Architectures(args) => architectures::execute(args),
            Self::PythonSpeed(args) => python::speed(args),
            Self::Npm { paths } if paths.is_empty() => crate::npm::compare(&real_files()),
            Self::Npm { paths } => crate::npm::compare(paths),
            Self::Environment => {
                environment::python().map(|python| println!("{}", python.display()))
            }
        }
    }
}

/// A binary to compare, instead of one that is built for it.
const OURS: &str = "GGMILL";

/// The binary: the one that the environment variable names, or freshly built.
fn ggmill() -> Done<PathBuf> {
    if let Some(path) = std::env::var_os(OURS) {
        return Ok(path.into());
    }
    run(&mut cargo(&["build", "--quiet", "--release", "--package=ggmill-cli"]))?;
    Ok(target()?.join("release").join("ggmill"))
}

/// The real files that are at hand.
fn real_files() -> Vec<PathBuf> {
    [root().join("crates/ggmill-testdata/real"), root().join("../shared/data")]
        .into_iter()
        .filter(|directory| directory.is_dir())
        .collect()
}

fn inspect(paths: &[PathBuf]) -> Done {
    let real = real_files();
    let paths = if paths.is_empty() { &real } else { paths };
    run(environment::script("inspect_json.py")?.arg(ggmill()?).args(paths))
}

fn convert() -> Done {
    let real = root().join("crates/ggmill-testdata/real");
    run(environment::script("convert.py")?
        .arg(ggmill()?)
        .arg(real.join("tinystories260K"))
        .arg(real.join("tinystories260K.llama2c.bin")))
}

/// Needs the environment of [`classes`] besides that of the others.
fn convert_speed() -> Done {
    let tokenizer = root().join("crates/ggmill-testdata/real/tinystories260K");
    run(environment::script("convert_speed.py")?.arg(ggmill()?).arg(tokenizer))
}

fn speak() -> Done {
    let checkpoint = root().join("crates/ggmill-testdata/real/tinystories260K");
    run(environment::script("speak.py")?.arg(ggmill()?).arg(checkpoint))
}

fn restore() -> Done {
    run(classes::script("restore.py", false)?.arg(ggmill()?))
}

fn vocabularies(llama_cpp: &Path) -> Done {
    let facts = root().join("crates/ggmill-convert/data");
    let script = |name| classes::script(name, false);
    run(script("pretokenizers.py")?.arg(llama_cpp).arg(&facts))?;
    run(script("tokenizer_classes.py")?.arg(facts.join("tokenizer-classes.json")))?;
    run(script("builtin_vocabularies.py")?.arg(llama_cpp).arg(&facts))?;
    let cases = root().join("crates/ggmill-convert/tests/vocabularies");
    run(script("vocabularies.py")?.arg(llama_cpp).arg(cases))
}

fn expect() -> Done {
    let mut files: Vec<PathBuf> = Vec::new();
    for directory in real_files() {
        files.extend(gguf_files(&directory)?);
    }
    run(environment::script("expect.py")?.arg("crates/ggmill-testdata/expected").args(files))
}

fn vectors() -> Done {
    run(environment::script("quant_vectors.py")?.arg("crates/ggmill-quant/tests/vectors"))
}

/// The GGUF files of a directory and the directories in it, in order.
fn gguf_files(directory: &std::path::Path) -> Done<Vec<PathBuf>> {
    let failed = |error| format!("{}: {error}", directory.display());
    let mut entries = std::fs::read_dir(directory)
        .map_err(failed)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let mut found = Vec::new();
    for path in entries.iter().map(std::fs::DirEntry::path) {
        if path.is_dir() {
            found.extend(gguf_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "gguf") {
            found.push(path);
        }
    }
    Ok(found)
}
