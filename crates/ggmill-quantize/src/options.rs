//! The options of a quantization.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use ggmill_core::{GgmlType, MetadataBuf, RawStr, Value, ValueType};
use regex_lite::Regex;

use crate::imatrix::Imatrix;
use crate::role::RoleRule;
use crate::rule_list::rules_in;
use crate::sensitivity::Weighing;
use crate::target::Target;
use crate::types::TypePlan;
use crate::weight_types::{weight_type, weight_types};
use ggmill_pipeline::{Error, ErrorKind, Result, SPLIT_KEYS};

/// The options of a quantization.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent choices, each off by default")]
pub struct QuantizeOptions {
    /// The target type of the file.
    pub target: Target,
    /// Lets tensors that are quantized already be quantized again, at a loss.
    pub allow_requantize: bool,
    /// Keeps `output.weight` as it is.
    pub leave_output_tensor: bool,
    /// Gives every tensor the same type instead of a mixture.
    pub pure: bool,
    /// The type of `output.weight`, and of an embedding that serves as it.
    pub output_tensor_type: Option<GgmlType>,
    /// The type of the token embeddings.
    pub token_embedding_type: Option<GgmlType>,
    /// Types for tensors by their names; the first pattern that is found in a name decides.
    pub tensor_types: Vec<TensorType>,
    /// Types for tensors by their whole names, before everything else. Where the target is a copy
    /// it names every tensor.
    pub types: Option<TypePlan>,
    /// Roles of tensors with unknown names; the first rule whose pattern is found in a name
    /// decides, before the names that are known.
    pub roles: Vec<RoleRule>,
    /// Layers to leave out; the others are renumbered.
    pub prune_layers: BTreeSet<u64>,
    /// Metadata to set.
    pub overrides: Vec<Override>,
    /// How much each column of each tensor matters.
    pub importance: Option<Importance>,
    /// How much an error of each tensor counts when types are chosen for a size.
    pub weighing: Weighing,
    /// Only asks what the file would be: what a run would refuse becomes a note.
    pub dry_run: bool,
}

impl QuantizeOptions {
    /// A plain quantization, without importance and with the usual mixture.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            allow_requantize: false,
            leave_output_tensor: false,
            pure: false,
            output_tensor_type: None,
            token_embedding_type: None,
            tensor_types: Vec::new(),
            types: None,
            roles: Vec::new(),
            prune_layers: BTreeSet::new(),
            overrides: Vec::new(),
            importance: None,
            weighing: Weighing::default(),
            dry_run: false,
        }
    }
}

/// A type for every tensor whose name a pattern is found in.
#[derive(Clone, Debug)]
pub struct TensorType {
    pattern: Regex,
    ggml_type: GgmlType,
}

impl FromStr for TensorType {
    type Err = Error;

    /// Reads `PATTERN=TYPE`. The pattern is a regular expression in its usual syntax, without
    /// look-around and back-references; its case matters.
    ///
    /// ```
    /// use ggmill_quantize::TensorType;
    /// assert!(r"blk\.[0-3]\.ffn_down=q6_k".parse::<TensorType>().is_ok());
    /// let error = "ffn_down=q9".parse::<TensorType>().err().ok_or("an error")?;
    /// assert!(error.to_string().starts_with(r#""ffn_down=q9": "q9" is not a tensor type for weights, expected one of F32, F16, "#));
    /// # Ok::<(), &str>(())
    /// ```
    fn from_str(text: &str) -> Result<Self> {
        let wrong = |message: String| {
            Error::new(ErrorKind::Misuse, format!("{:?}: {message}", RawStr::from(text)))
        };
        let (pattern, name) =
            text.split_once('=').ok_or_else(|| wrong("expected PATTERN=TYPE".to_owned()))?;
        if pattern.is_empty() {
            return Err(wrong("has no pattern".to_owned()));
        }
        let all =
            || weight_types().map(|ggml_type| ggml_type.to_string()).collect::<Vec<_>>().join(", ");
        let ggml_type = weight_type(name).ok_or_else(|| {
            wrong(format!(
                "{:?} is not a tensor type for weights, expected one of {}",
                RawStr::from(name),
                all()
            ))
        })?;
        let pattern = Regex::new(pattern)
            .map_err(|error| wrong(format!("the pattern is invalid: {error}")))?;
        Ok(Self { pattern, ggml_type })
    }
}

impl TensorType {
    /// Reads a list of them, separated by spaces or lines. An error says which line it is in.
    pub fn parse_list(text: &str) -> Result<Vec<Self>> {
        rules_in(text, str::parse)
    }

    /// The pattern, as it was written.
    pub fn pattern(&self) -> &str {
        self.pattern.as_str()
    }

    /// Whether the pattern is found in the name of a tensor.
    pub fn is_for(&self, name: &str) -> bool {
        self.pattern.is_match(name)
    }

    /// The probably intended pattern if it matches none of these names: a similar part of one of
    /// them.
    ///
    /// ```
    /// use ggmill_quantize::TensorType;
    /// let rule: TensorType = r"blk\.0\.atn_v=q6_k".parse()?;
    /// assert_eq!(rule.meant(["blk.0.attn_v.weight"]).as_deref(), Some("blk.0.attn_v"));
    /// # Ok::<(), ggmill_pipeline::Error>(())
    /// ```
    pub fn meant<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Option<String> {
        let plain = self.pattern().replace("\\.", ".");
        let plain = plain.trim_matches(['^', '$', '*', '.']);
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        plain.chars().all(is_plain).then(|| ggmill_arch::near_part(plain, names)).flatten()
    }

    /// The type for the tensors it is for.
    pub fn ggml_type(&self) -> GgmlType {
        self.ggml_type
    }
}

/// A metadata entry to set.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    key: String,
    value: OverrideValue,
}

#[derive(Clone, Debug, PartialEq)]
enum OverrideValue {
    Integer(i64),
    Float(f64),
    Bool(bool),
    Text(Vec<u8>),
}

impl FromStr for Override {
    type Err = Error;

    /// Reads `KEY=TYPE:VALUE` with one of the types `int`, `float`, `bool` and `str`. Floats are of
    /// 32 bits. The keys that say which shard a file is are set by what is written, and
    /// refused.
    ///
    /// ```
    /// use ggmill_quantize::Override;
    /// assert!("llama.expert_used_count=int:3".parse::<Override>().is_ok());
    /// assert!("general.name=str:a=b:c".parse::<Override>().is_ok());
    /// assert!("tokenizer.ggml.add_bos_token=bool:yes".parse::<Override>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self> {
        let wrong = |message: &str| {
            Error::new(ErrorKind::Misuse, format!("{:?}: {message}", RawStr::from(text)))
        };
        let parts = text.split_once('=').and_then(|(key, rest)| Some((key, rest.split_once(':')?)));
        let (key, (kind, value)) = parts
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| wrong("expected KEY=TYPE:VALUE"))?;
        if SPLIT_KEYS.contains(&key) {
            return Err(wrong("identifies a shard, and is set automatically"));
        }
        let value = match kind {
            "int" => value
                .parse()
                .map(OverrideValue::Integer)
                .map_err(|_| wrong("the value is not an integer"))?,
            "float" => match value.parse::<f64>() {
                Err(_) => return Err(wrong("the value is not a number")),
                Ok(value) if value.abs() <= f64::from(f32::MAX) => OverrideValue::Float(value),
                Ok(_) => return Err(wrong("the value is not a finite 32-bit number")),
            },
            "bool" => value
                .parse()
                .map(OverrideValue::Bool)
                .map_err(|_| wrong("expected true or false"))?,
            "str" => OverrideValue::Text(value.as_bytes().to_vec()),
            _ => return Err(wrong("expected one of the types int, float, bool, str")),
        };
        Ok(Self { key: key.to_owned(), value })
    }
}

impl Override {
    fn new(key: &str, value: OverrideValue) -> Self {
        Self { key: key.to_owned(), value }
    }

    /// The text it sets a key to, where this is the key.
    pub(crate) fn text_for(&self, key: &str) -> Option<&str> {
        match &self.value {
            OverrideValue::Text(text) if self.key == key => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// Sets the entry at the end of the metadata, where the reference puts what it sets. Integers
    /// are written as u32 where they fit. Says so where a value of another sort was there,
    /// which programs may ask for.
    pub(crate) fn apply(&self, metadata: &mut MetadataBuf) -> Option<String> {
        let before =
            metadata.get(&self.key).filter(|value| !self.value.is_like(value)).map(|value| {
                match value.as_array() {
                    Some(array) => format!("an array ({} × {})", array.len(), array.element_type()),
                    None => format!("of type {}", value.value_type()),
                }
            });
        metadata.remove(&self.key);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the reference writes floats of 32 bits"
        )]
        match &self.value {
            OverrideValue::Integer(value) => match u32::try_from(*value) {
                Ok(value) => metadata.set(&self.key, value),
                Err(_) => metadata.set(&self.key, *value),
            },
            OverrideValue::Float(value) => metadata.set(&self.key, *value as f32),
            OverrideValue::Bool(value) => metadata.set(&self.key, *value),
            OverrideValue::Text(value) => metadata.set(&self.key, RawStr::new(value)),
        }
        before.map(|before| {
            format!(
                "key {:?} was {before} and is now {}; programs may reject that",
                RawStr::from(&*self.key),
                self.value.sort()
            )
        })
    }
}

impl OverrideValue {
    fn sort(&self) -> &'static str {
        match self {
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Bool(_) => "a bool",
            Self::Text(_) => "a string",
        }
    }

    /// Whether a value is of the same sort.
    fn is_like(&self, value: &Value<'_>) -> bool {
        match self {
            Self::Integer(_) => value.as_i128().is_some(),
            Self::Float(_) => matches!(value.value_type(), ValueType::F32 | ValueType::F64),
            Self::Bool(_) => value.as_bool().is_some(),
            Self::Text(_) => value.as_raw_str().is_some(),
        }
    }
}

/// Importance weights made ready for a quantization: by tensor, with the metadata that say where
/// they come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Importance {
    weights: BTreeMap<Vec<u8>, Vec<f32>>,
    /// Entries that the filter did not take.
    left_out: BTreeSet<Vec<u8>>,
    origin: Vec<Override>,
}

/// Which entries of an importance matrix are used, by parts of the names of their tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportanceFilter {
    /// All of them.
    #[default]
    All,
    /// Those with one of these parts.
    Include(Vec<String>),
    /// Those with none of these parts.
    Exclude(Vec<String>),
}

impl ImportanceFilter {
    fn takes(&self, name: &[u8]) -> bool {
        let has = |part: &String| {
            part.is_empty() || name.windows(part.len()).any(|window| window == part.as_bytes())
        };
        match self {
            Self::All => true,
            Self::Include(parts) => parts.iter().any(has),
            Self::Exclude(parts) => !parts.iter().any(has),
        }
    }
}

impl Importance {
    /// The weights of a matrix, or `None` when the filter leaves none. `file` is what the metadata
    /// will say it was read from, where it was read from a file.
    pub fn new(imatrix: &Imatrix, file: Option<&str>, filter: &ImportanceFilter) -> Option<Self> {
        let (taken, others): (Vec<_>, Vec<_>) =
            imatrix.entries().partition(|(name, _)| filter.takes(name.as_bytes()));
        let weights: BTreeMap<_, _> = taken
            .into_iter()
            .map(|(name, entry)| (name.as_bytes().to_vec(), entry.weights()))
            .collect();
        let left_out = others.into_iter().map(|(name, _)| name.as_bytes().to_vec()).collect();
        if weights.is_empty() {
            return None;
        }
        let text = |text: &[u8]| OverrideValue::Text(text.to_vec());
        let mut origin = Vec::new();
        if let Some(file) = file {
            origin.push(Override::new("quantize.imatrix.file", text(file.as_bytes())));
        }
        if let Some(name) = imatrix.datasets().next() {
            origin.push(Override::new("quantize.imatrix.dataset", text(name.as_bytes())));
        }
        let entries = i64::try_from(weights.len()).unwrap_or(i64::MAX);
        origin
            .push(Override::new("quantize.imatrix.entries_count", OverrideValue::Integer(entries)));
        if imatrix.chunk_count() > 0 {
            origin.push(Override::new(
                "quantize.imatrix.chunks_count",
                OverrideValue::Integer(imatrix.chunk_count().into()),
            ));
        }
        Some(Self { weights, left_out, origin })
    }

    pub(crate) fn weights(&self, name: &[u8]) -> Option<&[f32]> {
        self.weights.get(name).map(Vec::as_slice)
    }

    /// The tensors that there are weights for, by name.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.weights.keys().map(Vec::as_slice)
    }

    /// Whether there are weights for a tensor that the filter did not take.
    pub(crate) fn leaves_out(&self, name: &[u8]) -> bool {
        self.left_out.contains(name)
    }

    pub(crate) fn origin(&self) -> &[Override] {
        &self.origin
    }
}
