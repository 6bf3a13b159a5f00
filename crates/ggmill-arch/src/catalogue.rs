//! All descriptions at hand, and which one a checkpoint needs.

use serde_json::Value as Json;

use crate::architecture::Architecture;
use crate::config::{Config, json_type};
use crate::distance::distance;
use crate::error::{Error, ErrorKind, Result, quoted};

/// The built-in descriptions and those a user adds. A user's goes before a built-in one for the
/// same checkpoint or name.
///
/// ```
/// use ggmill_arch::Catalogue;
/// let catalogue = Catalogue::new();
/// let config = serde_json::json!({ "architectures": ["MistralForCausalLM"] });
/// assert_eq!(catalogue.for_checkpoint(&config)?.name(), "llama");
/// # Ok::<(), ggmill_arch::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    added: Vec<Architecture>,
}

impl Catalogue {
    /// The built-in descriptions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a description, before all that are there.
    #[must_use]
    pub fn with(mut self, architecture: Architecture) -> Self {
        self.added.push(architecture);
        self
    }

    /// Every description, the one added last first.
    pub fn architectures(&self) -> impl Iterator<Item = &Architecture> {
        self.added
            .iter()
            .rev()
            .chain(Architecture::builtins().map(|builtin| -> &Architecture { builtin }))
    }

    /// The descriptions that may be for a checkpoint with this configuration.
    fn marked(&self, config: &Config<'_>) -> impl Iterator<Item = &Architecture> {
        let names = [config.class(), config.whole_class(), config.model_type()];
        let is_mark = move |mark: &str| names.contains(&Some(mark)) || config.has(mark);
        let added = self.added.iter().rev().filter(move |added| added.marks().any(is_mark));
        let builtins = Architecture::builtins_marked(is_mark);
        added.chain(builtins.map(|builtin| -> &Architecture { builtin }))
    }

    /// The description of the architecture with this name.
    pub fn by_name(&self, name: &str) -> Option<&Architecture> {
        self.added
            .iter()
            .rev()
            .find(|architecture| architecture.name() == name)
            .or_else(|| Architecture::builtin(name))
    }

    /// The description for a checkpoint, from its `config.json`: by the first class in
    /// `architectures`, or by `model_type` when no class is named.
    pub fn for_checkpoint(&self, config: &Json) -> Result<&Architecture> {
        if !config.is_object() {
            return Err(Error::new(
                ErrorKind::Configuration,
                format!("config.json is {}, expected an object", json_type(config)),
            ));
        }
        let config = Config::new(config);
        let known = |whole: bool| {
            self.marked(&config).find(|architecture| {
                architecture.checkpoint_kind(&config).is_some_and(|kind| kind.whole == whole)
            })
        };
        // A description for the class of the whole goes before one for that of a part.
        let found = known(true).or_else(|| known(false));
        found.ok_or_else(|| {
            let named = match (config.class(), config.model_type()) {
                (Some(class), _) => {
                    format!("no description is for checkpoints of class {}", quoted(class))
                }
                (None, Some(model_type)) => format!(
                    "no description is for checkpoints of model type {}",
                    quoted(model_type)
                ),
                (None, None) => "config.json names neither architectures nor model_type".into(),
            };
            let wanted = config.class().or(config.model_type()).unwrap_or_default();
            Error::new(ErrorKind::Unknown, format!("{named}; {}", self.nearest(wanted)))
        })
    }

    /// The classes whose names are nearest to this one, and the number of all.
    fn nearest(&self, wanted: &str) -> String {
        const NAMED: usize = 3;
        /// Bytes of a name that are compared: no class has more, and a file can have any number.
        const COMPARED: usize = 96;
        let wanted = wanted.as_bytes();
        let wanted = wanted.get(..COMPARED).unwrap_or(wanted);
        let mut known: Vec<(usize, &str)> = self
            .architectures()
            .flat_map(Architecture::checkpoint_classes)
            .map(|class| (distance(class.as_bytes(), wanted), class))
            .collect();
        known.sort_unstable();
        known.dedup();
        let named: Vec<&str> = known.iter().take(NAMED).map(|&(_, class)| class).collect();
        format!("of {} that have one, the nearest are {}", known.len(), named.join(", "))
    }
}
