//! The size of a model in words.

use alloc::format;
use alloc::string::String;

use crate::{RawStr, Shape};

/// The size of a model in words, such as `260K`, `1.2B` or `8x7B`, from its tensors; `None` when
/// they have no elements.
///
/// As the reference counts: experts are stacked in the last of three or more dimensions of tensors
/// named `…_exps.…`, and the size is that of one expert with all that the experts share.
///
/// ```
/// use ggmill_core::{RawStr, Shape, size_label};
/// let (embedding, experts) = (Shape::new(&[4096, 32_000])?, Shape::new(&[4096, 14_336, 8])?);
/// let tensors = [(RawStr::from("token_embd.weight"), &embedding), (RawStr::from("blk.0.ffn_up_exps.weight"), &experts)];
/// assert_eq!(size_label(tensors).as_deref(), Some("8x190M"));
/// # Ok::<(), ggmill_core::Error>(())
/// ```
pub fn size_label<'a>(
    tensors: impl IntoIterator<Item = (RawStr<'a>, &'a Shape)>,
) -> Option<String> {
    let (mut total, mut shared, mut expert, mut experts, mut expert_tensors) =
        (0u64, 0u64, 0u64, 0u64, 0u64);
    for (name, shape) in tensors {
        let contains =
            |part: &[u8]| name.as_bytes().windows(part.len()).any(|window| window == part);
        let elements = shape.elements();
        total = total.saturating_add(elements);
        let dimensions = shape.dimensions();
        let count = if contains(b".bias") { dimensions.get(1) } else { dimensions.get(2) };
        match count.filter(|&&count| dimensions.len() >= 3 && count > 0 && contains(b"_exps.")) {
            Some(count) => {
                expert = expert.saturating_add(elements.checked_div(*count).unwrap_or(0));
                experts = experts.saturating_add(*count);
                expert_tensors = expert_tensors.saturating_add(1);
            }
            None => shared = shared.saturating_add(elements),
        }
    }
    let label = match experts.checked_div(expert_tensors) {
        Some(count) if count > 0 => format!("{count}x{}", rounded(shared.saturating_add(expert))),
        _ => rounded(total),
    };
    (total > 0).then_some(label)
}

/// A count of parameters with at least two digits: `1.2B`, `15M`, `260K`.
#[expect(clippy::cast_precision_loss, reason = "rounded to two digits")]
fn rounded(parameters: u64) -> String {
    let parameters = parameters as f64;
    let (scaled, unit) = match parameters {
        p if p > 1e12 => (p * 1e-12, 'T'),
        p if p > 1e9 => (p * 1e-9, 'B'),
        p if p > 1e6 => (p * 1e-6, 'M'),
        p => (p * 1e-3, 'K'),
    };
    // What rounds to a whole number below one, below ten, and beyond; a half goes to the even one.
    let decimals = match scaled {
        s if s <= 0.5 => 2,
        s if s < 9.5 => 1,
        _ => 0,
    };
    format!("{scaled:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_as_the_reference_rounds_them() {
        // gguf.utility.model_weight_count_rounded_notation of the same numbers.
        let reference = [
            (260_032, "260K"),
            (1_235_814_400, "1.2B"),
            (7_241_732_096, "7.2B"),
            (999, "1.0K"),
            (400, "0.40K"),
            (46_702_792_704, "47B"),
            (9_950_000, "10M"),
        ];
        for (parameters, label) in reference {
            assert_eq!(rounded(parameters), label, "{parameters}");
        }
    }
}
