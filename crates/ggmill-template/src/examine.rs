//! Finds problems in a template by rendering sample conversations.

use ggmill_tokenizer::{Attributes, EncodeOptions, Tokenizer};

use crate::conversation::Conversation;
use crate::conversation::{ANSWER, FUNCTION, RESULT, SYSTEM, called, documents, samples, tools};
use crate::error::{Error, ErrorKind};
use crate::json::Json;
use crate::template::RenderOptions;
use crate::template::{Rendered, Template};

/// The subject of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Aspect {
    /// An ordinary conversation cannot be rendered.
    Fails,
    /// A conversation without tools or documents cannot be rendered, because the template is only
    /// for these.
    NeedsMore,
    /// A conversation exceeds the limits of steps or memory.
    Limit,
    /// The sandbox of transformers refuses the template (it modifies a list), llama.cpp does not.
    Sandbox,
    /// Text that looks like a special token is not in the vocabulary.
    NoToken,
    /// Text that looks like a special token is an ordinary token of the vocabulary.
    OrdinaryToken,
    /// No end-of-generation token follows the model's answer.
    NoEnd,
    /// The template begins with BOS, which the tokenizer also adds.
    DoubleBegin,
    /// `add_generation_prompt` begins a different turn than that of the model, or none.
    Prompt,
    /// A part of the conversation is not in the text.
    Drops,
    /// `enable_thinking` changes nothing.
    Thinking,
    /// The text depends on the date.
    Date,
    /// The text of a longer conversation does not begin with the text of the shorter one.
    Unstable,
    /// The model's first word is merged with the last token of the prompt.
    Seam,
}

/// A problem that a conversation shows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Observation {
    /// Its subject.
    pub aspect: Aspect,
    /// A one-line description.
    pub message: String,
    /// The name of the conversation.
    pub conversation: String,
}

/// Renders a template with sample conversations, optionally with a vocabulary, and returns the
/// problems.
///
/// Behavior that is by design in some model, such as omitting earlier reasoning, is not reported. A
/// feature that the template does not mention is not checked.
///
/// Rendering stops if a template exceeds a limit, or if all conversations together need four times
/// the [steps](crate::Limits::steps) of one; [`Aspect::Limit`] is then the last observation.
pub fn examine(
    template: &Template,
    tokenizer: Option<&Tokenizer>,
    options: &RenderOptions,
) -> Vec<Observation> {
    let steps = options.limits.steps.saturating_mul(EXAMINED);
    let mut examination =
        Examination { template, options, steps, found: Vec::new(), is_limited: false };
    examination.refusals();
    examination.dropped();
    examination.prompt();
    examination.thinking();
    examination.stability();
    if let Some(tokenizer) = tokenizer {
        examination.markers(tokenizer);
        examination.ends(tokenizer);
        examination.seam(tokenizer);
    }
    examination.found
}

/// The limit of steps for all conversations together, as a multiple of the limit for one. The
/// longest known template needs a tenth of one for all of them.
const EXAMINED: u64 = 4;

struct Examination<'a> {
    template: &'a Template,
    options: &'a RenderOptions,
    /// The remaining steps.
    steps: u64,
    found: Vec<Observation>,
    /// `true` after a limit was exceeded; then nothing more is rendered.
    is_limited: bool,
}

/// The variable that switches reasoning on and off.
const SWITCH: &str = "enable_thinking";

const QUESTION: (&str, &str) = ("user", "Is it so?");

fn question() -> Conversation {
    Conversation::of([QUESTION])
}

fn answered() -> Conversation {
    Conversation::of([QUESTION, ("assistant", ANSWER)])
}

impl Examination<'_> {
    fn add(&mut self, aspect: Aspect, conversation: &str, message: impl Into<String>) {
        self.found.push(Observation {
            aspect,
            message: message.into(),
            conversation: conversation.to_owned(),
        });
    }

    /// Renders a conversation; `None` if that fails, which [`refusals`](Self::refusals) reports.
    fn render(&mut self, name: &str, conversation: &Conversation) -> Option<Rendered> {
        self.attempt(name, conversation)?.ok()
    }

    /// Renders a conversation; `None` after a limit was exceeded.
    fn attempt(
        &mut self,
        name: &str,
        conversation: &Conversation,
    ) -> Option<Result<Rendered, Error>> {
        if self.is_limited {
            return None;
        }
        let (rendered, steps) = self.template.attempt(conversation, self.options);
        self.steps = self.steps.saturating_sub(steps);
        let over = match &rendered {
            Err(error) if error.kind() == ErrorKind::Limit => error.to_string(),
            _ if self.steps == 0 => "the conversations together take too many steps".to_owned(),
            _ => return Some(rendered),
        };
        self.add(Aspect::Limit, name, over);
        self.is_limited = true;
        None
    }

    fn refusals(&mut self) {
        let mentions = |words: &[&str]| words.iter().all(|word| self.template.mentions(word));
        let (tools, calls) = (mentions(&["tools"]), mentions(&["tools", "tool_calls"]));
        let mut told = Vec::new();
        let mut dated = false;
        for (name, conversation) in samples() {
            let expected = match name {
                "tools" => tools,
                "tool call and result" => calls,
                "system message" => self.template.mentions("system"),
                _ => true,
            };
            let error = match self.attempt(name, &conversation) {
                None => return,
                Some(Ok(rendered)) => {
                    dated |= rendered.asks_time();
                    continue;
                }
                Some(Err(error)) => error,
            };
            let aspect = match error.kind() {
                ErrorKind::Security => Aspect::Sandbox,
                // A template may reject conversations on which its model was not trained, but not a
                // question.
                ErrorKind::Refused if name != "question" => continue,
                _ if !expected => continue,
                // Some templates expect the arguments of a call as text.
                _ if name == "tool call and result"
                    && self.render(name, &called("text")).is_some() =>
                {
                    continue;
                }
                _ if self.needs_more(name, &conversation, &error) => Aspect::NeedsMore,
                _ => Aspect::Fails,
            };
            if self.is_limited {
                return;
            }
            let message = error.to_string();
            if !told.contains(&(aspect, message.clone())) {
                self.add(aspect, name, message.as_str());
                told.push((aspect, message));
            }
        }
        if dated {
            let message = "the text contains the date, so it can differ from day to day";
            self.add(Aspect::Date, "question", message);
        }
    }

    /// Returns `true` if a conversation fails because it has no tools or documents.
    fn needs_more(&mut self, name: &str, conversation: &Conversation, alone: &Error) -> bool {
        let mut with = Vec::new();
        if conversation.tools.is_none() {
            with.push(conversation.clone().with_tools(tools()));
        }
        if conversation.documents.is_none() {
            with.push(conversation.clone().with_documents(documents()));
        }
        // With them, it can fail for another reason, which is reported for that sample.
        with.into_iter().any(|conversation| match self.attempt(name, &conversation) {
            Some(Ok(_)) => true,
            Some(Err(error)) => error.to_string() != alone.to_string(),
            None => false,
        })
    }

    fn dropped(&mut self) {
        let system = Conversation::of([("system", SYSTEM), QUESTION]).with_generation_prompt(true);
        self.drops(&system, "system message", SYSTEM, "the system message");
        let asked = question().with_generation_prompt(true);
        self.drops(&asked, "question", QUESTION.1, "the user's message");
        let turns = Conversation::of([QUESTION, ("assistant", ANSWER), ("user", "And now?")])
            .with_generation_prompt(true);
        self.drops(&turns, "turns", ANSWER, "the model's answer");
        if self.template.mentions("tools") {
            let asked = question().with_tools(tools()).with_generation_prompt(true);
            self.drops(&asked, "tools", FUNCTION, "the names of tools");
        }
        if self.template.mentions("tools") && self.template.mentions("tool_calls") {
            let result = called("object").with_generation_prompt(true);
            self.drops(&result, "tool call and result", RESULT, "the result of a tool");
        }
    }

    fn drops(&mut self, conversation: &Conversation, name: &str, text: &str, what: &str) {
        if let Some(rendered) = self.render(name, conversation)
            && !rendered.text().contains(text)
        {
            self.add(Aspect::Drops, name, format!("the text does not contain {what}"));
        }
    }

    fn prompt(&mut self) {
        let [plain, prompted] = [false, true]
            .map(|add| self.render("question", &question().with_generation_prompt(add)));
        let turn = self.render("question and answer", &answered());
        let (Some(plain), Some(prompted), Some(turn)) = (plain, prompted, turn) else { return };
        let (plain, prompted, turn) = (plain.text(), prompted.text(), turn.text());
        let Some(begins) = prompted.strip_prefix(plain) else { return };
        if begins.is_empty() {
            // Some formats have no header before an answer, some have an empty thought after it.
            let same = prompted.bytes().zip(turn.bytes()).take_while(|(a, b)| a == b).count();
            let rest = prompted.trim_end().as_bytes().get(same..).unwrap_or_default();
            let rest = String::from_utf8_lossy(rest).to_ascii_lowercase();
            if !rest.is_empty() && !rest.contains("think") {
                let message = "the text is the same with and without add_generation_prompt, and \
                               the model's turn does not continue it";
                self.add(Aspect::Prompt, "question", message);
            }
            return;
        }
        // Text after the header, such as an empty thought, differs by design.
        let header = begins.find(['\n', '>']).map_or(begins.len(), |end| end + 1);
        let header = begins.get(..header).unwrap_or(begins);
        let expected = turn.strip_prefix(plain).unwrap_or_default();
        if !expected.starts_with(header.trim_end()) {
            let message = format!(
                "the generation prompt is \"{header}\", but the assistant message is rendered as \"{}\"",
                expected.chars().take(40).collect::<String>()
            );
            self.add(Aspect::Prompt, "question and answer", message);
        }
    }

    fn thinking(&mut self) {
        // The template can also assign a variable of this name itself.
        let reads = samples().iter().any(|(name, conversation)| {
            let rendered = self.render(name, conversation);
            rendered.is_some_and(|it| it.missing_variables().iter().any(|name| name == SWITCH))
        });
        if !reads {
            return;
        }
        let turns = Conversation::of([QUESTION, ("assistant", ANSWER), ("user", "And now?")]);
        let mut rendered = 0;
        for conversation in [question(), turns, question().with_tools(tools()), answered()] {
            for prompt in [true, false] {
                let conversation = conversation.clone().with_generation_prompt(prompt);
                let [off, on] = [false, true].map(|value| {
                    let conversation = conversation.clone();
                    self.render(
                        "thinking on",
                        &conversation.with_variable(SWITCH, Json::Bool(value)),
                    )
                });
                let (Some(off), Some(on)) = (off, on) else { return };
                if off.text() != on.text() {
                    return;
                }
                rendered += 1;
            }
        }
        let message = format!(
            "the text is the same with enable_thinking true and false in all {rendered} test conversations"
        );
        self.add(Aspect::Thinking, "thinking on", message);
    }

    fn stability(&mut self) {
        let turns = [QUESTION, ("assistant", ANSWER), ("user", "And now?"), ("assistant", ANSWER)];
        let shorter = Conversation::of(turns.into_iter().take(2));
        let shorter = self.render("question and answer", &shorter);
        let longer = self.render("turns", &Conversation::of(turns));
        let (Some(shorter), Some(longer)) = (shorter, longer) else { return };
        let (shorter, longer) = (shorter.text().trim_end(), longer.text());
        if longer.starts_with(shorter) {
            return;
        }
        let same = shorter.bytes().zip(longer.bytes()).take_while(|(a, b)| a == b).count();
        let after = |text: &str| {
            let rest = text.as_bytes().get(same..).unwrap_or_default();
            String::from_utf8_lossy(rest).chars().take(24).collect::<String>()
        };
        let message = format!(
            "with two more messages, the text differs, beginning at byte {same}: \"{}\" becomes \"{}\"",
            after(shorter),
            after(longer)
        );
        self.add(Aspect::Unstable, "turns", message);
    }

    /// Checks that text that looks like a special token is one.
    fn markers(&mut self, tokenizer: &Tokenizer) {
        let vocabulary = tokenizer.vocabulary();
        let mut seen: Vec<String> = Vec::new();
        for (name, conversation) in samples() {
            let Some(rendered) = self.render(name, &conversation) else { continue };
            for marker in rendered.markers() {
                // Next to other texts, such as results of tools, it can be plain text.
                let is_of_turn = name == "question and answer"
                    || marker.ends_with("|>")
                    || marker.ends_with("｜>");
                if !is_of_turn || seen.iter().any(|known| known == marker) {
                    continue;
                }
                seen.push(marker.to_owned());
                let special = Attributes::CONTROL | Attributes::USER_DEFINED | Attributes::UNKNOWN;
                match vocabulary.id(marker.as_bytes()) {
                    None => {
                        let message = format!("\"{marker}\" is not a token in the vocabulary");
                        self.add(Aspect::NoToken, name, message);
                    }
                    Some(id) if !vocabulary.attributes(id).intersects(special) => {
                        let message = format!(
                            "\"{marker}\" is an ordinary token in the vocabulary (ID {id})"
                        );
                        self.add(Aspect::OrdinaryToken, name, message);
                    }
                    Some(_) => {}
                }
            }
        }
    }

    /// Checks the tokens at the beginning and the end.
    fn ends(&mut self, tokenizer: &Tokenizer) {
        let vocabulary = tokenizer.vocabulary();
        let Some(rendered) = self.render("question and answer", &answered()) else { return };
        let Ok(tokens) = rendered.encode(tokenizer) else { return };
        let first = tokens.ids().next();
        if vocabulary.flags().add_bos && first.is_some() && first == vocabulary.special_ids().bos {
            let message = "the text begins with the BOS token, and tokenizer.ggml.add_bos_token \
                           adds another one";
            self.add(Aspect::DoubleBegin, "question and answer", message);
        }
        let Some(answer) = rendered.text().rfind(ANSWER) else { return };
        let ending = vocabulary.end_of_generation();
        let ends = tokens
            .pieces
            .iter()
            .any(|piece| piece.start >= answer + ANSWER.len() && ending.contains(&piece.id));
        if !ends && !ending.is_empty() {
            let after = rendered.text().get(answer + ANSWER.len()..).unwrap_or_default();
            let message = if after.is_empty() {
                "nothing follows the answer, expected an end-of-generation token".to_owned()
            } else {
                format!("\"{after}\" follows the answer, expected an end-of-generation token")
            };
            self.add(Aspect::NoEnd, "question and answer", message);
        }
    }

    /// Checks whether the answer's first word changes the tokens before it.
    fn seam(&mut self, tokenizer: &Tokenizer) {
        let asked = question().with_generation_prompt(true);
        let Some(rendered) = self.render("question", &asked) else { return };
        let options = EncodeOptions::new().add_special(false).parse_special(true);
        let encode = |text: &str| {
            let mut ids = Vec::new();
            tokenizer.encode(text, &options, &mut ids).ok().map(|()| ids)
        };
        let prompt = rendered.text();
        let joined = format!("{prompt}Hello");
        let (Some(alone), Some(both)) = (encode(prompt), encode(&joined)) else { return };
        if !both.starts_with(&alone) {
            let end: String = prompt.chars().rev().take(12).collect();
            let end: String = end.chars().rev().collect();
            let message = format!(
                "the beginning of the answer is merged into the last token of the prompt, \"{end}\""
            );
            self.add(Aspect::Seam, "question", message);
        }
    }
}
