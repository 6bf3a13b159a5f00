//! Solves for hyperparameters, given the keys and tensors of a file.

use core::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use ggmill_core::{Shape, ValueType};
use serde_json::Value as Json;

use super::places;
use crate::data::schema::RawStage;
use crate::description::architecture::{Architecture, CheckpointKind};
use crate::description::tensor::TensorGroup;
use crate::language::expression::{Expression, Parameters, Purpose, Scope, Unknowns};
use crate::language::facts::CheckpointFacts;
use crate::parameters::config::Config;
use crate::parameters::declared::IMPLICIT;
use crate::parameters::entries::{MetadataSource, read};
use crate::parameters::key::KeyTemplate;
use crate::parameters::{Parameter, ParameterKey, ParameterSource as _};
use crate::value::ParameterValue as Value;

/// Reads metadata as values of hyperparameters.
pub(super) struct ValueReader<'a> {
    entries: &'a MetadataSource<'a>,
}

impl<'a> ValueReader<'a> {
    pub(super) fn of(entries: &'a MetadataSource<'a>) -> Self {
        Self { entries }
    }

    /// Returns the value of a key. F32 numbers become the shortest decimal number that rounds to them.
    fn get(&self, key: &str) -> Option<Value> {
        let value = self.entries.get(key)?.ok()?;
        let single = value.value_type() == ValueType::F32
            || value.as_array().is_some_and(|array| array.element_type() == ValueType::F32);
        let found = read(&value)?;
        Some(if single { shortest(&found) } else { found })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the value is a converted F32")]
fn shortest(value: &Value) -> Value {
    match value {
        Value::Float(number) => {
            Value::Float(format!("{:?}", *number as f32).parse().unwrap_or(*number))
        }
        Value::List(elements) => Value::List(elements.iter().map(shortest).collect()),
        other => other.clone(),
    }
}

/// Returns the elements of small tensors of the file, by name.
pub(super) type Read<'a> = dyn Fn(&str) -> Option<Vec<f32>> + 'a;

/// A checkpoint about which nothing is known.
struct NoFacts;

impl CheckpointFacts for NoFacts {
    /// Returns an empty name, because descriptions search it.
    fn name(&self) -> Option<&str> {
        Some("")
    }
}

/// The file, queried as if it were the checkpoint.
struct FileFacts<'a> {
    shapes: BTreeMap<&'a str, Shape>,
    read: &'a Read<'a>,
}

impl CheckpointFacts for FileFacts<'_> {
    fn shape(&self, name: &str) -> Option<Shape> {
        self.shapes.get(name).copied()
    }

    fn values(&self, name: &str) -> Result<Vec<Value>, String> {
        let elements = (self.read)(name).ok_or("cannot be read")?;
        Ok(elements.into_iter().map(|element| Value::Float(element.into())).collect())
    }

    /// Returns an empty name, because descriptions search it.
    fn name(&self) -> Option<&str> {
        Some("")
    }
}

/// The state of the search: the hyperparameters that are known so far.
pub(super) struct Solver<'a> {
    architecture: &'a Architecture,
    kind: &'a CheckpointKind,
    names: [Option<&'a str>; 3],
    model_type: Option<&'a str>,
    /// The configuration, as far as the class determines it.
    config: &'a Json,
    facts: Option<&'a dyn CheckpointFacts>,
    known: BTreeMap<&'a str, Value>,
    /// The elements of tensors that the file has only as metadata.
    tensors: BTreeMap<String, (Shape, f64)>,
    /// Known elements of lists that are not known completely.
    elements: BTreeMap<&'a str, BTreeMap<u64, Value>>,
    steps: Rc<Cell<u64>>,
    assumes: bool,
    certain: OnceCell<Parameters>,
    assumed: OnceCell<Parameters>,
}

impl<'a> Solver<'a> {
    pub(super) fn new(
        architecture: &'a Architecture,
        kind: &'a CheckpointKind,
        class: &'a str,
        model_type: Option<&'a str>,
        config: &'a Json,
        facts: Option<&'a dyn CheckpointFacts>,
    ) -> Self {
        let class = Some(class).filter(|class| !class.is_empty());
        Self {
            architecture,
            kind,
            names: [class, class, model_type],
            model_type,
            config,
            facts,
            known: BTreeMap::new(),
            tensors: BTreeMap::new(),
            elements: BTreeMap::new(),
            steps: Rc::new(Cell::new(Scope::FUEL)),
            assumes: false,
            certain: OnceCell::new(),
            assumed: OnceCell::new(),
        }
    }

    /// Solves all expressions of the description.
    pub(super) fn solve(
        &mut self,
        values: &ValueReader<'_>,
        tensors: &[(&str, Shape)],
        read: &Read<'_>,
    ) {
        self.restored(values, tensors, read);
        if let Some(when) = &self.kind.when {
            when.require(&Value::Bool(true), &[], self);
        }
        // First without assumptions; then assume defaults for what remains unknown.
        for assumes in [false, false, true, true] {
            self.assumes = assumes;
            self.keys(values);
            self.tensors(tensors, read);
        }
        self.remarks();
        self.rest(values);
    }

    /// Evaluates the `restored` expressions of the description.
    fn restored(&mut self, values: &ValueReader<'_>, tensors: &[(&str, Shape)], read: &Read<'_>) {
        let architecture = self.architecture;
        if architecture.parameters.iter().all(|parameter| parameter.restored.is_none()) {
            return;
        }
        let parameters = architecture.parameters_of(values.entries, &[], self.names);
        let steps = Cell::new(self.steps.get());
        let file = FileFacts { shapes: tensors.iter().copied().collect(), read };
        let purpose = Purpose::Checkpoint(Some(&file));
        let scope = Scope::new(&parameters, &steps).for_purpose(purpose);
        for parameter in &architecture.parameters {
            let restored = parameter.restored.as_ref();
            if let Some(value) = restored.and_then(|restored| restored.evaluate(&scope).ok()) {
                self.set(&parameter.name, None, &value);
            }
        }
        self.steps.set(steps.get());
    }

    /// Excludes configurations that the description rejects.
    fn remarks(&mut self) {
        let architecture = self.architecture;
        for remark in architecture.refuse.iter().chain(&architecture.contradictions) {
            if remark.when.known(&[], self, true) != Some(Value::Bool(false)) {
                remark.when.require(&Value::Bool(false), &[], self);
            }
        }
    }

    fn keys(&mut self, values: &ValueReader<'_>) {
        let architecture = self.architecture;
        for key in architecture.keys.iter().filter(|key| key.stage != RawStage::Never) {
            let (Some(expression), Some(value)) = (&key.value, values.get(&key.name)) else {
                continue;
            };
            // If a key has several definitions, skip those whose condition is known to be false.
            let is_out = |template: &KeyTemplate, unknowns: &mut Self| {
                template.when.known(&[], unknowns, false) == Some(Value::Bool(false))
            };
            let text = |key: &'a KeyTemplate| key.value.as_ref().map(Expression::text);
            let mut others = architecture
                .keys
                .iter()
                .filter(|other| other.name == key.name && text(other) != text(key));
            if is_out(key, self) && others.any(|other| !is_out(other, self)) {
                continue;
            }
            expression.require(&value, &[], self);
            key.when.require(&Value::Bool(true), &[], self);
        }
        self.complete_lists();
    }

    fn tensors(&mut self, tensors: &[(&str, Shape)], read: &Read<'_>) {
        let architecture = self.architecture;
        for (name, shape) in tensors {
            for claim in architecture.groups.iter().flat_map(|group| group.claims(name)) {
                let variables = &claim.variables;
                let applies = claim.conditions.iter().all(|condition| {
                    condition.known(variables, self, false) != Some(Value::Bool(false))
                });
                if !applies {
                    continue;
                }
                for condition in claim.conditions {
                    condition.require(&Value::Bool(true), variables, self);
                }
                let extents = shape.dimensions().iter().copied().chain(core::iter::repeat(1));
                for (dimension, extent) in claim.shape.iter().zip(extents) {
                    if let Ok(extent) = i64::try_from(extent) {
                        dimension.require(&Value::Int(extent), variables, self);
                    }
                }
                if let Some((computed, elements)) = claim.computed.zip(read(name)) {
                    let elements = elements.into_iter().map(f64::from).map(Value::Float);
                    let elements = shortest(&Value::List(elements.collect()));
                    computed.require(&elements, variables, self);
                }
            }
        }
        self.complete_lists();
        // The presence of a tensor determines the condition under which it is required.
        for (name, required) in architecture.groups.iter().flat_map(TensorGroup::of_whole) {
            let is_there = tensors.iter().any(|(known, _)| *known == name);
            if required.known(&[], self, false).is_none() {
                required.require(&Value::Bool(is_there), &[], self);
            }
        }
    }

    /// Sets hyperparameters that no expression determined, from the keys that readers of files use.
    fn rest(&mut self, values: &ValueReader<'_>) {
        let architecture = self.architecture;
        for parameter in &architecture.parameters {
            let is_open = !self.known.contains_key(&*parameter.name) && !parameter.from.is_empty();
            let may_lack = parameter.optional || self.default_of(parameter).is_some();
            if !is_open || may_lack && parameter.in_file.is_none() {
                continue;
            }
            let found = parameter.keys.iter().find_map(|place| match place {
                ParameterKey::Value(key) => values.get(key),
                ParameterKey::Count(_) | ParameterKey::Blocks(_) => None,
            });
            // The default of readers of files.
            let found = found.or_else(|| parameter.in_file.as_ref()?.known(&[], self, true));
            let found = found.filter(|found| !may_lack || found.as_bool().is_some());
            if let Some(found) = found {
                self.set(&parameter.name, None, &found);
            }
        }
    }

    /// Returns the known hyperparameters that have a path in a configuration.
    pub(super) fn found(&self) -> impl Iterator<Item = (&'a Parameter, Value)> {
        let parameters = self.architecture.parameters.iter();
        parameters
            .filter(|parameter| !parameter.from.is_empty())
            .filter_map(|parameter| Some((parameter, self.known.get(&*parameter.name)?.clone())))
    }

    /// Returns the checkpoint tensors with one element that the keys of the file determine.
    pub(super) fn into_tensors(self) -> BTreeMap<String, (Shape, f64)> {
        self.tensors
    }

    /// Sets lists whose elements are known from the first one on.
    fn complete_lists(&mut self) {
        for (name, elements) in core::mem::take(&mut self.elements) {
            let is_whole = (0u64..).zip(elements.keys()).all(|(place, known)| place == *known);
            let parameter = self.architecture.parameters.iter().find(|known| *known.name == *name);
            if is_whole && !self.known.contains_key(name) {
                let elements: Vec<Value> = elements.into_values().collect();
                let value = match &*elements {
                    // If only the first element is used, it is the value for all blocks.
                    [one] if parameter.is_some_and(|it| it.kind.accept(one).is_some()) => {
                        one.clone()
                    }
                    _ => Value::List(elements.into()),
                };
                self.known.insert(name, value);
                self.forget();
            }
        }
    }

    fn forget(&mut self) {
        (self.certain, self.assumed) = (OnceCell::new(), OnceCell::new());
    }

    fn default_of(&self, parameter: &'a Parameter) -> Option<&'a Expression> {
        let of_kind = self.kind.defaults.iter().find(|(name, _)| *name == parameter.name);
        of_kind.map(|(_, default)| default).or(parameter.default.as_ref())
    }

    fn values(&self, assume: bool) -> Parameters {
        let steps = Cell::new(self.steps.get());
        let name = |value: &str| Value::Str(value.into());
        let mut parameters: Vec<(Box<str>, Value)> = IMPLICIT
            .into_iter()
            .zip(self.names)
            .map(|(implicit, value)| (implicit.into(), value.map_or(Value::None, name)))
            .collect();
        let config = Config::new(self.config).with_class_defaults(self.kind.class_defaults);
        for parameter in &self.architecture.parameters {
            let known = self.known.get(&*parameter.name).cloned();
            let is_open = assume || parameter.from.is_empty();
            let of_class = || {
                let (found, _) = config.lookup(parameter).ok()??;
                parameter.kind.accept(&found)
            };
            let of_default = || {
                let scope = Scope::new(&parameters, &steps).for_purpose(self.purpose());
                let value = self.default_of(parameter)?.evaluate(&scope).ok()?;
                parameter.kind.accept(&value)
            };
            let value = known.or_else(|| {
                let found = is_open.then(|| {
                    let given = if assume { of_class() } else { None };
                    given.or_else(of_default)
                });
                found.flatten().or_else(|| assume.then_some(Value::None))
            });
            parameters.extend(value.map(|value| (parameter.name.clone(), value)));
        }
        self.steps.set(steps.get());
        parameters.into()
    }
}

impl Unknowns for Solver<'_> {
    fn parameters(&mut self, assume: bool) -> Parameters {
        let cell = if assume { &self.assumed } else { &self.certain };
        cell.get_or_init(|| self.values(assume)).clone()
    }

    fn steps(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.steps)
    }

    fn purpose(&self) -> Purpose<'_> {
        Purpose::Checkpoint(Some(self.facts.unwrap_or(&NoFacts)))
    }

    fn set(&mut self, name: &str, element: Option<u64>, value: &Value) {
        let architecture = self.architecture;
        let Some(parameter) = architecture.parameters.iter().find(|known| *known.name == *name)
        else {
            return;
        };
        if !value.is_some() {
            return;
        }
        if self.known.contains_key(&*parameter.name) {
            // The hyperparameters in its default may still be unknown.
            if parameter.from.is_empty()
                && self.known.get(&*parameter.name) == Some(value)
                && let Some(default) = self.default_of(parameter)
            {
                default.require(value, &[], self);
            }
            return;
        }
        if let (Some(place), true) = (element, parameter.kind.can_be_list()) {
            let elements = self.elements.entry(&parameter.name).or_default();
            elements.entry(place).or_insert_with(|| value.clone());
            return;
        }
        let value = match value {
            // A size that was computed with rounding errors.
            Value::Float(number) => {
                let near = Value::Float(number.round());
                parameter.kind.accept(value).or_else(|| {
                    let is_near = (number - number.round()).abs() <= 1e-6 * number.abs();
                    is_near.then(|| parameter.kind.accept(&near)).flatten()
                })
            }
            _ => parameter.kind.accept(value),
        };
        let Some(value) = value else { return };
        self.known.insert(&parameter.name, value.clone());
        self.forget();
        if parameter.from.is_empty()
            && let Some(default) = self.default_of(parameter)
        {
            default.require(&value, &[], self);
        }
    }

    fn set_tensor(&mut self, name: String, is_scalar: bool, value: &Value) {
        let shape = Shape::new(if is_scalar { &[] } else { &[1] });
        if let (Some(number), Ok(shape)) = (value.as_f64(), shape) {
            self.tensors.entry(name).or_insert((shape, number));
        }
    }

    fn may_assume(&self) -> bool {
        self.assumes
    }

    fn other_word(&self, name: &str, than: &str) -> Value {
        /// Common values of layer types.
        const USUAL: [&str; 2] = ["full_attention", "linear_attention"];
        let keys = self.architecture.keys.iter().filter_map(|key| key.value.as_ref());
        let parameters = &self.architecture.parameters;
        let defaults = parameters.iter().filter_map(|parameter| parameter.default.as_ref());
        let own = parameters.iter().filter(|parameter| *parameter.name == *name);
        let own = own.filter_map(|parameter| parameter.default.as_ref());
        let about = keys.chain(defaults).filter(|expression| expression.names().contains(&name));
        let words = own.chain(about).flat_map(Expression::words).chain(USUAL);
        let other = words.into_iter().find(|word| *word != than).unwrap_or_default();
        Value::Str(other.into())
    }

    fn rank(&self, name: &str) -> i32 {
        let parameters = &self.architecture.parameters;
        let Some(parameter) = parameters.iter().find(|known| *known.name == *name) else {
            return i32::MIN;
        };
        if !parameter.from.is_empty() {
            return places::rank(parameter, self.model_type);
        }
        let names = parameter.default.as_ref().map(Expression::names).unwrap_or_default();
        let own = |name: &&str| **name != *parameter.name;
        names.into_iter().filter(own).map(|name| self.rank(name)).max().unwrap_or(-1)
    }
}
