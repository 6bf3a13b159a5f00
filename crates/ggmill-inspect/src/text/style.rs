//! The few colours, and what they mean.

use anstyle::{AnsiColor, Style};

/// One style for each role a piece of text can have; all plain when colours are off.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Styles {
    pub(super) title: Style,
    pub(super) faint: Style,
    pub(super) key: Style,
    pub(super) string: Style,
    pub(super) number: Style,
    pub(super) type_name: Style,
    pub(super) bar: Style,
}

impl Styles {
    pub(super) fn new(styled: bool) -> Self {
        if !styled {
            return Self::default();
        }
        Self {
            title: Style::new().bold(),
            faint: Style::new().dimmed(),
            key: AnsiColor::Blue.on_default(),
            string: AnsiColor::Green.on_default(),
            number: AnsiColor::Cyan.on_default(),
            type_name: AnsiColor::Yellow.on_default(),
            bar: AnsiColor::Cyan.on_default(),
        }
    }
}
