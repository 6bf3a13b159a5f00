//! Moving elements between memory laid out in different orders.

use super::region::{Linear, Loop};

/// A loop over elements that lie so far apart on either side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stride {
    pub(super) count: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Side of the squares in which a matrix is transposed: two of them fit into the nearest cache.
const TILE: usize = 32;

/// Where elements go: bytes in little-endian order, in atoms of so many, or numbers.
pub(super) enum Out<'a> {
    Bytes { bytes: &'a mut [u8], atom: usize },
    Floats(&'a mut [f32]),
}

impl Out<'_> {
    /// Copies atoms from bytes. Into numbers, the atoms are f32.
    pub(super) fn put_bytes(&mut self, strides: &[Stride], from: &[u8], to: usize) {
        match self {
            Self::Floats(floats) => {
                walk(strides, from.as_chunks::<4>().0, &mut floats[to..], f32::from_le_bytes);
            }
            Self::Bytes { bytes, atom } => match atom {
                1 => walk(strides, from, &mut bytes[to..], |byte| byte),
                2 => walk(
                    strides,
                    from.as_chunks::<2>().0,
                    &mut bytes.as_chunks_mut::<2>().0[to..],
                    |atom| atom,
                ),
                4 => walk(
                    strides,
                    from.as_chunks::<4>().0,
                    &mut bytes.as_chunks_mut::<4>().0[to..],
                    |atom| atom,
                ),
                8 => walk(
                    strides,
                    from.as_chunks::<8>().0,
                    &mut bytes.as_chunks_mut::<8>().0[to..],
                    |atom| atom,
                ),
                &mut atom => walk_blocks(strides, from, &mut bytes[to * atom..], atom),
            },
        }
    }

    /// Copies numbers. Into bytes, they become f32.
    pub(super) fn put_floats(&mut self, strides: &[Stride], from: &[f32], to: usize) {
        match self {
            Self::Floats(floats) => walk(strides, from, &mut floats[to..], |number| number),
            Self::Bytes { bytes, .. } => {
                walk(strides, from, &mut bytes.as_chunks_mut::<4>().0[to..], f32::to_le_bytes);
            }
        }
    }

    /// Writes atoms of nothing but zeros.
    pub(super) fn put_zeros(&mut self, loops: &[Loop], to: usize) {
        let strides: Vec<Stride> = loops
            .iter()
            .map(|this| Stride { count: size(this.count), from: 0, to: size(this.to) })
            .collect();
        match self {
            Self::Floats(_) => self.put_floats(&strides, &[0.0], to),
            Self::Bytes { atom, .. } => {
                let zeros = vec![0; *atom];
                self.put_bytes(&strides, &zeros, to);
            }
        }
    }
}

/// A count that is known to fit, being that of elements in memory.
pub(super) fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Strides of packed loops: what lies one after the other goes to the places of the second.
pub(super) fn from_packed(packed: &[Loop], to: &[Loop]) -> Vec<Stride> {
    packed
        .iter()
        .zip(to)
        .map(|(packed, to)| Stride {
            count: size(to.count),
            from: size(packed.to),
            to: size(to.to),
        })
        .collect()
}

/// Strides of linear loops over memory.
pub(super) fn of_linear(loops: &[Linear]) -> Vec<Stride> {
    loops
        .iter()
        .map(|this| Stride { count: size(this.count), from: size(this.step), to: size(this.to) })
        .collect()
}

/// Copies elements along the strides, byte-swapping each.
fn walk<S: Copy, D>(strides: &[Stride], from: &[S], to: &mut [D], turn: impl Fn(S) -> D + Copy) {
    let strides = joined(strides);
    match *strides {
        [] => to[0] = turn(from[0]),
        [inner] => row(inner, from, to, turn),
        [ref outer @ .., second, first] => {
            // The inner loops are last here: the one that writes neighbours, and before it the one
            // that reads them.
            each(outer, 0, 0, &mut |from_at, to_at| {
                square(second, first, &from[from_at..], &mut to[to_at..], turn);
            });
        }
    }
}

/// Strides without loops of one iteration, those that go on where another ends joined with it, the
/// one that writes neighbors last and before it the one that reads neighbors.
fn joined(strides: &[Stride]) -> Vec<Stride> {
    let mut strides: Vec<Stride> = strides.iter().filter(|this| this.count > 1).copied().collect();
    strides.sort_by_key(|this| this.to);
    strides.dedup_by(|next, this| {
        let follows = next.from == this.from * this.count && next.to == this.to * this.count;
        if follows {
            this.count *= next.count;
        }
        follows
    });
    strides.reverse();
    if let [rest @ .., _] = &mut strides[..]
        && let Some(reads) = (0..rest.len()).min_by_key(|&number| rest[number].from)
    {
        rest[reads..].rotate_left(1);
    }
    strides
}

/// Calls `visit` with the offsets of every iteration of the loops.
fn each(strides: &[Stride], from: usize, to: usize, visit: &mut dyn FnMut(usize, usize)) {
    let Some((first, rest)) = strides.split_first() else { return visit(from, to) };
    for i in 0..first.count {
        each(rest, from + i * first.from, to + i * first.to, visit);
    }
}

fn row<S: Copy, D>(inner: Stride, from: &[S], to: &mut [D], turn: impl Fn(S) -> D) {
    let Stride { count, from: from_step, to: to_step } = inner;
    if (from_step, to_step) == (1, 1) {
        for (to, from) in to[..count].iter_mut().zip(&from[..count]) {
            *to = turn(*from);
        }
    } else if to_step == 1 && from_step == 0 {
        to[..count].fill_with(|| turn(from[0]));
    } else {
        for i in 0..count {
            to[i * to_step] = turn(from[i * from_step]);
        }
    }
}

/// Two loops, in squares where the one reads neighbors and the other writes them.
fn square<S: Copy, D>(
    second: Stride,
    first: Stride,
    from: &[S],
    to: &mut [D],
    turn: impl Fn(S) -> D + Copy,
) {
    if first.from <= second.from {
        for i in 0..second.count {
            row(first, &from[i * second.from..], &mut to[i * second.to..], turn);
        }
        return;
    }
    for i_start in (0..first.count).step_by(TILE) {
        let firsts = Stride { count: TILE.min(first.count - i_start), ..first };
        for j in 0..second.count {
            row(
                firsts,
                &from[i_start * first.from + j * second.from..],
                &mut to[i_start * first.to + j * second.to..],
                turn,
            );
        }
    }
}

/// Atoms of a size that is known only now.
fn walk_blocks(strides: &[Stride], from: &[u8], to: &mut [u8], atom: usize) {
    let mut strides = joined(strides);
    let run = match strides.last() {
        Some(&Stride { count, from: 1, to: 1 }) => {
            strides.pop();
            count * atom
        }
        _ => atom,
    };
    each(&strides, 0, 0, &mut |from_at, to_at| {
        to[to_at * atom..][..run].copy_from_slice(&from[from_at * atom..][..run]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stride(count: usize, from: usize, to: usize) -> Stride {
        Stride { count, from, to }
    }

    #[test]
    fn a_matrix_is_turned() {
        for (rows, columns) in [(1, 1), (3, 5), (40, 33), (64, 100)] {
            let from: Vec<f32> = (0u16..).take(rows * columns).map(f32::from).collect();
            let mut to = vec![0.0; from.len()];
            Out::Floats(&mut to).put_floats(
                &[stride(columns, 1, rows), stride(rows, columns, 1)],
                &from,
                0,
            );
            for row in 0..rows {
                for column in 0..columns {
                    assert_eq!(
                        to[column * rows + row].to_bits(),
                        from[row * columns + column].to_bits()
                    );
                }
            }
        }
    }

    #[test]
    fn atoms_of_any_size_go_along() {
        for atom in [1, 2, 3, 4, 8, 18] {
            let from: Vec<u8> = (0..=255).cycle().take(6 * atom).collect();
            let mut to = vec![0; 6 * atom];
            Out::Bytes { bytes: &mut to, atom }.put_bytes(
                &[stride(2, 3, 1), stride(3, 1, 2)],
                &from,
                0,
            );
            let expected: Vec<u8> = [0, 3, 1, 4, 2, 5]
                .iter()
                .flat_map(|&i| from[i * atom..][..atom].to_vec())
                .collect();
            assert_eq!(to, expected);
        }
    }

    #[test]
    fn zeros_go_where_the_loops_lead() {
        let mut floats = [1.0; 6];
        let over = |count, to| Loop { count, dimension: 0, step: 1, to };
        Out::Floats(&mut floats).put_zeros(&[over(2, 3), over(2, 1)], 1);
        assert_eq!(floats.map(f32::to_bits), [1.0f32, 0.0, 0.0, 1.0, 0.0, 0.0].map(f32::to_bits));
    }
}
