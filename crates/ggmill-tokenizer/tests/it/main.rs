//! The tokenizer by its public interface.

mod vocabulary;
