//! Embeds the built inspector page, if `GGMILL_WEB_PAGE` names its directory: `web/dist` after `cargo
//! xtask web --build`. Without it, `ggmill web` needs `--page`.
#![allow(clippy::print_stdout, reason = "how a build script speaks to cargo")]

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=GGMILL_WEB_PAGE");
    let mut code = String::from("&[\n");
    if let Some(directory) = env::var_os("GGMILL_WEB_PAGE").filter(|name| !name.is_empty()) {
        let directory = PathBuf::from(directory);
        if !directory.is_absolute() {
            return Err("GGMILL_WEB_PAGE: expected an absolute path".into());
        }
        println!("cargo::rerun-if-changed={}", directory.display());
        if !directory.join("index.html").is_file() {
            let shown = directory.display();
            return Err(format!("GGMILL_WEB_PAGE: {shown} has no index.html").into());
        }
        list(&directory, "", &mut code)?;
    }
    code.push(']');
    fs::write(Path::new(&env::var("OUT_DIR")?).join("page.rs"), code)?;
    Ok(())
}

fn list(directory: &Path, prefix: &str, code: &mut String) -> Result<(), Box<dyn Error>> {
    let mut entries = fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            list(&path, &format!("{name}/"), code)?;
        } else {
            let path = path.to_str().ok_or("GGMILL_WEB_PAGE: expected a path in UTF-8")?;
            writeln!(code, "    ({name:?}, include_bytes!({path:?})),")?;
        }
    }
    Ok(())
}
