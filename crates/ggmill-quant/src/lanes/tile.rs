//! From groups one after the other to groups side by side, and back.

use super::{Lanes, MOST};

/// Vector `i` holds value `i` of the groups `first..first + WIDTH`, one to a lane. Where there are
/// no more groups, the last one is in the lanes that are left.
#[inline(always)]
pub(crate) fn columns<L: Lanes, const N: usize>(
    lanes: L,
    groups: &[[f32; N]],
    first: usize,
) -> [L::F; N] {
    const { assert!(N.is_multiple_of(8)) };
    let mut out = [lanes.splat(0.0); N];
    for (part, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *out = lanes.eight_columns(groups, first, part);
    }
    out
}

/// Values `8 * part..8 * part + 8` of the groups `first..first + 8`, or of the last where there are
/// no more.
#[inline(always)]
pub(crate) fn eight_rows<const N: usize>(
    groups: &[[f32; N]],
    first: usize,
    part: usize,
) -> [&[f32; 8]; 8] {
    // All but the last few are there, and then only that has to be asked.
    if let Some(groups) = groups.get(first..).and_then(<[_]>::first_chunk::<8>) {
        return groups.each_ref().map(|group| &group.as_chunks().0[part]);
    }
    let last = groups.len() - 1;
    core::array::from_fn(|row| &groups[(first + row).min(last)].as_chunks().0[part])
}

/// The result of [`columns`] for groups given value by value.
#[inline(always)]
pub(crate) fn spread_out<L: Lanes, const N: usize>(
    lanes: L,
    value: impl Fn(usize, usize) -> f32,
) -> [L::F; N] {
    let mut out = [lanes.splat(0.0); N];
    for (i, out) in out.iter_mut().enumerate() {
        let mut row = [0.0; MOST];
        for (lane, row) in row.iter_mut().take(L::WIDTH).enumerate() {
            *row = value(lane, i);
        }
        *out = lanes.load(&row);
    }
    out
}
