//! The passes of a pre-tokenizer, compiled.

use super::automaton::{Automaton, Memo};
use super::scan;
use super::table::{Pass, PreTokenizer};

/// Cuts text into words.
#[derive(Debug)]
pub(crate) struct Words(Vec<Compiled>);

#[derive(Debug)]
enum Compiled {
    Split(Box<Automaton>),
    DigitGroups,
    Thousands,
}

impl Words {
    /// The passes of a pre-tokenizer. `None` where one is not in the syntax, which no table of this
    /// crate has.
    pub(crate) fn new(pre: &PreTokenizer) -> Option<Self> {
        let compiled = pre.passes.iter().map(|pass| {
            Some(match pass {
                Pass::Split(expression) => Compiled::Split(Box::new(Automaton::new(expression)?)),
                Pass::Scan("digit-groups") => Compiled::DigitGroups,
                Pass::Scan("thousands") => Compiled::Thousands,
                Pass::Scan(_) => return None,
            })
        });
        compiled.collect::<Option<Vec<_>>>().map(Self)
    }

    /// The words of a text in order. The text is UTF-8, but may have surrogates.
    pub(crate) fn cut(
        &self,
        text: &[u8],
        memos: &mut Vec<Memo>,
        each: &mut impl FnMut(usize, usize),
    ) {
        memos.resize_with(self.0.len(), Memo::default);
        memos.iter_mut().for_each(Memo::clear);
        pass(&self.0, text, 0, memos, each);
    }
}

/// Cuts what is from `from` to the end of the text by the passes that remain.
fn pass<F: FnMut(usize, usize)>(
    passes: &[Compiled],
    text: &[u8],
    from: usize,
    memos: &mut [Memo],
    each: &mut F,
) {
    let (Some((first, rest)), Some((memo, memos))) =
        (passes.split_first(), memos.split_first_mut())
    else {
        if from < text.len() {
            each(from, text.len());
        }
        return;
    };
    let mut next = |start: usize, end: usize| {
        if rest.is_empty() {
            each(start, end);
        } else if let Some(piece) = text.get(..end) {
            pass(rest, piece, start, memos, each);
        }
    };
    match first {
        Compiled::DigitGroups => scan::digit_groups(text, from, next),
        Compiled::Thousands => scan::thousands(text, from, next),
        Compiled::Split(automaton) => {
            // Another piece's end decides otherwise.
            memo.clear();
            let mut done = from;
            while let Some((start, end)) = automaton.find(text, done, memo) {
                if done < start {
                    next(done, start);
                }
                next(start, end);
                done = end;
            }
            if done < text.len() {
                next(done, text.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pre::table;

    fn words<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
        let words = table::find(name.as_bytes()).and_then(Words::new).expect("a table");
        let mut found = Vec::new();
        words.cut(text.as_bytes(), &mut Vec::new(), &mut |start, end| {
            found.push(text.get(start..end).expect("characters"));
        });
        found
    }

    #[test]
    fn every_pre_tokenizer_compiles_and_keeps_all_text() {
        let text =
            "Hello,  wörld's 12345 ３四 <dna>\r\n\n\t x\u{3000}한국어 \u{301}’S IMGIMGABZ   ";
        for pre in table::all() {
            assert_eq!(words(pre.name, text).concat(), text, "{}", pre.name);
        }
    }

    #[test]
    fn words_are_those_of_the_expressions() {
        assert_eq!(words("gpt-2", "I've  12 a!\n "), ["I", "'ve", " ", " 12", " a", "!", "\n "]);
        assert_eq!(
            words("llama-bpe", "a 12345\n\n b  "),
            ["a", " ", "123", "45", "\n\n", " b", "  "]
        );
        assert_eq!(words("tiny_aya", "x 12345")[..2], ["x", " "]);
        assert_eq!(words("superbpe", "a1234567"), ["a", "1", "234", "567"]);
    }

    #[test]
    fn long_runs_take_linear_time() {
        let mut names: Vec<_> = table::all().iter().collect();
        names.sort_by_key(|pre| pre.rules);
        names.dedup_by_key(|pre| pre.rules);
        for pre in names {
            for unit in ["a", " ", "\n", "1", "-", "中", " \n", "\u{301}", "a ", "'", "\t"] {
                let mut text = unit.repeat(5_000);
                text.push('x');
                let pieces = words(pre.name, &text);
                assert_eq!(pieces.iter().map(|piece| piece.len()).sum::<usize>(), text.len());
            }
        }
    }
}
