//! Chat templates, rendered over conversations: only on request.

#[cfg(feature = "rendering")]
mod run;

#[cfg(feature = "rendering")]
pub(super) use run::check;

use crate::rule::rules;
#[cfg(not(feature = "rendering"))]
use crate::{Input, Options, report::Findings};

rules! { Rendering;
    FAILS = "GG2201" Warning Practice {
        summary: "Chat template fails on an ordinary conversation",
        clause: "Reported when a chat template fails on a conversation with a question, with several turns, or with a system message, tools or tool results, if it mentions these. A named template may be only for conversations with tools or with documents.",
        why: "Programs that render the template refuse the conversation.",
        remedy: "Set the template again from the model's tokenizer_config.json or chat_template.jinja.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    LIMIT = "GG2202" Warning Practice {
        summary: "Chat template takes too much time or memory",
        clause: "Reported when rendering a conversation of a few messages takes more than 10,000,000 steps or 24 MiB of memory, when all sample conversations together take more than 40,000,000 steps, and when a file has more than 16 templates, of which the rest is not rendered. A step is the evaluation of an expression or an iteration of a loop. Known chat templates take fewer than 100,000 steps for a conversation.",
        why: "A program that renders the template without such limits hangs or runs out of memory.",
        remedy: "Set the template again from the model's tokenizer_config.json or chat_template.jinja.",
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
        why: "Programs do not stop at the token with which the model ends its answers, so the model continues.",
        remedy: "Set tokenizer.ggml.eot_token_id to the token that the template writes after an answer.",
        fixed: "tokenizer.ggml.eot_token_id = the ID of <|im_end|>",
    }
    DOUBLE = "GG2207" Note Practice {
        summary: "Both chat template and tokenizer add the BOS token",
        clause: "Reported when the rendered text begins with the BOS token, and tokenizer.ggml.add_bos_token is true. llama.cpp: \"Added a BOS token to the prompt as specified by the model but the prompt also starts with a BOS token\".",
        why: "A program that tokenizes the rendered text and adds special tokens as usual gives the model two BOS tokens.",
        remedy: "Tokenize rendered text without adding tokens.",
        fixed: "a template without bos_token, or tokenizer.ggml.add_bos_token = false",
    }
    PROMPT = "GG2208" Warning Practice {
        summary: "Generation prompt does not begin a turn of the model",
        clause: "Reported when the text with add_generation_prompt does not begin as the text of a conversation with an answer does. Transformers: with add_generation_prompt, \"a prompt with the token(s) that indicate the start of an assistant message will be appended to the formatted output\".",
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
        why: "Programs offer a switch that has no effect.",
        remedy: "Set the template again from the model's tokenizer_config.json or chat_template.jinja.",
        fixed: "{% if not enable_thinking %}<think></think>{% endif %}",
    }
    DATE = "GG2211" Note Practice {
        summary: "Chat template writes the date",
        clause: "Reported when the template calls strftime_now. The text of a conversation then differs from day to day.",
        why: "The same conversation gives another result on another day, and a cached prompt cannot be used after midnight.",
        remedy: "No change is needed. To repeat a result, set the date, if the template has a variable for it.",
        fixed: "{{ date_string }}",
    }
    UNSTABLE = "GG2212" Note Practice {
        summary: "A longer conversation does not begin with the text of the shorter one",
        clause: "Reported when the text of a question and its answer is not the beginning of the text of the same conversation with two more messages. Templates of reasoning models that leave out the reasoning of earlier turns do this by design.",
        why: "Programs that keep the KV cache from turn to turn must compute it again.",
        remedy: "No change is needed if the model was trained with such text.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    SEAM = "GG2213" Warning Practice {
        summary: "Generation prompt ends inside a token",
        clause: "Reported when the tokens of the text with add_generation_prompt are not the first tokens of the same text with a word after it: the beginning of the answer and the end of the prompt become one token.",
        why: "The prompt ends with a token that did not occur there in training.",
        remedy: "End the generation prompt where a token of the vocabulary ends, for example without a trailing space.",
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

/// Without the feature `rendering` nothing is rendered.
#[cfg(not(feature = "rendering"))]
pub(super) fn check(_: &Input<'_>, _: &Options, _: &mut Findings<'_>) {}
