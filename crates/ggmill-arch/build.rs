//! Reads the descriptions and tables in `data/` with the library's own loader, so that one that is
//! wrong fails the build, and writes them for the library in the form of `src/coded.rs`.
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
use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "src/architecture.rs"]
mod architecture;
#[path = "src/block.rs"]
mod block;
#[path = "src/coded.rs"]
mod coded;
#[path = "src/compute/mod.rs"]
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
use coded::{CHECKPOINTS, Coded, Output, Texts};
use data::Table as _;
use error::ErrorKind;
use schema::{RawArchitecture, RawPart, keep_what_files_need};

/// The tables here are what their texts say; what the library has of them is written below.
mod tables {
    use crate::error::Result;

    pub(crate) const KEEP_F32: &[u8] = &[];
    pub(crate) const KINDS: &[u8] = &[];
    pub(crate) const NAMES: &[u8] = &[];
    pub(crate) const QUANTIZATION: &[u8] = &[];
    pub(crate) const REFUSED: &[u8] = &[];
    pub(crate) const ROLES: &[u8] = &[];

    pub(crate) fn read<T>(_coded: &[u8], text: fn() -> Result<T>) -> Result<T> {
        text()
    }
}

/// A file of `data/`: its name without the ending, where it is, and what it says.
struct File {
    name: String,
    path: String,
    text: String,
}

/// Something that is written in the form of [`coded`].
type Written = Box<dyn Fn(&mut Output<'_>)>;

fn written(value: impl Coded + 'static) -> Written {
    Box::new(move |out| value.encode(out))
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=data");
    println!("cargo::rerun-if-changed=src");
    let data = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("data");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let (mut all, mut code) = (tables(&data)?, String::new());
    for (name, _) in &all {
        writeln!(code, "pub(crate) static {name}: &[u8] = include_bytes!({name:?});")?;
    }
    writeln!(code, "static TEXTS: &str = include_str!(\"texts\");")?;
    fs::write(out.join("tables.rs"), code)?;

    let mut code = String::new();
    let parts = files(&data.join("parts"))?;
    let texts: Vec<(&str, &str)> = parts.iter().map(|part| (&*part.name, &*part.text)).collect();
    for (list, directory) in [("BUILTIN", "architectures"), ("PROJECTORS", "projectors")] {
        let descriptions = files(&data.join(directory))?;
        let mut marks = Vec::new();
        for file in &descriptions {
            marks.push(checked(file, &texts, list == "PROJECTORS")?);
        }
        // Projectors are found by their checkpoints alone.
        let kept = if CHECKPOINTS || list == "BUILTIN" { &*descriptions } else { &[] };
        writeln!(code, "static {list}: [Builtin; {}] = [", kept.len())?;
        for File { name, text, .. } in kept {
            let coded = format!("{directory}-{name}");
            writeln!(code, "    Builtin::new({name:?}, include_bytes!({coded:?})),")?;
            let mut raw = toml::from_str::<RawArchitecture>(text)?;
            if !CHECKPOINTS {
                keep_what_files_need(&mut raw.parameters, &mut raw.keys);
            }
            all.push((coded, written(raw)));
        }
        writeln!(code, "];\nstatic {list}_MARKS: [&[&str]; {}] = [", kept.len())?;
        for marks in marks.iter().take(kept.len()) {
            writeln!(code, "    &{marks:?},")?;
        }
        writeln!(code, "];\n")?;
        if list == "BUILTIN" {
            writeln!(code, "static {list}_TEXTS: [&str; {}] = [", kept.len())?;
            for File { path, .. } in kept {
                writeln!(code, "    include_str!({path:?}),")?;
            }
            writeln!(code, "];\n")?;
        }
    }
    writeln!(code, "static PARTS: [(&str, &[u8]); {}] = [", parts.len())?;
    for File { name, path, text } in &parts {
        let mut part = RawPart::parse(name, text).map_err(|error| format!("{path}: {error}"))?;
        if !CHECKPOINTS {
            keep_what_files_need(&mut part.parameters, &mut part.keys);
        }
        let coded = format!("parts-{name}");
        writeln!(code, "    ({name:?}, include_bytes!({coded:?})),")?;
        all.push((coded, written(part)));
    }
    writeln!(code, "];")?;
    fs::write(out.join("builtin.rs"), code)?;
    write(&all, &out)
}

/// The tables of facts, each with the name it has in the library.
fn tables(data: &Path) -> Result<Vec<(String, Written)>, Box<dyn Error>> {
    let failed = |name: &str, error| format!("{}: {error}", data.join(name).display());
    let read = [
        (
            "KEEP_F32",
            "keep-f32.toml",
            tensor_type::KeepF32::read().and_then(|_| tensor_type::File::read()).map(written),
        ),
        ("KINDS", "kinds.toml", kinds::Kinds::read().map(written)),
        ("NAMES", "names.toml", names::File::read().map(written)),
        ("QUANTIZATION", "quantization.toml", quantization::Quantization::read().map(written)),
        ("REFUSED", "refused.toml", refused::Refused::read().map(written)),
        (
            "ROLES",
            "roles.toml",
            standard_role::StandardRoles::read()
                .and_then(|_| standard_role::File::read())
                .map(written),
        ),
    ];
    let mut tables = Vec::new();
    for (name, file, table) in read {
        tables.push((name.to_owned(), table.map_err(|error| failed(file, error))?));
    }
    Ok(tables)
}

/// Understands a description as the library does, and gives what tells the checkpoints it is for.
fn checked(
    file: &File,
    parts: &[(&str, &str)],
    is_projector: bool,
) -> Result<Vec<String>, Box<dyn Error>> {
    let architecture = Architecture::read(&file.text, &parts)
        .map_err(|error| format!("{}: {error}", file.path))?;
    // Projectors are all of one architecture.
    if architecture.is_projector() != is_projector
        || !architecture.is_projector() && architecture.name() != file.name
    {
        return Err(format!(
            "{}: describes {:?}, expected the name of the file, or a projector among such",
            file.path,
            architecture.name()
        )
        .into());
    }
    Ok(architecture.marks().map(str::to_owned).collect())
}

/// Writes everything, twice: the numbers of the texts follow once all of them are known.
fn write(all: &[(String, Written)], out: &Path) -> Result<(), Box<dyn Error>> {
    let mut texts = Texts::default();
    for (_, written) in all {
        written(&mut Output::new(&mut texts));
    }
    texts.number();
    for (name, written) in all {
        let mut output = Output::new(&mut texts);
        written(&mut output);
        fs::write(out.join(name), output.bytes)?;
    }
    fs::write(out.join("texts"), texts.list())?;
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
