//! Behavior of chat templates that depends on the content of messages, found by rendering them.

#[cfg(feature = "rendering")]
pub(super) use run::check;

use crate::rule::rules;
#[cfg(not(feature = "rendering"))]
use crate::{Input, Options, report::Findings};

rules! { Rendering;
    GATED = "GG2215" Warning Practice {
        summary: "Chat template writes instructions for chosen messages",
        clause: "Reported when a message with a certain content, a long message, a long conversation or another date makes the template write at least four words that it otherwise does not write, or omit at least six. ggmill finds the content by recording each text with which the template compares a message, and renders a conversation that contains it. Switches such as /no_think are excluded.",
        why: "The model receives instructions that neither the user nor the operator wrote, only for messages that the author of the template chose.",
        remedy: "Read the template. If the text is not part of the model's documented format, do not use the file, and report it to the site that hosts it.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    OVERRIDING = "GG2216" Warning Practice {
        summary: "Chat template overrides or hides instructions",
        clause: "Reported when the template itself writes a phrase that tells the model to ignore earlier instructions, to act secretly, or not to mention instructions.",
        why: "The model follows the template instead of its user and operator, and conceals it.",
        remedy: "Do not use the file, and report it to the site that hosts it.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    CONCEALED = "GG2217" Warning Practice {
        summary: "Chat template writes concealed text",
        clause: "Reported when the template writes invisible characters, words of letters of two scripts, at least 48 characters of encoded data, or at least three words that its source does not contain, because it decodes or assembles them.",
        why: "People who review the template do not see the text that the model receives.",
        remedy: "Do not use the file, and report it to the site that hosts it.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    ADDRESS = "GG2218" Warning Practice {
        summary: "Chat template writes an address",
        clause: "Reported when the template itself writes the address of a site (http, https, ftp or www).",
        why: "The model repeats the address in its answers, or fetches it if it has tools.",
        remedy: "Read the template, and remove the address if the model does not need it.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    TOOL = "GG2219" Warning Practice {
        summary: "Chat template defines a tool",
        clause: "Reported when the template writes the definition of a tool as JSON for a conversation without tools.",
        why: "The model calls a tool that its operator did not offer.",
        remedy: "Read the template, and remove the definition if the model does not need it.",
        fixed: "{% for tool in tools %}{{ tool | tojson }}{% endfor %}",
    }
    UNDETERMINED = "GG2220" Warning Practice {
        summary: "Chat template cannot be examined",
        clause: "Reported when no test conversation can be rendered, when the template uses an operation that ggmill does not evaluate, when all renderings together take more than 4,000,000 steps, or when the template is not UTF-8.",
        why: "What the template does with messages is unknown.",
        remedy: "Read the template before using the file.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
}

/// Checks nothing without the feature `rendering`.
#[cfg(not(feature = "rendering"))]
pub(super) fn check(_: &Input<'_>, _: &Options, _: &mut Findings<'_>) {}

#[cfg(feature = "rendering")]
mod run {
    use ggmill_core::{RawStr, keys};
    use ggmill_template::{
        Behavior, BehaviorKind, Limits, Moment, RenderOptions, Template, behaviors, model_templates,
    };

    use super::{ADDRESS, CONCEALED, GATED, OVERRIDING, TOOL, UNDETERMINED};
    use crate::report::{Findings, Place};
    use crate::{Input, Options, Rule};

    /// The steps of all renderings of a template: known ones take less than a quarter.
    const MAX_STEPS: u64 = 4_000_000;
    /// The maximum number of templates that are rendered.
    const MAX_TEMPLATES: usize = 16;

    /// Returns the rule about a kind of behavior.
    fn rule(kind: BehaviorKind) -> &'static Rule {
        match kind {
            BehaviorKind::Gated => &GATED,
            BehaviorKind::Overriding => &OVERRIDING,
            BehaviorKind::Concealed => &CONCEALED,
            BehaviorKind::Address => &ADDRESS,
            BehaviorKind::Tool => &TOOL,
            _ => &UNDETERMINED,
        }
    }

    pub(in crate::rules) fn check(input: &Input<'_>, wanted: &Options, out: &mut Findings<'_>) {
        let metadata = input.metadata();
        // The time is arbitrary: other times are compared with it.
        let mut options = RenderOptions::new()
            .with_now(Moment::from_unix(0))
            .with_limits(Limits::new().with_steps(MAX_STEPS));
        options.variables.clone_from(&wanted.variables);
        for name in ["bos", "eos"] {
            if let Some(text) = special(input, name) {
                options = options.with_token(format!("{name}_token"), text);
            }
        }
        options = options.with_usual_tokens();
        for entry in &metadata {
            let is_template = entry.key().as_bytes().starts_with(b"tokenizer.chat_template");
            let text = entry.value().ok().and_then(|value| value.as_raw_str());
            if is_template && text.is_some_and(|text| text.to_str().is_err()) {
                out.add(&UNDETERMINED, Place::value(&entry), || "is not UTF-8".into());
            }
        }
        for (number, found) in model_templates(&metadata).into_iter().enumerate() {
            // Parse errors are reported by another rule.
            let Ok(template) = Template::parse(&found.text) else { continue };
            let place = metadata.get(found.key()).map_or(Place::FILE, |entry| Place::value(&entry));
            if number >= MAX_TEMPLATES {
                out.add(&UNDETERMINED, place, || {
                    format!("is not rendered: the limit is {MAX_TEMPLATES} templates")
                });
                return;
            }
            for Behavior { kind, message, .. } in behaviors(&template, &options) {
                out.add(rule(kind), place, || RawStr::from(&*message).to_string());
            }
        }
    }

    /// Returns the text of a special token. The tokenizer itself is not needed.
    fn special(input: &Input<'_>, name: &str) -> Option<String> {
        let id = input.number(&format!("tokenizer.ggml.{name}_token_id"))?;
        let tokens = input.value(keys::TOKENIZER_TOKENS)?.as_array()?;
        let mut all = crate::rules::texts(&tokens);
        let text = all.nth(usize::try_from(id).ok()?)?;
        text.to_str().ok().filter(|text| text.len() <= 256).map(str::to_owned)
    }
}
