//! Memory that a model needs for computation.

use core::cell::Cell;

use crate::error::{Error, ErrorKind, Result, quoted};
use crate::expression::{Expression, Scope};
use crate::limits::MAX_TENSORS;
use crate::schema::RawState;
use crate::terms::{condition, expression};
use crate::value::ParameterValue;

/// Memory that a model needs at each of its larger computation steps: the largest counts.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputeSpec {
    parameters: Vec<(Box<str>, ParameterValue)>,
    steps: Vec<StepTemplate>,
}

/// A step: how many elements are needed at once, in every block that it is in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepTemplate {
    blocks: Option<Expression>,
    when: Expression,
    elements: Expression,
}

/// What the expressions of a step know beside hyperparameters: the block, and what [`StepNumbers`]
/// has.
const VARIABLES: [&str; 5] = ["bid", "cells", "masks", "converted", "flash"];

/// Numbers that a step uses in addition to the hyperparameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what expressions know, made by the one who asks")]
pub struct StepNumbers {
    /// Elements of the masks of all caches, for each token that is computed.
    pub masks: u64,
    /// Elements of the keys and values of one block that flash attention needs in another type, as
    /// so many for each token that is computed.
    pub converted: u64,
    /// Whether attention is computed in tiles.
    pub flash: bool,
}

impl StepTemplate {
    pub(crate) fn understand(
        name: &str,
        raw: &RawState,
        known: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let known_here = |name: &str| VARIABLES.contains(&name) || known(name);
        let elements = raw.elements.as_ref().ok_or_else(|| {
            Error::description(format!("memory {}: expected elements", quoted(name)))
        })?;
        Ok(Self {
            blocks: raw.blocks.as_ref().map(|blocks| expression(blocks, known)).transpose()?,
            when: condition(raw.when.as_ref(), &known_here)?,
            elements: expression(elements, &known_here).map_err(|error| error.at("elements"))?,
        })
    }
}

impl ComputeSpec {
    pub(crate) fn new(
        parameters: Vec<(Box<str>, ParameterValue)>,
        steps: Vec<StepTemplate>,
    ) -> Self {
        Self { parameters, steps }
    }

    /// F32 elements for each token that is computed, at the largest step. `cells` says how many the
    /// cache of a block has.
    pub fn elements(&self, cells: &dyn Fn(u64) -> u64, numbers: StepNumbers) -> Result<u64> {
        let fuel = Cell::new(Scope::FUEL);
        let scope = Scope::new(&self.parameters, &fuel);
        let mut most = 0;
        for step in &self.steps {
            let blocks = step.blocks.as_ref().map(|blocks| blocks.evaluate_u64(&scope));
            let blocks = blocks.transpose()?.unwrap_or(1);
            if blocks > MAX_TENSORS {
                let message = format!("a step in {blocks} blocks, the limit is {MAX_TENSORS}");
                return Err(Error::new(ErrorKind::Limit, message));
            }
            for block in 0..blocks {
                let [bid, of_cells, masks, converted, flash] = VARIABLES;
                let variables = [
                    (bid, block),
                    (of_cells, cells(block)),
                    (masks, numbers.masks),
                    (converted, numbers.converted),
                    (flash, u64::from(numbers.flash)),
                ];
                let scope = scope.with(&variables);
                if step.when.evaluate_bool(&scope)? {
                    most = step.elements.evaluate_u64(&scope)?.max(most);
                }
            }
        }
        Ok(most)
    }
}
