//! Findings about a model.

use ggmill::check::render::{self, Checked};
use ggmill::check::{Input, Options, Profile, Selector, check_files};
use ggmill::{Model, keys};
use serde_json::Value;

use crate::failure::Failure;
use crate::record::Record;

/// Checks the header of every file of a model by the options in the input, and writes the report as
/// `ggmill check --json` does.
pub(crate) fn check(model: &Model, input: &[u8]) -> Result<Record, Failure> {
    let wanted: Value = serde_json::from_slice(input)
        .map_err(|error| Failure::new("misuse", format_args!("options: {error}")))?;
    let options = options(&wanted)?;
    let names: Vec<&str> = strings(&wanted, "names")?;
    let inputs: Vec<Input<'_>> = model
        .parts()
        .iter()
        .enumerate()
        .map(|(number, part)| match names.get(number) {
            Some(name) if !name.is_empty() => Input::new(part).named(name),
            _ => Input::new(part),
        })
        .collect();
    let reports = check_files(&inputs, None, &options);
    let files: Vec<Checked<'_>> = reports
        .iter()
        .enumerate()
        .map(|(number, report)| {
            Checked::new(names.get(number).copied().unwrap_or_default(), report)
        })
        .collect();
    Ok(render::json(&files).to_string().into_bytes().into())
}

/// The known key that the one in the input is probably a misspelling of, or nothing.
pub(crate) fn meant_key(model: &Model, input: &[u8]) -> Record {
    let architecture = model.metadata().str(keys::GENERAL_ARCHITECTURE).ok();
    let key = core::str::from_utf8(input).ok();
    let meant = key.and_then(|key| ggmill::check::meant_key(key, architecture));
    meant.unwrap_or_default().into_bytes().into()
}

fn options(wanted: &Value) -> Result<Options, Failure> {
    let mut options = Options::default();
    if let Some(profile) = wanted.get("profile").and_then(Value::as_str) {
        let profile: Profile = profile.parse().map_err(|error| Failure::new("misuse", error))?;
        options = options.with_profile(profile);
    }
    if let Some(count) = wanted.get("findingsPerRule").and_then(Value::as_u64) {
        options = options.with_findings_per_rule(usize::try_from(count).unwrap_or(usize::MAX));
    }
    let selectors = |name: &str| -> Result<Vec<Selector>, Failure> {
        let texts = strings(wanted, name)?;
        texts
            .into_iter()
            .map(|text| {
                text.parse()
                    .map_err(|error| Failure::new("misuse", format_args!("{text:?}: {error}")))
            })
            .collect()
    };
    Ok(options.with_select(selectors("select")?).with_ignore(selectors("ignore")?))
}

/// The strings of a list, which may be absent.
fn strings<'a>(wanted: &'a Value, name: &str) -> Result<Vec<&'a str>, Failure> {
    match wanted.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) if list.iter().all(Value::is_string) => {
            Ok(list.iter().filter_map(Value::as_str).collect())
        }
        Some(_) => Err(Failure::new("misuse", format_args!("{name}: expected a list of strings"))),
    }
}
