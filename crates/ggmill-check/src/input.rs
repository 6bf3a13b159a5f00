//! Inputs of a check: files, plans of files, and template files.

use std::fmt;

use ggmill_arch::{Catalogue, ModelView, kind_of_architecture};
use ggmill_core::{Builder, Error, Header, Metadata, Model, ReadAt, Tensor, Tensors, Value, keys};
#[cfg(feature = "examine")]
use ggmill_pipeline::{Plan, Result};
use ggmill_template::{Json, TemplateFile};

use crate::{DataFacts, Options, Report, check};
#[cfg(feature = "examine")]
use crate::{Diagnostic, Severity, check_set};

/// A file to check: a file of a model with the faults found when it was opened, and optional
/// context.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    pub(crate) part: &'a Header<'a>,
    pub(crate) name: Option<&'a str>,
    pub(crate) catalogue: Option<&'a Catalogue>,
    pub(crate) data: Option<&'a DataFacts>,
    pub(crate) set_fault: Option<&'a str>,
    /// The name of a file of the same repository, and its chat template.
    pub(crate) repository: Option<(&'a str, &'a str)>,
    /// All shards of the set in order; empty if they are not available.
    shards: &'a [Input<'a>],
    /// The index of this file in `shards`.
    shard: usize,
}

impl fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("name", &self.name)
            .field("faults", &self.part.faults())
            .finish_non_exhaustive()
    }
}

impl<'a> Input<'a> {
    /// Creates an input from a file, as [`Model::open_damaged`](ggmill_core::Model::open_damaged) opens
    /// it. Bytes between tensors are examined if the file has a source to read from.
    pub fn new(part: &'a Header<'a>) -> Self {
        Self {
            part,
            name: None,
            catalogue: None,
            data: None,
            set_fault: None,
            repository: None,
            shards: &[],
            shard: 0,
        }
    }

    pub(crate) fn faults(&self) -> &'a [Error] {
        self.part.faults()
    }

    /// Returns the source of the bytes after the header, if there is one.
    pub(crate) fn bytes(&self) -> Option<&'a dyn ReadAt> {
        self.part.source().map(|source| &**source)
    }

    /// Sets the name of the file without directories, for the rules about names.
    #[must_use]
    pub fn named(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// Sets the summary of the tensor data, for the rules about weights.
    #[must_use]
    pub fn with_data(mut self, data: &'a DataFacts) -> Self {
        self.data = Some(data);
        self
    }

    /// Sets the fault of the shard set that the file belongs to, in one line without control
    /// characters.
    #[must_use]
    pub fn with_set_fault(mut self, fault: &'a str) -> Self {
        self.set_fault = Some(fault);
        self
    }

    /// Sets the chat template of the repository of the file: the name of a file that has it, and the
    /// text.
    #[must_use]
    pub fn with_repository_template(mut self, name: &'a str, template: &'a str) -> Self {
        self.repository = Some((name, template));
        self
    }

    /// Sets the known architectures; the default is the built-in ones.
    #[must_use]
    pub fn with_catalogue(mut self, catalogue: &'a Catalogue) -> Self {
        self.catalogue = Some(catalogue);
        self
    }

    /// Sets all shards of the set and the index of this one.
    pub(crate) fn among(mut self, shards: &'a [Self], shard: usize) -> Self {
        (self.shards, self.shard) = (shards, shard);
        self
    }

    /// Returns `true` if the metadata says that the file is one of several shards.
    pub(crate) fn is_shard(&self) -> bool {
        self.number(keys::SPLIT_COUNT).is_some_and(|count| count > 1)
    }

    /// Returns `true` if the file has the metadata of the model: a single file, or the first shard.
    pub(crate) fn is_first(&self) -> bool {
        !self.is_shard() || self.number(keys::SPLIT_NO).unwrap_or(0) == 0
    }

    /// Returns `true` if all tensors of the model are available.
    pub(crate) fn is_complete(&self) -> bool {
        !self.is_shard() || !self.shards.is_empty()
    }

    /// Returns the tensors of all available shards, each with the index of its shard.
    pub(crate) fn model_tensors(&self) -> impl Iterator<Item = (usize, Tensor<'a>)> + Clone {
        let single = self.shards.is_empty().then_some((self.shard, self.tensors()));
        let shards = self.shards.iter().enumerate().map(|(shard, input)| (shard, input.tensors()));
        single
            .into_iter()
            .chain(shards)
            .flat_map(|(shard, tensors)| tensors.iter().map(move |tensor| (shard, tensor)))
    }

    /// Returns the tensor with this name in any available shard, with the index of the shard.
    pub(crate) fn model_tensor(&self, name: &[u8]) -> Option<(usize, Tensor<'a>)> {
        match self.shards {
            [] => Some((self.shard, self.tensors().get(name)?)),
            shards => shards
                .iter()
                .enumerate()
                .find_map(|(shard, input)| Some((shard, input.tensors().get(name)?))),
        }
    }

    pub(crate) fn metadata(&self) -> Metadata<'a> {
        self.part.metadata()
    }

    pub(crate) fn tensors(&self) -> Tensors<'a> {
        self.part.tensors()
    }

    /// Returns `true` if the whole header was read. Otherwise missing entries are not findings.
    pub fn is_whole(&self) -> bool {
        self.header_fault().is_none()
    }

    /// Returns the fault at which reading the header stopped.
    pub(crate) fn header_fault(&self) -> Option<&'a Error> {
        self.part.header_fault()
    }

    /// Returns the value of a key, if it exists.
    pub(crate) fn value(&self, key: &str) -> Option<Value<'a>> {
        self.metadata().get(key)?.value().ok()
    }

    /// Returns the value of a key if it is a UTF-8 string.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.value(key)?.as_str()
    }

    /// Returns the value of a key if it is a nonnegative integer.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.value(key)?.as_u64()
    }

    /// Returns the view of the hyperparameters and tensor roles by the metadata of this file.
    pub(crate) fn model(&self) -> ModelView<'a> {
        ModelView::of_metadata(self.metadata())
    }

    /// Returns the architecture, which is in the first shard of a set.
    pub(crate) fn architecture(&self) -> Option<&'a str> {
        self.shards.first().unwrap_or(self).text(keys::GENERAL_ARCHITECTURE)
    }

    /// Returns the kind of file: `general.type`, which is in the first shard of a set. Files without the
    /// key are of the kind of their architecture, or `vocab` without tensors, or `model`.
    pub(crate) fn kind(&self) -> &'a str {
        let stated = self.shards.first().unwrap_or(self).text(keys::GENERAL_TYPE);
        let implied = || self.architecture().and_then(kind_of_architecture);
        let is_empty = || self.model_tensors().next().is_none() && self.is_complete();
        stated.or_else(implied).unwrap_or_else(|| if is_empty() { "vocab" } else { "model" })
    }
}

/// Checks the files of a model before they are written: one file, or all shards of a set in order.
/// Returns a report for each.
///
/// A plan has the header and the length of its file, which is all that the rules need apart from tensor
/// data. A model that takes hours to write is thus rejected before the work. Fails if a header cannot be
/// read.
///
/// ```
/// use ggmill_arch::Catalogue;
/// use ggmill_check::{Options, check_plans};
/// use ggmill_core::MetadataBuf;
/// use ggmill_pipeline::{MemorySource, Recipe};
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.name", "Without an architecture");
/// let plan = Recipe::new(metadata, Vec::new()).plan(&MemorySource::new())?;
/// let reports = check_plans(&[&plan], &Catalogue::new(), &Options::default())?;
/// assert!(reports[0].has_errors());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "examine")]
pub fn check_plans(
    plans: &[&Plan],
    catalogue: &Catalogue,
    options: &Options,
) -> Result<Vec<Report>> {
    Ok(reports(&models(plans)?, catalogue, options))
}

/// The findings for a model before it is written, and whether they prevent writing it.
///
/// ```
/// use ggmill_arch::Catalogue;
/// use ggmill_check::CheckedPlans;
/// use ggmill_core::MetadataBuf;
/// use ggmill_pipeline::{MemorySource, Recipe};
/// let plan = Recipe::new(MetadataBuf::new(), Vec::new()).plan(&MemorySource::new())?;
/// let checked = CheckedPlans::of(&[&plan], &Catalogue::new())?;
/// // Without tensors it is only a part of a model.
/// assert!(checked.reports()[0].has_errors() && checked.refusal().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "examine")]
#[derive(Debug, Default)]
pub struct CheckedPlans {
    reports: Vec<Report>,
    is_part: bool,
}

#[cfg(feature = "examine")]
impl CheckedPlans {
    /// Checks the files of a model against all requirements, like [`check_plans`].
    pub fn of(plans: &[&Plan], catalogue: &Catalogue) -> Result<Self> {
        let models = models(plans)?;
        let vocabulary = models.first().and_then(|model| {
            let entry = model.metadata().get(keys::TOKENIZER_MODEL)?;
            let value = entry.value().ok()?;
            Some(value.as_str() != Some("none"))
        });
        let has_tensors = models.iter().any(|model| !model.tensors().is_empty());
        let is_part = !has_tensors || !vocabulary.unwrap_or(false);
        Ok(Self { reports: reports(&models, catalogue, &Options::default()), is_part })
    }

    /// Returns the report of each file.
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// Returns the first error, which prevents writing the model. A part of a model, such as one without
    /// vocabulary, is never refused, as the rest was left out on purpose.
    pub fn refusal(&self) -> Option<&Diagnostic> {
        let mut found = self.reports.iter().flat_map(Report::diagnostics);
        found.find(|found| found.severity == Severity::Error && !self.is_part)
    }
}

#[cfg(feature = "examine")]
fn models(plans: &[&Plan]) -> Result<Vec<Model>> {
    plans.iter().map(|plan| plan.model()).collect()
}

#[cfg(feature = "examine")]
fn reports(models: &[Model], catalogue: &Catalogue, options: &Options) -> Vec<Report> {
    let inputs: Vec<Input<'_>> = models
        .iter()
        .filter_map(|model| model.parts().first())
        .map(|part| Input::new(part).with_catalogue(catalogue))
        .collect();
    match &*inputs {
        [one] => vec![check(one, options)],
        several => check_set(several, options),
    }
}

/// Checks the templates of a file that is not a model, such as `tokenizer_config.json`, like those of a
/// model without vocabulary. The special tokens in the file are variables, unless the options have
/// them. Findings have no offset. The options must select only the rules about templates, as other rules
/// report missing metadata.
///
/// ```
/// use ggmill_check::{Options, check_templates};
/// use ggmill_template::TemplateFile;
/// let file = TemplateFile::parse("{% if %}")?;
/// let options = Options::default().with_select(vec!["template".parse()?]);
/// let report = check_templates(&file, &options)?;
/// assert_eq!(report.diagnostics()[0].rule.code, "GG1701");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Fails if the templates do not fit into a header.
pub fn check_templates(
    file: &TemplateFile,
    options: &Options,
) -> std::result::Result<Report, Error> {
    let plan = Builder::new().metadata(file.to_metadata()).plan()?;
    let model = Model::open(plan.header().to_vec())?;
    let mut options = options.clone();
    for (name, text) in &file.tokens {
        if options.variables.iter().all(|(known, _)| known != name) {
            options = options.with_variable(name.as_str(), Json::from(text.as_str()));
        }
    }
    let report = model.parts().first().map(|part| check(&Input::new(part), &options));
    Ok(report.unwrap_or_default().without_offsets())
}
