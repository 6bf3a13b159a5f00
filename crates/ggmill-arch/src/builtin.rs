//! The descriptions compiled in, each read when it is first asked for.

use std::sync::OnceLock;

use crate::architecture::Architecture;

/// A description with its text.
struct Builtin {
    name: &'static str,
    text: &'static str,
    parsed: OnceLock<Option<Architecture>>,
}

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        [$(Builtin { name: $name, text: include_str!(concat!("../data/", $name, ".toml")), parsed: OnceLock::new() }),*]
    };
}

/// A new architecture is a file and a word here.
static BUILTIN: [Builtin; 32] = builtin![
    "bert",
    "bloom",
    "command-r",
    "deepseek2",
    "falcon",
    "gemma",
    "gemma2",
    "gemma3",
    "gpt-oss",
    "gpt2",
    "gptj",
    "gptneox",
    "granite",
    "llama",
    "mamba",
    "mamba2",
    "mpt",
    "nomic-bert",
    "olmo2",
    "phi2",
    "phi3",
    "qwen2",
    "qwen2moe",
    "qwen3",
    "qwen3moe",
    "rwkv",
    "rwkv6",
    "rwkv7",
    "stablelm",
    "starcoder2",
    "t5",
    "whisper"
];

impl Builtin {
    fn get(&'static self) -> Option<&'static Architecture> {
        self.parsed.get_or_init(|| Architecture::parse(self.text).ok()).as_ref()
    }
}

impl Architecture {
    /// The descriptions that come with this library. All of them are read; one by name is read alone.
    pub fn builtins() -> impl Iterator<Item = &'static Self> {
        BUILTIN.iter().filter_map(Builtin::get)
    }

    /// The built-in description of the architecture with this name.
    pub fn builtin(name: &str) -> Option<&'static Self> {
        BUILTIN.iter().find(|builtin| builtin.name == name)?.get()
    }

    /// The names of the built-in descriptions.
    pub fn builtin_names() -> impl ExactSizeIterator<Item = &'static str> {
        BUILTIN.iter().map(|builtin| builtin.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_description_parses_and_has_the_name_of_its_file() {
        for builtin in &BUILTIN {
            match Architecture::parse(builtin.text) {
                Ok(architecture) => assert_eq!(architecture.name(), builtin.name),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
