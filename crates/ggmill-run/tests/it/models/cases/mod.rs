//! Models by family, each with the tensors that it has of those it may lack. A family is a file.

mod common;
mod delta;
mod dense;
mod encoders;
mod experts;
mod gemma;
mod latent;
mod sparse;
mod states;
mod unloaded;

use super::{Case, Value, Value::U, case};

/// All families.
pub(super) const FAMILIES: &[&[Case]] = &[
    common::CASES,
    dense::CASES,
    encoders::CASES,
    delta::CASES,
    experts::CASES,
    gemma::CASES,
    latent::CASES,
    sparse::CASES,
    states::CASES,
    unloaded::CASES,
];

const LONG: [(&str, Value); 2] =
    [("attention.key_length", U(12)), ("attention.value_length", U(12))];
