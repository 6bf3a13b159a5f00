//! Prefetching: one request for several reads in announced ranges, in the order of the file.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::Result;

/// The maximum bytes of a request for a window of an announced range.
const WINDOW: u64 = 8 << 20;
/// The maximum gap between two ranges that are merged, since its bytes cost less than a request.
const GAP: u64 = 64 << 10;
/// The maximum bytes of received windows that are kept for later reads.
const MAX_KEPT: usize = 64 << 20;

/// Requests a range and fills a buffer.
pub(crate) type Fetch<'a> = dyn Fn(u64, &mut [u8]) -> Result<()> + 'a;

/// The announced ranges, the pending requests, and the received windows.
#[derive(Default)]
pub(crate) struct Windows {
    state: Mutex<State>,
    /// Notified when a request has ended, successfully or not.
    request_ended: Condvar,
}

#[derive(Default)]
struct State {
    /// The announced ranges: sorted, with gaps of more than [`GAP`].
    announced: Vec<Range<u64>>,
    /// The ranges of pending requests.
    pending: Vec<Range<u64>>,
    /// The received windows, oldest first.
    received: Vec<Window>,
}

struct Window {
    start: u64,
    bytes: Vec<u8>,
    /// The number of its bytes that have been read.
    taken: usize,
}

impl Window {
    /// Returns the available bytes from `offset` on, at most `max_len`, or `None` if there are none.
    fn bytes_from(&self, offset: u64, max_len: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(start..).filter(|bytes| !bytes.is_empty())?;
        Some(bytes.get(..max_len).unwrap_or(bytes))
    }
}

impl Windows {
    /// Announces ranges of a file of `len` bytes that will be read.
    pub(crate) fn announce(&self, ranges: &[Range<u64>], len: u64) {
        let within = ranges.iter().map(|range| range.start..range.end.min(len));
        self.lock().announce(within.filter(|range| range.start < range.end));
    }

    /// Fills `out` with the bytes from `offset` on, from received windows and by requests.
    pub(crate) fn read(
        &self,
        mut offset: u64,
        mut out: &mut [u8],
        fetch: &Fetch<'_>,
    ) -> Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        let mut state = self.lock();
        let window = loop {
            // A read can begin in one window and end in the next.
            let taken = state.take(offset, out);
            out = out.get_mut(taken..).unwrap_or_default();
            offset = offset.saturating_add(taken as u64);
            if out.is_empty() {
                return Ok(());
            }
            if taken > 0 {
                continue;
            }
            if !state.pending.iter().any(|range| range.contains(&offset)) {
                break state.window(offset, end);
            }
            state = self.request_ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        // Bytes that this request receives must not be requested by another.
        state.remove(window.as_ref().unwrap_or(&(offset..end)));
        let Some(window) = window else {
            drop(state);
            return fetch(offset, out);
        };
        state.pending.push(window.clone());
        drop(state);
        // Ends the request on every return, so that other threads do not wait forever.
        let mut request =
            PendingRequest { windows: self, window: window.clone(), succeeded: false };
        let mut bytes =
            vec![0; usize::try_from(window.end.saturating_sub(offset)).unwrap_or_default()];
        fetch(offset, &mut bytes)?;
        if let Some(first) = bytes.get(..out.len()) {
            out.copy_from_slice(first);
        }
        let taken = out.len();
        self.lock().keep(Window { start: offset, bytes, taken });
        request.succeeded = true;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a pending request when it is dropped, and announces its range again if it failed.
struct PendingRequest<'a> {
    windows: &'a Windows,
    window: Range<u64>,
    succeeded: bool,
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        let mut state = self.windows.lock();
        state.pending.retain(|range| *range != self.window);
        if !self.succeeded {
            state.announce(std::iter::once(self.window.clone()));
        }
        drop(state);
        self.windows.request_ended.notify_all();
    }
}

impl State {
    /// Copies available bytes and returns their number. Drops a window of which all bytes have been read.
    fn take(&mut self, offset: u64, out: &mut [u8]) -> usize {
        let found = self.received.iter_mut().enumerate().find_map(|(place, window)| {
            let bytes = window.bytes_from(offset, out.len())?;
            let taken = bytes.len();
            out.get_mut(..taken)?.copy_from_slice(bytes);
            window.taken = window.taken.saturating_add(taken);
            Some((place, taken, window.taken >= window.bytes.len()))
        });
        let Some((place, taken, is_used)) = found else { return 0 };
        if is_used {
            self.received.remove(place);
        }
        taken
    }

    /// Adds ranges, merging those with small gaps.
    fn announce(&mut self, ranges: impl Iterator<Item = Range<u64>>) {
        self.announced.extend(ranges);
        self.announced.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(self.announced.len());
        for range in self.announced.drain(..) {
            match merged.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(GAP) => {
                    last.end = last.end.max(range.end);
                }
                _ => merged.push(range),
            }
        }
        self.announced = merged;
    }

    /// Removes a range from the announced ranges.
    fn remove(&mut self, removed: &Range<u64>) {
        let first = self.announced.partition_point(|range| range.end <= removed.start);
        let last = self.announced.partition_point(|range| range.start < removed.end);
        let rest: Vec<_> = self
            .announced
            .get(first..last)
            .unwrap_or_default()
            .iter()
            .flat_map(|range| {
                [range.start..range.end.min(removed.start), range.start.max(removed.end)..range.end]
            })
            .filter(|range| range.start < range.end)
            .collect();
        self.announced.splice(first..last.max(first), rest);
    }

    /// Returns the range to request for a read and the announced reads after it, or `None` if none are
    /// announced.
    fn window(&self, offset: u64, end: u64) -> Option<Range<u64>> {
        let index = self.announced.partition_point(|range| range.end <= offset);
        let run = self.announced.get(index).filter(|run| run.start < end)?;
        // A multiple of the length of this read, so that reads of that length do not cross the end.
        let len = end.saturating_sub(offset).max(1);
        let size = WINDOW.saturating_sub(WINDOW.checked_rem(len).unwrap_or_default()).max(len);
        let last = run.end.min(offset.saturating_add(size));
        (last > end).then_some(offset..last)
    }

    fn keep(&mut self, window: Window) {
        self.received.push(window);
        let mut kept: usize = self.received.iter().map(|window| window.bytes.len()).sum();
        while kept > MAX_KEPT && self.received.len() > 1 {
            let dropped = self.received.remove(0);
            kept = kept.saturating_sub(dropped.bytes.len());
            let end = dropped.start.saturating_add(dropped.bytes.len() as u64);
            self.announce(std::iter::once(dropped.start..end));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::{GAP, WINDOW, Windows};

    /// Returns the byte at an offset.
    fn byte(at: u64) -> u8 {
        u8::try_from(at % 251).unwrap()
    }

    fn read(windows: &Windows, requests: &Mutex<Vec<(u64, usize)>>, offset: u64, len: usize) {
        let mut out = vec![0; len];
        let fetch = |offset: u64, out: &mut [u8]| {
            requests.lock().unwrap().push((offset, out.len()));
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
        let (windows, requests) = (Windows::default(), Mutex::new(Vec::new()));
        for (offset, len) in [(5, 10), (15, 3), (0, 1)] {
            read(&windows, &requests, offset, len);
        }
        assert_eq!(*requests.lock().unwrap(), [(5, 10), (15, 3), (0, 1)]);
    }

    #[test]
    fn announced_ranges_are_requested_together() {
        let (windows, requests) = (Windows::default(), Mutex::new(Vec::new()));
        windows.announce(&[100..200, 200 + GAP..300 + GAP, 1 << 20..(1 << 20) + 50], 1 << 30);
        read(&windows, &requests, 100, 50);
        read(&windows, &requests, 150, 50);
        read(&windows, &requests, 200 + GAP, 100);
        read(&windows, &requests, 1 << 20, 50);
        let first = usize::try_from(200 + GAP).unwrap();
        assert_eq!(*requests.lock().unwrap(), [(100, first), (1 << 20, 50)]);
    }

    #[test]
    fn several_threads_request_each_window_once() {
        let (windows, requests) = (Windows::default(), Mutex::new(Vec::new()));
        let len = 5 * WINDOW / 2;
        windows.announce(std::slice::from_ref(&(0..len)), len);
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
                        read(&windows, &requests, at, piece);
                    }
                });
            }
        });
        let requests = requests.into_inner().unwrap();
        let total: usize = requests.iter().map(|(_, len)| len).sum();
        assert_eq!(total as u64, len, "{requests:?}");
        // Threads can read out of order, and then request single pieces, of which there are 20.
        assert!(requests.len() <= 13, "{requests:?}");
    }

    #[test]
    fn received_bytes_are_not_requested_again() {
        let (windows, requests) = (Windows::default(), Mutex::new(Vec::new()));
        windows.announce(std::slice::from_ref(&(0..100)), 100);
        for offset in [20, 10, 0] {
            read(&windows, &requests, offset, 10);
        }
        read(&windows, &requests, 40, 10);
        assert_eq!(*requests.lock().unwrap(), [(20, 80), (10, 10), (0, 10)]);
    }

    #[test]
    fn a_window_ends_where_a_read_ends() {
        let (windows, requests) = (Windows::default(), Mutex::new(Vec::new()));
        windows.announce(std::slice::from_ref(&(0..2 * WINDOW)), 2 * WINDOW);
        let piece = usize::try_from(WINDOW).unwrap() / 3 + 1;
        for place in 0..3 {
            read(&windows, &requests, place * piece as u64, piece);
        }
        // A read of another length crosses the end and begins the next window.
        read(&windows, &requests, 3 * piece as u64, piece / 2 + 1);
        read(&windows, &requests, 4 * piece as u64 - 5, 10);
        let lens: Vec<_> = requests.lock().unwrap().iter().map(|&(_, len)| len).collect();
        assert_eq!(lens[..2], [2 * piece, 2 * piece]);
        assert_eq!(requests.lock().unwrap().len(), 3);
    }

    #[test]
    fn a_failed_window_is_requested_again() {
        let (windows, requests) = (Windows::default(), Mutex::new(Vec::new()));
        windows.announce(std::slice::from_ref(&(0..100)), 100);
        let broken = |_: u64, _: &mut [u8]| Err(crate::Location::parse("ftp://h").unwrap_err());
        assert!(windows.read(0, &mut [0; 10], &broken).is_err());
        read(&windows, &requests, 0, 10);
        assert_eq!(*requests.lock().unwrap(), [(0, 100)]);
    }
}
