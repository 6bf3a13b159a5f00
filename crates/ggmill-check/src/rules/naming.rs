//! Nothing yet.

use crate::report::Findings;
use crate::rule::rules;
use crate::{Input, Options};

rules! { Naming; }

pub(super) fn check(_: &Input<'_>, _: &Options, _: &mut Findings<'_>) {}
