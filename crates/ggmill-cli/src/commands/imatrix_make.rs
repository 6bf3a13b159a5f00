//! `ggmill imatrix make`: the importance matrix of a model, measured over a text.

use std::path::PathBuf;

use ggmill_run::Matrices;

use super::imatrix::{Format, tell};
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::outputs::refuse_stream;
use crate::progress::Bars;
use crate::run_model::{RunArgs, TextArgs, with_run};
use crate::source::open_model;

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
    refuse_stream(&args.output)?;
    let model = open_model(&args.file)?;
    let bars = Bars::new(console);
    let (shown, told) = (bars.clone(), bars.clone());
    let mut builder = ggmill::imatrix(&model)?
        .matrices(args.matrices())
        .resume(args.resume)
        .save_every(args.save_every)
        .overwrite(args.force)
        .on_progress(move |progress| shown.show(progress))
        .on_note(move |note| told.tell(note));
    if let Some(format) = args.output_format {
        builder = builder.form(format.into());
    }
    let text = args.text.run_text().skip(args.from_chunk).chunks(args.chunks);
    let written = with_run!(&args.run, text, builder).write(&args.output)?;
    bars.clear();
    tell(console, &written);
    Ok(Status::Fine)
}
