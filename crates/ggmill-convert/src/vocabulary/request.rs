//! The inputs from which a vocabulary is converted.

use std::rc::Rc;

use ggmill_arch::{SpacePrefix, VocabularySpec, configured};
use ggmill_core::MetadataBuf;
use ggmill_pipeline::{Result, SideFiles};
use ggmill_tokenizer::tokenizer_json::{ModelKind, TokenizerJson};
use serde_json::{Map, Value};

use super::files;

const TOKENIZER: &str = "tokenizer.json";

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
    /// What the architecture's description says.
    pub(crate) spec: &'a VocabularySpec,
    pub(crate) tokenizer_config: Option<Map<String, Value>>,
    tokenizer: Tokenizer,
    /// The name of the pre-tokenizer, where one was asked for.
    pub(crate) pre: Option<&'a str>,
    /// What should be known about the result.
    pub(crate) notes: Vec<String>,
    /// Why files that could have been the vocabulary are not.
    pub(crate) passed_over: Option<String>,
    /// What is wrong with `tokenizer.json` where its model cannot be read.
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
            notes: Vec::new(),
            passed_over: None,
            defect: None,
        })
    }

    /// A whole number of the configuration.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        configured(self.config, name)?.as_u64()
    }

    /// The number of tokens that the model has.
    pub(crate) fn size(&self) -> Option<u64> {
        self.spec.size.or_else(|| self.number("vocab_size"))
    }

    /// The class of the tokenizer that `tokenizer_config.json` names.
    pub(crate) fn tokenizer_class(&self) -> Option<&str> {
        self.tokenizer_config.as_ref()?.get("tokenizer_class")?.as_str()
    }

    /// Sets `tokenizer.ggml.add_space_prefix` where this is the place of it.
    pub(crate) fn write_space_prefix(&self, place: SpacePrefix, metadata: &mut MetadataBuf) {
        if self.spec.space_prefix == place
            && let Some(config) = &self.tokenizer_config
            && let Some(&Value::Bool(flag)) = config.get("add_prefix_space")
        {
            metadata.set("tokenizer.ggml.add_space_prefix", flag);
        }
    }

    /// `tokenizer.json` where its model is of this kind. Why it is not is kept: other files may
    /// have the vocabulary.
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

    /// `tokenizer.json`; `None` where it is absent.
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
