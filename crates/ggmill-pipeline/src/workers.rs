//! Threads that share out work which is not a run.

use rayon::ThreadPool;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

use crate::error::Result;
use crate::run::RunOptions;

/// Threads of their own for hashing, comparing, measuring: as many as [`RunOptions::threads`] says.
#[derive(Debug)]
pub struct Workers(ThreadPool);

impl RunOptions {
    /// Starts the threads. Fails when that cannot be done.
    ///
    /// ```
    /// use ggmill_pipeline::RunOptions;
    /// let workers = RunOptions::on(2).workers()?;
    /// assert_eq!(workers.map(&[1, 2, 3], |number| number * 2), [2, 4, 6]);
    /// # Ok::<(), ggmill_pipeline::Error>(())
    /// ```
    pub fn workers(&self) -> Result<Workers> {
        self.pool().map(Workers)
    }
}

impl Workers {
    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.0.current_num_threads()
    }

    /// The result of the work for each item, in the order of the items.
    pub fn map<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> R + Send + Sync,
    ) -> Vec<R> {
        self.0.install(|| items.par_iter().map(work).collect())
    }
}
