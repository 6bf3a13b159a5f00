//! The options of a quantization: types, roles, metadata overrides and importance.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use ggmill_core::{GgmlType, MetadataBuf, RawStr, Value, ValueType};
use regex_lite::Regex;

use crate::imatrix::Imatrix;
use crate::role::RoleRule;
use crate::sensitivity::Weighing;
use crate::target::Target;
use crate::types::{TypePlan, weight_type, weight_types};
use ggmill_pipeline::{Error, ErrorKind, Result, SPLIT_KEYS};

/// The options of a quantization.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent choices, each off by default")]
pub struct QuantizeOptions {
    /// The target type of the file.
    pub target: Target,
    /// Allows quantizing tensors that are already quantized, which loses precision.
    pub allow_requantize: bool,
    /// Keeps the type of `output.weight`.
    pub leave_output_tensor: bool,
    /// Gives every tensor the same type instead of a mixture.
    pub pure: bool,
    /// The type of `output.weight`, or of an embedding that is also the output matrix.
    pub output_tensor_type: Option<GgmlType>,
    /// The type of the token embeddings.
    pub token_embedding_type: Option<GgmlType>,
    /// Types of tensors by name. The first pattern that matches decides.
    pub tensor_types: Vec<TensorType>,
    /// Types of tensors by whole name, which take precedence over all other options. If the target
    /// is a copy, it must name every tensor.
    pub types: Option<TypePlan>,
    /// Roles of tensors with unknown names. The first rule that matches decides and includes
    /// precedence over known names.
    pub roles: Vec<RoleRule>,
    /// Layers to remove. The others are renumbered.
    pub prune_layers: BTreeSet<u64>,
    /// Metadata to set.
    pub overrides: Vec<Override>,
    /// The importance of each column of each tensor.
    pub importance: Option<Importance>,
    /// The weight of each tensor's error when types are chosen for a size.
    pub weighing: Weighing,
    /// Plans only: reasons for which a run would fail become notes instead of errors.
    pub dry_run: bool,
}

impl QuantizeOptions {
    /// Returns options with the usual mixture of `target` and without importance.
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

/// A rule that gives a type to every tensor whose name matches a pattern.
#[derive(Clone, Debug)]
pub struct TensorType {
    pattern: Regex,
    ggml_type: GgmlType,
}

impl FromStr for TensorType {
    type Err = Error;

    /// Parses `PATTERN=TYPE`. The pattern is a case-sensitive regular expression without
    /// look-around and back-references.
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
    /// Parses a list of rules separated by spaces or lines; `#` begins a comment. Errors name the line.
    pub fn parse_list(text: &str) -> Result<Vec<Self>> {
        rules_in(text, str::parse)
    }

    /// Returns the pattern as it was written.
    pub fn pattern(&self) -> &str {
        self.pattern.as_str()
    }

    /// Returns `true` if the pattern matches part of a tensor name.
    pub fn is_for(&self, name: &str) -> bool {
        self.pattern.is_match(name)
    }

    /// Returns the probably intended pattern, a similar part of one of these names, for a pattern
    /// that matches none of them.
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

    /// Returns the type of matching tensors.
    pub fn ggml_type(&self) -> GgmlType {
        self.ggml_type
    }
}

/// Parses rules separated by spaces or lines; `#` begins a comment. Errors name the line.
pub(crate) fn rules_in<T>(text: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    let mut found = Vec::new();
    for (line, number) in text.lines().zip(1u64..) {
        for word in line.split_whitespace().take_while(|word| !word.starts_with('#')) {
            found.push(parse(word).map_err(|error| error.about(format!("line {number}")))?);
        }
    }
    Ok(found)
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

    /// Parses `KEY=TYPE:VALUE` with one of the types `int`, `float` (32 bits), `bool` and `str`.
    /// Keys that identify a shard are rejected, because they are set automatically.
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

    /// Returns the text, if this sets `key` to a text.
    pub(crate) fn text_for(&self, key: &str) -> Option<&str> {
        match &self.value {
            OverrideValue::Text(text) if self.key == key => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// Sets the entry at the end of the metadata, as the reference does. Integers are written as
    /// u32 if they fit. Returns a note if the value had another kind of type, which programs may
    /// expect.
    pub(crate) fn apply(&self, metadata: &mut MetadataBuf) -> Option<String> {
        let before =
            metadata.get(&self.key).filter(|value| !self.value.has_kind_of(value)).map(|value| {
                match value.as_array() {
                    Some(array) => format!("an array ({} × {})", array.len(), array.element_type()),
                    None => format!("of type {}", value.value_type()),
                }
            });
        metadata.remove(&self.key);
        #[expect(clippy::cast_possible_truncation, reason = "the reference writes 32-bit floats")]
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
                self.value.kind()
            )
        })
    }
}

impl OverrideValue {
    fn kind(&self) -> &'static str {
        match self {
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Bool(_) => "a bool",
            Self::Text(_) => "a string",
        }
    }

    /// Returns `true` if a value has the same kind of type.
    fn has_kind_of(&self, value: &Value<'_>) -> bool {
        match self {
            Self::Integer(_) => value.as_i128().is_some(),
            Self::Float(_) => matches!(value.value_type(), ValueType::F32 | ValueType::F64),
            Self::Bool(_) => value.as_bool().is_some(),
            Self::Text(_) => value.as_raw_str().is_some(),
        }
    }
}

/// The importance weights of a quantization by tensor, with the metadata that records their origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Importance {
    weights: BTreeMap<Vec<u8>, Vec<f32>>,
    /// The names of entries that the filter excluded.
    left_out: BTreeSet<Vec<u8>>,
    origin: Vec<Override>,
}

/// Selects entries of an importance matrix by parts of their tensor names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportanceFilter {
    /// All entries.
    #[default]
    All,
    /// Entries whose name contains one of these parts.
    Include(Vec<String>),
    /// Entries whose name contains none of these parts.
    Exclude(Vec<String>),
}

impl ImportanceFilter {
    fn includes(&self, name: &[u8]) -> bool {
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
    /// Returns the weights of a matrix, or `None` if the filter excludes all entries. `file` is the
    /// file name to record in the metadata, if the matrix was read from a file.
    pub fn new(imatrix: &Imatrix, file: Option<&str>, filter: &ImportanceFilter) -> Option<Self> {
        let (taken, others): (Vec<_>, Vec<_>) =
            imatrix.entries().partition(|(name, _)| filter.includes(name.as_bytes()));
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

    /// Returns the weights of a tensor: one for each column of each of its matrices.
    pub fn weights(&self, name: &[u8]) -> Option<&[f32]> {
        self.weights.get(name).map(Vec::as_slice)
    }

    /// Returns the names of the tensors that have weights.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.weights.keys().map(Vec::as_slice)
    }

    /// Returns `true` if the filter excluded the weights of a tensor.
    pub(crate) fn leaves_out(&self, name: &[u8]) -> bool {
        self.left_out.contains(name)
    }

    pub(crate) fn origin(&self) -> &[Override] {
        &self.origin
    }
}
