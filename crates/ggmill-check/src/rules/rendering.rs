//! Chat templates rendered over test conversations, only on request.

#[cfg(feature = "rendering")]
pub(super) use run::check;

use crate::rule::rules;
#[cfg(not(feature = "rendering"))]
use crate::{Input, Options, report::Findings};

rules! { Rendering;
    FAILS = "GG2201" Warning Practice {
        summary: "Chat template fails on an ordinary conversation",
        clause: "Reported when the template fails to render an ordinary conversation: one with a single question, with several turns or, if the template supports them, with a system message, tools or tool results. A named template that supports only conversations with tools or documents is not reported.",
        why: "Programs that render the template cannot process the conversation.",
        remedy: "Copy the template again from the model's tokenizer_config.json or chat_template.jinja.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    LIMIT = "GG2202" Warning Practice {
        summary: "Chat template takes too much time or memory",
        clause: "Reported when rendering a conversation of a few messages takes more than 10,000,000 steps or 24 MiB of memory, when all test conversations together take more than 40,000,000 steps, or when a file has more than 16 templates (only the first 16 are rendered). A step is the evaluation of an expression or an iteration of a loop. Known chat templates take fewer than 100,000 steps for a conversation.",
        why: "A program that renders the template without limits on time and memory hangs or runs out of memory.",
        remedy: "Copy the template again from the model's tokenizer_config.json or chat_template.jinja.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    SANDBOX = "GG2203" Note Practice {
        summary: "Chat template uses operations that the transformers sandbox rejects",
        clause: "Reported when rendering a conversation modifies a list or a dictionary, or reads an internal attribute. Transformers renders templates in an immutable sandbox, which rejects both; llama.cpp allows a template to modify a list.",
        why: "The template works in one program and fails in another.",
        remedy: "Build a new list, for example items + [item], instead of calling items.append(item).",
        fixed: "{% set ns.all = ns.all + [item] %}",
    }
    NO_TOKEN = "GG2204" Note Practice {
        summary: "Chat template writes a marker that is not a token",
        clause: "Reported when the template itself, rather than a message, writes a string that has the form of a special token, such as <|im_end|>, but is not a token in the vocabulary. A model trained with a chat format normally has the format's markers as tokens in its vocabulary.",
        why: "The marker is tokenized as ordinary text, which the model may not recognize as a marker.",
        remedy: "Check that the template and the vocabulary belong to the same model.",
        fixed: "<|im_start|>, which is a token in the vocabulary",
    }
    ORDINARY = "GG2205" Warning Practice {
        summary: "Chat template writes a marker that is an ordinary token",
        clause: "Reported when the template itself, rather than a message, writes a string that has the form of a special token, but is an ordinary token of the vocabulary: its type is 1 (normal). llama.cpp first searches the text for tokens of type control, user-defined or unknown, and then tokenizes the rest; it does not search for ordinary tokens.",
        why: "The marker is tokenized as ordinary text, usually into several tokens. In training, the model saw a single token in this place.",
        remedy: "Set the token's type to 3 (control) in tokenizer.ggml.token_type.",
        fixed: "tokenizer.ggml.token_type: 3 for <|b|>",
    }
    NO_END = "GG2206" Warning Practice {
        summary: "Chat template does not end an answer with an end-of-generation token",
        clause: "Reported when no end-of-generation token (tokenizer.ggml.eos_token_id, tokenizer.ggml.eot_token_id, or one that llama.cpp recognizes by its text) follows the model's answer in the rendered text.",
        why: "Programs do not stop at the token with which the model ends its answers, so generation continues.",
        remedy: "If the template writes a token after an answer, set tokenizer.ggml.eot_token_id to the ID of that token. Otherwise, change the template so that it writes the token with which the model ends its answers.",
        fixed: "a template that writes <|im_end|> after an answer, with tokenizer.ggml.eot_token_id = the ID of <|im_end|>",
    }
    DOUBLE = "GG2207" Note Practice {
        summary: "Both chat template and tokenizer add the BOS token",
        clause: "Reported when the rendered text begins with the BOS token, and tokenizer.ggml.add_bos_token is true. llama.cpp warns: \"Added a BOS token to the prompt as specified by the model but the prompt also starts with a BOS token\".",
        why: "If a program adds special tokens when it tokenizes the rendered text, the prompt begins with two BOS tokens.",
        remedy: "Remove bos_token from the template, or set tokenizer.ggml.add_bos_token to false. Alternatively, leave the file unchanged, and tokenize rendered text without adding special tokens.",
        fixed: "a template without bos_token, or tokenizer.ggml.add_bos_token = false",
    }
    PROMPT = "GG2208" Warning Practice {
        summary: "Generation prompt does not begin an assistant message",
        clause: "Reported when the text that the template writes for add_generation_prompt differs from the text with which it begins an assistant message. Only the text up to the first line break or `>` is compared. The transformers documentation says that with add_generation_prompt, \"a prompt with the token(s) that indicate the start of an assistant message will be appended to the formatted output\".",
        why: "The model answers after a message prefix that it was not trained on, or generates the prefix itself.",
        remedy: "In the template, write the same text for add_generation_prompt as at the beginning of assistant messages.",
        fixed: "{% if add_generation_prompt %}assistant: {% endif %}",
    }
    DROPS = "GG2209" Warning Practice {
        summary: "Chat template omits part of the conversation",
        clause: "Reported when the rendered text lacks a user, assistant or system message, although the conversation contains it and the template does not raise an exception. If the template supports tools, missing tool names or tool results are reported as well.",
        why: "The model does not see this part of the conversation.",
        remedy: "Copy the template again from the model's tokenizer_config.json or chat_template.jinja, or change it to call raise_exception for conversations that it does not support.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    THINKING = "GG2210" Note Practice {
        summary: "Chat template ignores enable_thinking",
        clause: "Reported when a template reads the variable enable_thinking, but renders each of several test conversations to the same text whether the variable is true or false.",
        why: "Programs offer their users a switch that has no effect.",
        remedy: "Copy the template again from the model's tokenizer_config.json or chat_template.jinja.",
        fixed: "{% if not enable_thinking %}<think></think>{% endif %}",
    }
    DATE = "GG2211" Note Practice {
        summary: "Chat template writes the date",
        clause: "Reported when the template calls strftime_now. The text of a conversation can then differ from day to day.",
        why: "The same conversation can give different results on different days, and a cached prompt cannot be reused after midnight.",
        remedy: "No change is required. For reproducible results, change the template to take the date from a variable, such as date_string, and set that variable.",
        fixed: "{{ date_string }}",
    }
    UNSTABLE = "GG2212" Note Practice {
        summary: "Chat template changes earlier text when a conversation continues",
        clause: "Reported when the text rendered for a question and its answer is not a prefix of the text rendered for the same conversation with two more messages. The templates of some reasoning models change earlier text by design: they omit the reasoning of earlier turns.",
        why: "Programs that keep the KV cache from turn to turn must recompute part of it.",
        remedy: "No change is needed if the model was trained on conversations rendered in this way. Otherwise, remove from the template what depends on later messages, such as messages|length.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    SEAM = "GG2213" Warning Practice {
        summary: "Generation prompt ends inside a token",
        clause: "Reported when appending a word to the prompt (the text rendered with add_generation_prompt) changes the tokens of the prompt: the end of the prompt and the beginning of the answer merge into one token.",
        why: "The prompt ends with a token that did not occur there in training.",
        remedy: "End the generation prompt at a token boundary, for example without a trailing space.",
        fixed: "a prompt that ends with \"Is it so?\", without the \" a\"",
    }
    NAMES = "GG2214" Warning Practice {
        summary: "List of named chat templates does not match the templates",
        clause: "Reported when tokenizer.chat_templates lists a NAME for which there is no key tokenizer.chat_template.NAME, or when such a key exists but NAME is not listed. llama.cpp's converter writes both the list and the keys; programs use the list to find the templates.",
        why: "Programs do not find a template, such as the one for tools, or look for one that does not exist.",
        remedy: "Set tokenizer.chat_templates to the names of the templates in the file.",
        fixed: "tokenizer.chat_templates = [\"tool_use\"], and a key tokenizer.chat_template.tool_use",
    }
}

/// Checks nothing without the feature `rendering`.
#[cfg(not(feature = "rendering"))]
pub(super) fn check(_: &Input<'_>, _: &Options, _: &mut Findings<'_>) {}

#[cfg(feature = "rendering")]
mod run {
    use std::collections::HashSet;

    use ggmill_core::RawStr;
    use ggmill_template::{
        Aspect, Moment, Observation, RenderOptions, Template, examine, model_templates,
    };
    use ggmill_tokenizer::Tokenizer;

    use super::{
        DATE, DOUBLE, DROPS, FAILS, LIMIT, NAMES, NO_END, NO_TOKEN, ORDINARY, PROMPT, SANDBOX,
        SEAM, THINKING, UNSTABLE,
    };
    use crate::report::{Findings, Place, shown};
    use crate::rules::texts;
    use crate::{Input, Options, Rule};

    /// The maximum characters of a message, which a template can produce.
    const MAX_MESSAGE: usize = 300;

    /// The maximum number of templates that are rendered, as each can use its whole budget of steps.
    const MAX_TEMPLATES: usize = 16;

    /// Returns the rule about an aspect.
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

    pub(in crate::rules) fn check(input: &Input<'_>, wanted: &Options, out: &mut Findings<'_>) {
        let metadata = input.metadata();
        names(input, out);
        let templates = model_templates(&metadata);
        if templates.is_empty() {
            return;
        }
        let tokenizer = Tokenizer::from_metadata(&metadata).ok();
        // The time is arbitrary: the rule is about templates that ask for it.
        let mut options = RenderOptions::new().with_now(Moment::from_unix(0));
        options.variables.clone_from(&wanted.variables);
        options = match &tokenizer {
            Some(tokenizer) => options.with_vocabulary(tokenizer.vocabulary()),
            // The special tokens are unknown, but a template may need them.
            None => options.with_usual_tokens(),
        };
        let mut rendered = 0;
        for found in templates {
            // Parse errors are reported by another rule.
            let Ok(template) = Template::parse(&found.text) else { continue };
            // A named template can be for conversations with tools only.
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
                    out.add(rule, place, || message_of(&observation));
                }
            }
            // Other templates can take as long.
            if is_limited {
                return;
            }
        }
    }

    fn message_of(observation: &Observation) -> String {
        let message: String = observation.message.chars().take(MAX_MESSAGE).collect();
        let message = RawStr::from(&*message);
        match observation.aspect {
            // This aspect is about all conversations.
            Aspect::Thinking => message.to_string(),
            _ => format!("{message} (test conversation: {})", observation.conversation),
        }
    }

    /// Compares the listed names with the templates in the file.
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
        // A set, because a file can have as many keys as listed names.
        let listed: HashSet<RawStr<'_>> = listed.into_iter().collect();
        for entry in &metadata {
            let Some(name) = entry.key().as_bytes().strip_prefix(base.as_bytes()) else { continue };
            if !listed.contains(&RawStr::new(name)) {
                out.add(&NAMES, Place::key(&entry), || {
                    "is not in tokenizer.chat_templates".to_owned()
                });
            }
        }
    }
}
