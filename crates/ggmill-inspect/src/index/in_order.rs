//! Parallel work whose results are consumed in order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Runs `work` for each number below `count` on `threads` threads and passes the results to `take` in
/// order, on the calling thread. Returns the value with which `take` breaks.
///
/// No work starts while the waiting results weigh `limit` or more, so they weigh at most `limit` plus
/// one result per thread.
pub(super) fn in_order<T: Send, E>(
    count: usize,
    threads: usize,
    limit: usize,
    work: &(dyn Fn(usize) -> T + Sync),
    weigh: fn(&T) -> usize,
    take: &mut dyn FnMut(T) -> ControlFlow<E>,
) -> Option<E> {
    let queue =
        Queue { count, limit, work, weigh, state: Mutex::default(), changed: Condvar::new() };
    thread::scope(|scope| {
        // The scope joins the threads, so they have to end also when this returns early or panics.
        let _end = EndOnDrop(&queue);
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
    /// Signals every change of `state`.
    changed: Condvar,
}

struct State<T> {
    /// The first number whose work has not started.
    next: usize,
    /// Results that wait to be taken.
    results: BTreeMap<usize, T>,
    /// The weight of `results`.
    weight: usize,
    ended: bool,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self { next: 0, results: BTreeMap::new(), weight: 0, ended: false }
    }
}

/// Ends the threads when it is dropped.
struct EndOnDrop<'a, 'q, T>(&'a Queue<'q, T>);

impl<T> Drop for EndOnDrop<'_, '_, T> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

impl<T> Queue<'_, T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, state: MutexGuard<'g, State<T>>) -> MutexGuard<'g, State<T>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until work may start and returns its number; `None` at the end.
    fn begin(&self) -> Option<usize> {
        let mut state = self.lock();
        // The result that `take` waits for has already started, so this cannot deadlock.
        while state.weight >= self.limit && !state.ended {
            state = self.wait(state);
        }
        let number = state.next;
        state.next = state.next.saturating_add(1);
        (number < self.count && !state.ended).then_some(number)
    }

    /// Runs on each thread.
    fn run(&self) {
        // A panic drops `end`, which ends the other threads and the wait for the lost result.
        let end = EndOnDrop(self);
        while let Some(number) = self.begin() {
            let result = (self.work)(number);
            let mut state = self.lock();
            state.weight = state.weight.saturating_add((self.weigh)(&result));
            state.results.insert(number, result);
            self.changed.notify_all();
        }
        std::mem::forget(end);
    }

    /// Waits for the result of a number; `None` if a thread has panicked.
    fn result(&self, number: usize) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(result) = state.results.remove(&number) {
                state.weight = state.weight.saturating_sub((self.weigh)(&result));
                self.changed.notify_all();
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
    fn results_come_in_order_and_waiting_ones_are_bounded() {
        for threads in [0, 1, 2, 7] {
            let (waiting, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let work = |number: usize| {
                // The first is the slowest, so that other results wait.
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
            // The result that is being taken no longer counts.
            assert!(most.into_inner() <= 5 + threads + 1);
        }
    }

    #[test]
    fn the_consumer_can_stop_early() {
        let work = |number: usize| number;
        let mut break_off = |number| if number == 3 { Break("enough") } else { Continue(()) };
        assert_eq!(in_order(1000, 4, 1, &work, |_| 1, &mut break_off), Some("enough"));
    }

    #[test]
    fn a_panic_of_a_thread_reaches_the_caller() {
        let panicked = std::panic::catch_unwind(|| {
            let work = |number: usize| assert!(number != 3);
            in_order(100, 2, 10, &work, |()| 1, &mut |()| Continue::<()>(()))
        });
        assert!(panicked.is_err());
    }
}
