//! The table, and where it is kept.

use std::fmt::Write as _;
use std::fs;

use crate::process::{Done, command, output, root};

use super::{Args, READERS, Row};

const BEGIN: &str = "<!-- written by `cargo xtask peers open --record` -->\n";
const END: &str = "<!-- end -->\n";

/// One file in one line, while the run goes on.
pub(super) fn line(row: &Row) -> String {
    let cells = READERS
        .iter()
        .enumerate()
        .map(|(number, reader)| format!("{} {}", reader.title, cell(row, number)));
    format!("{}: {}", name(row), cells.collect::<Vec<_>>().join(", "))
}

/// The table with what one has to know to believe it.
pub(super) fn text(rows: &[Row], args: &Args, versions: &str) -> Done<String> {
    let mut text = String::new();
    let measured = ["crates/ggmill-core/src", "crates/ggmill-io/src", "crates/ggmill-bench/src"];
    let commit = output(command("git").args(["log", "-1", "--format=%h", "--"]).args(measured))?;
    let changed =
        !output(command("git").args(["status", "--porcelain", "--"]).args(measured))?.is_empty();
    let commit = format!("{}{}", commit.trim(), if changed { " with changes" } else { "" });
    let rustc = output(command("rustc").arg("--version"))?;
    let date = output(command("date").args(["-u", "+%F"]))?;
    let slow = args.slow_rounds;
    let _ = writeln!(text, "- Machine: {}", machine());
    let _ = writeln!(text, "- Date: {}; ggmill at {}; {}", date.trim(), commit, rustc.trim());
    let _ = writeln!(text, "- Peers: {versions}; candle-core {}", candle_version());
    let _ = writeln!(
        text,
        "- Command: `cargo xtask peers open --rounds {} --slow-rounds {slow}`\n",
        args.rounds
    );
    let titles: Vec<&str> = READERS.iter().map(|reader| reader.title).collect();
    let _ = writeln!(text, "| file | MB | {} |", titles.join(" | "));
    let _ = writeln!(text, "|---|--:|{}", "--:|".repeat(titles.len()));
    for row in rows {
        let cells: Vec<String> = (0..READERS.len()).map(|number| cell(row, number)).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            name(row),
            thousandths(row.size, 1_000_000, 1),
            cells.join(" | ")
        );
    }
    Ok(text)
}

/// Puts the table in its place in `RESULTS.md`.
pub(super) fn record(text: &str) -> Done {
    let path = root().join("crates/ggmill-bench/RESULTS.md");
    let failed = |error| format!("{}: {error}", path.display());
    let old = fs::read_to_string(&path).map_err(failed)?;
    let places =
        old.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) =
        places.ok_or_else(|| format!("{}: has no place for the table", path.display()))?;
    fs::write(&path, format!("{before}{BEGIN}\n{text}\n{END}{after}")).map_err(failed)
}

fn name(row: &Row) -> String {
    row.file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The median, with its ratio to that of ggmill where it is another's.
fn cell(row: &Row, number: usize) -> String {
    let times = match &row.times[number] {
        Ok(times) => times,
        Err(why) if why == "left out" => return "–".to_owned(),
        Err(_) => return "refuses".to_owned(),
    };
    let (Some(time), Some(ours)) =
        (median(times), row.times[0].as_ref().ok().and_then(|times| median(times)))
    else {
        return "–".to_owned();
    };
    let shown = format!("{} ms", thousandths(time, 1_000_000, 3));
    if number == 0 { shown } else { format!("{shown} ({}×)", thousandths(time, ours, 2)) }
}

/// The middle one of ordered times.
fn median(times: &[u64]) -> Option<u64> {
    times.get(times.len() / 2).copied()
}

/// A quotient with so many decimals, at most three.
fn thousandths(dividend: u64, divisor: u64, decimals: usize) -> String {
    let scaled = u128::from(dividend) * 1000 / u128::from(divisor.max(1));
    let text = format!("{}.{:03}", scaled / 1000, scaled % 1000);
    text[..text.len() - (3 - decimals.min(3))].to_owned()
}

/// Processor, cores and system, as far as the system tells.
fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    format!("{model}, {cores} cores, {}; load before the end {load}", std::env::consts::OS)
}

/// Its version in the lock file of its workspace.
fn candle_version() -> String {
    let lock = fs::read_to_string(root().join("xtask/peers/candle/Cargo.lock")).unwrap_or_default();
    let version = lock
        .split("name = \"candle-core\"\nversion = \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    version.unwrap_or("unknown").to_owned()
}
