//! `merge_lora`: merges LoRA adapters into the weights of a model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ggmill_edit::{LoraAdapter, merge_adapters};
use ggmill_pipeline::{GgufCheckpoint, Joined, Recipe, ShardLimit, SplitOptions};

use crate::open::refuse_interrupted;
use crate::output::{Destination, ToPlan};
use crate::progress::{Call, call_options};
use crate::{Error, Model, Planned, Result, Written};

/// Merges LoRA adapters into a model. The tensors keep their types.
///
/// A weight `W` becomes `W + scale * alpha / rank * B * A`, summed over the adapters in F32 and
/// encoded once, in the type of `W`. Tensors that no adapter changes are copied byte for byte.
///
/// ```no_run
/// let (base, adapter) = (ggmill::Model::open("model.gguf")?, ggmill::Model::open("lora.gguf")?);
/// ggmill::merge_lora(&base)?.adapter(&adapter, 0.7)?.write("merged.gguf")?;
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn merge_lora<'a>(base: &Model) -> Result<MergeLora<'a>> {
    Ok(MergeLora {
        base: base.checkpoint()?,
        inputs: base.files(),
        call: Call::default(),
        adapters: Vec::new(),
        split: None,
    })
}

/// The options of [`merge_lora()`].
#[derive(Debug)]
pub struct MergeLora<'a> {
    base: GgufCheckpoint,
    inputs: Vec<PathBuf>,
    call: Call<'a>,
    adapters: Vec<(GgufCheckpoint, f32)>,
    split: Option<SplitOptions>,
}

impl<'a> MergeLora<'a> {
    call_options!(overwrite, encoding);

    /// Adds an adapter in GGUF, and its scale.
    pub fn adapter(mut self, adapter: &Model, scale: f32) -> Result<Self> {
        self.adapters.push((adapter.checkpoint()?, scale));
        self.inputs.extend(adapter.files());
        Ok(self)
    }

    /// Writes shards up to this limit; the output is the prefix of their names.
    #[must_use]
    pub fn split(mut self, limit: ShardLimit) -> Self {
        self.split = Some(SplitOptions::new(limit));
        self
    }

    /// Writes the model: `plan(out)?.write()`.
    pub fn write(self, out: impl AsRef<Path>) -> Result<Written> {
        self.plan(out)?.write()
    }

    /// Plans the model, and writes nothing.
    pub fn plan(self, out: impl AsRef<Path>) -> Result<Planned<'a>> {
        let Self { base, inputs, call, adapters: files, split } = self;
        refuse_interrupted(&inputs)?;
        let destination = Destination::new(out.as_ref(), split.is_some());
        destination.check(&inputs, call.overwrite)?;
        // The hints of quantization name options that this verb lacks.
        let refused = |error: ggmill_pipeline::Error| Error::from(error).replace_hint(None);
        let recipe = merged(&base, &files).map_err(refused)?;
        // The sources in the order in which the merge joined them.
        let mut sources = Joined::new();
        sources.add_shared(Arc::new(base));
        for (file, _) in files {
            sources.add_shared(Arc::new(file));
        }
        let recipes = match &split {
            Some(split) => recipe.split(split).map_err(refused)?,
            None => vec![recipe],
        };
        Planned::new(ToPlan::new(recipes, sources, destination, inputs), call)
    }
}

fn merged(
    base: &GgufCheckpoint,
    files: &[(GgufCheckpoint, f32)],
) -> ggmill_pipeline::Result<Recipe> {
    let open = files.iter().map(|(file, _)| LoraAdapter::new(file));
    let adapters: Vec<LoraAdapter<'_>> = open.collect::<Result<_, _>>()?;
    let scales = files.iter().map(|(_, scale)| *scale);
    let weighted: Vec<(&LoraAdapter<'_>, f32)> = adapters.iter().zip(scales).collect();
    merge_adapters(base, &weighted).map(|(recipe, _)| recipe)
}
