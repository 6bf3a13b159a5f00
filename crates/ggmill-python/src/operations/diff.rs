//! Differences between two models.

use std::path::PathBuf;

use ggmill::hash::{Comparison, ToCompare};
use ggmill::inspect::diff::{DataDiff, Diff, NumericDiff, TensorPair, json, text};
use ggmill::inspect::{self, Selection};
use ggmill::text::Glob;
use pyo3::prelude::*;

use super::output::open;
use crate::error::{Failure, Result};
use crate::progress::reporting;
use crate::threads;

/// Compares two models: whether they are the same, the document `ggmill.diff/1`, and the text for
/// people.
#[pyfunction]
#[pyo3(signature = (
    a, b, *, metadata = true, tensors = true, keys = vec![], names = vec![], data = false,
    full = false, threads = None, progress = None
))]
pub(crate) fn diff(
    py: Python<'_>,
    a: PathBuf,
    b: PathBuf,
    metadata: bool,
    tensors: bool,
    keys: Vec<String>,
    names: Vec<String>,
    data: bool,
    full: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> Result<(bool, String, String)> {
    let shown = [a.to_string_lossy().into_owned(), b.to_string_lossy().into_owned()];
    let shown = [shown[0].as_str(), shown[1].as_str()];
    let (a, b) = py.detach(|| Ok::<_, Failure>((open(&a)?, open(&b)?)))?;
    let mut selection = Selection::metadata(globs(&keys)?);
    selection.metadata = metadata;
    selection.tensors = tensors;
    selection.names = globs(&names)?;
    let mut diff = py.detach(|| Diff::of(a.model(), b.model(), &selection))?;
    if tensors {
        let comparable = |(_, pair): &(usize, &TensorPair<'_>)| {
            pair.has_same_shape() && (data || pair.has_same_type())
        };
        let both =
            diff.tensors().unwrap_or_default().iter().enumerate().filter(comparable).filter_map(
                |(number, pair)| {
                    let (a, b) = pair.both()?;
                    Some((number, ToCompare { a: a.number, b: b.number }))
                },
            );
        let (numbers, pairs): (Vec<usize>, Vec<ToCompare>) = both.unzip();
        let options = threads::run_options(threads);
        let found = reporting(py, progress, |report| {
            ggmill::hash::compare(&a, &b, &pairs, data, &options, report)
        })?;
        for (number, found) in numbers.into_iter().zip(found) {
            diff.set_data(number, data_diff(&found));
        }
    }
    let arrays = if full { inspect::json::Arrays::Full } else { inspect::json::Arrays::Shortened };
    let (mut document, mut page) = (Vec::new(), Vec::new());
    json::write(&mut document, &diff, shown, arrays)?;
    let options = inspect::text::Options::default().with_full(full);
    text::write(&mut page, &diff, shown, &options)?;
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((diff.is_same(), lossy(&document), lossy(&page)))
}

/// Patterns as the command has them.
pub(super) fn globs(patterns: &[String]) -> Result<Vec<Glob>> {
    let glob = |pattern: &String| {
        pattern.parse::<Glob>().map_err(|error| Failure::misuse(format!("{pattern:?}: {error}")))
    };
    patterns.iter().map(glob).collect()
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
