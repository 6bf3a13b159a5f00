//! Dependencies and effects that each crate may have, checked against the manifests, the sources
//! and the table of `docs/ARCHITECTURE.md`.

use std::path::Path;

use serde_json::Value;

use crate::process::{Done, metadata, metadata_of, root};
use crate::rust::Source;
use crate::sources::sources;
use crate::{flags, names, structure, words};

/// Every crate with the crates of this workspace that it may depend on. A crate without a row is an
/// error.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("ggmill-core", &[]),
    ("ggmill-quant", &["ggmill-core"]),
    ("ggmill-io", &["ggmill-core"]),
    ("ggmill-arch", &["ggmill-core"]),
    ("ggmill-text", &["ggmill-core"]),
    ("ggmill-estimate", &["ggmill-core", "ggmill-arch"]),
    (
        "ggmill-check",
        &[
            "ggmill-core",
            "ggmill-arch",
            "ggmill-quant",
            "ggmill-tokenizer",
            "ggmill-template",
            "ggmill-pipeline",
        ],
    ),
    ("ggmill-tokenizer", &["ggmill-core", "ggmill-text"]),
    ("ggmill-template", &["ggmill-core", "ggmill-text", "ggmill-tokenizer"]),
    ("ggmill-pipeline", &["ggmill-core", "ggmill-quant", "ggmill-io", "ggmill-text"]),
    (
        "ggmill-convert",
        &[
            "ggmill-core",
            "ggmill-quant",
            "ggmill-io",
            "ggmill-arch",
            "ggmill-tokenizer",
            "ggmill-pipeline",
        ],
    ),
    (
        "ggmill-quantize",
        &["ggmill-core", "ggmill-quant", "ggmill-io", "ggmill-arch", "ggmill-pipeline"],
    ),
    (
        "ggmill-edit",
        &[
            "ggmill-core",
            "ggmill-quant",
            "ggmill-io",
            "ggmill-arch",
            "ggmill-text",
            "ggmill-template",
            "ggmill-check",
            "ggmill-pipeline",
        ],
    ),
    ("ggmill-run", &["ggmill-core", "ggmill-quant", "ggmill-arch", "ggmill-text"]),
    ("ggmill-inspect", &["ggmill-core", "ggmill-quant", "ggmill-arch", "ggmill-text"]),
    ("ggmill-remote", &["ggmill-core"]),
    ("ggmill", LIBRARIES),
    ("ggmill-cli", LIBRARIES),
    ("ggmill-python", &["ggmill"]),
    (
        "ggmill-wasm",
        &[
            "ggmill-arch",
            "ggmill-check",
            "ggmill-core",
            "ggmill-estimate",
            "ggmill-inspect",
            "ggmill-quant",
            "ggmill-template",
            "ggmill-tokenizer",
        ],
    ),
    ("ggmill-testdata", &["ggmill-core"]),
    ("ggmill-bench", LIBRARIES),
    (
        "ggmill-fuzz",
        &[
            "ggmill-arch",
            "ggmill-check",
            "ggmill-convert",
            "ggmill-core",
            "ggmill-edit",
            "ggmill-inspect",
            "ggmill-io",
            "ggmill-pipeline",
            "ggmill-quant",
            "ggmill-quantize",
            "ggmill-remote",
            "ggmill-run",
            "ggmill-template",
            "ggmill-testdata",
            "ggmill-text",
            "ggmill-tokenizer",
        ],
    ),
    ("xtask", &[]),
];

/// The published libraries.
const LIBRARIES: &[&str] = &[
    "ggmill-core",
    "ggmill-quant",
    "ggmill-io",
    "ggmill-arch",
    "ggmill-text",
    "ggmill-check",
    "ggmill-tokenizer",
    "ggmill-template",
    "ggmill-pipeline",
    "ggmill-convert",
    "ggmill-quantize",
    "ggmill-edit",
    "ggmill-estimate",
    "ggmill-inspect",
    "ggmill-remote",
    "ggmill-run",
    "ggmill",
];

/// Crates without dependencies.
const NO_DEPENDENCIES: &[&str] = &["ggmill-core"];

/// An effect, the words in source code that show it, and the libraries that may have it. Programs
/// and unpublished crates may have all.
struct Effect {
    name: &'static str,
    words: &'static [&'static str],
    may: &'static [&'static str],
}

const EFFECTS: &[Effect] = &[
    Effect {
        name: "files",
        words: &["std::fs", "File::open", "OpenOptions", "memmap2", "tempfile::", "rustix::"],
        may: &["ggmill", "ggmill-io", "ggmill-remote"],
    },
    Effect {
        name: "threads",
        words: &["std::thread", "thread::spawn", "thread::scope", "rayon"],
        may: &[
            "ggmill",
            "ggmill-tokenizer",
            "ggmill-pipeline",
            "ggmill-edit",
            "ggmill-inspect",
            "ggmill-remote",
            "ggmill-run",
        ],
    },
    Effect {
        // Clippy refuses the macros (print_stdout, print_stderr, dbg_macro).
        name: "the standard output streams",
        words: &["stdout()", "stderr()"],
        may: &[],
    },
    Effect { name: "standard input", words: &["stdin()"], may: &["ggmill"] },
    Effect { name: "the environment", words: &["std::env", "env::var", "env::args"], may: &[] },
    Effect {
        name: "processes and exit",
        words: &["std::process", "process::exit", "process::abort"],
        may: &[],
    },
    Effect {
        name: "the clock",
        words: &["std::time", "Instant::now", "SystemTime"],
        may: &["ggmill", "ggmill-remote"],
    },
    Effect {
        name: "the network",
        words: &["std::net", "TcpStream", "UdpSocket", "ureq::"],
        may: &["ggmill-remote"],
    },
    Effect { name: "logging", words: &["log::", "tracing::"], may: &[] },
];

pub(crate) fn run() -> Done {
    let mut packages = Vec::new();
    for metadata in [
        metadata()?,
        metadata_of("crates/ggmill-python/Cargo.toml")?,
        metadata_of("crates/ggmill-wasm/Cargo.toml")?,
    ] {
        let found = metadata.get("packages").and_then(Value::as_array);
        packages.extend(found.ok_or("cargo metadata names no packages")?.iter().cloned());
    }
    let mut findings = Vec::new();
    for package in &packages {
        let name = text(package, "name");
        let Some((_, allowed)) = MAY_DEPEND_ON.iter().find(|(known, _)| *known == name) else {
            findings.push(format!("{name}: not in the table of xtask/src/graph.rs"));
            continue;
        };
        findings.extend(dependencies(package, allowed));
        if LIBRARIES.contains(&name) {
            let directory = Path::new(text(package, "manifest_path")).with_file_name("src");
            findings.extend(effects(name, &directory)?);
        }
    }
    findings.extend(names::findings()?);
    findings.extend(flags::findings()?);
    findings.extend(structure::findings(MAY_DEPEND_ON)?);
    findings.extend(words::findings()?);
    if findings.is_empty() {
        println!(
            "{} crates keep to the table, no code names an architecture, no library a flag, no \
             modules depend on each other in a cycle, unsafe code is where it may be, the documents \
             name files that are there, and texts use the terms of the glossary",
            packages.len()
        );
        return Ok(());
    }
    Err(format!("{} findings\n  {}", findings.len(), findings.join("\n  ")))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the dependencies that the table does not allow. Those of tests and benchmarks are free,
/// because users of the crate do not get them.
fn dependencies(package: &Value, allowed: &[&str]) -> Vec<String> {
    let name = text(package, "name");
    let all = package
        .get("dependencies")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut findings = Vec::new();
    for dependency in all.iter().filter(|dependency| text(dependency, "kind") != "dev") {
        let on = text(dependency, "name");
        let ours = MAY_DEPEND_ON.iter().any(|(known, _)| *known == on);
        if NO_DEPENDENCIES.contains(&name) {
            findings.push(format!("{name} -> {on}: {name} has no dependencies"));
        } else if ours && !allowed.contains(&on) {
            findings.push(format!("{name} -> {on}: not an arrow of the table"));
        }
    }
    findings
}

/// Returns the places where a library has an effect that it may not have.
fn effects(name: &str, directory: &Path) -> Done<Vec<String>> {
    let mut findings = Vec::new();
    for path in sources(directory)? {
        let shown = path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        for (number, line) in Source::read(&path)?.code() {
            for effect in EFFECTS.iter().filter(|effect| !effect.may.contains(&name)) {
                if let Some(word) = effect.words.iter().find(|word| has_word(&line, word)) {
                    findings.push(format!(
                        "{shown}:{number}: {word}: {name} has no business with {}",
                        effect.name
                    ));
                }
            }
        }
    }
    Ok(findings)
}

/// Returns `true` if the line has the word, and not as the end of a longer one: `log::` is not in
/// `catalog::`.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{dependencies, effects, has_word, run};

    #[test]
    fn this_workspace_keeps_to_the_table() {
        run().unwrap();
    }

    #[test]
    fn an_arrow_that_is_not_in_the_table_is_found() {
        let package = json!({"name": "ggmill-quant", "dependencies": [
            {"name": "ggmill-core", "kind": null}, {"name": "ggmill-io", "kind": null}, {"name": "ggmill-testdata", "kind": "dev"}, {"name": "half", "kind": null},
        ]});
        assert_eq!(
            dependencies(&package, &["ggmill-core"]),
            ["ggmill-quant -> ggmill-io: not an arrow of the table"]
        );
        let core = json!({"name": "ggmill-core", "dependencies": [{"name": "half", "kind": null}, {"name": "proptest", "kind": "dev"}]});
        assert_eq!(
            dependencies(&core, &[]),
            ["ggmill-core -> half: ggmill-core has no dependencies"]
        );
    }

    #[test]
    fn an_effect_is_found_where_it_is_code() {
        let directory = std::env::temp_dir().join(format!("ggmill-xtask-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(
            directory.join("lib.rs"),
            "/// std::fs::read\nuse std::fs;\n#[cfg(test)]\nuse std::env;\n",
        )
        .unwrap();
        let found = effects("ggmill-core", &directory).unwrap();
        let allowed = effects("ggmill-io", &directory).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(
            matches!(&found[..], [one] if one.ends_with("lib.rs:2: std::fs: ggmill-core has no business with files")),
            "{found:?}"
        );
        assert!(allowed.is_empty());
    }

    #[test]
    fn a_word_is_a_whole_one() {
        assert!(has_word("log::info!()", "log::"));
        assert!(!has_word("catalog::llama()", "log::"));
    }
}
