//! The architectures that are known, as a list.

use std::collections::BTreeSet;
use std::io::{self, Write};

use ggmill_arch::{Architecture, Catalogue, TensorNames};
use serde_json::json;

use crate::text::Options;
use crate::text::measure::{Padded, cut, width};
use crate::text::style::Styles;
use crate::text::table::{Column, Table};

/// An architecture in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The name, as `general.architecture` has it.
    pub name: String,
    /// The name for people; none where the architecture is known by name alone.
    pub title: Option<String>,
    /// The classes of the checkpoints that are converted to it.
    pub classes: Vec<String>,
    /// The kinds of vocabularies that its checkpoints may have.
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

    /// Whether checkpoints are converted to it.
    pub fn has_checkpoints(&self) -> bool {
        !self.classes.is_empty()
    }

    /// Whether the text, in lower case, is part of its name, its title or a class.
    fn has(&self, text: &str) -> bool {
        let texts = self.classes.iter().chain(&self.title).chain([&self.name]);
        texts.map(|known| known.to_ascii_lowercase()).any(|known| known.contains(text))
    }
}

/// The architectures of a catalogue and those that are known by name alone, by name; with a filter
/// those that have it in their name, their title or the name of a class, upper and lower case alike.
///
/// ```
/// use ggmill_arch::Catalogue;
/// let found = ggmill_inspect::architectures::listed(&Catalogue::new(), Some("mixtral"));
/// assert_eq!(found[0].name, "llama");
/// assert!(found[0].classes.iter().any(|class| class == "MixtralForCausalLM"));
/// ```
pub fn listed(catalogue: &Catalogue, filter: Option<&str>) -> Vec<Listed> {
    let mut all: Vec<Listed> = catalogue.architectures().map(Listed::described).collect();
    let by_name_alone = TensorNames::all().map(|(name, _)| name);
    let by_name_alone: Vec<&str> =
        by_name_alone.filter(|name| all.iter().all(|known| known.name != *name)).collect();
    all.extend(by_name_alone.into_iter().map(|name| Listed {
        name: name.to_owned(),
        title: None,
        classes: Vec::new(),
        vocabularies: Vec::new(),
    }));
    // Stable: a user's description stays before the built-in one of the same name.
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all.dedup_by(|later, first| later.name == first.name);
    if let Some(filter) = filter.map(str::to_ascii_lowercase) {
        all.retain(|listed| listed.has(&filter));
    }
    all
}

/// Columns that classes have in a table; on a narrower terminal each architecture has lines of its
/// own.
const MIN_CLASSES: usize = 24;

/// The column of vocabularies, and its width where there are several architectures.
const VOCABULARIES: usize = 2;
const MAX_VOCABULARIES: usize = 20;

/// Writes a table: name, whether checkpoints are converted, vocabularies, classes. Lines fit the
/// terminal where there is one, and nothing is cut otherwise.
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
    // Of a single architecture everything is what was asked for.
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

/// Writes the list as a document (`docs/formats/architectures.md`).
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
