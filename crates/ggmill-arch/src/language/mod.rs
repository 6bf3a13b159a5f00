//! The languages of descriptions: expressions over hyperparameters, patterns of names, and programs
//! that make computation graphs.

pub(crate) mod block;
pub(crate) mod expression;
pub(crate) mod facts;
pub(crate) mod pattern;
pub(crate) mod program;
pub(crate) mod steps;
