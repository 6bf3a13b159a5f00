//! Models checked against the rules.

use std::path::PathBuf;

use ggmill::arch::Catalogue;
use ggmill::check::{
    DataFacts, Input, Options, Profile, Report, Selector, check_files, examine, render, unreadable,
};
use ggmill::core::{Model, Part};
use ggmill::io;
use pyo3::prelude::*;

use super::output::json;
use crate::error::{Failure, Result};
use crate::progress::reporting;
use crate::threads;

/// A file that was opened to be checked.
struct Opened {
    path: PathBuf,
    name: String,
    model: Model,
    facts: DataFacts,
}

impl Opened {
    fn part(&self) -> Option<&Part> {
        self.model.parts().first()
    }
}

/// Checks a file, or all shards of its set: the document of `ggmill check --format json`, and the
/// text for people.
#[pyfunction]
#[pyo3(signature = (
    path, *, data = false, profile = "all", select = vec![], ignore = vec![], most = 20,
    threads = None, progress = None
))]
pub(crate) fn check(
    py: Python<'_>,
    path: PathBuf,
    data: bool,
    profile: &str,
    select: Vec<String>,
    ignore: Vec<String>,
    most: usize,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> Result<(String, String)> {
    let profile: Profile = profile
        .parse()
        .map_err(|error| Failure::misuse(format!("profile {profile:?}, {error}")))?;
    let options = Options::default()
        .with_profile(profile)
        .with_select(selectors(&select)?)
        .with_ignore(selectors(&ignore)?)
        .with_findings_per_rule(most);
    let paths = io::sibling_shards(&path);
    let mut opened = Vec::with_capacity(paths.len());
    let mut refused = Vec::new();
    for path in paths {
        match py.detach(|| io::salvage(&path)) {
            Ok(model) => {
                if opened.len() >= io::MAX_OPEN_FILES {
                    io::close_idle(&model);
                }
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                opened.push(Opened { path, name, model, facts: DataFacts::default() });
            }
            Err(error) => match error.format_error() {
                Some(format) => refused.push((path, unreadable(format, &options))),
                None => return Err(error.into()),
            },
        }
    }
    if data {
        let options = threads::run_options(threads);
        for file in &mut opened {
            let Some(part) = file.model.parts().first() else { continue };
            let callback = progress.as_ref().map(|callback| callback.clone_ref(py));
            file.facts = reporting(py, callback, |report| examine(part, &options, report))?;
        }
    }
    let reports = py.detach(|| reports(&opened, &options));
    let names: Vec<(String, Report)> = opened
        .iter()
        .map(|file| &file.path)
        .zip(reports)
        .map(|(path, report)| (path.clone(), report))
        .chain(refused)
        .map(|(path, report)| (path.to_string_lossy().into_owned(), report))
        .collect();
    let checked: Vec<_> =
        names.iter().map(|(path, report)| render::Checked::new(path, report)).collect();
    let mut page = Vec::new();
    let mut text = render::Text::new(false, None);
    for checked in &checked {
        text.file(&mut page, checked)?;
    }
    Ok((json(&render::json(&checked))?, String::from_utf8_lossy(&page).into_owned()))
}

/// The findings of each file: as one model where they are all shards of a set.
fn reports(opened: &[Opened], options: &Options) -> Vec<Report> {
    let catalogue = Catalogue::new();
    let inputs: Vec<Input<'_>> = opened
        .iter()
        .filter_map(|file| {
            let input = Input::new(file.part()?).with_data(&file.facts).named(&file.name);
            Some(input.with_catalogue(&catalogue))
        })
        .collect();
    let models: Vec<&Model> = opened.iter().map(|file| &file.model).collect();
    let whole = || io::open_failure(&opened.first()?.path);
    check_files(&inputs, io::set_fault(&models, whole).as_deref(), options)
}

fn selectors(codes: &[String]) -> Result<Vec<Selector>> {
    let selector = |code: &String| {
        code.parse::<Selector>().map_err(|error| Failure::misuse(format!("{code:?}: {error}")))
    };
    codes.iter().map(selector).collect()
}
