//! Eight scales and eight minima of six bits in twelve bytes, as Q4_K and Q5_K store them.
//!
//! The first four scales and minima lie in the low six bits of bytes 0 to 3 and 4 to 7. The last
//! four have their low halves in bytes 8 to 11, scale below minimum, and their two high bits on top
//! of the first four.

/// The scale and the minimum of group `group`.
#[inline(always)]
pub(super) fn read(bytes: &[u8], group: usize) -> (u8, u8) {
    if group < 4 {
        return (bytes[group] & 63, bytes[group + 4] & 63);
    }
    let low = bytes[group + 4];
    (low & 15 | (bytes[group - 4] >> 6) << 4, low >> 4 | (bytes[group] >> 6) << 4)
}

/// Stores all of them.
pub(super) fn write(scales: [u8; 8], mins: [u8; 8], bytes: &mut [u8]) {
    for group in 0..4 {
        bytes[group] = scales[group] | (scales[group + 4] >> 4) << 6;
        bytes[group + 4] = mins[group] | (mins[group + 4] >> 4) << 6;
        bytes[group + 8] = scales[group + 4] & 15 | (mins[group + 4] & 15) << 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let scales = [0, 63, 17, 42, 63, 1, 32, 16];
        let mins = [5, 0, 62, 31, 33, 47, 15, 48];
        let mut bytes = [0xff; 12];
        write(scales, mins, &mut bytes);
        for group in 0..8 {
            assert_eq!(read(&bytes, group), (scales[group], mins[group]));
        }
    }
}
