//! Splitting text into words by the passes of a pre-tokenizer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::automaton::{Automaton, Memo};
use super::{Pass, PreTokenizer};
use crate::explain::ExplainedPass;
use crate::unicode::{Properties, properties};

/// The compiled passes of a pre-tokenizer. Clones share the automata.
#[derive(Clone, Debug)]
pub(crate) struct Words(Arc<[Compiled]>);

/// All compiled rules, by their name and whether they are the `apart` passes.
static COMPILED: Mutex<BTreeMap<(&str, bool), Words>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct Compiled {
    step: Step,
    /// For each byte, whether this pass or a later one may split text that contains it. Other text
    /// is one word.
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
    /// Returns the passes of a pre-tokenizer, compiled once per process. Returns `None` if one is
    /// not in the syntax, which does not occur in the table.
    pub(crate) fn new(pre: &PreTokenizer) -> Option<Self> {
        Self::once((pre.rules, false), &pre.fast)
    }

    /// Returns the passes that also split words before spaces that follow a letter or a mark.
    /// Returns `None` if words contain no such spaces.
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

    /// Returns `true` if a text can be split between these two ASCII characters, of which the first
    /// is a letter: each part then gives the words that it has in the whole.
    ///
    /// No pass may have a match that crosses the position, or that depends on the text after it,
    /// and one pass must end a piece there. No pass has lookbehind.
    pub(crate) fn can_cut(&self, before: u8, after: u8) -> bool {
        let mut ends = false;
        self.0.iter().all(|pass| match &pass.step {
            // A letter and the character after it are not between digits.
            Step::DigitGroups | Step::Thousands => true,
            Step::Split(automaton) => {
                ends |= automaton.ends_between(before, after);
                automaton.parts_between(before, after)
            }
        }) && ends
    }

    /// Returns the pieces after each pass, with the expression or the name of the scanner.
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

    /// Calls `each` with the words of a text, in order. The text is UTF-8 except that it may
    /// contain surrogates.
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

/// Splits `text[from..]` by the remaining passes.
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
        Step::DigitGroups => digit_groups(text, from, next),
        Step::Thousands => thousands(text, from, next),
        Step::Split(automaton) => {
            // The memo depends on the end of the piece.
            memo.clear();
            automaton.cut(text, from, memo, &mut next);
        }
    }
}

/// Splits runs of numbers into groups of three from the right. The first group of a run includes
/// the text before it, as in llama.cpp.
fn digit_groups(text: &[u8], from: usize, mut each: impl FnMut(usize, usize)) {
    let mut done = from;
    let mut place = from;
    let mut ends = Vec::new();
    while place < text.len() {
        let (is_number, length) = number(text, place);
        if !is_number {
            place += length;
            continue;
        }
        ends.clear();
        while place < text.len() {
            let (is_number, length) = number(text, place);
            if !is_number {
                break;
            }
            place += length;
            ends.push(place);
        }
        let count = ends.len();
        for (position, &end) in ends.iter().enumerate() {
            if (count - position - 1).is_multiple_of(3) {
                each(done, end);
                done = end;
            }
        }
    }
    if done < text.len() {
        each(done, text.len());
    }
}

fn number(text: &[u8], place: usize) -> (bool, usize) {
    match text.get(place) {
        Some(&byte) if byte < 0x80 => (byte.is_ascii_digit(), 1),
        _ => {
            let (point, length) = super::decode(text, place);
            (properties(point).is(Properties::NUMBER), length)
        }
    }
}

/// Splits before every ASCII digit from which on a run has a multiple of three digits:
/// `(?=(\d{3})+(?!\d))`.
fn thousands(text: &[u8], from: usize, mut each: impl FnMut(usize, usize)) {
    let mut done = from;
    let mut place = from;
    while place < text.len() {
        let rest = text.get(place..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut cut = place + digits % 3;
        while cut < place + digits {
            if done < cut {
                each(done, cut);
                done = cut;
            }
            cut += 3;
        }
        place += digits.max(1);
    }
    if done < text.len() {
        each(done, text.len());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    use super::*;

    fn words<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
        let words = crate::pre::find(name.as_bytes()).and_then(Words::new).expect("a table");
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
        for pre in crate::pre::all() {
            assert_eq!(words(pre.name, text).concat(), text, "{}", pre.name);
        }
    }

    /// The fast passes are equivalent: for every short text of the characters that they
    /// distinguish, and for many longer ones.
    #[test]
    fn fast_passes_are_equivalent() {
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
            // Few different characters, so that there are runs of them, and some words.
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
        let mut rules: Vec<_> =
            crate::pre::all().iter().filter(|pre| pre.fast != pre.passes).collect();
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

    /// With other rules, no word has a space after a letter.
    #[test]
    fn these_rules_keep_phrases_together() {
        let phrases = |pre: &&PreTokenizer| !Words::new(pre).expect("a table").can_cut(b'a', b' ');
        let mut rules: Vec<_> =
            crate::pre::all().iter().filter(phrases).map(|pre| pre.rules).collect();
        rules.sort_unstable();
        rules.dedup();
        assert_eq!(rules, ["exaone-moe", "gemma4", "sarvam-moe", "superbpe"]);
    }

    /// The `apart` passes are equivalent, except that they split before spaces after a letter or a
    /// mark.
    #[test]
    fn apart_passes_split_at_spaces() {
        let characters: Vec<char> = "as'./1 \n\u{E9}\u{301}\u{A0}\u{1}".chars().collect();
        let all = characters.len();
        let some: Vec<_> = crate::pre::all().iter().filter(|pre| !pre.apart.is_empty()).collect();
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
        /// The fast paths give the words of the transitions.
        #[test]
        fn fast_paths_give_the_words_of_the_transitions(
            text in "([ a-zA-Z0-9'_.,(\\-/\n\r\t\u{A0}éß中한ー\u{301}٣🦙]{0,40}|[a-zA-Z ]{0,60}){0,4}",
        ) {
            for pre in crate::pre::all() {
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

    /// The fast path for blocks gives the words of the transitions, also from a position within the
    /// text.
    #[test]
    fn blocks_give_the_words_of_the_transitions() {
        let unit = "[ a-zA-Z0-9'_.,(\\-/\n\r\t]{0,12}|[a-z]{1,9}[ ,.\n]|'[a-zS]{1,2} |[0-9]{1,9}|\
                    [ \n\r\t]{1,9}|[-=#/]{1,9}|[\u{A0}éß中한ー\u{301}٣🦙]{1,3}";
        let texts = proptest::collection::vec(unit, 60..200);
        let mut runner = TestRunner::new(ProptestConfig::with_cases(48));
        let all: Vec<_> =
            crate::pre::all().iter().map(|pre| (pre, Words::new(pre).expect("a table"))).collect();
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
        let mut names: Vec<_> = crate::pre::all().iter().collect();
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
