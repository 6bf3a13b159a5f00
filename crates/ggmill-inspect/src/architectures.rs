//! The list of known architectures.

use std::collections::BTreeSet;
use std::io::{self, Write};

use ggmill_arch::{Architecture, Catalogue, TensorNames};
use serde_json::json;

use crate::text::Options;
use crate::text::layout::{Padded, Styles, cut, width};
use crate::text::table::{Column, Table};

/// An architecture in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The name, as `general.architecture` has it.
    pub name: String,
    /// The title; `None` if there is no description.
    pub title: Option<String>,
    /// The classes of the checkpoints that are converted to it.
    pub classes: Vec<String>,
    /// The kinds of vocabularies that its checkpoints can have.
    pub vocabularies: Vec<String>,
}

impl Listed {
    fn described(architecture: &Architecture) -> Self {
        Self {
            name: architecture.name().to_owned(),
            title: Some(architecture.title().to_owned()),
            classes: architecture.checkpoint_classes().map(str::to_owned).collect(),
            vocabularies: architecture.vocabulary_kinds().iter().map(ToString::to_string).collect(),
        }
    }

    /// Returns `true` if checkpoints can be converted to it.
    pub fn has_checkpoints(&self) -> bool {
        !self.classes.is_empty()
    }

    /// Returns `true` if its name, title or a class contains `text`, which is in lower case.
    fn matches(&self, text: &str) -> bool {
        let texts = self.classes.iter().chain(&self.title).chain([&self.name]);
        texts.map(|known| known.to_ascii_lowercase()).any(|known| known.contains(text))
    }
}

/// Returns the architectures of a catalogue and those of which only tensor names are known, ordered by
/// name. `filter` keeps those that contain it in their name, title or a class, ignoring case.
///
/// ```
/// use ggmill_arch::Catalogue;
/// let found = ggmill_inspect::architectures::listed(&Catalogue::new(), Some("mixtral"));
/// assert_eq!(found[0].name, "llama");
/// assert!(found[0].classes.iter().any(|class| class == "MixtralForCausalLM"));
/// ```
pub fn listed(catalogue: &Catalogue, filter: Option<&str>) -> Vec<Listed> {
    let mut all: Vec<Listed> = catalogue.architectures().map(Listed::described).collect();
    let undescribed = TensorNames::all().map(|(name, _)| name);
    let undescribed: Vec<&str> =
        undescribed.filter(|name| all.iter().all(|known| known.name != *name)).collect();
    all.extend(undescribed.into_iter().map(|name| Listed {
        name: name.to_owned(),
        title: None,
        classes: Vec::new(),
        vocabularies: Vec::new(),
    }));
    // Stable: a user's description stays before the built-in one of the same name.
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all.dedup_by(|later, first| later.name == first.name);
    if let Some(filter) = filter.map(str::to_ascii_lowercase) {
        all.retain(|listed| listed.matches(&filter));
    }
    all
}

/// The minimum columns for classes; a narrower terminal gets a list instead of a table.
const MIN_CLASSES: usize = 24;

/// The column of vocabularies, and its maximum width if there are several architectures.
const VOCABULARIES: usize = 2;
const MAX_VOCABULARIES: usize = 20;

/// Writes a table of name, checkpoints, vocabularies and classes. Lines are cut to the width of the
/// terminal, if there is one.
pub fn write_text(out: &mut dyn Write, list: &[Listed], options: &Options) -> io::Result<()> {
    let Styles { faint, key, .. } = Styles::new(options.styled);
    let heads = ["architecture", "checkpoints", "vocabularies", "classes"];
    let rows: Vec<[String; 4]> = list
        .iter()
        .map(|listed| {
            let joined = |texts: &[String]| {
                if texts.is_empty() { "–".to_owned() } else { texts.join(", ") }
            };
            let checkpoints = if listed.has_checkpoints() { "yes" } else { "no" };
            [
                listed.name.clone(),
                checkpoints.to_owned(),
                joined(&listed.vocabularies),
                joined(&listed.classes),
            ]
        })
        .collect();
    // A single architecture is shown in full.
    let is_cut = options.width.is_some() && rows.len() > 1;
    let columns: Vec<usize> = (0..heads.len().saturating_sub(1))
        .map(|column| {
            let cells = rows.iter().map(|row| width(&row[column]));
            let widest = cells.chain([width(heads[column])]).max().unwrap_or_default();
            if column == VOCABULARIES && is_cut { widest.min(MAX_VOCABULARIES) } else { widest }
        })
        .collect();
    let before = columns.iter().map(|column| column + 2).sum::<usize>();
    if let Some(room) = options.width.filter(|room| *room < before + MIN_CLASSES) {
        let [head, others @ ..] = heads;
        let mut table = Table::new(head, &others.map(Column::Text));
        for row in &rows {
            table.add(&row[0], row[1..].iter().cloned());
        }
        table.write_stacked(out, room, &Styles::new(options.styled))?;
    } else {
        let mut line = |cells: [&str; 4], style: anstyle::Style| -> io::Result<()> {
            write!(out, "{style}{}{style:#}", Padded(cells[0], columns[0]))?;
            for (cell, &column) in cells[1..3].iter().zip(&columns[1..]) {
                write!(out, "  {}", Padded(&cut((*cell).to_owned(), column), column))?;
            }
            let left = options.width.filter(|_| is_cut).map(|all| all.saturating_sub(before));
            writeln!(out, "  {}", cut(cells[3].to_owned(), left.unwrap_or(usize::MAX)))
        };
        line(heads, faint)?;
        for row in &rows {
            line(row.each_ref().map(String::as_str), key)?;
        }
    }
    let with_checkpoints = list.iter().filter(|listed| listed.has_checkpoints()).count();
    let classes: BTreeSet<&String> = list.iter().flat_map(|listed| &listed.classes).collect();
    writeln!(
        out,
        "\n{}, {with_checkpoints} with {} checkpoint classes",
        match list.len() {
            1 => "1 architecture".to_owned(),
            several => format!("{several} architectures"),
        },
        classes.len()
    )
}

/// Writes the list as JSON (`docs/formats/architectures.md`).
pub fn write_json(out: &mut dyn Write, list: &[Listed]) -> io::Result<()> {
    let list: Vec<_> = list
        .iter()
        .map(|listed| {
            json!({
                "name": listed.name,
                "title": listed.title,
                "checkpoints": listed.has_checkpoints(),
                "classes": listed.classes,
                "vocabularies": listed.vocabularies,
            })
        })
        .collect();
    let document = json!({ "schema": "ggmill.architectures/1", "architectures": list });
    ggmill_text::json::write_pretty(out, &document)
}
