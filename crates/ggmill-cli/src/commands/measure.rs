//! `ggmill measure`: measures the perplexity of models on a text, and their divergence from another
//! model.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ggmill::{Model, check_output, merge_scores, write_file};
use ggmill_inspect::text::{Column, Options, Table, write_paragraph};
use ggmill_run::json::document;
use ggmill_run::{Distribution, Estimate, Measurement, Scores};

use crate::console::{Console, counted};
use crate::files::{file_name, open_model, refuse_stream};
use crate::options::{RunArgs, TextArgs, with_run};
use crate::outcome::{Failure, Status};
use crate::progress::Bars;

/// Measure the perplexity of models on a text, and their KL divergence from another model
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  ggmill measure model-Q4_K_M.gguf --text wiki.test.raw
  ggmill measure model-Q4_K_M.gguf --against model-F16.gguf --text wiki.test.raw
  ggmill measure a.gguf b.gguf --against base.gguf --text t.txt --html page.html
  ggmill measure model.gguf --tokens ids.json --ctx 256 --logits logits.npy
  ggmill measure model.gguf --text t.txt --chunks 50 --scores a.json
  ggmill measure model.gguf --text t.txt --from-chunk 50 --scores b.json
  ggmill measure merge a.json b.json   # what one run over the whole text prints

The text is divided into chunks, and only the second half of each chunk is scored, as in \
llama-perplexity. A model with an encoder and a decoder, such as T5, has the first half of the chunk as the encoder's input. Everything is computed in F32 on the CPU, with the same result on every machine. \
llama.cpp also rounds activations for quantized types, so its perplexities differ slightly.

Several files are measured in one pass, in which the output of BASE is computed once. Of embedding \
models, --against gives the cosine of the embeddings of each token.")]
#[command(group(clap::ArgGroup::new("written").multiple(true)))]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// The models: files, or any shards of split models
    #[arg(required = true, value_name = "MODEL")]
    files: Vec<PathBuf>,
    /// Also compute the KL divergence from this model, usually the one that MODEL was
    /// quantized from
    #[arg(long, value_name = "BASE")]
    against: Option<PathBuf>,
    #[command(flatten)]
    text: TextArgs,
    /// Use at most N chunks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
    /// Skip the first N chunks of the text
    #[arg(long, value_name = "N", default_value_t = 0)]
    from_chunk: usize,
    /// Write the logits of a single model as an f32 array with one row per token (of the decoder's
    /// input, if there is an encoder)
    #[arg(long, value_name = "OUT.npy", group = "written")]
    logits: Option<PathBuf>,
    /// Write an HTML page with a table of all models, and curves of the KL divergence
    #[arg(long, value_name = "PAGE.html", group = "written")]
    html: Option<PathBuf>,
    /// Write what each position gave, for `measure merge`
    #[arg(long, value_name = "SCORES.json", group = "written")]
    scores: Option<PathBuf>,
    /// Replace OUT.npy, PAGE.html and SCORES.json if they exist
    #[arg(long, requires = "written")]
    force: bool,
    #[command(flatten)]
    run: RunArgs,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Merge measurements of parts of a text, as written by --scores
    Merge(MergeArgs),
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    if let Some(Action::Merge(args)) = &args.action {
        return run_merge(args, console);
    }
    if args.logits.is_some() && args.files.len() > 1 {
        return Err(Failure::new("--logits takes one MODEL, as it writes the logits of one model"));
    }
    let written = [("--logits", &args.logits), ("--html", &args.html), ("--scores", &args.scores)];
    for (number, (option, path)) in written.into_iter().enumerate() {
        if let Some((other, _)) =
            written[..number].iter().find(|(_, other)| path.is_some() && *other == path)
        {
            return Err(Failure::new(format_args!("{other} and {option} name the same file")));
        }
    }
    let bars = Bars::new(console);
    let (shown, told) = (bars.clone(), bars.clone());
    let models: Vec<Model> =
        args.files.iter().map(|path| open_model(path)).collect::<Result<_, _>>()?;
    let [first, others @ ..] = &*models else { return Err(Failure::new("expected a model")) };
    let mut builder = ggmill::measure(first)?
        .overwrite(args.force)
        .on_progress(move |progress| shown.show(progress))
        .on_note(move |note| told.tell(note));
    for model in others {
        builder = builder.and(model);
    }
    if let Some(base) = &args.against {
        builder = builder.against(&open_model(base)?);
    }
    let most = args.chunks.map(|chunks| chunks as usize);
    let text = args.text.run_text().skip(args.from_chunk).chunks(most);
    builder = with_run!(&args.run, text, builder);
    let inputs = builder.inputs();
    if let Some(path) = &args.logits {
        refuse_stream(path)?;
        builder = builder.logits(path);
    }
    for path in args.html.iter().chain(&args.scores) {
        refuse_stream(path)?;
        check_output(path, &inputs, args.force)?;
    }
    let scores = builder.run()?;
    bars.clear();
    if let Some(path) = &args.scores {
        let mut bytes = Vec::new();
        ggmill_text::json::write(&mut bytes, &scores)?;
        write_file(path, &inputs, args.force, &bytes)?;
    }
    let page = args.html.as_deref().map(|path| Page { path, inputs: &inputs, force: args.force });
    report(&scores, page, args.json, console)
}

/// An HTML page to write.
#[derive(Clone, Copy)]
struct Page<'a> {
    path: &'a Path,
    inputs: &'a [PathBuf],
    force: bool,
}

/// Writes the page. Names of models are without directories, as in other reports.
fn write_page(
    page: Page<'_>,
    scores: &Scores,
    measured: &[(&str, Measurement)],
) -> Result<(), Failure> {
    let without_directory = |name: &str| file_name(Path::new(name));
    let names: Vec<String> = measured.iter().map(|(name, _)| without_directory(name)).collect();
    let base = scores.base().map(without_directory);
    let models = names.iter().map(String::as_str).zip(measured.iter().map(|(_, found)| found));
    let mut bytes = Vec::new();
    ggmill_run::html::Page::new(base.as_deref(), scores.context(), models)
        .with_program(concat!("ggmill ", env!("CARGO_PKG_VERSION")))
        .write(&mut bytes)?;
    Ok(write_file(page.path, page.inputs, page.force, &bytes)?)
}

/// Prints the measurements, and writes the page if there is one.
fn report(
    scores: &Scores,
    page: Option<Page<'_>>,
    json: bool,
    console: Console,
) -> Result<Status, Failure> {
    let measured = scores.measurements();
    if let Some(page) = page {
        write_page(page, scores, &measured)?;
    }
    let models = measured.iter().map(|(name, found)| (*name, found));
    let (base, context) = (scores.base(), scores.context());
    if json {
        let mut out = console.bytes();
        ggmill_text::json::write_pretty(&mut out, &document(base, context, models))?;
        out.flush()?;
    } else {
        let options =
            Options::default().with_width(console.width()).with_styled(console.is_styled());
        let mut out = console.text();
        Text { models: models.collect(), base, context }.write(&mut out, &options)?;
        out.flush()?;
        console.note(Measurement::ABOUT);
    }
    Ok(Status::Fine)
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill measure merge a.json b.json
  ggmill measure merge parts/*.json --html page.html

The parts may be in any order. They must be of the same models and the same base, and together have \
all chunks from the first to the last.")]
struct MergeArgs {
    /// Files written by `measure --scores`
    #[arg(required = true, value_name = "SCORES.json")]
    parts: Vec<PathBuf>,
    /// Write an HTML page with a table of all models, and curves of the KL divergence
    #[arg(long, value_name = "PAGE.html")]
    html: Option<PathBuf>,
    /// Replace PAGE.html if it exists
    #[arg(long, requires = "html")]
    force: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

fn run_merge(args: &MergeArgs, console: Console) -> Result<Status, Failure> {
    if let Some(path) = &args.html {
        refuse_stream(path)?;
        check_output(path, &args.parts, args.force)?;
    }
    let scores = merge_scores(&args.parts)?;
    let page = args.html.as_deref();
    let page = page.map(|path| Page { path, inputs: &args.parts, force: args.force });
    report(&scores, page, args.json, console)
}

/// The measurements of models, with their names, to be written as text.
struct Text<'a> {
    models: Vec<(&'a str, &'a Measurement)>,
    base: Option<&'a str>,
    context: usize,
}

impl Text<'_> {
    fn write(&self, out: &mut dyn Write, options: &Options) -> io::Result<()> {
        let Some((name, first)) = self.models.first() else { return Ok(()) };
        let several = self.models.len() > 1;
        if !several {
            writeln!(out, "{name}")?;
        }
        let counts = format!(
            "{} of {} tokens, {} counted",
            counted(first.chunks, "chunk"),
            self.context,
            counted(first.counted, "token")
        );
        if several {
            write_paragraph(out, &counts, options)?;
            writeln!(out)?;
            return self.write_table(out, options);
        }
        let indent = options.width.map(|width| width.saturating_sub(2));
        let mut lines = Vec::new();
        write_paragraph(&mut lines, &counts, &options.with_width(indent))?;
        for line in String::from_utf8_lossy(&lines).lines() {
            writeln!(out, "  {line}")?;
        }
        writeln!(out)?;
        write_details(first, out, options)
    }

    /// Writes a table with a row for each model.
    fn write_table(&self, out: &mut dyn Write, options: &Options) -> io::Result<()> {
        let first = self.models.first().map(|(_, first)| *first);
        let compared = first.and_then(|first| first.comparison.as_ref());
        let columns: &[Column<'_>] = match first {
            Some(first) if first.similarity.is_some() => {
                &[Column::Number("cosine"), Column::Number("its 1%"), Column::Number("its min")]
            }
            Some(first) if first.comparison.is_some() => &[
                Column::Number("perplexity"),
                Column::Number("KL divergence"),
                Column::Number("its 99%"),
                Column::Number("same top"),
            ],
            _ => &[Column::Number("perplexity")],
        };
        let mut table = Table::new("model", columns);
        if let (Some(name), Some(compared)) = (self.base, compared) {
            let none = || "–".to_owned();
            let cells = [with_error(&compared.base_perplexity, 4), none(), none(), none()];
            table.add(&format!("{name} (base)"), cells);
        }
        for (name, measured) in &self.models {
            let mut cells = Vec::new();
            cells.extend(measured.perplexity.as_ref().map(|it| with_error(it, 4)));
            if let Some(found) = &measured.comparison {
                cells.push(with_error(&found.divergence.mean, 6));
                cells.push(format!("{:.6}", found.divergence.quantile(0.99)));
                cells.push(format!("{:.2}%", found.same_top.value * 100.0));
            }
            if let Some(found) = &measured.similarity {
                cells.push(with_error(&found.cosine.mean, 6));
                cells.extend([0.01, 0.0].map(|it| format!("{:.6}", found.cosine.quantile(it))));
            }
            table.add(name, cells);
        }
        table.write(out, options)
    }
}

/// Writes all numbers of one model.
fn write_details(measured: &Measurement, out: &mut dyn Write, options: &Options) -> io::Result<()> {
    let mut table = Table::new("", &[Column::Number("")]).with_indent(2);
    let mut line = |name: &str, estimate: &Estimate, digits| {
        table.add(name, [with_error(estimate, digits)]);
    };
    if let Some(perplexity) = &measured.perplexity {
        line("perplexity", perplexity, 4);
    }
    if let Some(comparison) = &measured.comparison {
        line("perplexity of the base", &comparison.base_perplexity, 4);
        line("their ratio", &comparison.ratio, 6);
        line("KL divergence", &comparison.divergence.mean, 6);
        line("same most probable token", &comparison.same_top, 4);
        line("change of probability", &comparison.probability_change.mean, 6);
        line("its root mean square", &comparison.probability_rms, 6);
    }
    if let Some(similarity) = &measured.similarity {
        line("cosine of embeddings", &similarity.cosine.mean, 6);
    }
    table.write(out, options)?;
    let (columns, distributions): (Vec<Column<'_>>, Vec<&Distribution>) =
        match (&measured.comparison, &measured.similarity) {
            (Some(found), _) => (
                vec![Column::Number("KL divergence"), Column::Number("Δ probability")],
                vec![&found.divergence, &found.probability_change],
            ),
            (None, Some(found)) => (vec![Column::Number("cosine")], vec![&found.cosine]),
            (None, None) => return Ok(()),
        };
    writeln!(out)?;
    let mut table = Table::new("", &columns).with_indent(2);
    for (name, share) in Distribution::QUANTILES {
        let quantiles = distributions.iter().map(|it| format!("{:.6}", it.quantile(share)));
        table.add(name, quantiles);
    }
    table.write(out, options)
}

fn with_error(estimate: &Estimate, digits: usize) -> String {
    format!("{:.digits$} ± {:.digits$}", estimate.value, estimate.error)
}
