//! The tokenizer by its public interface.

mod identity;
mod laws;
mod own;
mod vocabulary;
