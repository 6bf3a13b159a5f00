//! Findings about a model.

use ggmill_check::render::{self, Checked};
use ggmill_check::{Input, Options, Profile, RuleSet, Selector, Verdict};
use ggmill_core::Model;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::files::{Files, join};
use crate::record::Record;

/// The rules that are compiled into this module.
const RULES: RuleSet = match (cfg!(feature = "check"), cfg!(feature = "check-text")) {
    (true, true) => RuleSet::ALL,
    (true, false) => RuleSet::WITHOUT_TEXT,
    (false, _) => RuleSet::TEXT,
};

/// The options of a check.
struct Request {
    options: Options,
    /// The names of the files, which can be paths or addresses; empty for an unknown name.
    names: Vec<String>,
    /// The numbers of files that are being read.
    files: Vec<u32>,
}

impl Request {
    fn parse(input: &[u8]) -> Result<Self, Failure> {
        let object: Value = serde_json::from_slice(input)
            .map_err(|error| Failure::new("misuse", format_args!("options: {error}")))?;
        let names = strings(&object, "names")?.into_iter().map(str::to_owned).collect();
        let files = object.get("files").and_then(Value::as_array);
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        let files = files.into_iter().flatten().filter_map(number).collect();
        Ok(Self { options: options(&object)?, names, files })
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

/// Vets the files that are being read, whose numbers are in the input, as one model, and ends reading
/// them. Writes the verdict on each file by the rules of this module, and whether rules about text apply.
/// A single file that is not GGUF has a verdict; a set with such a file is an error.
pub(crate) fn vet(files: &mut Files, input: &[u8]) -> Result<Record, Failure> {
    let mut request = Request::parse(input)?;
    request.options = request.options.with_profile(Profile::Threat);
    let mut models = Vec::new();
    for &number in &request.files {
        models.push(files.end(number)?.finish_damaged().map(Model::from_header));
    }
    let joined = match models.pop() {
        Some(model) if models.is_empty() => model.map(|model| (model, vec![0])),
        last => {
            let shards: Result<Vec<_>, _> = models.into_iter().chain(last).collect();
            Ok(shards.and_then(join)?)
        }
    };
    let (reports, text) = match joined {
        Ok((model, order)) => {
            request.names = order.iter().map(|&place| request.name(place).to_owned()).collect();
            let inputs = request.inputs(&model);
            let text = ggmill_check::concerns_text(&inputs, &request.options);
            (RULES.check_files(&inputs, None, &request.options), text)
        }
        Err(error) => (vec![ggmill_check::unreadable(&error, &request.options)], false),
    };
    let verdict =
        |(place, report)| Verdict::of(&[Checked::new(request.name(place), report)]).json();
    let verdicts: Vec<Value> = reports.iter().enumerate().map(verdict).collect();
    Ok(json!({ "verdicts": verdicts, "text": text }).to_string().into_bytes().into())
}

/// Returns one byte: 1 if the options in the input select rules about text that apply to the model,
/// otherwise 0.
#[cfg(feature = "check")]
pub(crate) fn concerns_text(model: &Model, input: &[u8]) -> Result<Record, Failure> {
    let request = Request::parse(input)?;
    let concerns = ggmill_check::concerns_text(&request.inputs(model), &request.options);
    let mut record = Record::default();
    record.u8(concerns.into());
    Ok(record)
}

/// Returns the known key that the key in the input probably misspells; empty if there is none.
#[cfg(feature = "check")]
pub(crate) fn meant_key(model: &Model, input: &[u8]) -> Record {
    let architecture = model.metadata().str(ggmill_core::keys::GENERAL_ARCHITECTURE).ok();
    let key = core::str::from_utf8(input).ok();
    let meant = key.and_then(|key| ggmill_check::meant_key(key, architecture));
    meant.unwrap_or_default().into_bytes().into()
}

fn options(object: &Value) -> Result<Options, Failure> {
    let mut options = Options::default();
    if let Some(profile) = object.get("profile").and_then(Value::as_str) {
        let profile: Profile = profile.parse().map_err(|error| Failure::new("misuse", error))?;
        options = options.with_profile(profile);
    }
    if let Some(count) = object.get("findingsPerRule").and_then(Value::as_u64) {
        options = options.with_findings_per_rule(usize::try_from(count).unwrap_or(usize::MAX));
    }
    let selectors = |name: &str| -> Result<Vec<Selector>, Failure> {
        let texts = strings(object, name)?;
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

/// Returns a list of strings by its name; empty if it is absent.
fn strings<'a>(object: &'a Value, name: &str) -> Result<Vec<&'a str>, Failure> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) if list.iter().all(Value::is_string) => {
            Ok(list.iter().filter_map(Value::as_str).collect())
        }
        Some(_) => Err(Failure::new("misuse", format_args!("{name}: expected a list of strings"))),
    }
}
