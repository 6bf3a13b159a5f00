//! The progress bar.

use std::time::{Duration, Instant};

use ggmill_core::RawStr;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::console::Console;

/// What is over sooner needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar on standard error, for work on bytes that takes longer than a second. It goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Bar {
    shown: Option<ProgressBar>,
    wanted: bool,
    since: Instant,
}

impl Bar {
    pub(crate) fn new(console: Console) -> Self {
        Self { shown: None, wanted: console.shows_progress(), since: Instant::now() }
    }

    /// So many bytes of so many are done, and this is what is being worked on.
    pub(crate) fn update(&mut self, done: u64, total: u64, what: &str) {
        if !self.wanted || self.since.elapsed() < PATIENCE {
            return;
        }
        let bar = self.shown.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            let template = "{bar:24} {percent:>3}%  {bytes} of {total_bytes}  {bytes_per_sec}  {eta} left  {msg}";
            bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())).with_elapsed(self.since.elapsed())
        });
        bar.set_position(done);
        bar.set_message(RawStr::from(what).to_string());
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}
