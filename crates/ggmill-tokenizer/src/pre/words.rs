//! The passes of a pre-tokenizer, compiled.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::automaton::{Automaton, Memo};
use super::scan;
use super::table::{Pass, PreTokenizer};
use crate::explained::ExplainedPass;

/// Cuts text into words. A clone shares the automata.
#[derive(Clone, Debug)]
pub(crate) struct Words(Arc<[Compiled]>);

/// The rules that were compiled, by their names, and whether their words are apart.
static COMPILED: Mutex<BTreeMap<(&str, bool), Words>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct Compiled {
    step: Step,
    /// For every byte, whether this pass or one after it may cut text that has it. Other text is
    /// one word.
    may_cut: [bool; 256],
}

#[derive(Debug)]
enum Step {
    Split(Box<Automaton>),
    DigitGroups,
    Thousands,
}

impl Step {
    fn may_begin(&self, byte: u8) -> bool {
        match self {
            Self::Split(automaton) => automaton.may_begin(byte),
            Self::DigitGroups | Self::Thousands => byte.is_ascii_digit() || !byte.is_ascii(),
        }
    }
}

impl Words {
    /// The passes of a pre-tokenizer, which are compiled once in a process. `None` where one is not
    /// in the syntax, which no table of this crate has.
    pub(crate) fn new(pre: &PreTokenizer) -> Option<Self> {
        Self::once((pre.rules, false), &pre.fast)
    }

    /// The passes that cut words also before spaces that follow a letter or a mark. `None` where the
    /// words of the pre-tokenizer have no such spaces.
    pub(crate) fn apart(pre: &PreTokenizer) -> Option<Self> {
        if pre.apart.is_empty() { None } else { Self::once((pre.rules, true), &pre.apart) }
    }

    fn once(key: (&'static str, bool), passes: &[Pass]) -> Option<Self> {
        let known = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(words) = known().get(&key) {
            return Some(words.clone());
        }
        let words = Self::compile(passes)?;
        known().insert(key, words.clone());
        Some(words)
    }

    fn compile(rules: &[Pass]) -> Option<Self> {
        let mut passes = Vec::new();
        let mut may_cut = [false; 256];
        for pass in rules.iter().rev() {
            let step = match pass {
                Pass::Split(expression) => Step::Split(Box::new(Automaton::new(expression)?)),
                Pass::Scan("digit-groups") => Step::DigitGroups,
                Pass::Scan("thousands") => Step::Thousands,
                Pass::Scan(_) => return None,
            };
            for (byte, may) in (0..=u8::MAX).zip(&mut may_cut) {
                *may |= step.may_begin(byte);
            }
            passes.push(Compiled { step, may_cut });
        }
        Some(Self(passes.into_iter().rev().collect()))
    }

    /// Whether a text can be cut between these two ASCII characters, of which the first is a letter:
    /// each part gives the words that it has in the whole.
    ///
    /// No pass may have a match over the place, nor a match that depends on what follows it, and one
    /// of them must end a piece there. No pass looks back.
    pub(crate) fn can_cut(&self, before: u8, after: u8) -> bool {
        let mut ends = false;
        self.0.iter().all(|pass| match &pass.step {
            // Letters and what follows them are between numbers.
            Step::DigitGroups | Step::Thousands => true,
            Step::Split(automaton) => {
                ends |= automaton.ends_between(before, after);
                automaton.parts_between(before, after)
            }
        }) && ends
    }

    /// The pieces that each pass leaves, in order, with the expression or the scanner's name.
    pub(crate) fn passes(rules: &[Pass], text: &[u8]) -> Option<Vec<ExplainedPass>> {
        let whole = 0..text.len();
        let mut pieces = vec![whole];
        let mut passes = Vec::new();
        for (one, rule) in Self::compile(rules)?.0.chunks(1).zip(rules) {
            let (Pass::Split(rule) | Pass::Scan(rule)) = *rule;
            let mut cut = Vec::new();
            for piece in &pieces {
                let text = text.get(..piece.end).unwrap_or_default();
                pass(one, text, piece.start, &mut [Memo::default()], &mut |start, end| {
                    cut.push(start..end);
                });
            }
            pieces.clone_from(&cut);
            passes.push(ExplainedPass { rule, pieces: cut });
        }
        Some(passes)
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
        if let ([Compiled { step: Step::Split(automaton), .. }], [memo, ..]) =
            (&*self.0, &mut **memos)
        {
            return automaton.cut(text, 0, memo, each);
        }
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
        let may_cut = rest.first().is_some_and(|pass| {
            let piece = text.get(start..end).unwrap_or_default();
            piece.iter().any(|&byte| pass.may_cut[usize::from(byte)])
        });
        match text.get(..end) {
            Some(piece) if may_cut => pass(rest, piece, start, memos, each),
            _ => each(start, end),
        }
    };
    match &first.step {
        Step::DigitGroups => scan::digit_groups(text, from, next),
        Step::Thousands => scan::thousands(text, from, next),
        Step::Split(automaton) => {
            // Another piece's end decides otherwise.
            memo.clear();
            automaton.cut(text, from, memo, &mut next);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::pre::table;
    use crate::unicode::{Properties, properties};

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

    /// Passes that stand for others leave the same pieces: of every short text of the characters that
    /// they tell apart, and of many longer ones.
    #[test]
    fn fewer_passes_leave_the_same_pieces() {
        const LONG: usize = 4000;
        let characters: Vec<char> = "aIMGZs\u{E9}\u{1E83}\u{FF21}'.(!|`$\u{20AC}\u{201C}\u{2026}1\u{663}\
             \u{2460}\u{E51} \t\n\r\u{A0}\u{3000}\u{1}\u{378}\u{301}\u{4E2D}\u{30A2}\u{30FB}\u{3040}\u{3099}\
             \u{AC00}\u{E01}\u{3001}/<"
            .chars()
            .collect();
        let mut state = 7u64;
        let mut below = |count: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % count
        };
        let all = characters.len();
        let short = (0..all * all * all).map(|number| {
            let places = [number % all, number / all % all, number / all / all];
            places.map(|place| characters[place]).iter().collect::<String>()
        });
        let mut texts: Vec<String> = short.collect();
        for _ in 0..LONG {
            // Few different characters, so that there are runs of them, and whole words.
            let some: Vec<char> = (0..=below(4)).map(|_| characters[below(all)]).collect();
            let mut text = String::new();
            for _ in 0..below(14) {
                match below(12) {
                    0 => text.push_str("IMGIMGAB"),
                    1 => text.push_str("<sentinel:12>"),
                    2 => text.push_str("  "),
                    _ => text.push(some[below(some.len())]),
                }
            }
            texts.push(text);
        }
        let mut rules: Vec<_> = table::all().iter().filter(|pre| pre.fast != pre.passes).collect();
        rules.sort_by_key(|pre| pre.rules);
        rules.dedup_by_key(|pre| pre.rules);
        assert_eq!(rules.len(), 13);
        let mut memos = Vec::new();
        for pre in rules {
            let [slow, fast] =
                [&pre.passes, &pre.fast].map(|passes| Words::compile(passes).expect("a table"));
            let mut cut = |words: &Words, text: &str| {
                let mut ends = Vec::new();
                words.cut(text.as_bytes(), &mut memos, &mut |_, end| ends.push(end));
                ends
            };
            for text in &texts {
                let expected = cut(&slow, text);
                assert_eq!(cut(&fast, text), expected, "{}: {text:?}", pre.rules);
            }
        }
    }

    /// Of other rules, no word has a space behind a letter.
    #[test]
    fn these_rules_leave_phrases_together() {
        let phrases = |pre: &&PreTokenizer| !Words::new(pre).expect("a table").can_cut(b'a', b' ');
        let mut rules: Vec<_> = table::all().iter().filter(phrases).map(|pre| pre.rules).collect();
        rules.sort_unstable();
        rules.dedup();
        assert_eq!(rules, ["exaone-moe", "gemma4", "sarvam-moe", "superbpe"]);
    }

    /// Passes that leave words apart cut as the others do, and else before spaces behind a letter or
    /// a mark.
    #[test]
    fn words_apart_are_cut_at_spaces() {
        let characters: Vec<char> = "as'./1 \n\u{E9}\u{301}\u{A0}\u{1}".chars().collect();
        let all = characters.len();
        let some: Vec<_> = table::all().iter().filter(|pre| !pre.apart.is_empty()).collect();
        assert!(!some.is_empty());
        for pre in some {
            let [whole, apart] = [&pre.passes, &pre.apart].map(|it| Words::compile(it).unwrap());
            let cut = |words: &Words, text: &str| {
                let mut ends = Vec::new();
                words.cut(text.as_bytes(), &mut Vec::new(), &mut |_, end| ends.push(end));
                ends
            };
            for number in 0..all.pow(5) {
                let text: String =
                    (0..5).map(|place| characters[number / all.pow(place) % all]).collect();
                let expected = cut(&whole, &text);
                let mut found = cut(&apart, &text);
                found.retain(|end| {
                    let before = text[..*end].chars().next_back().map(u32::from).unwrap();
                    let is_between = text[*end..].starts_with(' ')
                        && properties(before).is(Properties::LETTER_OR_MARK);
                    expected.contains(end) || !is_between
                });
                assert_eq!(found, expected, "{}: {text:?}", pre.rules);
            }
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

    proptest! {
        /// Words that need no automaton, and runs that are gone through at once, are what the
        /// transitions of the automata say.
        #[test]
        fn words_are_those_of_the_transitions(
            text in "([ a-zA-Z0-9'_.,(\\-/\n\r\t\u{A0}éß中한ー\u{301}٣🦙]{0,40}|[a-zA-Z ]{0,60}){0,4}",
        ) {
            for pre in table::all() {
                for pass in Words::new(pre).expect("a table").0.iter() {
                    let Step::Split(automaton) = &pass.step else { continue };
                    let mut found = Vec::new();
                    let mut memo = Memo::default();
                    let mut each = |start, end| found.push((start, end));
                    automaton.cut(text.as_bytes(), 0, &mut memo, &mut each);
                    let expected = automaton.cut_by_steps(text.as_bytes());
                    prop_assert_eq!(found, expected, "{}: {:?}", pre.name, text);
                }
            }
        }
    }

    /// The same for texts that are long enough to be cut in blocks, and parts of texts.
    #[test]
    fn words_of_long_texts_are_those_of_the_transitions() {
        let unit = "[ a-zA-Z0-9'_.,(\\-/\n\r\t]{0,12}|[a-z]{1,9}[ ,.\n]|'[a-zS]{1,2} |[0-9]{1,9}|\
                    [ \n\r\t]{1,9}|[-=#/]{1,9}|[\u{A0}éß中한ー\u{301}٣🦙]{1,3}";
        let texts = proptest::collection::vec(unit, 60..200);
        let mut runner = TestRunner::new(ProptestConfig::with_cases(48));
        let all: Vec<_> =
            table::all().iter().map(|pre| (pre, Words::new(pre).expect("a table"))).collect();
        let result = runner.run(&(texts, 0..9usize), |(parts, skip)| {
            let text = parts.concat();
            let from = text.char_indices().nth(skip).map_or(0, |(at, _)| at);
            for (pre, words) in &all {
                for pass in words.0.iter() {
                    let Step::Split(automaton) = &pass.step else { continue };
                    let mut found = Vec::new();
                    let mut memo = Memo::default();
                    let mut each =
                        |start: usize, end: usize| found.push((start - from, end - from));
                    automaton.cut(text.as_bytes(), from, &mut memo, &mut each);
                    let expected = automaton.cut_by_steps(&text.as_bytes()[from..]);
                    prop_assert_eq!(found, expected, "{}: {:?}", pre.name, text);
                }
            }
            Ok(())
        });
        result.expect("equal words");
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
