#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod architecture_page;
mod explain;
mod input;
mod options;
pub mod render;
mod report;
mod rule;
mod rules;

pub use explain::{explain, rule_page, rules_index};
pub use input::{Input, ReadAt};
pub use options::{Options, Profile, Selector, SelectorError};
pub use report::{Diagnostic, OwnedSubject, Report};
pub use rule::{Authority, Group, Rule, Severity};
pub use rules::{check, name_fault, rules, unreadable};
