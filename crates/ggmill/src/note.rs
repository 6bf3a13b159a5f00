//! Facts worth knowing about a call that succeeded.

use std::fmt;
use std::path::{Path, PathBuf};

use ggmill_core::{ByteSize, GgmlType, RawStr};
use ggmill_quantize::Goal;

use crate::display_path;

/// A fact worth knowing about a call that succeeded. [`Display`](fmt::Display) words it;
/// [`is_warning`](Self::is_warning) sorts it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// A note of the plan of a model.
    Plan(String),
    /// Weights are rounded to the chosen type; the text has the type and the reason.
    Rounded(String),
    /// A type cannot hold the small values of a tensor; the text has its name, its error and a type
    /// that would.
    Underflow(String),
    /// Copied values are NaN or infinite; the text has the name of the tensor and their number.
    CopiedNonFinite(String),
    /// The checkpoint has vision or audio encoders, which are converted separately.
    HasEncoders,
    /// Shards of an earlier set remain in the directory: this is one of them.
    StaleShards(PathBuf),
    /// Shards of the input are written as one file.
    ShardsJoined(usize),
    /// No entry of the importance matrix has this text in its name.
    UnusedFilter {
        /// The importance matrix.
        path: PathBuf,
        /// The text.
        part: String,
    },
    /// No entry of the importance matrix remains, so it has no effect.
    UnusedImportance(PathBuf),
    /// The file contains no rule `PATTERN=TYPE`.
    NoTypeRules(PathBuf),
    /// A pattern of a file of roles matches no tensor.
    UnusedRole {
        /// The file.
        path: PathBuf,
        /// The pattern.
        pattern: String,
    },
    /// A plan specifies the type of every tensor, so other options for types have no effect.
    PlanDecidesTypes,
    /// Types were chosen for a size.
    Chosen {
        /// Bits per weight of the choice.
        bits_per_weight: f64,
        /// The loss of the choice, and a lower bound for every choice of this size.
        loss: Loss,
    },
    /// The goal does not reduce the size of the model.
    GoalTooLarge {
        /// The goal.
        goal: Goal,
        /// Bits per weight of the model.
        bits_per_weight: f64,
    },
    /// The sensitivities in this file were measured with an importance matrix, but this call has none.
    SensitivitiesWithImportance(PathBuf),
    /// Tensors that are not in the computation graph keep their types.
    NotInGraph(usize),
    /// Quantizing a tensor to this type makes the output of the model not finite, so it keeps its type.
    NotFinite {
        /// The first such tensor.
        tensor: String,
        /// The type.
        ggml_type: GgmlType,
        /// The number of further tensors.
        more: usize,
    },
    /// Tensors have experts that no token of the text was routed to.
    UnusedExperts(usize),
    /// The model is run from the computation graph in its file.
    GraphInFile(PathBuf),
    /// The file could not be read in full, for this reason.
    Unreadable(PathBuf, String),
    /// The importance matrix in the file already has all chunks of the text: this many.
    NoChunkLeft(PathBuf, usize),
    /// The entry of this name was never measured, and the legacy format cannot represent it.
    UnmeasuredEntry(String),
    /// The legacy format stores the name of only one dataset, the last.
    LastDatasetOnly,
    /// No tensor was measured over a whole chunk of this many tokens, so the output has no chunks.
    NoWholeChunk(u32),
    /// A text for calibrated rounding has fewer tokens than a matrix has columns.
    ShortCalibration {
        /// The number of tokens to calibrate with.
        tokens: u64,
        /// The number of columns of the widest matrix.
        columns: u64,
    },
    /// Tensors that are rounded on a text do not use the importance matrix, which was given too.
    ImportanceForOthers,
    /// Tensors were rounded by what they compute on a text.
    Rounding {
        /// The number of these tensors.
        tensors: usize,
        /// The mean error of their results on held-out text, relative to rounding weight by
        /// weight.
        error: f64,
        /// The number of matrices in them that are rounded weight by weight, because that has the smaller
        /// error.
        plain: usize,
        /// The names of quantized tensors that were rounded weight by weight.
        others: Vec<String>,
    },
    /// The result was measured on held-out text.
    Tested {
        /// The mean KL divergence, and its standard error.
        divergence: (f64, f64),
        /// The predicted KL divergence.
        predicted: Option<f64>,
        /// The share of positions at which the most probable token is the same, from 0 to 1.
        same_top: f64,
        /// The number of positions.
        positions: u64,
    },
    /// These tensors were not compared, because they are not made from a single tensor.
    NotCompared(Vec<String>),
    /// A description of the user does not read these members of `config.json`, with their values.
    UnreadMembers(Vec<String>),
    /// The chat template of a file cannot be read, so it is not compared with those of the other files of
    /// its directory; the text has the name of the file and the reason.
    TemplateNotCompared(String),
    /// The checkpoint has no tokenizer files.
    NoTokenizer,
    /// The directory is the cached copy of a repository of this name.
    CachedCopy(String),
    /// The alignment is not a power of two, so llama.cpp rejects the file.
    OddAlignment(u32),
    /// The shards of the input were deleted: this many.
    ShardsDeleted(usize),
    /// The file is the first of this many shards, which has the metadata of the model.
    FirstShard(u64),
    /// An edit of this file was interrupted, so its content can be a mixture.
    Interrupted(PathBuf),
    /// All hashes of the list have a different file name, and are compared with those of the file.
    OtherName {
        /// The name in the list.
        listed: String,
        /// The file.
        file: String,
    },
    /// A remark about a file that the caller named.
    File(PathBuf, String),
}

/// The loss of a choice of types.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// The relative root mean square error of the weights, and a lower bound for this size.
    Weights(f64, f64),
    /// The predicted KL divergence of the output, and a lower bound for this size.
    Output(f64, f64),
}

/// The note of a plan about encoders that are not converted.
pub(crate) const HAS_ENCODERS: &str =
    "the checkpoint has vision or audio encoders; they are converted as an mmproj file";
/// The end of the note of a plan about a type that rounds weights.
pub(crate) const ROUNDS: &str = "; F32 avoids rounding";

impl Note {
    /// Converts a note in [`Plan::notes`](ggmill_pipeline::Plan::notes), which is text.
    pub fn of_plan(remark: &str) -> Self {
        match remark.strip_suffix(ROUNDS) {
            Some(chosen) => Self::Rounded(chosen.to_owned()),
            None if remark == HAS_ENCODERS => Self::HasEncoders,
            None => Self::Plan(remark.to_owned()),
        }
    }

    /// Returns the note for a file of which an edit in place was interrupted; `None` for other files.
    pub fn interrupted(path: &Path) -> Option<Self> {
        ggmill_io::pending_journal(path).map(|_| Self::Interrupted(path.to_owned()))
    }

    /// Returns `true` for a note about something probably unintended.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            Self::GoalTooLarge { .. }
                | Self::Underflow(_)
                | Self::CopiedNonFinite(_)
                | Self::SensitivitiesWithImportance(_)
                | Self::NotFinite { .. }
                | Self::UnusedExperts(_)
                | Self::UnmeasuredEntry(_)
                | Self::Unreadable(..)
                | Self::TemplateNotCompared(_)
                | Self::LastDatasetOnly
                | Self::NoTokenizer
                | Self::OddAlignment(_)
                | Self::Interrupted(_)
        )
    }

    pub(crate) fn unused_filter(path: &Path, part: &str) -> Self {
        Self::UnusedFilter { path: path.to_owned(), part: part.to_owned() }
    }
}

/// Writes the first names of tensors, and the number of the others.
fn write_names(f: &mut fmt::Formatter<'_>, names: &[String]) -> fmt::Result {
    const NAMED: usize = 3;
    let first: Vec<String> =
        names.iter().take(NAMED).map(|name| RawStr::from(&**name).to_string()).collect();
    f.write_str(&first.join(", "))?;
    match names.len().saturating_sub(NAMED) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}

impl fmt::Display for Note {
    #[expect(clippy::too_many_lines, reason = "one sentence per note")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(text) | Self::Underflow(text) | Self::CopiedNonFinite(text) => {
                f.write_str(text)
            }
            Self::Rounded(chosen) => write!(f, "{chosen}{ROUNDS}"),
            Self::HasEncoders => f.write_str(HAS_ENCODERS),
            Self::StaleShards(path) => write!(
                f,
                "{} and other shards of an earlier set are still in the same directory",
                display_path(path)
            ),
            Self::ShardsJoined(count) => write!(f, "{count} shards are written as one file"),
            Self::UnusedFilter { path, part } => write!(
                f,
                "{}: no entry has {:?} in its name",
                display_path(path),
                RawStr::from(&**part)
            ),
            Self::UnusedImportance(path) => write!(
                f,
                "{}: no entry remains, so the importance matrix has no effect",
                display_path(path)
            ),
            Self::NoTypeRules(path) => {
                write!(f, "{}: contains no PATTERN=TYPE", display_path(path))
            }
            Self::UnusedRole { path, pattern } => write!(
                f,
                "{}: the pattern {:?} matches no tensor name; patterns are case-sensitive",
                display_path(path),
                RawStr::from(&**pattern)
            ),
            Self::PlanDecidesTypes => f.write_str(
                "a plan specifies the type of every tensor, so other options for types have no \
                 effect",
            ),
            Self::Chosen { bits_per_weight, loss: Loss::Output(loss, least) } => write!(
                f,
                "chose types with {bits_per_weight:.3} bits per weight and a predicted KL \
                 divergence of {loss:.6}; no choice of this size has less than {least:.6}"
            ),
            Self::Chosen { bits_per_weight, loss: Loss::Weights(loss, least) } => {
                let [loss, least] = [loss, least].map(|loss| loss * 100.0);
                write!(
                    f,
                    "chose types with {bits_per_weight:.3} bits per weight and a relative \
                     quantization error (RMSE) of {loss:.3}%; no choice of this size has less than \
                     {least:.3}%"
                )
            }
            Self::GoalTooLarge { goal, bits_per_weight } => {
                match goal {
                    Goal::BitsPerWeight(bits) => {
                        write!(f, "{bits} bits per weight do not reduce")?;
                    }
                    Goal::Size(bytes) => {
                        write!(f, "a size of {} does not reduce", ByteSize::from(*bytes))?;
                    }
                    _ => f.write_str("the goal does not reduce")?,
                }
                write!(f, " the size of this model, which has {bits_per_weight:.3} bits per weight")
            }
            Self::SensitivitiesWithImportance(path) => write!(
                f,
                "{}: the sensitivities were measured with an importance matrix; without one the \
                 choice is worse, and so is the result",
                display_path(path)
            ),
            Self::NotInGraph(count) => {
                write!(f, "{count} tensors are not in the computation graph and keep their types")
            }
            Self::NotFinite { tensor, ggml_type, more } => {
                let tensor = RawStr::from(&**tensor);
                write!(f, "{tensor} as {ggml_type}")?;
                if *more > 0 {
                    write!(f, " (and {more} more)")?;
                }
                f.write_str(": the output of the model is not finite, so the tensor keeps its type")
            }
            Self::UnusedExperts(count) => write!(
                f,
                "{count} tensors have experts that no token of the text was routed to: a longer \
                 text may reach them"
            ),
            Self::GraphInFile(path) => {
                write!(f, "{} is run from the computation graph in the file", display_path(path))
            }
            Self::Unreadable(path, reason) => write!(f, "{}: {reason}", display_path(path)),
            Self::NoChunkLeft(path, chunks) => {
                write!(f, "{} has all {chunks} chunks already", display_path(path))
            }
            Self::UnmeasuredEntry(name) => write!(
                f,
                "entry {:?} was never measured, and the legacy format cannot represent it",
                RawStr::from(&**name)
            ),
            Self::LastDatasetOnly => {
                f.write_str("the legacy format stores the name of only one dataset, the last")
            }
            Self::NoWholeChunk(tokens) => write!(
                f,
                "no tensor was measured over a whole chunk of {tokens} tokens, so the output has 0 \
                 chunks, although an input has more"
            ),
            Self::ShortCalibration { tokens, columns } => write!(
                f,
                "the text has {tokens} tokens to calibrate with, fewer than the {columns} columns of the widest \
                 matrix: a longer text gives a better result"
            ),
            Self::ImportanceForOthers => f.write_str(
                "the importance matrix is used only for tensors that are not rounded on the text",
            ),
            Self::Rounding { tensors, error, plain, others } => {
                write!(
                    f,
                    "{tensors} tensors were rounded by what they compute on the text: the error of their \
                     results on held-out text is {:.1}% of that of rounding weight by weight",
                    error * 100.0
                )?;
                if *plain > 0 {
                    write!(
                        f,
                        "; {plain} of their matrices are rounded weight by weight nevertheless, because that has \
                         the smaller error"
                    )?;
                }
                if others.is_empty() {
                    return Ok(());
                }
                write!(f, "; {} other tensors are rounded weight by weight: ", others.len())?;
                write_names(f, others)
            }
            Self::Tested { divergence: (mean, error), predicted, same_top, positions } => {
                write!(f, "KL divergence on held-out text: {mean:.6} ± {error:.6}")?;
                if let Some(predicted) = predicted {
                    write!(f, ", {predicted:.6} was predicted")?;
                }
                write!(
                    f,
                    "; the most probable token is the same at {:.1}% of {positions} positions",
                    same_top * 100.0
                )
            }
            Self::UnreadMembers(members) => write!(
                f,
                "the description does not read these members of config.json: {}",
                members.join(", ")
            ),
            Self::NotCompared(names) => {
                f.write_str("not in the report, because they are not made from a single tensor: ")?;
                write_names(f, names)
            }
            Self::NoTokenizer => f.write_str(
                "the checkpoint has no tokenizer files, so the model cannot process text; add them \
                 (tokenizer.json or tokenizer.model, tokenizer_config.json), or omit the \
                 vocabulary",
            ),
            Self::CachedCopy(name) => {
                write!(f, "the directory is the cached copy of {name:?}, which can be the name")
            }
            Self::OddAlignment(alignment) => write!(
                f,
                "alignment {alignment} is not a power of two; llama.cpp rejects such files"
            ),
            Self::ShardsDeleted(count) => {
                write!(f, "deleted {count} shards after comparing them with the written file")
            }
            Self::FirstShard(count) => write!(
                f,
                "this is the first of {count} shards, from which readers take the metadata"
            ),
            Self::TemplateNotCompared(reason) => {
                write!(f, "{reason}; its chat template is not compared")
            }
            Self::Interrupted(path) => write!(
                f,
                "an edit of {} was interrupted; recover it to finish or undo the edit",
                display_path(path)
            ),
            Self::OtherName { listed, file } => write!(
                f,
                "all hashes in the list are of {listed:?}; they are compared with those of {file}"
            ),
            Self::File(path, remark) => write!(f, "{}: {remark}", display_path(path)),
        }
    }
}
