//! The conversion of a checkpoint: operations on its tensors, rules for their names, its vocabulary.

pub(crate) mod name_rules;
pub(crate) mod operation;
pub(crate) mod vocabulary;
pub(crate) mod vocabulary_kind;
