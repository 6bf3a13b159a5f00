//! Several reads in one request: of ranges that are going to be read, in the order of the file.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::Result;

/// Bytes of one request for what is going to be read.
const WINDOW: u64 = 8 << 20;
/// Bytes between two ranges that cost less than another request.
const GAP: u64 = 64 << 10;
/// Bytes that are kept for reads to come.
const KEPT: usize = 64 << 20;

/// Asks for a range.
pub(crate) type Fetch<'a> = dyn Fn(u64, &mut [u8]) -> Result<()> + 'a;

/// What is going to be read, what is being asked for, and what has come.
#[derive(Default)]
pub(crate) struct Windows {
    state: Mutex<State>,
    /// A window has come, or has not.
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    /// What is going to be read: sorted, apart from each other by more than a gap.
    expected: Vec<Range<u64>>,
    /// What is being asked for.
    asked: Vec<Range<u64>>,
    /// What has come, the oldest first.
    there: Vec<Window>,
}

struct Window {
    start: u64,
    bytes: Vec<u8>,
    /// Bytes of it that have been read.
    taken: usize,
}

impl Window {
    fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(start..)?.get(..len)
    }
}

impl Windows {
    /// These ranges of a file of so many bytes will be read.
    pub(crate) fn expect(&self, ranges: &[Range<u64>], len: u64) {
        let mut state = self.lock();
        let within = ranges.iter().map(|range| range.start..range.end.min(len));
        state.expected.extend(within.filter(|range| range.start < range.end));
        state.expected.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(state.expected.len());
        for range in state.expected.drain(..) {
            match merged.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(GAP) => {
                    last.end = last.end.max(range.end);
                }
                _ => merged.push(range),
            }
        }
        state.expected = merged;
    }

    /// Fills `out` with the bytes from `offset` on.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8], fetch: &Fetch<'_>) -> Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        let mut state = self.lock();
        let window = loop {
            if state.take(offset, out) {
                return Ok(());
            }
            if !state.asked.iter().any(|range| range.contains(&offset)) {
                break state.window(offset, end);
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let Some(window) = window else {
            drop(state);
            return fetch(offset, out);
        };
        state.asked.push(window.clone());
        drop(state);
        // However the attempt ends, the others must not wait for it.
        let arrival = Arrival { windows: self, window: window.clone() };
        let mut bytes =
            vec![0; usize::try_from(window.end.saturating_sub(offset)).unwrap_or_default()];
        fetch(offset, &mut bytes)?;
        if let Some(first) = bytes.get(..out.len()) {
            out.copy_from_slice(first);
        }
        let taken = out.len();
        self.lock().keep(Window { start: offset, bytes, taken });
        drop(arrival);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the request for a window.
struct Arrival<'a> {
    windows: &'a Windows,
    window: Range<u64>,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        let mut state = self.windows.lock();
        state.asked.retain(|asked| *asked != self.window);
        drop(state);
        self.windows.arrived.notify_all();
    }
}

impl State {
    /// Copies bytes that are there, and forgets a window of which all have been read.
    fn take(&mut self, offset: u64, out: &mut [u8]) -> bool {
        let found = self.there.iter_mut().enumerate().find_map(|(place, window)| {
            out.copy_from_slice(window.get(offset, out.len())?);
            window.taken = window.taken.saturating_add(out.len());
            Some((place, window.taken >= window.bytes.len()))
        });
        if let Some((place, true)) = found {
            self.there.remove(place);
        }
        found.is_some()
    }

    /// The range to ask for so that the reads after this one have their bytes too; `None` where
    /// there are none such.
    fn window(&self, offset: u64, end: u64) -> Option<Range<u64>> {
        let place = self.expected.partition_point(|range| range.end <= offset);
        let run = self.expected.get(place).filter(|run| run.start <= offset)?;
        let there = self.there.iter().map(|window| window.start);
        // Up to what another request brings.
        let next = self.asked.iter().map(|range| range.start).chain(there);
        let next = next.filter(|&start| start > offset).min().unwrap_or(u64::MAX);
        let last = run.end.min(offset.saturating_add(WINDOW)).min(next);
        (last > end).then_some(offset..last)
    }

    fn keep(&mut self, window: Window) {
        self.there.push(window);
        let mut kept: usize = self.there.iter().map(|window| window.bytes.len()).sum();
        while kept > KEPT && self.there.len() > 1 {
            kept = kept.saturating_sub(self.there.remove(0).bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::{GAP, WINDOW, Windows};

    /// The byte at a place.
    fn byte(at: u64) -> u8 {
        u8::try_from(at % 251).unwrap()
    }

    fn read(windows: &Windows, asked: &Mutex<Vec<(u64, usize)>>, offset: u64, len: usize) {
        let mut out = vec![0; len];
        let fetch = |offset: u64, out: &mut [u8]| {
            asked.lock().unwrap().push((offset, out.len()));
            for (place, value) in (offset..).zip(out) {
                *value = byte(place);
            }
            Ok(())
        };
        windows.read(offset, &mut out, &fetch).unwrap();
        assert!((offset..).zip(&out).all(|(place, value)| *value == byte(place)));
    }

    #[test]
    fn without_a_hint_every_read_is_a_request_of_its_size() {
        let (windows, asked) = (Windows::default(), Mutex::new(Vec::new()));
        for (offset, len) in [(5, 10), (15, 3), (0, 1)] {
            read(&windows, &asked, offset, len);
        }
        assert_eq!(*asked.lock().unwrap(), [(5, 10), (15, 3), (0, 1)]);
    }

    #[test]
    fn what_will_be_read_comes_together_and_nothing_else() {
        let (windows, asked) = (Windows::default(), Mutex::new(Vec::new()));
        windows.expect(&[100..200, 200 + GAP..300 + GAP, 1 << 20..(1 << 20) + 50], 1 << 30);
        read(&windows, &asked, 100, 50);
        read(&windows, &asked, 150, 50);
        read(&windows, &asked, 200 + GAP, 100);
        read(&windows, &asked, 1 << 20, 50);
        let first = usize::try_from(200 + GAP).unwrap();
        assert_eq!(*asked.lock().unwrap(), [(100, first), (1 << 20, 50)]);
    }

    #[test]
    fn a_large_range_comes_in_windows_read_by_several_threads_once() {
        let (windows, asked) = (Windows::default(), Mutex::new(Vec::new()));
        let len = 5 * WINDOW / 2;
        windows.expect(std::slice::from_ref(&(0..len)), len);
        let piece = 1usize << 20;
        let next = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
                            * (piece as u64);
                        if at >= len {
                            break;
                        }
                        read(&windows, &asked, at, piece);
                    }
                });
            }
        });
        let asked = asked.into_inner().unwrap();
        let total: usize = asked.iter().map(|(_, len)| len).sum();
        assert_eq!(total as u64, len, "{asked:?}");
        // Threads that come in the wrong order ask for single pieces, of which there are 20.
        assert!(asked.len() <= 13, "{asked:?}");
    }

    #[test]
    fn a_failed_window_is_asked_for_again() {
        let (windows, asked) = (Windows::default(), Mutex::new(Vec::new()));
        windows.expect(std::slice::from_ref(&(0..100)), 100);
        let broken = |_: u64, _: &mut [u8]| Err(crate::Location::parse("ftp://h").unwrap_err());
        assert!(windows.read(0, &mut [0; 10], &broken).is_err());
        read(&windows, &asked, 0, 10);
        assert_eq!(*asked.lock().unwrap(), [(0, 100)]);
    }
}
