//! Work on several threads whose results are taken in order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Does the work of each number below `count` on so many threads, and hands the results to `take` in
/// the order of the numbers, until that breaks off.
///
/// No work is begun while results that wait for their turn weigh `limit` or more. So they weigh no
/// more than that and one result for each thread.
pub(crate) fn in_order<T: Send, E>(
    count: usize,
    threads: usize,
    limit: usize,
    work: &(dyn Fn(usize) -> T + Sync),
    weigh: fn(&T) -> usize,
    take: &mut dyn FnMut(T) -> ControlFlow<E>,
) -> Option<E> {
    let queue = Queue { count, limit, work, weigh, state: Mutex::default(), moved: Condvar::new() };
    thread::scope(|scope| {
        // However the results are taken, the threads end.
        let _end = Ended(&queue);
        let started = (0..threads.min(count))
            .filter(|_| thread::Builder::new().spawn_scoped(scope, || queue.run()).is_ok())
            .count();
        for number in 0..count {
            let result = if started == 0 { work(number) } else { queue.result(number)? };
            if let ControlFlow::Break(with) = take(result) {
                return Some(with);
            }
        }
        None
    })
}

struct Queue<'a, T> {
    count: usize,
    limit: usize,
    work: &'a (dyn Fn(usize) -> T + Sync),
    weigh: fn(&T) -> usize,
    state: Mutex<State<T>>,
    /// The state is another.
    moved: Condvar,
}

struct State<T> {
    /// The first number whose work was not begun.
    next: usize,
    /// Results that wait for their turn.
    results: BTreeMap<usize, T>,
    /// What these weigh.
    weight: usize,
    ended: bool,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self { next: 0, results: BTreeMap::new(), weight: 0, ended: false }
    }
}

/// Ends the threads when it is dropped.
struct Ended<'a, 'q, T>(&'a Queue<'q, T>);

impl<T> Drop for Ended<'_, '_, T> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.moved.notify_all();
    }
}

impl<T> Queue<'_, T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, state: MutexGuard<'g, State<T>>) -> MutexGuard<'g, State<T>> {
        self.moved.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The number whose work is to be done next; `None` when there is none.
    fn begin(&self) -> Option<usize> {
        let mut state = self.lock();
        // The result that is waited for has been begun, so that it does not wait here.
        while state.weight >= self.limit && !state.ended {
            state = self.wait(state);
        }
        let number = state.next;
        state.next = state.next.saturating_add(1);
        (number < self.count && !state.ended).then_some(number)
    }

    /// What each thread does.
    fn run(&self) {
        // A thread that panics ends the others: their results would not be taken.
        let end = Ended(self);
        while let Some(number) = self.begin() {
            let result = (self.work)(number);
            let mut state = self.lock();
            state.weight = state.weight.saturating_add((self.weigh)(&result));
            state.results.insert(number, result);
            self.moved.notify_all();
        }
        std::mem::forget(end);
    }

    /// The result of a number, once it is there; `None` when a thread has panicked.
    fn result(&self, number: usize) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(result) = state.results.remove(&number) {
                state.weight = state.weight.saturating_sub((self.weigh)(&result));
                self.moved.notify_all();
                return Some(result);
            }
            if state.ended {
                return None;
            }
            state = self.wait(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow::{Break, Continue};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::in_order;

    #[test]
    fn results_come_in_order_and_what_waits_is_bounded() {
        for threads in [0, 1, 2, 7] {
            let (waiting, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let work = |number: usize| {
                // The first is the slowest, so that others wait for it.
                std::thread::sleep(std::time::Duration::from_millis(if number == 0 {
                    20
                } else {
                    0
                }));
                most.fetch_max(waiting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                number
            };
            let mut taken = Vec::new();
            let broken = in_order(200, threads, 5, &work, |_| 1, &mut |number| {
                waiting.fetch_sub(1, Ordering::SeqCst);
                taken.push(number);
                Continue::<()>(())
            });
            assert!(broken.is_none());
            assert_eq!(taken, (0..200).collect::<Vec<_>>());
            // The one that is being taken is weighed no more.
            assert!(most.into_inner() <= 5 + threads + 1);
        }
    }

    #[test]
    fn the_taker_can_break_off() {
        let work = |number: usize| number;
        let mut break_off = |number| if number == 3 { Break("enough") } else { Continue(()) };
        assert_eq!(in_order(1000, 4, 1, &work, |_| 1, &mut break_off), Some("enough"));
    }

    #[test]
    fn a_panic_of_a_thread_is_one_of_the_caller() {
        let panicked = std::panic::catch_unwind(|| {
            let work = |number: usize| assert!(number != 3);
            in_order(100, 2, 10, &work, |()| 1, &mut |()| Continue::<()>(()))
        });
        assert!(panicked.is_err());
    }
}
