//! The inputs of the conversion of a vocabulary.

use std::rc::Rc;

use ggmill_arch::{SpacePrefix, VocabularySpec, configured};
use ggmill_core::MetadataBuf;
use ggmill_pipeline::{Result, SideFiles};
use serde_json::{Map, Value};

use super::files;
use ggmill_tokenizer::tokenizer_json::{ModelKind, TokenizerJson};

const TOKENIZER: &str = "tokenizer.json";

/// `tokenizer.json`, read on first use.
enum Tokenizer {
    Unread,
    Absent,
    Read(Rc<TokenizerJson>),
}

/// The inputs of the conversion of a vocabulary, and the notes about it.
pub(crate) struct Request<'a> {
    pub(crate) files: &'a dyn SideFiles,
    pub(crate) config: &'a Value,
    /// The rules of the architecture's description.
    pub(crate) spec: &'a VocabularySpec,
    pub(crate) tokenizer_config: Option<Map<String, Value>>,
    tokenizer: Tokenizer,
    /// The name of the pre-tokenizer, if the user or the description specifies it.
    pub(crate) pre: Option<&'a str>,
    /// Compare the tokens of 500 texts with those of the library.
    pub(crate) verifies: bool,
    /// Notes about the result.
    pub(crate) notes: Vec<String>,
    /// The reason why a candidate file is not the vocabulary.
    pub(crate) passed_over: Option<String>,
    /// The error in the model of `tokenizer.json`, if there is one.
    pub(crate) defect: Option<String>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(
        files: &'a dyn SideFiles,
        config: &'a Value,
        spec: &'a VocabularySpec,
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
            spec,
            tokenizer_config,
            tokenizer: Tokenizer::Unread,
            pre: pre.or(spec.pre.as_deref()),
            verifies: false,
            notes: Vec::new(),
            passed_over: None,
            defect: None,
        })
    }

    /// Returns an integer of the configuration.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        configured(self.config, name)?.as_u64()
    }

    /// Returns the number of tokens of the model.
    pub(crate) fn size(&self) -> Option<u64> {
        self.spec.size.or_else(|| self.number("vocab_size"))
    }

    /// Returns the tokenizer class in `tokenizer_config.json`.
    pub(crate) fn tokenizer_class(&self) -> Option<&str> {
        self.tokenizer_config.as_ref()?.get("tokenizer_class")?.as_str()
    }

    /// Sets `tokenizer.ggml.add_space_prefix` if the description specifies this position for it.
    pub(crate) fn write_space_prefix(&self, place: SpacePrefix, metadata: &mut MetadataBuf) {
        if self.spec.space_prefix == place
            && let Some(config) = &self.tokenizer_config
            && let Some(&Value::Bool(flag)) = config.get("add_prefix_space")
        {
            metadata.set("tokenizer.ggml.add_space_prefix", flag);
        }
    }

    /// Returns `tokenizer.json` if its model is of this kind. Otherwise records the reason: other
    /// files can have the vocabulary.
    pub(crate) fn tokenizer_of(&mut self, kind: ModelKind) -> Result<Option<Rc<TokenizerJson>>> {
        let Some(file) = self.tokenizer()? else { return Ok(None) };
        match file.model.kind() {
            Ok(found) if found == kind => return Ok(Some(file)),
            Ok(found) => {
                self.passed_over = Some(format!("the model of {TOKENIZER} is {}", found.name()));
            }
            Err(defect) => self.defect = Some(defect.to_string()),
        }
        Ok(None)
    }

    /// Returns `tokenizer.json`, or `None` if it is absent.
    pub(crate) fn tokenizer(&mut self) -> Result<Option<Rc<TokenizerJson>>> {
        if let Tokenizer::Unread = self.tokenizer {
            self.tokenizer = match files::vocabulary(self.files, TOKENIZER)? {
                Some(bytes) => Tokenizer::Read(Rc::new(files::parse(TOKENIZER, &bytes)?)),
                None => Tokenizer::Absent,
            };
        }
        Ok(match &self.tokenizer {
            Tokenizer::Read(tokenizer) => Some(Rc::clone(tokenizer)),
            Tokenizer::Unread | Tokenizer::Absent => None,
        })
    }
}
