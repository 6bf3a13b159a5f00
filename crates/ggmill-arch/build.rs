//! Lists the descriptions in `data/` for the library, and reads each with the library's own loader:
//! one that is wrong fails the build.
#![allow(clippy::print_stdout, reason = "how a build script speaks to cargo")]
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    unfulfilled_lint_expectations,
    reason = "the loader is compiled here for reading alone"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

#[path = "src/architecture.rs"]
mod architecture;
#[path = "src/block.rs"]
mod block;
#[path = "src/compute.rs"]
mod compute;
#[path = "src/data.rs"]
mod data;
#[path = "src/declared.rs"]
mod declared;
#[path = "src/error.rs"]
mod error;
#[path = "src/expression/mod.rs"]
mod expression;
#[path = "src/facts.rs"]
mod facts;
#[path = "src/include.rs"]
mod include;
#[path = "src/key.rs"]
mod key;
#[path = "src/key_template.rs"]
mod key_template;
#[path = "src/kinds.rs"]
mod kinds;
#[path = "src/limits.rs"]
mod limits;
#[path = "src/memory.rs"]
mod memory;
#[path = "src/name_rules.rs"]
mod name_rules;
#[path = "src/names.rs"]
mod names;
#[path = "src/operation/mod.rs"]
mod operation;
#[path = "src/outline.rs"]
mod outline;
#[path = "src/parameter.rs"]
mod parameter;
#[path = "src/pattern.rs"]
mod pattern;
#[path = "src/pieces.rs"]
mod pieces;
#[path = "src/quantization.rs"]
mod quantization;
#[path = "src/refused.rs"]
mod refused;
#[path = "src/role.rs"]
mod role;
#[path = "src/rope_factors.rs"]
mod rope_factors;
#[path = "src/schema.rs"]
mod schema;
#[path = "src/standard_role.rs"]
mod standard_role;
#[path = "src/steps/mod.rs"]
mod steps;
#[path = "src/tensor/mod.rs"]
mod tensor;
#[path = "src/tensor_type.rs"]
mod tensor_type;
#[path = "src/terms.rs"]
mod terms;
#[path = "src/value.rs"]
mod value;
#[path = "src/vocabulary.rs"]
mod vocabulary;
#[path = "src/vocabulary_kind.rs"]
mod vocabulary_kind;

use architecture::Architecture;
use data::Table as _;
use error::ErrorKind;
use schema::RawPart;

/// A file of `data/`: its name without the ending, where it is, and what it says.
struct File {
    name: String,
    path: String,
    text: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=data");
    println!("cargo::rerun-if-changed=src");
    let data = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("data");
    let tables = [
        ("keep-f32.toml", tensor_type::KeepF32::read().err()),
        ("kinds.toml", kinds::Kinds::read().err()),
        ("names.toml", names::File::read().err()),
        ("quantization.toml", quantization::Quantization::read().err()),
        ("refused.toml", refused::Refused::read().err()),
        ("roles.toml", standard_role::StandardRoles::read().err()),
    ];
    for (name, error) in tables {
        if let Some(error) = error {
            return Err(format!("{}: {error}", data.join(name).display()).into());
        }
    }
    let parts = files(&data.join("parts"))?;
    for part in &parts {
        RawPart::parse(&part.name, &part.text)
            .map_err(|error| format!("{}: {error}", part.path))?;
    }
    let texts: Vec<(&str, &str)> = parts.iter().map(|part| (&*part.name, &*part.text)).collect();
    let mut code = String::new();
    for (list, directory) in [("BUILTIN", "architectures"), ("PROJECTORS", "projectors")] {
        let descriptions = files(&data.join(directory))?;
        let mut marks = Vec::new();
        for file in &descriptions {
            let architecture = Architecture::read(&file.text, &texts)
                .map_err(|error| format!("{}: {error}", file.path))?;
            // Projectors are all of one architecture.
            if architecture.is_projector() != (list == "PROJECTORS")
                || !architecture.is_projector() && architecture.name() != file.name
            {
                return Err(format!(
                    "{}: describes {:?}, expected the name of the file, or a projector among such",
                    file.path,
                    architecture.name()
                )
                .into());
            }
            marks.push(architecture.marks().map(str::to_owned).collect::<Vec<_>>());
        }
        writeln!(code, "static {list}: [Builtin; {}] = [", descriptions.len())?;
        for (File { name, path, .. }, marks) in descriptions.iter().zip(marks) {
            writeln!(code, "    Builtin::new({name:?}, include_str!({path:?}), &{marks:?}),")?;
        }
        writeln!(code, "];\n")?;
    }
    writeln!(code, "static PARTS: crate::include::Parts<'static> = &[")?;
    for File { name, path, .. } in &parts {
        writeln!(code, "    ({name:?}, include_str!({path:?})),")?;
    }
    writeln!(code, "];")?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("builtin.rs"), code)?;
    Ok(())
}

/// The descriptions in a directory, by name.
fn files(directory: &Path) -> Result<Vec<File>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .filter(|_| path.extension().is_some_and(|ending| ending == "toml"));
        let name =
            name.ok_or_else(|| format!("{}: expected a TOML file", path.display()))?.to_owned();
        let text = fs::read_to_string(&path)?;
        let path = path
            .to_str()
            .ok_or_else(|| format!("{}: expected a path in UTF-8", path.display()))?
            .to_owned();
        files.push(File { name, path, text });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}
