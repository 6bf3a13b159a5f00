//! `ggmill measure`: what models make of a text, and how far they are from another model.

mod merge;
mod text;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill_core::{Model, Sink as _};
use ggmill_inspect::text::Options;
use ggmill_io::FileSink;
use ggmill_pipeline::formats::npy_header;
use ggmill_run::json::document;
use ggmill_run::{Chunks, ErrorKind, Measurement, Program, Scores};

use self::text::Text;
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::outputs::{Output, refuse_interrupted};
use crate::paths::{file_name, shown};
use crate::progress::Bar;
use crate::run_model::{RunArgs, Stopped, TextArgs, refused};
use crate::source::open_whole;

/// Measure the perplexity of models on a text, and their KL divergence from another model
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  ggmill measure model-Q4_K_M.gguf --text wiki.test.raw
  ggmill measure model-Q4_K_M.gguf --against model-F16.gguf --text wiki.test.raw
  ggmill measure a.gguf b.gguf --against base.gguf --text t.txt --html page.html
  ggmill measure model.gguf --tokens ids.json --ctx 256 --logits logits.npy
  ggmill measure model.gguf --text t.txt --chunks 50 --scores a.json
  ggmill measure model.gguf --text t.txt --from-chunk 50 --scores b.json
  ggmill measure merge a.json b.json   # what one run over the whole text prints

The text is divided into chunks, and only the second half of each chunk is scored, as in \
llama-perplexity. A model with an encoder and a decoder, such as T5, has the first half of the chunk as the encoder's input. Everything is computed in F32 on the CPU, with the same result on every machine. \
llama.cpp also rounds activations for quantized types, so its perplexities differ slightly.

Several files are measured in one pass, in which the output of BASE is computed once. Of embedding \
models, --against gives the cosine of the embeddings of each token.")]
#[command(group(clap::ArgGroup::new("written").multiple(true)))]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// The models: files, or any shards of split models
    #[arg(required = true, value_name = "MODEL")]
    files: Vec<PathBuf>,
    /// Also compute the KL divergence from this model, usually the one that MODEL was
    /// quantized from
    #[arg(long, value_name = "BASE")]
    against: Option<PathBuf>,
    #[command(flatten)]
    text: TextArgs,
    /// Use at most N chunks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
    /// Skip the first N chunks of the text
    #[arg(long, value_name = "N", default_value_t = 0)]
    from_chunk: usize,
    /// Write the logits of a single model as an f32 array with one row per token (of the decoder's
    /// input, if there is an encoder)
    #[arg(long, value_name = "OUT.npy", group = "written")]
    logits: Option<PathBuf>,
    /// Write an HTML page with a table of all models, and curves of the KL divergence
    #[arg(long, value_name = "PAGE.html", group = "written")]
    html: Option<PathBuf>,
    /// Write what each position gave, for `measure merge`
    #[arg(long, value_name = "SCORES.json", group = "written")]
    scores: Option<PathBuf>,
    /// Replace OUT.npy, PAGE.html and SCORES.json if they exist
    #[arg(long, requires = "written")]
    force: bool,
    #[command(flatten)]
    run: RunArgs,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Merge measurements of parts of a text, as written by --scores
    Merge(merge::Args),
}

/// Why a measurement ended early.
enum Ended {
    Run(ggmill_run::Error),
    Write(Failure),
}

impl From<ggmill_run::Error> for Ended {
    fn from(error: ggmill_run::Error) -> Self {
        Self::Run(error)
    }
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    if let Some(Action::Merge(args)) = &args.action {
        return merge::run(args, console);
    }
    if args.logits.is_some() && args.files.len() > 1 {
        return Err(Failure::new("--logits takes one MODEL, as it writes the logits of one model"));
    }
    let written = [("--logits", &args.logits), ("--html", &args.html), ("--scores", &args.scores)];
    for (number, (option, path)) in written.into_iter().enumerate() {
        if let Some((other, _)) =
            written[..number].iter().find(|(_, other)| path.is_some() && *other == path)
        {
            return Err(Failure::new(format_args!("{other} and {option} name the same file")));
        }
    }
    let catalogue = args.run.catalogue()?;
    let paths: Vec<&Path> = args.files.iter().chain(&args.against).map(PathBuf::as_path).collect();
    let models: Vec<Model> = paths.iter().map(|path| open_whole(path)).collect::<Result<_, _>>()?;
    let programs = paths.iter().zip(&models);
    let programs: Vec<Program<'_>> = programs
        .map(|(path, model)| args.run.program(path, model, &catalogue, console))
        .collect::<Result<_, _>>()?;
    let chunks = chunks(args, console)?;
    let runner = args.run.runner().map_err(|Stopped(failure)| failure)?;
    let files = models.iter().flat_map(ggmill_io::files);
    let inputs: Vec<PathBuf> = files.map(|file| file.path().to_owned()).collect();
    refuse_interrupted(&inputs)?;
    let start = |path: &PathBuf| Output::new(path, &inputs, args.force)?.start(&inputs, 0);
    let page = args.html.as_ref().map(start).transpose()?;
    let kept = args.scores.as_ref().map(start).transpose()?;
    let (programs, base) = programs.split_at(args.files.len());
    let mut sink = match (&args.logits, programs.first()) {
        (Some(path), Some(program)) => Some(logits(path, &inputs, args, program, &chunks)?),
        _ => None,
    };
    let mut bar = Bar::of_pieces(console, "chunks");
    let several: Vec<&Program<'_>> = programs.iter().collect();
    let measured = ggmill_run::scores_together(
        &runner,
        &several,
        base.first(),
        &chunks,
        sink.is_some(),
        |chunk| {
            if let Some(sink) = &mut sink {
                let bytes: Vec<u8> =
                    chunk.logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
                sink.append(&bytes).map_err(|error| Ended::Write(Failure::new(error)))?;
            }
            let done = (chunk.chunk as u64).saturating_add(1);
            bar.update(done, chunk.chunks as u64, "chunks");
            Ok::<_, Ended>(())
        },
    );
    drop(bar);
    let measured = measured.map_err(|ended| match ended {
        Ended::Run(error) => failed(&error, &paths),
        Ended::Write(failure) => failure,
    })?;
    if let Some(sink) = sink {
        sink.commit().map_err(Failure::new)?;
    }
    let name = |path: &PathBuf| shown(path).to_string();
    let names = args.files.iter().map(name);
    let scores =
        Scores::new(args.against.as_ref().map(name), chunks.context(), names.zip(measured));
    if let Some(kept) = kept {
        let mut bytes = Vec::new();
        ggmill_text::json::write(&mut bytes, &scores)?;
        write_whole(kept, &bytes)?;
    }
    report(&scores, page, args.json, console)
}

/// An error, with the file that it is about.
fn failed(error: &ggmill_run::Error, paths: &[&Path]) -> Failure {
    let failure = match error.kind() {
        ErrorKind::Embeddings => Failure::new(error).with_hint(Some(
            "--against BASE gives the cosine of its embeddings with those of another model"
                .to_owned(),
        )),
        _ => refused(error),
    };
    let path = match error.program() {
        Some(number) => paths.get(number),
        None => paths.first().filter(|_| paths.len() == 1),
    };
    match path {
        Some(path) => failure.within(path),
        None => failure,
    }
}

fn write_whole(mut sink: FileSink, bytes: &[u8]) -> Result<(), Failure> {
    sink.append(bytes).map_err(Failure::new)?;
    sink.commit().map_err(Failure::new)
}

/// Writes the page. Names there are without directories, as those of other reports.
fn write_page(
    page: FileSink,
    scores: &Scores,
    measured: &[(&str, Measurement)],
) -> Result<(), Failure> {
    let without_directory = |name: &str| file_name(Path::new(name));
    let names: Vec<String> = measured.iter().map(|(name, _)| without_directory(name)).collect();
    let base = scores.base().map(without_directory);
    let models = names.iter().map(String::as_str).zip(measured.iter().map(|(_, found)| found));
    let mut bytes = Vec::new();
    ggmill_run::html::Page::new(base.as_deref(), scores.context(), models)
        .with_program(concat!("ggmill ", env!("CARGO_PKG_VERSION")))
        .write(&mut bytes)?;
    write_whole(page, &bytes)
}

/// Prints what was measured, and writes it to the page if there is one.
fn report(
    scores: &Scores,
    page: Option<FileSink>,
    json: bool,
    console: Console,
) -> Result<Status, Failure> {
    let measured: Vec<(&str, Measurement)> =
        scores.models().map(|(name, scores)| (name, scores.measurement())).collect();
    if let Some(page) = page {
        write_page(page, scores, &measured)?;
    }
    let models = measured.iter().map(|(name, found)| (*name, found));
    let (base, context) = (scores.base(), scores.context());
    if json {
        let mut out = console.bytes();
        ggmill_text::json::write_pretty(&mut out, &document(base, context, models))?;
        out.flush()?;
    } else {
        let options =
            Options::default().with_width(console.width()).with_styled(console.is_styled());
        let mut out = console.text();
        Text { models: models.collect(), base, context }.write(&mut out, &options)?;
        out.flush()?;
        console.note(Measurement::ABOUT);
    }
    Ok(Status::Fine)
}

/// The tokens in chunks.
fn chunks(args: &Args, console: Console) -> Result<Chunks, Failure> {
    // All models have the same vocabulary, or are refused.
    let model = args.files.first().map_or(Path::new("-"), PathBuf::as_path);
    let chunks = args.text.chunks(model, None, console)?;
    let most = args.chunks.map(|chunks| chunks as usize);
    chunks.part(args.from_chunk, most).map_err(Failure::new)
}

/// The file of logits, with its header.
fn logits(
    path: &Path,
    inputs: &[PathBuf],
    args: &Args,
    program: &Program<'_>,
    chunks: &Chunks,
) -> Result<FileSink, Failure> {
    let rows = chunks.texts().len().saturating_mul(program.outputs_of_chunk(chunks)) as u64;
    let columns = program.output_len();
    let header = npy_header(&[rows, columns]);
    let size = rows.saturating_mul(columns).saturating_mul(4);
    let size = size.saturating_add(header.len() as u64);
    let mut sink = Output::new(path, inputs, args.force)?.start(inputs, size)?;
    sink.append(&header).map_err(Failure::new)?;
    Ok(sink)
}
