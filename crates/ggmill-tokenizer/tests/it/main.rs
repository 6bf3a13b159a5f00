//! The tokenizer by its public interface.

mod batch;
mod compare;
mod identity;
mod laws;
mod own;
mod vocabulary;
