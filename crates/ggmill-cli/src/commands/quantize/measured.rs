//! The options of `ggmill quantize --measure`: types chosen by what the quantization of each tensor
//! does to the output of the model, and a test of the result on text that was held out.

use std::path::PathBuf;

use ggmill::{Calibration, RunText};
use ggmill_run::Chunks;

use crate::byte_size::byte_size;

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

    /// What is measured, if anything is.
    pub(super) fn measure(&self) -> Option<Calibration> {
        let text = self.measure.as_ref().map(RunText::file);
        let text = text.or_else(|| self.measure_tokens.as_ref().map(RunText::token_file))?;
        let text = text.context(self.ctx).chunks(Some(self.chunks as usize));
        Some(Calibration::new(text).memory(self.memory).without_importance(self.no_imatrix))
    }

    /// The plan whose sensitivities are used.
    pub(super) fn known(&self) -> Option<&PathBuf> {
        self.sensitivities.as_ref()
    }
}
