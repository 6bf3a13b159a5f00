//! `diff`: compares two models.

use ggmill_edit::hash::{Comparison, ToCompare};
use ggmill_inspect::Selection;
use ggmill_inspect::diff::{DataDiff, Diff, NumericDiff, TensorPair};
use ggmill_pipeline::GgufCheckpoint;
use ggmill_text::Glob;

use super::extract::check_patterns;
use crate::open::refuse_interrupted;
use crate::progress::{Call, Stage, call_options};
use crate::{Model, Result};

/// Compares two models: metadata, tensors, and their data. Space that edits reserve is not compared.
///
/// ```no_run
/// let (old, new) = (ggmill::Model::open("old.gguf")?, ggmill::Model::open("new.gguf")?);
/// println!("{}", ggmill::diff(&old, &new)?.run()?.is_same());
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn diff<'a>(a: &'a Model, b: &'a Model) -> Result<ModelDiff<'a>> {
    refuse_interrupted(&a.files())?;
    refuse_interrupted(&b.files())?;
    let (metadata, keys, tensors) = (false, Vec::new(), None);
    Ok(ModelDiff { a, b, call: Call::default(), metadata, keys, tensors, numeric: false })
}

/// The options of [`diff()`].
#[derive(Debug)]
pub struct ModelDiff<'a> {
    a: &'a Model,
    b: &'a Model,
    call: Call<'a>,
    metadata: bool,
    keys: Vec<Glob>,
    tensors: Option<Vec<Glob>>,
    numeric: bool,
}

impl<'a> ModelDiff<'a> {
    call_options!();

    /// Selects the metadata; without [`tensors`](Self::tensors), no tensor data is read.
    #[must_use]
    pub fn metadata(mut self) -> Self {
        self.metadata = true;
        self
    }

    /// Compares only metadata with these keys.
    #[must_use]
    pub fn keys(mut self, keys: impl IntoIterator<Item = Glob>) -> Self {
        self.keys.extend(keys);
        self
    }

    /// Selects tensors by name, or all without patterns; without [`metadata`](Self::metadata), only
    /// tensors are compared.
    #[must_use]
    pub fn tensors(mut self, names: impl IntoIterator<Item = Glob>) -> Self {
        self.tensors.get_or_insert_default().extend(names);
        self
    }

    /// Computes numeric differences between tensors, also between different types.
    #[must_use]
    pub fn numeric(mut self, numeric: bool) -> Self {
        self.numeric = numeric;
        self
    }

    /// Compares the models. Fails if a pattern matches nothing in either.
    pub fn run(mut self) -> Result<Diff<'a>> {
        let (a, b) = (self.a.core(), self.b.core());
        let selection = self.selection();
        let files = || a.parts().iter().chain(b.parts());
        check_patterns("key", &selection.keys, || {
            files().flat_map(|file| file.metadata().iter()).map(|entry| entry.key())
        })?;
        if !selection.tensors {
            return Ok(Diff::of(a, b, &selection)?);
        }
        let sources = (self.a.checkpoint()?, self.b.checkpoint()?);
        check_patterns("tensor", &selection.names, || {
            a.tensors().iter().chain(b.tensors().iter()).map(|tensor| tensor.name())
        })?;
        let mut diff = Diff::of(a, b, &selection)?;
        self.compare(&mut diff, &sources.0, &sources.1)?;
        Ok(diff)
    }

    fn selection(&mut self) -> Selection {
        let metadata = self.metadata || !self.keys.is_empty();
        let names = self.tensors.take();
        let mut selection = Selection::metadata(std::mem::take(&mut self.keys));
        selection.metadata = metadata || names.is_none();
        selection.tensors = names.is_some() || !metadata;
        selection.names = names.unwrap_or_default();
        selection
    }

    /// Compares the data of tensors that exist in both models with the same shape.
    fn compare(
        &mut self,
        diff: &mut Diff<'_>,
        a: &GgufCheckpoint,
        b: &GgufCheckpoint,
    ) -> Result<()> {
        let numeric = self.numeric;
        let comparable = |(_, pair): &(usize, &TensorPair<'_>)| {
            pair.has_same_shape() && (numeric || pair.has_same_type())
        };
        let pairs = diff.tensors().unwrap_or_default().iter().enumerate().filter(comparable);
        let both = pairs.filter_map(|(number, pair)| {
            let (a, b) = pair.both()?;
            Some((number, ToCompare { a: a.number, b: b.number }))
        });
        let (numbers, pairs): (Vec<usize>, Vec<ToCompare>) = both.unzip();
        let found = self.call.with_report(Stage::Reading, |options, report| {
            ggmill_edit::hash::compare(a, b, &pairs, numeric, options, report)
        })?;
        for (number, found) in numbers.into_iter().zip(found) {
            diff.set_data(number, data_diff(&found));
        }
        Ok(())
    }
}

fn data_diff(found: &Comparison) -> DataDiff {
    let numeric = found.numeric.map(|error| NumericDiff {
        max_abs: error.max_abs,
        max_at: error.max_at,
        rmse: error.rmse,
        relative: error.relative,
        cosine: error.cosine,
        non_finite: error.non_finite,
    });
    DataDiff { first_byte: found.first_byte, different_bytes: found.different_bytes, numeric }
}
