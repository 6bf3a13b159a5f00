//! Standard output and standard error: colors, results, notes, warnings and errors.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal as _, StderrLock, StdoutLock, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use ggmill::Note;
use ggmill_core::printable;

use crate::guard::Guard;
use crate::hints;
use crate::outcome::Failure;

/// The size of the buffer for standard output, in bytes.
const BUFFER: usize = 64 << 10;

/// The output settings of the command: whether it uses colors, and whether it prints only results and
/// errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    color: ColorChoice,
    quiet: bool,
}

impl Console {
    pub(crate) fn new(color: ColorChoice, quiet: bool) -> Self {
        Self { color, quiet }
    }

    /// Returns standard output for text, with colors removed if they are off, and control characters
    /// escaped. The caller flushes it: dropping it would lose a write error.
    pub(crate) fn text(self) -> BufWriter<Guard<AutoStream<StdoutLock<'static>>>> {
        BufWriter::with_capacity(
            BUFFER,
            Guard::new(AutoStream::new(io::stdout().lock(), self.color_of_stdout())),
        )
    }

    /// Returns standard output for bytes that are written unchanged, such as JSON. The caller flushes
    /// it.
    #[expect(clippy::unused_self, reason = "all output goes through the console")]
    pub(crate) fn bytes(self) -> BufWriter<StdoutLock<'static>> {
        BufWriter::with_capacity(BUFFER, io::stdout().lock())
    }

    fn color_of_stdout(self) -> ColorChoice {
        match self.color {
            ColorChoice::Auto => AutoStream::choice(&io::stdout()),
            color => color,
        }
    }

    /// Returns `true` if text on standard output has colors.
    pub(crate) fn is_styled(self) -> bool {
        self.color_of_stdout() != ColorChoice::Never
    }

    /// Returns standard error, for text that is not a single message.
    pub(crate) fn errors(self) -> Guard<AutoStream<StderrLock<'static>>> {
        Guard::new(AutoStream::new(io::stderr().lock(), self.color_of_stderr()))
    }

    /// Prints a usage error, or help and the version, which clap returns as errors.
    pub(crate) fn usage(self, error: &clap::Error) -> io::Result<()> {
        let text = error.render();
        if error.use_stderr() {
            let mut out = self.errors();
            write!(out, "{}", text.ansi())?;
            return out.flush();
        }
        let mut out = self.text();
        write!(out, "{}", text.ansi())?;
        out.flush()
    }

    /// Returns `true` if text on standard error has colors.
    pub(crate) fn styles_errors(self) -> bool {
        self.color_of_stderr() != ColorChoice::Never
    }

    fn color_of_stderr(self) -> ColorChoice {
        match self.color {
            ColorChoice::Auto => AutoStream::choice(&io::stderr()),
            color => color,
        }
    }

    /// Returns the number of columns of the terminal; `None` if standard output is not a terminal.
    #[expect(clippy::unused_self, reason = "the terminal belongs to the console")]
    pub(crate) fn width(self) -> Option<usize> {
        let stdout = io::stdout();
        let size = stdout.is_terminal().then(|| terminal_size::terminal_size_of(&stdout))?;
        Some(size.map_or(80, |(width, _)| usize::from(width.0)))
    }

    /// Prints a warning, except with `--quiet`.
    pub(crate) fn warn(self, message: impl fmt::Display) {
        if !self.quiet {
            self.print("warning", AnsiColor::Yellow, &message);
        }
    }

    /// Prints a note, except with `--quiet`.
    pub(crate) fn note(self, message: impl fmt::Display) {
        if !self.quiet {
            self.print("note", AnsiColor::Cyan, &message);
        }
    }

    /// Prints a note of the library, as a warning if it is one.
    pub(crate) fn tell(self, note: &Note) {
        let text = hints::note(note);
        if note.is_warning() { self.warn(text) } else { self.note(text) }
    }

    /// Returns `true` if only requested results and errors are printed.
    pub(crate) fn is_quiet(self) -> bool {
        self.quiet
    }

    /// Returns `true` if progress is shown: standard error is a terminal, and `--quiet` was not given.
    pub(crate) fn shows_progress(self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// Prints the message and the hint of a failure.
    pub(crate) fn error(self, failure: &Failure) {
        let Failure::Refused { message, hint } = failure else { return };
        self.print("error", AnsiColor::Red, message);
        if let Some(hint) = hint {
            self.print("hint", AnsiColor::Cyan, hint);
        }
    }

    /// Prints a line on standard error. A write error is ignored: there is no other stream to report
    /// it on.
    fn print(self, label: &str, color: AnsiColor, message: &dyn fmt::Display) {
        let style = Style::new().fg_color(Some(color.into())).bold();
        let message = message.to_string();
        // A message has no styles, but can have several lines.
        let lines: Vec<_> = message.split('\n').map(printable).collect();
        let _ = writeln!(self.errors(), "{style}{label}:{style:#} {}", lines.join("\n"));
    }
}
/// Returns a number and a noun, in the plural unless the number is 1: `1 tensor`, `2 tensors`.
pub(crate) fn counted(number: usize, thing: impl fmt::Display) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
