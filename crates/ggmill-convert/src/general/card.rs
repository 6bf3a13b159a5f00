//! The model card: the YAML front matter of `README.md`.

use ggmill_core::RawStr;
use ggmill_pipeline::SideFiles;

use super::id::Parameters;
use super::yaml::{self, Yaml};
use super::{Field, General, Origin, PROPERTIES};

const FILE: &str = "README.md";
/// Maximum size of a model card in bytes.
const MAX_CARD: u64 = 1 << 20;

/// The names of a property in a card; the first with a value is used.
const NAMES: [(Field, &[&str]); 15] = [
    (Field::Name, &["name", "model_name"]),
    (Field::Author, &["author", "model_author", "model_creator"]),
    (Field::Version, &["version", "model_version"]),
    (Field::Organization, &["organization", "model_organization"]),
    (Field::Description, &["description", "model_description"]),
    (Field::Finetune, &["finetune", "model_finetune"]),
    (Field::Basename, &["basename", "model_basename", "model_type"]),
    (Field::SizeLabel, &["size_label", "model_size_label"]),
    (Field::SourceUrl, &["url", "model_url"]),
    (Field::SourceDoi, &["doi", "model_doi"]),
    (Field::SourceUuid, &["uuid", "model_uuid"]),
    (Field::SourceRepoUrl, &["repo_url", "model_repo_url"]),
    (Field::License, &["license"]),
    (Field::LicenseName, &["license_name"]),
    (Field::LicenseLink, &["license_link"]),
];

const BASE_MODELS: [&str; 3] = ["base_model", "base_models", "base_model_sources"];
const DATASETS: [&str; 3] = ["datasets", "dataset", "dataset_sources"];

/// Adds the properties in the model card. A card that cannot be read is ignored, with a note.
pub(super) fn read(
    files: &dyn SideFiles,
    parameters: Parameters,
    general: &mut General,
    notes: &mut Vec<String>,
) {
    match front_matter(files) {
        Ok(Some(card)) => Card { entries: card, parameters, notes }.add_to(general),
        Ok(None) => {}
        Err(why) => {
            notes.push(format!("the model card ({FILE}) was ignored: {}", RawStr::from(&*why)));
        }
    }
}

/// Returns the front matter of the card; `None` if there is none.
fn front_matter(files: &dyn SideFiles) -> Result<Option<Yaml>, String> {
    let Some(bytes) = files.read(FILE, MAX_CARD).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes).map_err(|_| "not valid UTF-8".to_owned())?;
    let mut lines = lines(&text);
    if lines.next() != Some("---") {
        return Ok(None);
    }
    let mut front = String::new();
    for line in lines.take_while(|&line| line != "---") {
        front.push_str(line);
        front.push('\n');
    }
    // As in the reference: the language code `no` (Norwegian) must not be parsed as false, and tabs
    // are replaced.
    let front = front.replace("- no\n", "- \"no\"\n").replace('\t', "  ");
    match yaml::read(&front)? {
        card @ Yaml::Map(_) => Ok(Some(card)),
        Yaml::Null => Ok(None),
        _ => Err("expected a mapping".to_owned()),
    }
}

/// Splits lines like Python's `splitlines`.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let is_end = |c: char| {
            matches!(
                c,
                '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'
                    ..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
            )
        };
        let Some((at, end)) = rest.char_indices().find(|&(_, c)| is_end(c)) else {
            return Some(std::mem::take(&mut rest));
        };
        let (line, after) = rest.split_at(at);
        let after = after.strip_prefix("\r\n").or_else(|| after.strip_prefix(end));
        rest = after.unwrap_or_default();
        Some(line)
    })
}

struct Card<'a> {
    entries: Yaml,
    parameters: Parameters,
    notes: &'a mut Vec<String>,
}

impl Card<'_> {
    fn add_to(mut self, general: &mut General) {
        for (field, names) in NAMES {
            let text = names.iter().find_map(|name| self.text(name, field == Field::License));
            general.add(field, text);
        }
        general.base_models = self.origins(&BASE_MODELS);
        general.datasets = self.origins(&DATASETS);
        general.tags = self.texts(&["tags", "pipeline_tag"]);
        general.languages = self.texts(&["languages", "language"]);
    }

    fn ignored(&mut self, name: &str, expected: &str) {
        self.notes
            .push(format!("the model card ({FILE}): {name} was ignored: expected {expected}"));
    }

    /// Returns the text of an entry. Numbers, dates and booleans are returned as written.
    fn text(&mut self, name: &str, may_be_list: bool) -> Option<String> {
        match self.entries.get(name)? {
            Yaml::Null => None,
            Yaml::Text(text) => Some(text.clone()),
            Yaml::Other { text, is_falsy } => {
                Some(if *is_falsy { String::new() } else { text.clone() })
            }
            // Empty, like every value that is false in Python, so it is not written.
            Yaml::List(items) if items.is_empty() => Some(String::new()),
            Yaml::Map(entries) if entries.is_empty() => Some(String::new()),
            Yaml::List(items) if may_be_list => {
                let texts: Vec<&str> = items.iter().filter_map(Yaml::as_written).collect();
                Some(texts.join(","))
            }
            Yaml::List(_) | Yaml::Map(_) => {
                self.ignored(name, "text");
                None
            }
        }
    }

    /// Returns the texts of several entries, each a text or a list, concatenated.
    fn texts(&mut self, names: &[&str]) -> Vec<String> {
        let mut texts = Vec::new();
        for name in names {
            match self.entries.get(name) {
                Some(Yaml::Text(text)) => texts.push(text.clone()),
                Some(Yaml::List(items)) => {
                    let found: Vec<String> =
                        items.iter().filter_map(Yaml::as_written).map(str::to_owned).collect();
                    let is_complete = found.len() == items.len();
                    texts.extend(found);
                    if !is_complete {
                        self.ignored(&format!("an item of {name}"), "text");
                    }
                }
                _ => {}
            }
        }
        texts
    }

    /// Returns the models or datasets under the first of these names that the card has.
    fn origins(&mut self, names: &[&str]) -> Option<Vec<Origin>> {
        let (name, value) = names.iter().find_map(|&name| Some((name, self.entries.get(name)?)))?;
        let items = match value {
            Yaml::Text(_) => std::slice::from_ref(value),
            Yaml::List(items) => items,
            _ => &[],
        };
        let (mut origins, mut is_complete) = (Vec::new(), true);
        for item in items {
            let mut origin = Origin::default();
            match item {
                Yaml::Text(reference) => origin = Origin::of(reference, self.parameters),
                Yaml::Map(_) => {
                    for (place, property) in origin.0.iter_mut().zip(PROPERTIES) {
                        let value = item.get(property);
                        *place = value.and_then(Yaml::as_written).map(str::to_owned);
                    }
                }
                _ => is_complete = false,
            }
            origins.push(origin);
        }
        if !is_complete {
            self.ignored(&format!("an item of {name}"), "a name, a URL or a mapping");
        }
        Some(origins)
    }
}
