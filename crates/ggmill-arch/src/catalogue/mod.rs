//! The catalogue of descriptions, and the lookup by checkpoint.

pub(crate) mod builtin;
pub(crate) mod directory;
pub(crate) mod start;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ggmill_core::{Metadata, keys};
use serde_json::Value as Json;

use crate::data::coded::CHECKPOINTS;
use crate::data::tables::Refused;
use crate::data::{self, table};
use crate::description::architecture::Architecture;
use crate::error::{Error, ErrorKind, Result, quoted};
use crate::parameters::config::{Config, json_type};
use crate::spelling::distance;

/// The built-in descriptions and descriptions that a user adds. A user's description takes precedence
/// over a built-in one for the same checkpoint or name.
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
    added_projectors: Vec<Architecture>,
}

impl Catalogue {
    /// Returns a catalogue of the built-in descriptions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a description with precedence over all others.
    #[must_use]
    pub fn with(mut self, architecture: Architecture) -> Self {
        let added =
            if architecture.is_projector() { &mut self.added_projectors } else { &mut self.added };
        added.push(architecture);
        self
    }

    /// Returns all descriptions of models in order of precedence.
    pub fn architectures(&self) -> impl Iterator<Item = &Architecture> {
        self.added
            .iter()
            .rev()
            .chain(Architecture::builtins().map(|builtin| -> &Architecture { builtin }))
    }

    /// Returns all descriptions of projectors in order of precedence.
    pub fn projectors(&self) -> impl Iterator<Item = &Architecture> {
        let builtins = Architecture::projectors().map(|builtin| -> &Architecture { builtin });
        self.added_projectors.iter().rev().chain(builtins)
    }

    /// Returns the descriptions that may be for a checkpoint with this configuration.
    fn marked(&self, config: &Config<'_>, projectors: bool) -> impl Iterator<Item = &Architecture> {
        let names = [config.class(), config.whole_class(), config.model_type()];
        let is_mark = move |mark: &str| names.contains(&Some(mark)) || config.has(mark);
        let added = if projectors { &self.added_projectors } else { &self.added };
        let added = added.iter().rev().filter(move |added| added.marks().any(is_mark));
        let builtins = Architecture::builtins_marked(projectors, is_mark);
        added.chain(builtins.map(|builtin| -> &Architecture { builtin }))
    }

    /// Returns the description of the architecture with this name.
    pub fn by_name(&self, name: &str) -> Option<&Architecture> {
        self.added
            .iter()
            .rev()
            .find(|architecture| architecture.name() == name)
            .or_else(|| Architecture::builtin(name))
    }

    /// Returns the description of the architecture that `general.architecture` names.
    ///
    /// ```
    /// # let mut metadata = ggmill_core::MetadataBuf::new();
    /// # metadata.set("general.architecture", "llama");
    /// # let file = ggmill_core::Builder::new().metadata(metadata).plan()?.header().to_vec();
    /// use ggmill_arch::Catalogue;
    /// let model = ggmill_core::Model::open(file)?;
    /// let catalogue = Catalogue::new();
    /// let description = catalogue.for_metadata(model.metadata()).ok_or("not described")?;
    /// assert_eq!(description.name(), "llama");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_metadata(&self, metadata: Metadata<'_>) -> Option<&Architecture> {
        self.by_name(metadata.str(keys::GENERAL_ARCHITECTURE).ok()?)
    }

    /// Returns the description for a checkpoint with this `config.json`: by the first class in
    /// `architectures`, or by `model_type` if it names no class.
    pub fn for_checkpoint(&self, config: &Json) -> Result<&Architecture> {
        self.of_checkpoint(config, false)
    }

    /// Returns the description of the projector of a multimodal checkpoint with this `config.json`: by
    /// the class of its vision tower if it names one, or else by the class of the model.
    ///
    /// ```
    /// use ggmill_arch::Catalogue;
    /// let catalogue = Catalogue::new();
    /// let config = serde_json::json!({ "architectures": ["Gemma3ForConditionalGeneration"] });
    /// assert_eq!(catalogue.for_projector(&config)?.name(), "clip");
    /// let config = serde_json::json!({ "architectures": ["LlamaForCausalLM"] });
    /// assert!(catalogue.for_projector(&config).is_err());
    /// # Ok::<(), ggmill_arch::Error>(())
    /// ```
    pub fn for_projector(&self, config: &Json) -> Result<&Architecture> {
        self.of_checkpoint(config, true)
    }

    fn of_checkpoint(&self, config: &Json, projector: bool) -> Result<&Architecture> {
        if !CHECKPOINTS {
            let message = "ggmill-arch was built without its feature checkpoints";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if !config.is_object() {
            return Err(Error::new(
                ErrorKind::Configuration,
                format!("config.json is {}, expected an object", json_type(config)),
            ));
        }
        let (whole, config) = (config, Config::of(config, projector));
        let known = |is_whole: bool| {
            self.marked(&config, projector).find(|architecture| {
                architecture.checkpoint_kind(&config).is_some_and(|kind| kind.whole == is_whole)
            })
        };
        // A description for the top-level class takes precedence over one for a section's class.
        let found = known(true).or_else(|| known(false));
        found.ok_or_else(|| {
            if let Some(class) = config.class().filter(|_| projector && !has_towers(whole))
                && self.for_checkpoint(whole).is_ok()
            {
                let message = format!(
                    "the checkpoint has no image or audio tower: {} is a class of language models, \
                     and config.json describes no tower",
                    quoted(class)
                );
                return Error::new(ErrorKind::Configuration, message);
            }
            let refused = [config.class(), config.whole_class()].into_iter().flatten();
            let mut refused = refused.filter_map(|class| Some((class, reason(class, projector)?)));
            if let Some((class, reason)) = refused.next() {
                let message = format!("class {} is not converted: {reason}", quoted(class));
                return Error::new(ErrorKind::Unsupported, message);
            }
            let what = if projector { "no description of a projector" } else { "no description" };
            let named = match (config.class(), config.model_type()) {
                (Some(class), _) => {
                    format!("{what} is for checkpoints of class {}", quoted(class))
                }
                (None, Some(model_type)) => {
                    format!("{what} is for checkpoints of model type {}", quoted(model_type))
                }
                (None, None) => "config.json names neither architectures nor model_type".into(),
            };
            let wanted = config.class().or(config.model_type()).unwrap_or_default();
            Error::new(ErrorKind::Unknown, format!("{named}; {}", self.nearest(wanted, projector)))
        })
    }

    /// Returns the most similar known class names, as a sentence with the number of all classes.
    fn nearest(&self, wanted: &str, projector: bool) -> String {
        const NAMED: usize = 3;
        /// The maximum compared length of a name: no class name is longer, but an untrusted one may be.
        const COMPARED: usize = 96;
        let wanted = wanted.as_bytes();
        let wanted = wanted.get(..COMPARED).unwrap_or(wanted);
        let (models, projectors) = (self.architectures(), self.projectors());
        let mut known: Vec<(usize, &str)> = models
            .filter(|_| !projector)
            .chain(projectors.filter(|_| projector))
            .flat_map(Architecture::checkpoint_classes)
            .map(|class| (distance(class.as_bytes(), wanted), class))
            .collect();
        known.sort_unstable();
        known.dedup();
        let named: Vec<&str> = known.iter().take(NAMED).map(|&(_, class)| class).collect();
        format!(
            "of the {} classes that have one, the names most similar are {}",
            known.len(),
            named.join(", ")
        )
    }
}

/// Returns `true` if a configuration has members for images or audio.
fn has_towers(config: &Json) -> bool {
    const WORDS: [&str; 4] = ["vision", "visual", "image", "audio"];
    let members = config.as_object().into_iter().flatten();
    members
        .filter(|(_, value)| !value.is_null())
        .any(|(name, _)| WORDS.iter().any(|word| name.contains(word)))
}

/// Lookups that decode only the built-in descriptions that they return: decoding all of them takes a second
/// in a debug build.
impl Catalogue {
    /// Returns the names of the descriptions of models in order of precedence.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let builtins = Architecture::builtin_names().map(|name| -> &str { name });
        self.added.iter().rev().map(Architecture::name).chain(builtins)
    }

    /// Returns the descriptions of models with a checkpoint class that `is_class` accepts, each with
    /// this class, in order of precedence.
    pub fn by_class(
        &self,
        is_class: impl Fn(&str) -> bool + Copy,
    ) -> impl Iterator<Item = (&Architecture, &str)> {
        let builtins = Architecture::builtins_marked(false, is_class);
        let builtins = builtins.map(|builtin| -> &Architecture { builtin });
        self.added.iter().rev().chain(builtins).filter_map(move |architecture| {
            let class = architecture.checkpoint_classes().find(|class| is_class(class))?;
            Some((architecture, class))
        })
    }
}

static REFUSED: LazyLock<Refused> = LazyLock::new(|| table(data::REFUSED));

fn list(projectors: bool) -> &'static BTreeMap<String, String> {
    if projectors { &REFUSED.projectors } else { &REFUSED.models }
}

/// Returns the reason why checkpoints of this class are not converted; `None` if the class is not
/// listed.
pub(crate) fn reason(class: &str, projectors: bool) -> Option<&'static str> {
    list(projectors).get(class).map(String::as_str)
}

/// Returns the known checkpoint classes without a description, of models or of projectors, with
/// reasons.
///
/// ```
/// let mut models = ggmill_arch::refused_classes(false);
/// assert!(models.any(|(class, _)| class == "PocketTTSModel"));
/// ```
pub fn refused_classes(projectors: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    list(projectors).iter().map(|(class, reason)| (&**class, &**reason))
}
