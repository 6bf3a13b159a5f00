//! Tables with columns, or with one line per cell on a narrow terminal.

use std::fmt::Write as _;
use std::io::{self, Write};

use anstyle::Style;

use super::Options;
use super::layout::{Padded, Styles, lines_of, packed, width};

/// The minimum width of the last column for which its text is wrapped.
const MIN_TEXT: usize = 24;

/// A column after the first one: its heading and alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "all others are text")]
pub enum Column<'a> {
    /// Numbers, right-aligned.
    Number(&'a str),
    /// Text, left-aligned. In the last column it is wrapped after commas.
    Text(&'a str),
}

/// A table whose cells are in columns after each name, or in lines below it if they do not fit.
///
/// ```
/// use ggmill_inspect::text::{Column, Options, Table};
/// let mut table = Table::new("type", &[Column::Number("size"), Column::Text("of")]);
/// table.add("Q4_K_M", ["24.4 MiB".to_owned(), "Q4_K, Q6_K".to_owned()]);
/// let text = |width| {
///     let mut out = Vec::new();
///     table.write(&mut out, &Options::default().with_width(width)).map(|()| out)
/// };
/// assert_eq!(text(80)?, b"type        size  of\nQ4_K_M  24.4 MiB  Q4_K, Q6_K\n");
/// assert_eq!(text(20)?, b"Q4_K_M\n  size  24.4 MiB\n  of    Q4_K, Q6_K\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Table<'a> {
    head: &'a str,
    columns: Vec<Column<'a>>,
    rows: Vec<Row>,
    indent: usize,
}

#[derive(Clone, Debug)]
struct Row {
    name: String,
    cells: Vec<String>,
    remark: Option<String>,
}

impl Column<'_> {
    fn head(&self) -> &str {
        match self {
            Self::Number(head) | Self::Text(head) => head,
        }
    }
}

impl<'a> Table<'a> {
    /// Creates an empty table from the heading of the names and the other columns.
    pub fn new(head: &'a str, columns: &[Column<'a>]) -> Self {
        Self { head, columns: columns.to_vec(), rows: Vec::new(), indent: 0 }
    }

    /// Sets the number of spaces before each line.
    #[must_use]
    pub fn with_indent(self, indent: usize) -> Self {
        Self { indent, ..self }
    }

    /// Adds a row: a name, and a cell for each further column.
    pub fn add(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter().collect();
        self.rows.push(Row { name: name.to_owned(), cells, remark: None });
    }

    /// Adds a line of text under the last row.
    pub fn remark(&mut self, text: &str) {
        if let Some(row) = self.rows.last_mut() {
            row.remark = Some(text.to_owned());
        }
    }

    /// Writes the table. Uses the options `width` and `styled`. Fails if `out` fails.
    pub fn write(&self, out: &mut dyn Write, options: &Options) -> io::Result<()> {
        let styles = Styles::new(options.styled);
        let room = options.width.map(|columns| columns.saturating_sub(self.indent));
        let first = self.rows.iter().map(|row| width(&row.name)).chain([width(self.head)]).max();
        let first = first.unwrap_or_default();
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(number, column)| {
                let cells = self.rows.iter().filter_map(|row| row.cells.get(number));
                cells.map(|cell| width(cell)).chain([width(column.head())]).max()
            })
            .map(Option::unwrap_or_default)
            .collect();
        let whole: usize = first + widths.iter().map(|width| width + 2).sum::<usize>();
        let last = match self.columns.last() {
            Some(Column::Text(_)) => widths.last().copied().unwrap_or_default(),
            _ => 0,
        };
        match room {
            Some(room) if room < whole - last + last.min(MIN_TEXT) => {
                self.write_stacked(out, room, &styles)
            }
            _ => self.write_columns(out, (first, &widths), room, &styles),
        }
    }

    fn write_columns(
        &self,
        out: &mut dyn Write,
        (first, widths): (usize, &[usize]),
        room: Option<usize>,
        styles: &Styles,
    ) -> io::Result<()> {
        let Styles { faint, key, number, .. } = *styles;
        let indent = self.indent;
        let before = first + 2 + widths.iter().rev().skip(1).map(|width| width + 2).sum::<usize>();
        let last_room = room.map_or(usize::MAX, |room| room.saturating_sub(before));
        let line = |name: &str, cells: &[&str], styles: [Style; 2]| -> String {
            let [of_name, of_number] = styles;
            let mut text = format!("{:indent$}{of_name}{}{of_name:#}", "", Padded(name, first));
            for ((column, cell), &width) in self.columns.iter().zip(cells).zip(widths) {
                match column {
                    Column::Number(_) => {
                        let cell = Padded(cell, width);
                        let _ = write!(text, "  {of_number}{cell:>}{of_number:#}");
                    }
                    Column::Text(_) => {
                        let next = format!("\n{:1$}", "", indent + before);
                        let lines = packed(cell.split_inclusive(", "), "", last_room);
                        text.push_str("  ");
                        text.push_str(&Padded(&lines.join(&next), width).to_string());
                    }
                }
            }
            text.truncate(text.trim_end().len());
            text
        };
        let heads: Vec<&str> = self.columns.iter().map(Column::head).collect();
        if heads.iter().any(|head| !head.is_empty()) {
            writeln!(out, "{}", line(self.head, &heads, [faint, faint]))?;
        }
        for row in &self.rows {
            let cells: Vec<&str> = row.cells.iter().map(String::as_str).collect();
            writeln!(out, "{}", line(&row.name, &cells, [key, number]))?;
            self.write_remark(out, row, room, styles)?;
        }
        Ok(())
    }

    fn write_remark(
        &self,
        out: &mut dyn Write,
        row: &Row,
        room: Option<usize>,
        styles: &Styles,
    ) -> io::Result<()> {
        let (Some(remark), faint, indent) = (&row.remark, styles.faint, self.indent) else {
            return Ok(());
        };
        for line in lines_of(remark, room.map_or(usize::MAX, |room| room.saturating_sub(2))) {
            writeln!(out, "{:indent$}  {faint}{line}{faint:#}", "")?;
        }
        Ok(())
    }

    /// Writes each name with its cells in lines below it.
    pub(crate) fn write_stacked(
        &self,
        out: &mut dyn Write,
        room: usize,
        styles: &Styles,
    ) -> io::Result<()> {
        let Styles { faint, key, number, .. } = *styles;
        let indent = self.indent;
        let heads = self.columns.iter().map(|column| width(column.head())).max().unwrap_or(0);
        let start = if heads > 0 { 2 + heads + 2 } else { 2 };
        for row in &self.rows {
            writeln!(out, "{:indent$}{key}{}{key:#}", "", row.name)?;
            for (column, cell) in self.columns.iter().zip(&row.cells) {
                let head = Padded(column.head(), start - 2);
                let style = match column {
                    Column::Number(_) => number,
                    Column::Text(_) => Style::new(),
                };
                let cell = lines_of(cell, room.saturating_sub(start));
                let cell = cell.join(&format!("\n{:1$}", "", indent + start));
                writeln!(out, "{:indent$}  {faint}{head}{faint:#}{style}{cell}{style:#}", "")?;
            }
            self.write_remark(out, row, Some(room), styles)?;
        }
        Ok(())
    }
}
