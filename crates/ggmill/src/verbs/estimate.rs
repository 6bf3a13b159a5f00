//! `estimate`: estimates the memory that a model needs to run.

use ggmill_arch::{Architecture, Catalogue};
use ggmill_core::{GgmlType, keys};
use ggmill_estimate::{Companions, FlashAttention, Options, Placement, TensorOverride};

use crate::error::Kind;
use crate::{Error, Hint, Model, Result};

/// Estimates the memory that a model needs to run, by device and purpose. Only the header is read.
///
/// ```no_run
/// let model = ggmill::Model::open("model.gguf")?;
/// let found = ggmill::estimate(&model)?.context(8192).gpu_layers(u64::MAX).run()?;
/// println!("{} bytes", found.estimate.total());
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn estimate(model: &Model) -> Result<Estimate> {
    Ok(Estimate {
        model: model.clone(),
        options: Options::default(),
        gpu_layers: 0,
        tensor_split: Vec::new(),
        overrides: Vec::new(),
        context_on_host: false,
        projector: None,
        adapters: Vec::new(),
        draft: None,
        catalogue: Catalogue::new(),
    })
}

/// The options of [`estimate()`]. The defaults are those of llama.cpp without GPUs.
#[derive(Clone, Debug)]
pub struct Estimate {
    model: Model,
    options: Options,
    gpu_layers: u64,
    tensor_split: Vec<f32>,
    overrides: Vec<TensorOverride>,
    context_on_host: bool,
    projector: Option<Model>,
    adapters: Vec<Model>,
    draft: Option<Model>,
    catalogue: Catalogue,
}

impl Estimate {
    /// Sets the context length in tokens, for all sequences together. The default is the length with
    /// which the model was trained.
    #[must_use]
    pub fn context(mut self, tokens: u64) -> Self {
        self.options.context = Some(tokens);
        self
    }

    /// Sets the number of tokens of a logical batch.
    #[must_use]
    pub fn batch(mut self, tokens: u64) -> Self {
        self.options.batch = tokens;
        self
    }

    /// Sets the number of tokens of a physical batch, which are computed together.
    #[must_use]
    pub fn micro_batch(mut self, tokens: u64) -> Self {
        self.options.micro_batch = tokens;
        self
    }

    /// Sets the number of parallel sequences.
    #[must_use]
    pub fn sequences(mut self, count: u64) -> Self {
        self.options.sequences = count;
        self
    }

    /// Uses one KV cache for all sequences.
    #[must_use]
    pub fn unified(mut self, unified: bool) -> Self {
        self.options.unified = unified;
        self
    }

    /// Sets the type of cached keys.
    #[must_use]
    pub fn key_type(mut self, ggml_type: GgmlType) -> Self {
        self.options.key_type = ggml_type;
        self
    }

    /// Sets the type of cached values.
    #[must_use]
    pub fn value_type(mut self, ggml_type: GgmlType) -> Self {
        self.options.value_type = ggml_type;
        self
    }

    /// Sets whether flash attention is used. By default it is if the architecture supports it.
    #[must_use]
    pub fn flash_attention(mut self, when: FlashAttention) -> Self {
        self.options.flash_attention = when;
        self
    }

    /// Caches the whole context in layers with sliding-window attention, too.
    #[must_use]
    pub fn full_windows(mut self, full: bool) -> Self {
        self.options.full_windows = full;
        self
    }

    /// Sets the number of layers on GPUs, counted from the last. The output layer counts as one; a
    /// number above the model's selects all layers.
    #[must_use]
    pub fn gpu_layers(mut self, layers: u64) -> Self {
        self.gpu_layers = layers;
        self
    }

    /// Sets the proportions in which the layers are divided among GPUs. The default is one GPU.
    #[must_use]
    pub fn tensor_split(mut self, shares: impl Into<Vec<f32>>) -> Self {
        self.tensor_split = shares.into();
        self
    }

    /// Places tensors on devices by their names. The first rule that matches wins.
    #[must_use]
    pub fn tensor_overrides(mut self, rules: impl IntoIterator<Item = TensorOverride>) -> Self {
        self.overrides.extend(rules);
        self
    }

    /// Keeps KV caches and recurrent states in host memory.
    #[must_use]
    pub fn context_on_host(mut self, on_host: bool) -> Self {
        self.context_on_host = on_host;
        self
    }

    /// Adds a multimodal projector, which is loaded with the model.
    #[must_use]
    pub fn projector(mut self, projector: &Model) -> Self {
        self.projector = Some(projector.clone());
        self
    }

    /// Adds an adapter, which is loaded with the model.
    #[must_use]
    pub fn adapter(mut self, adapter: &Model) -> Self {
        self.adapters.push(adapter.clone());
        self
    }

    /// Adds a draft model for speculative decoding, which is run with the same options.
    #[must_use]
    pub fn draft(mut self, draft: &Model) -> Self {
        self.draft = Some(draft.clone());
        self
    }

    /// Reads descriptions of architectures, in addition to the built-in ones.
    #[cfg(feature = "files")]
    pub fn architectures(mut self, paths: &[std::path::PathBuf]) -> Result<Self> {
        let read = crate::read_architectures(paths)?;
        self.catalogue = read.into_iter().fold(self.catalogue, Catalogue::with);
        Ok(self)
    }

    /// Estimates the memory for these options. Anything that cannot be estimated is listed instead.
    ///
    /// Fails for a projector, adapter or draft model that is another kind of file.
    pub fn run(&self) -> Result<Estimated> {
        self.check_kinds()?;
        let options = self.options();
        let estimate = self
            .companions()
            .estimate(self.model.core(), self.description(&self.model), &options)
            .map_err(|error| self.model.located(error))?;
        Ok(Estimated { options, estimate })
    }

    /// Estimates the largest configuration that fits into GPUs with these sizes, in bytes: with a
    /// [`context`](Self::context) the maximum number of layers; otherwise the longest context with all
    /// layers or, if that is below 4096 tokens, the maximum number of layers.
    pub fn fit(&self, sizes: &[u64]) -> Result<Estimated> {
        self.check_kinds()?;
        let (core, description) = (self.model.core(), self.description(&self.model));
        let found =
            ggmill_estimate::fit(core, description, &self.options(), sizes, &self.companions())
                .map_err(|error| self.model.located(error))?;
        let Some(found) = found else {
            let message =
                "the sizes of the model's caches are unknown, so what fits cannot be determined";
            let error = Error::new(Kind::Unsupported, "unknown_caches", message);
            let hint = description.is_none().then_some(Hint::DescribeArchitecture);
            return Err(self.model.located(error).with_hint(hint));
        };
        Ok(Estimated { options: found.options, estimate: found.estimate })
    }

    fn options(&self) -> Options {
        let mut options = self.options.clone();
        options.placement =
            Placement::of(self.model.core(), self.gpu_layers, &self.tensor_split, &self.overrides);
        options.placement.context_on_host = self.context_on_host;
        options
    }

    fn check_kinds(&self) -> Result<()> {
        let projector = self.projector.iter().map(|model| (model, Companion::Projector));
        let adapters = self.adapters.iter().map(|model| (model, Companion::Adapter));
        let draft = self.draft.iter().map(|model| (model, Companion::Model));
        for (model, expected) in projector.chain(adapters).chain(draft) {
            let found = Companion::of(model, &self.catalogue);
            if found != expected {
                let message = format_args!("is {}, expected {}", found.name(), expected.name());
                return Err(model.located(Error::misuse(message)));
            }
        }
        Ok(())
    }

    fn companions(&self) -> Companions<'_> {
        let mut companions = Companions::default();
        companions.projector = self.projector.as_ref().map(Model::core);
        companions.adapters = self.adapters.iter().map(Model::core).collect();
        companions.draft = self.draft.as_ref().map(|draft| (draft.core(), self.description(draft)));
        companions
    }

    fn description(&self, model: &Model) -> Option<&Architecture> {
        self.catalogue.for_metadata(model.metadata())
    }
}

/// A kind of file that is loaded with a model.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Companion {
    Model,
    Projector,
    Adapter,
    Other,
}

impl Companion {
    /// Returns the kind of a file, from `general.type` or, in older files, the architecture of a projector or
    /// the key of an adapter.
    fn of(model: &Model, catalogue: &Catalogue) -> Self {
        let metadata = model.metadata();
        let has = |key: &str| metadata.get(key).is_some();
        let is_projector = || {
            let name = metadata.str(keys::GENERAL_ARCHITECTURE).unwrap_or_default();
            catalogue.projectors().any(|projector| projector.name() == name)
        };
        match metadata.str(keys::GENERAL_TYPE) {
            Ok("mmproj") => Self::Projector,
            Ok("adapter") => Self::Adapter,
            Ok("model") => Self::Model,
            Ok(_) => Self::Other,
            Err(_) if has("adapter.type") => Self::Adapter,
            Err(_) if is_projector() => Self::Projector,
            Err(_) => Self::Model,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Model => "a model",
            Self::Projector => "a multimodal projector",
            Self::Adapter => "an adapter",
            Self::Other => "not a model",
        }
    }
}

/// The estimate for a configuration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Estimated {
    /// The configuration.
    pub options: Options,
    /// The estimate.
    pub estimate: ggmill_estimate::Estimate,
}
