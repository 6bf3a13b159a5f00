//! Files of other formats: PyTorch, valid and hostile.

mod hostile_torch;
mod support;
mod torch;
