//! From groups one after the other to groups side by side, and back.

use super::{Lanes, MOST};

/// Room for `N` vectors of any width.
#[repr(align(64))]
pub(crate) struct Room<const N: usize>([[f32; MOST]; N]);

impl<const N: usize> Room<N> {
    pub(crate) const fn new() -> Self {
        Self([[0.0; MOST]; N])
    }
}

/// Vector `i` holds value `i` of the groups `first..first + WIDTH`, one to a lane. Where there are
/// no more groups, the last one is in the lanes that are left.
#[inline(always)]
pub(crate) fn columns<L: Lanes, const N: usize>(
    lanes: L,
    groups: &[[f32; N]],
    first: usize,
    room: &mut Room<N>,
) -> [L::F; N] {
    const { assert!(N.is_multiple_of(8)) };
    let last = groups.len() - 1;
    for lane in (0..L::WIDTH).step_by(8) {
        let groups: [&[f32; N]; 8] =
            core::array::from_fn(|i| &groups[(first + lane + i).min(last)]);
        for start in (0..N).step_by(8) {
            let (rows, _) = room.0[start..].as_chunks_mut::<8>();
            let Some(rows) = rows.first_mut() else { continue };
            lanes.transpose8(groups.map(|group| &group[start..][..8]), rows, lane);
        }
    }
    let mut out = [lanes.splat(0.0); N];
    for (out, row) in out.iter_mut().zip(&room.0) {
        *out = lanes.load(row);
    }
    out
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
