//! `ggmill template list`.

use std::io::Write as _;
use std::path::PathBuf;

use ggmill_template::Template;
use ggmill_text::json as safe_json;
use serde_json::json;

use super::source::{Source, label};
use crate::console::Console;
use crate::outcome::{Failure, Status};

/// List the templates of a file
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The model, or a file with templates
    file: PathBuf,
    /// Print the text of the template of this name; default is the one without a name
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    show: Option<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// What templates can have, and the words that they have it by.
const FEATURES: [(&str, &str); 5] = [
    ("tools", "tools"),
    ("documents", "documents"),
    ("thinking", "enable_thinking"),
    ("generation prompt", "add_generation_prompt"),
    ("generation blocks", "endgeneration"),
];

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let source = Source::open(&args.file)?;
    if let Some(name) = &args.show {
        let mut out = console.bytes();
        out.write_all(source.template(Some(name))?.text.as_bytes())?;
        out.flush()?;
        return Ok(Status::Fine);
    }
    let mut found = Vec::new();
    for template in &source.templates {
        let has = |(_, word): &&(&str, &str)| template.text.contains(word);
        let features: Vec<_> = FEATURES.iter().filter(has).map(|(name, _)| *name).collect();
        let fault = Template::parse(&template.text).err().map(|error| error.to_string());
        found.push((template, features, fault));
    }
    if args.json {
        let list: Vec<_> = found
            .iter()
            .map(|(template, features, fault)| {
                json!({
                    "name": label(template),
                    "bytes": template.text.len(),
                    "features": features,
                    "fault": fault,
                })
            })
            .collect();
        let mut out = console.bytes();
        safe_json::write_pretty(&mut out, &list)?;
        out.write_all(b"\n")?;
        out.flush()?;
        return Ok(Status::Fine);
    }
    let mut out = console.text();
    for (template, features, fault) in found {
        let about = fault.unwrap_or_else(|| features.join(", "));
        writeln!(out, "{:<20} {:>8} bytes  {about}", label(template), template.text.len())?;
    }
    out.flush()?;
    Ok(Status::Fine)
}
