//! Reading the regular expressions of pre-tokenizers into programs.
//!
//! The syntax is the subset of ECMAScript's that the table uses: classes, groups, alternatives,
//! greedy repetition, the end of the text, and lookahead of one character. As in llama.cpp, all
//! categories of letters are `\p{L}`.

use crate::unicode::{self, CODE_POINTS, Properties};

/// An instruction of a program for a backtracking matcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Consumes a character of the class.
    Take(usize),
    /// Continues if the next character is in the class (or not, if `negated`). At the end of the
    /// text, continues if `at_end`.
    Look { class: usize, negated: bool, at_end: bool },
    /// Continues at the first position, and at the second if that fails.
    Fork(usize, usize),
    /// Continues at a position.
    Jump(usize),
    /// Ends with a match.
    Match,
}

/// A program, and the classes that its steps refer to.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) classes: Vec<Set>,
}

/// A node of the syntax tree.
#[derive(Clone, Debug)]
enum Node {
    Class(usize),
    Look { class: usize, negated: bool, at_end: bool },
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat { node: Box<Node>, least: u32, most: Option<u32> },
}

impl Program {
    /// Reads an expression. Returns `None` if it is not in the syntax.
    pub(super) fn new(expression: &str) -> Option<Self> {
        let mut reader = Reader { rest: expression.chars().peekable(), classes: Vec::new() };
        let node = reader.choice()?;
        if reader.rest.next().is_some() {
            return None;
        }
        let mut program = Self { steps: Vec::new(), classes: reader.classes };
        program.write(&node);
        program.steps.push(Step::Match);
        Some(program)
    }

    fn write(&mut self, node: &Node) {
        match node {
            Node::Class(class) => self.steps.push(Step::Take(*class)),
            &Node::Look { class, negated, at_end } => {
                self.steps.push(Step::Look { class, negated, at_end });
            }
            Node::Sequence(nodes) => nodes.iter().for_each(|node| self.write(node)),
            Node::Choice(nodes) => self.write_choice(nodes),
            Node::Repeat { node, least, most } => self.write_repeat(node, *least, *most),
        }
    }

    fn write_choice(&mut self, nodes: &[Node]) {
        let mut ends = Vec::new();
        for (number, node) in nodes.iter().enumerate() {
            let is_last = number + 1 == nodes.len();
            let fork = self.steps.len();
            if !is_last {
                self.steps.push(Step::Fork(fork + 1, 0));
            }
            self.write(node);
            if !is_last {
                ends.push(self.steps.len());
                self.steps.push(Step::Jump(0));
                self.set(fork, Step::Fork(fork + 1, self.steps.len()));
            }
        }
        for end in ends {
            self.set(end, Step::Jump(self.steps.len()));
        }
    }

    fn write_repeat(&mut self, node: &Node, least: u32, most: Option<u32>) {
        for _ in 0..least {
            self.write(node);
        }
        if let Some(most) = most {
            let mut forks = Vec::new();
            for _ in least..most {
                forks.push(self.steps.len());
                self.steps.push(Step::Fork(0, 0));
                self.write(node);
            }
            for fork in forks {
                self.set(fork, Step::Fork(fork + 1, self.steps.len()));
            }
        } else {
            let fork = self.steps.len();
            self.steps.push(Step::Fork(0, 0));
            self.write(node);
            self.steps.push(Step::Jump(fork));
            self.set(fork, Step::Fork(fork + 1, self.steps.len()));
        }
    }

    fn set(&mut self, place: usize, step: Step) {
        if let Some(slot) = self.steps.get_mut(place) {
            *slot = step;
        }
    }
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    classes: Vec<Set>,
}

impl Reader<'_> {
    fn eat(&mut self, expected: char) -> bool {
        self.rest.next_if_eq(&expected).is_some()
    }

    fn class(&mut self, set: Set) -> usize {
        let set = set.folded();
        self.classes.iter().position(|known| *known == set).unwrap_or_else(|| {
            self.classes.push(set);
            self.classes.len() - 1
        })
    }

    fn choice(&mut self) -> Option<Node> {
        let mut nodes = vec![self.sequence()?];
        while self.eat('|') {
            nodes.push(self.sequence()?);
        }
        Some(Node::Choice(nodes))
    }

    fn sequence(&mut self) -> Option<Node> {
        let mut nodes = Vec::new();
        while let Some(&next) = self.rest.peek() {
            if matches!(next, '|' | ')') {
                break;
            }
            let node = self.atom()?;
            nodes.push(self.repeated(node)?);
        }
        Some(Node::Sequence(nodes))
    }

    fn atom(&mut self) -> Option<Node> {
        let set = match self.rest.next()? {
            '(' => return self.group(),
            '[' => self.bracket()?,
            '$' => {
                let class = self.class(Set::default());
                return Some(Node::Look { class, negated: false, at_end: true });
            }
            '\\' => self.escape()?,
            '.' | '^' | '*' | '+' | '?' | '{' => return None,
            other => single(other),
        };
        Some(Node::Class(self.class(set)))
    }

    fn group(&mut self) -> Option<Node> {
        if !self.eat('?') {
            let node = self.choice()?;
            return self.eat(')').then_some(node);
        }
        match self.rest.next()? {
            ':' => {
                let node = self.choice()?;
                self.eat(')').then_some(node)
            }
            // At the end of the text there is no next character, so only a negative lookahead
            // holds.
            sign @ ('=' | '!') => {
                let node = self.atom()?;
                let negated = sign == '!';
                match node {
                    Node::Class(class) if self.eat(')') => {
                        Some(Node::Look { class, negated, at_end: negated })
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn repeated(&mut self, node: Node) -> Option<Node> {
        let (least, most) = match self.rest.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                self.rest.next();
                let least = self.number()?;
                let most = if self.eat(',') { self.number()? } else { least };
                return self.eat('}').then(|| Node::Repeat {
                    node: Box::new(node),
                    least,
                    most: Some(most),
                });
            }
            _ => return Some(node),
        };
        self.rest.next();
        Some(Node::Repeat { node: Box::new(node), least, most })
    }

    fn number(&mut self) -> Option<u32> {
        let mut digits = String::new();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        digits.parse().ok()
    }

    /// Reads an escape after the backslash.
    fn escape(&mut self) -> Option<Set> {
        Some(match self.rest.next()? {
            's' => Set::space(),
            'S' => Set::space().complement(),
            'd' => Set::range(0x30, 0x39),
            'p' => self.category()?,
            'r' => single('\r'),
            'n' => single('\n'),
            't' => single('\t'),
            'u' => single(self.code_point()?),
            other if other.is_ascii_punctuation() => single(other),
            _ => return None,
        })
    }

    fn code_point(&mut self) -> Option<char> {
        let digits = self.braced()?;
        char::from_u32(u32::from_str_radix(&digits, 16).ok()?)
    }

    fn braced(&mut self) -> Option<String> {
        if !self.eat('{') {
            return None;
        }
        let mut text = String::new();
        loop {
            match self.rest.next()? {
                '}' => return Some(text),
                other => text.push(other),
            }
        }
    }

    fn category(&mut self) -> Option<Set> {
        Some(match self.braced()?.as_str() {
            "L" | "Lu" | "Ll" | "Lt" | "Lm" | "Lo" => Set::with(Properties::LETTER),
            "N" => Set::with(Properties::NUMBER),
            "P" => Set::with(Properties::PUNCTUATION),
            "M" => Set::with(Properties::MARK),
            "S" => Set::with(Properties::SYMBOL),
            "Han" => Set::han(),
            _ => return None,
        })
    }

    /// Reads a class after the opening bracket.
    fn bracket(&mut self) -> Option<Set> {
        let negated = self.eat('^');
        let mut set = Set::default();
        loop {
            let first = match self.rest.next()? {
                ']' => break,
                '\\' => match self.bracket_escape()? {
                    Ok(point) => point,
                    Err(class) => {
                        set.add(&class);
                        continue;
                    }
                },
                other => u32::from(other),
            };
            let mut last = first;
            if self.rest.peek() == Some(&'-') {
                self.rest.next();
                last = match self.rest.next()? {
                    // A hyphen at the end is literal.
                    ']' => {
                        set.add(&Set::range(first, first));
                        set.add(&single('-'));
                        break;
                    }
                    '\\' => self.bracket_escape()?.ok()?,
                    other => u32::from(other),
                };
            }
            set.add(&Set::range(first, last));
        }
        Some(if negated { set.complement() } else { set })
    }

    /// Reads an escape in brackets: a character, or a class as an error.
    fn bracket_escape(&mut self) -> Option<Result<u32, Set>> {
        let is_class = matches!(self.rest.peek(), Some('s' | 'S' | 'd' | 'p'));
        let set = self.escape()?;
        let first = set.bounds().next();
        Some(first.filter(|_| !is_class).ok_or(set))
    }
}

fn single(character: char) -> Set {
    Set::range(character.into(), character.into())
}

/// A set of code points: ranges in ascending order that are not adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Set(Vec<(u32, u32)>);

impl Set {
    /// Returns the code points from `first` to `last`, inclusive.
    fn range(first: u32, last: u32) -> Self {
        Self(vec![(first, last)])
    }

    /// Returns the code points with any of the properties.
    fn with(properties: Properties) -> Self {
        let mut set = Self::default();
        let mut ranges = unicode::ranges().peekable();
        while let Some((first, found)) = ranges.next() {
            let end = ranges.peek().map_or(CODE_POINTS, |&(next, _)| next);
            if found.is(properties) {
                set.0.push((first, end.saturating_sub(1)));
            }
        }
        set.normalized()
    }

    /// Returns the code points with the property White_Space.
    fn space() -> Self {
        Self::with(Properties::WHITESPACE)
    }

    /// Returns the ideographs of llama.cpp's `\p{Han}`.
    fn han() -> Self {
        const HAN: [(u32, u32); 8] = [
            (0x3400, 0x4DBF),
            (0x4E00, 0x9FFF),
            (0xF900, 0xFAFF),
            (0x2_0000, 0x2_A6DF),
            (0x2_A700, 0x2_B73F),
            (0x2_B740, 0x2_CEAF),
            (0x2_CEB0, 0x2_EBEF),
            (0x2_F800, 0x2_FA1F),
        ];
        Self(HAN.to_vec()).normalized()
    }

    /// Adds another set.
    fn add(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        *self = std::mem::take(self).normalized();
    }

    /// Returns the code points that are not in the set.
    fn complement(&self) -> Self {
        let mut next = 0;
        let mut rest = Vec::new();
        for &(first, last) in &self.0 {
            if next < first {
                rest.push((next, first.saturating_sub(1)));
            }
            next = last.saturating_add(1);
        }
        if next < CODE_POINTS {
            rest.push((next, CODE_POINTS.saturating_sub(1)));
        }
        Self(rest)
    }

    /// Returns the set with all whitespace beyond ASCII if it contains U+000B, and with none
    /// otherwise: llama.cpp replaces such whitespace by U+000B before matching.
    fn folded(mut self) -> Self {
        let mut wide = Self::space();
        wide.0.retain(|&(first, _)| first > 0x7F);
        if self.contains(0x0B) {
            self.add(&wide);
            self
        } else {
            let mut rest = self.complement();
            rest.add(&wide);
            rest.complement()
        }
    }

    /// Returns `true` if a code point is in the set.
    pub(super) fn contains(&self, point: u32) -> bool {
        let after = self.0.partition_point(|&(first, _)| first <= point);
        let range = after.checked_sub(1).and_then(|place| self.0.get(place));
        range.is_some_and(|&(_, last)| point <= last)
    }

    /// Returns the code points at which membership changes.
    pub(super) fn bounds(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|&(first, last)| [first, last.saturating_add(1)])
    }

    fn normalized(mut self) -> Self {
        self.0.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(self.0.len());
        for (first, last) in self.0 {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }
}
