//! The few colors, and what they mean.

use anstyle::{AnsiColor, Style};

/// One style for each role a piece of text can have; all plain when colors are off.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Styles {
    pub(crate) title: Style,
    pub(crate) faint: Style,
    pub(crate) key: Style,
    pub(crate) string: Style,
    pub(crate) number: Style,
    pub(crate) type_name: Style,
    pub(crate) bar: Style,
}

impl Styles {
    pub(crate) fn new(styled: bool) -> Self {
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
