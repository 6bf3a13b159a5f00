//! `ggmill measure`: what a model makes of a text, and how far it is from another model.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill_core::Sink as _;
use ggmill_formats::npy_header;
use ggmill_io::FileSink;
use ggmill_run::json::document;
use ggmill_run::{Chunks, Distribution, Estimate, Measurement, Program};

use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::outputs::{Output, refuse_interrupted};
use crate::paths::shown;
use crate::progress::Bar;
use crate::run_model::{RunArgs, Stopped, TextArgs};
use crate::source::open_whole;

/// Measure the perplexity of a model on a text, and its KL divergence from another model
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill measure model-Q4_K_M.gguf --text wiki.test.raw
  ggmill measure model-Q4_K_M.gguf --against model-F16.gguf --text wiki.test.raw
  ggmill measure model.gguf --tokens ids.json --ctx 256 --logits logits.npy

The text is divided into chunks, and only the second half of each chunk is scored, as in \
llama-perplexity. Everything is computed in F32 on the CPU, with the same result on every machine. \
llama.cpp also rounds activations for quantized types, so its perplexities differ slightly.")]
pub(crate) struct Args {
    /// The model: a file, or any shard of a split model
    file: PathBuf,
    /// Also compute the KL divergence from this model, usually the one that FILE was quantized from
    #[arg(long, value_name = "BASE")]
    against: Option<PathBuf>,
    #[command(flatten)]
    text: TextArgs,
    /// Use at most N chunks, from the beginning of the text; at least 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    chunks: Option<u32>,
    /// Write the logits as an f32 array with one row per token
    #[arg(long, value_name = "OUT.npy")]
    logits: Option<PathBuf>,
    /// Replace OUT.npy if it exists
    #[arg(long, requires = "logits")]
    force: bool,
    #[command(flatten)]
    run: RunArgs,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let catalogue = args.run.catalogue()?;
    let model = open_whole(&args.file)?;
    let base = args.against.as_deref().map(|path| open_whole(path).map(|model| (path, model)));
    let base = base.transpose()?;
    let base_program = match &base {
        Some((path, model)) => Some(args.run.program(path, model, &catalogue, console)?),
        None => None,
    };
    let program = args.run.program(&args.file, &model, &catalogue, console)?;
    let chunks = chunks(args, console)?;
    let within = |Stopped(failure): Stopped| failure.within(&args.file);
    let runner = args.run.runner().map_err(within)?;
    let mut inputs = Vec::new();
    for model in [Some(&model), base.as_ref().map(|(_, model)| model)].into_iter().flatten() {
        inputs.extend(ggmill_io::files(model).map(|file| file.path().to_owned()));
    }
    refuse_interrupted(&inputs)?;
    let mut sink = match &args.logits {
        Some(path) => Some(logits(path, &inputs, args, &program, &chunks)?),
        None => None,
    };
    let mut bar = Bar::of_pieces(console, "chunks");
    let measured = ggmill_run::measure(
        &runner,
        &program,
        base_program.as_ref(),
        &chunks,
        sink.is_some(),
        |chunk| {
            if let Some(sink) = &mut sink {
                let bytes: Vec<u8> =
                    chunk.logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
                sink.append(&bytes).map_err(|error| Stopped(Failure::new(error)))?;
            }
            let done = (chunk.chunk as u64).saturating_add(1);
            bar.update(done, chunk.chunks as u64, "chunks");
            Ok::<_, Stopped>(())
        },
    );
    drop(bar);
    let measured = measured.map_err(within)?;
    if let Some(sink) = sink {
        sink.commit().map_err(Failure::new)?;
    }
    if args.json {
        let mut out = console.bytes();
        let base = args.against.as_ref().map(|path| shown(path).to_string());
        let file = shown(&args.file).to_string();
        let document = document(&file, base.as_deref(), chunks.context(), &measured);
        ggmill_text::json::write_pretty(&mut out, &document)?;
        out.flush()?;
    } else {
        let mut out = console.text();
        out.write_all(text(args, &chunks, &measured).as_bytes())?;
        out.flush()?;
    }
    Ok(Status::Fine)
}

/// The tokens in chunks.
fn chunks(args: &Args, console: Console) -> Result<Chunks, Failure> {
    args.text.chunks(&args.file, args.chunks.map(|chunks| chunks as usize), console)
}

/// The file of logits, with its header.
fn logits(
    path: &Path,
    inputs: &[PathBuf],
    args: &Args,
    program: &Program<'_>,
    chunks: &Chunks,
) -> Result<FileSink, Failure> {
    let rows = chunks.texts().len().saturating_mul(chunks.context()) as u64;
    let columns = program.output_len();
    let header = npy_header(&[rows, columns]);
    let size = rows.saturating_mul(columns).saturating_mul(4);
    let size = size.saturating_add(header.len() as u64);
    let mut sink = Output::new(path, inputs, args.force, false)?.start(inputs, size)?;
    sink.append(&header).map_err(Failure::new)?;
    Ok(sink)
}

fn text(args: &Args, chunks: &Chunks, measured: &Measurement) -> String {
    use std::fmt::Write as _;
    let mut out = format!("{}\n\n", Measurement::ABOUT);
    let _ = writeln!(
        out,
        "{}\n  {} chunks of {} tokens, {} tokens counted\n",
        shown(&args.file),
        measured.chunks,
        chunks.context(),
        measured.counted,
    );
    let mut line = |name: &str, estimate: &Estimate, digits: usize| {
        let (value, error) = (estimate.value, estimate.error);
        let _ = writeln!(out, "  {name:<24} {value:>12.digits$} ± {error:.digits$}");
    };
    line("perplexity", &measured.perplexity, 4);
    let Some(comparison) = &measured.comparison else { return out };
    line("perplexity of the base", &comparison.base_perplexity, 4);
    line("their ratio", &comparison.ratio, 6);
    line("KL divergence", &comparison.divergence.mean, 6);
    line("same most probable token", &comparison.same_top, 4);
    line("change of probability", &comparison.probability_change.mean, 6);
    line("its root mean square", &comparison.probability_rms, 6);
    let _ = writeln!(out, "\n  {:<8} {:>14} {:>22}", "", "KL divergence", "change of probability");
    for (name, share) in Distribution::SHARES {
        let divergence = comparison.divergence.quantile(share);
        let change = comparison.probability_change.quantile(share);
        let _ = writeln!(out, "  {name:<8} {divergence:>14.6} {change:>22.6}");
    }
    out
}
