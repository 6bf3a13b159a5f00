//! The lower bound for readers: one pass over the length prefixes of a header, without any check.

use ggmill_core::{Endian, Header, ValueType};

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

/// Returns `true` if [`walk`] can read the bytes that `header` was parsed from: they are a little-endian
/// file of version 2 or 3, whose arrays contain no arrays.
pub fn is_walkable(header: &Header<'_>) -> bool {
    let is_nested = |value: &ggmill_core::Value<'_>| {
        value.as_array().is_some_and(|array| array.element_type() == ValueType::ARRAY)
    };
    matches!(header.version(), 2 | 3)
        && header.endian() == Endian::Little
        && header.metadata().iter().all(|entry| entry.value().is_ok_and(|value| !is_nested(&value)))
}

/// Follows the structure of a header to its end and keeps nothing: the minimum work that finds the
/// position of every value.
///
/// # Safety
///
/// A reader must have parsed a header from these bytes for which [`is_walkable`] returns `true`.
/// Nothing is checked: with any other bytes this reads outside them.
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
    use ggmill_testdata::bytes::{FileBytes, Value};

    use super::*;

    #[test]
    fn it_ends_where_the_reader_ends() {
        let mut walked_files = 0;
        for path in ggmill_testdata::every_gguf() {
            let bytes = std::fs::read(path).unwrap();
            let model = Header::parse(bytes.as_slice()).unwrap();
            if !is_walkable(&model) {
                continue;
            }
            walked_files += 1;
            // SAFETY: the header was parsed from these bytes, and is walkable.
            let walked = unsafe { walk(&bytes) };
            assert_eq!(walked.header_len, model.header_len());
            assert_eq!(
                (walked.pairs, walked.tensors),
                (model.metadata().len() as u64, model.tensors().len() as u64)
            );
        }
        assert!(walked_files >= 3, "{walked_files}");
    }

    #[test]
    fn files_of_other_layouts_are_not_walkable() {
        let nested = Value::Array(9, vec![Value::Array(4, vec![Value::U32(1)])]);
        let flat = Value::Array(4, vec![Value::U32(1)]);
        let head = |version, endian| {
            let mut file = FileBytes::new(version, endian);
            file.head(0, 1);
            file
        };
        let with = |mut file: FileBytes, value: &Value| {
            file.pair("x", value);
            file.into_bytes()
        };
        for (bytes, expected) in [
            (with(FileBytes::v3(0, 1), &flat), true),
            (with(FileBytes::v3(0, 1), &nested), false),
            (with(head(1, Endian::Little), &flat), false),
            (with(head(2, Endian::Little), &flat), true),
            (with(head(3, Endian::Big), &flat), false),
        ] {
            let header = Header::parse(bytes.as_slice()).unwrap();
            assert_eq!(is_walkable(&header), expected);
        }
    }
}
