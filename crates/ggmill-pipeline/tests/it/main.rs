//! Tests over the public interface.

mod compositions;
mod expression;
mod naive;
