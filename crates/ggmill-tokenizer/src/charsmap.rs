//! The character map of SentencePiece (`precompiled_charsmap`): a double array of XOR-compressed
//! units, and replacements.

use ggmill_core::{Metadata, ValueType};

use crate::error::{Error, ErrorKind};
use crate::vocabulary::load::optional;
use crate::work::Work;

const KEY: &str = "tokenizer.ggml.precompiled_charsmap";

/// A map from texts to replacements. Every path through the array was verified when it was read: no
/// step leaves it.
#[derive(Debug, Default)]
pub(crate) struct CharsMap {
    units: Vec<u32>,
    /// The replacements, each terminated by a zero byte.
    replacements: Vec<u8>,
}

/// Returns the offset of the children of a unit. A unit has the offset in bits 10 to 30 (shifted by
/// eight more if bit 9 is set), the flag for a replacement in bit 8, and the byte that leads to it
/// in bits 0 to 7. With bit 31 set, it is the position of a replacement.
fn offset(unit: u32) -> u32 {
    unit >> 10 << ((unit & 1 << 9) >> 6)
}

fn is_byte(unit: u32, byte: u8) -> bool {
    unit & (1 << 31 | 0xFF) == u32::from(byte)
}

fn malformed(message: &str) -> Error {
    Error::at(ErrorKind::Malformed, KEY, message)
}

impl CharsMap {
    /// Reads the map of a file, or an empty map if the file has none.
    pub(crate) fn from_metadata(metadata: &Metadata<'_>) -> Result<Self, Error> {
        let Some(array) = optional(metadata.array(KEY))? else { return Ok(Self::default()) };
        let found = array.element_type();
        let bytes = array.integers().filter(|_| matches!(found, ValueType::U8 | ValueType::I8));
        let bytes = bytes.ok_or_else(|| {
            let message = format!("is an array of {found}, expected i8 or u8");
            Error::at(ErrorKind::WrongType, KEY, message)
        })?;
        let length = usize::try_from(array.len()).unwrap_or(usize::MAX);
        let mut data = Vec::new();
        data.try_reserve_exact(length)
            .map_err(|_| Error::at(ErrorKind::Limit, KEY, "too large for the available memory"))?;
        data.extend(bytes.map(|value| u8::try_from(value & 0xFF).unwrap_or_default()));
        Self::new(&data)
    }

    /// Parses a map: the length of the array in bytes, the array, the replacements.
    pub(crate) fn new(data: &[u8]) -> Result<Self, Error> {
        let (length, rest) = data
            .split_first_chunk::<4>()
            .ok_or_else(|| malformed(&format!("has {} bytes, expected at least 4", data.len())))?;
        let length = u32::from_le_bytes(*length) as usize;
        if length >= rest.len() {
            return Err(malformed(&format!(
                "the array has {length} bytes, but {} follow its length, including the \
                 replacements after it",
                rest.len()
            )));
        }
        let (array, replacements) = rest.split_at(length);
        let units = array
            .chunks_exact(4)
            .map(|unit| u32::from_le_bytes(unit.try_into().unwrap_or_default()));
        let map = Self { units: units.collect(), replacements: replacements.to_vec() };
        map.verify()?;
        Ok(map)
    }

    /// Verifies every path through the array.
    fn verify(&self) -> Result<(), Error> {
        if self.units.is_empty() {
            return Ok(());
        }
        let last = self.replacements.iter().rposition(|&byte| byte == 0);
        let mut seen = vec![false; self.units.len()];
        let mut waiting = vec![self.root()];
        while let Some(node) = waiting.pop() {
            for byte in 1..=u8::MAX {
                let index = node ^ u32::from(byte);
                let unit = self.units.get(index as usize).copied();
                let unit =
                    unit.ok_or_else(|| malformed("a node is beyond the end of the array"))?;
                if !is_byte(unit, byte) || seen[index as usize] {
                    continue;
                }
                seen[index as usize] = true;
                let child = index ^ offset(unit);
                if unit >> 8 & 1 == 1 {
                    let value = self.units.get(child as usize).map(|value| value & !(1 << 31));
                    let value =
                        value.ok_or_else(|| malformed("a value is beyond the end of the array"))?;
                    if last.is_none_or(|last| value as usize > last) {
                        return Err(malformed(
                            "a replacement is beyond the end, or is not terminated",
                        ));
                    }
                }
                waiting.push(child);
            }
        }
        Ok(())
    }

    fn root(&self) -> u32 {
        self.units.first().map_or(0, |&unit| offset(unit))
    }

    /// Returns the length of the longest prefix of the bytes that has a replacement, and the
    /// replacement. Takes a step for each byte that is compared, and several for each byte of the
    /// replacement.
    pub(crate) fn longest(&self, bytes: &[u8], budget: &mut Work) -> Option<(usize, &[u8])> {
        self.prefix(bytes, false, budget)
    }

    /// Returns the replacement of the shortest prefix of the bytes that has one, which the
    /// `tokenizers` library uses.
    #[cfg(feature = "tokenizer-json")]
    pub(crate) fn shortest(&self, bytes: &[u8], budget: &mut Work) -> Option<&[u8]> {
        self.prefix(bytes, true, budget).map(|(_, replacement)| replacement)
    }

    fn prefix(&self, bytes: &[u8], is_shortest: bool, budget: &mut Work) -> Option<(usize, &[u8])> {
        let mut node = self.root();
        let mut found = None;
        for (place, &byte) in bytes.iter().enumerate() {
            if !budget.take(1) {
                return None;
            }
            let index = node ^ u32::from(byte);
            let Some(&unit) = self.units.get(index as usize) else { break };
            if byte == 0 || !is_byte(unit, byte) {
                break;
            }
            node = index ^ offset(unit);
            if unit >> 8 & 1 == 1 {
                let value = self.units.get(node as usize)? & !(1 << 31);
                found = Some((place + 1, value as usize));
                if is_shortest {
                    break;
                }
            }
        }
        let (length, start) = found?;
        let rest = self.replacements.get(start..)?;
        let replacement = &rest[..memchr::memchr(0, rest)?];
        // Bounds the normalized text by 64 times the text.
        budget.take(replacement.len().saturating_mul(8)).then_some((length, replacement))
    }

    /// Returns `true` if an ASCII byte before another one, or at the end, is not replaced.
    pub(crate) fn keeps(&self, byte: u8) -> bool {
        let index = self.root() ^ u32::from(byte);
        let Some(&unit) = self.units.get(index as usize).filter(|unit| is_byte(**unit, byte))
        else {
            return true;
        };
        let node = index ^ offset(unit);
        unit >> 8 & 1 == 0
            && (1..0x80).all(|next| {
                let unit = self.units.get((node ^ u32::from(next)) as usize);
                unit.is_none_or(|&unit| !is_byte(unit, next))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a map that replaces `a` by `b`.
    fn small() -> Vec<u8> {
        let mut units = vec![1 << 31; 256];
        units[0] = 1 << 10;
        let a = 1 ^ 0x61;
        units[a] = 2 << 10 | 1 << 8 | 0x61;
        units[a ^ 2] = 1 << 31;
        let mut data = 1024u32.to_le_bytes().to_vec();
        data.extend(units.iter().flat_map(|unit: &u32| unit.to_le_bytes()));
        data.extend_from_slice(b"b\0");
        data
    }

    #[test]
    fn replacements_are_found() {
        let map = CharsMap::new(&small()).unwrap();
        let mut budget = Work::default();
        budget.begin(1);
        assert_eq!(map.longest(b"ab", &mut budget), Some((1, &b"b"[..])));
        assert_eq!(map.longest(b"ba", &mut budget), None);
        assert!(map.keeps(b'b') && !map.keeps(b'a'));
        let empty = CharsMap::default();
        assert!(empty.keeps(b'a') && empty.longest(b"a", &mut budget).is_none());
    }

    #[test]
    fn truncated_maps_are_refused() {
        let whole = small();
        for length in 0..whole.len() {
            let error = CharsMap::new(&whole[..length]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{length}");
        }
        // The stated length of the array is less than its nodes need.
        let mut cut = whole[..4 + 512].to_vec();
        cut[..4].copy_from_slice(&512u32.to_le_bytes());
        cut.extend_from_slice(b"b\0");
        assert!(CharsMap::new(&cut).is_err());
    }
}
