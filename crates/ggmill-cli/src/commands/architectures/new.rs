//! `ggmill architectures new`: a first draft of a description.

use std::io::Write as _;
use std::path::PathBuf;

use ggmill_arch::Catalogue;
use ggmill_core::RawStr;
use ggmill_pipeline::formats::CheckpointDirectory;
use ggmill_pipeline::{Checkpoint as _, Pretrained as _};
use serde_json::json;

use crate::console::Console;
use crate::outcome::{Failure, Status};

/// Print a first draft of a description for a checkpoint of an unknown class
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill architectures new NewForCausalLM model > new.toml
  ggmill architectures check new.toml --config model/config.json

The draft is the description of the architecture whose tensors have the most similar names. Comments \
at its top list what is left to decide: tensors that are not described, as groups with a name, a shape \
in terms of hyperparameters and their names in the checkpoint; required tensors that are missing; \
members of config.json that nothing reads.")]
pub(crate) struct Args {
    /// The class that the description is for, such as NewForCausalLM
    class: String,
    /// The directory of the checkpoint
    dir: PathBuf,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let failed = |error: ggmill_pipeline::Error| Failure::from(ggmill::Error::from(error));
    let checkpoint = CheckpointDirectory::open_described(&args.dir).map_err(failed)?;
    let mut config = checkpoint.config().clone();
    let Some(members) = config.as_object_mut() else {
        let message = "config.json is not an object";
        return Err(Failure::new(message).within(&args.dir));
    };
    members.insert("architectures".to_owned(), json!([args.class]));
    let tensors = checkpoint.tensors().iter();
    let tensors: Vec<_> =
        tensors.map(|tensor| (tensor.name().to_string_lossy(), tensor.shape)).collect();
    let draft = Catalogue::new().starting_description(&config, &tensors).ok_or_else(|| {
        let class = RawStr::from(&*args.class);
        Failure::new(format_args!("no draft can be made for the class {class:?}"))
    })?;
    let mut out = console.text();
    out.write_all(draft.text.as_bytes())?;
    out.flush()?;
    Ok(Status::Fine)
}
