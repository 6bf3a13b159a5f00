//! Standard output and standard error.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal as _, StderrLock, StdoutLock, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use ggmill::Note;

use crate::hints;
use crate::outcome::Failure;

/// Bytes gathered before they are written.
const BUFFER: usize = 64 << 10;

/// Where results and remarks go, and how they look there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    color: ColorChoice,
    quiet: bool,
}

impl Console {
    pub(crate) fn new(color: ColorChoice, quiet: bool) -> Self {
        Self { color, quiet }
    }

    /// Standard output for text. The writer flushes at the end, or an error would be lost.
    pub(crate) fn text(self) -> BufWriter<AutoStream<StdoutLock<'static>>> {
        BufWriter::with_capacity(
            BUFFER,
            AutoStream::new(io::stdout().lock(), self.color_of_stdout()),
        )
    }

    /// Standard output for bytes that are not text for a terminal, such as JSON. The writer flushes
    /// at the end.
    #[expect(clippy::unused_self, reason = "results leave through the console")]
    pub(crate) fn bytes(self) -> BufWriter<StdoutLock<'static>> {
        BufWriter::with_capacity(BUFFER, io::stdout().lock())
    }

    fn color_of_stdout(self) -> ColorChoice {
        match self.color {
            ColorChoice::Auto => AutoStream::choice(&io::stdout()),
            color => color,
        }
    }

    /// Whether text on standard output has colors.
    pub(crate) fn is_styled(self) -> bool {
        self.color_of_stdout() != ColorChoice::Never
    }

    /// Standard error for text that is more than a remark.
    pub(crate) fn errors(self) -> AutoStream<StderrLock<'static>> {
        AutoStream::new(io::stderr().lock(), self.color_of_stderr())
    }

    /// Whether text on standard error has colors.
    pub(crate) fn styles_errors(self) -> bool {
        self.color_of_stderr() != ColorChoice::Never
    }

    fn color_of_stderr(self) -> ColorChoice {
        match self.color {
            ColorChoice::Auto => AutoStream::choice(&io::stderr()),
            color => color,
        }
    }

    /// Columns of the terminal, or `None` where standard output is none.
    #[expect(clippy::unused_self, reason = "the terminal belongs to the console")]
    pub(crate) fn width(self) -> Option<usize> {
        let stdout = io::stdout();
        let size = stdout.is_terminal().then(|| terminal_size::terminal_size_of(&stdout))?;
        Some(size.map_or(80, |(width, _)| usize::from(width.0)))
    }

    /// Says something odd that does not keep the command from its work.
    pub(crate) fn warn(self, message: impl fmt::Display) {
        if !self.quiet {
            self.remark("warning", AnsiColor::Yellow, &message);
        }
    }

    /// Says something worth knowing about what was done.
    pub(crate) fn note(self, message: impl fmt::Display) {
        if !self.quiet {
            self.remark("note", AnsiColor::Cyan, &message);
        }
    }

    /// Prints a note of the library.
    pub(crate) fn tell(self, note: &Note) {
        let text = hints::note(note);
        if note.is_warning() { self.warn(text) } else { self.note(text) }
    }

    /// Whether nothing is to be said but results that were asked for, and errors.
    pub(crate) fn is_quiet(self) -> bool {
        self.quiet
    }

    /// Whether progress is shown: to a person who looks at a terminal and did not ask for quiet.
    pub(crate) fn shows_progress(self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// Says why the command failed, and what to do about it.
    pub(crate) fn error(self, failure: &Failure) {
        let Failure::Refused { message, hint } = failure else { return };
        self.remark("error", AnsiColor::Red, message);
        if let Some(hint) = hint {
            self.remark("hint", AnsiColor::Cyan, hint);
        }
    }

    /// A remark that cannot be written is dropped: there is nowhere to say so.
    fn remark(self, label: &str, color: AnsiColor, message: &dyn fmt::Display) {
        let style = Style::new().fg_color(Some(color.into())).bold();
        let _ = writeln!(self.errors(), "{style}{label}:{style:#} {message}");
    }
}
