#![doc = include_str!("../README.md")]

#[cfg(any(feature = "check", feature = "check-text"))]
mod check;
#[cfg(feature = "decode")]
mod decode;
#[cfg(feature = "edit")]
mod edit;
#[cfg(feature = "estimate")]
mod estimate;
mod exports;
mod failure;
mod files;
mod header;
#[cfg(feature = "inspect")]
mod inspect;
#[cfg(feature = "name")]
mod name;
mod operation;
mod record;
mod state;
#[cfg(feature = "template")]
mod template;
#[cfg(feature = "tokenize")]
mod tokenize;
