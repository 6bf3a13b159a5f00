//! The grids: the points that groups of weights are rounded to, and an index that gives the nearest
//! grid points of every other point.

use std::sync::OnceLock;

use super::sets;
use crate::lanes::MAX_LANES;

pub(super) static IQ1: Grid<8> = Grid::new(&IQ1_POINTS, 3, 3);
pub(super) static IQ2_XXS: Grid<8> = Grid::new(&IQ2_XXS_POINTS, 3, 2);
pub(super) static IQ2_XS: Grid<8> = Grid::new(&IQ2_XS_POINTS, 3, 2);
pub(super) static IQ2_S: Grid<8> = Grid::new(&IQ2_S_POINTS, 3, 1);
pub(super) static IQ3_XXS: Grid<4> = Grid::new(&IQ3_XXS_POINTS, 8, 2);
pub(super) static IQ3_S: Grid<4> = Grid::new(&IQ3_S_POINTS, 8, 3);

static IQ1_POINTS: [[u8; 8]; 2048] = points(&sets::IQ1_S, &[0, 1, 2]);
static IQ2_XXS_POINTS: [[u8; 8]; 256] = points(&sets::IQ2_XXS, &[0, 1, 2]);
static IQ2_XS_POINTS: [[u8; 8]; 512] = points(&sets::IQ2_XS, &[0, 1, 2]);
static IQ2_S_POINTS: [[u8; 8]; 1024] = points(&sets::IQ2_S, &[0, 1, 2]);
static IQ3_XXS_POINTS: [[u8; 4]; 256] = points(&sets::IQ3_XXS, &[0, 1, 2, 3, 4, 5, 6, 7]);
static IQ3_S_POINTS: [[u8; 4]; 512] = points(&sets::IQ3_S, &[0, 1, 2, 3, 4, 5, 6, 7]);

/// Returns the points of a bit set in ascending order, with each level replaced by its value in
/// `levels`.
pub(super) const fn points<const D: usize, const N: usize>(
    set: &[u64],
    levels: &[u8],
) -> [[u8; D]; N] {
    let mut points = [[0; D]; N];
    let (mut word, mut rank) = (0, 0);
    while word < set.len() {
        let mut bits = set[word];
        while bits != 0 {
            let mut number = 64 * word + bits.trailing_zeros() as usize;
            let mut dimension = 0;
            while dimension < D {
                points[rank][dimension] = levels[number % levels.len()];
                number /= levels.len();
                dimension += 1;
            }
            rank += 1;
            bits &= bits - 1;
        }
        word += 1;
    }
    assert!(rank == N, "the set must have as many points as the grid has indices");
    points
}

/// A grid of points of `D` levels each.
pub(super) struct Grid<const D: usize> {
    /// The levels of the point of each index.
    pub(super) points: &'static [[u8; D]],
    /// The number of levels.
    pub(super) levels: u8,
    /// The number of different distances within which grid points are neighbors.
    n_distances: usize,
    index: OnceLock<GridIndex>,
}

impl<const D: usize> Grid<D> {
    const fn new(points: &'static [[u8; D]], levels: u8, n_distances: usize) -> Self {
        Self { points, levels, n_distances, index: OnceLock::new() }
    }

    /// Returns the index of all points, on the grid or not, which the first call computes.
    #[inline(always)]
    pub(super) fn index(&self) -> &GridIndex {
        self.index.get_or_init(|| GridIndex::new(self))
    }

    /// Returns the number of points, on the grid or not.
    fn count(&self) -> usize {
        usize::from(self.levels).pow(D as u32)
    }

    /// Inverts [`number`](Self::number).
    fn point(&self, number: usize) -> [u8; D] {
        let base = usize::from(self.levels);
        core::array::from_fn(|place| (number / base.pow(place as u32) % base) as u8)
    }

    /// Returns the number whose digits are the levels of a point, the first level lowest.
    #[inline(always)]
    pub(super) fn number(&self, point: &[u8; D]) -> usize {
        let base = usize::from(self.levels);
        point.iter().rfold(0, |number, &level| number * base + usize::from(level))
    }
}

/// For every point, its index on the grid or the indices of its neighbors.
///
/// The neighbors of a point are the grid points at the least distance and at the next greater
/// distances, up to the number of different distances that the format defines for the grid. They
/// are sorted by distance, then by index.
pub(super) struct GridIndex {
    index: Vec<u16>,
    starts: Vec<u32>,
    lists: Vec<u16>,
    /// The words of the points in `lists`, padded so that a whole vector can be read at any
    /// position.
    words: Vec<u16>,
    /// The words of the grid's points.
    pub(super) points: Vec<u16>,
}

/// The result of looking up a point in a grid.
#[derive(Clone, Copy)]
pub(super) enum GridLookup<'a> {
    /// The point is the grid point with this index.
    OnGrid(u16),
    /// The point is not on the grid and has these neighbors.
    OffGrid(Neighbors<'a>),
}

/// The grid points nearest to a point.
#[derive(Clone, Copy)]
pub(super) struct Neighbors<'a> {
    /// The indices of the points. Never empty.
    pub(super) indices: &'a [u16],
    /// The words of the points, and at least [`MAX_LANES`] more.
    pub(super) words: &'a [u16],
}

/// Returns the number of bits of a level in the word of a point.
pub(super) const fn bits<const D: usize>() -> u32 {
    if D == 8 { 2 } else { 3 }
}

/// Packs the levels of a point into a word, the first lowest.
fn word<const D: usize>(point: &[u8; D]) -> u16 {
    point.iter().rfold(0, |word, &level| word << bits::<D>() | u16::from(level))
}

const OFF_GRID: u16 = u16::MAX;

impl GridIndex {
    fn new<const D: usize>(grid: &Grid<D>) -> Self {
        let count = grid.count();
        let mut index = vec![OFF_GRID; count];
        for (rank, point) in grid.points.iter().enumerate() {
            index[grid.number(point)] = rank as u16;
        }
        let mut starts = Vec::with_capacity(count + 1);
        let mut lists = Vec::new();
        let mut distances = vec![0; grid.points.len()];
        for (number, &index) in index.iter().enumerate() {
            let start = lists.len();
            starts.push(start as u32);
            if index != OFF_GRID {
                continue;
            }
            let point = grid.point(number);
            let mut occurs = [false; 256];
            for (distance, other) in distances.iter_mut().zip(grid.points) {
                *distance = squared_distance(&point, other);
                occurs[usize::from(*distance)] = true;
            }
            let n_distances = (0..=u8::MAX)
                .filter(|&distance| occurs[usize::from(distance)])
                .take(grid.n_distances);
            let reach = n_distances.last().unwrap_or(u8::MAX);
            lists.extend(
                (0..)
                    .zip(&distances)
                    .filter(|&(_, &distance)| distance <= reach)
                    .map(|(index, _): (u16, _)| index),
            );
            lists[start..].sort_by_key(|&index| distances[usize::from(index)]);
        }
        starts.push(lists.len() as u32);
        let points: Vec<u16> = grid.points.iter().map(word).collect();
        let words =
            lists.iter().map(|&index| points[usize::from(index)]).chain([0; MAX_LANES]).collect();
        Self { index, starts, lists, words, points }
    }

    /// Looks up the point with this [`Grid::number`].
    #[inline(always)]
    pub(super) fn lookup(&self, number: usize) -> GridLookup<'_> {
        match self.index[number] {
            OFF_GRID => {
                let (start, end) = (self.starts[number] as usize, self.starts[number + 1] as usize);
                GridLookup::OffGrid(Neighbors {
                    indices: &self.lists[start..end],
                    words: &self.words[start..end + MAX_LANES],
                })
            }
            index => GridLookup::OnGrid(index),
        }
    }
}

/// Returns the squared distance, at most 8 · 2² for levels below three and 4 · 7² for levels below
/// eight.
fn squared_distance<const D: usize>(a: &[u8; D], b: &[u8; D]) -> u8 {
    a.iter().zip(b).map(|(&a, &b)| a.abs_diff(b).pow(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const D: usize>(grid: &Grid<D>) {
        let near = grid.index();
        assert_eq!(grid.points[0], [0; D]);
        assert!(grid.points.is_sorted_by_key(|point| grid.number(point)));
        for number in 0..grid.count() {
            match near.lookup(number) {
                GridLookup::OnGrid(index) => {
                    assert_eq!(grid.number(&grid.points[usize::from(index)]), number);
                }
                GridLookup::OffGrid(Neighbors { indices: list, words }) => {
                    assert!(list.iter().zip(words).all(|(&index, &found)| found == word(&grid.points[usize::from(index)])));
                    assert_eq!(words.len(), list.len() + MAX_LANES);
                    let point = grid.point(number);
                    let distance =
                        |index: &u16| squared_distance(&point, &grid.points[usize::from(*index)]);
                    assert!(list.is_sorted_by_key(|index| (distance(index), *index)));
                    let reach = distance(&list[list.len() - 1]);
                    assert_eq!(
                        list.len(),
                        grid.points
                            .iter()
                            .filter(|other| squared_distance(&point, other) <= reach)
                            .count()
                    );
                    assert_eq!(
                        list.chunk_by(|a, b| distance(a) == distance(b)).count(),
                        grid.n_distances
                    );
                }
            }
        }
    }

    #[test]
    fn neighbors_are_complete_and_sorted() {
        check(&IQ1);
        check(&IQ2_XXS);
        check(&IQ2_XS);
        check(&IQ2_S);
        check(&IQ3_XXS);
        check(&IQ3_S);
    }
}
