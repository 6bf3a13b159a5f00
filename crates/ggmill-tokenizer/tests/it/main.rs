//! The tokenizer, tested by its public interface.

mod departures;
mod examination;
mod explain;
mod hostile;
mod identity;
mod laws;
mod vocabulary;
