//! `ggmill quantize --measure`: types chosen by what the quantization of each tensor does to the
//! output of the model, and a test of the result on text that was held out.

use std::path::{Path, PathBuf};

use ggmill_arch::Catalogue;
use ggmill_core::RawStr;
use ggmill_pipeline::{GgufCheckpoint, Sensitivity};
use ggmill_quantize::{Sensitivities, ToMeasure};
use ggmill_run::{Chunks, Options, Program, Runner, Trial, Tried, measure, trials};

use super::MAX_PLAN_LEN;
use crate::arch_file::catalogue;
use crate::byte_size::byte_size;
use crate::console::Console;
use crate::outcome::Failure;
use crate::paths::shown;
use crate::progress::Bar;
use crate::run_model::{Stopped, chunks, failed, found_program};
use crate::source::open_whole;
use crate::text_file::read_text;

/// What types for a size are chosen by, other than the error of the weights.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MeasureArgs {
    /// Choose by the effect on the output of the model: quantize one tensor at a time and measure the
    /// KL divergence on this text. Every second chunk is used for that; the others test the result.
    /// - is standard input
    #[arg(
        long,
        value_name = "TEXT",
        group = "measured_text",
        help_heading = "Measured sensitivities"
    )]
    measure: Option<PathBuf>,
    /// Token IDs to measure with instead of a text, as a JSON array; - is standard input
    #[arg(
        long,
        value_name = "IDS.json",
        group = "measured_text",
        help_heading = "Measured sensitivities"
    )]
    measure_tokens: Option<PathBuf>,
    /// Use the sensitivities in a plan that was written with --measure, --dry-run and --json
    #[arg(
        long,
        value_name = "PLAN",
        conflicts_with = "measured_text",
        help_heading = "Measured sensitivities"
    )]
    sensitivities: Option<PathBuf>,
    /// Number of tokens per chunk
    #[arg(long, value_name = "N", default_value_t = Chunks::CONTEXT, requires = "measured_text", help_heading = "Measured sensitivities")]
    ctx: usize,
    /// Use at most N chunks, from the beginning of the text; at least 2
    #[arg(
        long,
        value_name = "N",
        default_value_t = 8,
        value_parser = clap::value_parser!(u32).range(2..),
        requires = "measured_text",
        help_heading = "Measured sensitivities"
    )]
    chunks: u32,
    /// Memory for intermediate results; it limits how many chunks are computed at once
    #[arg(long, value_name = "SIZE", value_parser = byte_size, default_value = "2GiB", requires = "measured_text", help_heading = "Measured sensitivities")]
    memory: u64,
}

impl MeasureArgs {
    /// The option that was given, if any.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            (&self.measure, "--measure"),
            (&self.measure_tokens, "--measure-tokens"),
            (&self.sensitivities, "--sensitivities"),
        ];
        given.into_iter().find_map(|(path, option)| path.as_ref().map(|_| option))
    }

    /// The files that are read.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let files = [&self.measure, &self.measure_tokens, &self.sensitivities];
        files.into_iter().flatten().filter(|path| path.as_os_str() != "-")
    }

    /// The sensitivities in a plan.
    pub(super) fn known(&self) -> Result<Option<Sensitivities>, Failure> {
        let Some(path) = &self.sensitivities else { return Ok(None) };
        let text = read_text(path, MAX_PLAN_LEN)?;
        let found = Sensitivities::parse(text.as_bytes()).map_err(|error| {
            Failure::new(format_args!("{}: {error}", shown(path))).with_hint(Some(
                "`ggmill quantize MODEL --target-bpw BITS --measure TEXT --dry-run --json` writes \
                 a plan with sensitivities"
                    .to_owned(),
            ))
        })?;
        Ok(Some(found))
    }
}

/// A model that is run over a text in two halves.
pub(super) struct Measuring<'a> {
    path: &'a Path,
    catalogue: Catalogue,
    runner: Runner,
    /// What sensitivities are measured with.
    fitted: Chunks,
    /// What the result is tested with.
    held_out: Chunks,
}

impl<'a> Measuring<'a> {
    /// Reads the text, where there is one.
    pub(super) fn start(
        args: &MeasureArgs,
        path: &'a Path,
        arch_file: &[PathBuf],
        threads: Option<usize>,
        console: Console,
    ) -> Result<Option<Self>, Failure> {
        let (text, listed) = (args.measure.as_deref(), args.measure_tokens.as_deref());
        if text.is_none() && listed.is_none() {
            return Ok(None);
        }
        let size = (args.ctx, Some(args.chunks as usize));
        let chunks = chunks(path, text, listed, "--measure-tokens", size, console)?;
        let (fitted, held_out) = chunks.halves();
        let options = Options::default().with_threads(threads).with_memory(args.memory);
        let runner = Runner::new(options).map_err(|error| failed(path, &error))?;
        Ok(Some(Self { path, catalogue: catalogue(arch_file)?, runner, fitted, held_out }))
    }

    fn program<'m>(
        &self,
        checkpoint: &'m GgufCheckpoint,
        console: Console,
    ) -> Result<Program<'m>, Failure> {
        found_program(self.path, checkpoint.model(), &self.catalogue, None, console)
    }

    /// Measures tensors whose types are to be chosen.
    pub(super) fn sensitivities(
        &self,
        checkpoint: &GgufCheckpoint,
        tensors: Vec<ToMeasure>,
        console: Console,
    ) -> Result<Sensitivities, Failure> {
        let program = self.program(checkpoint, console)?;
        let trial = |tensor: &ToMeasure| {
            let name = String::from_utf8_lossy(&tensor.name);
            Trial::new(name, tensor.ggml_type).with_importance(tensor.importance.clone())
        };
        let asked: Vec<Trial> = tensors.iter().map(trial).collect();
        let mut bar = Bar::of_pieces(console, "tensors");
        let found = trials(&self.runner, &program, &self.fitted, &asked, |done, all| {
            bar.update(done as u64, all as u64, "tensors");
            Ok::<_, Stopped>(())
        });
        drop(bar);
        let found = found.map_err(|Stopped(failure)| failure.within(self.path))?;
        let those = |outcome: Tried| {
            let tried = tensors.iter().zip(&found);
            tried.filter(move |(_, found)| **found == outcome).map(|(tensor, _)| tensor)
        };
        let unused = those(Tried::Unused).count();
        let not_finite: Vec<&ToMeasure> = those(Tried::NotFinite).collect();
        if unused > 0 {
            console.note(format_args!(
                "{unused} tensors are not in the computation graph and keep their types"
            ));
        }
        if let [first, others @ ..] = &*not_finite {
            let more = match others.len() {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            console.warn(format_args!(
                "{} as {}{more}: the output of the model is not finite, so the tensor keeps its \
                 type",
                RawStr::new(&first.name),
                first.ggml_type
            ));
        }
        let sensitivity = |(tensor, found): (ToMeasure, Tried)| {
            let divergence = found.divergence()?.value;
            Some((tensor.name, Sensitivity::new(tensor.ggml_type, divergence)?))
        };
        Ok(tensors.into_iter().zip(found).filter_map(sensitivity).collect())
    }

    /// Measures what was written on the text that was held out, and says what was found.
    pub(super) fn test(
        &self,
        checkpoint: &GgufCheckpoint,
        written: &Path,
        predicted: Option<f64>,
        console: Console,
    ) -> Result<(), Failure> {
        let model = open_whole(written)?;
        let program = found_program(written, &model, &self.catalogue, None, console)?;
        let base = self.program(checkpoint, console)?;
        let mut bar = Bar::of_pieces(console, "chunks");
        let measured =
            measure(&self.runner, &program, Some(&base), &self.held_out, false, |chunk| {
                let done = (chunk.chunk as u64).saturating_add(1);
                bar.update(done, chunk.chunks as u64, "chunks");
                Ok::<_, Stopped>(())
            });
        drop(bar);
        let measured = measured.map_err(|Stopped(failure)| failure.within(written))?;
        let Some(comparison) = measured.comparison else { return Ok(()) };
        let (mean, same) = (comparison.divergence.mean, comparison.same_top.value * 100.0);
        let predicted = predicted.map_or_else(String::new, |it| format!(", {it:.6} was predicted"));
        console.note(format_args!(
            "KL divergence on text that was not used for the choice: {:.6} ± {:.6}{predicted}; the \
             most probable token is the same at {same:.1} % of {} positions",
            mean.value, mean.error, measured.counted
        ));
        Ok(())
    }
}
