//! `convert`: converts checkpoints, adapters and legacy files to GGUF.

use std::collections::HashSet;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use ggmill_arch::{Architecture, Catalogue, VocabularyKind};
use ggmill_convert::{
    AutoType, ConvertOptions, LegacyOptions, MetadataOverride, RestoreOptions, WithTarget,
    convert_legacy, convert_lora, own_type, restore_checkpoint,
};
use ggmill_core::{FileType, RawStr, Value, keys};
use ggmill_inspect::FileKind;
use ggmill_pipeline::formats::{CheckpointDirectory, Legacy, PeftAdapter};
use ggmill_pipeline::{Plan, Pretrained, Recipe, ShardLimit, SplitOptions};
use ggmill_quantize::{Goal, QuantizeOptions, Target, TypePlan, fit_recipe, quantize_recipe};
use ggmill_run::RecordedLogits;

use super::RunText;
use super::calibrate::{self, Calibrated, round};
use super::checkpoint::{
    name_in_cache, open_checkpoint, open_target, target_vocabulary, unknown_class,
};
use super::measuring::Measuring;
use super::quantize::{add_scales, note_choice, too_small, with_refusal};
use super::restore::{architecture_of, located};
use super::running::{no_graph, read_recorded};
use super::types::{Types, target, target_of, type_options, types_like};
use super::verification::{
    LibraryAnswer, LibraryRequest, Original, Reference, RunLibrary, Verification, planned_model,
};
use crate::find::refuse_missing;
use crate::note::{HAS_ENCODERS, ROUNDS};
use crate::open::{kind_of_file, refuse_interrupted};
use crate::output::{Destination, ToPlan};
use crate::paths::is_remote;
use crate::progress::{Call, Stage, call_options};
use crate::{
    Error, Hint, Model, Note, OpenOptions, Planned, Result, Written, read_architectures, read_text,
};

/// Converts a checkpoint to GGUF: a directory in the layout of Hugging Face, Mistral or Meta, a file
/// of weights with its configuration next to it, a PEFT adapter, or a legacy LLaMA file.
///
/// With the feature `remote`, a repository works too: `hf://OWNER/NAME`. No code in a file is
/// executed.
///
/// ```no_run
/// let written = ggmill::convert("Llama-3.2-1B/")?.to("Q4_K_M")?.write("llama.gguf")?;
/// println!("{}", written.paths()[0].display());
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn convert<'a>(path: impl AsRef<Path>) -> Result<Convert<'a>> {
    let path = path.as_ref().to_owned();
    let has_extension = || path.extension().is_some_and(|extension| extension == "gguf");
    let kind = if is_remote(&path) {
        // Decided by the name, to avoid a request.
        if has_extension() { ConvertSource::Gguf } else { ConvertSource::Checkpoint }
    } else {
        refuse_missing(&path)?;
        refuse_interrupted(&[&path])?;
        match kind_of_file(&path) {
            Some(FileKind::LegacyGgml { .. }) => ConvertSource::Legacy,
            Some(FileKind::Gguf) => ConvertSource::Gguf,
            _ if PeftAdapter::is_at(&path) => ConvertSource::Adapter,
            _ => ConvertSource::Checkpoint,
        }
    };
    Ok(Convert {
        path,
        kind,
        call: Call::default(),
        types: Types::default(),
        to: ConvertType::Auto,
        open: OpenOptions::new(),
        goal: None,
        type_plan: None,
        split: None,
        name: None,
        metadata: None,
        metadata_file: None,
        no_vocab: false,
        assume_defaults: false,
        no_verify: false,
        vocab_only: false,
        mmproj: false,
        pre: None,
        architectures: Vec::new(),
        architecture_files: Vec::new(),
        with_graph: false,
        check: true,
        logits: None,
        verify: None,
        rounding: None,
        base: None,
        target: None,
        legacy: None,
    })
}

/// The kind of source that [`convert()`] found at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConvertSource {
    /// A checkpoint of a model.
    Checkpoint,
    /// A PEFT adapter.
    Adapter,
    /// A LLaMA file in a format before GGUF.
    Legacy,
    /// A GGUF file, which needs no conversion.
    Gguf,
}

/// The type of a conversion.
#[derive(Clone, Copy, Debug)]
enum ConvertType {
    /// The 16-bit type closest to the checkpoint.
    Auto,
    /// A type that is written without a mixture.
    Plain(FileType),
    /// A type that is quantized in the same pass.
    Quantized(Target),
}

/// Parses a type of [`Convert::to`].
fn convert_type(name: &str) -> Result<ConvertType> {
    const PLAIN: [FileType; 4] = [FileType::F32, FileType::F16, FileType::BF16, FileType::Q8_0];
    if name.eq_ignore_ascii_case("auto") {
        return Ok(ConvertType::Auto);
    }
    if let Some(plain) = name.parse().ok().filter(|found| PLAIN.contains(found)) {
        return Ok(ConvertType::Plain(plain));
    }
    let target = target(name)?;
    if target.is_copy() {
        return Err(Error::misuse("expected a type such as Q4_K_M, or auto"));
    }
    Ok(ConvertType::Quantized(target))
}

/// The options of [`convert()`].
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent options, set by their names")]
pub struct Convert<'a> {
    path: PathBuf,
    kind: ConvertSource,
    call: Call<'a>,
    types: Types,
    to: ConvertType,
    open: OpenOptions,
    goal: Option<Goal>,
    type_plan: Option<TypePlan>,
    split: Option<SplitOptions>,
    name: Option<String>,
    metadata: Option<MetadataOverride>,
    metadata_file: Option<PathBuf>,
    no_vocab: bool,
    assume_defaults: bool,
    no_verify: bool,
    vocab_only: bool,
    mmproj: bool,
    pre: Option<String>,
    architectures: Vec<Architecture>,
    architecture_files: Vec<PathBuf>,
    with_graph: bool,
    check: bool,
    logits: Option<(PathBuf, RecordedLogits)>,
    verify: Option<RunLibrary<'a>>,
    rounding: Option<(RunText, Option<u64>)>,
    base: Option<PathBuf>,
    target: Option<PathBuf>,
    legacy: Option<LegacyOptions>,
}

impl<'a> Convert<'a> {
    call_options!(overwrite, encoding);
    type_options!();

    /// Returns the kind of the source.
    pub fn source(&self) -> ConvertSource {
        self.kind
    }

    /// Sets the type: `auto`, `F32`, `BF16`, `F16`, `Q8_0`, or a type of
    /// [`quantize()`](crate::quantize()), which is quantized in the same pass. The default, `auto`,
    /// keeps BF16 and F16, and makes F16 of F32.
    pub fn to(mut self, name: &str) -> Result<Self> {
        self.to = convert_type(name)?;
        Ok(self)
    }

    /// Chooses the types with the lowest quantization error for a file of at most `bytes` bytes.
    #[must_use]
    pub fn target_size(mut self, bytes: u64) -> Self {
        self.goal = Some(Goal::Size(bytes));
        self
    }

    /// Chooses the types with the lowest quantization error for at most `bits` bits per weight.
    #[must_use]
    pub fn target_bpw(mut self, bits: f64) -> Self {
        self.goal = Some(Goal::BitsPerWeight(bits));
        self
    }

    /// Writes shards up to this limit; the output is the prefix of their names.
    #[must_use]
    pub fn split(mut self, limit: ShardLimit) -> Self {
        self.split = Some(SplitOptions::new(limit));
        self
    }

    /// Sets the name of the model in the metadata.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Reads metadata (`general.author`, …) from a JSON file; it overrides that of the checkpoint.
    pub fn metadata(mut self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = read_text(path, MetadataOverride::MAX_LEN)?;
        self = self.metadata_json(&text).map_err(|error| error.within(path))?;
        self.metadata_file = Some(path.to_owned());
        Ok(self)
    }

    /// Overrides metadata of the checkpoint with the text of a JSON file: see
    /// [`metadata`](Self::metadata).
    pub fn metadata_json(mut self, json: &str) -> Result<Self> {
        self.metadata = Some(MetadataOverride::from_json(json.as_bytes())?);
        Ok(self)
    }

    /// Writes no vocabulary.
    #[must_use]
    pub fn no_vocab(mut self, no_vocab: bool) -> Self {
        self.no_vocab = no_vocab;
        self
    }

    /// Converts a checkpoint with settings that the file cannot express, and for which programs assume
    /// another value: the file computes something else than the checkpoint. It is an error by
    /// default, which names the settings.
    #[must_use]
    pub fn assume_defaults(mut self, assume_defaults: bool) -> Self {
        self.assume_defaults = assume_defaults;
        self
    }

    /// Does not compare the tokens of the written vocabulary with those of the checkpoint's
    /// `tokenizer.json`. By default, a note says how many of 500 texts have other tokens, and why.
    #[must_use]
    pub fn no_verify(mut self, no_verify: bool) -> Self {
        self.no_verify = no_verify;
        self
    }

    /// Writes only the metadata and the vocabulary; the checkpoint needs no weights.
    #[must_use]
    pub fn vocab_only(mut self, vocab_only: bool) -> Self {
        self.vocab_only = vocab_only;
        self
    }

    /// Converts the vision and audio encoders instead of the language model.
    #[must_use]
    pub fn mmproj(mut self, mmproj: bool) -> Self {
        self.mmproj = mmproj;
        self
    }

    /// Takes the types of tensors from the text of a plan, which must list every tensor.
    pub fn type_plan_json(mut self, json: &str) -> Result<Self> {
        self.type_plan = Some(TypePlan::parse(json.as_bytes())?);
        Ok(self)
    }

    /// Gives each tensor the type that it has in another model, and the file its type. Fails if the tensors
    /// of the two have different names.
    pub fn like(mut self, other: &Model) -> Result<Self> {
        if !matches!(self.to, ConvertType::Auto) {
            let message = "both a type and a model with types were given, expected one of them";
            return Err(Error::misuse(message));
        }
        self.to = ConvertType::Quantized(target_of(other));
        self.type_plan = Some(types_like(other));
        Ok(self)
    }

    /// Sets the name of the pre-tokenizer, instead of detecting it.
    #[must_use]
    pub fn pre(mut self, name: impl Into<String>) -> Self {
        self.pre = Some(name.into());
        self
    }

    /// Reads descriptions of architectures, in addition to the built-in ones.
    pub fn architectures(mut self, paths: &[PathBuf]) -> Result<Self> {
        self.architectures.extend(read_architectures(paths)?);
        self.architecture_files.extend_from_slice(paths);
        Ok(self)
    }

    /// Writes the computation graph into the file.
    #[must_use]
    pub fn with_graph(mut self, with_graph: bool) -> Self {
        self.with_graph = with_graph;
        self
    }

    /// Checks the model before it is written, and fails if there are errors. On by default.
    #[must_use]
    pub fn check(mut self, check: bool) -> Self {
        self.check = check;
        self
    }

    /// Reads logits that another program computed, for [`Converted::verify`].
    pub fn logits(mut self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        self.logits = Some((path.to_owned(), read_recorded(path, &self.open)?));
        Ok(self)
    }

    /// Prepares [`Converted::verify`] to compare the written model with the checkpoint: with its conversion
    /// to F32, which is not written, and with what the library computes that the checkpoint is made for.
    /// `library` runs it, or returns the reason why it cannot.
    #[must_use]
    pub fn verify(
        mut self,
        library: impl FnMut(&LibraryRequest) -> Result<LibraryAnswer, String> + Send + 'a,
    ) -> Self {
        self.verify = Some(RunLibrary(Box::new(library)));
        self
    }

    /// Rounds matrices by what they compute on a text, like [`Quantize::calibrate`](crate::Quantize::calibrate).
    /// The type must be one that is quantized.
    #[must_use]
    pub fn calibrate(mut self, text: RunText, memory: Option<u64>) -> Self {
        self.rounding = Some((text, memory));
        self
    }

    /// Treats the path as an adapter, without detecting its kind.
    #[must_use]
    pub fn adapter(mut self) -> Self {
        self.kind = ConvertSource::Adapter;
        self
    }

    /// Sets the base model of an adapter: its directory or its GGUF file.
    #[must_use]
    pub fn base(mut self, path: impl Into<PathBuf>) -> Self {
        self.base = Some(path.into());
        self
    }

    /// Sets the directory of the target model of a draft model.
    #[must_use]
    pub fn target(mut self, path: impl Into<PathBuf>) -> Self {
        self.target = Some(path.into());
        self
    }

    /// Sets values that a legacy file does not contain. [`name`](Self::name) sets the name. Other sources
    /// have the values, so [`plan`](Self::plan) fails for them.
    #[must_use]
    pub fn legacy(mut self, options: LegacyOptions) -> Self {
        self.legacy = Some(options);
        self
    }

    /// Sets how addresses are opened.
    #[must_use]
    pub fn open_with(mut self, options: OpenOptions) -> Self {
        self.open = options;
        self
    }

    /// Converts into a file, or into shards with this prefix: `plan(out)?.write()`. In an existing
    /// directory, or for an empty path in the current directory, the file is named after the model.
    /// `{ftype}` in the name is replaced by the type.
    pub fn write(self, out: impl AsRef<Path>) -> Result<Converted<'a>> {
        self.plan(out)?.write()
    }

    /// Plans the file, checks the model, and writes nothing.
    pub fn plan(self, out: impl AsRef<Path>) -> Result<ConvertPlan<'a>> {
        self.refuse_unsupported()?;
        let out = out.as_ref();
        match self.kind {
            ConvertSource::Checkpoint => self.plan_checkpoint(out),
            ConvertSource::Adapter => self.plan_adapter(out),
            ConvertSource::Legacy => self.plan_legacy(out),
            ConvertSource::Gguf => {
                let error = Error::misuse("is already a GGUF file").at(&self.path);
                Err(error.with_hint(Hint::AlreadyGguf))
            }
        }
    }

    /// Fails for options that the source does not support.
    fn refuse_unsupported(&self) -> Result<()> {
        let has_goal = self.goal.is_some();
        let options: &[(&str, bool)] = match self.kind {
            ConvertSource::Checkpoint if self.base.is_some() => {
                let message = "is not an adapter (it has no adapter_config.json)";
                return Err(Error::misuse(message).at(&self.path).with_hint(Hint::OnlyAdapters));
            }
            ConvertSource::Checkpoint => &[("legacy", self.legacy.is_some())],
            ConvertSource::Gguf => &[],
            ConvertSource::Adapter => &[
                ("legacy", self.legacy.is_some()),
                ("type_plan", self.type_plan.is_some()),
                ("target", self.target.is_some()),
                ("no_vocab", self.no_vocab),
                ("assume_defaults", self.assume_defaults),
                ("no_verify", self.no_verify),
                ("vocab_only", self.vocab_only),
                ("pre", self.pre.is_some()),
                ("mmproj", self.mmproj),
                ("with_graph", self.with_graph),
                ("check", !self.check),
                ("logits", self.logits.is_some()),
                ("verify", self.verify.is_some()),
                ("calibrate", self.rounding.is_some()),
                ("split", self.split.is_some()),
                ("target_size", has_goal),
                ("types", self.types.is_given()),
            ],
            ConvertSource::Legacy => &[
                ("type_plan", self.type_plan.is_some()),
                ("base", self.base.is_some()),
                ("target", self.target.is_some()),
                ("mmproj", self.mmproj),
                ("with_graph", self.with_graph),
                ("logits", self.logits.is_some()),
                ("verify", self.verify.is_some()),
                ("calibrate", self.rounding.is_some()),
                ("no_vocab", self.no_vocab),
                ("assume_defaults", self.assume_defaults),
                ("no_verify", self.no_verify),
                ("vocab_only", self.vocab_only),
                ("pre", self.pre.is_some()),
                ("metadata", self.metadata.is_some()),
                ("architectures", !self.architectures.is_empty()),
                ("split", self.split.is_some()),
                ("target_size", has_goal),
                ("types", self.types.is_given()),
            ],
        };
        let Some((option, _)) = options.iter().find(|(_, is_given)| *is_given) else {
            return Ok(());
        };
        let source = match self.kind {
            ConvertSource::Legacy => "legacy files",
            ConvertSource::Adapter => "adapters",
            _ => "checkpoints",
        };
        let message = format_args!("{option}: not supported for {source}");
        Err(Error::misuse(message).with_hint(Hint::NotSupported { option, source }))
    }

    fn catalogue(&self) -> Catalogue {
        self.architectures.iter().cloned().fold(Catalogue::new(), Catalogue::with)
    }

    fn options(&mut self, file_type: FileType) -> ConvertOptions {
        let mut options = ConvertOptions::new(file_type);
        options.name = self.name.take();
        options.no_vocab = self.no_vocab;
        options.assume_defaults = self.assume_defaults;
        options.no_verify = self.no_verify;
        options.pre = self.pre.take();
        options.vocab_only = self.vocab_only;
        options.metadata = self.metadata.take();
        options
    }

    /// Returns the float type of the conversion, and the type to quantize it to, if any.
    fn file_type(
        &self,
        checkpoint: &CheckpointDirectory,
        auto: &AutoType,
    ) -> (FileType, Option<Target>) {
        match self.to {
            ConvertType::Quantized(target)
                if self.type_plan.as_ref().is_some_and(TypePlan::is_complete) =>
            {
                (own_type(checkpoint), Some(target))
            }
            _ if self.goal.is_some() || self.type_plan.is_some() => {
                (own_type(checkpoint), Some(Target::copy()))
            }
            ConvertType::Auto => (auto.file_type, None),
            ConvertType::Plain(file_type) => (file_type, None),
            ConvertType::Quantized(target) => (own_type(checkpoint), Some(target)),
        }
    }

    fn plan_checkpoint(mut self, out: &Path) -> Result<ConvertPlan<'a>> {
        let checkpoint = open_checkpoint(&self.path, self.vocab_only, &self.open)?;
        let catalogue = self.catalogue();
        let found = if self.mmproj {
            catalogue.for_projector(checkpoint.config())
        } else {
            catalogue.for_checkpoint(checkpoint.config())
        };
        let architecture =
            found.map_err(|error| unknown_class(error, self.mmproj, &catalogue, &checkpoint))?;
        if self.architectures.iter().any(|own| own.name() == architecture.name()) {
            let unread = architecture.unread_members(checkpoint.config());
            if !unread.is_empty() {
                self.call.note(Note::UnreadMembers(unread));
            }
        }
        let drafted_for = open_target(&self.path, self.target.as_deref(), architecture)?;
        let auto = AutoType::of(&checkpoint);
        let (file_type, target) = self.file_type(&checkpoint, &auto);
        if target.is_none() && (self.types.is_given() || self.rounding.is_some()) {
            let message = format_args!(
                "options for quantization were given, but they have no effect on {file_type}"
            );
            return Err(Error::misuse(message).with_hint(Hint::OnlyMixtures));
        }
        let type_name = target.map_or_else(|| file_type.to_string(), |to| to.name().to_owned());
        let prefix = if self.mmproj { "mmproj-" } else { "" };
        let other_name = format!("{prefix}{}-{type_name}", checkpoint.name().unwrap_or("model"));
        let out = with_type_name(out, &type_name);
        let inputs: Vec<PathBuf> = checkpoint
            .files()
            .map(Path::to_owned)
            .chain(self.types.files().cloned())
            .chain(self.architecture_files.iter().cloned())
            .chain(self.metadata_file.iter().cloned())
            .chain(drafted_for.iter().flat_map(|target| target.files().map(Path::to_owned)))
            .chain(self.logits.iter().map(|(path, _)| path.clone()))
            .chain(self.rounding.iter().filter_map(|(text, _)| text.input()))
            .collect();
        let runs = self.logits.is_some() || self.verify.is_some() || self.rounding.is_some();
        if runs && !architecture.has_graph() {
            return Err(no_graph(architecture.name(), &catalogue));
        }
        let destination = Destination::file_or_directory(&out, self.split.is_some());
        destination.check(&inputs, self.call.overwrite)?;
        let is_auto = target.is_none() && matches!(self.to, ConvertType::Auto);
        let is_named = self.name.is_some() || self.metadata.is_some();
        let mut options = self.options(file_type);
        let with_target = drafted_for.as_ref().map(|target| WithTarget::new(&checkpoint, target));
        if let (Some(both), Some(target)) = (&with_target, &drafted_for)
            && architecture.vocabulary_kinds().contains(&VocabularyKind::Target)
            && !options.no_vocab
        {
            options.target_vocabulary = target_vocabulary(both, target.config(), &catalogue)?;
        }
        let source: &dyn Pretrained = match &with_target {
            Some(both) => both,
            None => &checkpoint,
        };
        let mut recipe =
            ggmill_convert::convert(source, architecture, &options).map_err(|error| {
                // A conversion of only the vocabulary cannot omit it.
                let error = Error::from(error);
                let is_useless = options.vocab_only && error.hint() == Some(&Hint::OmitVocabulary);
                if is_useless { error.replace_hint(None) } else { error }
            })?;
        let (verify, rounding) = (self.verify.take(), self.rounding.take());
        let exact = match with_target {
            None if verify.is_some() || rounding.is_some() => {
                let mut exact = options.clone();
                exact.file_type = FileType::F32;
                Some(ggmill_convert::convert(source, architecture, &exact)?.plan(&checkpoint)?)
            }
            _ => None,
        };
        let rounding = self.start_rounding(rounding, exact.as_ref(), &catalogue)?;
        let reference = match (self.logits.take(), verify) {
            (Some((_, logits)), _) => Some(Reference::Recorded(logits, catalogue.clone())),
            (None, Some(library)) => {
                let plan = exact;
                let (path, open) = (self.path.clone(), self.open.clone());
                let catalogue = catalogue.clone();
                Some(Reference::Checkpoint(Box::new(Original {
                    path,
                    open,
                    catalogue,
                    plan,
                    library,
                })))
            }
            (None, None) => None,
        };
        if is_auto && !recipe.tensors.is_empty() {
            let exact = if auto.rounds() { ROUNDS } else { "" };
            recipe.notes.insert(0, format!("type {auto}{exact}"));
        }
        if lacks_vocabulary(&recipe) && !self.no_vocab {
            self.call.note(Note::NoTokenizer);
        }
        if let Some(name) = name_in_cache(&self.path).filter(|_| !is_named) {
            self.call.note(Note::CachedCopy(name));
        }
        if self.with_graph {
            write_graph(&mut recipe, architecture)?;
        }
        let projector = catalogue.for_projector(checkpoint.config()).ok().filter(|_| !self.mmproj);
        if projector.is_some_and(|found| ggmill_convert::has_projector(&checkpoint, found)) {
            recipe.notes.push(HAS_ENCODERS.to_owned());
        }
        let mut refusal = None;
        if let Some(target) = target {
            let test = rounding.as_ref().map(|(_, test)| test);
            (recipe, refusal) = self.quantized(&recipe, &checkpoint, target, test)?;
            if rounding.is_none() && refusal.is_none() {
                add_scales(&mut recipe, &checkpoint, &mut self.call)?;
            }
        }
        let has_vocabulary = !lacks_vocabulary(&recipe);
        let name = match &destination {
            Destination::ShardsInDirectory(_) => recipe.clone().plan(&checkpoint)?.file_name().ok(),
            _ => None,
        };
        let mut recipes = match &self.split {
            Some(split) => recipe.split(split)?,
            None => vec![recipe],
        };
        let mut test = None;
        let source = match rounding.filter(|_| refusal.is_none()) {
            Some((calibrated, rounding)) => {
                let (source, _) =
                    round(&mut recipes, checkpoint, &calibrated, &rounding, &mut self.call)?;
                test = Some(rounding);
                source
            }
            None => Box::new(checkpoint),
        };
        let what = ToPlan {
            recipes,
            source,
            destination,
            inputs,
            name,
            other_name,
            rules: self.check.then(|| catalogue.clone()),
            refusal,
        };
        let planned = Planned::new(what, self.call)?;
        Ok(ConvertPlan { planned, has_vocabulary, reference, test })
    }

    /// Reads a text for rounding. `exact` is the plan of the conversion to F32, which runs on the text.
    fn start_rounding(
        &self,
        text: Option<(RunText, Option<u64>)>,
        exact: Option<&Plan>,
        catalogue: &Catalogue,
    ) -> Result<Option<(Calibrated, Measuring)>> {
        let Some((text, memory)) = text else { return Ok(None) };
        let Some(exact) = exact else {
            let message = "a draft model runs with its target only";
            return Err(Error::misuse(message).at(&self.path));
        };
        let model = planned_model(exact.clone(), &self.path, &self.open)?;
        let text = (&text, memory);
        calibrate::start(&model, catalogue.clone(), text, self.call.threads).map(Some)
    }

    /// Quantizes a recipe, so that conversion and quantization run in one pass.
    fn quantized(
        &mut self,
        recipe: &Recipe,
        checkpoint: &CheckpointDirectory,
        target: Target,
        test: Option<&Measuring>,
    ) -> Result<(Recipe, Option<Error>)> {
        let mut options = QuantizeOptions::new(target);
        let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let names: Vec<String> = recipe.tensors.iter().map(|tensor| name(&tensor.name)).collect();
        std::mem::take(&mut self.types).apply(&mut options, &names, &mut self.call)?;
        options.types = self.type_plan.take();
        if let Some(goal) = self.goal {
            let split = self.split.as_ref();
            let fit = self.call.with_report(Stage::Sampling, |run, report| {
                fit_recipe(recipe, checkpoint, &options, split, goal, run, report)
            });
            let fit = fit.map_err(|error| too_small(error, &recipe.source_tensors(), &options))?;
            note_choice(&fit, goal, &mut self.call);
            options.types = Some(fit.types);
        }
        let quantized = |options: &QuantizeOptions| quantize_recipe(recipe, options);
        with_refusal(&mut options, test, &mut self.call, quantized)
    }

    fn plan_adapter(mut self, out: &Path) -> Result<ConvertPlan<'a>> {
        let file_type = match self.to {
            ConvertType::Auto => FileType::F32,
            ConvertType::Plain(file_type) => file_type,
            ConvertType::Quantized(target) => {
                let name = target.name();
                let message = format_args!("{name}: an adapter can be F32, F16, BF16 or Q8_0");
                return Err(Error::misuse(message));
            }
        };
        let adapter = PeftAdapter::open(&self.path)?;
        let catalogue = self.catalogue();
        let base = self.base.as_deref();
        // The configuration of a base in a GGUF file is restored from its metadata.
        let file =
            base.filter(|base| base.is_file()).map(|path| self.open.open(path)).transpose()?;
        let mut file_checkpoint = None;
        let (architecture, base, base_files): (_, Box<dyn Pretrained>, Vec<PathBuf>) =
            if let Some(model) = &file {
                let checkpoint = file_checkpoint.insert(model.checkpoint()?);
                let architecture = architecture_of(model, &catalogue)?;
                let mut options = RestoreOptions::default();
                options.no_vocab = true;
                let base = restore_checkpoint(checkpoint, architecture, &options)
                    .and_then(|restored| restored.into_checkpoint(checkpoint))
                    .map_err(|error| located(error, model).replace_hint(Hint::NameBase))?;
                let files = model.files();
                refuse_interrupted(&files)?;
                (architecture, Box::new(base), files)
            } else {
                let base = adapter
                    .open_base(base)
                    .map_err(|error| Error::from(error).replace_hint(Hint::NameBase))?;
                let architecture = catalogue
                    .for_checkpoint(base.config())
                    .map_err(|error| Error::from(error).replace_hint(Hint::DescribeArchitecture))?;
                let files = base.files().map(Path::to_owned).collect();
                (architecture, Box::new(base), files)
            };
        let destination = match Destination::file_or_directory(out, false) {
            Destination::InDirectory(directory) => {
                let name = adapter.name().unwrap_or("adapter");
                Destination::File(directory.join(format!("{name}-{file_type}.gguf")))
            }
            file => file,
        };
        let inputs: Vec<PathBuf> = adapter
            .files()
            .map(Path::to_owned)
            .chain(base_files)
            .chain(self.architecture_files.iter().cloned())
            .chain(self.metadata_file.iter().cloned())
            .collect();
        destination.check(&inputs, self.call.overwrite)?;
        let options = self.options(file_type);
        let recipe = convert_lora(&adapter, &*base, architecture, &options)?;
        drop(base);
        let what = ToPlan {
            recipes: vec![recipe],
            source: Box::new(adapter),
            destination,
            inputs,
            name: None,
            other_name: String::new(),
            rules: None,
            refusal: None,
        };
        let planned = Planned::new(what, self.call)?;
        Ok(ConvertPlan { planned, has_vocabulary: true, reference: None, test: None })
    }

    fn plan_legacy(self, out: &Path) -> Result<ConvertPlan<'a>> {
        if !matches!(self.to, ConvertType::Auto) {
            let message = "a legacy file cannot be converted to a different type";
            return Err(Error::misuse(message).at(&self.path).with_hint(Hint::KeepsTypes));
        }
        let destination = match Destination::file_or_directory(out, false) {
            Destination::InDirectory(directory) => {
                let name = Path::new(self.path.file_name().unwrap_or_default());
                let name = name.with_extension("gguf").to_string_lossy().into_owned();
                Destination::File(directory.join(name))
            }
            file => file,
        };
        let inputs = vec![self.path];
        destination.check(&inputs, self.call.overwrite)?;
        let legacy = Legacy::open(&inputs[0])?;
        let mut options = self.legacy.unwrap_or_default();
        options.name = self.name;
        let recipe = convert_legacy(&legacy, &options)?;
        let has_vocabulary = !lacks_vocabulary(&recipe);
        let what = ToPlan {
            recipes: vec![recipe],
            source: Box::new(legacy),
            destination,
            inputs,
            name: None,
            other_name: "model".to_owned(),
            rules: self.check.then(Catalogue::new),
            refusal: None,
        };
        let planned = Planned::new(what, self.call)?;
        Ok(ConvertPlan { planned, has_vocabulary, reference: None, test: None })
    }
}

/// A planned and checked conversion: a [`Planned`].
#[derive(Debug)]
pub struct ConvertPlan<'a> {
    planned: Planned<'a>,
    has_vocabulary: bool,
    reference: Option<Reference<'a>>,
    test: Option<Measuring>,
}

impl<'a> Deref for ConvertPlan<'a> {
    type Target = Planned<'a>;

    fn deref(&self) -> &Planned<'a> {
        &self.planned
    }
}

impl<'a> ConvertPlan<'a> {
    /// Returns `false` if the model should have a vocabulary, but the file has none.
    pub fn has_vocabulary(&self) -> bool {
        self.has_vocabulary
    }

    /// Returns the plan of the model. Fails if [`write`](Self::write) would, for example because an
    /// importance matrix is missing.
    pub fn into_planned(self) -> Result<Planned<'a>> {
        self.planned.without_refusal()
    }

    /// Returns the error of [`write`](Self::write) for a model that can be planned, but not written,
    /// for example because an importance matrix is missing.
    pub fn into_refusal(self) -> Option<Error> {
        self.planned.into_refusal()
    }

    /// Writes the files: all of them complete, or none.
    pub fn write(self) -> Result<Converted<'a>> {
        let (written, call) = self.planned.write_with_call()?;
        Ok(Converted {
            written,
            call,
            has_vocabulary: self.has_vocabulary,
            reference: self.reference,
            test: self.test,
        })
    }
}

/// A converted model: a [`Written`], which can be verified.
#[derive(Debug)]
pub struct Converted<'a> {
    written: Written,
    call: Call<'a>,
    has_vocabulary: bool,
    reference: Option<Reference<'a>>,
    test: Option<Measuring>,
}

impl Deref for Converted<'_> {
    type Target = Written;

    fn deref(&self) -> &Written {
        &self.written
    }
}

impl Converted<'_> {
    /// Returns `false` if the model should have a vocabulary, but the file has none.
    pub fn has_vocabulary(&self) -> bool {
        self.has_vocabulary
    }

    /// Runs the model over a few tokens, and compares its outputs with recorded logits
    /// ([`Convert::logits`]) or with the checkpoint ([`Convert::verify`]). Returns `None` if neither was
    /// asked for.
    pub fn verify(&mut self) -> Result<Option<Verification>> {
        let (Some(reference), Some(path)) = (&mut self.reference, self.written.paths().first())
        else {
            return Ok(None);
        };
        let found = reference.compare(path, &mut self.call)?;
        self.written.notes.append(&mut self.call.notes);
        Ok(Some(found))
    }

    /// Measures the result on the text that [`Convert::calibrate`] did not use, and adds a note. Does nothing
    /// without it.
    pub fn test(&mut self) -> Result<()> {
        if let (Some(test), Some(path)) = (&self.test, self.written.paths().first()) {
            test.test(path, None, &mut self.call)?;
        }
        self.written.notes.append(&mut self.call.notes);
        Ok(())
    }
}

/// Puts the computation graph of a model into its metadata.
fn write_graph(recipe: &mut Recipe, architecture: &Architecture) -> Result<()> {
    let names: HashSet<&[u8]> = recipe.tensors.iter().map(|tensor| &*tensor.name).collect();
    let resolved = architecture.resolve_metadata(&recipe.metadata)?;
    let graph = resolved.graph(&|name| names.contains(name.as_bytes()))?;
    Ok(graph.write(&mut recipe.metadata)?)
}

/// Returns `true` if a model should have a vocabulary, but its recipe has none.
fn lacks_vocabulary(recipe: &Recipe) -> bool {
    recipe.metadata.get(keys::TOKENIZER_MODEL) == Some(Value::Str(RawStr::from("none")))
}

/// Replaces `{ftype}` in the name of an output by the type, as convert_hf_to_gguf.py does.
fn with_type_name(out: &Path, type_name: &str) -> PathBuf {
    let Some(name) = out.file_name().and_then(|name| name.to_str()) else {
        return out.to_owned();
    };
    let (small, large) = (type_name.to_ascii_lowercase(), type_name.to_ascii_uppercase());
    let filled = [("{}", &small), ("{ftype}", &small), ("{outtype}", &small)]
        .into_iter()
        .chain([("{FTYPE}", &large), ("{OUTTYPE}", &large)])
        .fold(name.to_owned(), |name, (pattern, text)| name.replace(pattern, text));
    if filled == name { out.to_owned() } else { out.with_file_name(filled) }
}
