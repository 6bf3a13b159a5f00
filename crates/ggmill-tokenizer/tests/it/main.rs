//! The tokenizer, tested by its public interface.

mod departures;
mod examination;
mod explain;
mod hostile;
mod identity;
mod laws;
#[cfg(feature = "tokenizer-json")]
mod library;
mod vocabulary;
