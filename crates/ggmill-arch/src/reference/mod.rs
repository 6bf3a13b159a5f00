//! Tables of facts about formats and other programs: names and roles of tensors, metadata keys, types.

pub(crate) mod keys;
pub(crate) mod names;
pub(crate) mod quantization;
pub(crate) mod role;
pub(crate) mod tensor_type;
