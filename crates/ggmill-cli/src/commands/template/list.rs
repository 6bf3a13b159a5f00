//! `ggmill template list`: lists the chat templates of files.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill_core::RawStr;
use ggmill_template::Template;
use ggmill_text::json as safe_json;
use serde_json::{Value, json};

use super::input::{files, label, open_any, open_source};
use crate::console::Console;
use crate::files::{shown, text_of};
use crate::outcome::{Failure, Status, each};

/// List the chat templates of files
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill template list model.gguf
  ggmill template list models/
  ggmill template list model.gguf --show tool_use > tool_use.jinja

For a directory, files that have templates are listed: .gguf, .jinja, tokenizer_config.json and \
chat_template.json.")]
pub(crate) struct Args {
    /// Models, files with templates, or directories with either
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print the text of the template of this name; "default" is the one without a name
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    show: Option<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    if let Some(name) = &args.show {
        let [file] = &*args.files else {
            return Err(Failure::new("expected one file with --show"));
        };
        let source = open_source(file, console)?;
        let mut out = console.bytes();
        out.write_all(source.choose(Some(name))?.text.as_bytes())?;
        out.flush()?;
        return Ok(Status::Fine);
    }
    let mut failures = Vec::new();
    let files = files(&args.files, &mut failures);
    let is_single = files.len() + failures.len() == 1;
    let (mut documents, mut is_first) = (Vec::new(), true);
    let listed = each(&files, console, |_, path| {
        let entries = entries(path, console)?;
        if args.json {
            documents.extend(entries.iter().map(|entry| entry.document(path)));
            return Ok(Status::Fine);
        }
        let mut out = console.text();
        if !is_single {
            writeln!(out, "{}{}", if is_first { "" } else { "\n" }, shown(path))?;
            is_first = false;
        }
        if entries.is_empty() {
            writeln!(out, "no chat template")?;
        }
        for Entry { name, len, features, fault } in entries {
            let about = fault.unwrap_or_else(|| features.join(", "));
            let line = format!("{name:<20} {len:>8} bytes  {about}");
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(out.flush().map(|()| Status::Fine)?)
    });
    if args.json {
        let mut out = console.bytes();
        safe_json::write_pretty(&mut out, &documents)?;
        out.flush()?;
    }
    match failures.pop() {
        None => listed,
        Some(last) => {
            for failure in &failures {
                console.error(failure);
            }
            if let Err(failure) = &listed {
                console.error(failure);
            }
            Err(last)
        }
    }
}

/// A template in a list.
struct Entry {
    name: String,
    len: usize,
    features: Vec<String>,
    fault: Option<String>,
}

impl Entry {
    fn document(&self, path: &Path) -> Value {
        json!({
            "path": text_of(path),
            "name": self.name,
            "bytes": self.len,
            "features": self.features,
            "fault": self.fault,
        })
    }
}

fn entries(path: &Path, console: Console) -> Result<Vec<Entry>, Failure> {
    let source = open_any(path, console)?;
    let mut templates: Vec<_> = source.all().iter().collect();
    templates.sort_by_key(|template| template.name.is_some());
    let entry = |template: &ggmill_template::ModelTemplate| {
        let parsed = Template::parse(&template.text);
        let features = parsed.as_ref().map(Template::features).unwrap_or_default();
        Entry {
            name: RawStr::from(label(template)).to_string(),
            len: template.text.len(),
            features: features.iter().map(ToString::to_string).collect(),
            fault: parsed.err().map(|error| error.to_string()),
        }
    };
    Ok(templates.into_iter().map(entry).collect())
}
