//! The options of `ggmill convert` for legacy files.

use ggmill_convert::LegacyOptions;

/// Values that these files do not contain.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Legacy files (values that they do not store)")]
pub(crate) struct LegacyArgs {
    /// Context length in tokens: 2048 for LLaMA, 4096 for LLaMA 2
    #[arg(long, value_name = "N", default_value_t = 2048)]
    context_length: u32,
    /// RMS norm epsilon: 1e-6 for LLaMA, 1e-5 for LLaMA 2; the default is that of llama.cpp's
    /// legacy converter
    #[arg(long, value_name = "X", default_value_t = 5e-6)]
    eps: f32,
    /// Number of KV heads, if there are fewer KV heads than attention heads: 8 for LLaMA 2 70B
    #[arg(long, value_name = "N")]
    kv_heads: Option<u32>,
}

impl LegacyArgs {
    pub(super) fn options(&self) -> LegacyOptions {
        let mut options = LegacyOptions::default();
        options.context_length = self.context_length;
        options.rms_norm_epsilon = self.eps;
        options.head_count_kv = self.kv_heads;
        options
    }
}
