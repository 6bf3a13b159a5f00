//! The tests of `ggmill-quant`.

mod contract;
mod golden;
mod inputs;
