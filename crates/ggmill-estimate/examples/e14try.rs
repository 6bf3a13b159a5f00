//! Temporary.
#![allow(warnings, clippy::all)]
#[path = "../tests/it/models.rs"]
mod models;
#[path = "../tests/it/reference.rs"]
mod reference;
use ggmill_arch::DescriptionFiles;
use ggmill_core::Endian;
use ggmill_estimate::{estimate, Options};
use std::{fs, path::Path};

fn placed(name: &str) -> Options {
    let (layers, shares, name) = match name {
        "first" => (99, vec![1.0, 0.0], "plain"),
        "both" => (99, vec![1.0, 1.0], "plain"),
        "some" => (3, vec![1.0, 3.0], "plain"),
        "output" => (1, vec![1.0, 1.0], "plain"),
        "both-sequences-off" => (99, vec![1.0, 1.0], "sequences-off"),
        "one" => (99, vec![1.0], "plain"),
        "one-half" => (2, vec![1.0], "plain"),
        "half-q8_0" => (2, vec![1.0, 1.0], "q8_0"),
        "half-small-batch" => (2, vec![1.0, 1.0], "small-batch"),
        _ => panic!("{name}"),
    };
    let mut options = reference::options(name);
    options.full_windows = true;
    (options.placement.layers, options.placement.shares) = (layers, shares);
    options
}

fn walk(files: &mut DescriptionFiles, root: &Path, dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(files, root, &path);
        } else if path.extension().is_some_and(|e| e == "toml") {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if name.starts_with("architectures/") && !std::env::args().nth(2).unwrap().split(',').any(|a| name == format!("architectures/{a}.toml")) { continue; }
            let name = name.strip_prefix("architectures/").map(str::to_owned).unwrap_or(name);
            if DescriptionFiles::takes(&name) && !name.starts_with("projectors") && !name.ends_with("kinds.toml") {
                files.add(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let data = Path::new(&args[1]);
    let mut files = DescriptionFiles::new();
    for d in ["architectures", "parts"] { walk(&mut files, data, &data.join(d)); }
    let all = match files.parse() { Ok(a) => a, Err((p, e)) => { println!("{p}: {e}"); std::process::exit(1) } };
    let wanted: Vec<&str> = args[2].split(',').collect();
    let only = args.get(3).map(String::as_str).filter(|s| !s.is_empty());
    let option_only = args.get(4).map(String::as_str);
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference");
    let dir = std::env::var("RECORDS").map(std::path::PathBuf::from).unwrap_or(dir);
    let listed = models::parse(&fs::read_to_string(dir.join("models.txt")).unwrap());
    let mut counts = std::collections::BTreeMap::<String, [u64; 5]>::new();
    for (file, devices) in [("bytes.tsv", false), ("devices.tsv", true)] {
        let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let w: Vec<&str> = line.split('\t').collect();
            let Some(m) = listed.iter().find(|m| m.name == w[0]) else { continue };
            if !wanted.contains(&m.architecture()) || w[2] == "refused" { continue }
            if only.is_some_and(|o| o != w[0]) || option_only.is_some_and(|o| o != w[1]) { continue }
            let d = all.iter().find(|a| a.name() == m.architecture()).unwrap();
            let model = m.open(Endian::Little);
            let o = if devices { placed(w[1]) } else { reference::options(w[1]) };
            let found = estimate(&model, Some(d), &o).unwrap();
            let want: Vec<u64> = w[2..].iter().map(|n| n.parse().unwrap()).collect();
            let c = counts.entry(format!("{file} {}", m.architecture())).or_default();
            c[0] += 1;
            if found.unknown.iter().any(|u| u.part() == "compute") {
                if option_only.is_some() { for u in &found.unknown { println!("{u}"); } }
                continue;
            }
            c[1] += 1;
            let got: Vec<u64> = found.devices.iter().map(|d| d.compute).collect();
            let wants: Vec<u64> = want.chunks(3).map(|c| c[2]).collect();
            let total = found.devices.iter().map(|d| d.total() - d.output).sum::<u64>() as f64 / want.iter().sum::<u64>() as f64 - 1.0;
            let ok = got.iter().zip(&wants).all(|(a, b)| a == b);
            c[2] += u64::from(ok);
            let (gs, ws) = (got.iter().sum::<u64>() as f64, wants.iter().sum::<u64>() as f64);
            let part = gs / ws - 1.0;
            let bad = part.abs() > if devices { 0.1 } else { 0.05 };
            let low = total < -0.01;
            c[3] += u64::from(bad);
            c[4] += u64::from(low);
            if !ok { println!("{}{} {} {}: {:?} for {:?} ({:+.3}), total {:+.4}", if bad {"BAD "} else {""}, if low {"LOW "} else {""}, w[0], w[1], got, wants, part, total); }
        }
    }
    for (k, v) in counts { println!("{k}: cases {} known {} equal {} bad {} low {}", v[0], v[1], v[2], v[3], v[4]); }
}
