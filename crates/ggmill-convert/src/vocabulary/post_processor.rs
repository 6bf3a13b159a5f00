//! Special tokens in the post-processor of `tokenizer.json`.
//!
//! As in the reference (`gguf` 0.19.0, `vocab.py`), only the first and the last token of a template
//! and a separator between two texts are recognized.

use serde_json::{Map, Value};

use super::python::truthy;

/// Reads a post-processor, and adds special tokens to `tokenizer_config.json` that it lacks.
pub(crate) struct PostProcessor<'a> {
    config: Option<&'a mut Map<String, Value>>,
    kinds: &'a mut Vec<&'static str>,
    /// The kinds of special tokens, and whether each is added to texts, in the order of the file.
    pub(crate) add: Vec<(&'static str, bool)>,
    bos: Value,
    eos: Value,
    cls: Value,
    sep: Value,
}

impl<'a> PostProcessor<'a> {
    pub(crate) fn new(
        config: Option<&'a mut Map<String, Value>>,
        kinds: &'a mut Vec<&'static str>,
    ) -> Self {
        let known = config.as_deref();
        let [bos, eos, cls, sep] =
            ["bos_token", "eos_token", "cls_token", "sep_token"].map(|name| entry(known, name));
        let mut this = Self { config, kinds, add: Vec::new(), bos, eos, cls, sep };
        if !truthy(&this.bos) && truthy(&this.cls) && this.config.is_some() {
            this.bos = this.cls.clone();
            this.set("bos_token", this.bos.clone());
        }
        if !truthy(&this.eos) && truthy(&this.sep) && this.config.is_some() {
            this.eos = this.sep.clone();
            this.set("eos_token", this.eos.clone());
        }
        this
    }

    /// Reads a post-processor or a sequence of them.
    pub(crate) fn read(&mut self, processor: &Value) {
        match processor.get("processors") {
            Some(Value::Array(processors)) => {
                for processor in processors {
                    self.read_one(processor);
                }
            }
            Some(_) => {}
            None => self.read_one(processor),
        }
    }

    fn read_one(&mut self, processor: &Value) {
        match processor.get("type").and_then(Value::as_str) {
            Some("ByteLevel") => {
                for kind in ["bos", "eos"] {
                    if !self.add.iter().any(|(known, _)| *known == kind) {
                        self.add.push((kind, false));
                    }
                }
            }
            Some("RobertaProcessing") => self.read_roberta(processor),
            Some("TemplateProcessing") => self.read_template(processor),
            _ => {}
        }
    }

    fn read_roberta(&mut self, processor: &Value) {
        for kind in ["bos", "eos", "sep"] {
            self.set_add(kind, true);
        }
        if self.config.is_none() {
            return;
        }
        let token = |name: &str, or: &Value| match processor.get(name) {
            Some(token) => token.get(0).cloned().unwrap_or_default(),
            None => or.clone(),
        };
        if !truthy(&self.cls) {
            self.cls = token("cls", &self.bos);
            self.set("cls_token", self.cls.clone());
        }
        if !truthy(&self.sep) {
            self.sep = token("sep", &self.eos);
            self.set("sep_token", self.sep.clone());
        }
    }

    fn read_template(&mut self, processor: &Value) {
        let single = processor.get("single").and_then(Value::as_array);
        let pair = processor.get("pair").and_then(Value::as_array);
        let (mut first, mut last) = (None, None);
        if let Some([begin, .., end]) = single.map(Vec::as_slice) {
            first = special_of(begin);
            last = special_of(end);
            if let Some(first) = &first {
                self.read_first(first);
            }
            if let Some(last) = &last {
                self.read_last(last);
            }
        }
        if let Some(pair) = pair {
            self.read_pair(pair, first.as_ref(), last.as_ref());
        }
    }

    fn read_first(&mut self, first: &Value) {
        if self.config.is_none() {
            self.bos = first.clone();
        } else if *first != self.bos && *first != self.cls {
            if !truthy(&self.bos) {
                self.bos = first.clone();
                self.set("bos_token", first.clone());
            }
            if !truthy(&self.cls) {
                self.cls = first.clone();
                self.set("cls_token", first.clone());
            }
        }
        self.set_add("bos", *first == self.bos || *first == self.cls);
    }

    fn read_last(&mut self, last: &Value) {
        if self.config.is_some() && *last != self.eos {
            // The previous EOS token becomes EOT or EOM.
            let free = ["eot", "eom"].into_iter().find(|kind| !self.kinds.contains(kind));
            if let Some(kind) = free {
                self.kinds.push(kind);
                self.set(if kind == "eot" { "eot_token" } else { "eom_token" }, self.eos.clone());
            }
            self.set("eos_token", last.clone());
        }
        self.eos = last.clone();
        self.set_add("eos", true);
    }

    /// Reads whether a separator is between two texts: `A [sep] [eos] B`.
    fn read_pair(&mut self, pair: &[Value], first: Option<&Value>, last: Option<&Value>) {
        let begins = first.is_some() && pair.first().and_then(special_of).as_ref() == first;
        let ends = last.is_some() && pair.last().and_then(special_of).as_ref() == last;
        let pair = pair.get(usize::from(begins)..).unwrap_or_default();
        let pair = pair.get(..pair.len().saturating_sub(usize::from(ends))).unwrap_or_default();
        let [a, middle @ .., b] = pair else { return };
        let [separator, more @ ..] = middle else { return };
        let is = |part: &Value, name: &str| {
            part.get("Sequence").and_then(|part| part.get("id")).and_then(Value::as_str)
                == Some(name)
        };
        if !is(a, "A") || !is(b, "B") {
            return;
        }
        let separates = |part: &Value| {
            special_of(part).is_some_and(|token| token == self.sep || token == self.eos)
        };
        let mut add = separates(separator) && last.is_none();
        if let [second] = more {
            add |= separates(second);
        }
        self.set_add("sep", add);
        if add && !truthy(&self.sep) {
            self.set("sep_token", self.eos.clone());
        }
    }

    fn set_add(&mut self, kind: &'static str, flag: bool) {
        match self.add.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, known)) => *known = flag,
            None => self.add.push((kind, flag)),
        }
    }

    fn set(&mut self, name: &str, value: Value) {
        if let Some(config) = &mut self.config {
            config.insert(name.to_owned(), value);
        }
    }
}

/// Returns a value of `tokenizer_config.json`, or null if it has none.
fn entry(config: Option<&Map<String, Value>>, name: &str) -> Value {
    config.and_then(|config| config.get(name)).cloned().unwrap_or_default()
}

/// Returns the special token of a part of a template.
fn special_of(part: &Value) -> Option<Value> {
    part.get("SpecialToken")?.get("id").filter(|id| truthy(id)).cloned()
}
