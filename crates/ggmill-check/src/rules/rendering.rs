//! Chat templates, rendered over conversations: only on request.

use ggmill_core::RawStr;
use ggmill_template::{
    Aspect, Observation, RenderOptions, Template, examine, model_templates, special_tokens,
};
use ggmill_tokenizer::Tokenizer;

use crate::report::{Findings, Place, shown};
use crate::rule::rules;
use crate::{Input, Options, Rule};

rules! { Rendering;
    FAILS = "GG2201" Warning Practice {
        summary: "Chat template fails on an ordinary conversation",
        clause: "Reported when a chat template fails on a question, on several turns, or on a system message, a tool or the result of a tool, where it mentions these. A template with a name may be for conversations with tools only.",
        why: "Programs that render the template refuse the conversation.",
        remedy: "Set the template again from the model's tokenizer_config.json or chat_template.jinja.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    LIMIT = "GG2202" Warning Practice {
        summary: "Chat template takes too much time or memory",
        clause: "Reported when a conversation of a few messages takes more than 10,000,000 steps, or 24 MiB of text. The longest known template takes less than 100,000 steps.",
        why: "A program that renders the template hangs or runs out of memory.",
        remedy: "Do not use the template; set it again from the model's tokenizer_config.json.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    SANDBOX = "GG2203" Note Practice {
        summary: "Chat template does what the sandbox of transformers refuses",
        clause: "Reported when rendering a conversation changes a list or a dictionary, or reads an internal attribute. Transformers renders templates in an immutable sandbox, which refuses that; llama.cpp renders them.",
        why: "The template works in one program and fails in another.",
        remedy: "Build new lists, such as items + [item], in place of items.append(item).",
        fixed: "{% set ns.items = ns.items + [item] %}",
    }
    NO_TOKEN = "GG2204" Note Practice {
        summary: "Chat template writes a marker that is not a token",
        clause: "Reported when the template's own text has the form of a special token, such as <|im_end|>, and the vocabulary has no token with this text. Markers of a chat format are tokens of the model that was trained on it.",
        why: "The marker is several tokens of text, which the model may not know as a marker.",
        remedy: "Check that template and vocabulary are those of one model.",
        fixed: "<|im_end|>, where the vocabulary has this token",
    }
    ORDINARY = "GG2205" Warning Practice {
        summary: "Chat template writes a marker that is an ordinary token",
        clause: "Reported when the template's own text has the form of a special token, and the vocabulary has a token with this text whose type is normal. llama.cpp recognises control and user-defined tokens in text, and no others.",
        why: "The marker is split into pieces of text, which the model was not trained on.",
        remedy: "Give the token the type 3 (control) in tokenizer.ggml.token_type.",
        fixed: "tokenizer.ggml.token_type: 3 for <|im_end|>",
    }
    NO_END = "GG2206" Warning Practice {
        summary: "Chat template does not end an answer with a token that ends a generation",
        clause: "Reported when no token that ends a generation (tokenizer.ggml.eos_token_id, tokenizer.ggml.eot_token_id, or one that llama.cpp knows by its text) follows the model's answer in the rendered text.",
        why: "The model ends its answers with a token that no program stops at, and goes on.",
        remedy: "Set tokenizer.ggml.eot_token_id to the token that the template writes after an answer.",
        fixed: "tokenizer.ggml.eot_token_id = the ID of <|im_end|>",
    }
    DOUBLE = "GG2207" Note Practice {
        summary: "Both chat template and tokenizer add the begin token",
        clause: "Reported when the rendered text begins with the begin token, and tokenizer.ggml.add_bos_token is true. llama.cpp: \"Added a BOS token to the prompt as specified by the model but the prompt also starts with a BOS token\".",
        why: "A program that tokenizes the rendered text and adds tokens as usual gives the model two begin tokens.",
        remedy: "Tokenize rendered text without adding tokens.",
        fixed: "a template without bos_token, or tokenizer.ggml.add_bos_token = false",
    }
    PROMPT = "GG2208" Warning Practice {
        summary: "Generation prompt does not begin a turn of the model",
        clause: "Reported when the text with add_generation_prompt does not continue as a conversation with an answer does. Transformers: with add_generation_prompt, \"a prompt with the token(s) that indicate the start of an assistant message will be appended to the formatted output\".",
        why: "The model answers after a header it was not trained on, or writes the header itself.",
        remedy: "Write the same header for add_generation_prompt as before the model's messages.",
        fixed: "{% if add_generation_prompt %}<|im_start|>assistant{% endif %}",
    }
    DROPS = "GG2209" Warning Practice {
        summary: "Chat template leaves out a part of the conversation",
        clause: "Reported when the rendered text lacks the user's message, the model's answer or the system message, although the conversation has one and the template does not refuse it. The names of tools and the results of tools are looked for only where the template mentions tools.",
        why: "The model does not see what the user, the program or the model itself wrote.",
        remedy: "Set the template again from the model's tokenizer_config.json, or refuse such a conversation with raise_exception.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    THINKING = "GG2210" Note Practice {
        summary: "Chat template ignores enable_thinking",
        clause: "Reported when a template reads the variable enable_thinking, and renders the same text with true and false in conversations of several kinds.",
        why: "Programs offer a switch that does nothing.",
        remedy: "Set the template again from the model's tokenizer_config.json or chat_template.jinja.",
        fixed: "{% if not enable_thinking %}<think></think>{% endif %}",
    }
    DATE = "GG2211" Note Practice {
        summary: "Chat template writes the date",
        clause: "Reported when the template calls strftime_now. The text of a conversation then differs from day to day.",
        why: "Results cannot be repeated, and a cache of the prompt is lost at midnight.",
        remedy: "Nothing is wrong; set the date where results are to be repeated, if the template allows it.",
        fixed: "{{ date_string }}",
    }
    UNSTABLE = "GG2212" Note Practice {
        summary: "A longer conversation does not begin with the text of the shorter one",
        clause: "Reported when the text of a question and its answer is not the beginning of the text of the same conversation with two more messages. Templates of models that reason leave out earlier thoughts in this way.",
        why: "Programs that keep the state of the model from turn to turn must compute it again.",
        remedy: "Nothing needs to be changed where the model was trained in this way.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    SEAM = "GG2213" Warning Practice {
        summary: "Generation prompt ends inside a token",
        clause: "Reported when the tokens of the text with add_generation_prompt are not the first tokens of the same text with a word after it: the beginning of the answer and the end of the prompt become one token.",
        why: "At the end of the prompt the model sees a token that was never there in training.",
        remedy: "End the generation prompt without a space.",
        fixed: "[/INST]",
    }
    NAMES = "GG2214" Warning Practice {
        summary: "List of named chat templates does not match the templates",
        clause: "Reported when tokenizer.chat_templates lists a name that has no key tokenizer.chat_template.NAME, or does not list one that has. llama.cpp's converter writes both; programs look for templates by this list.",
        why: "A template, such as that for tools, is not found.",
        remedy: "Set tokenizer.chat_templates to the names of the templates that the file has.",
        fixed: "tokenizer.chat_templates = [\"tool_use\"]",
    }
}

/// Characters of a message that are told: a template can write its own.
const MAX_MESSAGE: usize = 300;

/// The most templates that are rendered: each can take all of its steps. Model files have a few.
const MAX_TEMPLATES: usize = 16;

/// The rule about an aspect.
fn rule(aspect: Aspect) -> Option<&'static Rule> {
    Some(match aspect {
        Aspect::Fails | Aspect::NeedsTools => &FAILS,
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

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    let metadata = input.metadata();
    let templates = model_templates(&metadata);
    if templates.is_empty() {
        return;
    }
    names(input, out);
    let tokenizer = Tokenizer::from_metadata(&metadata).ok();
    // Any time will do: what counts is that the template asks for it.
    let mut options = RenderOptions::new().with_now(ggmill_template::Moment::from_unix(0));
    if let Some(tokenizer) = &tokenizer {
        for (name, text) in special_tokens(tokenizer.vocabulary()) {
            options = options.with_token(name, text);
        }
    }
    let mut rendered = 0;
    for found in templates {
        // One that does not parse is reported by another rule.
        let Ok(template) = Template::parse(&found.text) else { continue };
        let base = ggmill_core::keys::TOKENIZER_CHAT_TEMPLATE;
        // One with a name can be for tools only.
        let is_named = found.name.is_some();
        let key = found.name.map_or_else(|| base.to_owned(), |name| format!("{base}.{name}"));
        let place = metadata.get(&key).map_or(Place::FILE, |entry| Place::value(&entry));
        if rendered == MAX_TEMPLATES {
            out.add(&LIMIT, place, || {
                format!("is not rendered, nor are those after it: {MAX_TEMPLATES} templates are")
            });
            return;
        }
        rendered += 1;
        let mut is_limited = false;
        for observation in examine(&template, tokenizer.as_ref(), &options) {
            is_limited |= observation.aspect == Aspect::Limit;
            if is_named && observation.aspect == Aspect::NeedsTools {
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
    format!("{} (conversation: {})", RawStr::from(&*message), observation.conversation)
}

/// The names that a file lists, and the templates it has.
fn names(input: &Input<'_>, out: &mut Findings<'_>) {
    let metadata = input.metadata();
    let base = "tokenizer.chat_template.";
    let mut listed = Vec::new();
    if let Some(entry) = metadata.get("tokenizer.chat_templates") {
        if let Some(names) = entry.value().ok().and_then(|value| value.as_array()) {
            listed.extend(super::texts(&names));
        }
        for name in &listed {
            if metadata.get([base.as_bytes(), name.as_bytes()].concat()).is_none() {
                out.add(&NAMES, Place::value(&entry), || {
                    format!("lists {}, and the file has no such template", shown(*name))
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
