//! `ggmill imatrix make`: the importance matrix of a model, measured over a text.

use std::path::PathBuf;

use ggmill_quantize::{Imatrix, ImatrixRun, ResumeError};
use ggmill_run::{Activations, Matrices, activations};

use super::imatrix_form::{Format, form_for, warn_of_losses, wrote};
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::outputs::{Output, refuse_interrupted, write_file};
use crate::paths::shown;
use crate::progress::Bar;
use crate::run_model::{RunArgs, Stopped, TextArgs, sums_of, warn_of_unused};
use crate::source::open_whole;

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
#[command(after_help = "\
Examples:
  ggmill imatrix make model-F16.gguf --text calibration.txt -o imatrix.gguf
  ggmill imatrix make model-F16.gguf --text t.txt -o imatrix.gguf --resume
  ggmill imatrix make model.gguf --text t.txt --chunks 50 -o a.gguf
  ggmill imatrix make model.gguf --text t.txt --from-chunk 50 -o b.gguf
  ggmill imatrix merge a.gguf b.gguf -o imatrix.gguf   # combine parts

The rules are those of llama-imatrix: only the matrices of blocks are measured unless --process-output \
or --all-matrices is given, and experts are weighted by how often each was chosen. The model is computed in F32 from the weights in the file, on \
the CPU; the result does not depend on the number of threads or on --memory.")]
pub(crate) struct Args {
    /// The model: a file, or any shard of a split model
    #[arg(value_name = "MODEL")]
    file: PathBuf,
    #[command(flatten)]
    text: TextArgs,
    /// The importance matrix to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The format to write [default: dat if OUT ends in .dat, else gguf]
    #[arg(long, value_name = "FORM", value_enum)]
    output_format: Option<Format>,
    /// Use at most N chunks
    #[arg(long, value_name = "N")]
    chunks: Option<usize>,
    /// Skip the first N chunks of the text
    #[arg(long, value_name = "N", default_value_t = 0)]
    from_chunk: usize,
    /// If OUT exists, continue after the chunks that it contains; the text, --from-chunk and --ctx
    /// must be those of the interrupted run
    #[arg(long)]
    resume: bool,
    /// Write OUT after every N chunks
    #[arg(long, value_name = "N", default_value_t = 10)]
    save_every: usize,
    /// Also measure output.weight
    #[arg(long)]
    process_output: bool,
    /// Measure every matrix, also those outside the blocks that llama-imatrix never measures, such as
    /// token embeddings that serve as the output matrix
    #[arg(long, conflicts_with = "process_output")]
    all_matrices: bool,
    /// Replace OUT if it exists
    #[arg(long, conflicts_with = "resume")]
    force: bool,
    #[command(flatten)]
    run: RunArgs,
}

impl Args {
    fn matrices(&self) -> Matrices {
        match (self.all_matrices, self.process_output) {
            (true, _) => Matrices::All,
            (false, true) => Matrices::BlocksAndOutput,
            (false, false) => Matrices::Blocks,
        }
    }
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let catalogue = args.run.catalogue()?;
    let model = open_whole(&args.file)?;
    let program = args.run.program(&args.file, &model, &catalogue, console)?;
    let mut inputs: Vec<PathBuf> =
        ggmill_io::files(&model).map(|file| file.path().to_owned()).collect();
    refuse_interrupted(&inputs)?;
    inputs.extend(args.text.path().filter(|path| path.is_file()).cloned());
    let mut run = imatrix_run(args)?;
    Output::new(&args.output, &inputs, args.force || run.earlier().is_some())?;
    let chunks = args.text.chunks(&args.file, None, console)?;
    let wanted = chunks.part(args.from_chunk, args.chunks);
    let wanted = wanted.map_err(Failure::new)?;
    let wanted = wanted.texts();
    let form = form_for(&args.output, args.output_format);
    let done = run.done();
    let left = wanted.get(done..).unwrap_or_default();
    if let Some(earlier) = run.earlier().filter(|_| left.is_empty()) {
        console.note(format_args!(
            "{} has all {} chunks already",
            shown(&args.output),
            wanted.len()
        ));
        wrote(console, &args.output, earlier, form);
        return Ok(Status::Fine);
    }
    let within = |Stopped(failure): Stopped| failure.within(&args.file);
    let runner = args.run.runner().map_err(within)?;
    let mut bar = Bar::of_pieces(console, "chunks");
    bar.update(done as u64, wanted.len() as u64, "chunks");
    // What is replaced is what was there at the start, or an earlier state of this run.
    let mut replaces = args.force || run.earlier().is_some();
    let mut save = |run: &ImatrixRun, sums: &Activations, chunks: usize| {
        let imatrix = run.imatrix(sums_of(sums), chunks).map_err(Failure::new)?;
        let bytes = imatrix.to_bytes(form).map_err(Failure::new)?;
        write_file(&args.output, &inputs, replaces, &bytes)?;
        replaces = true;
        Ok::<_, Failure>(imatrix)
    };
    let sums = activations(&runner, &program, left, args.matrices(), |sums, now| {
        bar.update((done + now) as u64, wanted.len() as u64, "chunks");
        if now < left.len() && run.is_due(now) {
            save(&run, sums, now).map_err(Stopped)?;
        }
        Ok::<_, Stopped>(())
    });
    drop(bar);
    let sums = sums.map_err(within)?;
    let imatrix = save(&run, &sums, left.len())?;
    warn_of_unused(&sums, console);
    warn_of_losses(console, &imatrix, form);
    wrote(console, &args.output, &imatrix, form);
    Ok(Status::Fine)
}

/// The run, which continues what an interrupted one has left where it is to.
fn imatrix_run(args: &Args) -> Result<ImatrixRun, Failure> {
    let run = ImatrixRun::new(args.text.context())
        .with_dataset(args.text.path().map(|path| path.to_string_lossy().into_owned()))
        .with_output(args.matrices() != Matrices::Blocks)
        .with_save_every(args.save_every);
    if !args.resume || !args.output.exists() {
        return Ok(run);
    }
    let earlier = Imatrix::open(&args.output).map_err(Failure::new)?;
    run.resume(earlier).map_err(|error| {
        let hint = match &error {
            ResumeError::ChunkSize { found, .. } => Some(format!("--ctx {found} continues it")),
            ResumeError::Dataset { .. } => {
                Some("-o another file, and join both with `ggmill imatrix merge`".to_owned())
            }
            ResumeError::Output { is_measured: true } => Some(
                "add --process-output or --all-matrices, whichever it was measured with, to continue it"
                    .to_owned(),
            ),
            ResumeError::Output { is_measured: false } => {
                Some("leave out --process-output or --all-matrices to continue it".to_owned())
            }
            _ => None,
        };
        Failure::new(error).with_hint(hint).within(&args.output)
    })
}
