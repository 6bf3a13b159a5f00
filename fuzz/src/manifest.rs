//! Any text as a list of hashes.

use ggmill_edit::hash::Manifest;

use crate::allocations::bounded;

/// Reads the text; its claims are found, and a duplicate claim counts once.
pub fn manifest(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let manifest = bounded(data.len(), 1 << 12, 64, || Manifest::parse(text));
    let twice = Manifest::parse(&format!("{text}\n{text}"));
    assert_eq!(twice.kinds(), manifest.kinds());
    if let Some(name) = manifest.only_model() {
        let claims = manifest.about(name, &[name]);
        assert!(claims == twice.about(name, &[name]), "the same claims");
        let all: Vec<_> = claims
            .left()
            .map(|(kind, tensor, digest)| (kind, tensor.map(str::to_owned), digest.to_owned()))
            .collect();
        assert!(!all.is_empty(), "a model with a line has a claim");
        for (kind, tensor, digest) in &all {
            assert!(manifest.kinds().contains(kind));
            let mut claims = claims.clone();
            let alone =
                all.iter().filter(|(other, of, _)| (other, of) == (kind, tensor)).count() == 1;
            assert_eq!(
                claims.settle(*kind, tensor.as_deref(), digest),
                Some(alone),
                "one digest holds, two contradict each other"
            );
            assert_eq!(
                claims.settle(*kind, tensor.as_deref(), digest),
                None,
                "what is settled is settled"
            );
        }
    }
}
