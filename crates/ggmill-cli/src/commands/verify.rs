//! `ggmill verify`: compares a file with the one that its source gives.

use std::io::{self, Write};
use std::path::PathBuf;

use ggmill::inspect::diff::text as diff_text;
use ggmill::inspect::text::Options;
use ggmill::{RawStr, Verdict, Verified, VerifiedTensor};

use crate::console::{Console, counted};
use crate::files::{open_model, shown};
use crate::options::number_of_threads;
use crate::outcome::{Failure, Status};
use crate::progress::{Bars, with_bars};
use crate::remote;

/// The number of tensors that are listed; JSON has all.
const LISTED: usize = 20;

/// Verify that a file is what its source gives: a checkpoint, or a GGUF file of higher precision
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill verify model-Q4_K_M.gguf --from checkpoint/
  ggmill verify model-IQ2_XS.gguf --from model-BF16.gguf --imatrix imatrix.gguf
  ggmill verify hf://OWNER/NAME-GGUF/model-Q8_0.gguf --from hf://OWNER/NAME

Each tensor is computed from the source in the type that it has in FILE, and compared. Nothing is \
written. A tensor is identical; or consistent, if each of its blocks is as near to the source as its \
type allows, which another importance matrix, a calibration or another program can cause; or \
different. Metadata that changes what the model computes or reads counts, a name or a license does \
not.

The exit code is 0 if everything is identical, 1 if not, 2 if something cannot be read. With \
--allow-consistent it is 0 for consistent tensors too: this proves less, since errors within the \
bounds of a type can be chosen.")]
pub(crate) struct Args {
    /// The file to verify, or any of its shards; or an address
    file: PathBuf,
    /// The source: a checkpoint directory, a GGUF file, or an address of either
    #[arg(long, value_name = "SOURCE")]
    from: PathBuf,
    /// The importance matrix that FILE was quantized with
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// Accept tensors that are consistent with the source, but not identical
    #[arg(long)]
    allow_consistent: bool,
    /// Read the description of an architecture from a TOML file (repeatable)
    #[arg(long, value_name = "FILE")]
    arch_file: Vec<PathBuf>,
    /// Number of threads [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = number_of_threads)]
    threads: Option<usize>,
    /// List every tensor that is not identical, and long values in full
    #[arg(long)]
    full: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let bars = Bars::new(console);
    let model = open_model(&args.file)?;
    let mut builder = ggmill::verify(&model, &args.from)?
        .architectures(&args.arch_file)?
        .threads(args.threads.unwrap_or(0))
        .open_with(remote::options(&args.from)?);
    if let Some(path) = &args.imatrix {
        builder = builder.imatrix(path)?;
    }
    let verified = with_bars!(builder, bars).run()?;
    bars.clear();
    if args.json {
        let mut out = console.bytes();
        let document = verified.document()?;
        serde_json::to_writer_pretty(&mut out, &document).map_err(io::Error::from)?;
        writeln!(out)?;
        out.flush()?;
    } else {
        let mut out = console.text();
        write(&mut out, &verified, args, console)?;
        out.flush()?;
    }
    let verdict = verified.verdict();
    for hint in hints(&verified, args) {
        console.note(hint);
    }
    let is_accepted =
        verdict == Verdict::Identical || verdict == Verdict::Consistent && args.allow_consistent;
    Ok(if is_accepted { Status::Fine } else { Status::Findings })
}

fn write(
    out: &mut dyn Write,
    verified: &Verified,
    args: &Args,
    console: Console,
) -> Result<(), Failure> {
    writeln!(out, "{} against {}", shown(&args.file), shown(&args.from))?;
    let count = |verdict| {
        let tensors = verified.tensors().iter();
        tensors.filter(|tensor| tensor.verdict() == verdict).count()
    };
    let counts: Vec<String> = [Verdict::Identical, Verdict::Consistent, Verdict::Different]
        .into_iter()
        .filter(|&verdict| count(verdict) > 0)
        .map(|verdict| format!("{} {verdict}", count(verdict)))
        .collect();
    writeln!(
        out,
        "\nTensors: {}",
        if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
    )?;
    let mut others: Vec<&VerifiedTensor> =
        verified.tensors().iter().filter(|tensor| tensor.verdict() != Verdict::Identical).collect();
    others.sort_by_key(|tensor| std::cmp::Reverse(tensor.verdict()));
    let listed = if args.full { others.len() } else { LISTED.min(others.len()) };
    for tensor in &others[..listed] {
        writeln!(out, "  {} {}: {}", tensor.verdict(), RawStr::new(&tensor.name), tensor.reason())?;
    }
    if listed < others.len() {
        writeln!(out, "  and {} more; --full lists all", others.len() - listed)?;
    }
    let diff = verified.metadata()?;
    if diff.metadata().unwrap_or_default().is_empty() {
        writeln!(out, "\nMetadata: {}", verified.metadata_verdict()?)?;
    } else {
        let options = Options::default()
            .with_width(console.width())
            .with_styled(console.is_styled())
            .with_full(args.full);
        writeln!(out)?;
        diff_text::write(out, &diff, ["A: expected", "B: in the file"], &options)?;
    }
    writeln!(out, "\n{}: {}", verified.verdict(), verified.conclusion())?;
    Ok(())
}

/// Returns what could prove more.
fn hints(verified: &Verified, args: &Args) -> Vec<String> {
    let mut hints = Vec::new();
    if verified.lacks_importance()
        && args.imatrix.is_none()
        && verified.verdict() != Verdict::Identical
    {
        hints.push(
            "the file was quantized with an importance matrix: --imatrix FILE compares with it"
                .to_owned(),
        );
    }
    if verified.is_from_quantized() {
        hints.push(format!(
            "{} is quantized where {} is not: --from takes the model before quantization",
            shown(&args.from),
            shown(&args.file)
        ));
    }
    let consistent = verified.tensors().iter();
    let consistent = consistent.filter(|tensor| tensor.verdict() == Verdict::Consistent).count();
    if consistent > 0 && verified.verdict() == Verdict::Consistent && !args.allow_consistent {
        hints.push(format!(
            "{} not proven; --allow-consistent accepts that",
            counted(consistent, "tensor")
        ));
    }
    hints
}
