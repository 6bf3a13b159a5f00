//! The components of a model name such as `mistralai/Mixtral-8x7B-v0.1`.
//!
//! The rules are those of the reference (`Metadata.get_model_id_components` and `id_to_title`).

use std::sync::LazyLock;

use regex_lite::Regex;

/// The parts of a model's name, as they are written there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelId {
    /// The name without the organization.
    pub(super) name: String,
    pub(super) organization: Option<String>,
    pub(super) version: Option<String>,
    pub(super) finetune: Option<String>,
    pub(super) basename: Option<String>,
    pub(super) size_label: Option<String>,
}

impl ModelId {
    /// Takes a name apart. `parameters` tells a size from a context length.
    pub(super) fn new(id: &str, parameters: Parameters) -> Self {
        if id.contains(' ') {
            return Self { name: id.to_owned(), ..Self::default() };
        }
        let (organization, full_name) = match id.split_once('/') {
            Some((organization, name)) => {
                (Some(organization).filter(|organization| !organization.starts_with('.')), name)
            }
            None => (None, id),
        };
        let mut parts: Vec<Part> = full_name
            .split('-')
            .filter(|part| !part.is_empty())
            .enumerate()
            .map(|(place, part)| Part::new(place, part, parameters))
            .collect();
        keep_numeric_sizes(&mut parts);
        mark_basename(&mut parts);

        let join = |wanted: &dyn Fn(&Part) -> bool| {
            let text: Vec<&str> =
                parts.iter().filter(|part| wanted(part)).map(|part| &*part.text).collect();
            (!text.is_empty()).then(|| text.join("-"))
        };
        let mut sizes: Vec<&str> = Vec::new();
        for part in parts.iter().filter(|part| part.size_label) {
            if !sizes.contains(&&*part.text) {
                sizes.push(&part.text);
            }
        }
        let size_label = (!sizes.is_empty()).then(|| sizes.join("-"));
        let finetune = join(&|part| part.finetune);
        let version = join(&|part| part.version && !part.basename);
        // A name in which nothing else is recognised says nothing of where its base ends.
        let basename = join(&|part| part.basename)
            .filter(|_| size_label.is_some() || finetune.is_some() || version.is_some());
        Self {
            name: full_name.to_owned(),
            organization: organization.map(str::to_owned),
            version,
            finetune,
            basename,
            size_label,
        }
    }
}

/// How many elements the tensors of a model have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameters {
    /// So many; 0 where it is not known.
    Exactly(u64),
    /// So many at least: those of the tensors that an adapter changes.
    AtLeast(u64),
}

impl Parameters {
    /// Whether a model cannot be of the size that a label says.
    #[expect(clippy::cast_precision_loss, reason = "compared with a label of two digits")]
    fn contradict(self, labelled: f64) -> bool {
        match self {
            Self::Exactly(0) | Self::AtLeast(0) => false,
            Self::Exactly(count) => {
                (labelled - count as f64).abs() > (count.saturating_mul(7) / 8) as f64
            }
            Self::AtLeast(count) => labelled < (count / 8) as f64,
        }
    }
}

/// A part of a name between dashes, and what it may be.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "marks that combine freely, as in the reference")]
struct Part {
    text: String,
    version: bool,
    kind: bool,
    size_label: bool,
    finetune: bool,
    basename: bool,
}

static VERSION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?i:(v|iter)?\d+([.]\d+)*)$").ok());
static KIND: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?i:i?q\d(_\w)*|b?fp?(16|32))$").ok());
static SIZE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?i:((A|\d+x)?\d+([._]\d+)?[KMBT]\d?|small|mini|medium|large|x?xl))$").ok()
});
static FINETUNE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?i:chat|instruct|vision|lora)$").ok());

fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

impl Part {
    fn new(place: usize, text: &str, parameters: Parameters) -> Self {
        let mut part = Self { text: text.to_owned(), ..Self::default() };
        if matches(&VERSION, text) {
            part.version = true;
        } else if matches(&KIND, text) {
            part.kind = true;
            part.text = text.to_uppercase();
        } else if place > 0 && matches(&SIZE, text) {
            part.mark_size(parameters);
        } else if place > 0 && matches(&FINETUNE, text) {
            // That an adapter is one is no purpose.
            let is_kind =
                matches!(parameters, Parameters::AtLeast(_)) && text.eq_ignore_ascii_case("lora");
            part.kind = is_kind;
            part.finetune = !is_kind;
        }
        part
    }

    /// A size label, unless it is so far from the number of parameters that it must be a context
    /// length.
    fn mark_size(&mut self, parameters: Parameters) {
        let mut text = self.text.replace('_', ".");
        // BLOOM writes 7b1 for 7.1B.
        if let [head @ .., unit, digit] = text.as_bytes()
            && digit.is_ascii_digit()
        {
            text = format!(
                "{}.{}{}",
                String::from_utf8_lossy(head),
                char::from(*digit),
                char::from(*unit)
            );
        }
        if let [.., digit, unit] = text.as_bytes()
            && digit.is_ascii_digit()
            && b"kmbt".contains(unit)
        {
            let capital = unit.to_ascii_uppercase();
            text.pop();
            text.push(char::from(capital));
        }
        let unit = text.chars().last().unwrap_or(' ');
        let number = text.strip_suffix(unit).and_then(|digits| digits.parse::<f64>().ok());
        let power = " KMBT".find(unit);
        if let (Some(number), Some(power)) = (number, power) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_possible_wrap,
                reason = "a power from 0 to 4"
            )]
            let labelled = number * 1000f64.powi(power as i32);
            if parameters.contradict(labelled) {
                self.finetune = true;
                text = format!("{}{}", &text[..text.len() - unit.len_utf8()], unit.to_lowercase());
            }
        }
        self.size_label = !self.finetune;
        self.text = text;
    }

    fn unmarked(&self) -> bool {
        !(self.version || self.kind || self.size_label || self.finetune)
    }
}

/// `large` is a size only where no number says more.
fn keep_numeric_sizes(parts: &mut [Part]) {
    if parts.iter().any(|part| part.size_label && part.text.contains(|c: char| c.is_ascii_digit()))
    {
        for part in parts {
            part.size_label &= !part.text.chars().all(char::is_alphabetic);
        }
    }
}

/// The base name is what the name begins with, versions within it included; the rest without a mark
/// is the fine-tune.
fn mark_basename(parts: &mut [Part]) {
    let mut at_start = true;
    for part in &mut *parts {
        if at_start
            && (part.unmarked() && part.text.starts_with(char::is_alphabetic) || part.version)
        {
            part.basename = true;
        } else {
            at_start = false;
            part.finetune |= part.unmarked();
        }
    }
    for part in parts.iter_mut().rev() {
        if !(part.basename && part.version) {
            break;
        }
        part.basename = false;
    }
}

/// Words in lower case get a capital; acronyms, versions and numbers stay.
pub(super) fn title(id: &str) -> String {
    let word = |word: &str| {
        let lower = word.chars().any(char::is_lowercase) && !word.chars().any(char::is_uppercase);
        let version =
            word.strip_prefix('v').is_some_and(|rest| rest.split('.').all(ggmill_core::is_digits));
        if !lower || version || word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.to_owned();
        }
        let mut after_letter = false;
        let capital = |c: char| {
            let capital: String = if after_letter { c.into() } else { c.to_uppercase().collect() };
            after_letter = c.is_alphabetic();
            capital
        };
        word.chars().map(capital).collect::<String>()
    };
    id.replace('-', " ").split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `gguf` 0.19.0's `Metadata.apply_metadata_heuristic` gives for a directory of this name
    /// and so many parameters, printed by `cargo xtask peers names`: id | parameters | name |
    /// version | organization | finetune | basename | size label.
    const REFERENCE: &str = include_str!("../../tests/names.txt");

    #[test]
    fn names_are_read_as_the_reference_reads_them() {
        let mut seen = 0;
        for line in REFERENCE.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split('|').collect();
            let field =
                |place: usize| Some(fields[place].to_owned()).filter(|field| !field.is_empty());
            let id = ModelId::new(fields[0], Parameters::Exactly(fields[1].parse().unwrap()));
            let found = [
                Some(title(&id.name)),
                id.version,
                id.organization.as_deref().map(title),
                id.finetune,
                id.basename,
                id.size_label,
            ];
            assert_eq!(found, [2, 3, 4, 5, 6, 7].map(field), "{line}");
            seen += 1;
        }
        assert!(seen > 20, "{seen}");
    }
}
