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

/// A progress bar on standard error, for work that takes longer than [`PATIENCE`]. It disappears when
/// it is dropped.
#[derive(Debug)]
pub(crate) struct Bar {
    drawn: Option<ProgressBar>,
    is_enabled: bool,
    /// The unit, such as files; `None` for bytes.
    unit: Option<&'static str>,
    since: Instant,
}

impl Bar {
    pub(crate) fn new(console: Console) -> Self {
        let is_enabled = console.shows_progress();
        Self { drawn: None, is_enabled, unit: None, since: Instant::now() }
    }

    /// Returns a bar that counts `unit`, such as files, instead of bytes.
    pub(crate) fn with_unit(console: Console, unit: &'static str) -> Self {
        let mut bar = Self::new(console);
        bar.unit = Some(unit);
        bar
    }

    /// Shows that `done` of `total` bytes or units are complete, and the name of the current item.
    pub(crate) fn update(&mut self, done: u64, total: u64, item: &str) {
        if !self.is_enabled || self.since.elapsed() < PATIENCE {
            return;
        }
        let bar = self.drawn.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr())
                .with_elapsed(self.since.elapsed());
            let columns =
                terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| width.0);
            let style = ProgressStyle::with_template(&template(columns, self.unit))
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            // The rate since the start of the work: indicatif computes it from the first update, when
            // PATIENCE has passed already.
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
        bar.set_message(RawStr::from(item).to_string());
    }
}

/// The progress of a call of the library: a bar for the current stage.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    console: Console,
    current: Arc<Mutex<Option<(Stage, Bar)>>>,
}

impl Bars {
    pub(crate) fn new(console: Console) -> Self {
        Self { console, current: Arc::default() }
    }

    /// Shows the progress of a call. Never cancels it.
    pub(crate) fn show(&self, progress: &Progress<'_>) -> ControlFlow<()> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|(stage, _)| *stage != progress.stage) {
            let bar = match progress.stage.unit() {
                "bytes" => Bar::new(self.console),
                unit => Bar::with_unit(self.console, unit),
            };
            *current = Some((progress.stage, bar));
        }
        if let Some((stage, bar)) = &mut *current {
            let item = match (stage, progress.number) {
                (_, Some((number, count))) => format!("{number}/{count} {}", progress.tensor),
                (Stage::Importance, None) => "importance".to_owned(),
                (stage, None) if progress.tensor.is_empty() => stage.unit().to_owned(),
                _ => progress.tensor.to_owned(),
            };
            bar.update(progress.done, progress.total, &item);
        }
        ControlFlow::Continue(())
    }

    /// Removes the bar, so that something can be printed.
    pub(crate) fn clear(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Removes the bar, and prints a note.
    pub(crate) fn tell(&self, note: &Note) {
        self.clear();
        self.console.tell(note);
    }
}

/// Sets the callbacks of a builder of the library: progress and notes go to `$bars`.
macro_rules! with_bars {
    ($builder:expr, $bars:expr) => {{
        let (shown, told) = ($bars.clone(), $bars.clone());
        $builder
            .on_progress(move |progress| shown.show(progress))
            .on_note(move |note| told.tell(note))
    }};
}
pub(crate) use with_bars;

/// Returns the template for a terminal with `columns` columns. The name of the item gets the columns
/// that remain.
fn template(columns: u16, unit: Option<&str>) -> String {
    let amount = match unit {
        Some(unit) => format!("{{pos}} of {{len}} {unit}"),
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

/// Returns the rate in bytes (or units) per second, and the remaining time at that rate.
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
        if let Some(bar) = &self.drawn {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_measured_since_the_start() {
        assert_eq!(
            pace(260 << 20, 1300 << 20, Duration::from_secs(2)),
            (130 << 20, Duration::from_secs(8))
        );
        assert_eq!(pace(0, 100, Duration::from_secs(1)), (0, Duration::from_secs(100)));
        // Less than one unit per second.
        assert_eq!(pace(5, 10, Duration::from_secs(60)), (0, Duration::from_secs(60)));
        assert_eq!(pace(100, 100, Duration::from_secs(1)), (100, Duration::ZERO));
    }

    /// With the widest numbers, the line without the item fits the narrowest terminal of its template.
    #[test]
    fn a_line_fits_its_terminal() {
        for ((narrowest, columns), unit) in
            [(100, 100), (100, 250), (70, 99), (70, 70), (30, 69), (30, 40)]
                .into_iter()
                .flat_map(|size| [None, Some("files"), Some("chunks")].map(|unit| (size, unit)))
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
            let text = widest.iter().fold(template(columns, unit), |text, (key, width)| {
                text.replace(key, &"x".repeat(*width))
            });
            assert!(text.len() < narrowest && !text.contains('{'), "{columns}: {text}");
        }
    }
}
