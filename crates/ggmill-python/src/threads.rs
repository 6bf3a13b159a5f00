//! Work on many rows, on threads that are gone when it returns: a process that forks afterwards has
//! none of them.

use std::num::NonZero;

use ggmill::pipeline::RunOptions;

use crate::error::Result;

/// Values that one thread works on before it takes the next.
const PIECE: usize = 1 << 18;

/// So many threads, or as many as the machine runs at once.
pub(crate) fn count(threads: Option<usize>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, NonZero::get);
    threads.filter(|&threads| threads > 0).unwrap_or_else(all)
}

/// The same, as a number that is not zero.
pub(crate) fn some(threads: Option<usize>) -> NonZero<usize> {
    NonZero::new(count(threads)).unwrap_or(NonZero::<usize>::MIN)
}

/// Options of a run on so many threads. Always a pool of its own, never that of the process.
pub(crate) fn run_options(threads: Option<usize>) -> RunOptions {
    RunOptions::with_threads(count(threads))
}

/// Whole rows of `input` worked into rows of `output`, in pieces that threads share. `work` gets
/// the number of the first row with both pieces.
pub(crate) fn rows<A: Sync, B: Send>(
    threads: Option<usize>,
    (input, input_row): (&[A], usize),
    (output, output_row): (&mut [B], usize),
    work: impl Fn(usize, &[A], &mut [B]) -> Result<()> + Sync,
) -> Result<()> {
    let per_piece = (PIECE / input_row.max(output_row).max(1)).max(1);
    let pieces: Vec<_> = input
        .chunks(per_piece * input_row.max(1))
        .zip(output.chunks_mut(per_piece * output_row.max(1)))
        .enumerate()
        .collect();
    let threads = count(threads).min(pieces.len());
    if threads <= 1 {
        return pieces
            .into_iter()
            .try_for_each(|(number, (input, output))| work(number * per_piece, input, output));
    }
    let queue = std::sync::Mutex::new(pieces.into_iter());
    let next = || queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        let (next, work) = (&next, &work);
        let run = move || -> Result<()> {
            while let Some((number, (input, output))) = next() {
                work(number * per_piece, input, output)?;
            }
            Ok(())
        };
        // Fewer threads than asked for, where the system has no more: this one does all there is.
        let spawned =
            (1..threads).map_while(|_| std::thread::Builder::new().spawn_scoped(scope, run).ok());
        let others: Vec<_> = spawned.collect();
        let own = run();
        others.into_iter().fold(own, |done, other| match other.join() {
            Ok(other) => done.and(other),
            // It becomes an exception where Python is called from.
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}
