//! The summary, and the sizes of quantizations.

use std::io::{self, Write};

use ggmill_core::{Model, RawStr};
use ggmill_text::LosslessStr;

use super::layout::{Padded, Styles, cut, lines_of, shown_beginning, width};
use super::table::{Column, Table};
use super::{Options, Page};
use crate::human::{self, counted, grouped};
use crate::{PerBlock, Summary, TypeUse, file_name};

/// The columns of labels.
const LABEL: usize = 13;
/// The maximum number of listed types: more than exist, fewer than a hostile file can contain.
const MAX_TYPES: usize = 48;

impl Page<'_> {
    pub(super) fn summary(&self, out: &mut dyn Write, summary: &Summary<'_>) -> io::Result<()> {
        let Styles { title, .. } = self.styles;
        let name = name(self.model, summary);
        writeln!(out, "{title}{}{title:#}", cut(name, self.options.width.unwrap_or(usize::MAX)))?;
        for (label, pieces) in rows(summary, self.model.file_len()) {
            self.labelled(out, label, &pieces)?;
        }
        self.labelled(out, "format", &self.format())?;
        write_types(out, &summary.types, self.options)
    }

    /// Writes `label  piece · piece`, wrapped between pieces.
    fn labelled(&self, out: &mut dyn Write, label: &str, pieces: &[String]) -> io::Result<()> {
        if pieces.is_empty() {
            return Ok(());
        }
        let Styles { faint, .. } = self.styles;
        let room = self.options.width.unwrap_or(usize::MAX).saturating_sub(LABEL + 4).max(20);
        write!(out, "  {faint}{}{faint:#}  ", Padded(label, LABEL))?;
        let mut used = 0;
        // A piece that is longer than a line is wrapped at its spaces.
        let pieces = pieces.iter().flat_map(|piece| {
            let lines = lines_of(piece, room).into_iter();
            lines.enumerate().map(|(number, line)| (cut(line, room), number > 0))
        });
        for (i, (piece, goes_on)) in pieces.enumerate() {
            if goes_on {
                write!(out, "\n{:1$}", "", LABEL + 4)?;
                used = 0;
            } else if i > 0 {
                if used + 3 + width(&piece) > room {
                    write!(out, "\n{:1$}", "", LABEL + 4)?;
                    used = 0;
                } else {
                    write!(out, " {faint}·{faint:#} ")?;
                    used += 3;
                }
            }
            write!(out, "{piece}")?;
            used += width(&piece);
        }
        writeln!(out)
    }

    /// Returns the version and layout of the file.
    fn format(&self) -> Vec<String> {
        let header = self.model.header();
        let mut pieces =
            vec![format!("GGUF v{}", header.version()), format!("{}-endian", header.endian())];
        if header.has_swapped_magic() {
            pieces.push("magic byte-swapped".to_owned());
        }
        pieces.push(format!("alignment {}", header.alignment()));
        let entries = self.model.metadata().len() as u64;
        let noun = if entries == 1 { "entry" } else { "entries" };
        pieces.push(format!("{} metadata {noun}", grouped(entries)));
        if let Some(size) = self.model.file_len() {
            pieces.push(format!("{} bytes", grouped(size)));
        }
        pieces
    }
}

/// Returns the name of the model, or of its file.
pub(crate) fn name(model: &Model, summary: &Summary<'_>) -> String {
    match summary.name {
        Some(name) if !name.0.is_empty() => short(name),
        _ => model.parts().first().and_then(file_name).map_or_else(
            || "(no name)".to_owned(),
            |file| short(LosslessStr(RawStr::from(&*file))),
        ),
    }
}

/// Returns the types ordered by size, largest first.
pub(crate) fn largest_first(types: &[TypeUse]) -> Vec<&TypeUse> {
    let mut types: Vec<&TypeUse> = types.iter().collect();
    types.sort_by_key(|used| std::cmp::Reverse(used.bytes));
    types
}

/// Writes an empty line and the share of each tensor type with a bar, largest first.
fn write_types(out: &mut dyn Write, types: &[TypeUse], options: &Options) -> io::Result<()> {
    let Styles { faint, type_name, bar, .. } = Styles::new(options.styled);
    let all: u128 = types.iter().filter_map(|used| used.bytes).sum();
    let mut types = largest_first(types);
    let left_out = types.len().saturating_sub(MAX_TYPES);
    types.truncate(MAX_TYPES);
    if types.is_empty() {
        return Ok(());
    }
    let cells: Vec<[String; 3]> = types
        .iter()
        .map(|used| {
            [
                used.ggml_type.to_string(),
                format!(
                    "{} tensor{}",
                    grouped(used.tensors),
                    if used.tensors == 1 { " " } else { "s" }
                ),
                used.bytes.map_or_else(|| "unknown".to_owned(), human::bytes),
            ]
        })
        .collect();
    let [type_column, tensor_column, byte_column] =
        [0, 1, 2].map(|column| cells.iter().map(|row| width(&row[column])).max().unwrap_or(0));
    let before = 2 + type_column + 2 + tensor_column + 2 + byte_column + 2;
    let longest_bar = options.width.map_or(24, |room| room.saturating_sub(before + 9).min(24));
    writeln!(out)?;
    for (used, [name, tensors, bytes]) in types.iter().zip(&cells) {
        let share = share(used.bytes.unwrap_or(0), all);
        write!(
            out,
            "  {type_name}{}{type_name:#}  {:>}  {:>}",
            Padded(name, type_column),
            Padded(tensors, tensor_column),
            Padded(bytes, byte_column)
        )?;
        writeln!(
            out,
            "  {bar}{}{bar:#}  {faint}{:>5.1}%{faint:#}",
            Padded(&bar_of(share, longest_bar), longest_bar),
            share * 100.0
        )?;
    }
    if left_out > 0 {
        writeln!(out, "  {faint}… and {} more{faint:#}", counted(left_out as u64, "type"))?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn share(part: u128, whole: u128) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns a bar in eighths of a column, which is not empty for a share above zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a few columns"
)]
pub(crate) fn bar_of(share: f64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * columns as f64 * 8.0).round() as usize;
    let eighths = if share > 0.0 && columns > 0 { eighths.max(1) } else { eighths };
    "█".repeat(eighths / 8) + EIGHTHS.get(eighths % 8).copied().unwrap_or_default()
}

/// Cuts text from a file, which can be arbitrarily long.
fn short(text: LosslessStr<'_>) -> String {
    shown_beginning(text.0, 200).0
}

pub(crate) fn rows(
    summary: &Summary<'_>,
    file_size: Option<u64>,
) -> Vec<(&'static str, Vec<String>)> {
    vec![
        ("architecture", architecture(summary)),
        ("adapter", adapter(summary)),
        ("changes", changes(summary)),
        ("parameters", parameters(summary)),
        ("size", size(summary, file_size)),
        ("file type", file_type(summary)),
        (
            "context",
            summary.context_length.map(|length| counted(length, "token")).into_iter().collect(),
        ),
        ("layers", blocks(summary)),
        ("vocabulary", vocabulary(summary)),
        ("chat template", chat_template(summary)),
        ("license", summary.license.map(short).into_iter().collect()),
    ]
}

fn architecture(summary: &Summary<'_>) -> Vec<String> {
    let name = summary.architecture.map_or_else(|| "not given".to_owned(), short);
    let kind = summary.kind.filter(|kind| kind.0 != "model").map(short);
    [name].into_iter().chain(kind).collect()
}

/// Returns type, rank, alpha and base of an adapter.
fn adapter(summary: &Summary<'_>) -> Vec<String> {
    let Some(adapter) = &summary.adapter else { return Vec::new() };
    let kind = adapter.kind.map_or_else(|| "no adapter.type".to_owned(), short);
    let rank = adapter.rank.map(|rank| format!("rank {rank}"));
    let alpha = adapter.alpha.map(|alpha| format!("alpha {alpha}"));
    let base = adapter.base.map(|base| format!("base {}", short(base)));
    [kind].into_iter().chain(rank).chain(alpha).chain(base).collect()
}

/// Returns the number of changed tensors and their names without block and `.weight`.
fn changes(summary: &Summary<'_>) -> Vec<String> {
    const SHOWN: usize = 16;
    let Some(adapter) = &summary.adapter else { return Vec::new() };
    let name = |target: &String| {
        let name = target.strip_prefix("blk.N.").unwrap_or(target);
        name.strip_suffix(".weight").unwrap_or(name).to_owned()
    };
    let more = adapter.targets.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| format!("and {more} more"));
    [counted(adapter.changed, "tensor")]
        .into_iter()
        .chain(adapter.targets.iter().take(SHOWN).map(name))
        .chain(more)
        .collect()
}

/// The text for a value that can be in the unread part of a header.
const UNREAD: &str = "unknown: the header is incomplete";

fn parameters(summary: &Summary<'_>) -> Vec<String> {
    if summary.tensors == 0 {
        let why = if summary.is_partial { UNREAD } else { "none: no tensors" };
        return vec![why.to_owned()];
    }
    let exact = grouped(summary.parameters);
    let human = human::count(summary.parameters);
    let count = if human == exact { exact } else { format!("{human} ({exact})") };
    let shards = (summary.shards > 1).then(|| counted(summary.shards, "shard"));
    [count, counted(summary.tensors, "tensor")].into_iter().chain(shards).collect()
}

fn size(summary: &Summary<'_>, file_size: Option<u64>) -> Vec<String> {
    let file = file_size.map(|size| human::bytes(size.into()));
    if summary.tensors == 0 {
        return file.into_iter().collect();
    }
    let weights = format!("{} of weights", human::bytes(summary.tensor_bytes));
    let bits = summary.bits_per_weight.map(|bits| format!("{bits:.2} bits per weight"));
    file.into_iter().chain([weights]).chain(bits).collect()
}

/// Returns the file type; without tensors it describes the file that this one was made from.
fn file_type(summary: &Summary<'_>) -> Vec<String> {
    summary
        .file_type
        .filter(|_| summary.tensors > 0)
        .map(|file_type| file_type.to_string())
        .into_iter()
        .collect()
}

fn blocks(summary: &Summary<'_>) -> Vec<String> {
    let mut pieces = Vec::new();
    pieces.extend(summary.block_count.map(grouped));
    pieces.extend(summary.embedding_length.map(|length| format!("embedding {}", grouped(length))));
    pieces.extend(summary.head_count.map(|heads| {
        let plural = |count| if count == PerBlock::Same(1) { "" } else { "s" };
        let kv = summary.head_count_kv.filter(|kv| *kv != heads);
        let kv = kv.map(|kv| format!(", {kv} KV head{}", plural(kv))).unwrap_or_default();
        format!("{heads} head{}{kv}", plural(heads))
    }));
    pieces.extend(summary.feed_forward_length.map(|length| format!("feed-forward {length}")));
    pieces.extend(summary.expert_count.filter(|&count| count > 0).map(|count| {
        match summary.expert_used_count {
            Some(used) => format!("{} experts, {} used", grouped(count), grouped(used)),
            None => format!("{} experts", grouped(count)),
        }
    }));
    pieces
}

fn vocabulary(summary: &Summary<'_>) -> Vec<String> {
    let mut pieces = Vec::new();
    if summary.has_tokens {
        pieces.extend(summary.vocabulary_size.map(|size| counted(size, "token")));
    } else if summary.is_partial {
        return vec![UNREAD.to_owned()];
    } else if let Some(size) = summary.vocabulary_size {
        pieces.push(format!("not in the file, made for {}", counted(size, "token")));
        return pieces;
    }
    pieces.extend(summary.tokenizer_model.map(|model| format!("model {}", short(model))));
    pieces.extend(summary.tokenizer_pre.map(|pre| format!("pre-tokenizer {}", short(pre))));
    pieces
}

fn chat_template(summary: &Summary<'_>) -> Vec<String> {
    match summary.chat_template_bytes {
        Some(bytes) => vec![counted(bytes, "byte")],
        None if summary.has_tokens && !summary.is_partial => vec!["none".to_owned()],
        None => Vec::new(),
    }
}

/// A possible quantization of a model, for [`write_comparison`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Candidate {
    /// The name, such as `Q4_K_M`.
    pub name: String,
    /// The length of the file in bytes.
    pub file_len: u64,
    /// The tensors by type, from [`TypeUse::tally`].
    pub types: Vec<TypeUse>,
    /// Why it would be refused, such as missing importance weights.
    pub remark: Option<String>,
}

impl Candidate {
    /// Creates a candidate from its name, file length in bytes and tensors by type.
    pub fn new(name: &str, file_len: u64, types: Vec<TypeUse>) -> Self {
        Self { name: name.to_owned(), file_len, types, remark: None }
    }

    /// Sets the reason why it would be refused.
    #[must_use]
    pub fn with_remark(mut self, remark: Option<String>) -> Self {
        self.remark = remark;
        self
    }
}

/// Writes `24.4 MiB · 4.84 bits per weight`, and the share of each tensor type.
pub fn write_size(
    out: &mut dyn Write,
    file_len: u64,
    types: &[TypeUse],
    options: &Options,
) -> io::Result<()> {
    let Styles { title, .. } = Styles::new(options.styled);
    write!(out, "{title}{}", human::bytes(file_len.into()))?;
    if let Some(bits) = TypeUse::bits_per_weight(types) {
        write!(out, " · {bits:.2} bits per weight")?;
    }
    writeln!(out, "{title:#}")?;
    write_types(out, types, options)
}

/// Writes a table of candidates: name, size, bits per weight, size relative to
/// `original_len` bytes, and the shares of its tensor types.
pub fn write_comparison(
    out: &mut dyn Write,
    candidates: &[Candidate],
    original_len: Option<u64>,
    options: &Options,
) -> io::Result<()> {
    let columns = [
        Column::Number("size"),
        Column::Number("bits per weight"),
        Column::Number("of input"),
        Column::Text("tensor types"),
    ];
    let mut table = Table::new("type", &columns);
    for candidate in candidates {
        let bits = TypeUse::bits_per_weight(&candidate.types);
        let of_input = original_len
            .filter(|&len| len > 0)
            .map(|len| format!("{:.1}%", share(candidate.file_len.into(), len.into()) * 100.0));
        let unknown = || "–".to_owned();
        let cells = [
            human::bytes(candidate.file_len.into()),
            bits.map_or_else(unknown, |bits| format!("{bits:.2}")),
            of_input.unwrap_or_else(unknown),
            shares(&candidate.types),
        ];
        table.add(&candidate.name, cells);
        if let Some(remark) = &candidate.remark {
            table.remark(remark);
        }
    }
    table.write(out, options)
}

/// Formats the shares of types: `Q4_K 71%, Q6_K 28%, F32 1%`.
fn shares(types: &[TypeUse]) -> String {
    let all: u128 = types.iter().filter_map(|used| used.bytes).sum();
    let shown: Vec<String> = largest_first(types)
        .into_iter()
        .map(|used| {
            let part = share(used.bytes.unwrap_or(0), all) * 100.0;
            let part =
                if part > 0.0 && part < 0.5 { "<1".to_owned() } else { format!("{part:.0}") };
            format!("{} {part}%", used.ggml_type)
        })
        .collect();
    shown.join(", ")
}
