//! The progress bar.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ggmill::{Note, Progress, Stage};
use ggmill_core::RawStr;
use indicatif::{
    HumanBytes, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};

use crate::console::Console;

/// The delay before a progress bar is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar on standard error, for work that takes longer than a second: on bytes, or on pieces that are
/// counted. It goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Bar {
    shown: Option<ProgressBar>,
    wanted: bool,
    /// What is counted, such as files; bytes if nothing is named.
    counted: Option<&'static str>,
    since: Instant,
}

impl Bar {
    pub(crate) fn new(console: Console) -> Self {
        Self { shown: None, wanted: console.shows_progress(), counted: None, since: Instant::now() }
    }

    /// A bar of work on pieces with this name, such as files, which may take longer than a second
    /// each.
    pub(crate) fn of_pieces(console: Console, name: &'static str) -> Self {
        let mut bar = Self::new(console);
        bar.counted = Some(name);
        bar
    }

    /// This many bytes or pieces of so many are done, and this is what is being worked on.
    pub(crate) fn update(&mut self, done: u64, total: u64, what: &str) {
        if !self.wanted || self.since.elapsed() < PATIENCE {
            return;
        }
        let bar = self.shown.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr())
                .with_elapsed(self.since.elapsed());
            let columns =
                terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| width.0);
            let style = ProgressStyle::with_template(&template(columns, self.counted))
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            // Of the whole work: what was done before there was a bar was not done in an instant.
            let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
                let _ = write!(
                    out,
                    "{}/s",
                    HumanBytes(pace(state.pos(), total_of(state), state.elapsed()).0)
                );
            };
            let left = |state: &ProgressState, out: &mut dyn fmt::Write| {
                let _ = write!(
                    out,
                    "{:#}",
                    HumanDuration(pace(state.pos(), total_of(state), state.elapsed()).1)
                );
            };
            bar.with_style(style.with_key("rate", rate).with_key("left", left))
        });
        bar.set_position(done);
        bar.set_message(RawStr::from(what).to_string());
    }
}

/// The bars of a call: one for each stage, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    console: Console,
    current: Arc<Mutex<Option<(Stage, Bar)>>>,
}

impl Bars {
    pub(crate) fn new(console: Console) -> Self {
        Self { console, current: Arc::default() }
    }

    /// Shows progress, and goes on: nothing here ends a call.
    pub(crate) fn show(&self, progress: &Progress<'_>) -> ControlFlow<()> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|(stage, _)| *stage != progress.stage) {
            let bar = match progress.stage.unit() {
                "bytes" => Bar::new(self.console),
                unit => Bar::of_pieces(self.console, unit),
            };
            *current = Some((progress.stage, bar));
        }
        if let Some((stage, bar)) = &mut *current {
            let what = match (stage, progress.number) {
                (_, Some((number, count))) => format!("{number}/{count} {}", progress.tensor),
                (Stage::Importance, None) => "importance".to_owned(),
                (stage, None) if progress.tensor.is_empty() => stage.unit().to_owned(),
                _ => progress.tensor.to_owned(),
            };
            bar.update(progress.done, progress.total, &what);
        }
        ControlFlow::Continue(())
    }

    /// Removes the bar, so that something else can be printed.
    pub(crate) fn clear(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Prints a note in place of the bar.
    pub(crate) fn tell(&self, note: &Note) {
        self.clear();
        self.console.tell(note);
    }
}

/// Shows the progress and the notes of a builder of the library in bars.
macro_rules! with_bars {
    ($builder:expr, $bars:expr) => {{
        let (shown, told) = ($bars.clone(), $bars.clone());
        $builder
            .on_progress(move |progress| shown.show(progress))
            .on_note(move |note| told.tell(note))
    }};
}
pub(crate) use with_bars;

/// The template for a line of so many columns. The name at the end gets the remaining ones.
fn template(columns: u16, counted: Option<&str>) -> String {
    let amount = match counted {
        Some(name) => format!("{{pos}} of {{len}} {name}"),
        None => "{bytes} of {total_bytes}  {rate}".to_owned(),
    };
    match columns {
        100.. => format!("{{bar:24}} {{percent:>3}}%  {amount}  {{left}} left  {{wide_msg}}"),
        70.. => format!("{{percent:>3}}%  {amount}  {{left}} left  {{wide_msg}}"),
        _ => "{percent:>3}%  {left} left  {wide_msg}".to_owned(),
    }
}

fn total_of(state: &ProgressState) -> u64 {
    state.len().unwrap_or_else(|| state.pos())
}

/// Bytes a second so far, and how long the rest takes at that rate.
fn pace(done: u64, total: u64, elapsed: Duration) -> (u64, Duration) {
    let millis = elapsed.as_millis().max(1);
    let rate = u128::from(done).saturating_mul(1000) / millis;
    let rest = u128::from(total.saturating_sub(done));
    let left = rest.saturating_mul(millis) / u128::from(done.max(1)) / 1000;
    (
        u64::try_from(rate).unwrap_or(u64::MAX),
        Duration::from_secs(u64::try_from(left).unwrap_or(u64::MAX)),
    )
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_whole_work() {
        assert_eq!(
            pace(260 << 20, 1300 << 20, Duration::from_secs(2)),
            (130 << 20, Duration::from_secs(8))
        );
        assert_eq!(pace(0, 100, Duration::from_secs(1)), (0, Duration::from_secs(100)));
        // Less than one piece a second.
        assert_eq!(pace(5, 10, Duration::from_secs(60)), (0, Duration::from_secs(60)));
        assert_eq!(pace(100, 100, Duration::from_secs(1)), (100, Duration::ZERO));
    }

    /// Widest numbers and all, a line of these columns is not wrapped: the name gets what is left.
    #[test]
    fn a_line_fits_its_terminal() {
        for ((least, columns), name) in
            [(100, 100), (100, 250), (70, 99), (70, 70), (30, 69), (30, 40)]
                .into_iter()
                .flat_map(|size| [None, Some("files"), Some("chunks")].map(|name| (size, name)))
        {
            let widest = [
                ("{bar:24}", 24),
                ("{percent:>3}", 3),
                ("{pos}", 11),
                ("{len}", 11),
                ("{bytes}", 11),
                ("{total_bytes}", 11),
                ("{rate}", 13),
                ("{left}", 4),
                ("{wide_msg}", 0),
            ];
            let text = widest.iter().fold(template(columns, name), |text, (key, width)| {
                text.replace(key, &"x".repeat(*width))
            });
            assert!(text.len() < least && !text.contains('{'), "{columns}: {text}");
        }
    }
}
