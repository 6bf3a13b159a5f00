//! Applies descriptions to models.

pub(crate) mod assignment;
pub(crate) mod compare;
pub(crate) mod file;
mod unread;

use core::cell::Cell;
use core::fmt;
use std::collections::BTreeMap;

use ggmill_core::{FileType, MetadataBuf};
use serde_json::Value as Json;

use crate::checkpoint::name_rules::NameRules;
use crate::checkpoint::vocabulary::{VocabularyKindSpec, VocabularySpec, VocabularyTemplate};
use crate::data::coded::CHECKPOINTS;
use crate::data::schema::RawStage;
use crate::description::architecture::{Architecture, Assumption, CheckpointKind, Remark};
use crate::description::tensor::{Budget, Origin, TensorSpec};
use crate::error::{Error, ErrorKind, Result, SubjectKind};
use crate::language::expression::{Expression, Purpose, Scope};
use crate::language::facts::CheckpointFacts;
use crate::limits::{MAX_TENSOR_BYTES, MAX_TENSORS};
use crate::parameters::ParameterSource;
use crate::parameters::config::{Config, Documents};
use crate::parameters::declared::IMPLICIT;
use crate::parameters::key::{Key, KeyTemplate, KeyValue};
use crate::parameters::settings::{AssumedSetting, unread_settings};
use crate::value::ParameterValue;

/// The hyperparameters of a model with their values.
pub(crate) type Numbers = Vec<(Box<str>, ParameterValue)>;

/// A description applied to one model: hyperparameters, metadata keys and tensors.
#[derive(Clone)]
pub struct Resolved<'a> {
    architecture: &'a Architecture,
    parameters: Vec<(Box<str>, ParameterValue)>,
    name_rules: NameRules,
    early_keys: Vec<Key>,
    keys: Vec<Key>,
    tensors: Vec<TensorSpec>,
    vocabulary: Option<VocabularySpec>,
    /// Indices in `tensors`, sorted by name.
    by_name: Vec<u32>,
    warnings: Vec<&'a str>,
    assumed: Vec<AssumedSetting>,
    bare: bool,
    typical: bool,
}

impl<'a> Resolved<'a> {
    /// The maximum number of tensors of a model.
    pub const MAX_TENSORS: u64 = MAX_TENSORS;
    /// The approximate maximum memory for the tensors of a model with all their checkpoint names, in
    /// bytes.
    pub const MAX_BYTES: u64 = MAX_TENSOR_BYTES;

    pub(crate) fn new(
        architecture: &'a Architecture,
        source: &Config<'_>,
        kind: Option<&CheckpointKind>,
        facts: Option<&dyn CheckpointFacts>,
    ) -> Result<Self> {
        let class = kind.filter(|kind| kind.whole).and_then(|_| source.whole_class());
        let names = [class.or(source.class()), source.whole_class(), source.model_type()];
        let fuel = Cell::new(Scope::FUEL);
        let purpose = Purpose::Checkpoint(facts);
        let mut model = Self::of(architecture, source, kind, names, purpose, &fuel)?;
        model.assume_settings(source, &fuel, facts)?;
        // Tensors without sources occur only in existing files.
        model.tensors.retain(|tensor| !matches!(&tensor.origin, Origin::Checkpoint(alternatives) if alternatives.is_empty()));
        model.by_name = sorted_by_name(&model.tensors)?;
        Ok(model)
    }

    /// Applies a description to an existing file.
    pub(crate) fn of_file(
        architecture: &'a Architecture,
        source: &dyn ParameterSource,
    ) -> Result<Self> {
        Self::of_file_within(architecture, source, &Cell::new(Scope::FUEL))
    }

    /// Like [`of_file`](Self::of_file), within a step budget.
    pub(crate) fn of_file_within(
        architecture: &'a Architecture,
        source: &dyn ParameterSource,
        fuel: &Cell<u64>,
    ) -> Result<Self> {
        Self::of(architecture, source, None, [None; 3], Purpose::File, fuel)
    }

    /// Evaluates the hyperparameters of an existing file within a step budget. Fails if they contradict
    /// each other.
    pub(crate) fn numbers_within(
        architecture: &Architecture,
        source: &dyn ParameterSource,
        fuel: &Cell<u64>,
    ) -> Result<Numbers> {
        let numbers = Self::numbers(architecture, source, None, [None; 3], Purpose::File, fuel)?;
        let scope = Scope::new(&numbers, fuel);
        match holding(&architecture.contradictions, &scope)?.first() {
            Some(because) => Err(Error::configuration(*because)),
            None => Ok(numbers),
        }
    }

    fn numbers(
        architecture: &Architecture,
        source: &dyn ParameterSource,
        kind: Option<&CheckpointKind>,
        names: [Option<&str>; 3],
        purpose: Purpose<'_>,
        fuel: &Cell<u64>,
    ) -> Result<Numbers> {
        let defaults = kind.map_or(&[][..], |kind| &kind.defaults);
        let mut parameters: Numbers =
            Vec::with_capacity(architecture.parameters.len().saturating_add(IMPLICIT.len()));
        for (name, value) in IMPLICIT.into_iter().zip(names) {
            let value =
                value.map_or(ParameterValue::None, |value| ParameterValue::Str(value.into()));
            parameters.push((name.into(), value));
        }
        for parameter in &architecture.parameters {
            let default = defaults
                .iter()
                .find(|(name, _)| *name == parameter.name)
                .map(|(_, default)| default);
            let value = parameter
                .resolve(source, default, &Scope::new(&parameters, fuel).for_purpose(purpose))
                .map_err(|error| error.about(SubjectKind::Parameter, &parameter.name))?;
            parameters.push((parameter.name.clone(), value));
        }
        Ok(parameters)
    }

    fn of(
        architecture: &'a Architecture,
        source: &dyn ParameterSource,
        kind: Option<&CheckpointKind>,
        names: [Option<&str>; 3],
        purpose: Purpose<'_>,
        fuel: &Cell<u64>,
    ) -> Result<Self> {
        let convert = CHECKPOINTS && matches!(purpose, Purpose::Checkpoint(_));
        let parameters = Self::numbers(architecture, source, kind, names, purpose, fuel)?;
        let scope = Scope::new(&parameters, fuel).for_purpose(purpose);
        let (refuse, warn, templates) = if convert {
            (&*architecture.refuse, &*architecture.warn, &*architecture.keys)
        } else {
            (&[][..], &[][..], &[][..])
        };
        if let Some(because) = holding(refuse, &scope)?.first() {
            return Err(Error::new(ErrorKind::Unsupported, *because));
        }
        if let Some(because) = holding(&architecture.contradictions, &scope)?.first() {
            return Err(Error::configuration(*because));
        }
        let warnings = holding(warn, &scope)?;
        let mut early_keys = Vec::new();
        let mut keys = Vec::with_capacity(templates.len());
        for template in templates {
            let stage = match template.stage {
                RawStage::Early => &mut early_keys,
                RawStage::Model => &mut keys,
                RawStage::Never => continue,
            };
            stage.extend(
                template
                    .resolve(&scope)
                    .map_err(|error| error.about(SubjectKind::Key, &template.name))?,
            );
        }
        let vocabulary = kind
            .and_then(|kind| kind.vocabulary.as_ref())
            .or(architecture.vocabulary.as_ref())
            .filter(|_| convert)
            .map(|vocabulary| vocabulary.resolve(&scope))
            .transpose()?;
        // Converting back needs the checkpoint names of an existing file's tensors.
        let name_rules = if CHECKPOINTS {
            let name_rules = architecture.name_rules.resolve(&parameters);
            if convert { name_rules? } else { name_rules.unwrap_or_default() }
        } else {
            NameRules::default()
        };
        let mut budget = Budget { tensors: MAX_TENSORS, bytes: MAX_TENSOR_BYTES };
        let mut tensors = Vec::new();
        for group in &architecture.groups {
            group.resolve(&scope, &mut budget, &mut tensors)?;
        }
        let by_name = sorted_by_name(&tensors)?;
        let typical = kind.and_then(|kind| kind.typical.as_ref());
        let typical = typical.map(|typical| typical.evaluate_bool(&scope)).transpose()?;
        let typical = typical.unwrap_or(true);
        Ok(Self {
            architecture,
            parameters,
            name_rules,
            early_keys,
            keys,
            tensors,
            vocabulary,
            by_name,
            warnings,
            assumed: Vec::new(),
            bare: kind.is_some_and(|kind| kind.bare),
            typical,
        })
    }

    /// Finds the settings of a checkpoint that the file does not express.
    fn assume_settings(
        &mut self,
        config: &Config<'_>,
        fuel: &Cell<u64>,
        facts: Option<&dyn CheckpointFacts>,
    ) -> Result<()> {
        let scope = Scope::new(&self.parameters, fuel).for_purpose(Purpose::Checkpoint(facts));
        let mut assumed = Vec::new();
        for assumption in &self.architecture.assume {
            if assumption.when.evaluate_bool(&scope)? {
                let mut setting = self.architecture.assumed_setting(assumption, config)?;
                if let Some(tokens) = &assumption.exact_tokens {
                    setting.exact_tokens = Some(tokens.evaluate_u64(&scope)?);
                }
                assumed.push(setting);
            }
        }
        if !self.architecture.is_projector() {
            let is_known = |setting: &AssumedSetting| {
                assumed.iter().any(|known: &AssumedSetting| known.name == setting.name)
            };
            let unread: Vec<_> =
                unread_settings(config).filter(|setting| !is_known(setting)).collect();
            assumed.extend(unread);
        }
        self.assumed = assumed;
        Ok(())
    }

    /// Returns the description.
    pub fn architecture(&self) -> &'a Architecture {
        self.architecture
    }

    /// Returns the value of a hyperparameter: [`ParameterValue::None`] if it is optional and missing,
    /// `None` if the description does not declare it.
    pub fn parameter(&self, name: &str) -> Option<&ParameterValue> {
        self.parameters.iter().find(|(parameter, _)| &**parameter == name).map(|(_, value)| value)
    }

    /// Returns all hyperparameters with their values, in order of evaluation.
    pub fn parameters(&self) -> impl ExactSizeIterator<Item = (&str, &ParameterValue)> {
        self.parameters.iter().map(|(name, value)| (&**name, value))
    }

    /// Returns the metadata keys in the order in which they are written, including the place of
    /// `general.file_type`; empty for an existing file.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Returns the rules for the tensor names of the checkpoint.
    pub fn name_rules(&self) -> &NameRules {
        &self.name_rules
    }

    /// Returns the vocabulary, if the description defines one; `None` for an existing file.
    pub fn vocabulary(&self) -> Option<&VocabularySpec> {
        self.vocabulary.as_ref()
    }

    /// Sets the metadata keys that precede all others except `general.architecture`: those that the
    /// reference derives from tensors.
    pub fn write_early_keys(&self, file_type: FileType, metadata: &mut MetadataBuf) {
        for key in &self.early_keys {
            key.value.set(&key.name, file_type.0, metadata);
        }
    }

    /// Sets the metadata keys, in order.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// use ggmill_core::{FileType, MetadataBuf};
    /// # let config = serde_json::json!({
    /// #     "architectures": ["LlamaForCausalLM"], "vocab_size": 512, "num_hidden_layers": 5, "hidden_size": 64, "intermediate_size": 172,
    /// #     "num_attention_heads": 8,
    /// # });
    /// let llama = Architecture::builtin("llama").ok_or("built in")?;
    /// let mut metadata = MetadataBuf::new();
    /// metadata.set("general.architecture", llama.name());
    /// llama.resolve(&config)?.write_keys(FileType::F16, &mut metadata);
    /// assert_eq!(metadata.get("llama.block_count").and_then(|value| value.as_u64()), Some(5));
    /// assert_eq!(metadata.get("general.file_type").and_then(|value| value.as_u64()), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_keys(&self, file_type: FileType, metadata: &mut MetadataBuf) {
        for key in &self.keys {
            key.value.set(&key.name, file_type.0, metadata);
        }
    }

    /// Returns the tensors in the order of the description, including optional ones.
    pub fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    /// Returns the tensor with this name in the file.
    pub fn tensor(&self, name: &str) -> Option<&TensorSpec> {
        let of = |&position: &u32| {
            usize::try_from(position).ok().and_then(|position| self.tensors.get(position))
        };
        let found = self
            .by_name
            .binary_search_by(|position| of(position).map_or("", |tensor| &tensor.name).cmp(name))
            .ok()?;
        self.by_name.get(found).and_then(of)
    }

    /// Returns `true` if the tensor names in such a checkpoint omit all optional pieces.
    pub fn is_bare(&self) -> bool {
        self.bare
    }

    /// Returns `true` if the checkpoint is typical for its class. If a file may have been converted
    /// from several classes, converting back prefers such a class.
    pub fn is_typical(&self) -> bool {
        self.typical
    }

    /// Returns warnings of the description about converting this model.
    pub fn warnings(&self) -> &[&'a str] {
        &self.warnings
    }
}

impl Resolved<'_> {
    /// Settings of the checkpoint that change what the model computes, and that programs do not read
    /// from the file.
    pub fn assumed_settings(&self) -> &[AssumedSetting] {
        &self.assumed
    }
}

impl Architecture {
    /// Applies the description to a checkpoint's `config.json`.
    ///
    /// Fails if a hyperparameter is missing or of the wrong type (the error lists the searched paths),
    /// if sizes contradict each other, if the description excludes the checkpoint, or if the model has
    /// more than [`Resolved::MAX_TENSORS`] tensors.
    pub fn resolve(&self, config: &Json) -> Result<Resolved<'_>> {
        self.resolve_config(config, None)
    }

    /// Like [`resolve`](Self::resolve), with the tensors of the checkpoint, and its other JSON files
    /// ([`documents`](Self::documents)).
    pub fn resolve_checkpoint(
        &self,
        config: &Json,
        documents: &BTreeMap<String, Json>,
        facts: &dyn CheckpointFacts,
    ) -> Result<Resolved<'_>> {
        self.resolve_config(config, Some((documents, facts)))
    }

    /// Returns a setting that the file does not express, with its value.
    fn assumed_setting(
        &self,
        assumption: &Assumption,
        config: &Config<'_>,
    ) -> Result<AssumedSetting> {
        let Assumption { setting, assumed, .. } = assumption;
        let parameter = self.parameters.iter().find(|parameter| parameter.name == *setting);
        let found = parameter.map(|parameter| config.lookup(parameter)).transpose()?.flatten();
        Ok(match (found, parameter) {
            (Some((value, place)), _) => AssumedSetting::new(&place, &value, assumed),
            (None, parameter) => {
                let first = parameter.and_then(|parameter| parameter.from.first());
                let place = first.unwrap_or(setting);
                let value = config.setting(place).unwrap_or(&Json::Null);
                AssumedSetting::new(place, value, assumed)
            }
        })
    }

    fn resolve_config(
        &self,
        config: &Json,
        beside: Option<(&Documents, &dyn CheckpointFacts)>,
    ) -> Result<Resolved<'_>> {
        let (documents, facts) = beside.unzip();
        let config = Config::of(config, self.is_projector());
        let (config, kind) = self.configured(config.beside(documents));
        // An excluded checkpoint may lack required hyperparameters: report the exclusion instead.
        let refused = |error: Error| {
            let known = self.known_parameters(&config, kind);
            let fuel = Cell::new(Scope::FUEL);
            let scope = Scope::new(&known, &fuel);
            let holds = |remark: &&Remark| remark.when.evaluate_bool(&scope).unwrap_or(false);
            let remark = self.refuse.iter().find(holds);
            remark.map_or(error, |remark| Error::new(ErrorKind::Unsupported, &*remark.because))
        };
        Resolved::new(self, &config, kind, facts).map_err(|error| refused(error).within(&self.name))
    }

    /// Returns the rules for the tensor names of a checkpoint with this `config.json`, as far as they
    /// are known without its tensors.
    pub fn name_rules(&self, config: &Json) -> NameRules {
        let (config, kind) = self.configured(Config::of(config, self.is_projector()));
        let known = self.known_parameters(&config, kind);
        self.name_rules.without_loops().resolve(&known).unwrap_or_default()
    }

    /// Returns a configuration with the class defaults for its checkpoint kind, and this kind.
    fn configured<'c>(&self, config: Config<'c>) -> (Config<'c>, Option<&CheckpointKind>) {
        let kind = self.checkpoint_kind(&config);
        (config.with_class_defaults(kind.is_none_or(|kind| kind.class_defaults)), kind)
    }

    /// Returns the hyperparameters, as far as a configuration determines them.
    fn known_parameters(
        &self,
        config: &Config<'_>,
        kind: Option<&CheckpointKind>,
    ) -> Vec<(Box<str>, ParameterValue)> {
        let whole = kind.filter(|kind| kind.whole).and_then(|_| config.whole_class());
        let names = [whole.or(config.class()), config.whole_class(), config.model_type()];
        self.parameters_of(config, kind.map_or(&[], |kind| &kind.defaults), names)
    }

    /// Returns the checkpoint kind of a configuration: by class, or by model type if it names no class.
    pub(crate) fn checkpoint_kind(&self, config: &Config<'_>) -> Option<&CheckpointKind> {
        let names = |names: &[Box<str>], name: &str| names.iter().any(|known| **known == *name);
        let holds = |kind: &&CheckpointKind| {
            kind.when.as_ref().is_none_or(|when| self.meets(config, kind, when))
        };
        let is_class = |kind: &CheckpointKind, class: &str| names(&kind.classes, class);
        let whole = config.whole_class();
        let by_whole = self
            .checkpoints
            .iter()
            .filter(|kind| kind.whole)
            .find(|kind| whole.is_some_and(|class| is_class(kind, class)) && holds(kind));
        by_whole.or_else(|| {
            self.checkpoints.iter().filter(holds).find(|kind| {
                match (config.class(), config.model_type()) {
                    (Some(class), _) => is_class(kind, class),
                    (None, Some(model_type)) => names(&kind.model_types, model_type),
                    (None, None) => kind.marker.as_ref().is_some_and(|place| config.has(place)),
                }
            })
        })
    }

    /// Returns `true` if a configuration meets the condition of a checkpoint kind. Missing
    /// hyperparameters are `none`.
    fn meets(&self, config: &Config<'_>, kind: &CheckpointKind, when: &Expression) -> bool {
        let parameters = self.known_parameters(config, Some(kind));
        let fuel = Cell::new(Scope::FUEL);
        when.evaluate_bool(&Scope::new(&parameters, &fuel)).unwrap_or(false)
    }
}

/// Formats only counts, because a model has hundreds of tensors.
impl fmt::Debug for Resolved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, keys, tensors) = (self.architecture.name(), self.keys.len(), self.tensors.len());
        f.debug_struct("Resolved")
            .field("architecture", &name)
            .field("keys", &keys)
            .field("tensors", &tensors)
            .finish_non_exhaustive()
    }
}

/// Returns the messages of the remarks whose condition holds.
fn holding<'a>(remarks: &'a [Remark], scope: &Scope<'_>) -> Result<Vec<&'a str>> {
    let mut texts = Vec::new();
    for remark in remarks {
        if remark.when.evaluate_bool(scope)? {
            texts.push(&*remark.because);
        }
    }
    Ok(texts)
}

impl KeyTemplate {
    /// Returns the key with its value; `None` if its condition does not hold, or if it is optional and
    /// has no value.
    fn resolve(&self, scope: &Scope<'_>) -> Result<Option<Key>> {
        if !self.when.evaluate_bool(scope)? {
            return Ok(None);
        }
        let name = self.name.to_string();
        let Some(expression) = &self.value else {
            return Ok((!self.optional).then_some(Key { name, value: KeyValue::FileType }));
        };
        let value = expression.evaluate(scope)?;
        if self.optional && !value.is_some() {
            return Ok(None);
        }
        Ok(Some(Key { name, value: self.key_type.convert(expression, &value)? }))
    }
}

impl VocabularyTemplate {
    /// Returns the vocabulary with the keys whose conditions hold.
    fn resolve(&self, scope: &Scope<'_>) -> Result<VocabularySpec> {
        let mut by_kind = Vec::with_capacity(self.by_kind.len());
        for (kind, template) in &self.by_kind {
            let of_kind = VocabularyKindSpec {
                possible: template.when.evaluate_bool(scope)?,
                tokenizer_classes: template.tokenizer_classes.clone(),
                keys_before: keys(&template.keys_before, scope)?,
                keys: keys(&template.keys, scope)?,
            };
            by_kind.push((*kind, of_kind));
        }
        Ok(VocabularySpec {
            size: self.size.as_ref().map(|size| size.evaluate_u64(scope)).transpose()?,
            keys_before: keys(&self.keys_before, scope)?,
            keys: keys(&self.keys, scope)?,
            by_kind,
            ..self.spec.clone()
        })
    }
}

/// Returns the keys whose conditions hold, with their values.
fn keys(templates: &[KeyTemplate], scope: &Scope<'_>) -> Result<Vec<Key>> {
    let mut keys = Vec::with_capacity(templates.len());
    for template in templates {
        let resolved = template
            .resolve(scope)
            .map_err(|error| error.about(SubjectKind::Key, &template.name))?;
        keys.extend(resolved);
    }
    Ok(keys)
}

/// Returns the indices of tensors sorted by name. Fails for duplicate names.
fn sorted_by_name(tensors: &[TensorSpec]) -> Result<Vec<u32>> {
    let name = |position: &u32| {
        usize::try_from(*position)
            .ok()
            .and_then(|position| tensors.get(position))
            .map_or("", |tensor| &tensor.name)
    };
    // The budget keeps the number of tensors far below 32 bits.
    let mut by_name: Vec<u32> = (0u32..).take(tensors.len()).collect();
    by_name.sort_unstable_by(|a, b| name(a).cmp(name(b)));
    match by_name.windows(2).find_map(|pair| match pair {
        [a, b] if name(a) == name(b) => Some(a),
        _ => None,
    }) {
        Some(twice) => {
            Err(Error::description("occurs twice in the model")
                .about(SubjectKind::Tensor, name(twice)))
        }
        None => Ok(by_name),
    }
}
