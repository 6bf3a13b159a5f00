//! Tensors that are placed by a pattern.

use core::str::FromStr;

use ggmill_core::Model;
use regex_lite::Regex;

use crate::device::device_number;
use crate::error::{Error, ErrorKind};
use crate::placement::{PlacedPattern, Placement};

/// Tensors that are placed on a device by their names: `PATTERN=DEVICE` as text, where PATTERN is a
/// regular expression that matches anywhere in a name.
///
/// ```
/// use ggmill_estimate::TensorOverride;
/// let experts: TensorOverride = r"ffn_.*_exps\.weight=CPU".parse()?;
/// assert!("=GPU0)(=".parse::<TensorOverride>().is_err());
/// # Ok::<(), ggmill_estimate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorOverride {
    pattern: Regex,
    device: usize,
}

impl FromStr for TensorOverride {
    type Err = Error;

    /// Fails when there is no `=`, and when what precedes it is not a regular expression or what
    /// follows it is not a device.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong =
            |why: String| Error::from(ErrorKind::Override { found: text.into(), why: why.into() });
        let (pattern, device) =
            text.rsplit_once('=').ok_or_else(|| wrong("expected PATTERN=DEVICE".to_owned()))?;
        let pattern = Regex::new(pattern).map_err(|error| wrong(error.to_string()))?;
        let device = device_number(device).ok_or_else(|| {
            wrong(
                "expected CPU, or GPU and a number from 0 to 15, such as GPU0, after =".to_owned(),
            )
        })?;
        Ok(Self { pattern, device })
    }
}

impl Placement {
    /// The last `layers` blocks of a model on devices that have these shares of them. The first
    /// override that matches a tensor's name places it. Without shares there are as many equal
    /// devices as the overrides name, and at least one where there are layers for it.
    pub fn of(model: &Model, layers: u64, shares: &[f32], overrides: &[TensorOverride]) -> Self {
        let mut placement = Self { layers, shares: shares.to_vec(), ..Self::default() };
        let named = overrides.iter().map(|rule| rule.device).max().unwrap_or(0);
        if shares.is_empty() && (layers > 0 || named > 0) {
            placement.default_devices = named.max(1);
            placement.shares = vec![1.0; placement.default_devices];
        }
        let tensors: Vec<String> = if overrides.is_empty() {
            Vec::new()
        } else {
            model.tensors().iter().map(|tensor| tensor.name().to_string()).collect()
        };
        for rule in overrides {
            let mut matches = false;
            for name in tensors.iter().filter(|name| rule.pattern.is_match(name)) {
                matches = true;
                // An earlier pattern may have placed it.
                placement.overrides.entry(name.clone()).or_insert(rule.device);
            }
            let pattern = rule.pattern.as_str().to_owned();
            placement.patterns.push(PlacedPattern { pattern, device: rule.device, matches });
        }
        placement
    }
}
