//! The packages as a registry would have them: complete, and usable outside the workspace.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process::{Done, cargo, command, metadata, root, run as run_command, target};

/// Files of every package.
const FILES: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Fields of every manifest.
const FIELDS: [&str; 7] =
    ["description", "license", "repository", "keywords", "categories", "readme", "rust_version"];

/// The features and the body of each program that depends on the packages.
const PROGRAMS: [(&str, &str); 3] = [
    ("default-features = false", NONE),
    ("default-features = true", DEFAULT),
    ("features = [\"full\"]", FULL),
];

const NONE: &str = r#"
fn main() {
    let plan = ggmill::core::Builder::new().plan().expect("an empty model is laid out");
    let model = ggmill::Model::from_bytes(plan.header()).expect("and read");
    assert_eq!(model.tensors().len(), 0);
}
"#;

const DEFAULT: &str = r#"
fn main() -> Result<(), ggmill::Error> {
    let directory = std::env::temp_dir();
    let [path, out] = ["in", "out"]
        .map(|name| directory.join(format!("ggmill-outside-{name}-{}.gguf", std::process::id())));
    let plan = ggmill::core::Builder::new().plan()?;
    ggmill::write_file(&path, &[], true, plan.header())?;
    let model = ggmill::Model::open(&path)?;
    let written = ggmill::quantize(&model, "Q4_K_M")?.overwrite(true).write(&out)?;
    assert_eq!(written.plans().len(), 1);
    for path in [path, out] {
        std::fs::remove_file(path)?;
    }
    let mut values = [0.0f32; 2];
    ggmill::quant::dequantize(ggmill::GgmlType::F16, &[0, 0x3c, 0, 0x40], &mut values)?;
    assert_eq!(values, [1.0, 2.0]);
    Ok(())
}
"#;

const FULL: &str = r#"
fn main() {
    let missing = ggmill::Model::open("ftp://example.com/model.gguf").expect_err("no such scheme");
    assert!(missing.is_misuse(), "{missing:?}");
    let plan = ggmill::core::Builder::new().plan().expect("an empty model is laid out");
    let model = ggmill::Model::from_bytes(plan.header()).expect("and read");
    let input = ggmill::check::Input::new(&model.core().parts()[0]);
    let report = ggmill::check::check(&input, &ggmill::check::Options::default());
    assert!(report.has_errors(), "it names no architecture");
}
"#;

/// Packages every published crate, checks the content, and builds and runs programs that depend on
/// the packages.
pub(crate) fn run() -> Done {
    let packages = published()?;
    let mut package = cargo(&["package", "--quiet", "--locked", "--no-verify", "--allow-dirty"]);
    for (name, _) in &packages {
        package.args(["-p", name]);
    }
    run_command(&mut package)?;
    let directory = target()?.join("packages");
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(|error| error.to_string())?;
    }
    fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    for (name, version) in &packages {
        unpack(name, version, &directory)?;
    }
    for (number, (features, program)) in PROGRAMS.iter().enumerate() {
        let place = directory.join(format!("program-{number}"));
        write_program(&place, &packages, features, program)
            .map_err(|error| format!("{}: {error}", place.display()))?;
        let manifest = place.join("Cargo.toml");
        run_command(
            cargo(&["run", "--quiet", "--manifest-path"])
                .arg(manifest)
                // Shared with the workspace: most dependencies are built already.
                .arg("--target-dir")
                .arg(target()?),
        )?;
    }
    println!("{} packages are complete, and {} programs use them", packages.len(), PROGRAMS.len());
    Ok(())
}

/// Returns the name and version of every published crate. Fails if a manifest is incomplete.
fn published() -> Done<Vec<(String, String)>> {
    let metadata = metadata()?;
    let packages = metadata
        .get("packages")
        .and_then(Value::as_array)
        .ok_or("cargo metadata names no packages")?;
    let mut found = Vec::new();
    for package in packages {
        let text = |field: &str| package.get(field).and_then(Value::as_str).unwrap_or_default();
        let is_private =
            package.get("publish").and_then(Value::as_array).is_some_and(Vec::is_empty);
        if is_private {
            continue;
        }
        for field in FIELDS {
            let is_empty = package.get(field).is_none_or(|value| {
                value.is_null()
                    || value.as_str().is_some_and(str::is_empty)
                    || value.as_array().is_some_and(Vec::is_empty)
            });
            if is_empty {
                return Err(format!("{} has no {field} in its manifest", text("name")));
            }
        }
        if package.pointer("/metadata/docs/rs").is_none() {
            return Err(format!("{} has no metadata for docs.rs", text("name")));
        }
        found.push((text("name").to_owned(), text("version").to_owned()));
    }
    Ok(found)
}

/// Unpacks a package and checks that it has the required files and a README without links into the
/// repository.
fn unpack(name: &str, version: &str, directory: &Path) -> Done {
    let archive: PathBuf = target()?.join("package").join(format!("{name}-{version}.crate"));
    // `m`: with the one old date of the archive, Cargo would take the build of an earlier package
    // for up to date.
    run_command(command("tar").arg("-xzmf").arg(&archive).arg("-C").arg(directory))?;
    let unpacked = directory.join(format!("{name}-{version}"));
    for file in FILES {
        if fs::metadata(unpacked.join(file)).map_or(0, |metadata| metadata.len()) == 0 {
            return Err(format!("the package of {name} has no {file}"));
        }
    }
    let readme =
        fs::read_to_string(unpacked.join("README.md")).map_err(|error| error.to_string())?;
    let relative = readme
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .find(|link| !link.starts_with("https://") && !link.starts_with('#'));
    match relative {
        None => Ok(()),
        Some(link) => Err(format!("the README of {name} links to {link}, which is not packaged")),
    }
}

/// Writes a program outside the workspace that depends on the unpacked packages and the locked
/// versions of other crates, with the profile of the workspace.
fn write_program(
    place: &Path,
    packages: &[(String, String)],
    features: &str,
    program: &str,
) -> std::io::Result<()> {
    let mut manifest = format!(
        "[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\nggmill = {{ version = \"*\", {features} }}\n\n[patch.crates-io]\n"
    );
    for (name, version) in packages {
        manifest.push_str(&["", name, " = { path = \"../", name, "-", version, "\" }\n"].concat());
    }
    manifest.push_str(&dev_profile()?);
    fs::create_dir_all(place.join("src"))?;
    fs::copy(root().join("Cargo.lock"), place.join("Cargo.lock"))?;
    fs::write(place.join("Cargo.toml"), manifest)?;
    fs::write(place.join("src/main.rs"), program.trim_start())
}

/// Returns the `dev` profile of the workspace, so that the artifacts of other crates are reused,
/// without the levels of our own crates, so that these compile quickly.
fn dev_profile() -> std::io::Result<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let profile = manifest
        .find("[profile.dev]")
        .map(|start| &manifest[start..])
        .ok_or_else(|| std::io::Error::other("the workspace has no dev profile"))?;
    let mut lines = vec![""];
    lines.extend(profile.lines().filter(|line| !line.starts_with("ggmill-")));
    lines.push("");
    Ok(lines.join("\n"))
}
