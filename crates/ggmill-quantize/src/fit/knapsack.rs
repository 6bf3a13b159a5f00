//! The multiple-choice knapsack: one item per tensor, with the least total loss within a budget.
//!
//! The better of two solutions is taken: the greedy walk along the convex hulls, which is optimal
//! except for the last step that does not fit, and dynamic programming over the budget in granules,
//! which is optimal except for rounding. The remaining budget is then spent on single changes. The
//! hulls also give a lower bound: no choice has a smaller loss than the greedy walk that may take a
//! fraction of the last step.

/// A candidate type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) bytes: u64,
    /// The loss, finite and not negative.
    pub(super) loss: f64,
}

/// A choice for every tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Solution {
    /// The index of the chosen item of each tensor.
    pub(super) chosen: Vec<usize>,
    pub(super) bytes: u64,
    pub(super) loss: f64,
    /// A lower bound of the loss of any choice within the budget.
    pub(super) bound: f64,
}

/// The maximum number of granules of the budget.
const GRANULES: u64 = 1 << 14;
/// The maximum number of cells of the table, of one byte each.
const CELLS: u64 = 64 << 20;

/// Returns the best choice found, or the size of the smallest choice as the error if it exceeds the
/// budget. Every tensor has an item.
pub(super) fn solve(tensors: &[Vec<Item>], budget: u64) -> Result<Solution, u64> {
    let fronts: Vec<Vec<usize>> = tensors.iter().map(|items| front(items)).collect();
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

fn bytes_of(tensors: &[Vec<Item>], chosen: &[usize]) -> u64 {
    tensors.iter().zip(chosen).map(|(items, &item)| items[item].bytes).fold(0, u64::saturating_add)
}

fn loss_of(tensors: &[Vec<Item>], chosen: &[usize]) -> f64 {
    tensors.iter().zip(chosen).map(|(items, &item)| items[item].loss).sum()
}

/// Returns the Pareto front: the items that no other beats in both bytes and loss, by bytes.
fn front(items: &[Item]) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..items.len()).collect();
    numbers.sort_by(|&a, &b| {
        items[a].bytes.cmp(&items[b].bytes).then(items[a].loss.total_cmp(&items[b].loss))
    });
    let mut front: Vec<usize> = Vec::new();
    for number in numbers {
        if front.last().is_none_or(|&last| items[number].loss < items[last].loss) {
            front.push(number);
        }
    }
    front
}

/// Returns the reduction of loss per additional byte from one item to another.
fn slope(from: Item, to: Item) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a slope to compare")]
    let bytes = to.bytes.saturating_sub(from.bytes).max(1) as f64;
    (from.loss - to.loss) / bytes
}

/// Returns the items of a front on its lower convex hull, along which the slope decreases.
fn hull(items: &[Item], front: &[usize]) -> Vec<usize> {
    let mut hull: Vec<usize> = Vec::new();
    for &item in front {
        while let [.., a, b] = hull[..]
            && slope(items[a], items[b]) <= slope(items[b], items[item])
        {
            hull.pop();
        }
        hull.push(item);
    }
    hull
}

/// Takes the steps along all hulls that fit, the steepest first. Returns the choice and the lower
/// bound.
fn along_hulls(
    tensors: &[Vec<Item>],
    fronts: &[Vec<usize>],
    cheapest: &[usize],
    budget: u64,
) -> (Vec<usize>, f64) {
    let mut steps: Vec<(f64, usize, usize, usize)> = Vec::new();
    for (number, (items, front)) in tensors.iter().zip(fronts).enumerate() {
        let hull = hull(items, front);
        steps.extend(
            hull.windows(2)
                .map(|pair| (slope(items[pair[0]], items[pair[1]]), number, pair[0], pair[1])),
        );
    }
    // A stable sort: equal steps stay in the order of the tensors and of each hull.
    steps.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut chosen = cheapest.to_vec();
    let mut left = budget.saturating_sub(bytes_of(tensors, &chosen));
    let mut bound = None;
    for (slope, number, from, to) in steps {
        let items = &tensors[number];
        let more = items[to].bytes - items[from].bytes;
        if chosen[number] == from && more <= left {
            chosen[number] = to;
            left -= more;
        } else if bound.is_none() {
            #[expect(clippy::cast_precision_loss, reason = "a slightly lower bound is still one")]
            let part = slope * left as f64;
            bound = Some(loss_of(tensors, &chosen) - part);
        }
    }
    let bound = bound.unwrap_or_else(|| loss_of(tensors, &chosen)).max(0.0);
    (chosen, bound)
}

/// Returns the best choice if bytes beyond the cheapest choice are counted in granules, rounded up.
fn by_table(
    tensors: &[Vec<Item>],
    fronts: &[Vec<usize>],
    cheapest: &[usize],
    budget: u64,
) -> Vec<usize> {
    let left = budget.saturating_sub(bytes_of(tensors, cheapest));
    let count = left.min(GRANULES).min(CELLS / (tensors.len() as u64).max(1));
    let granule = left.div_ceil(count.max(1)).max(1);
    let room = usize::try_from(left / granule).unwrap_or(0);
    // The least loss for each number of granules, and the item of each tensor's front that gives
    // it.
    let mut losses = vec![0.0; room + 1];
    let mut taken: Vec<Vec<u8>> = Vec::with_capacity(tensors.len());
    for (items, front) in tensors.iter().zip(fronts) {
        let cost = |item: usize| {
            usize::try_from((items[item].bytes - items[front[0]].bytes).div_ceil(granule))
                .unwrap_or(usize::MAX)
        };
        let mut now = vec![f64::INFINITY; room + 1];
        let mut which = vec![0u8; room + 1];
        for (place, &item) in (0u8..=u8::MAX).zip(front) {
            let (cost, loss) = (cost(item), items[item].loss);
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
        let item = fronts[number][usize::from(which[at])];
        at -= usize::try_from(
            (tensors[number][item].bytes - tensors[number][fronts[number][0]].bytes)
                .div_ceil(granule),
        )
        .unwrap_or(0);
        chosen[number] = item;
    }
    chosen
}

/// Spends the remaining budget on the single change that saves most, repeatedly.
fn spend_rest(
    tensors: &[Vec<Item>],
    fronts: &[Vec<usize>],
    mut chosen: Vec<usize>,
    budget: u64,
) -> Vec<usize> {
    loop {
        let left = budget.saturating_sub(bytes_of(tensors, &chosen));
        let changes = fronts
            .iter()
            .enumerate()
            .flat_map(|(number, front)| front.iter().map(move |&item| (number, item)));
        let fitting = changes.filter_map(|(number, item)| {
            let (from, to) = (tensors[number][chosen[number]], tensors[number][item]);
            let saved = from.loss - to.loss;
            (saved > 0.0 && to.bytes <= from.bytes.saturating_add(left))
                .then_some((saved, number, item))
        });
        let Some((_, number, item)) = fitting.max_by(|a, b| a.0.total_cmp(&b.0)) else {
            return chosen;
        };
        chosen[number] = item;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(bytes: u64, loss: f64) -> Item {
        Item { bytes, loss }
    }

    /// Returns a generator of pseudo-random numbers from 0 to 2^32.
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
    fn too_small_a_budget_returns_the_smallest_size() {
        let tensors = [vec![item(10, 5.0), item(7, 9.0)], vec![item(4, 1.0)]];
        assert_eq!(solve(&tensors, 10), Err(11));
        assert_eq!(solve(&tensors, 11).unwrap().chosen, [1, 0]);
        assert_eq!(solve(&tensors, 1000).unwrap().chosen, [0, 0]);
        assert_eq!(solve(&[], 0).unwrap().chosen, [0usize; 0]);
    }

    /// Compares small problems with exhaustive search.
    #[test]
    fn solutions_of_small_problems_are_optimal() {
        let mut random = random();
        for _ in 0..300 {
            let count = 1 + (random() % 5) as usize;
            let tensors: Vec<Vec<Item>> = (0..count)
                .map(|_| {
                    (0..=random() % 5)
                        .map(|_| item(random() % 60, (random() % 1000) as f64))
                        .collect()
                })
                .collect();
            let all = tensors.iter().fold(vec![Vec::new()], |choices: Vec<Vec<usize>>, items| {
                choices
                    .iter()
                    .flat_map(|choice| (0..items.len()).map(|item| [&choice[..], &[item]].concat()))
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

    /// Sizes of a real model, much larger than the number of granules.
    #[test]
    fn solutions_of_large_problems_are_close_to_the_bound() {
        let mut random = random();
        let of_size = |size: u64, noise: u64| {
            (2..9u32)
                .map(|bits| {
                    item(
                        size * u64::from(bits),
                        size as f64 * (1.0 + noise as f64 / 1e9) / f64::from(1 << (2 * bits)),
                    )
                })
                .collect::<Vec<_>>()
        };
        let tensors: Vec<Vec<Item>> =
            (0..200).map(|_| of_size(1_000_000 + random() % 50_000_000, random())).collect();
        let all: u64 = tensors.iter().map(|items| items[0].bytes / 2).sum();
        let found = solve(&tensors, all * 9 / 2).unwrap();
        assert!(found.bytes <= all * 9 / 2);
        assert!(found.loss <= found.bound * 1.002, "{} above {}", found.loss, found.bound);
    }
}
