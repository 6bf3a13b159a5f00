//! BitNet: −1, 0 and 1 in two bits each, divided by a scale.

use ggmill_pipeline::{Expression, Result, TernaryRows};

use super::unpacking::{Content, Unpacking, unscaled};

/// Decodes all weights that have a scale.
pub(super) fn decode(list: &mut Unpacking<'_>) -> Result<()> {
    for (scale, base) in list.ending(".weight_scale") {
        let number = list.need(base, ".weight", scale)?;
        let inputs = [list.stored(number)?, unscaled(list.checkpoint, scale)?];
        let name = &list.tensor(number).name;
        let values =
            Expression::decode(TernaryRows::new(), &inputs).map_err(|error| error.tensor(name))?;
        list.replace(number, &**name, Content::Values(values));
        list.leave_out(scale);
    }
    Ok(())
}
