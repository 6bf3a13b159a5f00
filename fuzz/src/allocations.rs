//! How much memory a target takes: no more than a constant and a multiple of its input, whatever
//! numbers the input has in it.
#![expect(unsafe_code, reason = "the one way to count allocations is to be the allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting the bytes that a thread holds.
struct Counting;

thread_local! {
    /// Bytes held now, and the most that were held since the last look.
    static COUNT: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

fn note(bytes: i64) {
    // A thread that is ending has no count any more.
    let _ = COUNT.try_with(|count| {
        let (held, peak) = count.get();
        count.set((held + bytes, peak.max(held + bytes)));
    });
}

fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

// SAFETY: every call is handed to the system's allocator as it came; counting touches no memory of
// the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(signed(layout.size()));
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(signed(layout.size()));
        // SAFETY: the caller keeps the promises of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-signed(layout.size()));
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(signed(new_size) - signed(layout.size()));
        // SAFETY: the caller keeps the promises of `realloc`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`, which may hold `constant` bytes and `factor` for each of so many bytes of input at
/// once, on this thread.
pub(crate) fn bounded<T>(input: usize, constant: i64, factor: i64, work: impl FnOnce() -> T) -> T {
    let before = COUNT.with(|count| {
        let (held, _) = count.get();
        count.set((held, held));
        held
    });
    let made = work();
    let (_, peak) = COUNT.with(Cell::get);
    let (took, most) = (peak - before, constant + factor * signed(input));
    assert!(
        took <= most,
        "{took} bytes of memory for an input of {input}, at most {most} expected"
    );
    made
}
