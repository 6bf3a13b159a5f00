//! Data that go from file to file as they are: which of them lie there as they will lie here.

use ggmill_io::RandomAccess;

use crate::error::Result;
use crate::expression::Piece;
use crate::plan::Plan;
use crate::source::{Checkpoint, FileRange};

/// Bytes that are moved at once, unless a single tensor has more: often enough to show progress,
/// seldom enough not to matter.
const PIECE: u64 = 64 << 20;

/// The most padding that is examined for joining tensors. Each byte of it has to be a zero.
const MAX_PADDING: usize = 4096;

/// Neighboring tensors that are neighbors in a file too, with the same padding between them.
#[derive(Debug)]
pub(crate) struct CopySpan<'a> {
    pub(crate) file: &'a RandomAccess,
    /// Where the first of them begins in that file.
    pub(crate) offset: u64,
    /// Bytes up to the end of the last, padding between them included.
    pub(crate) len: u64,
    /// The tensor after the last.
    pub(crate) end: usize,
}

impl<'a> CopySpan<'a> {
    /// The spans that begin with this tensor, one after the other: one that may go on over tensors
    /// after it, or as many as the tensor is made of. `None` when the run has to look at its data.
    pub(crate) fn from(
        plan: &Plan,
        source: &'a dyn Checkpoint,
        number: usize,
    ) -> Option<Vec<Self>> {
        let planned = plan.layout.tensors();
        let first = planned.get(number).filter(|tensor| tensor.size() > 0)?;
        let mut spans = ranges_of(plan, source, number)?;
        let [span] = &mut spans[..] else { return Some(spans) };
        while let Some(next) = planned.get(span.end).filter(|_| span.len < PIECE) {
            let gap = next.offset().saturating_sub(first.offset()).saturating_sub(span.len);
            // Several tensors are one piece.
            let joined = span.len.saturating_add(gap).saturating_add(next.size());
            if joined >= 2 * PIECE
                || next.size() > 0
                    && !span.reaches(ranges_of(plan, source, span.end).as_deref(), gap)
            {
                break;
            }
            if next.size() > 0 {
                span.len = joined;
            }
            span.end += 1;
        }
        Some(spans)
    }

    /// Calls `each` with the bytes of a piece, a little at a time.
    pub(crate) fn read(
        &self,
        mut offset: u64,
        mut len: u64,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(1 << 20)];
        while len > 0 {
            let bytes = &mut buffer[..usize::try_from(len).unwrap_or(usize::MAX).min(1 << 20)];
            self.file.read_at(offset, bytes)?;
            each(bytes)?;
            (offset, len) = (offset + bytes.len() as u64, len - bytes.len() as u64);
        }
        Ok(())
    }

    /// Whether this is one range that begins where this span ends, with only so many zeros in
    /// between.
    fn reaches(&self, ranges: Option<&[CopySpan<'_>]>, gap: u64) -> bool {
        let end = self.offset.saturating_add(self.len);
        let Some([range]) = ranges else { return false };
        std::ptr::eq(range.file, self.file)
            && range.offset.checked_sub(gap) == Some(end)
            && zeros(self.file, end, gap)
    }

    /// The span in pieces: offsets in the file and lengths. More than one tensor is always one
    /// piece, so that none ends within padding.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let Self { offset, len, .. } = *self;
        let step = if len < 2 * PIECE { len } else { PIECE };
        (0..len.div_ceil(step.max(1)))
            .map(move |piece| (offset + piece * step, step.min(len - piece * step)))
    }
}

/// Where a tensor's data lie when nothing is done to them.
fn ranges_of<'a>(
    plan: &Plan,
    source: &'a dyn Checkpoint,
    number: usize,
) -> Option<Vec<CopySpan<'a>>> {
    let pieces = plan.expressions.get(number)?.copies()?;
    let span = |piece: Piece| {
        // What is elsewhere is read by several threads, as other data are.
        let range = source.range(piece.tensor).filter(|range| !range.file.is_remote());
        let FileRange { file, offset, endian } = range?;
        let offset = offset
            .checked_add(piece.offset)
            .filter(|offset| endian == plan.endian && offset.checked_add(piece.len).is_some())?;
        Some(CopySpan { file, offset, len: piece.len, end: number + 1 })
    };
    pieces.into_iter().map(span).collect()
}

fn zeros(file: &RandomAccess, offset: u64, len: u64) -> bool {
    let mut bytes = [0; MAX_PADDING];
    match usize::try_from(len).ok().and_then(|len| bytes.get_mut(..len)) {
        Some([]) => true,
        Some(bytes) => file.read_at(offset, bytes).is_ok() && bytes.iter().all(|&byte| byte == 0),
        None => false,
    }
}
