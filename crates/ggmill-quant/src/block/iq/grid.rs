//! Grids: the points that groups of weights are rounded to, and for every other point the ones near
//! it.

use std::sync::OnceLock;

use super::sets;
use crate::lanes::MOST;

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

/// The points of a set in ascending order, each level replaced by what it stands for.
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
            let mut place = 0;
            while place < D {
                points[rank][place] = levels[number % levels.len()];
                number /= levels.len();
                place += 1;
            }
            rank += 1;
            bits &= bits - 1;
        }
        word += 1;
    }
    assert!(rank == N, "as many points as the grid has indices");
    points
}

/// Points of `D` levels each, with what it takes to round to one of them.
pub(super) struct Grid<const D: usize> {
    /// The levels of the point of each index.
    pub(super) points: &'static [[u8; D]],
    /// How many levels there are.
    pub(super) levels: u8,
    /// How many distances count as near.
    rings: usize,
    near: OnceLock<Near>,
}

impl<const D: usize> Grid<D> {
    const fn new(points: &'static [[u8; D]], levels: u8, rings: usize) -> Self {
        Self { points, levels, rings, near: OnceLock::new() }
    }

    /// The grid points near each point, on the grid or not. Computed once, by the first caller.
    #[inline(always)]
    pub(super) fn near(&self) -> &Near {
        self.near.get_or_init(|| Near::new(self))
    }

    /// How many points there are, on the grid or not.
    fn count(&self) -> usize {
        usize::from(self.levels).pow(D as u32)
    }

    /// The point of a number that [`number`](Self::number) gives.
    fn point(&self, number: usize) -> [u8; D] {
        let base = usize::from(self.levels);
        core::array::from_fn(|place| (number / base.pow(place as u32) % base) as u8)
    }

    /// Every level of a point as a digit of one number, the first lowest.
    #[inline(always)]
    pub(super) fn number(&self, point: &[u8; D]) -> usize {
        let base = usize::from(self.levels);
        point.iter().rfold(0, |number, &level| number * base + usize::from(level))
    }
}

/// For every point its index on the grid, or the indices of those near it.
///
/// Near are all grid points at the least distance, and at the next ones up to the number of
/// distances that the format's authors settled on for each grid; nearer before farther, equally
/// near by index.
pub(super) struct Near {
    index: Vec<u16>,
    starts: Vec<u32>,
    lists: Vec<u16>,
    /// The words of what is in the lists, and room after them to read a whole vector anywhere.
    words: Vec<u16>,
    /// The words of the grid's points.
    pub(super) points: Vec<u16>,
}

/// The place of a point with respect to a grid.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// It is the grid point of this index.
    On(u16),
    /// It is none; these are near.
    Off(List<'a>),
}

/// Some points of a grid.
#[derive(Clone, Copy)]
pub(super) struct List<'a> {
    /// Their indices. Never empty.
    pub(super) indices: &'a [u16],
    /// Their words, and at least [`MOST`] more.
    pub(super) words: &'a [u16],
}

/// How many bits each level has in the word of a point.
pub(super) const fn bits<const D: usize>() -> u32 {
    if D == 8 { 2 } else { 3 }
}

/// All levels of a point in one word, the first lowest.
fn word<const D: usize>(point: &[u8; D]) -> u16 {
    point.iter().rfold(0, |word, &level| word << bits::<D>() | u16::from(level))
}

const NOWHERE: u16 = u16::MAX;

impl Near {
    fn new<const D: usize>(grid: &Grid<D>) -> Self {
        let count = grid.count();
        let mut index = vec![NOWHERE; count];
        for (rank, point) in grid.points.iter().enumerate() {
            index[grid.number(point)] = rank as u16;
        }
        let mut starts = Vec::with_capacity(count + 1);
        let mut lists = Vec::new();
        let mut distances = vec![0; grid.points.len()];
        for (number, &index) in index.iter().enumerate() {
            let start = lists.len();
            starts.push(start as u32);
            if index != NOWHERE {
                continue;
            }
            let point = grid.point(number);
            let mut occurs = [false; 256];
            for (distance, other) in distances.iter_mut().zip(grid.points) {
                *distance = squared_distance(&point, other);
                occurs[usize::from(*distance)] = true;
            }
            let rings =
                (0..=u8::MAX).filter(|&distance| occurs[usize::from(distance)]).take(grid.rings);
            let reach = rings.last().unwrap_or(u8::MAX);
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
            lists.iter().map(|&index| points[usize::from(index)]).chain([0; MOST]).collect();
        Self { index, starts, lists, words, points }
    }

    /// The place of a point, given as [`Grid::number`] gives it.
    #[inline(always)]
    pub(super) fn place(&self, number: usize) -> Place<'_> {
        match self.index[number] {
            NOWHERE => {
                let (start, end) = (self.starts[number] as usize, self.starts[number + 1] as usize);
                Place::Off(List {
                    indices: &self.lists[start..end],
                    words: &self.words[start..end + MOST],
                })
            }
            index => Place::On(index),
        }
    }
}

/// At most 8 · 2² for levels below three, 4 · 7² for levels below eight.
fn squared_distance<const D: usize>(a: &[u8; D], b: &[u8; D]) -> u8 {
    a.iter().zip(b).map(|(&a, &b)| a.abs_diff(b).pow(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const D: usize>(grid: &Grid<D>) {
        let near = grid.near();
        assert_eq!(grid.points[0], [0; D]);
        assert!(grid.points.is_sorted_by_key(|point| grid.number(point)));
        for number in 0..grid.count() {
            match near.place(number) {
                Place::On(index) => {
                    assert_eq!(grid.number(&grid.points[usize::from(index)]), number);
                }
                Place::Off(List { indices: list, words }) => {
                    assert!(list.iter().zip(words).all(|(&index, &found)| found == word(&grid.points[usize::from(index)])));
                    assert_eq!(words.len(), list.len() + MOST);
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
                        grid.rings
                    );
                }
            }
        }
    }

    #[test]
    fn lists_hold_all_that_is_near() {
        check(&IQ1);
        check(&IQ2_XXS);
        check(&IQ2_XS);
        check(&IQ2_S);
        check(&IQ3_XXS);
        check(&IQ3_S);
    }
}
