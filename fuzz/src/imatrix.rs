//! Any bytes as an importance matrix in either format.

use ggmill_quantize::{Imatrix, ImatrixForm};

use crate::allocations::bounded;

/// Reads the bytes; a matrix that is written in the lossless format and read again is equal.
pub fn imatrix(data: &[u8]) {
    let Ok(imatrix) = bounded(data.len(), 1 << 16, 64, || Imatrix::parse(data)) else { return };
    for (_, entry) in imatrix.entries() {
        let weights = entry.weights();
        assert!(weights.len() == entry.len() && weights.iter().all(|weight| weight.is_finite()));
        assert_eq!(entry.width() * entry.counts().len(), entry.len());
    }
    if imatrix.form() == ImatrixForm::Gguf
        && let Ok(written) = imatrix.to_bytes(ImatrixForm::Gguf)
    {
        // Not equality of numbers: a sum that is not finite has a finite weight if its matrix was
        // never used.
        let again = Imatrix::parse(&written).expect("what is written is read");
        assert!(
            again.to_bytes(ImatrixForm::Gguf).expect("as before") == written,
            "the same matrix"
        );
    }
    if let Ok(merged) = Imatrix::merge(std::slice::from_ref(&imatrix), 0) {
        assert_eq!(merged.entries().len(), imatrix.entries().len());
        let _ = merged.to_bytes(ImatrixForm::Legacy).map(|written| Imatrix::parse(&written));
    }
}
