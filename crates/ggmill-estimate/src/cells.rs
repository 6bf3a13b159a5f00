//! How many cells a cache has.

use crate::error::{ErrorKind, Result};
use crate::options::Options;
use crate::size::{padded, product, sum};

/// Caches have a number of cells that is a multiple of this.
const CELLS: u64 = 256;
/// The most tokens of a context, and the most that are computed together.
const MAX_TOKENS: u64 = 1 << 31;
/// The most sequences.
const MAX_SEQUENCES: u64 = 1 << 16;

/// How the cells of the caches are divided, which are as many as there can be tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cells {
    /// Tokens that a sequence can have, or all sequences together where they share the cells.
    pub context: u64,
    /// Caches side by side: one, or one for each sequence.
    pub streams: u64,
    /// Sequences.
    pub sequences: u64,
    /// Tokens that are computed together.
    pub micro_batch: u64,
}

impl Cells {
    /// The cells of a model that was trained with this context.
    pub(crate) fn new(options: &Options, trained: Option<u64>) -> Result<Self> {
        let context = options.context.or(trained).ok_or(ErrorKind::NoContext)?;
        let sequences = options.sequences;
        for (what, found, limit) in [
            ("tokens of context", context, MAX_TOKENS),
            ("tokens of a batch", options.batch, MAX_TOKENS),
            ("tokens of a micro-batch", options.micro_batch, MAX_TOKENS),
            ("sequences", sequences, MAX_SEQUENCES),
        ] {
            if !(1..=limit).contains(&found) {
                return Err(ErrorKind::OutOfRange { what, found, limit }.into());
            }
        }
        let snapshots = options.state_snapshots;
        if snapshots > MAX_SEQUENCES {
            let what = "saved recurrent states";
            return Err(
                ErrorKind::OutOfRange { what, found: snapshots, limit: MAX_SEQUENCES }.into()
            );
        }
        // No more tokens are computed together than there is context for.
        let micro_batch = options.micro_batch.min(options.batch).min(context);
        let whole = padded(context, CELLS)?;
        let part = whole.checked_div(sequences).unwrap_or(whole);
        let (context, streams) =
            if options.unified { (whole, 1) } else { (padded(part, CELLS)?, sequences) };
        Ok(Self { context, streams, sequences, micro_batch })
    }

    /// Tokens that there is room for, of all sequences together.
    pub(crate) fn tokens(self) -> u64 {
        self.context.saturating_mul(self.streams)
    }

    /// The cells of a cache for a window, in each stream.
    pub(crate) fn of_window(self, window: u64, streams: u64) -> Result<u64> {
        let sharing = if streams == 1 { self.sequences } else { 1 };
        let wanted = sum(product(&[window, sharing])?, self.micro_batch)?;
        padded(wanted.min(self.context), CELLS)
    }

    /// The cells of a cache of which several tokens share one, in each stream.
    pub(crate) fn of_compressed(self, tokens: u64) -> Result<u64> {
        padded(self.context.div_ceil(tokens.max(1)).max(1), CELLS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_whole_multiples_and_as_many_as_tokens() {
        let cells = |context, sequences, unified| {
            let options =
                Options { context: Some(context), sequences, unified, ..Options::default() };
            Cells::new(&options, None)
                .map(|cells| (cells.context, cells.streams, cells.micro_batch))
        };
        assert_eq!(cells(1, 1, false).unwrap(), (256, 1, 1));
        assert_eq!(cells(5000, 1, false).unwrap(), (5120, 1, 512));
        assert_eq!(cells(5000, 3, false).unwrap(), (1792, 3, 512));
        assert_eq!(cells(5000, 3, true).unwrap(), (5120, 1, 512));
        assert!(cells(0, 1, false).is_err() && cells(1, 0, false).is_err());
    }

    #[test]
    fn a_window_has_room_for_what_is_computed_together() {
        let options = Options { context: Some(8192), sequences: 2, ..Options::default() };
        let cells = Cells::new(&options, None).unwrap();
        assert_eq!(cells.of_window(1024, 2).unwrap(), 1536);
        let shared = Cells::new(&Options { unified: true, ..options }, None).unwrap();
        assert_eq!(shared.of_window(1024, 1).unwrap(), 2560);
        assert_eq!(shared.of_window(100_000, 1).unwrap(), 8192);
    }
}
