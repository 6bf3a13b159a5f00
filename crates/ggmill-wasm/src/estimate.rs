//! Estimates of the memory that a model needs to run.

use ggmill_arch::Catalogue;
use ggmill_core::{GgmlType, Model, keys};
use ggmill_estimate::{
    Companions, FlashAttention, Options, Placement, estimate as estimate_model, fit, json,
};
use serde_json::Value;

use crate::failure::Failure;
use crate::record::Record;

/// Estimates by the options in the input, and writes the result as `ggmill estimate --json` does.
pub(crate) fn estimate(model: &Model, input: &[u8]) -> Result<Record, Failure> {
    let object: Value = serde_json::from_slice(input)
        .map_err(|error| Failure::new("misuse", format_args!("options: {error}")))?;
    let request = Request(&object);
    let options = request.options(model)?;
    let catalogue = Catalogue::new();
    let architecture = model.metadata().str(keys::GENERAL_ARCHITECTURE).ok();
    let description = catalogue.for_metadata(model.metadata());
    let failed = |error| Failure::new("misuse", error);
    let sizes = request.numbers("fit")?;
    let case = if sizes.is_empty() {
        let found = estimate_model(model, description, &options).map_err(failed)?;
        (options, found)
    } else {
        let reserve = request.number("reserve")?.unwrap_or(1 << 30);
        let sizes: Vec<u64> = sizes.iter().map(|size| size.saturating_sub(reserve)).collect();
        let found =
            fit(model, description, &options, &sizes, &Companions::default()).map_err(failed)?;
        let found = found.ok_or_else(|| {
            Failure::new(
                "unsupported",
                "the sizes of the model's caches are unknown, so nothing can be fitted",
            )
        })?;
        (found.options, found.estimate)
    };
    let document = json::document(architecture, [(&case.0, &case.1)]);
    let json = serde_json::to_vec(&document);
    Ok(json.map_err(|error| Failure::new("io", error))?.into())
}

/// The options of an estimate, a JSON object.
struct Request<'a>(&'a Value);

impl Request<'_> {
    fn options(&self, model: &Model) -> Result<Options, Failure> {
        let mut options = Options::default();
        options.context = self.number("context")?;
        options.batch = self.number("batch")?.unwrap_or(options.batch);
        options.micro_batch = self.number("microBatch")?.unwrap_or(options.micro_batch);
        options.sequences = self.number("sequences")?.unwrap_or(options.sequences);
        options.unified = self.flag("unified")?;
        options.full_windows = self.flag("fullWindows")?;
        options.key_type = self.ggml_type("keyType")?.unwrap_or(options.key_type);
        options.value_type = self.ggml_type("valueType")?.unwrap_or(options.value_type);
        options.flash_attention = match self.value("flashAttention") {
            None => FlashAttention::Auto,
            Some(Value::Bool(true)) => FlashAttention::On,
            Some(Value::Bool(false)) => FlashAttention::Off,
            Some(_) => return Err(wrong("flashAttention", "true or false")),
        };
        let layers = self.number("gpuLayers")?.unwrap_or(0);
        options.placement = Placement::of(model, layers, &self.shares()?, &[]);
        options.placement.context_on_host = self.flag("contextOnHost")?;
        Ok(options)
    }

    /// Returns the value of an option; `None` if it is absent or null.
    fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        self.value(name)
            .map(|value| integer(value).ok_or_else(|| wrong(name, "an integer of at least 0")))
            .transpose()
    }

    fn numbers(&self, name: &str) -> Result<Vec<u64>, Failure> {
        let list =
            |value: &Value| value.as_array()?.iter().map(integer).collect::<Option<Vec<_>>>();
        self.value(name).map_or(Ok(Vec::new()), |value| {
            list(value).ok_or_else(|| wrong(name, "a list of integers of at least 0"))
        })
    }

    fn shares(&self) -> Result<Vec<f32>, Failure> {
        #[expect(clippy::cast_possible_truncation, reason = "shares are of single precision")]
        let list = |value: &Value| {
            value
                .as_array()?
                .iter()
                .map(|share| Some(share.as_f64()? as f32))
                .collect::<Option<Vec<_>>>()
        };
        self.value("tensorSplit").map_or(Ok(Vec::new()), |value| {
            list(value).ok_or_else(|| wrong("tensorSplit", "a list of numbers"))
        })
    }

    fn flag(&self, name: &str) -> Result<bool, Failure> {
        self.value(name)
            .map_or(Ok(false), |value| value.as_bool().ok_or_else(|| wrong(name, "true or false")))
    }

    fn ggml_type(&self, name: &str) -> Result<Option<GgmlType>, Failure> {
        let parsed = |value: &Value| value.as_str()?.parse().ok();
        self.value(name)
            .map(|value| parsed(value).ok_or_else(|| wrong(name, "a type such as \"Q8_0\"")))
            .transpose()
    }
}

/// Returns an integer, which JavaScript may have written as a float.
fn integer(value: &Value) -> Option<u64> {
    /// `Number.MAX_SAFE_INTEGER`.
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range")]
    let float = |number: f64| {
        (number.fract() == 0.0 && (0.0..=LARGEST).contains(&number)).then_some(number as u64)
    };
    value.as_u64().or_else(|| value.as_f64().and_then(float))
}

fn wrong(name: &str, expected: &str) -> Failure {
    Failure::new("misuse", format_args!("{name}: expected {expected}"))
}
