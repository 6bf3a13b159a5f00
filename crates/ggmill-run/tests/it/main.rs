//! Models that run: the numbers of libllama, and laws that hold for every model.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where something is missing")]

mod activations;
mod adapters;
mod hashes;
mod laws;
mod linear_inputs;
mod logits;
mod measures;
mod models;
mod probes;
mod refusals;
mod runs;
mod scores;
mod sequences;
mod sources;
mod stored;
mod trials;
