//! The regular expressions of pre-tokenizers, read into a program.
//!
//! The syntax is what the table uses of ECMAScript's: classes, groups, alternatives, greedy
//! repetition, the end of the text, and a look at the next character. Categories of letters are all
//! `\p{L}`.

use super::set::Set;
use crate::unicode::Properties;

/// A step of a program. Steps that follow each other are tried in order; of two ways the first is
/// preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Takes a character of the class.
    Take(usize),
    /// Goes on if the next character is of the class; at the end of the text, if `at_end`.
    Look { class: usize, negated: bool, at_end: bool },
    /// Goes on at both places, the first preferred.
    Fork(usize, usize),
    /// Goes on elsewhere.
    Jump(usize),
    /// The expression has matched.
    Match,
}

/// An expression as a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) classes: Vec<Set>,
}

/// What an expression is made of.
#[derive(Clone, Debug)]
enum Node {
    Class(usize),
    Look { class: usize, negated: bool, at_end: bool },
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat { node: Box<Node>, least: u32, most: Option<u32> },
}

impl Program {
    /// Reads an expression. `None` where it is not in the syntax.
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
            // One character is looked at; past the end of the text there is none.
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

    /// What follows a backslash.
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

    /// A class in brackets, after the opening one.
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
                    // A hyphen at the end is one.
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

    /// A character, or a class.
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
