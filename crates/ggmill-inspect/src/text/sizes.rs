//! Size, bits per weight and tensor types of a model or a plan.

use std::io::{self, Write};

use super::Options;
use super::style::Styles;
use super::summary::{largest_first, share, write_types};
use super::table::{Column, Table};
use crate::TypeUse;
use crate::human;

/// One of several quantizations of a model, for [`write_comparison`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Candidate {
    /// The name, such as `Q4_K_M`.
    pub name: String,
    /// Bytes of the whole file.
    pub file_len: u64,
    /// Its tensors by type: [`TypeUse::tally`].
    pub types: Vec<TypeUse>,
    /// Why it would be refused, such as missing importance weights.
    pub remark: Option<String>,
}

impl Candidate {
    /// A quantization of this name, file length in bytes and tensors by type.
    pub fn new(name: &str, file_len: u64, types: Vec<TypeUse>) -> Self {
        Self { name: name.to_owned(), file_len, types, remark: None }
    }

    /// With the reason why it would be refused.
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

/// Writes a table with a line for each candidate: name, size, bits per weight, size relative to
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

/// `Q4_K 71%, Q6_K 28%, F32 1%`.
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
