//! Provenance: authors, parent models, licenses and labels.

use ggmill_core::{Entry, RawStr, ValueType, keys};

use crate::report::{Findings, Place, shown};
use crate::rule::rules;
use crate::rules::{license, texts};
use crate::{Fix, Input, Options};

rules! { Provenance;
    LICENSE = "GG2001" Warning Specification {
        summary: "License is not an SPDX expression",
        clause: "Reported when the value of `general.license` is not an SPDX expression. The specification defines the value as an SPDX license expression and says: \"Do not include any other information\".",
        why: "Programs cannot tell whether the model may be used.",
        remedy: "Set an SPDX expression such as Apache-2.0 or MIT (case does not matter). For a license that SPDX does not list, use LicenseRef- followed by a name, and set general.license.link.",
        fixed: "general.license = \"mit\"",
    }
    LANGUAGE = "GG2002" Note Specification {
        summary: "Language is not an ISO 639-1 code",
        clause: "Reported when an element of `general.languages` is not an ISO 639-1 code. According to the specification, languages are \"encoded as ISO 639 two letter codes\".",
        why: "Searches by language do not find the model.",
        remedy: "Use two-letter codes in lowercase, such as en.",
        fixed: "general.languages = [\"en\"]",
    }
    URL = "GG2003" Note Specification {
        summary: "Link is not a web URL",
        clause: "Reported when the value of a key such as `general.url`, `general.repo_url` or `general.license.link` does not begin with http:// or https://. According to the specification, these keys contain URLs.",
        why: "The link does not work, or uses a scheme that can run a script.",
        remedy: "Set the full URL, beginning with https://.",
        fixed: "general.url = \"https://example.org\"",
    }
    DOI = "GG2004" Note Specification {
        summary: "Invalid DOI",
        clause: "Reported when the value of a key such as `general.doi` is not a DOI. According to the specification, such a key contains a Digital Object Identifier (DOI). A DOI begins with `10.` and contains a slash.",
        why: "The identifier cannot be resolved.",
        remedy: "Set the key to the DOI in the form 10.NNNN/name, or remove the key.",
        fixed: "general.doi = \"10.1000/182\"",
    }
    UUID = "GG2005" Note Specification {
        summary: "Invalid UUID",
        clause: "Reported when the value of a key such as `general.uuid` is not a UUID. According to the specification, such a key contains a universally unique identifier, which consists of 32 hexadecimal digits in groups of 8-4-4-4-12.",
        why: "Programs that look up models by UUID do not find the model.",
        remedy: "Set the correct UUID, or remove the key.",
        fixed: "general.uuid = \"12345678-1234-5678-1234-567812345678\"",
    }
    COUNT = "GG2006" Warning Specification {
        summary: "Count of base models or datasets does not match their keys",
        clause: "Reported when `general.base_model.count` or `general.dataset.count` differs from the number of base models or datasets that the file has keys for, or when the base models or datasets are not numbered consecutively from 0. According to the specification, general.base_model.count is the \"number of parent models\"; llama.cpp's converter numbers the models from 0. It numbers datasets in the same way, and writes their number to general.dataset.count.",
        why: "Programs that rely on the count miss base models or datasets, or look for ones that do not exist.",
        remedy: "Number the base models or datasets from 0, and set the count to how many there are.",
        fixed: "no general.base_model.count, or general.base_model.count = 1 and a key general.base_model.0.name",
        automatic: "sets the count if the base models or datasets are numbered consecutively from 0; if there are none, it sets the count to 0",
    }
    SIZE_LABEL = "GG2007" Note Practice {
        summary: "Size label does not match the number of parameters",
        clause: "Reported when `general.size_label` differs from the number of parameters by more than a factor of 2. Labels of models with experts, such as 8x7B, are not checked. According to the specification, general.size_label is the \"size class of the model, such as number of weights and experts\".",
        why: "Users and programs that rely on the label expect a model of a different size.",
        remedy: "Set general.size_label to the approximate number of parameters, such as 7B.",
        fixed: "general.size_label = \"0.6K\"",
    }
    JUNK_NAME = "GG2008" Note Specification {
        summary: "Name is a path, a hash or a generic directory name",
        clause: "Reported when `general.name` or `general.basename` is a path, a hash or a generic directory name such as `model`, `tmp` or `snapshots`. According to the specification, general.name \"should be a human-readable name that can be used to identify the model\".",
        why: "Such a value does not identify the model. Usually, it is the name of the directory that contained the checkpoint, which converters use if no name is given. A path can also reveal where the file was created.",
        remedy: "Set the key to the name of the model.",
        fixed: "general.name = \"Tiny\"",
    }
    RECOMMENDED = "GG2009" Note Letter {
        summary: "Missing recommended key",
        clause: "Reported when `general.name`, `general.author`, `general.version`, `general.basename`, `general.description`, `general.license` or `general.url` is missing. The specification says of the standard keys: \"Not all of these are required, but they are all recommended.\"",
        why: "Users cannot tell from the file where the model comes from or how it may be used.",
        remedy: "Set the missing keys: `ggmill edit FILE --set KEY=VALUE`.",
        fixed: "general.author = \"Someone\", general.basename = \"Tiny\", general.description = \"A small model\", general.url = \"https://example.org\", general.version = \"v1.0\"",
    }
    NO_SIZE = "GG2010" Note Letter {
        summary: "Missing general.size_label",
        clause: "Reported when the file has no `general.size_label`, the \"size class of the model\". The specification says of the standard keys: \"Not all of these are required, but they are all recommended.\"",
        why: "Programs that sort models by size have to compute the number of parameters from all tensor infos.",
        remedy: "Set general.size_label to a value such as 7B or 8x7B.",
        fixed: "general.size_label = \"0.6K\"",
        automatic: "sets the label computed from the tensors",
    }
}

/// The two-letter codes of ISO 639-1.
const LANGUAGES: &str = "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy \
     da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu \
     hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb \
     lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om \
     or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv \
     sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu";

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    for entry in input.metadata() {
        let Some(name) = entry.key().to_str().ok().and_then(|key| key.strip_prefix("general."))
        else {
            continue;
        };
        let last = name.rsplit('.').next().unwrap_or(name);
        if let Some(text) = entry.value().ok().and_then(|value| value.as_str()) {
            described(&entry, name, last, text, out);
        }
    }
    languages(input, out);
    counts(input, "general.base_model", out);
    counts(input, "general.dataset", out);
    recommended(input, out);
    size_label(input, out);
}

/// Checks for recommended keys.
fn recommended(input: &Input<'_>, out: &mut Findings<'_>) {
    if input.kind() != "model" || !input.is_first() || !input.is_whole() {
        return;
    }
    for key in [
        keys::GENERAL_NAME,
        keys::GENERAL_AUTHOR,
        keys::GENERAL_VERSION,
        keys::GENERAL_BASENAME,
        keys::GENERAL_DESCRIPTION,
        keys::GENERAL_LICENSE,
        keys::GENERAL_URL,
    ] {
        if input.metadata().get(key).is_none() {
            out.add(&RECOMMENDED, Place::missing(key), || "the key is missing".into());
        }
    }
    if input.metadata().get(keys::GENERAL_SIZE_LABEL).is_none() {
        let label = || {
            ggmill_core::size_label(
                input.model_tensors().map(|(_, tensor)| (tensor.name(), tensor.shape())),
            )
        };
        // A single shard has only some of the parameters.
        let label = label().filter(|_| input.is_complete());
        let fix = label.map(|label| Fix::set(keys::GENERAL_SIZE_LABEL, ValueType::STRING, &*label));
        out.add_fixable(&NO_SIZE, Place::missing(keys::GENERAL_SIZE_LABEL), || {
            ("the key is missing".into(), fix)
        });
    }
}

fn described(entry: &Entry<'_>, name: &str, last: &str, text: &str, out: &mut Findings<'_>) {
    let show = || shown(RawStr::from(text));
    match last {
        "license" if name == "license" && !license::is_license(text) => {
            out.add(&LICENSE, Place::value(entry), show);
        }
        "url" | "repo_url" | "link"
            if !["https://", "http://"].iter().any(|start| text.starts_with(start)) =>
        {
            out.add(&URL, Place::value(entry), show);
        }
        "doi" if !is_doi(text) => out.add(&DOI, Place::value(entry), show),
        "uuid" if !is_uuid(text) => out.add(&UUID, Place::value(entry), show),
        "name" | "basename" if name == last && is_junk(text) => {
            out.add(&JUNK_NAME, Place::value(entry), show);
        }
        _ => {}
    }
}

fn is_doi(text: &str) -> bool {
    let bare = ["https://doi.org/", "https://www.doi.org/", "doi:"]
        .iter()
        .find_map(|start| text.strip_prefix(start))
        .unwrap_or(text);
    bare.strip_prefix("10.")
        .and_then(|rest| rest.split_once('/'))
        .is_some_and(|(registrant, name)| !registrant.is_empty() && !name.is_empty())
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

fn is_junk(text: &str) -> bool {
    let hash = text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let path = text.starts_with(['/', '\\', '.'])
        || text.contains(":\\")
        || text.contains("/home/")
        || text.contains("/tmp/");
    hash || path || ["tmp", "model", "models", "snapshots", "output", "checkpoint"].contains(&text)
}

fn languages(input: &Input<'_>, out: &mut Findings<'_>) {
    const KEY: &str = "general.languages";
    let Some(entry) = input.metadata().get(KEY) else { return };
    let Some(array) = entry.value().ok().and_then(|value| value.as_array()) else { return };
    for language in texts(&array) {
        if !LANGUAGES.split_whitespace().any(|known| language == known) {
            out.add(&LANGUAGE, Place::value(&entry), || shown(language));
        }
    }
}

/// Compares `<prefix>.count` with the numbers that follow the prefix in keys.
fn counts(input: &Input<'_>, prefix: &str, out: &mut Findings<'_>) {
    let number = |entry: Entry<'_>| -> Option<u64> {
        let rest = entry.key().to_str().ok()?.strip_prefix(prefix)?.strip_prefix('.')?;
        rest.split_once('.')?.0.parse().ok()
    };
    let mut numbers: Vec<u64> = input.metadata().iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let key = format!("{prefix}.count");
    let count = input.number(&key);
    let consecutive = numbers.iter().enumerate().all(|(place, &number)| place as u64 == number);
    if input.is_whole() && (count.unwrap_or(0) != numbers.len() as u64 || !consecutive) {
        let place =
            input.metadata().get(&key).map_or(Place::missing(&key), |entry| Place::value(&entry));
        let stated = count.map_or("missing".to_owned(), |count| count.to_string());
        let what = if prefix.ends_with("dataset") { "datasets" } else { "base models" };
        let fix = consecutive.then(|| Fix::set(key.as_str(), ValueType::U32, numbers.len() as u64));
        out.add_fixable(&COUNT, place, || {
            (
                format!(
                    "the count is {stated}, but the number of {what} with keys is {}{}",
                    numbers.len(),
                    if consecutive { "" } else { ", not numbered consecutively from 0" }
                ),
                fix,
            )
        });
    }
}

fn size_label(input: &Input<'_>, out: &mut Findings<'_>) {
    let (Some(entry), Some(label)) =
        (input.metadata().get(keys::GENERAL_SIZE_LABEL), input.text(keys::GENERAL_SIZE_LABEL))
    else {
        return;
    };
    // A shard has only some of the parameters, an adapter has others, and experts share parameters.
    if input.kind() != "model"
        || !input.is_complete()
        || !input.is_whole()
        || label.contains(['x', '-'])
    {
        return;
    }
    let scale = |letter: char| {
        Some(match letter.to_ascii_uppercase() {
            'K' => 1e3,
            'M' => 1e6,
            'B' => 1e9,
            'T' => 1e12,
            'Q' => 1e15,
            _ => return None,
        })
    };
    // Parsed as JSON, so that no other float parser is linked.
    let Some(said) = label.char_indices().last().and_then(|(at, letter)| {
        Some(serde_json::from_str::<f64>(label.get(..at)?).ok()? * scale(letter)?)
    }) else {
        return;
    };
    #[expect(clippy::cast_precision_loss, reason = "only the magnitude counts")]
    let found =
        input.model_tensors().map(|(_, tensor)| tensor.shape().elements() as f64).sum::<f64>();
    if !(0.5..=2.0).contains(&(found / said)) {
        out.add(&SIZE_LABEL, Place::value(&entry), || {
            format!("{}, but the model has {found:.0} parameters", shown(RawStr::from(label)))
        });
    }
}
