//! The operations of the libraries over whole files.

pub(crate) mod check;
pub(crate) mod convert;
pub(crate) mod diff;
pub(crate) mod edit;
pub(crate) mod estimate;
pub(crate) mod extract;
pub(crate) mod hash;
pub(crate) mod measure;
mod output;
pub(crate) mod quantize;
pub(crate) mod shards;
pub(crate) mod shared;
