//! `ggmill quantize --measure`: types chosen by what the quantization of each tensor does to the
//! output of the model, and a test of the result on text that was held out.

use std::path::{Path, PathBuf};

use ggmill_arch::Catalogue;
use ggmill_core::RawStr;
use ggmill_pipeline::{GgufCheckpoint, Sensitivity};
use ggmill_quantize::{ImatrixRun, Importance, ImportanceFilter, Sensitivities, ToMeasure};
use ggmill_run::{
    Chunks, Matrices, Options, Program, Runner, Trial, Tried, activations, measure, trials,
};

use super::MAX_PLAN_LEN;
use crate::arch_file::catalogue;
use crate::byte_size::byte_size;
use crate::console::Console;
use crate::outcome::Failure;
use crate::paths::shown;
use crate::progress::Bar;
use crate::run_model::{Stopped, chunks, failed, found_program, sums_of, warn_of_unused};
use crate::source::open_whole;
use crate::text_file::read_text;

/// What types for a size are chosen by, other than the error of the weights.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MeasureArgs {
    /// Choose by the effect on the output of the model: quantize one tensor at a time and measure the
    /// KL divergence on this text. Without --imatrix, the importance matrix is measured too. Every
    /// second chunk is used for that; the others test the result. - is standard input
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
    /// Quantize without an importance matrix
    #[arg(
        long,
        requires = "measured_text",
        conflicts_with = "imatrix",
        help_heading = "Measured sensitivities"
    )]
    no_imatrix: bool,
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

    /// The sensitivities in a plan. Warns where they were measured with an importance matrix and
    /// there is none.
    pub(super) fn known(
        &self,
        has_importance: bool,
        console: Console,
    ) -> Result<Option<Sensitivities>, Failure> {
        let Some(path) = &self.sensitivities else { return Ok(None) };
        let text = read_text(path, MAX_PLAN_LEN)?;
        let found = Sensitivities::parse(text.as_bytes()).map_err(|error| {
            Failure::new(format_args!("{}: {error}", shown(path))).with_hint(Some(
                "`ggmill quantize MODEL --target-bpw BITS --measure TEXT --dry-run --json` writes \
                 a plan with sensitivities"
                    .to_owned(),
            ))
        })?;
        if found.with_importance() && !has_importance {
            console.warn(format_args!(
                "{}: the sensitivities were measured with an importance matrix; without --imatrix \
                 the choice is worse, and so is the result",
                shown(path)
            ));
        }
        Ok(Some(found))
    }
}

/// A model that is run over a text in two halves.
pub(super) struct Measuring<'a> {
    path: &'a Path,
    catalogue: Catalogue,
    program: Program<'a>,
    runner: Runner,
    /// What the importance matrix is said to be measured on, where one is to be measured.
    importance_of: Option<String>,
    /// What sensitivities are measured with.
    fitted: Chunks,
    /// What the result is tested with.
    held_out: Chunks,
}

impl<'a> Measuring<'a> {
    /// Reads the text, where there is one. Where there is an importance matrix, none is measured.
    pub(super) fn start(
        args: &super::Args,
        (path, checkpoint): (&'a Path, &'a GgufCheckpoint),
        threads: Option<usize>,
        console: Console,
    ) -> Result<Option<Self>, Failure> {
        let (arch_file, has_importance) = (&*args.arch_file, args.types.imatrix.is_some());
        let args = &args.measuring;
        let (text, listed) = (args.measure.as_deref(), args.measure_tokens.as_deref());
        let Some(read) = text.or(listed) else { return Ok(None) };
        let size = (args.ctx, Some(args.chunks as usize));
        let chunks = chunks(path, text, listed, "--measure-tokens", size, console)?;
        let (fitted, held_out) = chunks.halves();
        let options = Options::default().with_threads(threads).with_memory(args.memory);
        let runner = Runner::new(options).map_err(|error| failed(path, &error))?;
        let catalogue = catalogue(arch_file)?;
        let program = found_program(path, checkpoint.model(), &catalogue, None, console)?;
        let measures_importance = !(has_importance || args.no_imatrix);
        let importance_of = measures_importance.then(|| read.to_string_lossy().into_owned());
        Ok(Some(Self { path, catalogue, program, runner, importance_of, fitted, held_out }))
    }

    /// Measures how much each column of each matrix matters, unless that is known or not wanted.
    pub(super) fn importance(&self, console: Console) -> Result<Option<Importance>, Failure> {
        let Some(dataset) = &self.importance_of else { return Ok(None) };
        let texts = self.fitted.texts();
        let mut bar = Bar::of_pieces(console, "chunks");
        let sums = activations(&self.runner, &self.program, texts, Matrices::All, |_, done| {
            bar.update(done as u64, texts.len() as u64, "importance");
            Ok::<_, Stopped>(())
        });
        drop(bar);
        let sums = sums.map_err(|Stopped(failure)| failure.within(self.path))?;
        warn_of_unused(&sums, console);
        let run = ImatrixRun::new(self.fitted.context()).with_dataset(Some(dataset.clone()));
        let imatrix = run.imatrix(sums_of(&sums), texts.len()).map_err(Failure::new)?;
        Ok(Importance::new(&imatrix, None, &ImportanceFilter::All))
    }

    /// Measures tensors whose types are to be chosen.
    pub(super) fn sensitivities(
        &self,
        tensors: Vec<ToMeasure>,
        console: Console,
    ) -> Result<Sensitivities, Failure> {
        let trial = |tensor: &ToMeasure| {
            let name = String::from_utf8_lossy(&tensor.name);
            Trial::new(name, tensor.ggml_type).with_importance(tensor.importance.clone())
        };
        let asked: Vec<Trial> = tensors.iter().map(trial).collect();
        let mut bar = Bar::of_pieces(console, "tensors");
        let found = trials(&self.runner, &self.program, &self.fitted, &asked, |done, all| {
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
            let found = Sensitivity::new(tensor.ggml_type, divergence)?;
            Some((tensor.name, found.with_importance(tensor.importance.is_some())))
        };
        Ok(tensors.into_iter().zip(found).filter_map(sensitivity).collect())
    }

    /// Measures what was written on the text that was held out, and says what was found.
    pub(super) fn test(
        &self,
        written: &Path,
        predicted: Option<f64>,
        console: Console,
    ) -> Result<(), Failure> {
        let model = open_whole(written)?;
        let program = found_program(written, &model, &self.catalogue, None, console)?;
        let mut bar = Bar::of_pieces(console, "chunks");
        let measured =
            measure(&self.runner, &program, Some(&self.program), &self.held_out, false, |chunk| {
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
             most probable token is the same at {same:.1}% of {} positions",
            mean.value, mean.error, measured.counted
        ));
        Ok(())
    }
}
