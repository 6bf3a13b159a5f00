//! The tokenizer, tested by its public interface.

mod departures;
mod examination;
mod explain;
mod identity;
mod laws;
mod vocabulary;
