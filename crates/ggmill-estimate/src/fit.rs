//! The most that devices have room for.

use ggmill_arch::Architecture;
use ggmill_core::{Model, NoTensors};

use crate::beside::Beside;
use crate::error::{ErrorKind, Result};
use crate::estimate::Estimate;
use crate::note::Note;
use crate::options::Options;
use crate::unknown::Unknown;

/// Contexts are multiples of this.
const STEP: u64 = 256;
/// The context that layers stay on the host for, where devices have no room for more.
const LEAST: u64 = 4096;

/// The largest configuration that fits on devices.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fit {
    /// The options with the context and the layers that fit.
    pub options: Options,
    /// The estimate for them. Its notes are about the options that were given, and about why no more
    /// fits or was tried.
    pub estimate: Estimate,
}

/// The most of a model that fits into devices of these sizes, in bytes: the longest context with all
/// layers on them, up to what the model was trained with. Where that would be shorter than 4,096
/// tokens, or where the options have a context, it is the most layers for the context.
///
/// What is loaded beside the model has room too. Fails for a model without tensors, where a device
/// has no room for what is on it without any layer, and where there are shares for another number of
/// devices. `None` where the caches are not known. Sizes are of the devices beside the host, and shares
/// that were not given are those of the sizes; the options' own number of layers does not count.
pub fn fit(
    model: &Model,
    description: Option<&Architecture>,
    options: &Options,
    sizes: &[u64],
    beside: &Beside<'_>,
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
        let estimate = beside.estimate(model, description, options)?;
        Ok(Fit { options: options.clone(), estimate })
    };
    // The first device that has not enough room, what it needs and what it has.
    let too_small = |fit: &Fit| {
        let devices = fit.estimate.devices.iter().enumerate().skip(1).zip(sizes);
        let mut needed = devices.map(|((number, device), &size)| (number, device.total(), size));
        needed.find(|&(_, needed, size)| needed > size)
    };
    let fits = |fit: &Fit| too_small(fit).is_none();
    let given = options.context;
    options.placement.layers = u64::MAX;
    let all = of(&options)?;
    let is_known = all.estimate.flash_attention.is_some();
    let Some(trained) = all.estimate.context_length().filter(|_| is_known) else {
        return Ok(None);
    };
    let given_notes = |mut fit: Fit, more: Option<Note>| {
        // No one asked for a context or for shares that were found.
        let is_given = |note: &Note| match note {
            Note::BeyondTraining { .. } | Note::RoundedUp { .. } => given.is_some(),
            Note::NothingOnDevices => false,
            _ => true,
        };
        fit.estimate.notes.retain(is_given);
        fit.estimate.notes.extend(more);
        fit
    };
    if fits(&all) {
        let trained = all.estimate.trained_context.unwrap_or(trained);
        let most = given.is_none().then_some(Note::FitsAll { trained });
        return Ok(Some(given_notes(all, most)));
    }
    if given.is_none() {
        let mut best = None;
        // Multiples of the step: the first number fits as far as is known, the second does not.
        let (mut low, mut high) = (0, trained.div_ceil(STEP));
        while let Some(middle) = between(low, high) {
            options.context = Some(middle.saturating_mul(STEP));
            let tried = of(&options)?;
            if fits(&tried) {
                (low, best) = (middle, Some(tried));
            } else {
                high = middle;
            }
        }
        if let Some(best) = best.filter(|_| low.saturating_mul(STEP) >= LEAST.min(trained)) {
            return Ok(Some(given_notes(best, None)));
        }
        options.context = Some(LEAST.min(trained));
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
        // Between numbers of layers with which compute buffers are known there may be some with which
        // they are not. Those would seem to need less.
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
    Ok(Some(given_notes(best, too_many)))
}

/// The number halfway, or `None` where there is none between.
fn between(low: u64, high: u64) -> Option<u64> {
    let middle = low.midpoint(high);
    (middle > low).then_some(middle)
}
