//! The table of tensors.

use std::io::{self, Write};

use anstyle::Style;
use ggmill_core::Tensor;

use super::Page;
use super::layout::{Padded, Styles, cut_middle, width};
use crate::human::{self, grouped};

/// The maximum width of the column of names without a terminal, so that one absurdly long name does not
/// fill every line with spaces.
const MAX_ALIGNED_LEN: usize = 96;

impl Page<'_> {
    pub(super) fn tensors(&self, out: &mut dyn Write, titled: bool) -> io::Result<()> {
        let all = self.model.tensors().len();
        let rows = || {
            self.model
                .tensors()
                .iter()
                .enumerate()
                .filter(|(_, tensor)| self.selection.has_name(tensor.name()))
                .map(|(number, tensor)| Row { number, shard: tensor.part(), tensor })
        };
        let shown = rows().count();
        if titled {
            let note = if shown == all {
                grouped(all as u64)
            } else {
                format!("{} of {}", grouped(shown as u64), grouped(all as u64))
            };
            self.title(out, "Tensors", &note)?;
        }
        if shown == 0 {
            return Ok(());
        }
        let listed = self.options.tensor_rows.unwrap_or(usize::MAX);
        let indent = if titled { 2 } else { 0 };
        let room = self.options.width.map(|width| width.saturating_sub(indent));
        let columns = Columns::of(rows().take(listed), room, self.model.parts().len() > 1);
        write!(out, "{:indent$}", "")?;
        self.header(out, &columns)?;
        for row in rows().take(listed) {
            write!(out, "{:indent$}", "")?;
            self.row(out, &row, &columns)?;
        }
        if let Some(rest) = shown.checked_sub(listed).filter(|&rest| rest > 0) {
            let Styles { faint, .. } = self.styles;
            let hint = self.options.rest_hint.map(|hint| format!(": {hint}")).unwrap_or_default();
            writeln!(
                out,
                "{:indent$}{faint}… and {} more{hint}{faint:#}",
                "",
                human::counted(rest as u64, "tensor")
            )?;
        }
        Ok(())
    }

    fn header(&self, out: &mut dyn Write, columns: &Columns) -> io::Result<()> {
        let faint = self.styles.faint;
        columns.line(
            out,
            &["#", "name", "shape", "type", "size", "offset", "shard"]
                .map(|label| (label.to_owned(), faint)),
        )
    }

    fn row(&self, out: &mut dyn Write, row: &Row<'_>, columns: &Columns) -> io::Result<()> {
        let Styles { faint, key, type_name, number, .. } = self.styles;
        let tensor = &row.tensor;
        let name = match self.options.width {
            Some(_) => cut_middle(tensor.name().to_string(), columns.name),
            None => tensor.name().to_string(),
        };
        let (shape, ggml_type) = (tensor.shape().to_string(), tensor.ggml_type().to_string());
        columns.line(
            out,
            &[
                (row.number.to_string(), faint),
                (name, key),
                (shape, Style::new()),
                (ggml_type, type_name),
                (row.size(), number),
                (row.offset(), faint),
                (row.shard.to_string(), faint),
            ],
        )
    }
}

struct Row<'a> {
    number: usize,
    shard: usize,
    tensor: Tensor<'a>,
}

impl Row<'_> {
    fn size(&self) -> String {
        self.tensor.size().map_or_else(|| "?".to_owned(), |size| human::bytes(size.into()))
    }

    fn offset(&self) -> String {
        format!("{:#x}", self.tensor.offset())
    }
}

/// The widths of the columns; 0 for a column that is left out.
struct Columns {
    number: usize,
    name: usize,
    shape: usize,
    ggml_type: usize,
    size: usize,
    offset: usize,
    shard: usize,
}

impl Columns {
    fn of<'a>(rows: impl Iterator<Item = Row<'a>>, room: Option<usize>, sharded: bool) -> Self {
        let mut columns = Self {
            number: 1,
            name: 4,
            shape: 5,
            ggml_type: 4,
            size: 4,
            offset: 6,
            shard: if sharded { 5 } else { 0 },
        };
        for row in rows {
            let widen = |column: &mut usize, text: &str| *column = width(text).max(*column);
            widen(&mut columns.number, &row.number.to_string());
            widen(&mut columns.name, &row.tensor.name().to_string());
            widen(&mut columns.shape, &row.tensor.shape().to_string());
            widen(&mut columns.ggml_type, &row.tensor.ggml_type().to_string());
            widen(&mut columns.size, &row.size());
            widen(&mut columns.offset, &row.offset());
        }
        match room {
            Some(room) => columns.fit(room),
            None => columns.name = columns.name.min(MAX_ALIGNED_LEN),
        }
        columns
    }

    /// Writes the cells of a line, except those of columns that are left out.
    fn line(&self, out: &mut dyn Write, cells: &[(String, Style); 7]) -> io::Result<()> {
        let layout = [
            (self.number, true),
            (self.name, false),
            (self.shape, false),
            (self.ggml_type, false),
            (self.size, true),
            (self.offset, true),
            (self.shard, true),
        ];
        let mut between = "";
        for ((text, style), (width, right)) in
            cells.iter().zip(layout).filter(|(_, (width, _))| *width > 0)
        {
            let padded = Padded(text, width);
            write!(out, "{between}")?;
            if right {
                write!(out, "{style}{padded:>}{style:#}")?;
            } else {
                write!(out, "{style}{padded}{style:#}")?;
            }
            between = "  ";
        }
        writeln!(out)
    }

    /// Leaves out the offset, then the number; then cuts names down to a minimum, and leaves out the size
    /// and the shape if that is not enough.
    fn fit(&mut self, room: usize) {
        const MIN_NAME: usize = 20;
        type Narrow = fn(&mut Columns);
        let steps: [(Narrow, usize); 5] = [
            (|_| (), usize::MAX),
            (|columns| columns.offset = 0, usize::MAX),
            (|columns| columns.number = 0, MIN_NAME),
            (|columns| columns.size = 0, MIN_NAME),
            (|columns| columns.shape = 0, 0),
        ];
        for (narrow, enough) in steps {
            narrow(self);
            let left = room.saturating_sub(self.other_columns());
            if left >= self.name.min(enough) {
                self.name = self.name.min(left.max(MIN_NAME));
                return;
            }
        }
    }

    fn other_columns(&self) -> usize {
        [self.number, self.shape, self.ggml_type, self.size, self.offset, self.shard]
            .iter()
            .filter(|&&column| column > 0)
            .map(|column| column + 2)
            .sum()
    }
}
