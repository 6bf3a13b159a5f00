//! Applies descriptions to the metadata of files.

use core::cell::Cell;

use ggmill_core::{Metadata, MetadataBuf, ValueType};

use crate::data::schema::RawRequired;
use crate::description::architecture::Architecture;
use crate::error::Result;
use crate::language::expression::{Expression, Scope};
use crate::parameters::ParameterSource;
use crate::parameters::declared::IMPLICIT;
use crate::parameters::entries::MetadataSource;
use crate::parameters::key::KeyTemplate;
use crate::reference::keys::SpecifiedKey;
use crate::resolve::Resolved;
use crate::value::ParameterValue;

/// The program or document that requires a key of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RequiredBy {
    /// The specification lists it as required; the loader has a default.
    Specification,
    /// The loader rejects a file without it; the specification does not list it.
    Loader,
    /// Both the specification and the loader require it.
    Both,
}

impl RequiredBy {
    /// Returns `true` if the loader rejects a file without the key.
    pub fn includes_loader(self) -> bool {
        matches!(self, Self::Loader | Self::Both)
    }
}

/// A metadata key in a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeySpec<'a> {
    /// The full key, such as `llama.block_count`.
    pub name: &'a str,
    /// The type of a single value, if it can be one.
    pub single: Option<ValueType>,
    /// The type of list elements, if it can be a list.
    pub element: Option<ValueType>,
    /// The requirement, if the key is required. A condition may exempt some models.
    pub required_by: Option<RequiredBy>,
}

impl KeyTemplate {
    pub(crate) fn spec(&self) -> KeySpec<'_> {
        KeySpec {
            name: &self.name,
            single: self.key_type.single,
            element: self.key_type.element,
            required_by: self.required_by(),
        }
    }

    /// Combines the requirements in the description and in the specification.
    fn required_by(&self) -> Option<RequiredBy> {
        let is_specified = SpecifiedKey::of(&self.name).is_some();
        match self.required {
            Some(RawRequired::Loader) if is_specified => Some(RequiredBy::Both),
            Some(RawRequired::Loader) => Some(RequiredBy::Loader),
            Some(RawRequired::Specification) => Some(RequiredBy::Specification),
            None | Some(RawRequired::None) => is_specified.then_some(RequiredBy::Specification),
        }
    }
}

impl Architecture {
    /// Returns all keys of the description, in its order.
    pub fn keys(&self) -> impl Iterator<Item = KeySpec<'_>> {
        let own = |key: &&KeyTemplate| {
            let is_same = |other: &KeyTemplate| !other.is_further && other.name == key.name;
            !key.is_further || !self.keys.iter().any(is_same)
        };
        self.keys.iter().filter(own).map(KeyTemplate::spec)
    }

    /// Applies the description to the metadata of a file.
    ///
    /// Fails like [`resolve`](Self::resolve). [`Resolved::keys`] is empty, because the file has its
    /// keys already.
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
        self.resolve_entries(&MetadataSource::File(metadata))
    }

    /// Like [`resolve_file`](Self::resolve_file), for metadata of a file to be written.
    pub fn resolve_metadata(&self, metadata: &MetadataBuf) -> Result<Resolved<'_>> {
        self.resolve_entries(&MetadataSource::Buffer(metadata))
    }

    pub(crate) fn resolve_entries(&self, entries: &MetadataSource<'_>) -> Result<Resolved<'_>> {
        Resolved::of_file(self, entries).map_err(|error| error.within(self.name()))
    }

    /// Returns the hyperparameters that the source determines. Missing and invalid ones are `none`.
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

    /// Returns the keys that a file with this metadata must have and does not have. Conditions that
    /// cannot be evaluated count as met.
    pub fn missing_keys(&self, metadata: Metadata<'_>) -> Vec<KeySpec<'_>> {
        let parameters = self.parameters_of(&MetadataSource::File(metadata), &[], [None; 3]);
        let fuel = Cell::new(Scope::FUEL);
        let scope = Scope::new(&parameters, &fuel);
        let missing = |template: &&KeyTemplate| {
            template.required_by().is_some()
                && metadata.get(&*template.name).is_none()
                && template.when.evaluate_bool(&scope).unwrap_or(true)
        };
        self.keys.iter().filter(missing).map(KeyTemplate::spec).collect()
    }
}
