#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod advisory;
mod data;
mod explain;
mod input;
mod options;
pub mod render;
mod report;
mod rule;
mod rules;
mod source;
mod subject;
mod verdict;

pub use advisory::Advisory;
#[cfg(feature = "examine")]
pub use data::examine;
pub use data::{DataFacts, DataPiece, PieceFacts, data_pieces};
pub use explain::{explain, near, near_keys, rule_page, rules_about, rules_index, topics};
#[cfg(feature = "examine")]
pub use input::{CheckedPlans, check_plans};
pub use input::{Input, check_templates};
pub use options::{Options, Profile, ProfileError, Selector, SelectorError};
pub use report::{Diagnostic, Fix, FixValue, ProposedFix, Report};
pub use rule::{Authority, AutomaticFix, Group, Rule, Severity};
pub use rules::{
    RuleSet, check, check_files, check_set, concerns_text, meant_key, name_fault, rules,
    template_fault, unreadable,
};
pub use source::{Force, Source, StatedBy};
pub use subject::OwnedSubject;
pub use verdict::{Reason, Verdict};
