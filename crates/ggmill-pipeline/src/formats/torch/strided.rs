//! The elements of a tensor that are not side by side in their storage.

use crate::{Result, zeroed};
use ggmill_io::RandomAccess;

/// Bytes that are read at once, where enough of them are wanted.
const WINDOW: u64 = 1 << 20;
/// Bytes that are read whatever is wanted of them: a call of the system costs more.
const GAP: u64 = 4096;
/// Bytes are read along where this share of them is wanted.
const SHARE: u64 = 8;

/// A dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dimension {
    pub(super) size: u64,
    /// Elements of the storage from one index to the next.
    pub(super) stride: u64,
}

/// Dimensions of a box with the elements of the output from one index to the next.
#[derive(Clone, Copy, Debug)]
struct Loop {
    count: u64,
    stride: u64,
    to: u64,
}

/// A view whose elements are not in the order of its indices.
#[derive(Debug)]
pub(super) struct Strided {
    /// Fastest first.
    dimensions: Vec<Dimension>,
    /// Bytes of an element.
    unit: u64,
}

impl Strided {
    /// The dimensions fastest first; `None` where the elements are in the order of the indices.
    pub(super) fn new(dimensions: Vec<Dimension>, unit: u64) -> Option<Self> {
        let mut next = 1;
        for dimension in dimensions.iter().filter(|dimension| dimension.size != 1) {
            if dimension.stride != next {
                return Some(Self { dimensions, unit });
            }
            // The caller has seen that the number of elements fits.
            next = dimension.size.saturating_mul(next);
        }
        None
    }

    /// Fills `out` with the bytes from `offset` of the view on. Its first element is at `start` in
    /// the file, and the file has them all.
    pub(super) fn read(
        &self,
        file: &RandomAccess,
        start: u64,
        offset: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let unit = self.unit.max(1);
        let end = offset.saturating_add(out.len() as u64);
        let (first, last) = (offset / unit, end.div_ceil(unit));
        if first * unit == offset && last * unit == end {
            return Gather { file, unit }.fill(&self.dimensions, start, first, last - first, out);
        }
        // A reader that cuts elements gets them whole.
        let whole = last.saturating_sub(first).saturating_mul(unit);
        let mut bytes = zeroed(usize::try_from(whole).unwrap_or(usize::MAX))?;
        Gather { file, unit }.fill(&self.dimensions, start, first, last - first, &mut bytes)?;
        let skip = usize::try_from(offset - first * unit).unwrap_or(usize::MAX);
        for (to, from) in out.iter_mut().zip(bytes.get(skip..).unwrap_or_default()) {
            *to = *from;
        }
        Ok(())
    }
}

struct Gather<'a> {
    file: &'a RandomAccess,
    unit: u64,
}

impl Gather<'_> {
    /// Elements `first..first + count` of a view that begins at `start` in the file: rows that are
    /// not whole, one by one, and a box of whole ones between them.
    fn fill(
        &self,
        dimensions: &[Dimension],
        start: u64,
        first: u64,
        count: u64,
        mut out: &mut [u8],
    ) -> Result<()> {
        let Some((&slowest, faster)) = dimensions.split_last() else {
            return self.gather(&[], start, out);
        };
        let inner: u64 = faster.iter().map(|dimension| dimension.size).product();
        let (mut first, mut count) = (first, count);
        while count > 0 && inner > 0 {
            let (index, skipped) = (first / inner, first % inner);
            let at = start.saturating_add(index * slowest.stride * self.unit);
            let whole = if skipped == 0 { count / inner } else { 0 };
            let taken = if whole > 0 { whole * inner } else { count.min(inner - skipped) };
            let bytes = usize::try_from(taken * self.unit).unwrap_or(usize::MAX);
            let (part, rest) = out.split_at_mut(bytes.min(out.len()));
            if whole > 0 {
                let mut to = 1;
                let counts = faster.iter().map(|dimension| (dimension.size, dimension.stride));
                let loops: Vec<Loop> = counts
                    .chain([(whole, slowest.stride)])
                    .map(|(count, stride)| {
                        let this = Loop { count, stride, to };
                        to *= count;
                        this
                    })
                    .filter(|this| this.count > 1)
                    .collect();
                self.gather(&loops, at, part)?;
            } else {
                self.fill(faster, at, skipped, taken, part)?;
            }
            (first, count, out) = (first + taken, count - taken, rest);
        }
        Ok(())
    }

    /// Reads a box: its span in one piece, or half of it and then the other half.
    fn gather(&self, loops: &[Loop], start: u64, out: &mut [u8]) -> Result<()> {
        let span: u64 = loops.iter().map(|this| (this.count - 1) * this.stride).sum::<u64>() + 1;
        let wanted: u64 = loops.iter().map(|this| this.count).product();
        let bytes = span.saturating_mul(self.unit);
        let is_dense = wanted.saturating_mul(SHARE) >= span || bytes <= GAP;
        let widest = (0..loops.len()).max_by_key(|&number| {
            loops.get(number).map_or(0, |this| (this.count - 1) * this.stride)
        });
        let widest = widest.filter(|_| !is_dense || bytes > WINDOW).and_then(|number| {
            let this = *loops.get(number)?;
            (this.count > 1 && this.stride > 0).then_some((number, this))
        });
        let Some((number, this)) = widest else {
            let mut piece = zeroed(usize::try_from(bytes).unwrap_or(usize::MAX))?;
            self.file.read_at(start, &mut piece)?;
            scatter(loops, usize::try_from(self.unit).unwrap_or(1), &piece, out);
            return Ok(());
        };
        let half = this.count / 2;
        for (from, count) in [(0, half), (half, this.count - half)] {
            let mut part = loops.to_vec();
            if let Some(own) = part.get_mut(number) {
                own.count = count;
            }
            let to = usize::try_from(from * this.to * self.unit).unwrap_or(usize::MAX);
            let start = start.saturating_add(from * this.stride * self.unit);
            self.gather(&part, start, out.get_mut(to..).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Copies the elements of a box from the bytes of its span to their places.
fn scatter(loops: &[Loop], unit: usize, from: &[u8], out: &mut [u8]) {
    let Some((slowest, faster)) = loops.split_last() else {
        if let (Some(to), Some(from)) = (out.get_mut(..unit), from.get(..unit)) {
            to.copy_from_slice(from);
        }
        return;
    };
    let of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    if faster.is_empty() && slowest.stride == 1 {
        let bytes = of(slowest.count).saturating_mul(unit);
        if let (Some(to), Some(from)) = (out.get_mut(..bytes), from.get(..bytes)) {
            to.copy_from_slice(from);
        }
        return;
    }
    for index in 0..slowest.count {
        let (from_at, to_at) = (of(index * slowest.stride), of(index * slowest.to));
        let from = from.get(from_at.saturating_mul(unit)..).unwrap_or_default();
        let out = out.get_mut(to_at.saturating_mul(unit)..).unwrap_or_default();
        scatter(faster, unit, from, out);
    }
}
