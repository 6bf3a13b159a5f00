//! Metadata entries, one per line.

use std::io::{self, Write};

use ggmill_core::{Entry, FileType, Metadata, RawStr, Value, keys};

use super::layout::{Padded, Styles, cut, width, write_name};
use super::{Page, value};
use crate::human::grouped;

/// Columns of a value without a terminal.
const FREE_COLUMNS: usize = 96;
/// The maximum width of the column of keys without a terminal, so that one absurdly long key does not
/// fill every line with spaces.
const MAX_ALIGNED_LEN: usize = 64;
/// Terminals narrower than this have no column of types.
const NARROW: usize = 72;

impl Page<'_> {
    pub(super) fn metadata(&self, out: &mut dyn Write, titled: bool) -> io::Result<()> {
        let metadata = self.model.metadata();
        let entries = || metadata.iter().filter(|entry| self.selection.has_key(entry.key()));
        if titled {
            let (shown, all) = (entries().count(), metadata.len());
            let note = if shown == all {
                grouped(all as u64)
            } else {
                format!("{} of {}", grouped(shown as u64), grouped(all as u64))
            };
            self.title(out, "Metadata", &note)?;
        }
        let indent = if titled { 2 } else { 0 };
        let columns =
            Columns::of(entries(), self.options.width.map(|width| width.saturating_sub(indent)))?;
        for entry in entries() {
            write!(out, "{:indent$}", "")?;
            self.entry(out, &entry, (indent, &columns), metadata)?;
        }
        Ok(())
    }

    fn entry(
        &self,
        out: &mut dyn Write,
        entry: &Entry<'_>,
        (indent, columns): (usize, &Columns),
        metadata: Metadata<'_>,
    ) -> io::Result<()> {
        let Styles { key: key_style, type_name, faint, .. } = self.styles;
        let value = entry.value().map_err(io::Error::other)?;
        let place = (indent, columns.key);
        write_name(out, entry.key().to_string(), key_style, place, self.options.width)?;
        if columns.value_type > 0 {
            write!(
                out,
                "{type_name}{}{type_name:#}  ",
                Padded(&value::type_of(&value), columns.value_type)
            )?;
        }
        if self.options.full {
            value::write_full(out, &value, &self.styles)?;
        } else {
            let mut room = columns.value;
            if columns.value_type == 0 && matches!(value, Value::Array(_)) {
                let array_type = value::type_of(&value);
                write!(out, "{type_name}{array_type}{type_name:#} ")?;
                room = room.saturating_sub(width(&array_type) + 1).max(8);
            }
            value::write_short(out, &value, room, &self.styles)?;
        }
        match meaning(entry.key(), &value, metadata) {
            Some(meaning) => writeln!(out, " {faint}({}){faint:#}", cut(meaning, 32)),
            None => writeln!(out),
        }
    }
}

/// The widths of the columns; 0 for types on a narrow terminal.
struct Columns {
    key: usize,
    value_type: usize,
    value: usize,
}

impl Columns {
    fn of<'a>(entries: impl Iterator<Item = Entry<'a>>, room: Option<usize>) -> io::Result<Self> {
        let (mut key, mut value_type) = (0, 0);
        for entry in entries {
            key = key.max(width(&entry.key().to_string()));
            value_type =
                value_type.max(width(&value::type_of(&entry.value().map_err(io::Error::other)?)));
        }
        let Some(room) = room else {
            return Ok(Self { key: key.min(MAX_ALIGNED_LEN), value_type, value: FREE_COLUMNS });
        };
        if room < NARROW {
            value_type = 0;
        }
        let key = key.min(room.saturating_mul(9) / 20);
        let before = key + 2 + if value_type > 0 { value_type + 2 } else { 0 };
        Ok(Self { key, value_type, value: room.saturating_sub(before).max(12) })
    }
}

/// Returns the meaning of a number: the name of a file type, or the token of an id.
fn meaning(key: RawStr<'_>, value: &Value<'_>, metadata: Metadata<'_>) -> Option<String> {
    let key = key.to_str().ok()?;
    if key == keys::GENERAL_FILE_TYPE {
        return Some(FileType(value.as_u32()?).to_string());
    }
    if key.starts_with("tokenizer.ggml.") && key.ends_with("_token_id") {
        let token = metadata
            .array(keys::TOKENIZER_TOKENS)
            .ok()?
            .get(value.as_u64()?)?
            .ok()?
            .as_raw_str()?;
        return Some(format!("\"{}\"", super::layout::quoted_beginning(token, 24).0));
    }
    None
}
