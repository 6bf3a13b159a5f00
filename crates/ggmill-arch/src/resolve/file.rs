//! The finished file according to a description.

use core::cell::Cell;

use ggmill_core::{Metadata, MetadataBuf, ValueType};

use crate::data::schema::RawRequired;
use crate::description::architecture::Architecture;
use crate::error::Result;
use crate::language::expression::{Expression, Scope};
use crate::parameters::ParameterSource;
use crate::parameters::declared::IMPLICIT;
use crate::parameters::entries::Entries;
use crate::parameters::key_template::KeyTemplate;
use crate::reference::requirement::SpecifiedKey;
use crate::resolve::Resolved;
use crate::value::ParameterValue;

/// Who requires that a file has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Demand {
    /// The specification lists it among those that must be present; the loader takes a default.
    Specification,
    /// The loader refuses a file without it; the specification does not list it.
    Loader,
    /// Both.
    Both,
}

impl Demand {
    /// Whether the loader refuses a file without the key.
    pub fn is_by_loader(self) -> bool {
        matches!(self, Self::Loader | Self::Both)
    }
}

/// A key of a file, as a description says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeySpec<'a> {
    /// The whole key, such as `llama.block_count`.
    pub name: &'a str,
    /// The type of a single value, when it can be one.
    pub single: Option<ValueType>,
    /// The type of the elements, when it can be a list.
    pub element: Option<ValueType>,
    /// Whether a file must have it, and who says so. A condition may lift that for some models.
    pub demand: Option<Demand>,
}

impl KeyTemplate {
    pub(crate) fn spec(&self) -> KeySpec<'_> {
        KeySpec {
            name: &self.name,
            single: self.key_type.single,
            element: self.key_type.element,
            demand: self.demand(),
        }
    }

    /// What the description says of the loader, and the specification of itself.
    fn demand(&self) -> Option<Demand> {
        let is_specified = SpecifiedKey::of(&self.name).is_some();
        match self.required {
            Some(RawRequired::Loader) if is_specified => Some(Demand::Both),
            Some(RawRequired::Loader) => Some(Demand::Loader),
            Some(RawRequired::Specification) => Some(Demand::Specification),
            None | Some(RawRequired::None) => is_specified.then_some(Demand::Specification),
        }
    }
}

impl Architecture {
    /// Every key the description knows, in its order.
    pub fn keys(&self) -> impl Iterator<Item = KeySpec<'_>> {
        let own = |key: &&KeyTemplate| {
            let is_same = |other: &KeyTemplate| !other.is_further && other.name == key.name;
            !key.is_further || !self.keys.iter().any(is_same)
        };
        self.keys.iter().filter(own).map(KeyTemplate::spec)
    }

    /// Applies the description to a finished file's metadata: every hyperparameter and every tensor
    /// with its numbers.
    ///
    /// Fails as [`resolve`](Self::resolve) does. The keys are the file's own and not derived again:
    /// [`Resolved::keys`] is empty.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// use ggmill_core::{Builder, Header, MetadataBuf};
    /// let mut metadata = MetadataBuf::new();
    /// for (key, value) in [("block_count", 2u32), ("context_length", 64), ("embedding_length", 32), ("feed_forward_length", 96), ("attention.head_count", 4)] {
    ///     metadata.set(&format!("llama.{key}"), value);
    /// }
    /// metadata.set("llama.vocab_size", 100u32);
    /// let file = Builder::new().metadata(metadata).plan()?.header().to_vec();
    /// let file = Header::parse(&file)?;
    /// let llama = Architecture::builtin("llama").ok_or("built in")?;
    /// let model = llama.resolve_file(file.metadata())?;
    /// assert_eq!(model.tensor("blk.1.ffn_up.weight").ok_or("there")?.shape.dimensions(), [32, 96]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resolve_file(&self, metadata: Metadata<'_>) -> Result<Resolved<'_>> {
        self.resolve_entries(&Entries::Read(metadata))
    }

    /// The same of metadata from wherever.
    /// The same of metadata that are yet to be written.
    pub fn resolve_metadata(&self, metadata: &MetadataBuf) -> Result<Resolved<'_>> {
        self.resolve_entries(&Entries::ToWrite(metadata))
    }

    pub(crate) fn resolve_entries(&self, entries: &Entries<'_>) -> Result<Resolved<'_>> {
        Resolved::of_file(self, entries).map_err(|error| error.within(self.name()))
    }

    /// The hyperparameters as far as the metadata give them: what is missing or cannot be is
    /// nothing.
    pub(crate) fn parameters_of(
        &self,
        source: &dyn ParameterSource,
        defaults: &[(Box<str>, Expression)],
        names: [Option<&str>; 3],
    ) -> Vec<(Box<str>, ParameterValue)> {
        let fuel = Cell::new(Scope::FUEL);
        let name = |value: &str| ParameterValue::Str(value.into());
        let mut parameters: Vec<(Box<str>, ParameterValue)> = IMPLICIT
            .into_iter()
            .zip(names)
            .map(|(implicit, value)| (implicit.into(), value.map_or(ParameterValue::None, name)))
            .collect();
        for parameter in &self.parameters {
            let default = defaults.iter().find(|(name, _)| *name == parameter.name);
            let default = default.map(|(_, default)| default);
            let value = parameter
                .resolve(source, default, &Scope::new(&parameters, &fuel))
                .unwrap_or(ParameterValue::None);
            parameters.push((parameter.name.clone(), value));
        }
        parameters
    }

    /// The keys that a file with this metadata must have and has not. Conditions on hyperparameters
    /// that are missing too are taken as met.
    pub fn missing_keys(&self, metadata: Metadata<'_>) -> Vec<KeySpec<'_>> {
        let parameters = self.parameters_of(&Entries::Read(metadata), &[], [None; 3]);
        let fuel = Cell::new(Scope::FUEL);
        let scope = Scope::new(&parameters, &fuel);
        let missing = |template: &&KeyTemplate| {
            template.demand().is_some()
                && metadata.get(&*template.name).is_none()
                && template.when.evaluate_bool(&scope).unwrap_or(true)
        };
        self.keys.iter().filter(missing).map(KeyTemplate::spec).collect()
    }
}
