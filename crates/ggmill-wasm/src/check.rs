//! Findings about a model.

use ggmill_check::render::{self, Checked};
use ggmill_check::{Input, Options, Profile, RuleSet, Selector};
use ggmill_core::Model;
use serde_json::Value;

use crate::failure::Failure;
use crate::record::Record;

/// The rules whose code this module has.
const RULES: RuleSet = match (cfg!(feature = "check"), cfg!(feature = "check-text")) {
    (true, true) => RuleSet::ALL,
    (true, false) => RuleSet::WITHOUT_TEXT,
    (false, _) => RuleSet::TEXT,
};

/// What is asked for.
struct Request {
    options: Options,
    /// The names of the files, which can be paths or addresses; empty where it is not known.
    names: Vec<String>,
}

impl Request {
    fn parse(input: &[u8]) -> Result<Self, Failure> {
        let wanted: Value = serde_json::from_slice(input)
            .map_err(|error| Failure::new("misuse", format_args!("options: {error}")))?;
        let names = strings(&wanted, "names")?.into_iter().map(str::to_owned).collect();
        Ok(Self { options: options(&wanted)?, names })
    }

    fn name(&self, number: usize) -> &str {
        self.names.get(number).map(String::as_str).unwrap_or_default()
    }

    fn inputs<'a>(&'a self, model: &'a Model) -> Vec<Input<'a>> {
        let parts = model.parts().iter().enumerate();
        parts
            .map(|(number, part)| match self.name(number).rsplit(['/', '\\']).next() {
                None | Some("") => Input::new(part),
                Some(name) => Input::new(part).named(name),
            })
            .collect()
    }
}

/// Checks the header of every file of a model by the options in the input, and writes the report as
/// `ggmill check --json` does.
pub(crate) fn check(model: &Model, input: &[u8]) -> Result<Record, Failure> {
    let request = Request::parse(input)?;
    let reports = RULES.check_files(&request.inputs(model), None, &request.options);
    let files: Vec<Checked<'_>> = reports
        .iter()
        .enumerate()
        .map(|(number, report)| Checked::new(request.name(number), report))
        .collect();
    Ok(render::json(&files).to_string().into_bytes().into())
}

/// Whether the options in the input select rules about text that can find anything in the model: one
/// byte, 0 or 1.
#[cfg(feature = "check")]
pub(crate) fn concerns_text(model: &Model, input: &[u8]) -> Result<Record, Failure> {
    let request = Request::parse(input)?;
    let concerns = ggmill_check::concerns_text(&request.inputs(model), &request.options);
    let mut record = Record::default();
    record.u8(concerns.into());
    Ok(record)
}

/// The known key that the one in the input is probably a misspelling of, or nothing.
#[cfg(feature = "check")]
pub(crate) fn meant_key(model: &Model, input: &[u8]) -> Record {
    let architecture = model.metadata().str(ggmill_core::keys::GENERAL_ARCHITECTURE).ok();
    let key = core::str::from_utf8(input).ok();
    let meant = key.and_then(|key| ggmill_check::meant_key(key, architecture));
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
