//! Tensor data: canonical, or raw where the name says so.

use alloc::vec::Vec;

use super::Model;
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::{Endian, Tensor, memory, swap_bytes};

impl Model {
    /// The data of a tensor of this model in canonical form: blocks in little-endian order.
    ///
    /// Fails for an unknown type, for a retired one of a big-endian file whose blocks cannot be
    /// byte-swapped, and when the data cannot be read.
    pub fn read_tensor(&self, tensor: &Tensor<'_>) -> Result<Vec<u8>> {
        let size = tensor.known_size()?;
        if let Some(len) = self.parts().get(tensor.part()).and_then(super::Part::file_len)
            && tensor.offset().saturating_add(size) > len
            && size > 0
        {
            let detail = Detail::DataOutside {
                start: tensor.offset(),
                end: tensor.offset().saturating_add(size),
                file: len,
            };
            return Err(tensor.fail(ErrorKind::Truncated, detail));
        }
        let too_large = || tensor.fail(ErrorKind::Limit, Detail::Memory { bytes: size });
        let len = usize::try_from(size).map_err(|_| too_large())?;
        let mut data = Vec::new();
        data.try_reserve_exact(len).map_err(|_| too_large())?;
        data.resize(len, 0);
        self.read(tensor, 0, &mut data)?;
        Ok(data)
    }

    /// Fills `out` with the data of a tensor from byte `offset` of its canonical form on. Fails as
    /// [`Model::read_tensor`] does, and when the data end before.
    pub fn read(&self, tensor: &Tensor<'_>, offset: u64, out: &mut [u8]) -> Result<()> {
        if tensor.endian() == Endian::Little {
            return self.read_raw(tensor, offset, out);
        }
        let turned = |error: Error| error.at(tensor.offset()).tensor(tensor.name().as_bytes());
        let block = tensor.ggml_type().layout().map_or(1, |layout| u64::from(layout.bytes)).max(1);
        let before = offset.checked_rem(block).unwrap_or(0);
        let whole = before
            .saturating_add(out.len() as u64)
            .checked_next_multiple_of(block)
            .unwrap_or(u64::MAX);
        if before == 0 && whole == out.len() as u64 {
            self.read_raw(tensor, offset, out)?;
            return swap_bytes(tensor.ggml_type(), out).map_err(turned);
        }
        // The blocks around the range, of which the ends are dropped.
        let mut blocks = Vec::new();
        memory::reserve(&mut blocks, usize::try_from(whole).unwrap_or(usize::MAX))?;
        blocks.resize(usize::try_from(whole).unwrap_or(usize::MAX), 0);
        check_range(tensor, offset, out.len())?;
        self.read_raw(tensor, offset.saturating_sub(before), &mut blocks)?;
        swap_bytes(tensor.ggml_type(), &mut blocks).map_err(turned)?;
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        let range = blocks.get(before..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(range.ok_or_else(|| tensor.fail(ErrorKind::Misuse, Detail::Changed))?);
        Ok(())
    }

    /// Fills `out` with the data of a tensor from byte `offset` on, in the byte order of the file.
    pub fn read_raw(&self, tensor: &Tensor<'_>, offset: u64, out: &mut [u8]) -> Result<()> {
        check_range(tensor, offset, out.len())?;
        if out.is_empty() {
            // Nothing to read, wherever the offset points.
            return Ok(());
        }
        let (part, parts) = (tensor.part(), self.parts().len());
        let part = self
            .parts()
            .get(part)
            .ok_or_else(|| tensor.fail(ErrorKind::Misuse, Detail::NoPart { part, parts }))?;
        part.read_at(tensor.offset().saturating_add(offset), out)
            .map_err(|error| error.tensor(tensor.name().as_bytes()))
    }
}

fn check_range(tensor: &Tensor<'_>, offset: u64, len: usize) -> Result<()> {
    let size = tensor.known_size()?;
    let end = offset.saturating_add(len as u64);
    if end > size {
        Err(tensor.fail(ErrorKind::Misuse, Detail::Place { end, size }))
    } else {
        Ok(())
    }
}
