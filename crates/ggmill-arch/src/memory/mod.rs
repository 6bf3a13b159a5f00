//! State that a model keeps between tokens, and the weights that are loaded.

pub(crate) mod compute;

use core::cell::Cell;
use std::sync::Arc;

use crate::data::schema::{RawBuild, RawCache, RawExpression, RawMemory, RawState};
use crate::error::{Error, ErrorKind, Result, SubjectKind, quoted};
use crate::language::block::block_of;
use crate::language::expression::{Expression, Scope, condition, expression};
use crate::language::pattern::Glob;
use crate::language::steps::BLOCK_VARIABLE;
use crate::limits::{MAX_ENTRIES, MAX_PARAMETERS, MAX_TENSORS};
use crate::memory::compute::{Build, ComputeGroup, ComputeSpec, Late, Sums};
use crate::parameters::declared::{DeclarationOrder, in_order_of_use, parameters};
use crate::parameters::{Parameter, ParameterSource};
use crate::value::ParameterValue;

/// State that a model keeps between tokens: caches, with data for each token, and states, with data
/// for each sequence. Numbers are counts of elements.
///
/// ```
/// use ggmill_arch::{Architecture, ModelView};
/// use ggmill_core::MetadataBuf;
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.architecture", "llama");
/// for (key, value) in [("block_count", 2u32), ("embedding_length", 64), ("attention.head_count", 8), ("attention.head_count_kv", 2)] {
///     metadata.set(&format!("llama.{key}"), value);
/// }
/// let model = ModelView::of_metadata_to_write(&metadata);
/// let memory = model.described_by(Architecture::builtin("llama")).memory().ok_or("described")??;
/// let block = &memory.caches[0].blocks[1];
/// assert_eq!((block.keys, block.values, block.window), (16, 16, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of the description")]
pub struct MemorySpec {
    /// The data kept for each token, in the order of the description.
    pub caches: Vec<CacheSpec>,
    /// The data kept for each sequence, in the order of the description.
    pub states: Vec<StateSpec>,
    /// The number of blocks whose weights are loaded, from the first; `None` for all.
    pub loaded_blocks: Option<u64>,
    /// If true, the attention can be computed in tiles, without its whole matrix of scores.
    pub flash_attention: bool,
    /// If true, keys and values have to be of the same type.
    pub one_type: bool,
    /// If true, a model without an output matrix has a second copy of its embedding for it, even where
    /// both are on one device.
    pub copies_embedding: bool,
    /// The computed results with their memory, or the reason why they are unknown.
    pub compute: core::result::Result<ComputeSpec, String>,
    /// If true, that is known only where the host computes everything.
    pub host_only: bool,
    /// Patterns of tensors that are not loaded.
    skipped: Vec<Glob>,
    /// Patterns of tensors that are loaded although their block is not.
    loaded_beyond: Vec<Glob>,
    /// If true, a device with the output has a copy of the embedding, in a model without an output
    /// matrix.
    pub copies_output: bool,
    /// Blocks whose devices need none of the tensors that are [on every one](TensorPlace::EveryBlock),
    /// in order.
    pub without_copies: Vec<u64>,
    with_first: Vec<Glob>,
    with_blocks: Vec<Glob>,
    pub(crate) build: Build,
}

/// Where a tensor is that is in no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorPlace {
    /// Where its role says.
    ByRole,
    /// Beside the first block.
    FirstBlock,
    /// On every device that has blocks.
    EveryBlock,
}

/// A cache: keys and values of each token, in some blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheSpec {
    /// Its name in the description.
    pub name: String,
    /// The blocks that hold something, in order.
    pub blocks: Vec<CachedBlock>,
    /// Without flash attention, the values of every block that has some are stored with the length
    /// of the longest in the model.
    pub longest_values: u64,
    /// The number of tokens that share a cell: 1 in most models.
    pub tokens_per_cell: u64,
    /// If true, sequences never share the cells.
    pub separate: bool,
}

/// The data that a layer keeps for each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedBlock {
    /// The number of the block.
    pub block: u64,
    /// Elements of the keys of all heads.
    pub keys: u64,
    /// Elements of the values of all heads; 0 where values are computed from keys.
    pub values: u64,
    /// The number of tokens that it has data for; `None` for the whole context.
    pub window: Option<u64>,
}

/// A state: F32 numbers of each sequence, in some blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateSpec {
    /// Its name in the description.
    pub name: String,
    /// The blocks that hold some, in order.
    pub blocks: Vec<StateBlock>,
}

/// The data that a layer keeps for each sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateBlock {
    /// The number of the block.
    pub block: u64,
    /// F32 elements.
    pub elements: u64,
}

impl MemorySpec {
    /// Where a tensor is that is in no block, by its name.
    pub fn place(&self, tensor: &str) -> TensorPlace {
        let is_one_of = |patterns: &[Glob]| patterns.iter().any(|pattern| pattern.matches(tensor));
        if is_one_of(&self.with_first) {
            TensorPlace::FirstBlock
        } else if is_one_of(&self.with_blocks) {
            TensorPlace::EveryBlock
        } else {
            TensorPlace::ByRole
        }
    }

    /// Returns `true` if the weights of a tensor are loaded, by its name.
    pub fn loads(&self, tensor: &str) -> bool {
        let block = block_of(tensor).map(|(block, _)| block);
        let is_beyond =
            block.zip(self.loaded_blocks).is_some_and(|(block, loaded)| block >= loaded);
        let is_one_of = |patterns: &[Glob]| patterns.iter().any(|pattern| pattern.matches(tensor));
        !is_one_of(&self.skipped) && (!is_beyond || is_one_of(&self.loaded_beyond))
    }
}

/// The `[memory]` table of a description.
#[derive(Clone, Debug)]
pub(crate) struct MemoryTemplate {
    parameters: Vec<Parameter>,
    loaded: Option<Expression>,
    /// The layer whose weights a layer computes with.
    weights_of: Option<Expression>,
    skipped: Vec<Glob>,
    loaded_beyond: Vec<Glob>,
    copies_embedding: bool,
    copies_output: bool,
    with_first: Vec<Glob>,
    with_blocks: Vec<Glob>,
    with_blocks_when: Option<Expression>,
    flash_attention: bool,
    one_type: Option<Expression>,
    /// If true, the steps are all that count.
    computed: Option<Expression>,
    host_only: Option<Expression>,
    steps: Arc<[ComputeGroup]>,
    caches: Vec<CacheTemplate>,
    states: Vec<StateTemplate>,
    build: BuildTemplate,
}

/// The `[memory.build]` table: decisions of llama.cpp that the graph does not determine.
#[derive(Clone, Debug)]
struct BuildTemplate {
    /// The decisions that depend on no hyperparameter.
    fixed: Build,
    positions: Option<Expression>,
    images: Option<Expression>,
    images_behind: Option<Expression>,
    source: Option<Expression>,
}

/// A part of the memory: which blocks have it.
#[derive(Clone, Debug)]
struct Held {
    name: Box<str>,
    blocks: Expression,
    when: Expression,
}

#[derive(Clone, Debug)]
struct CacheTemplate {
    held: Held,
    keys: Expression,
    values: Expression,
    longest_values: Option<Expression>,
    window: Option<Expression>,
    tokens_per_cell: Option<Expression>,
    separate: bool,
}

#[derive(Clone, Debug)]
struct StateTemplate {
    held: Held,
    elements: Expression,
}

impl MemoryTemplate {
    pub(crate) fn from_raw(architecture: &str, raw: &RawMemory) -> Result<Self> {
        let held = raw.cache.0.len().max(raw.state.0.len());
        let skipped = raw.skipped.as_deref().unwrap_or_default();
        let loaded_beyond = raw.loaded_beyond.as_deref().unwrap_or_default();
        for (what, count, limit) in [
            ("hyperparameters of the memory", raw.parameters.0.len(), MAX_PARAMETERS),
            ("entries of the memory", held, MAX_ENTRIES),
            ("patterns of tensors that are not loaded", skipped.len(), MAX_ENTRIES),
            ("patterns of tensors that are loaded", loaded_beyond.len(), MAX_ENTRIES),
        ] {
            if count > limit {
                let message = format!("{count} {what}, the limit is {limit}");
                return Err(Error::new(ErrorKind::Limit, message));
            }
        }
        let places = DeclarationOrder::of(&raw.parameters);
        let parameters = parameters(architecture, &raw.parameters, &places)?;
        if let Some(parameter) = parameters.iter().find(|parameter| !parameter.from.is_empty()) {
            let error = Error::description(
                "from is not allowed here: memory is computed from a finished file",
            );
            return Err(error.about(SubjectKind::Parameter, &parameter.name));
        }
        let is_declared = |name: &str| places.place(name).is_some();
        let whole = |raw: &Option<RawExpression>, place: &str| {
            let raw = raw.as_ref().map(|raw| expression(raw, &is_declared)).transpose();
            raw.map_err(|error| error.at(place))
        };
        let of_block = |raw: &Option<RawExpression>, place: &str| {
            let is_declared = |name: &str| name == BLOCK_VARIABLE || is_declared(name);
            let raw = raw.as_ref().map(|raw| expression(raw, &is_declared)).transpose();
            raw.map_err(|error| error.at(place))
        };
        let caches = raw.cache.0.iter();
        let states = raw.state.0.iter();
        Ok(Self {
            computed: whole(&raw.computed, "memory: computed")?,
            host_only: whole(&raw.host_only, "memory: host_only")?,
            steps: compute::groups(&raw.compute, &is_declared)
                .map_err(|error| error.at("memory"))?,
            loaded: whole(&raw.loaded, "memory: loaded")?,
            weights_of: of_block(&raw.weights_of, "memory: weights_of")?,
            one_type: whole(&raw.one_type, "memory: one_type")?,
            skipped: skipped.iter().map(|pattern| Glob::new(pattern)).collect(),
            loaded_beyond: loaded_beyond.iter().map(|pattern| Glob::new(pattern)).collect(),
            copies_embedding: raw.copies_embedding.unwrap_or(false),
            copies_output: raw.copies_output.unwrap_or(true),
            with_first: globs(raw.with_first.as_deref())?,
            with_blocks: globs(raw.with_blocks.as_deref())?,
            with_blocks_when: of_block(&raw.with_blocks_when, "memory: with_blocks_when")?,
            flash_attention: raw.flash_attention.unwrap_or(true),
            caches: caches
                .map(|(name, raw)| CacheTemplate::from_raw(name, raw, &is_declared))
                .collect::<Result<_>>()?,
            states: states
                .map(|(name, raw)| StateTemplate::from_raw(name, raw, &is_declared))
                .collect::<Result<_>>()?,
            build: BuildTemplate {
                fixed: build_words(&raw.build).map_err(|error| error.at("memory: build"))?,
                positions: whole(&raw.build.positions, "memory: build: positions")?,
                images: whole(&raw.build.images, "memory: build: images")?,
                images_behind: of_block(&raw.build.images_behind, "memory: build: images_behind")?,
                source: whole(&raw.build.source, "memory: build: source")?,
            },
            parameters: in_order_of_use(parameters, &[])?,
        })
    }

    /// The memory of one model.
    pub(crate) fn resolve(&self, source: &dyn ParameterSource) -> Result<MemorySpec> {
        let fuel = Cell::new(Scope::FUEL);
        let mut parameters: Vec<(Box<str>, ParameterValue)> =
            Vec::with_capacity(self.parameters.len());
        for parameter in &self.parameters {
            let value = parameter
                .resolve(source, None, &Scope::new(&parameters, &fuel))
                .map_err(|error| error.about(SubjectKind::Parameter, &parameter.name))?;
            parameters.push((parameter.name.clone(), value));
        }
        let scope = Scope::new(&parameters, &fuel);
        let number = |number: &Option<Expression>| {
            number.as_ref().map(|number| number.evaluate_u64(&scope)).transpose()
        };
        let holds = |condition: &Option<Expression>| {
            let condition = condition.as_ref();
            condition.map_or(Ok(false), |condition| condition.evaluate_bool(&scope))
        };
        let mut without_copies = Vec::new();
        if let (Some(when), Some(cache)) = (&self.with_blocks_when, self.caches.first()) {
            cache.held.each(&scope, |scope, block, _| {
                if !when.evaluate_bool(scope)? {
                    without_copies.push(block);
                }
                Ok(())
            })?;
        }
        Ok(MemorySpec {
            without_copies,
            host_only: holds(&self.host_only)?,
            build: self.build.resolve(&scope, self.caches.first())?,
            compute: holds(&self.computed)?
                .then(|| {
                    let weights_of = self.weights_of.clone();
                    ComputeSpec::listed(parameters.clone(), Arc::clone(&self.steps), weights_of)
                })
                .ok_or_else(|| "the description has no computation graph".to_owned()),
            caches: self.caches.iter().map(|cache| cache.resolve(&scope)).collect::<Result<_>>()?,
            states: self.states.iter().map(|state| state.resolve(&scope)).collect::<Result<_>>()?,
            loaded_blocks: number(&self.loaded)?,
            flash_attention: self.flash_attention,
            one_type: holds(&self.one_type)?,
            copies_embedding: self.copies_embedding,
            copies_output: self.copies_output,
            with_first: self.with_first.clone(),
            with_blocks: self.with_blocks.clone(),
            skipped: self.skipped.clone(),
            loaded_beyond: self.loaded_beyond.clone(),
        })
    }
}

/// The words of a description for what llama.cpp decides.
fn build_words(raw: &RawBuild) -> Result<Build> {
    let mut build = Build {
        gives_rows: raw.gives_rows.unwrap_or(false),
        uncached: raw.uncached.unwrap_or(false),
        ..Build::default()
    };
    build.late = match raw.rows.as_deref() {
        None | Some("last-block") => Late::Block,
        Some("blocks") => Late::Blocks,
        Some("norm") => Late::Norm,
        Some(other) => {
            let message = format!("rows: {}, expected last-block, blocks or norm", quoted(other));
            return Err(Error::description(message));
        }
    };
    for word in raw.sums.iter().flatten() {
        match word.as_str() {
            "attention-first" => build.sums = Sums::AttentionFirst,
            "layer-first" => build.sums = Sums::LayerFirst,
            "attention-with-input" => build.sums = Sums::InputWithFirst,
            "onto-input" => build.onto_input = true,
            "onto-sum" => build.onto_sum = true,
            other => {
                let message = format!(
                    "sums: {}, expected attention-first, layer-first, attention-with-input, \
                     onto-input or onto-sum",
                    quoted(other)
                );
                return Err(Error::description(message));
            }
        }
    }
    Ok(build)
}

impl BuildTemplate {
    fn resolve(&self, scope: &Scope<'_>, cache: Option<&CacheTemplate>) -> Result<Build> {
        let number = |number: &Option<Expression>| {
            number.as_ref().map_or(Ok(0), |number| number.evaluate_u64(scope))
        };
        let mut build = self.fixed.clone();
        build.position_parts = number(&self.positions)?;
        build.deepstack = number(&self.images)?;
        build.source_tokens = number(&self.source)?;
        match (&self.images_behind, cache) {
            (Some(when), Some(cache)) => cache.held.each(scope, |scope, block, _| {
                if when.evaluate_bool(scope)? {
                    build.deepstack_behind.push(block);
                }
                Ok(())
            })?,
            _ => build.deepstack_behind = (0..build.deepstack.min(MAX_TENSORS)).collect(),
        }
        Ok(build)
    }
}

impl Held {
    /// The blocks, and the expressions by them, which are about one block.
    fn from_raw(
        name: &str,
        blocks: Option<&RawExpression>,
        when: Option<&RawExpression>,
        is_declared: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let blocks = blocks.ok_or_else(|| missing(name, "blocks"))?;
        Ok(Self {
            name: name.into(),
            blocks: expression(blocks, is_declared).map_err(|error| error.at("blocks"))?,
            when: condition(when, &|name: &str| name == BLOCK_VARIABLE || is_declared(name))?,
        })
    }

    /// Calls `each` with the scope of every block, its number, and whether it holds something.
    fn each(
        &self,
        scope: &Scope<'_>,
        mut each: impl FnMut(&Scope<'_>, u64, bool) -> Result<()>,
    ) -> Result<()> {
        let blocks = self.blocks.evaluate_u64(scope)?;
        if blocks > MAX_TENSORS {
            let message = format!("memory of {blocks} layers, the limit is {MAX_TENSORS}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        for block in 0..blocks {
            let variables = [(BLOCK_VARIABLE, block)];
            let scope = scope.with(&variables);
            each(&scope, block, self.when.evaluate_bool(&scope)?)?;
        }
        Ok(())
    }
}

/// Patterns of tensors.
fn globs(raw: Option<&[String]>) -> Result<Vec<Glob>> {
    let raw = raw.unwrap_or_default();
    if raw.len() > MAX_ENTRIES {
        let message = format!("{} patterns of tensors, the limit is {MAX_ENTRIES}", raw.len());
        return Err(Error::new(ErrorKind::Limit, message));
    }
    Ok(raw.iter().map(|pattern| Glob::new(pattern)).collect())
}

#[cold]
fn missing(name: &str, field: &str) -> Error {
    Error::description(format!("memory {}: expected {field}", crate::error::quoted(name)))
}

impl CacheTemplate {
    fn from_raw(name: &str, raw: &RawCache, is_declared: &dyn Fn(&str) -> bool) -> Result<Self> {
        let of_block = |name: &str| name == BLOCK_VARIABLE || is_declared(name);
        let term = |raw: &RawExpression, field: &str| {
            expression(raw, &of_block).map_err(|error| error.at(field))
        };
        let whole = |raw: &Option<RawExpression>, field: &str| {
            let raw = raw.as_ref().map(|raw| expression(raw, is_declared)).transpose();
            raw.map_err(|error: Error| error.at(field))
        };
        let field = |raw: &Option<RawExpression>, field: &str| match raw {
            Some(raw) => term(raw, field),
            None => Err(missing(name, field)),
        };
        Ok(Self {
            held: Held::from_raw(name, raw.blocks.as_ref(), raw.when.as_ref(), is_declared)?,
            keys: field(&raw.keys, "keys")?,
            values: field(&raw.values, "values")?,
            longest_values: whole(&raw.longest_values, "longest_values")?,
            window: raw.window.as_ref().map(|window| term(window, "window")).transpose()?,
            tokens_per_cell: whole(&raw.tokens_per_cell, "tokens_per_cell")?,
            separate: raw.separate.unwrap_or(false),
        })
    }

    fn resolve(&self, scope: &Scope<'_>) -> Result<CacheSpec> {
        let mut blocks = Vec::new();
        let mut longest = 0;
        self.held.each(scope, |scope, block, holds| {
            // What a block would hold counts for the longest, whether it holds it or not.
            let values = self.values.evaluate_u64(scope)?;
            longest = values.max(longest);
            if holds {
                let window = self.window.as_ref();
                let window = window.map(|window| window.evaluate_u64(scope)).transpose()?;
                blocks.push(CachedBlock {
                    block,
                    keys: self.keys.evaluate_u64(scope)?,
                    values,
                    window: window.filter(|&window| window > 0),
                });
            }
            Ok(())
        })?;
        let number = |number: &Option<Expression>| {
            number.as_ref().map(|number| number.evaluate_u64(scope)).transpose()
        };
        Ok(CacheSpec {
            name: self.held.name.to_string(),
            blocks,
            longest_values: number(&self.longest_values)?.unwrap_or(longest),
            tokens_per_cell: number(&self.tokens_per_cell)?.unwrap_or(1).max(1),
            separate: self.separate,
        })
    }
}

impl StateTemplate {
    fn from_raw(name: &str, raw: &RawState, is_declared: &dyn Fn(&str) -> bool) -> Result<Self> {
        let elements = raw.elements.as_ref().ok_or_else(|| missing(name, "elements"))?;
        let of_block = |name: &str| name == BLOCK_VARIABLE || is_declared(name);
        Ok(Self {
            held: Held::from_raw(name, raw.blocks.as_ref(), raw.when.as_ref(), is_declared)?,
            elements: expression(elements, &of_block).map_err(|error| error.at("elements"))?,
        })
    }

    fn resolve(&self, scope: &Scope<'_>) -> Result<StateSpec> {
        let mut blocks = Vec::new();
        self.held.each(scope, |scope, block, holds| {
            if holds {
                blocks.push(StateBlock { block, elements: self.elements.evaluate_u64(scope)? });
            }
            Ok(())
        })?;
        Ok(StateSpec { name: self.held.name.to_string(), blocks })
    }
}
