//! The names of pre-tokenizers, in `data/pre-tokenizer-names.txt`: what is asked about names takes
//! neither the rules nor the reader of them.

/// Names of the same rules that switch the same.
#[derive(Clone, Copy)]
pub(super) struct Line {
    pub(super) rules: &'static str,
    names: &'static str,
    flags: &'static str,
}

impl Line {
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        self.names.split(' ')
    }

    pub(super) fn has(self, flag: &str) -> bool {
        self.flags.split(' ').any(|word| word == flag)
    }
}

/// Every line of the table.
pub(super) fn lines() -> impl Iterator<Item = Line> {
    let lines = include_str!("../../data/pre-tokenizer-names.txt").lines();
    lines.filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (rules, rest) = line.split_once(" = ")?;
        let (names, flags) = rest.split_once(" : ").unwrap_or((rest, ""));
        Some(Line { rules, names, flags })
    })
}

/// The line that has a name.
pub(super) fn line_of(name: &str) -> Option<Line> {
    lines().find(|line| line.names().any(|known| known == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_known() {
        let known = [
            "",
            "add-bos",
            "add-sep",
            "ignore-merges",
            "escape",
            "keep-spaces",
            "no-bos",
            "force-bos",
            "cased",
            "without-merges",
        ];
        for line in lines() {
            assert!(line.flags.split(' ').all(|flag| known.contains(&flag)), "{}", line.names);
        }
    }
}
