//! Bounds on the memory of a target: a constant and a multiple of the input's length, whatever
//! counts the input states.
#![expect(unsafe_code, reason = "the one way to count allocations is to be the allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting the bytes that a thread holds.
struct Counting;

thread_local! {
    /// Bytes allocated now, and the peak since the last reset.
    static COUNT: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

fn note(bytes: i64) {
    // A thread that is ending has no counter any more.
    let _ = COUNT.try_with(|count| {
        let (held, peak) = count.get();
        count.set((held + bytes, peak.max(held + bytes)));
    });
}

fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

// SAFETY: every call is forwarded unchanged to the system's allocator; counting touches no memory
// of the caller.
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

/// Runs `work` and checks that it never holds more than `constant` bytes and `factor` bytes per
/// byte of input on this thread.
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
