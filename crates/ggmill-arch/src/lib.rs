//! Model architectures as data: keys, tensors, shapes, roles and where each comes from.
