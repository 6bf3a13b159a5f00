//! What a vocabulary is made from.

use std::rc::Rc;

use ggmill_arch::configured;
use ggmill_pipeline::{Result, SideFiles};
use serde_json::{Map, Value};

use super::files;
use super::tokenizer_json::TokenizerJson;

/// `tokenizer.json`, read once.
enum Tokenizer {
    Unread,
    Absent,
    Read(Rc<TokenizerJson>),
}

/// What the vocabulary is made from.
pub(crate) struct Request<'a> {
    pub(crate) files: &'a dyn SideFiles,
    pub(crate) config: &'a Value,
    pub(crate) tokenizer_config: Option<Map<String, Value>>,
    tokenizer: Tokenizer,
    /// The name of the pre-tokenizer, where one was asked for.
    pub(crate) pre: Option<&'a str>,
    /// What should be known about the result.
    pub(crate) notes: Vec<String>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(
        files: &'a dyn SideFiles,
        config: &'a Value,
        pre: Option<&'a str>,
    ) -> Result<Self> {
        const FILE: &str = "tokenizer_config.json";
        let tokenizer_config = match files::json(files, FILE)? {
            Some(Value::Object(entries)) => Some(entries),
            Some(_) => return Err(files::fault(FILE, "expected an object")),
            None => None,
        };
        Ok(Self {
            files,
            config,
            tokenizer_config,
            tokenizer: Tokenizer::Unread,
            pre,
            notes: Vec::new(),
        })
    }

    /// A whole number of the configuration.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        configured(self.config, name)?.as_u64()
    }

    /// `tokenizer.json`; `None` where it is absent.
    pub(crate) fn tokenizer(&mut self) -> Result<Option<Rc<TokenizerJson>>> {
        const FILE: &str = "tokenizer.json";
        if let Tokenizer::Unread = self.tokenizer {
            self.tokenizer = match files::vocabulary(self.files, FILE)? {
                Some(bytes) => Tokenizer::Read(Rc::new(files::parse(FILE, &bytes)?)),
                None => Tokenizer::Absent,
            };
        }
        Ok(match &self.tokenizer {
            Tokenizer::Read(tokenizer) => Some(Rc::clone(tokenizer)),
            Tokenizer::Unread | Tokenizer::Absent => None,
        })
    }
}
