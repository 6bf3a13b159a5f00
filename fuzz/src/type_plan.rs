//! Any JSON as a plan of types.

use ggmill_quantize::TypePlan;

use crate::allocations::bounded;

/// Parses the plan; parsing it again gives an equal plan.
pub fn type_plan(data: &[u8]) {
    let Ok(plan) = bounded(data.len(), 1 << 16, 200, || TypePlan::parse(data)) else { return };
    assert!(TypePlan::parse(data).is_ok_and(|again| again == plan));
}
