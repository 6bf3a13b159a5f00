//! Reading the source: the elements that are wanted of one tensor, in as few pieces as makes sense.

use super::CHUNK;
use super::copy::{Out, of_linear, size};
use super::region::{Linear, join};
use crate::buffers::resize;
use crate::error::Result;
use crate::source::Checkpoint;

/// Bytes between two pieces that are read along rather than ignored: passing over takes a call of
/// the system.
const GAP: u64 = 2048;

/// Bytes that become numbers at once, while they are in a near cache.
const NEAR: usize = 1 << 16;

/// Elements of one tensor that are wanted.
pub(super) struct Reading<'a, 'o> {
    pub(super) number: usize,
    /// Bytes of an atom.
    pub(super) atom: usize,
    pub(super) out: &'a mut Out<'o>,
    /// Bytes that are read before they are copied to their places.
    pub(super) buffer: Vec<u8>,
}

impl Reading<'_, '_> {
    /// Reads the atoms from `start` on along the loops.
    pub(super) fn read(
        &mut self,
        source: &dyn Checkpoint,
        start: u64,
        mut loops: Vec<Linear>,
        to: u64,
    ) -> Result<()> {
        join(&mut loops);
        let atom = self.atom as u64;
        let run = match *loops {
            [] => Some(1),
            [Linear { count, step: 1, to: 1 }] => Some(count),
            _ => None,
        };
        if let Some(count) = run {
            return self.read_run(source, start, count, to);
        }
        let wanted: u64 =
            loops.iter().filter(|this| this.step > 0).map(|this| this.count).product();
        let span: u64 = loops.iter().map(|this| (this.count - 1) * this.step).sum::<u64>() + 1;
        let Some(last) = loops.last().copied() else { return Ok(()) };
        let is_dense = (span.saturating_sub(wanted)).saturating_mul(atom)
            <= wanted.saturating_mul(atom).max(GAP.saturating_mul(last.count));
        if is_dense && span <= 2 * CHUNK || last.step <= 1 {
            resize(&mut self.buffer, size(span.saturating_mul(atom)))?;
            source.read(self.number, start * atom, &mut self.buffer)?;
            self.out.put_bytes(&of_linear(&loops), &self.buffer, size(to));
            return Ok(());
        }
        loops.pop();
        if is_dense && last.count > 2 {
            for (first, count) in
                [(0, last.count / 2), (last.count / 2, last.count - last.count / 2)]
            {
                let half = loops.iter().copied().chain([Linear { count, ..last }]).collect();
                self.read(source, start + first * last.step, half, to + first * last.to)?;
            }
            return Ok(());
        }
        for i in 0..last.count {
            self.read(source, start + i * last.step, loops.clone(), to + i * last.to)?;
        }
        Ok(())
    }

    /// Reads neighbors that stay neighbors.
    fn read_run(&mut self, source: &dyn Checkpoint, start: u64, count: u64, to: u64) -> Result<()> {
        let (count, to, atom) = (size(count), size(to), self.atom);
        match &mut *self.out {
            Out::Bytes { bytes, .. } => source.read(
                self.number,
                start * atom as u64,
                &mut bytes[to * atom..][..count * atom],
            ),
            Out::Floats(floats) => {
                let mut at = start * 4;
                for floats in floats[to..][..count].chunks_mut(NEAR / 4) {
                    self.buffer.resize(4 * floats.len(), 0);
                    source.read(self.number, at, &mut self.buffer)?;
                    for (float, &bytes) in floats.iter_mut().zip(self.buffer.as_chunks::<4>().0) {
                        *float = f32::from_le_bytes(bytes);
                    }
                    at += self.buffer.len() as u64;
                }
                Ok(())
            }
        }
    }
}
