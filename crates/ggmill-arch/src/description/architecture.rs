//! A parsed and checked description of an architecture.

use core::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use ggmill_core::{ByteSize, ValueType};

use crate::checkpoint::name_rules::NameRuleTemplates;
use crate::checkpoint::vocabulary::VocabularyTemplate;
use crate::checkpoint::vocabulary_kind::VocabularyKind;
use crate::data::coded::{CHECKPOINTS, GRAPHS};
use crate::data::schema::{
    RawArchitecture, RawAssumption, RawCheckpoint, RawExpression, RawRemark, SCHEMA,
};
use crate::data::tables::Kinds;
use crate::data::{self, parse_of_checkpoints, table};
use crate::description::include::Parts;
use crate::description::tensor::{TensorGroup, TensorOutline};
use crate::error::{Error, ErrorKind, Result, SubjectKind, line_and_column, quoted};
use crate::language::expression::{Expression, Scope, expression, optional};
use crate::language::pattern::begins;
use crate::language::program::Program;
use crate::limits::{MAX_ENTRIES, MAX_KEYS, MAX_PARAMETERS, MAX_TEMPLATES};
use crate::memory::MemoryTemplate;
use crate::parameters::declared::{DeclarationOrder, in_order_of_use, parameters};
use crate::parameters::key::{KeyTemplate, whole_key};
use crate::parameters::{Parameter, ParameterKey, ParameterOutline};
use crate::reference::role::Role;
use crate::value::ParameterValue;

/// The description of an architecture: its checkpoint classes, hyperparameters, metadata keys, tensors
/// and computation graph.
///
/// Descriptions are TOML files; `docs/formats/architecture.md` in the repository is their reference.
/// Many are built in, and others can be parsed. Applied to a checkpoint's `config.json`, a description
/// gives a [`Resolved`](crate::Resolved).
///
/// ```
/// use ggmill_arch::Architecture;
/// let llama = Architecture::builtin("llama").ok_or("built in")?;
/// let config = serde_json::json!({
///     "architectures": ["LlamaForCausalLM"], "vocab_size": 512, "tie_word_embeddings": true, "num_hidden_layers": 5,
///     "hidden_size": 64, "intermediate_size": 172, "num_attention_heads": 8, "num_key_value_heads": 4,
/// });
/// let model = llama.resolve(&config)?;
/// assert_eq!(model.keys()[0].name, "llama.block_count");
/// let k = model.tensor("blk.0.attn_k.weight").ok_or("there")?;
/// assert_eq!(k.shape.dimensions(), [64, 32]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Architecture {
    pub(crate) name: Box<str>,
    pub(crate) title: Box<str>,
    pub(crate) loader: Option<Box<str>>,
    /// The reason why there is no computation graph, if the description gives one.
    pub(crate) without_graph: Option<Box<str>>,
    pub(crate) checkpoints: Vec<CheckpointKind>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) keys: Vec<KeyTemplate>,
    pub(crate) groups: Vec<TensorGroup>,
    pub(crate) vocabulary: Option<VocabularyTemplate>,
    pub(crate) name_rules: NameRuleTemplates,
    /// Conditions that no valid model meets.
    pub(crate) contradictions: Vec<Remark>,
    /// Conditions of models that cannot be converted.
    pub(crate) refuse: Vec<Remark>,
    pub(crate) warn: Vec<Remark>,
    /// Settings of checkpoints that programs do not read from the file.
    pub(crate) assume: Vec<Assumption>,
    /// The state that a model keeps between tokens, if the description defines it.
    pub(crate) memory: Option<MemoryTemplate>,
    /// The program of the computation graph, if the description has one.
    pub(crate) graph: Option<Program>,
    /// The supported quantization methods of checkpoints, if the description lists them.
    quantized: Option<Vec<Box<str>>>,
    /// Metadata of a small model, from which the check of the graph starts.
    pub(crate) example: Vec<(Box<str>, ParameterValue)>,
}

/// A kind of checkpoint: how it is identified, and the defaults of its configuration.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointKind {
    pub(crate) classes: Vec<Box<str>>,
    pub(crate) model_types: Vec<Box<str>>,
    /// If true, the defaults of its class in the `transformers` library apply.
    pub(crate) class_defaults: bool,
    /// A path in a configuration without classes and model type that identifies the kind.
    pub(crate) marker: Option<Box<str>>,
    /// If true, the class at the top level of the configuration identifies the kind.
    pub(crate) whole: bool,
    /// If true, the names in its checkpoints omit all optional pieces.
    pub(crate) bare: bool,
    /// A condition, if several descriptions share the classes.
    pub(crate) when: Option<Expression>,
    /// A condition that most of its checkpoints meet and most of other kinds do not, for converting
    /// back.
    pub(crate) typical: Option<Expression>,
    pub(crate) defaults: Vec<(Box<str>, Expression)>,
    pub(crate) vocabulary: Option<VocabularyTemplate>,
}

/// A condition with the message if it holds.
#[derive(Clone, Debug)]
pub(crate) struct Remark {
    pub(crate) when: Expression,
    pub(crate) because: Box<str>,
}

/// A setting of a checkpoint that programs do not read from the file: they assume one value.
#[derive(Clone, Debug)]
pub(crate) struct Assumption {
    /// The hyperparameter that reads the setting, or its path in `config.json`.
    pub(crate) setting: Box<str>,
    /// Holds if the setting has another value.
    pub(crate) when: Expression,
    pub(crate) assumed: Box<str>,
    /// The number of tokens up to which the value makes no difference.
    pub(crate) exact_tokens: Option<Expression>,
}

impl Architecture {
    /// The maximum length of a description, in bytes.
    pub const MAX_LEN: usize = 1 << 20;

    /// Parses a description that may include `parts`. `source` is the source of its graphs, if it is a
    /// separate file.
    pub(crate) fn read(toml: &str, source: Option<&str>, parts: &dyn Parts) -> Result<Self> {
        if toml.len() > Self::MAX_LEN {
            let [len, limit] = ByteSize::both(toml.len(), Self::MAX_LEN);
            let message = format!("the description has {len}, the limit is {limit}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let mut raw: RawArchitecture =
            toml::from_str(toml).map_err(|error| syntax(toml, &error))?;
        if let Some(source) = source {
            if raw.computation.is_some() {
                let message = "computation: the program is also in a file; remove one of the two";
                return Err(Error::description(message).within(&raw.name));
            }
            raw.computation = Some(source.to_owned());
        }
        Self::of_raw(raw, parts).map_err(|error| error.placed(toml))
    }

    /// Checks a parsed description.
    pub(crate) fn of_raw(mut raw: RawArchitecture, parts: &dyn Parts) -> Result<Self> {
        let name = raw.name.clone();
        Self::from_raw(&mut raw, parts).map_err(|error| {
            let names = raw.parameters.0.iter().map(|(name, _)| name.as_str());
            error.with_nearest(names).within(&name)
        })
    }

    fn from_raw(raw: &mut RawArchitecture, parts: &dyn Parts) -> Result<Self> {
        if raw.schema != SCHEMA {
            return Err(Error::description(format!(
                "schema is {}, expected {SCHEMA:?}",
                quoted(&raw.schema)
            )));
        }
        if raw.name.is_empty()
            || !raw.name.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_'
            })
        {
            return Err(Error::description(
                "expected a name of lowercase letters, digits, - and _",
            ));
        }
        raw.include_parts(parts)?;
        raw.check_counts()?;
        let places = DeclarationOrder::of(&raw.parameters);
        let parameters = parameters(&raw.name, &raw.parameters, &places)?;
        let is_declared = |name: &str| places.place(name).is_some();
        let keys: Vec<_> = raw
            .keys
            .0
            .iter()
            .map(|(name, key)| KeyTemplate::from_raw(&raw.name, name, key, &is_declared))
            .collect::<Result<_>>()?;
        let groups: Vec<_> = raw
            .tensors
            .iter()
            .map(|group| TensorGroup::from_raw(group, &is_declared))
            .collect::<Result<_>>()?;
        if let Some(tensor) = groups
            .iter()
            .find_map(TensorGroup::without_origin)
            .filter(|_| CHECKPOINTS && !raw.checkpoint.is_empty())
        {
            return Err(
                Error::description("expected from or compute").about(SubjectKind::Tensor, tensor)
            );
        }
        let vocabulary = raw
            .vocabulary
            .as_ref()
            .filter(|_| CHECKPOINTS)
            .map(|vocabulary| VocabularyTemplate::from_raw(&raw.name, vocabulary, &is_declared))
            .transpose()?;
        let name_rules = if CHECKPOINTS {
            NameRuleTemplates::from_raw(
                &raw.ignore,
                &raw.only,
                &raw.zeros,
                &raw.rename,
                &is_declared,
            )?
        } else {
            NameRuleTemplates::default()
        };
        let contradictions = raw
            .contradiction
            .iter()
            .map(|remark| Remark::from_raw(remark, &is_declared))
            .collect::<Result<_>>()?;
        let remark = |remark: &_| Remark::from_raw(remark, &is_declared);
        let refuse = parse_of_checkpoints(&raw.refuse, remark)?;
        let warn = parse_of_checkpoints(&raw.warn, remark)?;
        let assumption = |raw: &_| Assumption::from_raw(raw, &is_declared);
        let assume = parse_of_checkpoints(&raw.assume, assumption)?;
        let checkpoints = parse_of_checkpoints(&raw.checkpoint, |checkpoint| {
            CheckpointKind::from_raw(checkpoint, &raw.name, &places)
        })?;
        let of_kinds: Vec<_> = checkpoints.iter().flat_map(|kind| &kind.defaults).collect();
        let mut parameters = in_order_of_use(parameters, &of_kinds)?;
        read_back(&mut parameters, &keys);
        let memory = raw.memory.as_ref();
        let memory =
            memory.map(|memory| MemoryTemplate::from_raw(&raw.name, memory)).transpose()?;
        let tensors: Vec<&str> =
            groups.iter().flat_map(TensorGroup::outline).map(|tensor| tensor.name).collect();
        let file = format!("{}.py", raw.name);
        let programs = |name: &str| parts.program(name);
        let names: Vec<&str> = raw.parameters.0.iter().map(|(name, _)| name.as_str()).collect();
        let program =
            |source| Program::from_raw(&file, source, (&is_declared, &names), &tensors, &programs);
        let graph = raw.computation.as_deref().filter(|_| GRAPHS).map(program).transpose()?;
        let is_refused = raw.without_graph.as_deref();
        if is_refused.is_some_and(|because| because.is_empty() || graph.is_some()) {
            let message = "without_graph: expected a reason, and no graph";
            return Err(Error::description(message));
        }
        let example = example(raw)?;
        Ok(Self {
            name: raw.name.as_str().into(),
            title: raw.title.as_str().into(),
            loader: raw.loader.as_deref().map(Into::into),
            without_graph: raw.without_graph.as_deref().map(Into::into),
            checkpoints,
            keys,
            groups,
            vocabulary,
            name_rules,
            contradictions,
            refuse,
            warn,
            assume,
            parameters,
            memory,
            graph,
            example,
            quantized: raw
                .quantized
                .as_ref()
                .map(|methods| methods.iter().map(|method| method.as_str().into()).collect()),
        })
    }

    /// Returns the value of `general.architecture`, which is the prefix of its keys.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns `true` for projectors, which belong to multimodal models.
    pub fn is_projector(&self) -> bool {
        kind_of_architecture(&self.name) == Some(PROJECTOR)
    }

    /// Returns the reason why models of the architecture have no computation graph, if the description
    /// gives one.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// let draft = Architecture::builtin("eagle3").ok_or("built in")?;
    /// assert!(!draft.has_graph());
    /// assert_eq!(draft.without_graph(), Some("it needs the states of another model"));
    /// # Ok::<(), &str>(())
    /// ```
    pub fn without_graph(&self) -> Option<&str> {
        self.without_graph.as_deref()
    }

    /// Returns the program whose loader accepts files of this architecture, if there is one.
    pub fn loader(&self) -> Option<&str> {
        self.loader.as_deref()
    }

    /// Returns the types of a metadata key: of a single value and of list elements. `None` for a key
    /// that is not in the description.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// use ggmill_core::ValueType;
    /// let llama = Architecture::builtin("llama").ok_or("built in")?;
    /// assert_eq!(llama.key_types("llama.rope.freq_base"), Some((Some(ValueType::F32), None)));
    /// # Ok::<(), &str>(())
    /// ```
    pub fn key_types(&self, key: &str) -> Option<(Option<ValueType>, Option<ValueType>)> {
        let template = self.keys.iter().find(|template| &*template.name == key)?;
        Some((template.key_type.single, template.key_type.element))
    }

    /// Returns `true` if the description supports checkpoints with this quantization method
    /// (`quantization_config.quant_method` in `config.json`). A description that lists no methods
    /// supports all but `mxfp4`, which needs the `mxfp4` operation.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// let llama = Architecture::builtin("llama").ok_or("built in")?;
    /// assert!(llama.supports_quantization("gptq") && !llama.supports_quantization("mxfp4"));
    /// # Ok::<(), &str>(())
    /// ```
    pub fn supports_quantization(&self, method: &str) -> bool {
        match &self.quantized {
            Some(methods) => methods.iter().any(|known| **known == *method),
            None => method != "mxfp4",
        }
    }

    /// Returns the distinct class names (`architectures` in `config.json`) of its checkpoints.
    ///
    /// ```
    /// let qwen3 = ggmill_arch::Architecture::builtin("qwen3").ok_or("built in")?;
    /// let classes: Vec<&str> = qwen3.checkpoint_classes().collect();
    /// assert_eq!(classes, ["Qwen3ForCausalLM", "Qwen3Model", "StepVLForConditionalGeneration"]);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn checkpoint_classes(&self) -> impl Iterator<Item = &str> {
        let mut seen = BTreeSet::new();
        let classes = self.checkpoints.iter().flat_map(|checkpoint| &checkpoint.classes);
        classes.map(|class| &**class).filter(move |class| seen.insert(*class))
    }

    /// Returns the distinct vocabulary kinds of its checkpoints, in the order in which they are tried.
    pub fn vocabulary_kinds(&self) -> Vec<VocabularyKind> {
        let of_kinds = self.checkpoints.iter().filter_map(|kind| kind.vocabulary.as_ref());
        let mut kinds = Vec::new();
        for kind in
            self.vocabulary.iter().chain(of_kinds).flat_map(|vocabulary| &vocabulary.spec.kinds)
        {
            if !kinds.contains(kind) {
                kinds.push(*kind);
            }
        }
        kinds
    }

    /// Returns the classes, model types and paths in a configuration that identify its checkpoints.
    pub(crate) fn marks(&self) -> impl Iterator<Item = &str> {
        let marks = self
            .checkpoints
            .iter()
            .flat_map(|kind| kind.classes.iter().chain(&kind.model_types).chain(&kind.marker));
        marks.map(|mark| &**mark)
    }

    /// Returns the names of the JSON files of a checkpoint, other than `config.json`, that
    /// hyperparameters are read from.
    pub fn documents(&self) -> impl Iterator<Item = &str> {
        let places = self.parameters.iter().flat_map(|parameter| &parameter.from);
        places.filter_map(|place| place.split_once('#').map(|(file, _)| file))
    }

    /// Returns `true` for draft models: hyperparameters are also read from the configuration of the
    /// target model, the `config.json` in the directory `target`.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// let needs = |name| Architecture::builtin(name).map(Architecture::needs_target);
    /// assert_eq!(needs("eagle3"), Some(true));
    /// assert_eq!(needs("llama"), Some(false));
    /// ```
    pub fn needs_target(&self) -> bool {
        self.documents().any(|name| name.starts_with("target/"))
    }

    /// Returns the hyperparameters as in the description, for existing files, in its order.
    pub fn outline_parameters(&self) -> impl Iterator<Item = ParameterOutline<'_>> {
        self.parameters.iter().map(|parameter| ParameterOutline {
            name: &parameter.name,
            keys: parameter.keys.iter().map(ToString::to_string).collect(),
            in_checkpoint: parameter.from.iter().map(|place| &**place).collect(),
            default: parameter
                .in_file
                .as_ref()
                .or(parameter.default.as_ref())
                .map(Expression::text),
        })
    }

    /// Returns the tensors as in the description, in its order.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// let gemma = Architecture::builtin("gemma").ok_or("built in")?;
    /// let up = gemma.outline().find(|tensor| tensor.name == "blk.{bid}.ffn_up.weight").ok_or("there")?;
    /// assert_eq!(up.shape, ["embedding_length", "feed_forward"]);
    /// assert_eq!(up.repeat.as_deref(), Some("bid in 0..block_count"));
    /// # Ok::<(), &str>(())
    /// ```
    pub fn outline(&self) -> impl Iterator<Item = TensorOutline<'_>> {
        self.groups.iter().flat_map(TensorGroup::outline)
    }

    /// Returns the role of the tensor with this name, independent of hyperparameters; `None` for a name
    /// that is not in the description.
    pub fn role_of(&self, tensor: &str) -> Option<Role> {
        self.groups.iter().find_map(|group| group.role_of(tensor))
    }

    /// Returns `true` if some model of this architecture has a tensor with this name.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// let gemma = Architecture::builtin("gemma").ok_or("built in")?;
    /// assert!(gemma.may_have_tensor("blk.12.ffn_up.weight"));
    /// assert!(!gemma.may_have_tensor("blk.12.ssm_in.weight"));
    /// # Ok::<(), &str>(())
    /// ```
    pub fn may_have_tensor(&self, tensor: &str) -> bool {
        self.outline().any(|described| begins(tensor, described.name))
    }
}

/// Converts an error of the TOML parser to one line with line and column.
fn syntax(toml: &str, error: &toml::de::Error) -> Error {
    let (line, column) = line_and_column(toml, error.span().map_or(0, |span| span.start));
    let message = ggmill_core::RawStr::from(error.message()).to_string();
    Error::description(format!("line {line}, column {column}: {message}"))
}

impl RawArchitecture {
    /// Fails if a count exceeds its [limit](crate::limits).
    fn check_counts(&self) -> Result<()> {
        let templates: usize = self.tensors.iter().map(|group| group.tensor.0.len()).sum();
        let counts = [
            ("hyperparameters", self.parameters.0.len(), MAX_PARAMETERS),
            ("keys", self.keys.0.len(), MAX_KEYS),
            ("groups of tensors", self.tensors.len(), MAX_TEMPLATES),
            ("tensors", templates, MAX_TEMPLATES),
            ("kinds of checkpoints", self.checkpoint.len(), MAX_ENTRIES),
            ("patterns of tensors to ignore", self.ignore.len(), MAX_ENTRIES),
            ("patterns of tensors to include", self.only.len(), MAX_ENTRIES),
            (
                "keys of the vocabulary",
                self.vocabulary.as_ref().map_or(0, |vocabulary| vocabulary.keys.0.len()),
                MAX_KEYS,
            ),
            ("contradictions", self.contradiction.len(), MAX_ENTRIES),
            ("refusals", self.refuse.len(), MAX_ENTRIES),
            ("warnings", self.warn.len(), MAX_ENTRIES),
            ("assumed settings", self.assume.len(), MAX_ENTRIES),
            ("keys of the example", self.example.0.len(), MAX_KEYS),
            ("quantizations", self.quantized.as_ref().map_or(0, Vec::len), MAX_ENTRIES),
        ];
        match counts.into_iter().find(|(_, count, limit)| count > limit) {
            Some((what, count, limit)) => {
                Err(Error::new(ErrorKind::Limit, format!("{count} {what}, the limit is {limit}")))
            }
            None => Ok(()),
        }
    }
}

/// Evaluates the example metadata of a description.
fn example(raw: &RawArchitecture) -> Result<Vec<(Box<str>, ParameterValue)>> {
    let fuel = Cell::new(Scope::FUEL);
    let scope = Scope::new(&[], &fuel);
    let value = |(key, value): &(String, RawExpression)| {
        let value = expression(value, &|_| false).and_then(|value| value.evaluate(&scope));
        let value = value.map_err(|error| error.at("example").about(SubjectKind::Key, key))?;
        Ok((whole_key(&raw.name, key), value))
    };
    raw.example.0.iter().map(value).collect()
}

/// Sets the sources of hyperparameters without keys: the keys whose value they are.
fn read_back(parameters: &mut [Parameter], keys: &[KeyTemplate]) {
    let mut written: BTreeMap<&str, Vec<ParameterKey>> = BTreeMap::new();
    for key in keys {
        if let Some(parameter) = key.value.as_ref().and_then(Expression::as_name) {
            written.entry(parameter).or_default().push(ParameterKey::Value(key.name.clone()));
        }
    }
    for parameter in parameters.iter_mut().filter(|parameter| parameter.keys.is_empty()) {
        parameter.keys = written.remove(&*parameter.name).unwrap_or_default();
    }
}

impl CheckpointKind {
    fn from_raw(
        raw: &RawCheckpoint,
        architecture: &str,
        declared: &DeclarationOrder<'_>,
    ) -> Result<Self> {
        let mut defaults = Vec::with_capacity(raw.defaults.0.len());
        for (name, default) in &raw.defaults.0 {
            let parsed = || {
                declared
                    .place(name)
                    .ok_or_else(|| Error::description("the hyperparameter is not declared"))?;
                expression(default, &|name| declared.place(name).is_some())
                    .map_err(|error| error.at("default"))
            };
            defaults.push((
                name.as_str().into(),
                parsed().map_err(|error: Error| error.about(SubjectKind::Parameter, name))?,
            ));
        }
        let owned = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
        let is_declared = |name: &str| declared.place(name).is_some();
        let vocabulary = raw
            .vocabulary
            .as_ref()
            .map(|vocabulary| VocabularyTemplate::from_raw(architecture, vocabulary, &is_declared));
        Ok(Self {
            classes: owned(&raw.classes),
            model_types: owned(&raw.model_types),
            class_defaults: raw.class_defaults.unwrap_or(true),
            marker: raw.marker.as_deref().map(Into::into),
            whole: raw.whole,
            bare: raw.bare,
            when: optional(raw.when.as_ref(), "when", &is_declared)?,
            typical: optional(raw.typical.as_ref(), "typical", &is_declared)?,
            defaults,
            vocabulary: vocabulary.transpose()?,
        })
    }
}

impl Remark {
    fn from_raw(raw: &RawRemark, is_declared: &dyn Fn(&str) -> bool) -> Result<Self> {
        let when = Expression::parse(&raw.when)?;
        when.check_names(is_declared)?;
        Ok(Self { when, because: raw.because.as_str().into() })
    }
}

impl Assumption {
    fn from_raw(raw: &RawAssumption, is_declared: &dyn Fn(&str) -> bool) -> Result<Self> {
        let when = Expression::parse(&raw.when)?;
        when.check_names(is_declared)?;
        let exact_tokens = raw.exact_tokens.as_deref().map(Expression::parse).transpose()?;
        exact_tokens.iter().try_for_each(|tokens| tokens.check_names(is_declared))?;
        let (setting, assumed) = (raw.setting.as_str().into(), raw.assumed.as_str().into());
        Ok(Self { setting, when, assumed, exact_tokens })
    }
}

static KINDS: LazyLock<Kinds> = LazyLock::new(|| table(data::KINDS));

/// The `general.type` of projectors.
pub(crate) const PROJECTOR: &str = "mmproj";

/// Returns the `general.type` that files of this architecture have, even if the key is missing;
/// `None` for a language model.
///
/// ```
/// assert_eq!(ggmill_arch::kind_of_architecture("controlvector"), Some("controlvector"));
/// assert_eq!(ggmill_arch::kind_of_architecture("llama"), None);
/// ```
pub fn kind_of_architecture(architecture: &str) -> Option<&'static str> {
    KINDS.kinds.get(architecture).map(String::as_str)
}
