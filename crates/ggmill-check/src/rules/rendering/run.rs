//! The rules that render templates.

use ggmill_core::RawStr;
use ggmill_template::{
    Aspect, Moment, Observation, RenderOptions, Template, examine, model_templates,
};
use ggmill_tokenizer::Tokenizer;

use super::{
    DATE, DOUBLE, DROPS, FAILS, LIMIT, NAMES, NO_END, NO_TOKEN, ORDINARY, PROMPT, SANDBOX, SEAM,
    THINKING, UNSTABLE,
};
use crate::report::{Findings, Place, shown};
use crate::rules::texts;
use crate::{Input, Options, Rule};

/// Characters of a message that are told: a template can write its own.
const MAX_MESSAGE: usize = 300;

/// The most templates that are rendered: each can take all of its steps. Model files have a few.
const MAX_TEMPLATES: usize = 16;

/// The rule about an aspect.
fn rule(aspect: Aspect) -> Option<&'static Rule> {
    Some(match aspect {
        Aspect::Fails | Aspect::NeedsMore => &FAILS,
        Aspect::Limit => &LIMIT,
        Aspect::Sandbox => &SANDBOX,
        Aspect::NoToken => &NO_TOKEN,
        Aspect::OrdinaryToken => &ORDINARY,
        Aspect::NoEnd => &NO_END,
        Aspect::DoubleBegin => &DOUBLE,
        Aspect::Prompt => &PROMPT,
        Aspect::Drops => &DROPS,
        Aspect::Thinking => &THINKING,
        Aspect::Date => &DATE,
        Aspect::Unstable => &UNSTABLE,
        Aspect::Seam => &SEAM,
        _ => return None,
    })
}

pub(crate) fn check(input: &Input<'_>, wanted: &Options, out: &mut Findings<'_>) {
    let metadata = input.metadata();
    let templates = model_templates(&metadata);
    if templates.is_empty() {
        return;
    }
    names(input, out);
    let tokenizer = Tokenizer::from_metadata(&metadata).ok();
    // Any time will do: what counts is that the template asks for it.
    let mut options = RenderOptions::new().with_now(Moment::from_unix(0));
    options.variables.clone_from(&wanted.variables);
    options = match &tokenizer {
        Some(tokenizer) => options.with_vocabulary(tokenizer.vocabulary()),
        // What they are is not known, and a template may need them.
        None => options.with_usual_tokens(),
    };
    let mut rendered = 0;
    for found in templates {
        // One that does not parse is reported by another rule.
        let Ok(template) = Template::parse(&found.text) else { continue };
        // One with a name can be for tools only.
        let is_named = found.name.is_some();
        let place = metadata.get(found.key()).map_or(Place::FILE, |entry| Place::value(&entry));
        if rendered == MAX_TEMPLATES {
            out.add(&LIMIT, place, || {
                format!(
                    "is not rendered, and neither are later ones: the limit is {MAX_TEMPLATES} \
                     templates"
                )
            });
            return;
        }
        rendered += 1;
        let mut is_limited = false;
        for observation in examine(&template, tokenizer.as_ref(), &options) {
            is_limited |= observation.aspect == Aspect::Limit;
            if is_named && observation.aspect == Aspect::NeedsMore {
                continue;
            }
            if let Some(rule) = rule(observation.aspect) {
                out.add(rule, place, || told(&observation));
            }
        }
        // Others can take as long.
        if is_limited {
            return;
        }
    }
}

fn told(observation: &Observation) -> String {
    let message: String = observation.message.chars().take(MAX_MESSAGE).collect();
    let message = RawStr::from(&*message);
    match observation.aspect {
        // It is about all of them.
        Aspect::Thinking => message.to_string(),
        _ => format!("{message} (test conversation: {})", observation.conversation),
    }
}

/// The names that a file lists, and the templates it has.
fn names(input: &Input<'_>, out: &mut Findings<'_>) {
    let metadata = input.metadata();
    let base = "tokenizer.chat_template.";
    let mut listed = Vec::new();
    if let Some(entry) = metadata.get("tokenizer.chat_templates") {
        if let Some(names) = entry.value().ok().and_then(|value| value.as_array()) {
            listed.extend(texts(&names));
        }
        for name in &listed {
            if metadata.get([base.as_bytes(), name.as_bytes()].concat()).is_none() {
                out.add(&NAMES, Place::value(&entry), || {
                    format!("lists {}, but the file has no such template", shown(*name))
                });
            }
        }
    }
    for entry in metadata.iter() {
        let Some(name) = entry.key().as_bytes().strip_prefix(base.as_bytes()) else { continue };
        if !listed.iter().any(|known| known.as_bytes() == name) {
            out.add(&NAMES, Place::key(&entry), || "is not in tokenizer.chat_templates".to_owned());
        }
    }
}
