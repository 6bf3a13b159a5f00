//! The TOML schema of descriptions, before they are checked.

use core::fmt;
use core::marker::PhantomData;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::data::coded::{Coded, Input, Output, coded, coded_enum};

/// Returns `true` if the text is a valid name of a hyperparameter or loop variable.
pub(crate) fn is_name(text: &str) -> bool {
    const WORDS: [&str; 7] = ["and", "or", "not", "in", "true", "false", "none"];
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && text.len() <= 64
        && !WORDS.contains(&text)
}

/// The schema name that every description has.
pub(crate) const SCHEMA: &str = "ggmill.architecture/1";

/// Defines a description and a part, which share these fields. The fields about checkpoints are encoded
/// last.
macro_rules! description_and_part {
    (
        { $($(#[$doc:meta])* $field:ident: $type:ty,)* }
        of checkpoints { $($(#[$doc_of:meta])* $of:ident: $type_of:ty,)* }
    ) => {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct RawArchitecture {
            pub(crate) schema: String,
            pub(crate) name: String,
            pub(crate) title: String,
            #[serde(default)]
            pub(crate) loader: Option<String>,
            /// The reason why the architecture has no computation graph.
            #[serde(default)]
            pub(crate) without_graph: Option<String>,
            /// The source of the computation graphs.
            #[serde(default)]
            pub(crate) computation: Option<String>,
            #[serde(default)]
            pub(crate) include: Vec<String>,
            /// Names of hyperparameters, keys and tensors of included parts to remove.
            #[serde(default)]
            pub(crate) drop: Vec<String>,
            /// Changes of tensors of included parts, field by field. The tensors keep their places.
            #[serde(default)]
            pub(crate) change: Ordered<RawTensor>,
            #[serde(default)]
            pub(crate) checkpoint: Vec<RawCheckpoint>,
            /// The supported values of `quantization_config.quant_method`.
            #[serde(default)]
            pub(crate) quantized: Option<Vec<String>>,
            /// Metadata of a small model, from which the check of the graph starts.
            #[serde(default)]
            pub(crate) example: Ordered<RawExpression>,
            $($(#[$doc])* #[serde(default)] pub(crate) $field: $type,)*
            $($(#[$doc_of])* #[serde(default)] pub(crate) $of: $type_of,)*
        }

        /// A part that several descriptions include.
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct RawPart {
            pub(crate) schema: String,
            $($(#[$doc])* #[serde(default)] pub(crate) $field: $type,)*
            $($(#[$doc_of])* #[serde(default)] pub(crate) $of: $type_of,)*
        }

        coded! {
            RawArchitecture { schema, name, title, loader, without_graph, computation, include, drop, change, $($field,)* }
            of checkpoints { checkpoint, quantized, example, $($of,)* }
        }
        coded! { RawPart { schema, $($field,)* } of checkpoints { $($of,)* } }

        impl RawArchitecture {
            /// Moves the fields that a part has out of the description.
            pub(crate) fn take_part(&mut self) -> RawPart {
                RawPart {
                    schema: String::new(),
                    $($field: core::mem::take(&mut self.$field),)*
                    $($of: core::mem::take(&mut self.$of),)*
                }
            }

            /// Sets the fields that a part has.
            pub(crate) fn set_part(&mut self, part: RawPart) {
                $(self.$field = part.$field;)*
                $(self.$of = part.$of;)*
            }
        }
    };
}

description_and_part! {
    {
        parameters: Ordered<RawParameter>,
        keys: Ordered<RawKey>,
        /// The keys that a conversion writes, in order. All other keys occur only in existing files.
        order: Option<Vec<String>>,
        tensors: Vec<RawGroup>,
        /// The state that a model keeps between tokens.
        memory: Option<RawMemory>,
        contradiction: Vec<RawRemark>,
    }
    of checkpoints {
        ignore: Vec<RawIgnore>,
        /// Patterns of the only tensors of a checkpoint that are needed.
        only: Vec<String>,
        zeros: Vec<String>,
        rename: Vec<RawRename>,
        vocabulary: Option<RawVocabulary>,
        refuse: Vec<RawRemark>,
        warn: Vec<RawRemark>,
        assume: Vec<RawAssumption>,
    }
}

/// Removes the parts of hyperparameters and keys that only conversions use: defaults of hyperparameters
/// with `in_file`, and values of keys, except names of hyperparameters, which are read back from the
/// key.
#[allow(dead_code, reason = "the build script does it, where checkpoints are omitted")]
pub(crate) fn keep_what_files_need(
    parameters: &mut Ordered<RawParameter>,
    keys: &mut Ordered<RawKey>,
) {
    for (_, parameter) in &mut parameters.0 {
        if parameter.in_file.is_some() {
            parameter.default = None;
        }
    }
    for (_, key) in &mut keys.0 {
        let is_read_back =
            |value: &RawExpression| matches!(value, RawExpression::Text(text) if is_name(text));
        // A placeholder remains, so that it still replaces the value in a part.
        if key.value.as_ref().is_some_and(|value| !is_read_back(value)) {
            key.value = Some(RawExpression::Bool(true));
        }
    }
}

/// A replacement in every tensor name of a checkpoint; only at the end of names if `find` begins with
/// `*`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRename {
    pub(crate) find: String,
    pub(crate) with: String,
    #[serde(default)]
    pub(crate) r#for: Option<String>,
    #[serde(default)]
    pub(crate) when: Option<RawExpression>,
    /// If true, all checkpoints have the replaced text.
    #[serde(default)]
    pub(crate) always: bool,
}

/// Known tensors of a checkpoint that are not needed.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a pattern, or a table with names and when")]
pub(crate) enum RawIgnore {
    Pattern(String),
    Table(RawIgnoreTable),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawIgnoreTable {
    pub(crate) names: Vec<String>,
    pub(crate) when: RawExpression,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCheckpoint {
    pub(crate) classes: Vec<String>,
    #[serde(default)]
    pub(crate) model_types: Vec<String>,
    /// If true, the defaults of the configuration class in the `transformers` library apply.
    #[serde(default)]
    pub(crate) class_defaults: Option<bool>,
    /// A path in `config.json` that identifies this kind if no class is named.
    #[serde(default)]
    pub(crate) marker: Option<String>,
    /// If true, the class of the whole model identifies the kind, although a part of it names another
    /// class.
    #[serde(default)]
    pub(crate) whole: bool,
    /// If true, the names in its checkpoints omit all optional pieces.
    #[serde(default)]
    pub(crate) bare: bool,
    #[serde(default)]
    pub(crate) when: Option<RawExpression>,
    /// A condition that most of its checkpoints meet.
    #[serde(default)]
    pub(crate) typical: Option<RawExpression>,
    #[serde(default)]
    pub(crate) defaults: Ordered<RawExpression>,
    #[serde(default)]
    pub(crate) vocabulary: Option<RawVocabulary>,
}

/// A definition that later parts can override field by field.
pub(crate) trait Merge {
    /// Overrides the fields that `later` sets.
    fn merge(&mut self, later: Self);
}

macro_rules! definition {
    (
        $(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)* }
        $(of checkpoints { $($(#[$doc_of:meta])* $of:ident: $type_of:ty,)* })?
    ) => {
        $(#[$about])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct $name {
            $($(#[$doc])* pub(crate) $field: Option<$type>,)*
            $($($(#[$doc_of])* pub(crate) $of: Option<$type_of>,)*)?
        }

        coded! { $name { $($field,)* } $(of checkpoints { $($of,)* })? }

        impl Merge for $name {
            fn merge(&mut self, later: Self) {
                $(if later.$field.is_some() { self.$field = later.$field; })*
                $($(if later.$of.is_some() { self.$of = later.$of; })*)?
            }
        }
    };
}

definition! {
    /// A hyperparameter.
    RawParameter {
        r#type: String,
        keys: Vec<String>,
        default: RawExpression,
        in_file: RawExpression,
        optional: bool,
    }
    of checkpoints {
        from: Vec<String>,
        restored: RawExpression,
    }
}

definition! {
    /// A metadata key.
    RawKey {
        r#type: String,
        value: RawExpression,
        optional: bool,
        required: RawRequired,
        when: RawExpression,
        stage: RawStage,
        /// The name is the whole key.
        absolute: bool,
    }
}

definition! {
    /// A tensor of a file.
    RawTensor {
        shape: Vec<RawExpression>,
        role: String,
        compute: String,
        required: RawExpression,
        when: RawExpression,
        tied: String,
        unless: String,
        keep_f32: RawExpression,
        r#type: String,
        together: String,
        /// If true, the tensor may have any shape in existing files.
        free_shape: bool,
        /// If true, the tensor may be larger in the last dimension in existing files.
        more_rows: bool,
    }
    of checkpoints {
        from: Vec<RawSource>,
        operations: Vec<String>,
        /// The shape of each checkpoint tensor that it is computed from.
        from_shape: Vec<RawExpression>,
        drop_if_equal: String,
    }
}

definition! {
    /// Keys and values that some blocks keep per token.
    RawCache {
        blocks: RawExpression,
        when: RawExpression,
        keys: RawExpression,
        values: RawExpression,
        longest_values: RawExpression,
        window: RawExpression,
        tokens_per_cell: RawExpression,
        separate: bool,
    }
}

definition! {
    /// State that some blocks keep per sequence.
    RawState {
        blocks: RawExpression,
        when: RawExpression,
        elements: RawExpression,
    }
}

definition! {
    /// Decisions of llama.cpp that the computation graph does not determine.
    RawBuild {
        rows: String,
        gives_rows: bool,
        sums: Vec<String>,
        uncached: bool,
        positions: RawExpression,
        images: RawExpression,
        images_behind: RawExpression,
        source: RawExpression,
    }
}

/// State that a model keeps between tokens, and the weights that are loaded.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawMemory {
    pub(crate) loaded: Option<RawExpression>,
    pub(crate) weights_of: Option<RawExpression>,
    pub(crate) skipped: Option<Vec<String>>,
    pub(crate) loaded_beyond: Option<Vec<String>>,
    pub(crate) copies_embedding: Option<bool>,
    pub(crate) copies_output: Option<bool>,
    pub(crate) with_first: Option<Vec<String>>,
    pub(crate) with_blocks: Option<Vec<String>>,
    pub(crate) with_blocks_when: Option<RawExpression>,
    pub(crate) flash_attention: Option<bool>,
    pub(crate) one_type: Option<RawExpression>,
    pub(crate) computed: Option<RawExpression>,
    pub(crate) host_only: Option<RawExpression>,
    pub(crate) parameters: Ordered<RawParameter>,
    pub(crate) cache: Ordered<RawCache>,
    pub(crate) state: Ordered<RawState>,
    pub(crate) compute: Vec<RawSteps>,
    pub(crate) build: RawBuild,
}

impl RawMemory {
    /// Overrides the fields that `later` sets.
    pub(crate) fn merge(&mut self, later: Self) {
        self.loaded = later.loaded.or(self.loaded.take());
        self.weights_of = later.weights_of.or(self.weights_of.take());
        self.skipped = later.skipped.or(self.skipped.take());
        self.loaded_beyond = later.loaded_beyond.or(self.loaded_beyond.take());
        self.copies_embedding = later.copies_embedding.or(self.copies_embedding);
        self.copies_output = later.copies_output.or(self.copies_output);
        self.with_first = later.with_first.or(self.with_first.take());
        self.with_blocks = later.with_blocks.or(self.with_blocks.take());
        self.with_blocks_when = later.with_blocks_when.or(self.with_blocks_when.take());
        self.flash_attention = later.flash_attention.or(self.flash_attention);
        self.one_type = later.one_type.or(self.one_type.take());
        self.computed = later.computed.or(self.computed.take());
        self.host_only = later.host_only.or(self.host_only.take());
        self.parameters.merge(later.parameters);
        self.cache.merge(later.cache);
        self.state.merge(later.state);
        self.compute.extend(later.compute);
        self.build.merge(later.build);
    }
}

/// The stage of a conversion in which a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawStage {
    /// Before `general.type`.
    Early,
    /// With the hyperparameters.
    Model,
    /// Not by conversions: only other programs write the key.
    Never,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawVocabulary {
    pub(crate) kinds: Vec<String>,
    #[serde(default)]
    pub(crate) space_prefix: RawSpacePrefix,
    #[serde(default)]
    pub(crate) size: Option<RawExpression>,
    #[serde(default)]
    pub(crate) pre: Option<String>,
    #[serde(default)]
    pub(crate) builtin: Option<String>,
    #[serde(default)]
    pub(crate) template: RawTemplate,
    #[serde(default)]
    pub(crate) builtin_template: Option<String>,
    #[serde(default)]
    pub(crate) added_tokens: RawAddedTokens,
    #[serde(default)]
    pub(crate) control: Vec<String>,
    #[serde(default)]
    pub(crate) user_defined: Vec<String>,
    #[serde(default)]
    pub(crate) special_tokens: Ordered<RawToken>,
    #[serde(default)]
    pub(crate) special_tokens_if_none: Ordered<RawToken>,
    #[serde(default)]
    pub(crate) replaced_special_tokens: Ordered<RawToken>,
    #[serde(default)]
    pub(crate) last_special_tokens: Ordered<RawToken>,
    #[serde(default)]
    pub(crate) pieces: RawPieces,
    #[serde(default)]
    pub(crate) ranks: Option<RawRanks>,
    #[serde(default)]
    pub(crate) keys_before: Ordered<RawKey>,
    #[serde(default)]
    pub(crate) keys: Ordered<RawKey>,
    #[serde(default)]
    pub(crate) by_kind: Ordered<RawVocabularyKind>,
}

/// The stage in which `add_prefix_space` is written as a key; `true` is before the vocabulary.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "expected true, false, \"after-tokens\" or \"last\"")]
pub(crate) enum RawSpacePrefix {
    Flag(bool),
    Place(RawSpacePrefixPlace),
}

impl Default for RawSpacePrefix {
    fn default() -> Self {
        Self::Flag(false)
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawSpacePrefixPlace {
    AfterTokens,
    Last,
}

/// The precedence of a chat template file and the template in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawTemplate {
    #[default]
    ConfigFirst,
    FileFirst,
    FileOnly,
}

/// The conversion of texts and types of added tokens.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawAddedTokens {
    #[default]
    Normalized,
    Decoded,
    Plain,
}

/// A token: its ID or its text.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected the text or the ID of a token")]
pub(crate) enum RawToken {
    Id(u32),
    Text(String),
}

/// Special rules for the pieces of a SentencePiece model.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPieces {
    #[serde(default)]
    pub(crate) added: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) appended: bool,
    #[serde(default)]
    pub(crate) added_score: Option<f32>,
    #[serde(default)]
    pub(crate) special_score: Option<f32>,
    #[serde(default)]
    pub(crate) unused_prefix: Option<String>,
    #[serde(default)]
    pub(crate) nul: Option<String>,
    #[serde(default)]
    pub(crate) dummy_prefix: bool,
    #[serde(default)]
    pub(crate) mask: Option<u32>,
}

/// A vocabulary in a rank file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRanks {
    pub(crate) file: String,
    #[serde(default)]
    pub(crate) special: Vec<String>,
    #[serde(default)]
    pub(crate) reserved: Option<String>,
    #[serde(default)]
    pub(crate) reserved_count: u32,
    #[serde(default)]
    pub(crate) all_merges: bool,
}

/// Special rules for one kind of vocabulary.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawVocabularyKind {
    #[serde(default)]
    pub(crate) when: Option<RawExpression>,
    #[serde(default)]
    pub(crate) tokenizer_classes: Vec<String>,
    #[serde(default)]
    pub(crate) keys_before: Ordered<RawKey>,
    #[serde(default)]
    pub(crate) keys: Ordered<RawKey>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawGroup {
    #[serde(default)]
    pub(crate) r#for: Option<String>,
    #[serde(default)]
    pub(crate) when: Option<RawExpression>,
    pub(crate) tensor: Ordered<RawTensor>,
}

/// Steps of the compute buffer that share a loop and a condition.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSteps {
    #[serde(default)]
    pub(crate) r#for: Option<String>,
    #[serde(default)]
    pub(crate) when: Option<RawExpression>,
    #[serde(default)]
    pub(crate) steps: Vec<String>,
}

/// The program or document that requires a key of a file.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawRequired {
    Loader,
    Specification,
    /// Nothing requires the key: overrides a part.
    None,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a name, or a table with name or names and, where needed, for and \
                 operations"
)]
pub(crate) enum RawSource {
    Name(String),
    Table(RawSourceTable),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are written")]
pub(crate) struct RawSourceTable {
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) names: Vec<String>,
    #[serde(default)]
    pub(crate) r#for: Option<String>,
    #[serde(default)]
    pub(crate) operations: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) when: Option<RawExpression>,
    #[serde(default)]
    pub(crate) parts: Vec<RawSource>,
    /// If true, the tensor is written before all others.
    #[serde(default)]
    pub(crate) first: bool,
    /// If true, the tensor is written after all others.
    #[serde(default)]
    pub(crate) last: bool,
    /// The shape of each tensor in the checkpoint.
    #[serde(default)]
    pub(crate) shape: Vec<RawExpression>,
    /// If true, the elements outside its slices are unused, and are zeros when converting back.
    #[serde(default)]
    pub(crate) zero_rest: bool,
    /// If true, the elements outside its slices repeat those inside.
    #[serde(default)]
    pub(crate) same_rest: bool,
    /// If it holds, converting back prefers this alternative.
    #[serde(default)]
    pub(crate) preferred: Option<RawExpression>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRemark {
    pub(crate) when: String,
    pub(crate) because: String,
}

/// A setting of a checkpoint that programs do not read from the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawAssumption {
    /// The hyperparameter that reads it, or its path in `config.json`.
    pub(crate) setting: String,
    /// A condition that holds if it has another value than the assumed one.
    pub(crate) when: String,
    /// The assumed value, in words or as JSON.
    pub(crate) assumed: String,
    /// The number of tokens up to which the value makes no difference.
    #[serde(default)]
    pub(crate) exact_tokens: Option<String>,
}

/// An expression, or a plain number or bool, which needs no quotes.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected an expression in quotes, a number, true or false")]
pub(crate) enum RawExpression {
    Text(String),
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl RawExpression {
    /// Returns the expression as text; plain values are formatted.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => format!("{value:?}"),
        }
    }
}

/// A table that keeps the order of the file.
#[derive(Debug)]
pub(crate) struct Ordered<T>(pub(crate) Vec<(String, T)>);

impl<T> Ordered<T> {
    /// Returns the entry with this name.
    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        self.0.iter_mut().find(|(known, _)| known == name).map(|(_, entry)| entry)
    }

    /// Removes the entry with this name and returns it.
    pub(crate) fn remove(&mut self, name: &str) -> Option<T> {
        let index = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(index).1)
    }
}

impl<T: Merge> Ordered<T> {
    /// Merges entries with the same name, and appends the others.
    pub(crate) fn merge(&mut self, later: Self) {
        let mut places: BTreeMap<String, usize> =
            self.0.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
        for (name, entry) in later.0 {
            if let Some((_, known)) = places.get(&name).and_then(|&place| self.0.get_mut(place)) {
                known.merge(entry);
            } else {
                places.insert(name.clone(), self.0.len());
                self.0.push((name, entry));
            }
        }
    }

    /// Fills the unset fields of entries that `earlier` also has, and removes these from `earlier`.
    pub(crate) fn complete(&mut self, earlier: &mut BTreeMap<String, T>) {
        for (name, entry) in &mut self.0 {
            if let Some(mut known) = earlier.remove(name) {
                core::mem::swap(&mut known, entry);
                entry.merge(known);
            }
        }
    }
}

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

impl<T: Coded> Coded for Ordered<T> {
    fn decode(input: &mut Input<'_>) -> Self {
        Self(Coded::decode(input))
    }

    fn encode(&self, out: &mut Output<'_>) {
        self.0.encode(out);
    }
}

coded! { RawRename { find, with, r#for, when, always } }
coded! { RawIgnoreTable { names, when } }
coded! { RawCheckpoint { classes, model_types, class_defaults, marker, whole, bare, when, typical, defaults, vocabulary } }
coded! { RawMemory { loaded, weights_of, skipped, loaded_beyond, copies_embedding, copies_output, with_first, with_blocks, with_blocks_when, flash_attention, one_type, computed, host_only, parameters, cache, state, compute, build } }
coded! { RawVocabulary { kinds, space_prefix, size, pre, builtin, template, builtin_template, added_tokens, control, user_defined, special_tokens, special_tokens_if_none, replaced_special_tokens, last_special_tokens, pieces, ranks, keys_before, keys, by_kind } }
coded! { RawPieces { added, appended, added_score, special_score, unused_prefix, nul, dummy_prefix, mask } }
coded! { RawRanks { file, special, reserved, reserved_count, all_merges } }
coded! { RawVocabularyKind { when, tokenizer_classes, keys_before, keys } }
coded! { RawGroup { r#for, when, tensor } }
coded! { RawSteps { r#for, when, steps } }
coded! { RawSourceTable { name, names, r#for, operations, when, parts, first, last, shape, zero_rest, same_rest, preferred } }
coded! { RawRemark { when, because } }
coded! { RawAssumption { setting, when, assumed, exact_tokens } }
coded_enum! { RawIgnore { Pattern(pattern), 1 => Table(table) } }
coded_enum! { RawStage { Early, 1 => Model, 2 => Never } }
coded_enum! { RawSpacePrefix { Flag(flag), 1 => Place(place) } }
coded_enum! { RawSpacePrefixPlace { AfterTokens, 1 => Last } }
coded_enum! { RawTemplate { ConfigFirst, 1 => FileFirst, 2 => FileOnly } }
coded_enum! { RawAddedTokens { Normalized, 1 => Decoded, 2 => Plain } }
coded_enum! { RawToken { Id(id), 1 => Text(text) } }
coded_enum! { RawRequired { Loader, 1 => Specification, 2 => None } }
coded_enum! { RawSource { Name(name), 1 => Table(table) } }
coded_enum! { RawExpression { Text(text), 1 => Bool(value), 2 => Int(value), 3 => Float(value) } }
