//! Whether a checkpoint has what a description of a projector is about.

use ggmill_arch::Architecture;
use ggmill_pipeline::Pretrained;

/// Whether a checkpoint has tensors of the towers that this description of a projector is about. A
/// class alone does not tell: some of its checkpoints have the language model only.
pub fn has_projector(checkpoint: &dyn Pretrained, projector: &Architecture) -> bool {
    let rules = projector.name_rules(checkpoint.config());
    let is_taken = |name: &[u8]| {
        core::str::from_utf8(name).is_ok_and(|name| !rules.ignores(&rules.renamed(name)))
    };
    checkpoint.tensors().iter().any(|tensor| is_taken(&tensor.name))
}
