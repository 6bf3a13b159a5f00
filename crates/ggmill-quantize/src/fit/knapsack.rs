//! Choosing one way for each tensor so that all together fit a budget and lose as little as
//! possible: the multiple-choice knapsack.
//!
//! Two answers are made and the better one is taken: the greedy walk along the convex hulls, which
//! is the best there is except for the last step that does not fit, and a table over the budget cut
//! into granules, which is the best there is except for the rounding. What is left of the budget is
//! then spent on single changes. The hulls give a bound, too: no choice loses less than the greedy
//! walk that may take the last step in part.

/// One way to store a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Way {
    pub(super) bytes: u64,
    /// Its loss: finite, and not less than 0.
    pub(super) loss: f64,
}

/// A choice for every tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Solution {
    /// The number of the way taken, for each tensor.
    pub(super) chosen: Vec<usize>,
    pub(super) bytes: u64,
    pub(super) loss: f64,
    /// No choice within the budget loses less.
    pub(super) bound: f64,
}

/// Granules of the table, at most.
const GRANULES: u64 = 1 << 14;
/// Cells of the table, at most: a byte each.
const CELLS: u64 = 64 << 20;

/// The best choice found, or the fewest bytes that any choice takes when those are too many. Every
/// tensor has a way.
pub(super) fn solve(tensors: &[Vec<Way>], budget: u64) -> Result<Solution, u64> {
    let fronts: Vec<Vec<usize>> = tensors.iter().map(|ways| front(ways)).collect();
    let cheapest: Vec<usize> =
        fronts.iter().map(|front| front.first().copied().unwrap_or(0)).collect();
    let least = bytes_of(tensors, &cheapest);
    if least > budget {
        return Err(least);
    }
    let (greedy, bound) = along_hulls(tensors, &fronts, &cheapest, budget);
    let candidates = [greedy, by_table(tensors, &fronts, &cheapest, budget)];
    let filled = candidates.into_iter().map(|chosen| spend_rest(tensors, &fronts, chosen, budget));
    let best = filled
        .min_by(|a, b| loss_of(tensors, a).total_cmp(&loss_of(tensors, b)))
        .unwrap_or(cheapest);
    Ok(Solution {
        bytes: bytes_of(tensors, &best),
        loss: loss_of(tensors, &best),
        chosen: best,
        bound,
    })
}

fn bytes_of(tensors: &[Vec<Way>], chosen: &[usize]) -> u64 {
    tensors.iter().zip(chosen).map(|(ways, &way)| ways[way].bytes).fold(0, u64::saturating_add)
}

fn loss_of(tensors: &[Vec<Way>], chosen: &[usize]) -> f64 {
    tensors.iter().zip(chosen).map(|(ways, &way)| ways[way].loss).sum()
}

/// The ways that no other beats in both bytes and loss, by bytes.
fn front(ways: &[Way]) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..ways.len()).collect();
    numbers.sort_by(|&a, &b| {
        ways[a].bytes.cmp(&ways[b].bytes).then(ways[a].loss.total_cmp(&ways[b].loss))
    });
    let mut front: Vec<usize> = Vec::new();
    for number in numbers {
        if front.last().is_none_or(|&last| ways[number].loss < ways[last].loss) {
            front.push(number);
        }
    }
    front
}

/// The reduction of loss for each additional byte, from one way to another.
fn slope(from: Way, to: Way) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a slope to compare")]
    let bytes = to.bytes.saturating_sub(from.bytes).max(1) as f64;
    (from.loss - to.loss) / bytes
}

/// The ways of a front on its lower convex hull: what a byte more saves gets less from one to the
/// next.
fn hull(ways: &[Way], front: &[usize]) -> Vec<usize> {
    let mut hull: Vec<usize> = Vec::new();
    for &way in front {
        while let [.., a, b] = hull[..]
            && slope(ways[a], ways[b]) <= slope(ways[b], ways[way])
        {
            hull.pop();
        }
        hull.push(way);
    }
    hull
}

/// Takes the steps along all hulls, those first that save most for a byte, as long as they fit; and
/// the bound.
fn along_hulls(
    tensors: &[Vec<Way>],
    fronts: &[Vec<usize>],
    cheapest: &[usize],
    budget: u64,
) -> (Vec<usize>, f64) {
    let mut steps: Vec<(f64, usize, usize, usize)> = Vec::new();
    for (number, (ways, front)) in tensors.iter().zip(fronts).enumerate() {
        let hull = hull(ways, front);
        steps.extend(
            hull.windows(2)
                .map(|pair| (slope(ways[pair[0]], ways[pair[1]]), number, pair[0], pair[1])),
        );
    }
    // Equal steps in the order of the tensors, and those of one tensor in theirs.
    steps.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut chosen = cheapest.to_vec();
    let mut left = budget.saturating_sub(bytes_of(tensors, &chosen));
    let mut bound = None;
    for (slope, number, from, to) in steps {
        let ways = &tensors[number];
        let more = ways[to].bytes - ways[from].bytes;
        if chosen[number] == from && more <= left {
            chosen[number] = to;
            left -= more;
        } else if bound.is_none() {
            #[expect(clippy::cast_precision_loss, reason = "a bound a hair too low is one anyway")]
            let part = slope * left as f64;
            bound = Some(loss_of(tensors, &chosen) - part);
        }
    }
    let bound = bound.unwrap_or_else(|| loss_of(tensors, &chosen)).max(0.0);
    (chosen, bound)
}

/// The best choice when bytes beyond the cheapest are counted in granules, rounded up.
fn by_table(
    tensors: &[Vec<Way>],
    fronts: &[Vec<usize>],
    cheapest: &[usize],
    budget: u64,
) -> Vec<usize> {
    let left = budget.saturating_sub(bytes_of(tensors, cheapest));
    let count = left.min(GRANULES).min(CELLS / (tensors.len() as u64).max(1));
    let granule = left.div_ceil(count.max(1)).max(1);
    let room = usize::try_from(left / granule).unwrap_or(0);
    // What is lost with so many granules, and for each tensor which way of its front that takes.
    let mut losses = vec![0.0; room + 1];
    let mut taken: Vec<Vec<u8>> = Vec::with_capacity(tensors.len());
    for (ways, front) in tensors.iter().zip(fronts) {
        let cost = |way: usize| {
            usize::try_from((ways[way].bytes - ways[front[0]].bytes).div_ceil(granule))
                .unwrap_or(usize::MAX)
        };
        let mut now = vec![f64::INFINITY; room + 1];
        let mut which = vec![0u8; room + 1];
        for (place, &way) in (0u8..=u8::MAX).zip(front) {
            let (cost, loss) = (cost(way), ways[way].loss);
            if cost > room {
                break;
            }
            for ((now, which), before) in
                now[cost..].iter_mut().zip(&mut which[cost..]).zip(&losses)
            {
                if before + loss < *now {
                    (*now, *which) = (before + loss, place);
                }
            }
        }
        losses = now;
        taken.push(which);
    }
    let mut chosen = cheapest.to_vec();
    let mut at = room;
    for (number, which) in taken.iter().enumerate().rev() {
        let way = fronts[number][usize::from(which[at])];
        at -= usize::try_from(
            (tensors[number][way].bytes - tensors[number][fronts[number][0]].bytes)
                .div_ceil(granule),
        )
        .unwrap_or(0);
        chosen[number] = way;
    }
    chosen
}

/// Spends what is left on the single change that saves most, again and again.
fn spend_rest(
    tensors: &[Vec<Way>],
    fronts: &[Vec<usize>],
    mut chosen: Vec<usize>,
    budget: u64,
) -> Vec<usize> {
    loop {
        let left = budget.saturating_sub(bytes_of(tensors, &chosen));
        let changes = fronts
            .iter()
            .enumerate()
            .flat_map(|(number, front)| front.iter().map(move |&way| (number, way)));
        let fitting = changes.filter_map(|(number, way)| {
            let (from, to) = (tensors[number][chosen[number]], tensors[number][way]);
            let saved = from.loss - to.loss;
            (saved > 0.0 && to.bytes <= from.bytes.saturating_add(left))
                .then_some((saved, number, way))
        });
        let Some((_, number, way)) = fitting.max_by(|a, b| a.0.total_cmp(&b.0)) else {
            return chosen;
        };
        chosen[number] = way;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(bytes: u64, loss: f64) -> Way {
        Way { bytes, loss }
    }

    /// Numbers from 0 to 2^32 that look random.
    fn random() -> impl FnMut() -> u64 {
        let mut state = 7u64;
        move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 32
        }
    }

    #[test]
    fn what_fits_nowhere_says_how_much_it_takes() {
        let tensors = [vec![way(10, 5.0), way(7, 9.0)], vec![way(4, 1.0)]];
        assert_eq!(solve(&tensors, 10), Err(11));
        assert_eq!(solve(&tensors, 11).unwrap().chosen, [1, 0]);
        assert_eq!(solve(&tensors, 1000).unwrap().chosen, [0, 0]);
        assert_eq!(solve(&[], 0).unwrap().chosen, [0usize; 0]);
    }

    /// Small enough to try every choice: the answer is the best, and the bound is one.
    #[test]
    fn nothing_better_is_found_by_trying_everything() {
        let mut random = random();
        for _ in 0..300 {
            let count = 1 + (random() % 5) as usize;
            let tensors: Vec<Vec<Way>> = (0..count)
                .map(|_| {
                    (0..=random() % 5)
                        .map(|_| way(random() % 60, (random() % 1000) as f64))
                        .collect()
                })
                .collect();
            let all = tensors.iter().fold(vec![Vec::new()], |choices: Vec<Vec<usize>>, ways| {
                choices
                    .iter()
                    .flat_map(|choice| (0..ways.len()).map(|way| [&choice[..], &[way]].concat()))
                    .collect()
            });
            let budget = random() % 200;
            let fitting = all.iter().filter(|choice| bytes_of(&tensors, choice) <= budget);
            let best = fitting.map(|choice| loss_of(&tensors, choice)).min_by(f64::total_cmp);
            match (solve(&tensors, budget), best) {
                (Ok(found), Some(best)) => {
                    assert!(
                        (found.loss - best).abs() < 1e-9,
                        "{tensors:?} {budget}: {found:?}, expected {best}"
                    );
                    assert!(found.bytes <= budget && found.bound <= best + 1e-9, "{found:?}");
                }
                (Err(least), None) => assert!(least > budget),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Sizes as of a model, far beyond the granules: within a hair of the bound.
    #[test]
    fn a_large_one_is_close_to_the_bound() {
        let mut random = random();
        let of_size = |size: u64, noise: u64| {
            (2..9u32)
                .map(|bits| {
                    way(
                        size * u64::from(bits),
                        size as f64 * (1.0 + noise as f64 / 1e9) / f64::from(1 << (2 * bits)),
                    )
                })
                .collect::<Vec<_>>()
        };
        let tensors: Vec<Vec<Way>> =
            (0..200).map(|_| of_size(1_000_000 + random() % 50_000_000, random())).collect();
        let all: u64 = tensors.iter().map(|ways| ways[0].bytes / 2).sum();
        let found = solve(&tensors, all * 9 / 2).unwrap();
        assert!(found.bytes <= all * 9 / 2);
        assert!(found.loss <= found.bound * 1.002, "{} above {}", found.loss, found.bound);
    }
}
