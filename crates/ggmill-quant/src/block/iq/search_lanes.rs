//! The searches of the IQ types with lanes, which hold several candidate scales, or several
//! neighbors of a point.
//!
//! The scalar code of [`search`](super::search) is the definition; each lane repeats it in its
//! order.

use super::grid::{GridLookup, Neighbors, bits};
use super::iq1::{Split, Splits};
use super::search::{Best, Fit, Group, ODD_LEVELS, Search, Strategy, point_values};
use crate::lanes::{Floats, Lanes, MAX_LANES, Mask};

/// The search with the lanes of an instruction set.
#[derive(Clone, Copy)]
pub(super) struct LaneSearch<L>(pub(super) L);

/// The error terms of the candidates in the lanes: row `place << bits | level` is the term of a
/// level at a place of the point.
struct Terms<F>([F; 32]);

impl<L: Lanes> Strategy for LaneSearch<L> {
    #[inline(always)]
    fn run<const D: usize, const N: usize, const P: usize>(
        self,
        search: &Search<D>,
        group: &mut Group<N>,
        weights: &[f32; N],
        extent: f32,
        scale: f32,
    ) -> (f32, [u16; P]) {
        let Self(lanes) = self;
        let mut roots = *weights;
        for root in &mut roots {
            *root = root.sqrt();
        }
        let trials = Trials::<P>::new(lanes, search, extent);
        let chosen = trials.choose(lanes, search, &group.magnitudes, &roots);
        let mut best: Best<P> = search.initial_best(scale);
        for first in (0..trials.count).step_by(L::WIDTH) {
            let (mut xq, mut qq) = (lanes.splat(0.0), lanes.splat(0.0));
            let quants = lanes.load(&const { table::<D>(&ODD_LEVELS) });
            for point in 0..P {
                let words = lanes.words(&chosen.words[point * trials.count + first..]);
                let (magnitudes, weights): (&[f32; D], &[f32; D]) =
                    (point_values(&group.magnitudes, point), point_values(weights, point));
                for (place, (&magnitude, &weight)) in (0..).zip(magnitudes.iter().zip(weights)) {
                    let quant = lanes.pick(quants, words, place * bits::<D>());
                    xq = xq + lanes.splat(weight * magnitude) * quant;
                    qq = qq + lanes.splat(weight) * quant * quant;
                }
            }
            let mut fits = [[0.0; MAX_LANES]; 2];
            xq.store(&mut fits[0]);
            qq.store(&mut fits[1]);
            for step in first..trials.count.min(first + L::WIDTH) {
                let fit = Fit { xq: fits[0][step - first], qq: fits[1][step - first] };
                if best.beaten_by(fit) {
                    let of = |point: usize| point * trials.count + step;
                    best.replace(
                        fit,
                        core::array::from_fn(|point| chosen.indices[of(point)]),
                        core::array::from_fn(|point| chosen.off[of(point)]),
                    );
                }
            }
        }
        search.finish(self, group, weights, &roots, &best)
    }

    #[inline(always)]
    fn nearest_of<const D: usize>(
        self,
        near: Neighbors<'_>,
        values: &[f32; D],
        weights: &[f32; D],
        scale: f32,
        quants: &[f32; 8],
    ) -> u16 {
        let Self(lanes) = self;
        let table = table::<D>(quants);
        let scaled = lanes.splat(scale) * lanes.load(&table);
        let mut terms = [scaled; D];
        for (term, (&value, &weight)) in terms.iter_mut().zip(values.iter().zip(weights)) {
            let diff = scaled - lanes.splat(value);
            *term = lanes.splat(weight) * diff * diff;
        }
        let (zero, width, count) = (
            lanes.splat(0.0),
            lanes.splat(L::WIDTH as f32),
            lanes.splat(near.indices.len() as f32),
        );
        let mut place = lanes.load(&LANE_NUMBERS);
        let (mut least, mut found) = (lanes.splat(f32::MAX), zero);
        for first in (0..near.indices.len()).step_by(L::WIDTH) {
            let words = lanes.words(&near.words[first..]);
            let mut error = zero;
            for (shift, &term) in (0..).zip(&terms) {
                error = error + lanes.pick(term, words, shift * bits::<D>());
            }
            // Ignore the padding after the list.
            let better = error.lt(least).and(place.lt(count));
            least = error.select(better, least);
            found = place.select(better, found);
            place = place + width;
        }
        // Usually only one lane has the least error.
        let mut places = [0; MAX_LANES];
        found.store_words(&mut places);
        let mut lanes_of_least = least.eq(lanes.splat(least.reduce_min())).bits();
        let mut first = u16::MAX;
        while lanes_of_least != 0 {
            first = first.min(places[lanes_of_least.trailing_zeros() as usize % MAX_LANES]);
            lanes_of_least &= lanes_of_least - 1;
        }
        near.indices[usize::from(first)]
    }

    #[inline(always)]
    fn ascending<const N: usize>(self, values: &[f32; N]) -> [usize; N] {
        let Self(lanes) = self;
        let (zero, one) = (lanes.splat(0.0), lanes.splat(1.0));
        let mut order = [0; N];
        for start in (0..N).step_by(L::WIDTH) {
            let (x, place) = (lanes.load(&values[start..]), lanes.load(&LANE_NUMBERS[start..]));
            // The rank of a value is the number of values before it.
            let mut rank = zero;
            for (&other, &other_place) in values.iter().zip(&LANE_NUMBERS) {
                let other = lanes.splat(other);
                let before = other.lt(x).or(other.eq(x).and(lanes.splat(other_place).lt(place)));
                rank = rank + one.select(before, zero);
            }
            let mut ranks = [0; MAX_LANES];
            rank.store_bytes(&mut ranks);
            for (column, &rank) in (start..).zip(&ranks[..L::WIDTH]) {
                order[usize::from(rank) % N] = column;
            }
        }
        order
    }

    #[inline(always)]
    fn best_split<const M: usize, const S: usize>(
        self,
        splits: &impl Splits<M, S>,
    ) -> Option<Split> {
        let Self(lanes) = self;
        let mut best = lower_bound(lanes, splits);
        let mut chosen = None;
        for first in 0..M {
            for start in (first..M).step_by(L::WIDTH) {
                let fits = splits.fits_from(lanes, first, start);
                let bound = lanes.splat(best);
                // A superset of the better splits: each is then checked against the current best.
                let mut better = 0;
                for [qx, qq] in fits {
                    better |= (qx * qx).gt(bound * qq).bits();
                }
                while better != 0 {
                    let second = start + better.trailing_zeros() as usize;
                    better &= better - 1;
                    for (shifts, fit) in splits.fits(first, second).into_iter().enumerate() {
                        if fit.beats(best) {
                            let scale = fit.qx / fit.qq;
                            best = scale * fit.qx;
                            chosen = Some(Split { first, second, shifts, scale });
                        }
                    }
                }
            }
        }
        chosen
    }
}

/// Returns a lower bound that splits have to beat, slightly below the best of a few likely splits.
///
/// The bound does not change the result. When the scan reaches the best of the likely splits, it
/// selects it unless it already has a better one. So a scan that skipped splits below the bound and
/// a scan that did not agree from there on. Rounding cannot break this: each comparison has a
/// relative error below a millionth, so even a thousand successive errors stay below the two
/// thousandths that the bound leaves. This requires numbers that neither underflow nor overflow;
/// otherwise there is no bound.
#[inline(always)]
fn lower_bound<L: Lanes, const M: usize, const S: usize>(
    lanes: L,
    splits: &impl Splits<M, S>,
) -> f32 {
    const ORDINARY: core::ops::Range<f32> = 1e-15..1e15;
    if !splits.weight().is_some_and(|weight| ORDINARY.contains(&weight)) {
        return f32::MIN;
    }
    let zero = lanes.splat(0.0);
    let mut most = zero;
    for first in [M / 4, M / 4 + 1] {
        for start in (M / 2..M).step_by(L::WIDTH) {
            for [qx, qq] in splits.fits_from(lanes, first, start) {
                // NaN in lanes beyond the last rank, which `max` ignores.
                most = (qx * qx / qq).max(most);
            }
        }
    }
    let most = -(-most).reduce_min();
    if ORDINARY.contains(&most) { 0.998 * most } else { f32::MIN }
}

/// The number of each lane.
const LANE_NUMBERS: [f32; MAX_LANES] = {
    let mut count = [0.0; MAX_LANES];
    let mut lane = 0;
    while lane < MAX_LANES {
        count[lane] = lane as f32;
        lane += 1;
    }
    count
};

/// Repeats the values of the levels so that the lowest bits of a word index them, whatever the bits
/// above are.
const fn table<const D: usize>(quants: &[f32; 8]) -> [f32; MAX_LANES] {
    let mut table = [0.0; MAX_LANES];
    let mut lane = 0;
    while lane < MAX_LANES {
        table[lane] = quants[lane & ((1 << bits::<D>()) - 1)];
        lane += 1;
    }
    table
}

/// Space for the candidates of all points, and a vector of padding.
const CAPACITY: usize = 8 * MAX_LANES + MAX_LANES;

/// Every candidate scale for every point: all candidates of the first point, then of the second,
/// without gaps, so that few lanes are idle.
struct Trials<const P: usize> {
    /// The number of candidates of a point.
    count: usize,
    scales: [f32; CAPACITY],
    inverses: [f32; CAPACITY],
}

/// The grid point chosen in each trial.
struct Chosen {
    indices: [u16; CAPACITY],
    words: [u16; CAPACITY],
    off: [bool; CAPACITY],
}

/// The points, at most three, to which the lanes of a vector belong.
#[derive(Clone, Copy)]
struct Owners<M> {
    points: [usize; 3],
    /// The lanes of the first point, and of the first two.
    masks: [M; 2],
}

impl<const P: usize> Trials<P> {
    #[inline(always)]
    fn new<L: Lanes, const D: usize>(lanes: L, search: &Search<D>, extent: f32) -> Self {
        let count = (2 * search.reach + 1) as usize;
        let mut trials = Self { count, scales: [1.0; CAPACITY], inverses: [1.0; CAPACITY] };
        let mut numerators = [1.0; MAX_LANES];
        for (numerator, step) in numerators[..count].iter_mut().zip(-search.reach..) {
            *numerator = search.numerator(step);
        }
        for first in (0..count).step_by(L::WIDTH) {
            let inverse = lanes.load(&numerators[first..]) / lanes.splat(extent);
            inverse.store(&mut trials.inverses[first..]);
            (lanes.splat(1.0) / inverse).store(&mut trials.scales[first..]);
        }
        for point in 1..P {
            for numbers in [&mut trials.inverses, &mut trials.scales] {
                numbers.copy_within(..count, point * count);
            }
        }
        trials
    }

    #[inline(always)]
    fn choose<L: Lanes, const D: usize, const N: usize>(
        &self,
        lanes: L,
        search: &Search<D>,
        magnitudes: &[f32; N],
        roots: &[f32; N],
    ) -> Chosen {
        let near = search.grid.index();
        let mut terms = Terms([lanes.splat(0.0); 32]);
        let mut chosen =
            Chosen { indices: [0; CAPACITY], words: [0; CAPACITY], off: [false; CAPACITY] };
        let total = P * self.count;
        for first in (0..total).step_by(L::WIDTH) {
            let some = (total - first).min(L::WIDTH);
            let (scale, inverse) =
                (lanes.load(&self.scales[first..]), lanes.load(&self.inverses[first..]));
            let owners = self.owners(lanes, first);
            let mut of_lanes = [[scale; 2]; D];
            for (place, of_lanes) in of_lanes.iter_mut().enumerate() {
                *of_lanes = [
                    owners.spread(lanes, magnitudes, place, D),
                    owners.spread(lanes, roots, place, D),
                ];
            }
            let mut numbers = [0; MAX_LANES];
            number(lanes, search, &of_lanes, inverse).store_words(&mut numbers);
            terms.fill(lanes, search.grid.levels, &of_lanes, scale);
            let mut lane = 0;
            while lane < some {
                let begin = lane;
                while lane < some && numbers[lane] == numbers[begin] {
                    lane += 1;
                }
                match near.lookup(usize::from(numbers[begin])) {
                    GridLookup::OnGrid(index) => {
                        chosen.indices[first + begin..first + lane].fill(index);
                        chosen.words[first + begin..first + lane]
                            .fill(near.points[usize::from(index)]);
                    }
                    GridLookup::OffGrid(list) => {
                        let mut places = [0; MAX_LANES];
                        terms.least::<L, D>(lanes, list).store_words(&mut places);
                        for (lane, &place) in (begin..lane).zip(&places[begin..]) {
                            let place = usize::from(place);
                            chosen.indices[first + lane] = list.indices[place];
                            chosen.words[first + lane] = list.words[place];
                            chosen.off[first + lane] = true;
                        }
                    }
                }
            }
        }
        chosen
    }

    #[inline(always)]
    fn owners<L: Lanes>(&self, lanes: L, first: usize) -> Owners<<L::F as Floats>::Mask> {
        let point = first / self.count;
        let end = (point + 1) * self.count - first;
        let lane = lanes.load(&LANE_NUMBERS);
        Owners {
            points: [point, (point + 1).min(P - 1), (point + 2).min(P - 1)],
            masks: [
                lane.lt(lanes.splat(end as f32)),
                lane.lt(lanes.splat((end + self.count) as f32)),
            ],
        }
    }
}

impl<M: Mask> Owners<M> {
    /// Returns, in each lane, the value at a place of its point.
    #[inline(always)]
    fn spread<L: Lanes<F: Floats<Mask = M>>, const N: usize>(
        &self,
        lanes: L,
        values: &[f32; N],
        place: usize,
        width: usize,
    ) -> L::F {
        let [a, b, c] = self.points;
        let (a, b, c) = (
            lanes.splat(values[a * width + place]),
            lanes.splat(values[b * width + place]),
            lanes.splat(values[c * width + place]),
        );
        a.select(self.masks[0], b.select(self.masks[1], c))
    }
}

/// Returns the [`Grid::number`](super::grid::Grid::number) of the rounded levels.
#[inline(always)]
fn number<L: Lanes, const D: usize>(
    lanes: L,
    search: &Search<D>,
    magnitudes: &[[L::F; 2]; D],
    inverse: L::F,
) -> L::F {
    let top = i32::from(search.grid.levels) - 1;
    let (half, one, base) =
        (lanes.splat(0.5), lanes.splat(1.0), lanes.splat(f32::from(search.grid.levels)));
    let mut number = lanes.splat(0.0);
    for &[magnitude, _] in magnitudes.iter().rev() {
        // Exact, because the numbers are integers below 2²⁴.
        number = number * base + (half * (inverse * magnitude - one)).nearest(0, top);
    }
    number
}

impl<F: Floats> Terms<F> {
    /// Computes the terms from the magnitudes and the square roots of their weights.
    #[inline(always)]
    fn fill<L: Lanes<F = F>, const D: usize>(
        &mut self,
        lanes: L,
        levels: u8,
        of_lanes: &[[F; 2]; D],
        scale: F,
    ) {
        let mut scaled = [scale; 8];
        for (scaled, quant) in scaled.iter_mut().zip(ODD_LEVELS) {
            *scaled = scale * lanes.splat(quant);
        }
        for (rows, &[magnitude, root]) in self.0.chunks_exact_mut(32 / D).zip(of_lanes) {
            for (row, &scaled) in rows.iter_mut().zip(&scaled[..usize::from(levels)]) {
                let diff = scaled - magnitude;
                *row = root * diff * diff;
            }
        }
    }

    /// Returns, for each candidate, the position in `list` of the point of least error, the first
    /// of equals.
    #[inline(always)]
    fn least<L: Lanes<F = F>, const D: usize>(&self, lanes: L, list: Neighbors<'_>) -> F {
        let one = lanes.splat(1.0);
        let (mut least, mut found, mut place) =
            (lanes.splat(f32::MAX), lanes.splat(0.0), lanes.splat(0.0));
        for &word in &list.words[..list.indices.len()] {
            let word = usize::from(word);
            let mut error = self.0[word & (32 / D - 1)];
            for place in 1..D {
                let level = word >> (place as u32 * bits::<D>()) & (32 / D - 1);
                error = error + self.0[place * (32 / D) | level];
            }
            found = place.select(error.lt(least), found);
            least = error.min(least);
            place = place + one;
        }
        found
    }
}
