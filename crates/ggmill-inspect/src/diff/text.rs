//! The differences as text.

use std::io::{self, Write};

use ggmill_core::{FileType, RawStr, Tensor, Value, keys};

use super::{DataDiff, Diff, Form, KeyDiff, TensorPair};
use crate::human::{self, counted, grouped};
use crate::text::layout::{Padded, Styles, packed, shown_beginning, width, write_name};
use crate::text::{Options, value};

/// Columns of a value without a terminal.
const FREE_COLUMNS: usize = 96;
/// The maximum width of the column of keys and names without a terminal.
const MAX_ALIGNED_LEN: usize = 64;
/// On terminals narrower than this, names have separate lines.
const NARROW: usize = 72;
/// The minimum columns of each of two long values in one line.
const MIN_HALF: usize = 24;
/// The separator of facts in a line.
const BETWEEN: &str = "  ";
/// The indent of lines below a name.
const INDENT: usize = 6;
/// Bytes of a long string that are shown before the first difference.
const CONTEXT_BYTES: u64 = 12;

/// Writes the differences between models with these names. Uses the options `width`, `styled` and
/// `full`, which also lists the tensors that are equal.
pub fn write(
    out: &mut dyn Write,
    diff: &Diff<'_>,
    names: [&str; 2],
    options: &Options,
) -> io::Result<()> {
    let page = Page { diff, options, styles: Styles::new(options.styled) };
    let Styles { title, faint, .. } = page.styles;
    let [a, b] = names.map(RawStr::from);
    writeln!(out, "{title}{a}{title:#} {faint}→{faint:#} {title}{b}{title:#}")?;
    let forms = forms(diff.forms());
    if !forms.is_empty() {
        writeln!(
            out,
            "  {faint}{}: not a difference between the models{faint:#}",
            forms.join(", ")
        )?;
    }
    if diff.metadata().is_some() {
        page.metadata(out)?;
    }
    if diff.tensors().is_some() {
        page.tensors(out)?;
    }
    Ok(())
}

struct Page<'a> {
    diff: &'a Diff<'a>,
    options: &'a Options,
    styles: Styles,
}

/// Returns the differences in layout.
fn forms([a, b]: &[Form; 2]) -> Vec<String> {
    let shards = |form: &Form| {
        if form.shards == 1 { "one file".to_owned() } else { counted(form.shards as u64, "shard") }
    };
    [
        ("version", a.version.to_string(), b.version.to_string()),
        ("byte order", a.endian.to_string(), b.endian.to_string()),
        ("alignment", a.alignment.to_string(), b.alignment.to_string()),
        ("stored as", shards(a), shards(b)),
    ]
    .into_iter()
    .filter(|(_, a, b)| a != b)
    .map(|(what, a, b)| format!("{what} {a} → {b}"))
    .collect()
}

/// Formats counts without zeros: `3 changed, 1 only in A, 22 same`.
fn counts(counts: &[(usize, &str)]) -> String {
    let shown: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", grouped(*count as u64)))
        .collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}

impl Page<'_> {
    fn title(&self, out: &mut dyn Write, name: &str, note: &str) -> io::Result<()> {
        let Styles { title, faint, .. } = self.styles;
        writeln!(out, "\n{title}{name}{title:#} {faint}· {note}{faint:#}")
    }

    /// Writes the sign of a line: `+` only in B, `-` only in A, `~` changed.
    fn sign(&self, out: &mut dyn Write, in_a: bool, in_b: bool) -> io::Result<()> {
        let Styles { string, number, type_name, .. } = self.styles;
        match (in_a, in_b) {
            (false, _) => write!(out, "  {string}+{string:#} "),
            (_, false) => write!(out, "  {number}-{number:#} "),
            _ => write!(out, "  {type_name}~{type_name:#} "),
        }
    }

    fn name_column<'n>(&self, names: impl Iterator<Item = RawStr<'n>>) -> usize {
        let widest = names.map(|name| width(&name.to_string())).max().unwrap_or(0);
        match self.options.width {
            Some(columns) if columns < NARROW => 0,
            Some(columns) => widest.min(columns.saturating_mul(2) / 5),
            None => widest.min(MAX_ALIGNED_LEN),
        }
    }

    /// Writes a name, on a narrow terminal in a separate line.
    fn name(&self, out: &mut dyn Write, name: RawStr<'_>, column: usize) -> io::Result<()> {
        if self.is_narrow() {
            let key = self.styles.key;
            return write!(out, "{key}{name}{key:#}\n{:INDENT$}", "");
        }
        write_name(out, name.to_string(), self.styles.key, (4, column), self.options.width)
    }

    fn moved(&self, out: &mut dyn Write, what: Option<RawStr<'_>>) -> io::Result<()> {
        let Styles { faint, type_name, .. } = self.styles;
        match what {
            Some(name) => writeln!(
                out,
                "  {type_name}~{type_name:#} {faint}in a different order, from{faint:#} {name} \
                 {faint}on{faint:#}"
            ),
            None => Ok(()),
        }
    }

    fn metadata(&self, out: &mut dyn Write) -> io::Result<()> {
        let keys = self.diff.metadata().unwrap_or_default();
        let added = keys.iter().filter(|key| key.a().is_none()).count();
        let removed = keys.iter().filter(|key| key.b().is_none()).count();
        let counts = counts(&[
            (keys.len() - added - removed, "changed"),
            (added, "only in B"),
            (removed, "only in A"),
            (self.diff.same_keys(), "same"),
        ]);
        self.title(out, "Metadata", &counts)?;
        let column = self.name_column(keys.iter().map(KeyDiff::key));
        let room = self
            .options
            .width
            .map_or(FREE_COLUMNS, |width| width.saturating_sub(column + 6).max(24));
        for key in keys {
            self.sign(out, key.a().is_some(), key.b().is_some())?;
            self.name(out, key.key(), column)?;
            match (key.a(), key.b()) {
                (Some(a), Some(b)) => self.change(out, key, [a, b], room)?,
                (Some(one), None) | (None, Some(one)) => {
                    self.value(out, one, room)?;
                    self.meaning(out, key.key(), one)?;
                }
                (None, None) => {}
            }
            writeln!(out)?;
        }
        self.moved(out, self.diff.moved_key())
    }

    fn value(&self, out: &mut dyn Write, value: &Value<'_>, room: usize) -> io::Result<()> {
        let type_name = self.styles.type_name;
        let shown = value::type_of(value);
        write!(out, "{type_name}{shown}{type_name:#} ")?;
        if self.options.full {
            value::write_full(out, value, &self.styles)
        } else {
            value::write_short(
                out,
                value,
                room.saturating_sub(width(&shown) + 1).max(12),
                &self.styles,
            )
        }
    }

    fn is_narrow(&self) -> bool {
        self.options.width.is_some_and(|columns| columns < NARROW)
    }

    /// Writes the name of a file type after its number.
    fn meaning(&self, out: &mut dyn Write, key: RawStr<'_>, value: &Value<'_>) -> io::Result<()> {
        let Styles { faint, .. } = self.styles;
        match file_type(key, value) {
            Some(name) => write!(out, " {faint}({name}){faint:#}"),
            None => Ok(()),
        }
    }

    fn change(
        &self,
        out: &mut dyn Write,
        key: &KeyDiff<'_>,
        [a, b]: [&Value<'_>; 2],
        room: usize,
    ) -> io::Result<()> {
        let Styles { faint, type_name, .. } = self.styles;
        let first = key.first_difference();
        let (type_a, type_b) = (value::type_of(a), value::type_of(b));
        if self.options.full || type_a.split('[').next() != type_b.split('[').next() {
            self.value(out, a, room / 2)?;
            self.meaning(out, key.key(), a)?;
            write!(out, " {faint}→{faint:#} ")?;
            self.value(out, b, room / 2)?;
            return self.meaning(out, key.key(), b);
        }
        if type_a == type_b {
            write!(out, "{type_name}{type_a}{type_name:#}")?;
        } else {
            write!(
                out,
                "{type_name}{type_a}{type_name:#} {faint}→{faint:#} \
                 {type_name}{type_b}{type_name:#}"
            )?;
        }
        let left_over = room.saturating_sub(width(&type_a) + 4);
        let longest = match (a, b) {
            (Value::Str(a), Value::Str(b)) => a.len().max(b.len()),
            _ => 0,
        };
        let (mut left, mut right) = (Some(*a), Some(*b));
        let mut note = String::new();
        match (a, b, first) {
            (Value::Array(a), Value::Array(b), Some(index)) => {
                note = format!("from {} on", grouped(index));
                (left, right) =
                    (a.get(index).and_then(Result::ok), b.get(index).and_then(Result::ok));
            }
            (Value::Str(a), Value::Str(b), Some(byte)) if longest > (left_over / 2).max(12) => {
                note = format!("from byte {} on", grouped(byte));
                (left, right) =
                    (Some(Value::Str(around(*a, byte))), Some(Value::Str(around(*b, byte))));
            }
            _ => {}
        }
        if !note.is_empty() {
            write!(out, " {faint}{note}{faint:#}")?;
        }
        let note_width = self.options.width.map_or(0, |_| width(&note));
        let half = left_over.saturating_sub(note_width) / 2;
        // Long values that do not fit into a line are written below each other.
        let is_long = !note.is_empty() || longest + 2 > half;
        let stacked = self.options.width.filter(|_| is_long && half < MIN_HALF);
        let (half, between) = match stacked {
            Some(columns) => (columns.saturating_sub(INDENT + 2), format!("\n{:INDENT$}", "")),
            None => (half, " ".to_owned()),
        };
        let half = half.max(12);
        let show = |out: &mut dyn Write, value: Option<&Value<'_>>| match value {
            Some(value) => {
                value::write_short(out, value, half, &self.styles)?;
                self.meaning(out, key.key(), value)
            }
            None => write!(out, "{faint}nothing{faint:#}"),
        };
        write!(out, "{between}")?;
        show(out, left.as_ref())?;
        write!(out, "{between}{faint}→{faint:#} ")?;
        show(out, right.as_ref())
    }

    fn tensors(&self, out: &mut dyn Write) -> io::Result<()> {
        let tensors = self.diff.tensors().unwrap_or_default();
        let is_same = |pair: &&TensorPair<'_>| pair.is_same();
        let same = tensors.iter().filter(is_same).count();
        let added = tensors.iter().filter(|pair| pair.a().is_none()).count();
        let removed = tensors.iter().filter(|pair| pair.b().is_none()).count();
        let counts = counts(&[
            (tensors.len() - same - added - removed, "changed"),
            (added, "only in B"),
            (removed, "only in A"),
            (same, "same"),
        ]);
        self.title(out, "Tensors", &counts)?;
        let shown: Vec<&TensorPair<'_>> =
            tensors.iter().filter(|pair| self.options.full || !pair.is_same()).collect();
        let column = self.name_column(shown.iter().map(|pair| pair.name()));
        let types = shown.iter().map(|pair| width(&types(pair))).max().unwrap_or(0);
        let before = 4 + column + 2 + types;
        let fits = |pair: &&TensorPair<'_>| {
            let facts = facts(pair);
            let facts = facts.iter().map(|fact| width(fact) + BETWEEN.len()).sum::<usize>();
            self.options.width.is_none_or(|columns| before + facts <= columns)
        };
        let on_one_line = shown.iter().all(fits);
        for pair in shown {
            if pair.is_same() {
                write!(out, "    ")?;
            } else {
                self.sign(out, pair.a().is_some(), pair.b().is_some())?;
            }
            self.name(out, pair.name(), column)?;
            self.tensor(out, pair, types, on_one_line)?;
        }
        self.moved(out, self.diff.moved_tensor())
    }

    /// Writes the types of a tensor and its differences, after the name or in lines below it.
    fn tensor(
        &self,
        out: &mut dyn Write,
        pair: &TensorPair<'_>,
        types_column: usize,
        on_one_line: bool,
    ) -> io::Result<()> {
        let Styles { type_name, .. } = self.styles;
        let (types, facts) = (types(pair), facts(pair));
        if facts.is_empty() {
            return writeln!(out, "{type_name}{types}{type_name:#}");
        }
        if on_one_line {
            let types = Padded(&types, types_column);
            let facts = facts.join(BETWEEN);
            return writeln!(out, "{type_name}{types}{type_name:#}{BETWEEN}{facts}");
        }
        writeln!(out, "{type_name}{types}{type_name:#}")?;
        let room = self.options.width.unwrap_or(usize::MAX).saturating_sub(INDENT);
        for line in packed(facts.iter().map(String::as_str), BETWEEN, room) {
            writeln!(out, "{:INDENT$}{line}", "")?;
        }
        Ok(())
    }
}

/// Returns the facts about a tensor other than its types.
fn facts(pair: &TensorPair<'_>) -> Vec<String> {
    match pair.both() {
        Some((a, b)) if a.tensor.shape() != b.tensor.shape() => {
            vec![format!("{} → {}", a.tensor.shape(), b.tensor.shape())]
        }
        Some(_) => pair.data().map(data).unwrap_or_default(),
        None => {
            let sides = [pair.a(), pair.b()].into_iter().flatten();
            sides.flat_map(|one| size(&one.tensor)).collect()
        }
    }
}

/// Returns the name of a file type.
fn file_type(key: RawStr<'_>, value: &Value<'_>) -> Option<String> {
    (key.as_bytes() == keys::GENERAL_FILE_TYPE.as_bytes())
        .then(|| value.as_u32())
        .flatten()
        .map(|number| FileType(number).to_string())
}

/// Returns `F32`, or `F32 → Q8_0`.
fn types(pair: &TensorPair<'_>) -> String {
    match (pair.a(), pair.b()) {
        (Some(a), Some(b)) if !pair.has_same_type() => {
            format!("{} → {}", a.tensor.ggml_type(), b.tensor.ggml_type())
        }
        (Some(one), _) | (None, Some(one)) => one.tensor.ggml_type().to_string(),
        (None, None) => String::new(),
    }
}

fn size(tensor: &Tensor<'_>) -> [String; 2] {
    let size = tensor.size().map_or_else(|| "?".to_owned(), |size| human::bytes(size.into()));
    [tensor.shape().to_string(), size]
}

fn data(data: &DataDiff) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(first) = data.first_byte {
        let bytes = if data.different_bytes == 1 {
            "1 byte differs".to_owned()
        } else {
            format!("{} bytes differ", grouped(data.different_bytes))
        };
        facts.push(format!("{bytes}, from {first:#x} on"));
    }
    if let Some(numeric) = &data.numeric {
        facts.push(format!("max {:.3e}", numeric.max_abs));
        facts.push(format!("rmse {:.3e}", numeric.rmse));
        facts.extend(numeric.relative.map(|relative| format!("relative {relative:.3e}")));
        facts.extend(numeric.cosine.map(|cosine| format!("cosine {cosine:.6}")));
        facts.extend(
            (numeric.non_finite > 0).then(|| format!("{} not finite", grouped(numeric.non_finite))),
        );
    }
    facts
}

/// Returns a string from shortly before a byte, starting at a character.
fn around(text: RawStr<'_>, byte: u64) -> RawStr<'_> {
    let bytes = text.as_bytes();
    let mut start =
        usize::try_from(byte.saturating_sub(CONTEXT_BYTES)).unwrap_or(0).min(bytes.len());
    while start > 0
        && bytes.get(start).is_some_and(|byte| byte & 0xc0 == 0x80)
        && byte > start as u64 - 1
    {
        start -= 1;
    }
    RawStr::new(bytes.get(start..).unwrap_or_default())
}

/// Returns the conclusion in one line.
pub fn conclusion(diff: &Diff<'_>) -> String {
    if !diff.is_same() {
        return "the models differ".to_owned();
    }
    let keys = diff.metadata().map(|_| counted(diff.same_keys() as u64, "key"));
    let tensors = diff.tensors().map(|tensors| counted(tensors.len() as u64, "tensor"));
    let all: Vec<String> = keys.into_iter().chain(tensors).collect();
    format!("no differences: {}", shown_beginning(RawStr::from(all.join(" and ").as_str()), 80).0)
}
