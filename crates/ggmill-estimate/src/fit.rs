//! The largest configuration that fits on devices.

use ggmill_arch::Architecture;
use ggmill_core::{Model, NoTensors};

use crate::error::{ErrorKind, Result};
use crate::estimate::{Companions, Estimate};
use crate::notes::{Note, Unknown};
use crate::options::Options;

/// The step of the search for a context, in tokens.
const CONTEXT_STEP: u64 = 256;
/// The context below which layers are left on the host instead of shortening it further, in tokens.
const MIN_CONTEXT: u64 = 4096;

/// The largest configuration that fits on devices.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fit {
    /// The options with the context and the layers that fit.
    pub options: Options,
    /// The estimate for these options. Its notes are about the requested options, and about why no more
    /// fits or was tried.
    pub estimate: Estimate,
}

/// Returns the largest configuration that fits into devices with `sizes` bytes each, without the host:
/// the longest context with all layers on the devices, up to the one that the model was trained with.
/// If that would be shorter than 4,096 tokens, or if the options specify a context, it is the maximum
/// number of layers for the context.
///
/// `companions` are included. Shares default to the sizes; the number of layers in the options is
/// ignored. Returns `None` if the caches are not known. Fails for a model without tensors, if a device
/// is too small even without layers, and if the numbers of shares and sizes differ.
pub fn fit(
    model: &Model,
    description: Option<&Architecture>,
    options: &Options,
    sizes: &[u64],
    companions: &Companions<'_>,
) -> Result<Option<Fit>> {
    if let Some(found) = NoTensors::of(model) {
        return Err(ErrorKind::NoTensors(found).into());
    }
    let mut options = options.clone();
    if options.placement.has_default_shares() {
        options.placement.default_devices = 0;
        #[expect(clippy::cast_precision_loss, reason = "shares of a whole")]
        let shares = sizes.iter().map(|&size| size.max(1) as f32).collect();
        options.placement.shares = shares;
    }
    let shares = options.placement.shares.len();
    if shares != sizes.len() {
        return Err(ErrorKind::SharesOfSizes { shares, sizes: sizes.len() }.into());
    }
    let of = |options: &Options| -> Result<Fit> {
        let estimate = companions.estimate(model, description, options)?;
        Ok(Fit { options: options.clone(), estimate })
    };
    // The first device that is too small, its needed bytes and its size.
    let too_small = |fit: &Fit| {
        let devices = fit.estimate.devices.iter().enumerate().skip(1).zip(sizes);
        let mut needed = devices.map(|((number, device), &size)| (number, device.total(), size));
        needed.find(|&(_, needed, size)| needed > size)
    };
    let fits = |fit: &Fit| too_small(fit).is_none();
    let requested = options.context;
    options.placement.layers = u64::MAX;
    let all = of(&options)?;
    let is_known = all.estimate.flash_attention.is_some();
    let Some(trained) = all.estimate.context_length().filter(|_| is_known) else {
        return Ok(None);
    };
    let with_notes = |mut fit: Fit, more: Option<Note>| {
        // Notes about a context or shares that this function chose are not for the user.
        let is_relevant = |note: &Note| match note {
            Note::BeyondTraining { .. } | Note::RoundedUp { .. } => requested.is_some(),
            Note::NothingOnDevices => false,
            _ => true,
        };
        fit.estimate.notes.retain(is_relevant);
        fit.estimate.notes.extend(more);
        fit
    };
    if fits(&all) {
        let trained = all.estimate.trained_context.unwrap_or(trained);
        let most = requested.is_none().then_some(Note::FitsAll { trained });
        return Ok(Some(with_notes(all, most)));
    }
    if requested.is_none() {
        let mut best = None;
        // In steps: `low` is known to fit or 0, `high` is known not to.
        let (mut low, mut high) = (0, trained.div_ceil(CONTEXT_STEP));
        while let Some(middle) = between(low, high) {
            options.context = Some(middle.saturating_mul(CONTEXT_STEP));
            let tried = of(&options)?;
            if fits(&tried) {
                (low, best) = (middle, Some(tried));
            } else {
                high = middle;
            }
        }
        if let Some(best) =
            best.filter(|_| low.saturating_mul(CONTEXT_STEP) >= MIN_CONTEXT.min(trained))
        {
            return Ok(Some(with_notes(best, None)));
        }
        options.context = Some(MIN_CONTEXT.min(trained));
    }
    let next = |layers: u64, fit: &Fit| {
        let (device, needed, size) = too_small(fit)?;
        Some(Note::NextLayer { layers, device, needed, size })
    };
    let (mut low, mut high) = (0, all.estimate.layer_count().saturating_add(1));
    let mut too_many = None;
    options.placement.layers = low;
    let mut best = of(&options)?;
    if let Some((device, needed, size)) = too_small(&best) {
        return Err(ErrorKind::NothingFits { device, needed, size }.into());
    }
    let is_computed = |fit: &Fit| {
        !fit.estimate.unknown.iter().any(|unknown| matches!(unknown, Unknown::Compute(_)))
    };
    while let Some(middle) = between(low, high) {
        // For some numbers of layers the compute buffers are not known. Those would seem to need less,
        // so they are skipped.
        let mut found = None;
        for layers in (low.saturating_add(1)..=middle).rev() {
            options.placement.layers = layers;
            let tried = of(&options)?;
            if is_computed(&tried) || !is_computed(&all) {
                found = Some((layers, tried));
                break;
            }
        }
        match found {
            Some((layers, tried)) if fits(&tried) => (low, best) = (layers, tried),
            Some((layers, tried)) => (high, too_many) = (layers, next(layers, &tried)),
            None => high = middle,
        }
    }
    Ok(Some(with_notes(best, too_many)))
}

/// Returns the midpoint, or `None` if there is no number in between.
fn between(low: u64, high: u64) -> Option<u64> {
    let middle = low.midpoint(high);
    (middle > low).then_some(middle)
}
