//! The input of a program: texts, the sources of encoder-decoder models, and their limits.

use std::borrow::Cow;

use ggmill_arch::graph::{Graph, Operation, Rows};

use crate::error::{Error, ErrorKind, Result};

/// The input of the encoder of a model that has one; the text is the input of its decoder.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Source<'a> {
    /// Tokens, as for T5.
    Tokens(Cow<'a, [u32]>),
    /// Concatenated vectors of length [`Graph::source_width`](ggmill_arch::graph::Graph::source_width), as
    /// for Whisper.
    Vectors(Cow<'a, [f32]>),
}

impl<'a> Source<'a> {
    /// Returns a source of tokens.
    pub fn tokens(tokens: impl Into<Cow<'a, [u32]>>) -> Self {
        Self::Tokens(tokens.into())
    }

    /// Returns a source of vectors. `numbers` are the concatenated vectors.
    pub fn vectors(numbers: impl Into<Cow<'a, [f32]>>) -> Self {
        Self::Vectors(numbers.into())
    }
}

/// The limits of a text: the row counts of the embedding tables in the graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The number of rows of the token embedding table.
    pub(crate) vocabulary: u64,
    /// The number of rows of the position embedding table, if the model has one.
    positions: Option<u64>,
    /// The number of tokens up to which the rotary factors of the graph count, if there are others for
    /// longer texts.
    pub(crate) short_factors: Option<u64>,
}

/// The limits of the source of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SourceLimits {
    Tokens(Limits),
    /// The length of each vector, and the maximum number of vectors, if it is limited.
    Vectors(u64, Option<u64>),
}

/// Returns the row count of the shortest table that is indexed by `wanted`, for the text or the source.
fn rows(graph: &Graph, wanted: Rows, of_source: bool) -> Option<u64> {
    let nodes = graph.nodes().iter().filter(|node| node.of_source == of_source);
    let tables = nodes.filter_map(|node| match node.operation {
        Operation::Rows { table, rows } if rows == wanted => {
            graph.weights()[table].dimensions.get(1).copied().or(Some(1))
        }
        _ => None,
    });
    tables.min()
}

fn check_len(len: usize, most: Option<u64>, what: &str) -> Result<()> {
    match most {
        Some(most) if len as u64 > most => Err(Error::new(
            ErrorKind::Tokens,
            format_args!("{len} {what}, but the model has positions for {most}"),
        )),
        _ => Ok(()),
    }
}

impl Limits {
    /// Returns the limits of the text, or of a source of tokens. Fails if the graph has no such input.
    pub(crate) fn of(graph: &Graph, of_source: bool) -> Result<Self> {
        let vocabulary = rows(graph, Rows::Tokens, of_source).ok_or_else(|| {
            let text = if of_source { "source" } else { "text" };
            let message = format_args!("the graph does not take the tokens of the {text}");
            Error::new(ErrorKind::Graph, message)
        })?;
        let positions = rows(graph, Rows::Positions, of_source);
        Ok(Self { vocabulary, positions, short_factors: None })
    }

    /// Fails for tokens outside the vocabulary, and for more tokens than the model has positions.
    pub(crate) fn check(self, tokens: &[u32]) -> Result<()> {
        let found = tokens.iter().find(|&&token| u64::from(token) >= self.vocabulary);
        if let Some(token) = found {
            let message = format!("token ID {token}, but the model has {} tokens", self.vocabulary);
            return Err(Error::new(ErrorKind::Tokens, message));
        }
        match self.short_factors {
            Some(most) if tokens.len() as u64 > most => Err(Error::new(
                ErrorKind::Tokens,
                format_args!(
                    "{} tokens, but the computation has the rotary factors for {most} only",
                    tokens.len()
                ),
            )),
            _ => check_len(tokens.len(), self.positions, "tokens"),
        }
    }
}

impl SourceLimits {
    /// Returns the limits of the source if the graph takes one.
    pub(crate) fn of(graph: &Graph) -> Result<Option<Self>> {
        Ok(match graph.source_width() {
            Some(width) => Some(Self::Vectors(width, rows(graph, Rows::Positions, true))),
            None if graph.has_source() => Some(Self::Tokens(Limits::of(graph, true)?)),
            None => None,
        })
    }

    /// Returns the number of tokens or vectors of a source. Fails if its kind or length is wrong.
    pub(crate) fn check(self, source: &Source<'_>) -> Result<usize> {
        let wrong = |message: String| Err(Error::new(ErrorKind::Source, message));
        let len = match (source, self) {
            (Source::Tokens(tokens), Self::Tokens(limits)) => {
                limits.check(tokens)?;
                tokens.len()
            }
            (Source::Vectors(numbers), Self::Vectors(width, most)) => {
                let len = vectors(numbers, usize::try_from(width).unwrap_or(usize::MAX))?;
                check_len(len, most, "vectors of the source")?;
                len
            }
            (Source::Tokens(_), Self::Vectors(width, _)) => {
                return wrong(format!("the source of the model is vectors of {width} numbers"));
            }
            (Source::Vectors(_), Self::Tokens(_)) => {
                return wrong("the source of the model is tokens, not vectors".to_owned());
            }
        };
        if len == 0 { wrong("a source is empty".to_owned()) } else { Ok(len) }
    }
}

/// Returns the number of vectors in `numbers`. Fails for an incomplete vector or a non-finite number.
fn vectors(numbers: &[f32], width: usize) -> Result<usize> {
    let width = width.max(1);
    if !numbers.len().is_multiple_of(width) {
        let message = format!("a source of {} numbers, expected vectors of {width}", numbers.len());
        return Err(Error::new(ErrorKind::Source, message));
    }
    if let Some(place) = numbers.iter().position(|number| !number.is_finite()) {
        let message = format!(
            "vector {} of a source, number {}: {}, expected a finite number",
            place / width,
            place % width,
            numbers[place]
        );
        return Err(Error::new(ErrorKind::NotFinite, message));
    }
    Ok(numbers.len() / width)
}
