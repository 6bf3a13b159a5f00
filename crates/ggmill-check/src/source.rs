//! The sources of the rules.

use std::fmt::Write as _;

use ggmill_arch::{LOADER_REVISION, SPECIFICATION_REVISION};

use crate::rule::{Authority, Rule};

/// Lines of `rule|by|force|place|name|quotation`.
static SOURCES: &str = include_str!("../data/sources.txt");

/// Who states something about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StatedBy {
    /// The text of the specification.
    Specification,
    /// The code of llama.cpp.
    LlamaCpp,
    /// The code of the Python package gguf.
    Gguf,
    /// Recommended practice.
    Practice,
}

/// The force of a requirement in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Force {
    /// The specification says "must", "required", or that anything else is invalid.
    Must,
    /// The specification recommends it.
    Should,
    /// The specification defines the meaning of a value, and the file contradicts it.
    Defines,
    /// The specification allows what another source does not.
    Allows,
    /// The specification allows it in some cases.
    AllowsPartly,
    /// The specification does not mention it.
    Silent,
    /// llama.cpp rejects the file.
    Refuses,
    /// llama.cpp rejects the file in some cases, and accepts it in others.
    Partly,
    /// llama.cpp ignores or misreads it.
    Misreads,
    /// llama.cpp loads the file, but can fail when it uses it.
    Fails,
    /// llama.cpp warns.
    Warns,
    /// llama.cpp accepts the file.
    Accepts,
    /// The package writes files this way.
    Writes,
    /// Experience with files.
    Recommended,
}

impl Force {
    /// Returns the forces that a source can have, with their words in the data.
    fn of(by: StatedBy) -> &'static [(&'static str, Self)] {
        match by {
            StatedBy::Specification => &[
                ("must", Self::Must),
                ("should", Self::Should),
                ("defines", Self::Defines),
                ("allows", Self::Allows),
                ("partly", Self::AllowsPartly),
                ("silent", Self::Silent),
            ],
            StatedBy::LlamaCpp => &[
                ("refuses", Self::Refuses),
                ("partly", Self::Partly),
                ("misreads", Self::Misreads),
                ("fails", Self::Fails),
                ("warns", Self::Warns),
                ("accepts", Self::Accepts),
            ],
            StatedBy::Gguf => &[("writes", Self::Writes)],
            StatedBy::Practice => &[("recommended", Self::Recommended)],
        }
    }
}

/// A statement that a rule is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Source {
    /// The code of the rule.
    pub rule: &'static str,
    /// Who states it.
    pub by: StatedBy,
    /// The force of the requirement in the source.
    pub force: Force,
    /// The line of the specification, or the source file; empty if there is none.
    pub place: &'static str,
    /// The section of the specification, or the function, type or table; empty if there is none.
    pub name: &'static str,
    /// A short quotation; the reason of recommended practice.
    pub quotation: &'static str,
}

impl Source {
    /// Parses the lines of the data in order; `None` for a line with an unknown word.
    fn lines() -> impl Iterator<Item = Option<Self>> {
        SOURCES.lines().filter(|line| !line.starts_with('#')).map(Self::parse)
    }

    fn parse(line: &'static str) -> Option<Self> {
        let mut fields = line.splitn(6, '|');
        let mut field = || fields.next();
        let rule = field()?;
        let by = match field()? {
            "specification" => StatedBy::Specification,
            "llama.cpp" => StatedBy::LlamaCpp,
            "gguf" => StatedBy::Gguf,
            "practice" => StatedBy::Practice,
            _ => return None,
        };
        let word = field()?;
        let force = Force::of(by).iter().find(|(known, _)| *known == word)?.1;
        Some(Self { rule, by, force, place: field()?, name: field()?, quotation: field()? })
    }

    /// Describes where it is stated.
    fn place(&self) -> String {
        let Self { place, name, .. } = self;
        match self.by {
            StatedBy::Specification if place.is_empty() => {
                "The specification does not mention this case".into()
            }
            StatedBy::Specification => format!("Specification, section \"{name}\", line {place}"),
            StatedBy::LlamaCpp => format!("llama.cpp, `{name}` in `{place}`"),
            StatedBy::Gguf => format!("gguf-py, `{name}` in `{place}`"),
            StatedBy::Practice => "Reason for the recommendation".into(),
        }
    }
}

impl Rule {
    /// Returns the sources of its requirement: by the specification, by llama.cpp, by the Python
    /// package gguf, or in recommended practice.
    ///
    /// ```
    /// use ggmill_check::{StatedBy, rules};
    /// let rule = rules().find(|rule| rule.code == "GG1302").ok_or("known")?;
    /// let mut sources = rule.sources().filter(|source| source.by == StatedBy::Specification);
    /// assert_eq!(sources.next().ok_or("stated")?.place, "319");
    /// # Ok::<(), &str>(())
    /// ```
    pub fn sources(&self) -> impl Iterator<Item = Source> {
        Source::lines().flatten().filter(|source| source.rule == self.code)
    }

    /// Returns a sentence on how the specification, with the line, and llama.cpp treat a file that violates
    /// the rule.
    pub fn requirement(&self) -> String {
        self.requirement_with("")
    }

    /// Like [`requirement`](Self::requirement), with `cases` after "in some cases".
    pub(crate) fn requirement_with(&self, cases: &str) -> String {
        let of = |forces: &[Force]| self.sources().find(|source| forces.contains(&source.force));
        let cited =
            |source: Source| format!(" (section \"{}\", line {})", source.name, source.place);
        let violated =
            of(&[Force::Must, Force::Should, Force::Defines]).map_or_else(String::new, |source| {
                let verb = match source.force {
                    Force::Should => "Departs from a recommendation of",
                    Force::Defines => "Inconsistent with",
                    _ => "Violates",
                };
                format!("{verb} the specification{}", cited(source))
            });
        let by_loader =
            match of(&[Force::Refuses, Force::Partly, Force::Misreads, Force::Fails, Force::Warns])
                .map(|source| source.force)
            {
                Some(Force::Partly) => Some(format!("rejected by llama.cpp in some cases{cases}")),
                Some(Force::Misreads) => Some("ignored or misread by llama.cpp".into()),
                Some(Force::Fails) => {
                    Some(format!("loaded by llama.cpp, which can fail later{cases}"))
                }
                Some(Force::Warns) => Some("accepted by llama.cpp with a warning".into()),
                Some(_) => Some("rejected by llama.cpp".into()),
                None => None,
            };
        match self.authority {
            Authority::Both | Authority::Specification => {
                format!("{violated}; {}.", by_loader.as_deref().unwrap_or("accepted by llama.cpp"))
            }
            Authority::Must => {
                format!(
                    "{violated}; accepted by llama.cpp. Reported as an error in the `spec` profile."
                )
            }
            Authority::Reference => {
                let allowed = of(&[Force::Allows, Force::AllowsPartly]).map_or_else(
                    || "not mentioned in the specification".to_owned(),
                    |source| {
                        let allowed = format!("conforms to the specification{}", cited(source));
                        match source.force {
                            Force::AllowsPartly => format!("{allowed} in some cases{cases}"),
                            _ => allowed,
                        }
                    },
                );
                format!("{}; {allowed}.", capitalized(by_loader.as_deref().unwrap_or_default()))
            }
            Authority::Letter => format!(
                "{violated}; accepted by llama.cpp. Many published files violate this rule, so it is \
                 reported only in the `spec` profile."
            ),
            Authority::Practice => match by_loader {
                Some(by_loader) => {
                    format!("{}; the specification does not forbid it.", capitalized(&by_loader))
                }
                None => "Recommended practice; not required by the specification or by llama.cpp."
                    .into(),
            },
        }
    }
}

/// Capitalizes the first letter.
fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

/// Returns the section about the sources of a rule, for its page.
pub(crate) fn sources_section(rule: &Rule) -> String {
    let mut section = String::from("\n## Sources\n\n");
    let (mut lines, mut functions) = (false, false);
    for source in rule.sources() {
        let is_specification = source.by == StatedBy::Specification;
        lines |= is_specification && !source.place.is_empty();
        functions |= !is_specification && !source.place.is_empty();
        // Writing to a string cannot fail.
        let _ = match (source.by, source.quotation) {
            (_, "") => writeln!(section, "- {}.", source.place()),
            (StatedBy::Practice, reason) => writeln!(section, "- {}: {reason}", source.place()),
            // Nested quotes are ambiguous, so code that contains quotes is in backquotes.
            (_, code) if code.contains('"') && !code.contains('`') => {
                writeln!(section, "- {}: `{code}`", source.place())
            }
            (_, quotation) => writeln!(section, "- {}: \"{quotation}\"", source.place()),
        };
    }
    let _ = match (lines, functions) {
        (true, true) => write!(
            section,
            "\nLine numbers refer to {SPECIFICATION_REVISION}; file and function names refer \
             to {LOADER_REVISION}.\n"
        ),
        (true, false) => write!(section, "\nLine numbers refer to {SPECIFICATION_REVISION}.\n"),
        (false, true) => write!(section, "\nFile and function names refer to {LOADER_REVISION}.\n"),
        (false, false) => Ok(()),
    };
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page ends with the revisions of the sources that it cites, and no others.
    #[test]
    fn only_cited_revisions_are_listed() {
        for rule in crate::rules() {
            let section = sources_section(rule);
            let cites = |text: &str| {
                section.lines().any(|line| line.starts_with("- ") && line.contains(text))
            };
            let cites_lines = cites("Specification, section ");
            let cites_functions = cites("llama.cpp, `") || cites("gguf-py, `");
            assert_eq!(section.contains(SPECIFICATION_REVISION), cites_lines, "{section}");
            assert_eq!(section.contains(LOADER_REVISION), cites_functions, "{section}");
        }
    }

    #[test]
    fn every_line_is_in_the_vocabulary() {
        for (line, source) in
            SOURCES.lines().filter(|line| !line.starts_with('#')).zip(Source::lines())
        {
            let source = source.unwrap_or_else(|| panic!("{line}"));
            assert!(crate::rules().any(|rule| rule.code == source.rule), "{line}");
            let is_placed = !matches!(source.force, Force::Silent | Force::Recommended);
            assert_eq!(is_placed, !source.place.is_empty(), "{line}");
            assert_eq!(is_placed, !source.name.is_empty(), "{line}");
            assert_eq!(source.force != Force::Silent, !source.quotation.is_empty(), "{line}");
            if source.by == StatedBy::Specification && is_placed {
                assert!(source.place.parse::<u32>().is_ok(), "{line}");
            }
        }
    }
}
