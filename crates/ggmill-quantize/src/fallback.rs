//! The type of a tensor whose row length is not a multiple of the block size of the chosen type
//! for it.

use ggmill_core::GgmlType as G;

/// Types and what replaces them: blocks of 32 instead of larger ones, of about the same number of
/// bits.
const STAND_INS: &[(G, G)] = &[
    (G::IQ1_S, G::IQ4_NL),
    (G::IQ1_M, G::IQ4_NL),
    (G::IQ2_XXS, G::IQ4_NL),
    (G::IQ2_XS, G::IQ4_NL),
    (G::IQ2_S, G::IQ4_NL),
    (G::IQ3_XXS, G::IQ4_NL),
    (G::IQ3_S, G::IQ4_NL),
    (G::IQ4_XS, G::IQ4_NL),
    (G::Q2_0, G::Q4_0),
    (G::Q2_K, G::Q4_0),
    (G::Q3_K, G::Q4_0),
    (G::TQ1_0, G::Q4_0),
    (G::TQ2_0, G::Q4_0),
    (G::Q4_K, G::Q5_0),
    (G::Q5_K, G::Q5_1),
    (G::Q6_K, G::Q8_0),
    // These the reference does not have; it stops there.
    (G::Q1_0, G::Q4_0),
    (G::NVFP4, G::MXFP4),
];

/// The type itself where it fits, else what replaces it, else F16.
pub(crate) fn fitting(wanted: G, row_len: u64) -> G {
    let fits = |ggml_type: G| {
        ggml_type.layout().is_some_and(|layout| row_len.is_multiple_of(u64::from(layout.elements)))
    };
    let stand_in = STAND_INS.iter().find(|(from, _)| *from == wanted).map(|&(_, to)| to);
    [Some(wanted), stand_in]
        .into_iter()
        .flatten()
        .find(|&ggml_type| fits(ggml_type))
        .unwrap_or(G::F16)
}
