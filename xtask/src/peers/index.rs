//! `ggmill index`, read back by DuckDB and pyarrow.

use std::path::PathBuf;

use super::{classes, ggmill};
use crate::process::{Done, command, root, run};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Generated files
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    files: usize,
    /// Write what DuckDB reads of the bundled files into crates/ggmill-inspect/tests/golden
    #[arg(long)]
    record: bool,
}

/// Needs duckdb and pyarrow in the reference's interpreter.
pub(super) fn execute(args: &Args) -> Done {
    let mut script = command(classes::reference()?);
    script.arg(root().join("xtask/peers/index.py"));
    let real = root().join("crates/ggmill-testdata/real");
    if args.record {
        let golden: PathBuf = root().join("crates/ggmill-inspect/tests/golden/duckdb.jsonl");
        return run(script.arg("record").arg(ggmill()?).arg(real).arg(golden));
    }
    run(script.arg("compare").arg(ggmill()?).arg(args.files.to_string()))
}
