//! The tensor names of known architectures, imported from gguf.

use std::sync::LazyLock;

use crate::data::tables::{Names, TensorNames};
use crate::data::{self, table};
use crate::language::block::block_of;
use crate::language::pattern::begins;

static NAMES: LazyLock<Names> = LazyLock::new(|| table(data::NAMES));

impl TensorNames {
    /// Returns the tensor names of an architecture, if it is known.
    pub fn of(architecture: &str) -> Option<&'static Self> {
        NAMES.architectures.get(architecture)
    }

    /// Returns all known architectures in alphabetical order, with their tensor names.
    pub fn all() -> impl ExactSizeIterator<Item = (&'static str, &'static Self)> {
        NAMES.architectures.iter().map(|(name, names)| (&**name, names))
    }

    /// Returns the sources of the names, with versions.
    pub fn sources() -> &'static [String] {
        &NAMES.sources
    }

    /// Returns `true` if a tensor of the architecture can have this name.
    pub fn contains(&self, tensor: &str) -> bool {
        match block_of(tensor) {
            Some((_, rest)) => self.block.iter().any(|name| begins(rest, name)),
            None => self.model.iter().any(|name| begins(tensor, name)),
        }
    }

    /// Returns the names as patterns, those outside blocks first.
    pub fn patterns(&self) -> impl Iterator<Item = String> {
        self.model
            .iter()
            .cloned()
            .chain(self.block.iter().map(|name| format!("blk.{{bid}}.{name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_parse_and_are_tensor_names() {
        let file = &*NAMES;
        assert!(!file.sources.is_empty());
        for (architecture, names) in &file.architectures {
            assert!(!names.model.is_empty() || !names.block.is_empty(), "{architecture}");
            for pattern in names.patterns() {
                // The format limits names to 64 bytes, including a number and a suffix.
                assert!(pattern.len() <= 64 && pattern.is_ascii(), "{architecture}: {pattern}");
                let name = pattern.replace("{bid}", "17").replace("{xid}", "3");
                assert!(
                    !name.contains('{')
                        && names.contains(&name)
                        && names.contains(&format!("{name}.weight")),
                    "{architecture}: {pattern}"
                );
            }
        }
    }

    #[test]
    fn names_match_whole_components() {
        let llama = TensorNames::of("llama").unwrap();
        for name in [
            "blk.0.attn_q.weight",
            "blk.10.attn_k.bias",
            "token_embd.weight",
            "blk.0.ffn_down.scale",
        ] {
            assert!(llama.contains(name), "{name}");
        }
        for name in [
            "",
            "blk.0",
            "blk.x.attn_q.weight",
            "blk..attn_q.weight",
            "blk.0.attn_q.weight.scale",
            "blk.0.attn_qq.weight",
            "attn_q.weight",
            "token_embd_.weight",
        ] {
            assert!(!llama.contains(name), "{name}");
        }
        assert!(TensorNames::of("wavtokenizer-dec").unwrap().contains("convnext.3.dw.bias"));
        assert_eq!(TensorNames::of("no such"), None);
    }
}
