//! Rules with files that violate them, valid files, and reports.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where something is missing")]

mod advisories;
mod architectures;
mod corpus;
mod examples;
mod examples_models;
mod examples_more;
mod examples_threats;
mod examples_vocabularies;
mod fixes;
mod good;
mod graphs;
mod pages;
mod real;
mod samples;
mod sets;
mod slips;
mod sources;
mod specification;
mod support;
mod templates;
mod texts;
