//! The yardstick: one pass over the length prefixes of a header, without a single check.

/// The counts of a [`walk`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Walked {
    /// Metadata pairs.
    pub pairs: u64,
    /// Tensors.
    pub tensors: u64,
    /// Bytes of the header.
    pub header_len: u64,
}

/// Follows the structure of a header to its end and keeps nothing: the least work that finds where
/// anything is.
///
/// # Safety
///
/// The bytes must be a well-formed little-endian GGUF file of version 2 or 3, whose arrays hold no
/// arrays. Nothing is checked: with any other bytes this reads outside them.
#[expect(clippy::cast_possible_truncation, reason = "well-formed lengths are of bytes in memory")]
pub unsafe fn walk(bytes: &[u8]) -> Walked {
    // SAFETY: the caller vouches for every length in the bytes, and these are all the lengths there
    // are.
    unsafe {
        let mut at = bytes.as_ptr().add(8);
        let tensors = take_u64(&mut at);
        let pairs = take_u64(&mut at);
        for _ in 0..pairs {
            skip_string(&mut at);
            match take_u32(&mut at) {
                8 => skip_string(&mut at),
                9 => {
                    let element = take_u32(&mut at);
                    let count = take_u64(&mut at);
                    if element == 8 {
                        for _ in 0..count {
                            skip_string(&mut at);
                        }
                    } else {
                        at = at.add(count as usize * size(element));
                    }
                }
                scalar => at = at.add(size(scalar)),
            }
        }
        for _ in 0..tensors {
            skip_string(&mut at);
            let dimensions = take_u32(&mut at);
            // The dimensions, the type, the offset.
            at = at.add(dimensions as usize * 8 + 12);
        }
        Walked { pairs, tensors, header_len: at.offset_from_unsigned(bytes.as_ptr()) as u64 }
    }
}

/// Bytes of a scalar by the number of its type.
const fn size(value_type: u32) -> usize {
    match value_type {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        _ => 8,
    }
}

/// # Safety
///
/// Eight bytes must follow, and as many as they say.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call would be most of the work")]
#[expect(clippy::cast_possible_truncation, reason = "as in `walk`")]
unsafe fn skip_string(at: &mut *const u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let len = take_u64(at);
        *at = at.add(len as usize);
    }
}

/// # Safety
///
/// Eight bytes must follow.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call would be most of the work")]
unsafe fn take_u64(at: &mut *const u8) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let number = u64::from_le_bytes(at.cast::<[u8; 8]>().read());
        *at = at.add(8);
        number
    }
}

/// # Safety
///
/// Four bytes must follow.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call would be most of the work")]
unsafe fn take_u32(at: &mut *const u8) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        let number = u32::from_le_bytes(at.cast::<[u8; 4]>().read());
        *at = at.add(4);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::walk;

    #[test]
    fn it_ends_where_the_reader_ends() {
        for path in ggmill_testdata::every_gguf() {
            let bytes = std::fs::read(path).unwrap();
            let model = ggmill_core::Header::parse(bytes.as_slice()).unwrap();
            if model.version() == 1 {
                continue;
            }
            // SAFETY: a real file that has just been parsed.
            let walked = unsafe { walk(&bytes) };
            assert_eq!(walked.header_len, model.header_len());
            assert_eq!(
                (walked.pairs, walked.tensors),
                (model.metadata().len() as u64, model.tensors().len() as u64)
            );
        }
    }
}
