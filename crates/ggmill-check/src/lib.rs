#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod data;
#[cfg(feature = "examine")]
mod examine;
mod explain;
mod fix;
mod input;
mod options;
#[cfg(feature = "examine")]
mod planned;
pub mod render;
mod report;
mod rule;
mod rules;
mod source;
mod templates;

pub use data::{DataFacts, DataPiece, PieceFacts, data_pieces};
#[cfg(feature = "examine")]
pub use examine::examine;
pub use explain::{explain, near, near_keys, rule_page, rules_about, rules_index, topics};
pub use fix::{Fix, FixValue, ProposedFix};
pub use input::Input;
pub use options::{Options, Profile, ProfileError, Selector, SelectorError};
#[cfg(feature = "examine")]
pub use planned::{CheckedPlans, check_plans};
pub use report::{Diagnostic, OwnedSubject, Report};
pub use rule::{Authority, Group, Rule, Severity};
pub use rules::{
    RuleSet, check, check_files, check_set, concerns_text, meant_key, name_fault, rules,
    template_fault, unreadable,
};
pub use source::{Force, Source, StatedBy};
pub use templates::check_templates;
