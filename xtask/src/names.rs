//! No code names an architecture: descriptions say what is special about one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::process::{Done, root};
use crate::rust::Source;
use crate::sources::sources;

/// Unpublished crates, whose test models have to be of some architecture.
const UNPUBLISHED: &[&str] = &["ggmill-testdata", "ggmill-bench"];

/// A file that may use these names, and why.
struct Exception {
    file: &'static str,
    names: &'static [&'static str],
    #[expect(dead_code, reason = "for those who read the table")]
    because: &'static str,
}

const EXCEPTIONS: &[Exception] = &[
    Exception {
        file: "crates/ggmill-tokenizer/src/vocabulary/load.rs",
        names: &["bert", "gemma4", "gpt2", "llama", "plamo2", "rwkv", "t5"],
        because: "they are names of vocabularies in tokenizer.ggml.model, too",
    },
    Exception {
        file: "crates/ggmill-tokenizer/src/vocabulary/mod.rs",
        names: &["plamo2", "rwkv"],
        because: "they are names of algorithms of tokenizers, too",
    },
    Exception {
        file: "crates/ggmill-convert/src/weights/mod.rs",
        names: &["bitnet"],
        because: "it is a name in quantization_config.quant_method, too",
    },
    Exception {
        file: "crates/ggmill-check/src/rules/tokenizer.rs",
        names: &["bert", "gemma4", "gpt2", "llama", "plamo2", "rwkv", "t5"],
        because: "tokenizer.ggml.model has names of vocabularies, some of which are called like \
                  an architecture",
    },
    Exception {
        file: "crates/ggmill-check/src/rules/threat.rs",
        names: &["bert", "gpt2", "llama", "plamo2", "t5", "clip"],
        because: "they are names of vocabularies in tokenizer.ggml.model, too, and the beginning \
                  of the keys of encoders",
    },
    Exception {
        file: "crates/ggmill-check/src/rules/kinds.rs",
        names: &["clip"],
        because: "the keys of encoders for images and sound begin with the word, which the \
                  specification lists as it does those of adapters",
    },
    Exception {
        file: "crates/ggmill-convert/src/vocabulary/tokens.rs",
        names: &["bert", "gemma4", "gpt2", "llama", "plamo2", "rwkv", "t5"],
        because: "they are names of vocabularies in tokenizer.ggml.model, too",
    },
    Exception {
        file: "crates/ggmill-convert/src/legacy.rs",
        names: &["llama"],
        because: "the formats before GGUF do not say an architecture: what is converted of them \
                  is this one, and its vocabulary",
    },
];

/// Returns the places where code has the name of an architecture as a string literal.
pub(crate) fn findings() -> Done<Vec<String>> {
    let names = architectures(&root().join("crates/ggmill-arch/data"))?;
    let mut findings = Vec::new();
    let exceptions: BTreeSet<(String, String)> = EXCEPTIONS
        .iter()
        .flat_map(|exception| exception.names.iter().map(|name| (exception.file, *name)))
        .map(|(file, name)| (file.to_owned(), name.to_owned()))
        .collect();
    let is_excepted = |literal: &(String, String)| exceptions.contains(literal);
    let mut unused = exceptions.clone();
    let crates = root().join("crates");
    let failed = |error| format!("{}: {error}", crates.display());
    for entry in fs::read_dir(&crates).map_err(failed)? {
        let directory = entry.map_err(failed)?.path();
        if UNPUBLISHED.iter().any(|name| directory.ends_with(name)) {
            continue;
        }
        for path in sources(&directory.join("src"))? {
            let place =
                path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            let source = Source::read(&path)?;
            for (line, literal) in named(&source, &names) {
                let exception =
                    (place.clone(), literal.split('.').next().unwrap_or_default().to_owned());
                if !unused.remove(&exception) && !is_excepted(&exception) {
                    findings.push(format!(
                        "{place}:{line}: {literal:?} names an architecture: what is special about it \
                         is data"
                    ));
                }
            }
        }
    }
    findings.extend(unused.iter().map(|(file, name)| {
        format!("{file}: may name the architecture {name:?}, and does not: remove the exception")
    }));
    findings.sort();
    Ok(findings)
}

/// Returns the names of all architectures that have a description or are known by name.
fn architectures(data: &Path) -> Done<BTreeSet<String>> {
    let failed = |error: std::io::Error| format!("{}: {error}", data.display());
    let known = fs::read_to_string(data.join("names.toml")).map_err(failed)?;
    let rows = known.lines().skip_while(|line| *line != "[architectures]").skip(1);
    let mut names: BTreeSet<String> = rows
        .filter_map(|row| Some(row.split_once(" = {")?.0.trim_matches('"').to_owned()))
        .collect();
    for entry in fs::read_dir(data.join("architectures")).map_err(failed)? {
        names.extend(
            entry
                .map_err(failed)?
                .path()
                .file_stem()
                .map(|name| name.to_string_lossy().into_owned()),
        );
    }
    Ok(names)
}

/// Returns the string literals that are one of these names, or a key that begins with one, with
/// their lines.
fn named(source: &Source, names: &BTreeSet<String>) -> Vec<(usize, String)> {
    // The name of a program, not a key.
    const PROGRAM: &str = "llama.cpp";
    let names_one = |literal: &str| {
        literal.split('.').next().is_some_and(|first| names.contains(first))
            && !literal.contains(' ')
            && literal != PROGRAM
    };
    source.literals().into_iter().filter(|(_, literal)| names_one(literal)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_where_it_is_a_literal_of_the_code() {
        let names = BTreeSet::from(["llama".to_owned(), "gpt-oss".to_owned()]);
        let source = "let name = \"llama\";\n// \"llama\"\nif a == \"x\" && b == \"gpt-oss\" \
                      {}\nlet key = \"llama.block_count\";\n#[cfg(test)]\nmod tests { \"llama\" \
                      }\n";
        assert_eq!(
            named(&Source::parse("a.rs", source).unwrap(), &names),
            [
                (1, "llama".to_owned()),
                (3, "gpt-oss".to_owned()),
                (4, "llama.block_count".to_owned())
            ]
        );
    }

    #[test]
    fn the_architectures_are_those_of_the_data() {
        let names = architectures(&root().join("crates/ggmill-arch/data")).unwrap();
        assert!(
            names.len() > 150
                && names.contains("llama")
                && names.contains("whisper")
                && names.contains("gpt-oss"),
            "{names:?}"
        );
    }
}
