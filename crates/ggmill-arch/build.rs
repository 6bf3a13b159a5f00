//! Writes the tables and descriptions in `data/` in the form of `src/data/coded.rs`. Fails for a file
//! that is not TOML or has an unknown field; tests check everything else.
#![allow(clippy::print_stdout, reason = "how a build script speaks to cargo")]
#![allow(dead_code, unreachable_pub, reason = "the library uses the rest of these modules")]

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde::de::DeserializeOwned;

#[path = "src/data"]
mod data {
    pub(crate) mod coded;
    pub(crate) mod schema;
    pub(crate) mod tables;
}

use data::coded::{CHECKPOINTS, Coded, GRAPHS, Output, Texts};
use data::schema::{RawArchitecture, RawPart, keep_what_files_need};
use data::tables::{KeepF32, Kinds, Names, Quantization, Refused, Roles, Table};

type Result<T> = core::result::Result<T, Box<dyn Error>>;

/// The quotes around a docstring.
const DOCSTRING: &str = "\"\"\"";

/// A file that is encoded: its name in `OUT_DIR`, and a function that writes its value.
type Encoded = (String, Box<dyn Fn(&mut Output<'_>)>);

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=data");
    println!("cargo::rerun-if-changed=build.rs");
    for module in ["coded", "schema", "tables"] {
        println!("cargo::rerun-if-changed=src/data/{module}.rs");
    }
    let data = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("data");
    let out = PathBuf::from(env::var("OUT_DIR")?);

    let mut all = vec![
        table::<KeepF32>(&data, "KEEP_F32", "keep-f32.toml")?,
        table::<Kinds>(&data, "KINDS", "kinds.toml")?,
        table::<Names>(&data, "NAMES", "names.toml")?,
        table::<Quantization>(&data, "QUANTIZATION", "quantization.toml")?,
        table::<Refused>(&data, "REFUSED", "refused.toml")?,
        table::<Roles>(&data, "ROLES", "roles.toml")?,
    ];
    let mut code = String::new();
    for (name, _) in &all {
        writeln!(code, "pub(crate) static {name}: &[u8] = include_bytes!({name:?});")?;
    }
    writeln!(code, "static TEXTS: &str = include_str!(\"texts\");")?;
    fs::write(out.join("tables.rs"), code)?;

    let mut code = String::new();
    let programs =
        descriptions((&data, &out), "BUILTIN", "architectures", true, &mut code, &mut all)?;
    // Projectors are found by their checkpoints only.
    descriptions((&data, &out), "PROJECTORS", "projectors", CHECKPOINTS, &mut code, &mut all)?;
    writeln!(code, "static PROGRAMS: [(&str, &[u8]); {}] = [", programs.len())?;
    for (name, source) in programs {
        let coded = format!("program-{name}");
        writeln!(code, "    ({name:?}, include_bytes!({coded:?})),")?;
        all.push((coded, Box::new(move |out| source.encode(out))));
    }
    writeln!(code, "];")?;
    let parts = files(&data.join("parts"))?;
    writeln!(code, "static PARTS: [(&str, &[u8]); {}] = [", parts.len())?;
    for (name, path) in &parts {
        let mut part: RawPart = parsed(path)?;
        if !CHECKPOINTS {
            keep_what_files_need(&mut part.parameters, &mut part.keys);
        }
        let coded = format!("parts-{name}");
        writeln!(code, "    ({name:?}, include_bytes!({coded:?})),")?;
        all.push((coded, Box::new(move |out| part.encode(out))));
    }
    writeln!(code, "];")?;
    fs::write(out.join("builtin.rs"), code)?;
    fs::write(out.join("library.py"), program(&data.join("library.py"))?)?;
    write(&all, &out)
}

/// Returns the source of a program; without its comments where descriptions are only applied to files,
/// as in modules for browsers. Lines keep their numbers.
fn program(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path)?;
    if CHECKPOINTS {
        return Ok(text);
    }
    let (mut kept, mut is_docstring) = (String::new(), false);
    for line in text.lines() {
        let statement = line.trim();
        let begins = !is_docstring && statement.starts_with(DOCSTRING);
        let ends = statement.ends_with(DOCSTRING) && (is_docstring || statement.len() > 3);
        if !(begins || is_docstring || statement.starts_with('#')) {
            kept.push_str(line);
        }
        kept.push('\n');
        is_docstring = (begins || is_docstring) && !ends;
    }
    Ok(kept)
}

/// Reads a table, to be encoded under the name of its static.
fn table<T: Table + DeserializeOwned + 'static>(
    data: &Path,
    name: &str,
    file: &str,
) -> Result<Encoded> {
    let path = data.join(file);
    let table: T = parsed(&path)?;
    if table.schema() != T::SCHEMA {
        return Err(format!("{}: expected the schema {:?}", path.display(), T::SCHEMA).into());
    }
    Ok((name.to_owned(), Box::new(move |out| table.encode(out))))
}

/// Adds the descriptions in a directory to `all`, and to `code` the statics `LIST`, `LIST_MARKS` and
/// `LIST_TEXTS`: what is compiled in, what identifies the checkpoints of each (classes, model types and
/// paths in a configuration), and the texts. Returns the sources of graphs, by name.
fn descriptions(
    (data, out): (&Path, &Path),
    list: &str,
    directory: &str,
    kept: bool,
    code: &mut String,
    all: &mut Vec<Encoded>,
) -> Result<Vec<(String, String)>> {
    let mut programs = Vec::new();
    let files = if kept { files(&data.join(directory))? } else { Vec::new() };
    let (mut bytes, mut marks, mut texts) = (String::new(), String::new(), String::new());
    for (name, path) in &files {
        let mut raw: RawArchitecture = parsed(path)?;
        let source = path.with_extension("py");
        let mut text = fs::read_to_string(path)?;
        if source.exists() {
            text = with_computation(&text, &fs::read_to_string(&source)?);
            if GRAPHS {
                let source = program(&source)?;
                programs.push((name.clone(), source.clone()));
                raw.computation = Some(source);
            }
        }
        let of_kinds = raw
            .checkpoint
            .iter()
            .filter(|_| CHECKPOINTS)
            .flat_map(|kind| kind.classes.iter().chain(&kind.model_types).chain(&kind.marker));
        writeln!(marks, "    &{:?},", of_kinds.collect::<Vec<_>>())?;
        if !CHECKPOINTS {
            keep_what_files_need(&mut raw.parameters, &mut raw.keys);
        }
        let coded = format!("{directory}-{name}");
        writeln!(bytes, "    Builtin::new({name:?}, include_bytes!({coded:?})),")?;
        let whole = format!("text-{name}");
        fs::write(out.join(&whole), text)?;
        writeln!(texts, "    include_str!({whole:?}),")?;
        all.push((coded, Box::new(move |out| raw.encode(out))));
    }
    let count = files.len();
    writeln!(code, "static {list}: [Builtin; {count}] = [\n{bytes}];")?;
    writeln!(code, "static {list}_MARKS: [&[&str]; {count}] = [\n{marks}];")?;
    if list == "BUILTIN" {
        writeln!(code, "static {list}_TEXTS: [&str; {count}] = [\n{texts}];")?;
    }
    Ok(programs)
}

/// Returns the text of a description with its computation in it, after the title.
fn with_computation(text: &str, source: &str) -> String {
    let title = text.find("\ntitle = ").map_or(0, |at| at + 1);
    let end = text[title..].find('\n').map_or(text.len(), |len| title + len + 1);
    format!("{}computation = '''\n{source}'''\n{}", &text[..end], &text[end..])
}

fn parsed<T: DeserializeOwned>(path: &Path) -> Result<T> {
    toml::from_str(&fs::read_to_string(path)?)
        .map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Encodes everything twice: the numbers of the texts are known only after the first pass.
fn write(all: &[Encoded], out: &Path) -> Result<()> {
    let mut texts = Texts::default();
    for (_, encode) in all {
        encode(&mut Output::new(&mut texts));
    }
    texts.number();
    for (name, encode) in all {
        let mut output = Output::new(&mut texts);
        encode(&mut output);
        fs::write(out.join(name), output.bytes)?;
    }
    fs::write(out.join("texts"), texts.list())?;
    Ok(())
}

/// The TOML files in a directory with their names, in alphabetical order. Files with the ending `py`
/// belong to them.
fn files(directory: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "py") {
            if !path.with_extension("toml").exists() {
                return Err(
                    format!("{}: there is no TOML file of this name", path.display()).into()
                );
            }
            continue;
        }
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.filter(|_| path.extension().is_some_and(|ending| ending == "toml"));
        let name = name.ok_or_else(|| format!("{}: expected a TOML file", path.display()))?;
        files.push((name.to_owned(), path));
    }
    files.sort();
    Ok(files)
}
