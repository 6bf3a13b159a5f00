//! The tokenizer by its public interface.

mod batch;
mod compare;
mod examination;
mod explain;
mod identity;
mod laws;
mod own;
mod vocabulary;
