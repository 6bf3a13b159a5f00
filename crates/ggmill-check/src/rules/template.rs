//! Chat templates, which are parsed but not rendered.

use ggmill_core::{Entry, RawStr};
use ggmill_template::{Access, Error, ErrorKind, Template, accesses};

use crate::report::{Findings, Place, shown};
use crate::rule::rules;
use crate::{Input, Options};

rules! { Template;
    SYNTAX = "GG1701" Warning Practice {
        summary: "Chat template does not parse",
        clause: "Reported when a chat template does not parse. According to the specification, tokenizer.chat_template is \"a Jinja template that specifies the input format expected by the model\".",
        why: "Programs fall back to a format that the model was not trained on, or fail.",
        remedy: "Copy the template again from the model's tokenizer_config.json or chat_template.jinja.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    ESCAPE = "GG1702" Error Practice {
        summary: "Chat template accesses interpreter internals",
        clause: "Reported when a chat template accesses an attribute that leads to interpreter internals, such as `__class__` or `__globals__`. Through such attributes, a template can reach the Python program that renders it; no chat format needs them.",
        why: "A program that renders the template without a sandbox can be made to run arbitrary code (CVE-2024-34359).",
        remedy: "Do not use the file, and report it to the site that hosts it.",
        fixed: "a template without such attributes",
    }
    HIDDEN = "GG1703" Warning Practice {
        summary: "Chat template has hidden characters",
        clause: "Reported when a chat template contains characters that reorder or hide text: bidirectional overrides, zero-width characters, Unicode tag characters, or control characters other than white space. No chat format needs them.",
        why: "People who review the template do not see the text that the model receives.",
        remedy: "Remove these characters from the template.",
        fixed: "a template without such characters",
    }
    EMPTY = "GG1704" Warning Practice {
        summary: "Chat template is empty",
        clause: "Reported when a chat template is empty or contains only white space. Such a template ignores the messages: it renders every conversation as empty text or white space.",
        why: "The prompt that the model receives contains nothing of the conversation.",
        remedy: "Set the key to the model's chat template, or remove the key.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    TOO_LONG = "GG1705" Warning Practice {
        summary: "Chat template is too long to analyze",
        clause: "Reported when a chat template exceeds a limit of the analysis: 1 MiB in total, 1,000 Jinja tokens in one tag, or 400 elif branches. The longest known template is shorter than 100 KiB; the longest known expression has fewer than 200 tokens.",
        why: "ggmill cannot determine what the template does.",
        remedy: "Read the template before using the file.",
        fixed: "a template of at most 1 MiB",
    }
    COMPUTED = "GG1706" Note Practice {
        summary: "Chat template computes an attribute name",
        clause: "Reported when a chat template computes an attribute name at run time. In ordinary templates, attribute names are written out; a computed name can evade a search for names such as `__class__`.",
        why: "What the template accesses cannot be determined without running it.",
        remedy: "Read the template before rendering it outside a sandbox.",
        fixed: "{{ message.content }}",
    }
    OTHER = "GG1707" Error Practice {
        summary: "Chat template loads another template",
        clause: "Reported when a chat template contains an include, import or extends tag. llama.cpp rejects these tags (\"Unknown statement\"); transformers renders templates without a loader for other templates.",
        why: "A program without such a loader cannot render the template; a program with one reads the file that the tag names.",
        remedy: "Store the complete template, without these tags, in tokenizer.chat_template.",
        fixed: "a template without include, import or extends tags",
    }
    ENDLESS = "GG1708" Warning Practice {
        summary: "Chat template has an excessively large loop or value",
        clause: "Reported when a chat template contains a range of more than 100,000 numbers, loops with more than 10,000,000 iterations in total (the counts of nested loops are multiplied), or a string or list that the `*` operator repeats to more than 10,000,000 bytes or elements. Jinja's sandbox rejects a range of more than 100,000 numbers; conversations rarely have more than a few hundred messages.",
        why: "A program that renders the template without limits on time and memory hangs or runs out of memory.",
        remedy: "Copy the template again from the model's tokenizer_config.json or chat_template.jinja.",
        fixed: "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    DIFFERS = "GG1709" Warning Practice {
        summary: "Chat template differs from that of the repository",
        clause: "Reported when the file is checked as a part of a directory, and its default chat template differs from that of the checkpoint in the directory (chat_template.jinja or tokenizer_config.json) or, without one, from that of most GGUF files of the same model there. Line breaks and white space at the end are not compared.",
        why: "Programs that read different files of the repository prompt the model differently. A changed template in one file can hide instructions from people who review the others.",
        remedy: "Compare both with `ggmill template diff`, and replace the template with the model's own.",
        fixed: "the template of chat_template.jinja",
    }
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    differs(input, out);
    for entry in input.metadata() {
        let key = entry.key();
        let templates = [b"tokenizer.chat_template".as_slice(), b"tokenizer.chat_templates"];
        if !templates.contains(&key.as_bytes())
            && !key.as_bytes().starts_with(b"tokenizer.chat_template.")
        {
            continue;
        }
        // `tokenizer.chat_templates` is a list of names.
        if let Some(text) = entry.value().ok().and_then(|value| value.as_raw_str()) {
            template(&entry, text, out);
        }
    }
}

/// Compares the default template with that of the repository.
fn differs(input: &Input<'_>, out: &mut Findings<'_>) {
    let Some((name, expected)) = input.repository else { return };
    let key = ggmill_core::keys::TOKENIZER_CHAT_TEMPLATE;
    let (Some(entry), Some(text)) = (input.metadata().get(key), input.text(key)) else { return };
    let (text, expected) = (text.trim_end(), expected.trim_end());
    if text.lines().eq(expected.lines()) {
        return;
    }
    let same = text.lines().zip(expected.lines()).take_while(|(own, other)| own == other).count();
    out.add(&DIFFERS, Place::value(&entry), || {
        format!("differs from that of {}, first in line {}", shown(RawStr::from(name)), same + 1)
    });
}

fn template(entry: &Entry<'_>, text: RawStr<'_>, out: &mut Findings<'_>) {
    // Values that are not text are reported by another rule.
    let Ok(text) = text.to_str() else { return };
    if text.trim().is_empty() {
        return out.add(&EMPTY, Place::value(entry), || {
            let fault = if text.is_empty() { "is empty" } else { "contains only white space" };
            fault.into()
        });
    }
    if let Some(c) = text.chars().find(|&c| is_hidden(c)) {
        out.add(&HIDDEN, Place::value(entry), || format!("contains {}", c.escape_unicode()));
    }
    if let Err(error) = Template::parse(text) {
        if error.kind() == ErrorKind::Limit {
            return out.add(&TOO_LONG, Place::value(entry), || fault(&error));
        }
        out.add(&SYNTAX, Place::value(entry), || fault(&error));
    }
    for access in accesses(text) {
        match access {
            Access::Internal(name) => out.add(&ESCAPE, Place::value(entry), || {
                format!("accesses {}", shown(RawStr::from(&*name)))
            }),
            Access::OtherTemplate(tag) => {
                out.add(&OTHER, Place::value(entry), || format!("contains the tag {tag}"));
            }
            Access::Computed => out.add(&COMPUTED, Place::value(entry), || {
                "the name of an attribute is computed at run time".into()
            }),
            Access::Excessive(what) => {
                out.add(&ENDLESS, Place::value(entry), || format!("contains {what}"));
            }
            _ => {}
        }
    }
}

/// Returns the message of an error with its line.
fn fault(error: &Error) -> String {
    let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    format!("{line}{}", shown(RawStr::from(error.message())))
}

/// Returns why a text is not a chat template, in one line without control characters; `None` if it parses
/// or exceeds the limits of the parser.
///
/// ```
/// assert_eq!(ggmill_check::template_fault("{{ bos_token }}"), None);
/// assert!(ggmill_check::template_fault("{% if %}").is_some());
/// ```
pub fn template_fault(text: &str) -> Option<String> {
    let error = Template::parse(text).err().filter(|error| error.kind() != ErrorKind::Limit)?;
    Some(fault(&error))
}

/// Returns `true` for a character that is invisible or reorders text. Joiners are excluded, as scripts and
/// markers contain them.
fn is_hidden(c: char) -> bool {
    let moves = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shows_nothing = matches!(c, '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    moves || shows_nothing || (c.is_control() && !c.is_whitespace())
}
