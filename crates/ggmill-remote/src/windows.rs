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
    /// As many of the bytes from `offset` on as are there, at most so many; `None` without any.
    fn beginning(&self, offset: u64, most: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(start..).filter(|bytes| !bytes.is_empty())?;
        Some(bytes.get(..most).unwrap_or(bytes))
    }
}

impl Windows {
    /// These ranges of a file of this many bytes will be read.
    pub(crate) fn expect(&self, ranges: &[Range<u64>], len: u64) {
        let within = ranges.iter().map(|range| range.start..range.end.min(len));
        self.lock().expect(within.filter(|range| range.start < range.end));
    }

    /// Fills `out` with the bytes from `offset` on.
    pub(crate) fn read(
        &self,
        mut offset: u64,
        mut out: &mut [u8],
        fetch: &Fetch<'_>,
    ) -> Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        let mut state = self.lock();
        let window = loop {
            // A read may begin in one window and end in the next.
            let taken = state.take(offset, out);
            out = out.get_mut(taken..).unwrap_or_default();
            offset = offset.saturating_add(taken as u64);
            if out.is_empty() {
                return Ok(());
            }
            if taken > 0 {
                continue;
            }
            if !state.asked.iter().any(|range| range.contains(&offset)) {
                break state.window(offset, end);
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        // What one request brings is not asked for by another.
        state.forget(window.as_ref().unwrap_or(&(offset..end)));
        let Some(window) = window else {
            drop(state);
            return fetch(offset, out);
        };
        state.asked.push(window.clone());
        drop(state);
        // However the attempt ends, the others must not wait for it.
        let mut arrival = Arrival { windows: self, window: window.clone(), came: false };
        let mut bytes =
            vec![0; usize::try_from(window.end.saturating_sub(offset)).unwrap_or_default()];
        fetch(offset, &mut bytes)?;
        if let Some(first) = bytes.get(..out.len()) {
            out.copy_from_slice(first);
        }
        let taken = out.len();
        self.lock().keep(Window { start: offset, bytes, taken });
        arrival.came = true;
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
    came: bool,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        let mut state = self.windows.lock();
        state.asked.retain(|asked| *asked != self.window);
        if !self.came {
            state.expect(std::iter::once(self.window.clone()));
        }
        drop(state);
        self.windows.arrived.notify_all();
    }
}

impl State {
    /// Copies available bytes and returns how many; drops a window when all its bytes have been read.
    fn take(&mut self, offset: u64, out: &mut [u8]) -> usize {
        let found = self.there.iter_mut().enumerate().find_map(|(place, window)| {
            let bytes = window.beginning(offset, out.len())?;
            let taken = bytes.len();
            out.get_mut(..taken)?.copy_from_slice(bytes);
            window.taken = window.taken.saturating_add(taken);
            Some((place, taken, window.taken >= window.bytes.len()))
        });
        let Some((place, taken, is_used)) = found else { return 0 };
        if is_used {
            self.there.remove(place);
        }
        taken
    }

    /// Adds ranges that will be read.
    fn expect(&mut self, ranges: impl Iterator<Item = Range<u64>>) {
        self.expected.extend(ranges);
        self.expected.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(self.expected.len());
        for range in self.expected.drain(..) {
            match merged.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(GAP) => {
                    last.end = last.end.max(range.end);
                }
                _ => merged.push(range),
            }
        }
        self.expected = merged;
    }

    /// Takes a range out of what will be read.
    fn forget(&mut self, gone: &Range<u64>) {
        let first = self.expected.partition_point(|range| range.end <= gone.start);
        let last = self.expected.partition_point(|range| range.start < gone.end);
        let rest: Vec<_> = self
            .expected
            .get(first..last)
            .unwrap_or_default()
            .iter()
            .flat_map(|range| {
                [range.start..range.end.min(gone.start), range.start.max(gone.end)..range.end]
            })
            .filter(|range| range.start < range.end)
            .collect();
        self.expected.splice(first..last.max(first), rest);
    }

    /// The range to ask for so that the reads after this one have their bytes too; `None` where
    /// there are none such.
    fn window(&self, offset: u64, end: u64) -> Option<Range<u64>> {
        let place = self.expected.partition_point(|range| range.end <= offset);
        let run = self.expected.get(place).filter(|run| run.start < end)?;
        // A whole number of reads of this size, so that none crosses the end.
        let len = end.saturating_sub(offset).max(1);
        let size = WINDOW.saturating_sub(WINDOW.checked_rem(len).unwrap_or_default()).max(len);
        let last = run.end.min(offset.saturating_add(size));
        (last > end).then_some(offset..last)
    }

    fn keep(&mut self, window: Window) {
        self.there.push(window);
        let mut kept: usize = self.there.iter().map(|window| window.bytes.len()).sum();
        while kept > KEPT && self.there.len() > 1 {
            let dropped = self.there.remove(0);
            kept = kept.saturating_sub(dropped.bytes.len());
            let end = dropped.start.saturating_add(dropped.bytes.len() as u64);
            self.expect(std::iter::once(dropped.start..end));
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
    fn what_a_single_read_brought_is_not_asked_for_again() {
        let (windows, asked) = (Windows::default(), Mutex::new(Vec::new()));
        windows.expect(std::slice::from_ref(&(0..100)), 100);
        for offset in [20, 10, 0] {
            read(&windows, &asked, offset, 10);
        }
        read(&windows, &asked, 40, 10);
        assert_eq!(*asked.lock().unwrap(), [(20, 80), (10, 10), (0, 10)]);
    }

    #[test]
    fn a_window_ends_where_a_read_ends() {
        let (windows, asked) = (Windows::default(), Mutex::new(Vec::new()));
        windows.expect(std::slice::from_ref(&(0..2 * WINDOW)), 2 * WINDOW);
        let piece = usize::try_from(WINDOW).unwrap() / 3 + 1;
        for place in 0..3 {
            read(&windows, &asked, place * piece as u64, piece);
        }
        // A read of another size crosses it, and begins the next.
        read(&windows, &asked, 3 * piece as u64, piece / 2 + 1);
        read(&windows, &asked, 4 * piece as u64 - 5, 10);
        let lens: Vec<_> = asked.lock().unwrap().iter().map(|&(_, len)| len).collect();
        assert_eq!(lens[..2], [2 * piece, 2 * piece]);
        assert_eq!(asked.lock().unwrap().len(), 3);
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
