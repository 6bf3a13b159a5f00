//! Name patterns with variables and optional pieces, and globs.

use crate::error::{Error, Result, quoted};
use crate::language::expression::{Expression, Scope};

/// A piece of a name pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RawPiece<'a> {
    Text(&'a str),
    /// In braces: an expression for a number.
    Number(&'a str),
    /// In brackets: optional text.
    Optional(&'a str),
}

/// The maximum length of a pattern, in bytes.
const MAX_LEN: usize = 256;
/// The maximum number of optional pieces in a pattern.
pub(crate) const MAX_OPTIONAL: usize = 3;

/// Returns an error about a pattern.
pub(crate) fn fault(text: &str, what: &str) -> Error {
    Error::description(format!("name {}: {what}", quoted(text)))
}

/// Splits a pattern into its pieces.
pub(crate) fn pieces(text: &str) -> Result<Vec<RawPiece<'_>>> {
    let fault = |what: &str| fault(text, what);
    if text.is_empty() || text.len() > MAX_LEN {
        return Err(fault("expected 1 to 256 bytes"));
    }
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(['{', '}', '[', ']']) {
        let (plain, bracketed) = rest.split_at_checked(start).unwrap_or((rest, ""));
        if !plain.is_empty() {
            pieces.push(RawPiece::Text(plain));
        }
        let is_number = bracketed.starts_with('{');
        let close = if is_number { '}' } else { ']' };
        let inner = bracketed.strip_prefix(['{', '[']).and_then(|inner| inner.split_once(close));
        let (inside, after) = inner
            .filter(|(inside, _)| is_number || !inside.contains(['{', '}', '[', ']']))
            .ok_or_else(|| fault("a bracket is not matched"))?;
        pieces.push(if is_number { RawPiece::Number(inside) } else { RawPiece::Optional(inside) });
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(RawPiece::Text(rest));
    }
    let optional = pieces.iter().filter(|piece| matches!(piece, RawPiece::Optional(_)));
    if optional.count() > MAX_OPTIONAL {
        return Err(fault("more than 3 optional pieces"));
    }
    Ok(pieces)
}

/// Returns `true` if a choice includes an optional piece. Choice 0 includes all; bit *n* omits the
/// *n*-th.
pub(crate) fn is_chosen(choice: u32, optional: u32) -> bool {
    choice.checked_shr(optional).unwrap_or(0) & 1 == 0
}

/// Returns the number of choices for `optional` optional pieces.
pub(crate) fn choices(optional: usize) -> u32 {
    1 << optional.min(MAX_OPTIONAL)
}

/// A name pattern: `[model.]layers.{bid}.self_attn.q_proj.weight`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Template {
    text: Box<str>,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(Box<str>),
    /// A number: an expression over hyperparameters and loop variables.
    Number(Expression),
    Optional(Box<str>),
}

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let piece = |piece| {
            Ok(match piece {
                RawPiece::Text(text) => Piece::Text(text.into()),
                RawPiece::Optional(text) => Piece::Optional(text.into()),
                RawPiece::Number(number) => {
                    let number = Expression::parse(number);
                    let fault = |_| fault(text, "expected a number between { and }");
                    Piece::Number(number.map_err(fault)?)
                }
            })
        };
        let pieces = pieces(text)?.into_iter().map(piece).collect::<Result<_>>()?;
        Ok(Self { text: text.into(), pieces })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn optional(&self) -> usize {
        self.pieces.iter().filter(|piece| matches!(piece, Piece::Optional(_))).count()
    }

    /// Returns the number of combinations of optional pieces.
    pub(crate) fn choices(&self) -> u32 {
        choices(self.optional())
    }

    /// Fails for a variable that `known` rejects.
    pub(crate) fn check_variables(&self, is_declared: &dyn Fn(&str) -> bool) -> Result<()> {
        for piece in &self.pieces {
            if let Piece::Number(number) = piece {
                let fault = || {
                    let (name, number) = (quoted(&self.text), number.text());
                    Error::description(format!("name {name}: there is no loop over {number}"))
                };
                number.check_names(is_declared).map_err(|_| fault())?;
            }
        }
        Ok(())
    }

    /// Returns `true` if the pattern, with all optional pieces and some numbers, gives this name.
    pub(crate) fn fits(&self, name: &str) -> bool {
        let mut rest = name;
        for piece in &self.pieces {
            let after = match piece {
                Piece::Text(text) | Piece::Optional(text) => rest.strip_prefix(&**text),
                Piece::Number(_) => leading_number(rest).map(|(_, after)| after),
            };
            let Some(after) = after else { return false };
            rest = after;
        }
        rest.is_empty()
    }

    /// Returns the numbers in a name at the places of variables; `None` for a name that does not match
    /// the pattern.
    pub(crate) fn numbers(&self, name: &str) -> Option<Vec<(&str, u64)>> {
        let mut numbers = Vec::new();
        let mut rest = name;
        for piece in &self.pieces {
            rest = match piece {
                Piece::Text(text) | Piece::Optional(text) => rest.strip_prefix(&**text)?,
                Piece::Number(number) => {
                    let (digits, after) = leading_number(rest)?;
                    let value = digits.parse().ok()?;
                    numbers.extend(number.as_name().map(|variable| (variable, value)));
                    after
                }
            };
        }
        rest.is_empty().then_some(numbers)
    }

    /// Fills in variables. Choice 0 includes all optional pieces; bit *n* omits the *n*-th.
    pub(crate) fn fill(&self, scope: &Scope<'_>, choice: u32) -> Result<String> {
        use core::fmt::Write as _;
        let mut name = String::with_capacity(self.text.len());
        let mut optional = 0u32;
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => name.push_str(text),
                Piece::Number(number) => {
                    let value = number.evaluate_u64(scope)?;
                    // Writing to a String cannot fail.
                    let _ = write!(name, "{value}");
                }
                Piece::Optional(text) => {
                    if is_chosen(choice, optional) {
                        name.push_str(text);
                    }
                    optional = optional.saturating_add(1);
                }
            }
        }
        Ok(name)
    }
}

/// A pattern in which `*` matches any text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Glob(Box<str>);

impl Glob {
    pub(crate) fn new(pattern: &str) -> Self {
        Self(pattern.into())
    }

    /// Returns `true` if the whole name matches. Each piece matches greedily at its first occurrence,
    /// so the time is at most that of one search per piece.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else { return *name == *self.0 };
        let Some(mut name) = name.strip_prefix(first) else { return false };
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        for piece in middle.split('*').filter(|piece| !piece.is_empty()) {
            match name.split_once(piece) {
                Some((_, after)) => name = after,
                None => return false,
            }
        }
        name.ends_with(last)
    }
}

/// Returns `true` if a tensor name matches a pattern, optionally followed by one more component such as
/// `weight`, `bias` or `scale`.
pub(crate) fn begins(tensor: &str, pattern: &str) -> bool {
    let mut parts = tensor.split('.');
    let matches =
        pattern.split('.').all(|expected| parts.next().is_some_and(|part| fits(part, expected)));
    matches && parts.count() <= 1
}

/// Returns `true` if a name component matches a pattern with a number for each variable in braces.
/// Takes at most time proportional to the product of both lengths: descriptions are untrusted.
fn fits(part: &str, expected: &str) -> bool {
    let part = part.as_bytes();
    // The offsets in the component at which the pattern so far can end.
    let mut ends = vec![0usize];
    let mut rest = expected;
    loop {
        let (before, behind) =
            rest.split_once('{').map_or((rest, None), |(before, behind)| (before, Some(behind)));
        ends.retain_mut(|end| {
            let found = part.get(*end..).is_some_and(|part| part.starts_with(before.as_bytes()));
            *end = end.saturating_add(before.len());
            found
        });
        let Some(behind) = behind else { return ends.contains(&part.len()) };
        rest = behind.split_once('}').map_or("", |(_, behind)| behind);
        let mut numbered: Vec<usize> = Vec::new();
        for &end in &ends {
            // Ends are in order, so digits that an earlier end has reached are not scanned again.
            let known = numbered.last().copied().unwrap_or(0).max(end);
            let is_digit = |at: &usize| part.get(*at).is_some_and(u8::is_ascii_digit);
            if part.get(end) == Some(&b'0') {
                numbered.extend((known == end).then_some(end.saturating_add(1)));
                continue;
            }
            if (end..known).all(|at| is_digit(&at)) {
                numbered.extend(
                    (known..part.len()).take_while(is_digit).map(|at| at.saturating_add(1)),
                );
            }
        }
        ends = numbered;
    }
}

/// Splits off the digits at the beginning of a text, if they are a number as in tensor names.
pub(crate) fn leading_number(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).filter(|(digits, _)| is_number(digits))
}

/// Returns `true` if a text is a number as in tensor names, without leading zeros: programs format
/// block numbers with `%d`.
pub(crate) fn is_number(text: &str) -> bool {
    let is_padded = text.len() > 1 && text.starts_with('0');
    !is_padded && ggmill_core::is_digits(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_match_numbers_within_a_component() {
        for (tensor, pattern) in [
            ("blk.12.a", "blk.{bid}.a"),
            ("blkn0.a.weight", "blkn{bid}.a"),
            ("x12y3z", "x{a}y{b}z"),
            ("123", "{a}{b}"),
            ("100", "{a}{b}"),
            ("012", "{a}{b}"),
            ("blk.0.a", "blk.{bid}.a"),
        ] {
            assert!(begins(tensor, pattern), "{tensor} {pattern}");
        }
        for (tensor, pattern) in [
            ("blk.x.a", "blk.{bid}.a"),
            ("blkn.a", "blkn{bid}.a"),
            ("1", "{a}{b}"),
            ("x1y", "x{a}"),
            // Names have no zero before other digits.
            ("blk.01.a", "blk.{bid}.a"),
            ("blk.00.a", "blk.{bid}.a"),
            ("001", "{a}{b}"),
            ("a.b.c", "a"),
        ] {
            assert!(!begins(tensor, pattern), "{tensor} {pattern}");
        }
    }

    /// Fills in numbers.
    fn fill(template: &Template, variables: &[(&str, u64)], choice: u32) -> String {
        let fuel = core::cell::Cell::new(Scope::FUEL);
        template.fill(&Scope::new(&[], &fuel).with(variables), choice).unwrap()
    }

    #[test]
    fn numbers_may_be_computed() {
        let template = Template::parse("mtp.layers.{bid - 2 * (n + 1)}.x").unwrap();
        assert_eq!(fill(&template, &[("bid", 7), ("n", 1)], 0), "mtp.layers.3.x");
        assert!(template.check_variables(&|name| name == "bid").is_err());
    }

    #[test]
    fn choices_omit_optional_pieces() {
        let template = Template::parse("[model.]layers.{bid}.x[.y]").unwrap();
        assert_eq!(template.choices(), 4);
        let names: Vec<_> = (0..4).map(|choice| fill(&template, &[("bid", 7)], choice)).collect();
        assert_eq!(names, ["model.layers.7.x.y", "layers.7.x.y", "model.layers.7.x", "layers.7.x"]);
    }

    #[test]
    fn a_template_matches_the_names_it_fills_in() {
        let template = Template::parse("blk.{bid}.x.{eid}.weight").unwrap();
        assert!(
            template.fits("blk.7.x.12.weight")
                && template.fits(&fill(&template, &[("bid", 7), ("eid", 0)], 0))
        );
        let numbers = template.numbers("blk.7.x.10.weight");
        assert_eq!(numbers, Some(vec![("bid", 7), ("eid", 10)]));
        for other in [
            "blk.7.x..weight",
            "blk.7.x.1.weight.y",
            "blk.x.12.weight",
            "a.blk.7.x.12.weight",
            "blk.07.x.12.weight",
            "blk.7.x.00.weight",
            "",
        ] {
            assert!(!template.fits(other) && template.numbers(other).is_none(), "{other}");
        }
    }

    #[test]
    fn broken_templates_are_refused() {
        for text in ["", "a{", "a}", "a{b", "[a{b}]", "a[b]]", "{}", "{a b}", "[a][b][c][d]"] {
            assert!(Template::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn globs_match_whole_names() {
        for (glob, name, expected) in [
            ("*.inv_freq", "a.b.inv_freq", true),
            ("*.inv_freq", "a.inv_freq.x", false),
            ("rope.freqs", "rope.freqs", true),
            ("rope.freqs", "rope.freqs2", false),
            ("a*b*c", "axxbxxc", true),
            ("a*b*c", "axxc", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("*a*", "bab", true),
            ("a*bc*bc", "abc", false),
        ] {
            assert_eq!(Glob::new(glob).matches(name), expected, "{glob} {name}");
        }
    }
}
