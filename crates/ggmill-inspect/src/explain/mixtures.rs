//! The types that a model is quantized to: bits per weight, and when to choose them.

/// A type to quantize to.
struct Mixture {
    name: &'static str,
    /// Bits per weight of Llama 3.1 8B quantized to it, from the reference's documentation
    /// (`tools/quantize/README.md`). `None` for types that it does not list.
    bits: Option<f64>,
    advice: &'static str,
}

const NEARLY_LOSSLESS: &str = "Nearly lossless: for comparisons, for small models, and where \
                               memory is plentiful.";
const VERY_GOOD: &str = "A very small loss; larger types are rarely worth their size.";
const GOOD: &str = "A small loss: the next step up where Q4_K_M is not enough.";
const USUAL: &str = "The usual choice: a good balance of size and quality for most models.";
const SMALLER: &str = "A little smaller than Q4_K_M, with a little more loss. An importance matrix \
                       reduces it.";
const NOTICEABLE: &str = "A noticeable loss: where Q4_K_M does not fit. Use an importance matrix \
                          (`--imatrix`), and compare with a smaller model of more bits.";
const STRONG: &str = "A large loss: for large models that do not fit otherwise, and only with an \
                      importance matrix (`--imatrix`).";
const LEGACY: &str = "An older type: Q4_K_M, Q5_K_M or IQ4_NL lose less in as many bytes. Useful \
                      where the row length is not a multiple of 256, or for a backend without \
                      other types.";
const TERNARY: &str = "For models that were trained with ternary weights, such as BitNet; it makes \
                       others useless.";
const MICROSCALING: &str = "For models that were trained in this format, such as gpt-oss; for \
                            others Q4_K_M loses less.";

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
        format!("Llama 3.1 8B quantized to it has {bits:.2} bits per weight, {size:.1} GB. ")
    });
    format!(
        "\n## When to choose it\n\n{bits}{advice}\n\n`ggmill quantize MODEL --compare {name},…` \
         prints size and bits per weight of a model, side by side.\n"
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
