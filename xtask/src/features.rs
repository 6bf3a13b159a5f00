//! The features of the crate `ggmill`: each builds alone, and without any there is no thread pool.
//! `packages.rs` builds programs with all features and with none.

use serde_json::Value;

use crate::process::{Done, cargo, metadata, output, run as run_command};

/// The package with the features.
const FACADE: &str = "ggmill";

/// Dependencies that a build without features must not have: thread pools.
const HEAVY: [&str; 2] = ["rayon", "rayon-core"];

pub(crate) fn run() -> Done {
    let heavy: Vec<String> =
        tree("")?.into_iter().filter(|name| HEAVY.contains(&name.as_str())).collect();
    if !heavy.is_empty() {
        return Err(format!("without features it depends on {}", heavy.join(", ")));
    }
    let check = |features: &[&str]| {
        run_command(
            cargo(&["check", "--quiet", "--locked", "-p", FACADE, "--no-default-features"])
                .args(features),
        )
    };
    check(&[])?;
    for feature in features()? {
        check(&["--features", &feature])?;
    }
    Ok(())
}

/// Returns every feature except the sets of features.
fn features() -> Done<Vec<String>> {
    let metadata = metadata()?;
    let packages = metadata
        .get("packages")
        .and_then(Value::as_array)
        .ok_or("cargo metadata names no packages")?;
    let facade =
        packages.iter().find(|package| package.get("name").and_then(Value::as_str) == Some(FACADE));
    let features = facade
        .and_then(|facade| facade.get("features")?.as_object())
        .ok_or("the facade has no features")?;
    let is_alone = |name: &&String| !["default", "full"].contains(&name.as_str());
    Ok(features.keys().filter(is_alone).cloned().collect())
}

/// Returns the packages that `ggmill` depends on with these features.
fn tree(features: &str) -> Done<Vec<String>> {
    let arguments = [
        "tree",
        "--locked",
        "-p",
        FACADE,
        "-e",
        "normal",
        "--prefix",
        "none",
        "--no-default-features",
        "--features",
        features,
    ];
    Ok(output(&mut cargo(&arguments))?
        .lines()
        .filter_map(|line| Some(line.split(' ').next()?.to_owned()))
        .collect())
}
