//! `ggmill imatrix make`: the importance matrix of a model, measured over a text.

use std::cell::Cell;
use std::path::PathBuf;

use ggmill_core::RawStr;
use ggmill_quantize::{Imatrix, ImatrixForm};
use ggmill_run::{Activations, Chunks, Options, Runner, activations};

use super::imatrix_form::{Format, form_for, warn_of_losses, wrote};
use crate::byte_size::byte_size;
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::outputs::{Output, refuse_interrupted, write_file};
use crate::paths::shown;
use crate::progress::Bar;
use crate::run_model::{GraphArgs, failed, hint, tokens};
use crate::source::open_whole;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill imatrix make model-F16.gguf --text calibration.txt -o imatrix.gguf
  ggmill imatrix make model-F16.gguf --text t.txt -o imatrix.gguf --resume
  ggmill imatrix make model.gguf --text t.txt --chunks 50 -o a.gguf
  ggmill imatrix make model.gguf --text t.txt --from-chunk 50 -o b.gguf
  ggmill imatrix merge a.gguf b.gguf -o imatrix.gguf   # combine parts

The rules are those of llama-imatrix: only the matrices of blocks are measured, and experts are \
weighted by how often each was chosen. The model is computed in F32 from the weights in the file, on \
the CPU; the result does not depend on the number of threads or on --memory.")]
pub(crate) struct Args {
    /// The model: a file, or any shard of a split model
    file: PathBuf,
    /// The calibration text, which is tokenized with the model's vocabulary; - is standard input
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "tokens",
        conflicts_with = "tokens"
    )]
    text: Option<PathBuf>,
    /// Token IDs to use instead of a text, as a JSON array; - is standard input
    #[arg(long, value_name = "IDS.json")]
    tokens: Option<PathBuf>,
    /// The importance matrix to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The format to write [default: dat if OUT ends in .dat, else gguf]
    #[arg(long, value_name = "FORM", value_enum)]
    output_format: Option<Format>,
    /// Number of tokens per chunk
    #[arg(long, short = 'c', value_name = "N", default_value_t = Chunks::CONTEXT)]
    ctx: usize,
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
    /// Replace OUT if it exists
    #[arg(long, conflicts_with = "resume")]
    force: bool,
    /// Number of threads [default: one per core]
    #[arg(long, short = 't', value_name = "N")]
    threads: Option<usize>,
    /// Memory for intermediate results; it limits how many chunks are computed at once
    #[arg(long, value_name = "SIZE", value_parser = byte_size, default_value = "2GiB")]
    memory: u64,
    #[command(flatten)]
    graph: GraphArgs,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let catalogue = args.graph.catalogue()?;
    let model = open_whole(&args.file)?;
    let program = args.graph.program(&args.file, &model, &catalogue, console)?;
    let mut inputs: Vec<PathBuf> =
        ggmill_io::files(&model).map(|file| file.path().to_owned()).collect();
    refuse_interrupted(&inputs)?;
    inputs.extend(args.text.iter().chain(&args.tokens).filter(|path| path.is_file()).cloned());
    let earlier = earlier(args)?;
    Output::new(&args.output, &inputs, args.force || earlier.is_some(), false)?;
    let (tokens, bos) = tokens(&args.file, args.text.as_deref(), args.tokens.as_deref(), console)?;
    let chunks = Chunks::of(&tokens, args.ctx, bos)
        .map_err(|error| Failure::new(&error).with_hint(hint(error.kind())))?;
    let done = earlier.as_ref().map_or(0, |earlier| earlier.chunk_count() as usize);
    let wanted = chunks.part(args.from_chunk, args.chunks);
    if wanted.is_empty() {
        let (first, found) = (args.from_chunk, chunks.texts().len());
        return Err(Failure::new(format_args!(
            "the text has {found} chunks of {} tokens: none is left from chunk {first} on",
            args.ctx
        )));
    }
    let left = wanted.get(done..).unwrap_or_default();
    let saved = Saved {
        args,
        inputs: &inputs,
        form: form_for(&args.output, args.output_format),
        done,
        earlier: earlier.as_ref(),
        begun: Cell::new(false),
    };
    if let Some(earlier) = earlier.as_ref().filter(|_| left.is_empty()) {
        console.note(format_args!(
            "{} has all {} chunks already",
            shown(&args.output),
            wanted.len()
        ));
        wrote(console, &args.output, earlier, saved.form);
        return Ok(Status::Fine);
    }
    let options = Options::default().with_threads(args.threads).with_memory(args.memory);
    let runner = Runner::new(options).map_err(|error| failed(&args.file, &error))?;
    let mut bar = Bar::of_pieces(console, "chunks");
    let mut last = 0;
    bar.update(done as u64, wanted.len() as u64, "chunks");
    let sums = activations(&runner, &program, left, args.process_output, |sums, now| {
        bar.update((done + now) as u64, wanted.len() as u64, "chunks");
        if now - last >= args.save_every.max(1) && now < left.len() {
            saved.save(sums, now)?;
            last = now;
        }
        Ok::<_, Stopped>(())
    });
    drop(bar);
    let sums = sums.map_err(|Stopped(failure)| failure.within(&args.file))?;
    model.verify().map_err(Failure::new)?;
    let imatrix = saved.save(&sums, left.len()).map_err(|Stopped(failure)| failure)?;
    let partly = sums.tensors().filter(|tensor| tensor.unused() > 0).count();
    if partly > 0 {
        console.warn(format_args!(
            "{partly} tensors have experts that no token of the text was routed to: a longer text \
             may reach them"
        ));
    }
    warn_of_losses(console, &imatrix, saved.form);
    wrote(console, &args.output, &imatrix, saved.form);
    Ok(Status::Fine)
}

/// Why a measurement ended early.
struct Stopped(Failure);

impl From<ggmill_run::Error> for Stopped {
    fn from(error: ggmill_run::Error) -> Self {
        Self(Failure::new(&error).with_hint(hint(error.kind())))
    }
}

/// What an interrupted run has left, where it is to be continued.
fn earlier(args: &Args) -> Result<Option<Imatrix>, Failure> {
    if !args.resume || !args.output.exists() {
        return Ok(None);
    }
    let earlier = Imatrix::open(&args.output).map_err(Failure::new)?;
    let size = earlier.chunk_size() as usize;
    if size != 0 && size != args.ctx {
        return Err(Failure::new(format_args!(
            "{}: chunks of {size} tokens, expected {}",
            shown(&args.output),
            args.ctx
        ))
        .with_hint(Some(format!("--ctx {size} continues it"))));
    }
    if earlier.chunk_count() == 0 {
        return Err(Failure::new(format_args!(
            "{}: does not say how many chunks it has, so it cannot be continued",
            shown(&args.output)
        )));
    }
    let name = text_name(args);
    let is_other = |found: &RawStr<'_>| name.as_ref().is_none_or(|name| *found != name.as_str());
    if let Some(found) = earlier.datasets().find(is_other) {
        return Err(Failure::new(format_args!(
            "{}: measured on {found}, expected {}",
            shown(&args.output),
            name.as_deref().unwrap_or("no other text"),
        ))
        .with_hint(Some("-o another file, and join both with `ggmill imatrix merge`".to_owned())));
    }
    if earlier.get(b"output.weight").is_some() != args.process_output {
        let (with, remedy) =
            if args.process_output { ("without", "leave out") } else { ("with", "add") };
        return Err(Failure::new(format_args!(
            "{}: measured {with} --process-output",
            shown(&args.output)
        ))
        .with_hint(Some(format!("{remedy} --process-output to continue it"))));
    }
    Ok(Some(earlier))
}

/// Where sums are written, and what is there already.
struct Saved<'a> {
    args: &'a Args,
    inputs: &'a [PathBuf],
    form: ImatrixForm,
    done: usize,
    earlier: Option<&'a Imatrix>,
    /// Whether this run has written the output.
    begun: Cell<bool>,
}

/// The name of the text, or of the tokens.
fn text_name(args: &Args) -> Option<String> {
    let text = args.text.as_ref().or(args.tokens.as_ref());
    text.map(|path| path.to_string_lossy().into_owned())
}

impl Saved<'_> {
    /// Writes the sums of so many chunks beside those that were there.
    fn save(&self, sums: &Activations, chunks: usize) -> Result<Imatrix, Stopped> {
        let args = self.args;
        let count = |chunks: usize| u32::try_from(chunks).unwrap_or(u32::MAX);
        #[expect(clippy::cast_possible_truncation, reason = "the file has single precision")]
        let tensors = sums.tensors().map(|tensor| {
            let sums = tensor.sums.iter().map(|&sum| sum as f32).collect();
            let counts =
                tensor.counts.iter().map(|&count| i64::try_from(count).unwrap_or(i64::MAX));
            (tensor.name.as_str(), sums, counts.collect())
        });
        let name = text_name(args).filter(|_| self.earlier.is_none());
        let made = || {
            let part =
                Imatrix::from_sums(tensors, name.as_deref(), (count(chunks), count(args.ctx)))?;
            let whole = match self.earlier {
                None => part,
                Some(earlier) => Imatrix::merge(&[earlier.clone(), part], count(args.ctx))?
                    .with_chunk_count(count(self.done + chunks)),
            };
            whole.to_bytes(self.form).map(|bytes| (whole, bytes))
        };
        let (whole, bytes) = made().map_err(|error| Stopped(Failure::new(error)))?;
        // What is replaced is what was there at the start, or an earlier state of this run.
        let replaces = args.force || self.earlier.is_some() || self.begun.get();
        write_file(&args.output, self.inputs, replaces, &bytes).map_err(Stopped)?;
        self.begun.set(true);
        Ok(whole)
    }
}
