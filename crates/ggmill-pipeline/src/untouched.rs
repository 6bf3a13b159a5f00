//! Data that go from file to file as they are: which of them lie there as they will lie here.

use ggmill_core::PlannedTensor;
use ggmill_io::RandomAccess;

use crate::plan::{Job, Plan, Work};
use crate::source::{Checkpoint, FileRange};

/// Bytes that are moved at once, unless a single tensor has more: often enough to show progress, seldom enough not to matter.
const PIECE: u64 = 64 << 20;

/// The most padding that is looked at for joining tensors. Each byte of it has to be a zero.
const MOST_PADDING: usize = 4096;

/// Neighbouring tensors that are neighbours in a file too, with the same padding between them.
#[derive(Debug)]
pub(crate) struct Untouched<'a> {
    pub(crate) file: &'a RandomAccess,
    /// Where the first of them begins in that file.
    pub(crate) offset: u64,
    /// Bytes up to the end of the last, padding between them included.
    pub(crate) len: u64,
    /// The tensor behind the last.
    pub(crate) end: usize,
}

impl<'a> Untouched<'a> {
    /// The span that begins with this tensor, or `None` when the run has to look at its data.
    pub(crate) fn from(plan: &Plan, checkpoint: &'a dyn Checkpoint, number: usize) -> Option<Self> {
        let planned = plan.layout.tensors();
        let first = planned.get(number).filter(|tensor| tensor.size() > 0)?;
        let range = range_of(plan, checkpoint, number)?;
        let mut span = Self { file: range.file, offset: range.offset, len: first.size(), end: number + 1 };
        while let Some(next) = planned.get(span.end).filter(|_| span.len < PIECE) {
            let gap = next.offset().saturating_sub(first.offset()).saturating_sub(span.len);
            // Several tensors are one piece.
            let joined = span.len.saturating_add(gap).saturating_add(next.size());
            if joined >= 2 * PIECE || next.size() > 0 && !span.reaches(&range_of(plan, checkpoint, span.end), gap) {
                break;
            }
            if next.size() > 0 {
                span.len = joined;
            }
            span.end += 1;
        }
        Some(span)
    }

    /// Whether the range begins where this span ends, with only so many zeros in between.
    #[expect(clippy::ref_option, reason = "held as it is by the one who asks")]
    fn reaches(&self, range: &Option<FileRange<'_>>, gap: u64) -> bool {
        let end = self.offset.saturating_add(self.len);
        range.is_some_and(|range| std::ptr::eq(range.file, self.file) && range.offset.checked_sub(gap) == Some(end)) && zeros(self.file, end, gap)
    }

    /// The span in pieces: offsets in the file and lengths. More than one tensor is always one piece, so that none ends within padding.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let Self { offset, len, .. } = *self;
        let step = if len < 2 * PIECE { len } else { PIECE };
        (0..len.div_ceil(step.max(1))).map(move |piece| (offset + piece * step, step.min(len - piece * step)))
    }
}

/// Where a tensor's data lie when nothing is done to them.
fn range_of<'a>(plan: &Plan, checkpoint: &'a dyn Checkpoint, number: usize) -> Option<FileRange<'a>> {
    let Job { work: Work::Gather { from, sources, map }, to, encoding, .. } = plan.jobs.get(number)? else { return None };
    let (&[source], true, true, false) = (&sources[..], from == to, map.is_plain(), encoding.finite) else { return None };
    let end = |range: &FileRange<'_>| range.offset.checked_add(plan.layout.tensors().get(number).map_or(0, PlannedTensor::size));
    checkpoint.range(source).filter(|range| range.endian == plan.endian && end(range).is_some())
}

fn zeros(file: &RandomAccess, offset: u64, len: u64) -> bool {
    let mut bytes = [0; MOST_PADDING];
    match usize::try_from(len).ok().and_then(|len| bytes.get_mut(..len)) {
        Some([]) => true,
        Some(bytes) => file.read_at(offset, bytes).is_ok() && bytes.iter().all(|&byte| byte == 0),
        None => false,
    }
}
