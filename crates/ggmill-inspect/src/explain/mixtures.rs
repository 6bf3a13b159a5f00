//! The types that a model is quantized to: bits per weight, and when to choose them.

/// A type to quantize to.
struct Mixture {
    name: &'static str,
    /// Bits per weight of Llama 3.1 8B quantized to it, from the reference's documentation
    /// (`tools/quantize/README.md`). `None` for types that it does not list.
    bits: Option<f64>,
    advice: &'static str,
}

const NEARLY_LOSSLESS: &str = "Nearly lossless: for comparisons, for small models, or if there \
                               is plenty of memory.";
const VERY_GOOD: &str = "Very small quality loss; larger types are rarely worth their size.";
const GOOD: &str = "Small quality loss: the next step up if Q4_K_M is not good enough.";
const USUAL: &str = "The usual choice: a good balance of size and quality for most models.";
const SMALLER: &str = "Slightly smaller than Q4_K_M, with slightly more quality loss. An importance \
                       matrix reduces the loss.";
const NOTICEABLE: &str = "Noticeable quality loss: if Q4_K_M does not fit. Use an importance matrix \
                          (`--imatrix`), and compare with a smaller model at more bits.";
const STRONG: &str = "Large quality loss: only for large models that do not fit otherwise, and only \
                      with an importance matrix (`--imatrix`).";
const LEGACY: &str = "An older type: Q4_K_M, Q5_K_M or IQ4_NL have lower error at the same size. \
                      Useful if row lengths are not multiples of 256, or for backends that \
                      support no other types.";
const TERNARY: &str = "For models trained with ternary weights, such as BitNet; other models \
                       become unusable.";
const MICROSCALING: &str = "For models trained in this format, such as gpt-oss; for other models, \
                            Q4_K_M has lower error.";

const fn mixture(name: &'static str, bits: f64, advice: &'static str) -> Mixture {
    Mixture { name, bits: Some(bits), advice }
}

const fn unmeasured(name: &'static str, advice: &'static str) -> Mixture {
    Mixture { name, bits: None, advice }
}

const MIXTURES: [Mixture; 31] = [
    mixture("Q8_0", 8.5008, NEARLY_LOSSLESS),
    mixture("Q6_K", 6.5633, VERY_GOOD),
    mixture("Q5_K_M", 5.7036, GOOD),
    mixture("Q5_K_S", 5.5704, GOOD),
    mixture("Q4_K_M", 4.8944, USUAL),
    mixture("Q4_K_S", 4.6672, SMALLER),
    mixture("IQ4_NL", 4.6818, SMALLER),
    mixture("IQ4_XS", 4.4597, SMALLER),
    mixture("Q3_K_L", 4.2979, NOTICEABLE),
    mixture("Q3_K_M", 3.9960, NOTICEABLE),
    mixture("Q3_K_S", 3.6429, NOTICEABLE),
    mixture("IQ3_M", 3.7628, NOTICEABLE),
    mixture("IQ3_S", 3.6606, NOTICEABLE),
    mixture("IQ3_XS", 3.4977, NOTICEABLE),
    mixture("IQ3_XXS", 3.2548, NOTICEABLE),
    mixture("Q2_K", 3.1593, STRONG),
    mixture("Q2_K_S", 2.9697, STRONG),
    mixture("IQ2_M", 2.9294, STRONG),
    mixture("IQ2_S", 2.7403, STRONG),
    mixture("IQ2_XS", 2.5882, STRONG),
    mixture("IQ2_XXS", 2.3824, STRONG),
    mixture("IQ1_M", 2.1460, STRONG),
    mixture("IQ1_S", 2.0042, STRONG),
    unmeasured("Q4_0", LEGACY),
    unmeasured("Q4_1", LEGACY),
    unmeasured("Q5_0", LEGACY),
    unmeasured("Q5_1", LEGACY),
    unmeasured("TQ1_0", TERNARY),
    unmeasured("TQ2_0", TERNARY),
    unmeasured("MXFP4_MOE", MICROSCALING),
    unmeasured("NVFP4", MICROSCALING),
];

fn of(name: &str) -> Option<&'static Mixture> {
    MIXTURES.iter().find(|mixture| mixture.name.eq_ignore_ascii_case(name))
}

/// The section of a page about choosing this type for a model; empty without advice.
pub(super) fn advice(name: &str) -> String {
    let Some(Mixture { name, bits, advice }) = of(name) else { return String::new() };
    let bits = bits.map_or_else(String::new, |bits| {
        let size = bits * 8.03 / 8.0;
        format!("For Llama 3.1 8B: {bits:.2} bits per weight, {size:.1} GB. ")
    });
    format!(
        "\n## When to choose it\n\n{bits}{advice}\n\n`ggmill quantize MODEL --compare {name},…` \
         compares the size and bits per weight for several types.\n"
    )
}

/// The line of a list of topics about a type to quantize to.
pub(super) fn summary(name: &str) -> String {
    of(name)
        .and_then(|mixture| mixture.bits)
        .map_or_else(String::new, |bits| format!("about {bits:.2} bits per weight"))
}

/// The mixtures that are not tensor types, by the names of their file types.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    MIXTURES
        .iter()
        .map(|mixture| mixture.name)
        .filter(|name| name.parse::<ggmill_core::GgmlType>().is_err())
}

#[cfg(test)]
mod tests {
    use ggmill_core::FileType;

    use super::*;

    #[test]
    fn every_name_is_a_file_type() {
        for Mixture { name, .. } in &MIXTURES {
            assert!(name.parse::<FileType>().is_ok(), "{name}");
        }
    }
}
