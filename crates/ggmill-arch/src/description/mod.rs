//! Descriptions of architectures, parsed and checked: what holds for all models of one.

pub(crate) mod architecture;
pub(crate) mod include;
pub(crate) mod tensor;
