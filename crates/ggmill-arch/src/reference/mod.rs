//! Tables of facts about formats and other programs: names and roles of tensors, metadata keys, types.

pub(crate) mod kinds;
pub(crate) mod names;
pub(crate) mod quantization;
pub(crate) mod refused;
pub(crate) mod requirement;
pub(crate) mod role;
pub(crate) mod standard;
pub(crate) mod standard_role;
pub(crate) mod tensor_type;
