//! Scores of models at each position of a text, which measurements summarize, and their JSON form.

use serde::{Deserialize, Serialize};

use super::statistics::Cosines;
use super::{Measurement, PositionScores, summary};
use crate::error::{Error, ErrorKind, Result};

/// The name and version of the JSON of [`Scores`].
const SCHEMA: &str = "ggmill.scores/1";

/// The scores of a model at all scored positions of consecutive chunks of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelScores {
    /// The index of the first chunk in the text.
    first_chunk: usize,
    chunks: usize,
    values: ScoreValues,
}

/// The scores by kind of output.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScoreValues {
    /// Scores of logits.
    Positions {
        positions: Vec<PositionScores>,
        /// If true, the scores include the comparison with a base.
        compared: bool,
    },
    /// Scores of embeddings.
    Cosines(Cosines),
}

/// The scores of some models on some chunks of a text. Scores of different chunks can be merged. The JSON
/// form is `ggmill.scores/1` (`docs/formats/measure.md`).
///
/// ```
/// use ggmill_run::Scores;
/// let part = |first: usize, surprise: f64| {
///     let json = format!(
///         r#"{{"schema": "ggmill.scores/1", "base": null, "context": 4, "models": [
///             {{"file": "m.gguf", "first_chunk": {first}, "chunks": 1, "surprise": [{surprise}]}}]}}"#
///     );
///     Scores::parse(json.as_bytes())
/// };
/// let merged = Scores::merge([part(1, 0.5)?, part(0, 1.5)?])?;
/// let (name, scores) = merged.models().next().ok_or("a model")?;
/// let perplexity = scores.measurement().perplexity.ok_or("logits")?;
/// assert_eq!((name, perplexity.value), ("m.gguf", 1f64.exp()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    base: Option<String>,
    context: usize,
    models: Vec<(String, ModelScores)>,
}

/// Scores in JSON: one column per score.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Columns {
    first_chunk: usize,
    chunks: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    surprise: Option<Vec<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base: Option<BaseColumns>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cosine: Option<Vec<f64>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct BaseColumns {
    surprise: Vec<f64>,
    divergence: Vec<f64>,
    same_top: Vec<bool>,
}

#[derive(Serialize, Deserialize)]
struct Document {
    schema: String,
    base: Option<String>,
    context: usize,
    models: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    file: String,
    #[serde(flatten)]
    columns: Columns,
}

impl ModelScores {
    pub(super) fn new(first_chunk: usize, chunks: usize, values: ScoreValues) -> Self {
        Self { first_chunk, chunks, values }
    }

    /// Summarizes the scores.
    pub fn measurement(&self) -> Measurement {
        match &self.values {
            ScoreValues::Positions { positions, compared } => {
                summary(positions, *compared, self.chunks)
            }
            ScoreValues::Cosines(vectors) => vectors.clone().summary(self.chunks),
        }
    }

    /// Appends the scores of the chunks that follow.
    fn append(&mut self, other: Self) -> Result<()> {
        let end = self.first_chunk + self.chunks;
        if other.first_chunk < end {
            return Err(wrong(format_args!("chunk {} is in two parts", other.first_chunk)));
        }
        if other.first_chunk > end {
            return Err(wrong(format_args!("chunk {end} is in no part")));
        }
        match (&mut self.values, other.values) {
            (
                ScoreValues::Positions { positions, compared },
                ScoreValues::Positions { positions: more, compared: also },
            ) if *compared == also => positions.extend(more),
            (ScoreValues::Cosines(vectors), ScoreValues::Cosines(more)) => vectors.append(more),
            _ => return Err(wrong("the parts have different kinds of scores")),
        }
        self.chunks += other.chunks;
        Ok(())
    }
}

impl Scores {
    /// Creates scores of named models on chunks of `context` tokens. `base` is the name of the base model.
    pub fn new(
        base: Option<String>,
        context: usize,
        models: impl IntoIterator<Item = (String, ModelScores)>,
    ) -> Self {
        Self { base, context, models: models.into_iter().collect() }
    }

    /// Parses a document. Fails for a different schema, and if its counts contradict each other.
    pub fn parse(json: &[u8]) -> Result<Self> {
        let found: Document = serde_json::from_slice(json)
            .map_err(|error| wrong(format_args!("not a document of scores: {error}")))?;
        if found.schema != SCHEMA {
            let schema = found.schema;
            return Err(wrong(format_args!("schema {schema:?}, expected {SCHEMA:?}")));
        }
        let scores = |entry: Entry| {
            let scores = ModelScores::try_from(entry.columns);
            let scores = scores
                .map_err(|message| wrong(format_args!("not a document of scores: {message}")));
            Ok((entry.file, scores?))
        };
        let models = found.models.into_iter().map(scores).collect::<Result<Vec<_>>>()?;
        Ok(Self::new(found.base, found.context, models))
    }

    /// Merges the scores of parts of a text, in any order.
    ///
    /// Fails if the parts have different models, bases or chunk lengths, if a chunk is in two parts, or if a
    /// chunk between two parts is missing.
    pub fn merge(parts: impl IntoIterator<Item = Self>) -> Result<Self> {
        let mut parts: Vec<Self> = parts.into_iter().collect();
        parts.sort_by_key(|part| part.models.first().map(|(_, scores)| scores.first_chunk));
        let mut parts = parts.into_iter();
        let mut merged = parts.next().ok_or_else(|| wrong("expected at least one part"))?;
        for part in parts {
            if (&merged.base, merged.context) != (&part.base, part.context) {
                return Err(wrong("the parts have different bases or chunk lengths"));
            }
            let names = merged.models().map(|(name, _)| name);
            if !names.eq(part.models().map(|(name, _)| name)) {
                return Err(wrong("the parts are of different models"));
            }
            for ((_, scores), (_, more)) in merged.models.iter_mut().zip(part.models) {
                scores.append(more)?;
            }
        }
        Ok(merged)
    }

    /// Returns the name of the base model.
    pub fn base(&self) -> Option<&str> {
        self.base.as_deref()
    }

    /// Returns the number of tokens per chunk.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Returns the measurements of the models, with their names, in order.
    pub fn measurements(&self) -> Vec<(&str, Measurement)> {
        self.models().map(|(name, scores)| (name, scores.measurement())).collect()
    }

    /// Returns the scores of the models, with their names, in order.
    pub fn models(&self) -> impl ExactSizeIterator<Item = (&str, &ModelScores)> {
        self.models.iter().map(|(name, scores)| (name.as_str(), scores))
    }
}

impl Serialize for Scores {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = |(file, scores): &(String, ModelScores)| Entry {
            file: file.clone(),
            columns: scores.clone().into(),
        };
        Document {
            schema: SCHEMA.to_owned(),
            base: self.base.clone(),
            context: self.context,
            models: self.models.iter().map(entry).collect(),
        }
        .serialize(serializer)
    }
}

impl From<ModelScores> for Columns {
    fn from(scores: ModelScores) -> Self {
        let (first_chunk, chunks) = (scores.first_chunk, scores.chunks);
        let none = Self { first_chunk, chunks, surprise: None, base: None, cosine: None };
        match scores.values {
            ScoreValues::Cosines(vectors) => Self { cosine: Some(vectors.into_cosines()), ..none },
            ScoreValues::Positions { positions, compared } => {
                let column =
                    |number: fn(&PositionScores) -> f64| positions.iter().map(number).collect();
                let base = compared.then(|| BaseColumns {
                    surprise: column(|position| position.base_surprise),
                    divergence: column(|position| position.divergence),
                    same_top: positions.iter().map(|position| position.same_top).collect(),
                });
                Self { surprise: Some(column(|position| position.surprise)), base, ..none }
            }
        }
    }
}

impl TryFrom<Columns> for ModelScores {
    type Error = String;

    fn try_from(found: Columns) -> Result<Self, String> {
        let (first_chunk, chunks) = (found.first_chunk, found.chunks);
        let values = match (found.surprise, found.base, found.cosine) {
            (Some(surprise), None, None) => {
                let without_base = |surprise| PositionScores::without_base(surprise);
                let positions = surprise.into_iter().map(without_base).collect();
                ScoreValues::Positions { positions, compared: false }
            }
            (Some(surprise), Some(base), None) => {
                let count = surprise.len();
                if [base.surprise.len(), base.divergence.len(), base.same_top.len()] != [count; 3] {
                    return Err("columns of different lengths".to_owned());
                }
                let of_base = base.surprise.into_iter().zip(base.divergence).zip(base.same_top);
                let positions = surprise.into_iter().zip(of_base);
                let positions =
                    positions.map(|(surprise, ((base_surprise, divergence), same_top))| {
                        PositionScores { surprise, base_surprise, divergence, same_top }
                    });
                ScoreValues::Positions { positions: positions.collect(), compared: true }
            }
            (None, None, Some(cosine)) => ScoreValues::Cosines(Cosines::of(cosine)),
            _ => return Err("expected the column surprise or cosine".to_owned()),
        };
        let count = match &values {
            ScoreValues::Positions { positions, .. } => positions.len(),
            ScoreValues::Cosines(vectors) => vectors.len(),
        };
        if count == 0 || chunks == 0 || !count.is_multiple_of(chunks) {
            return Err(format!("{count} positions in {chunks} chunks"));
        }
        if first_chunk.checked_add(chunks).is_none() {
            return Err(format!("chunk {first_chunk} is out of range"));
        }
        Ok(Self::new(first_chunk, chunks, values))
    }
}

fn wrong(message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Scores, message)
}
