//! `ggmill graft`: a model with tensors and metadata of others.

use std::path::{Path, PathBuf};

use ggmill_core::RawStr;
use ggmill_edit::{Edit, Graft};
use ggmill_inspect::FileKind;
use ggmill_pipeline::formats::{Numpy, SafetensorsFile, TorchFile};
use ggmill_pipeline::{Checkpoint, GgufCheckpoint, SourceTensor};
use ggmill_text::Glob;

use crate::commands::extract::{fits_any, tensor_name};
use crate::commands::repack::{Form, warn_of_alignment};
use crate::console::Console;
use crate::edit_file::set_from;
use crate::making::Making;
use crate::outcome::{Failure, Status};
use crate::outputs::{Output, inputs_of};
use crate::paths::shown;
use crate::source::{open_checkpoint, what_it_is};

/// Insert tensors and metadata into a model, or remove, rename or reorder existing tensors
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
#[command(after_help = "\
Examples:
  ggmill graft model.gguf --from token_embd.weight=embedding.npy -o new.gguf
  ggmill graft model.gguf --from other.gguf --take 'output*' -o new-output.gguf
  ggmill graft model.gguf --drop 'mm.*' --rename 'old.*=new.*' -o renamed.gguf
  ggmill graft model.gguf --from tokenizer-metadata.json -o new-tokenizer.gguf

A donor is a file to take tensors or metadata from: GGUF, .safetensors, .npy (named after its \
tensor) or .json with metadata, as `ggmill extract` writes them, or a PyTorch file. NAME=FILE gives \
the only tensor of a donor a different name. A tensor replaces the one with the same name; new \
tensors are appended. A donor that replaces nothing is rejected unless --add is given. Then tensors \
are dropped, renamed and reordered.")]
pub(crate) struct Args {
    /// The model: a file, or any shard of a split model
    file: PathBuf,
    /// A file to take tensors or metadata from (repeatable): .gguf, .safetensors, .npy, .pt or
    /// .json; NAME= gives the tensor's name in the model
    #[arg(long = "from", value_name = "[NAME=]DONOR")]
    donors: Vec<PathBuf>,
    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Tensors to take from the donors, by name [default: all]
    #[arg(long, value_name = "GLOB", requires = "donors")]
    take: Vec<Glob>,
    /// Metadata to take from donors that are GGUF files [default: none]
    #[arg(long, value_name = "GLOB", requires = "donors")]
    take_key: Vec<Glob>,
    /// Allow adding tensors when the donor replaces none
    #[arg(long, requires = "donors")]
    add: bool,
    /// Encode a tensor in the type of the tensor that it replaces
    #[arg(long)]
    keep_types: bool,
    /// Tensors to remove
    #[arg(long, value_name = "GLOB")]
    drop: Vec<Glob>,
    /// Rename tensors; one * on each side matches the same text
    #[arg(long, value_name = "OLD=NEW", value_parser = Renaming::parse)]
    rename: Vec<Renaming>,
    /// Tensors to write first; those of further --order options follow (repeatable)
    #[arg(long, value_name = "GLOB")]
    order: Vec<Glob>,
    #[command(flatten)]
    form: Form,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Print what would be written, with exact sizes and offsets, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the plan (type and offset of each tensor) as JSON instead of a summary
    #[arg(long)]
    json: bool,
}

/// The renamed tensors, with their new names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Renaming {
    old: String,
    new: String,
}

impl Renaming {
    fn parse(text: &str) -> Result<Self, String> {
        let (old, new) = text
            .split_once('=')
            .filter(|(old, new)| !old.is_empty() && !new.is_empty())
            .ok_or("expected OLD=NEW")?;
        if old.matches('*').count() > 1 || old.matches('*').count() != new.matches('*').count() {
            return Err("expected one * on both sides, or none".to_owned());
        }
        Ok(Self { old: old.to_owned(), new: new.to_owned() })
    }

    fn of(&self, name: RawStr<'_>) -> Option<Vec<u8>> {
        let name = name.as_bytes();
        let Some((before, after)) = self.old.split_once('*') else {
            return (name == self.old.as_bytes()).then(|| self.new.clone().into_bytes());
        };
        let within = name.strip_prefix(before.as_bytes())?.strip_suffix(after.as_bytes())?;
        let (before, after) = self.new.split_once('*')?;
        Some([before.as_bytes(), within, after.as_bytes()].concat())
    }
}

/// A donor as it is typed: a file, and the name of the tensor that it has.
struct Named {
    path: PathBuf,
    target: Option<Vec<u8>>,
}

impl Named {
    /// A file may have a `=` in its name; one that exists is meant.
    fn parse(typed: &Path) -> Self {
        let split = typed.to_str().and_then(|text| text.split_once('='));
        match split.filter(|(name, file)| !name.is_empty() && !file.is_empty() && !typed.exists()) {
            Some((name, file)) => Self { path: file.into(), target: Some(name.into()) },
            None => Self { path: typed.to_owned(), target: None },
        }
    }
}

/// An open donor.
enum Donor {
    Gguf(Box<GgufCheckpoint>),
    Tensors(Box<dyn Checkpoint>),
    Metadata(Vec<Edit>),
}

impl Donor {
    fn open(named: &Named, base: &Graft<'_>) -> Result<Self, Failure> {
        let path = &*named.path;
        let name = || named.target.clone().unwrap_or_else(|| tensor_name(path));
        let found = what_it_is(path);
        // By its name, which may say what its bytes do not; where that says nothing, by what it is.
        let kind = match path.extension().and_then(|ending| ending.to_str()) {
            Some("safetensors") => Some(FileKind::Safetensors),
            Some("npy") => Some(FileKind::Numpy),
            Some("json") => Some(FileKind::Json),
            Some("gguf") => Some(FileKind::Gguf),
            _ => found.clone(),
        };
        let donor = match kind {
            Some(FileKind::Safetensors) => SafetensorsFile::open(path)
                .map(|file| Self::Tensors(Box::new(file)))
                .map_err(Failure::new),
            Some(FileKind::Numpy) => Numpy::open(path, name(), |name| base.tensor(name))
                .map(|file| Self::Tensors(Box::new(file)))
                .map_err(Failure::new),
            Some(FileKind::PytorchZip | FileKind::PytorchLegacy) => TorchFile::open(path)
                .map(|file| Self::Tensors(Box::new(file)))
                .map_err(Failure::new),
            Some(FileKind::Json) => set_from(path).map(Self::Metadata),
            _ => GgufCheckpoint::open(path)
                .map(|model| Self::Gguf(Box::new(model)))
                .map_err(Failure::new),
        };
        let is_other = |found: &FileKind| {
            Some(found) != kind.as_ref()
                || !matches!(
                    found,
                    FileKind::Safetensors
                        | FileKind::PytorchZip
                        | FileKind::PytorchLegacy
                        | FileKind::Numpy
                        | FileKind::Json
                        | FileKind::Gguf
                )
        };
        let hint = found.filter(is_other).map(|found| {
            format!(
                "this is {found}; the name of a donor must end in .gguf, .safetensors, .npy or \
                 .json"
            )
        });
        donor.map_err(|failure| failure.with_hint(hint))
    }

    fn tensors(&self) -> Option<&dyn Checkpoint> {
        match self {
            Self::Gguf(model) => Some(&**model),
            Self::Tensors(tensors) => Some(&**tensors),
            Self::Metadata(_) => None,
        }
    }
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let named: Vec<Named> = args.donors.iter().map(|typed| Named::parse(typed)).collect();
    let files: Vec<PathBuf> =
        named.iter().map(|named| &named.path).chain([&args.file]).cloned().collect();
    let output = Output::new(&args.output, &files, args.force, args.dry_run)?;
    let base = open_checkpoint(&args.file)?;
    let mut inputs = inputs_of(&base)?;
    let mut graft = Graft::new(&base).map_err(Failure::new)?;
    let donors: Vec<Donor> =
        named.iter().map(|named| Donor::open(named, &graft)).collect::<Result<_, _>>()?;
    for (named, donor) in named.iter().zip(&donors) {
        match donor {
            Donor::Gguf(model) => inputs.extend(inputs_of(model)?),
            _ => inputs.push(named.path.clone()),
        }
    }
    take(args, &named, &donors, &mut graft)?;

    fits_any("tensor", &args.drop, || graft.names())?;
    graft.keep(|name| !args.drop.iter().any(|glob| glob.matches(name)));
    for renaming in &args.rename {
        if graft.rename(|name| renaming.of(name)) == 0 {
            let typed = if renaming.old.contains('*') {
                renaming.old.parse().map_err(Failure::new)?
            } else {
                Glob::literal(&renaming.old)
            };
            fits_any("tensor", &[typed], || graft.names())?;
        }
    }
    fits_any("tensor", &args.order, || graft.names())?;
    graft.order(|name| {
        args.order.iter().position(|glob| glob.matches(name)).unwrap_or(args.order.len())
    });
    graft.repack(&args.form.into()).map_err(Failure::new)?;

    let (recipe, sources) = graft.finish();
    let plan = recipe.plan(&sources).map_err(Failure::new)?;
    warn_of_alignment(&plan, console);
    Making { output, inputs: &inputs, json: args.json }.run(&plan, &sources, console)
}

/// Takes what was asked for from the donors, in order. Every pattern has to match something in one
/// of them.
fn take<'a>(
    args: &Args,
    named: &[Named],
    donors: &'a [Donor],
    graft: &mut Graft<'a>,
) -> Result<(), Failure> {
    let tensors = || {
        donors
            .iter()
            .filter_map(Donor::tensors)
            .flat_map(Checkpoint::tensors)
            .map(ggmill_pipeline::SourceTensor::name)
    };
    fits_any("tensor of a donor", &args.take, tensors)?;
    let models = || {
        donors
            .iter()
            .filter_map(|donor| if let Donor::Gguf(model) = donor { Some(model) } else { None })
    };
    fits_any("key of a donor", &args.take_key, || {
        models().flat_map(|model| model.metadata().iter()).map(|entry| entry.key())
    })?;
    for (named, donor) in named.iter().zip(donors) {
        if let Some(tensors) = donor.tensors() {
            let is_taken = |name: RawStr<'_>| {
                args.take.is_empty() || args.take.iter().any(|glob| glob.matches(name))
            };
            let wanted: Vec<&SourceTensor> =
                tensors.tensors().iter().filter(|tensor| is_taken(tensor.name())).collect();
            if let (Some(name), [_, _, ..]) = (&named.target, &*wanted) {
                return Err(Failure::new(format_args!(
                    "{}: has {} tensors, but only one can be named {:?}",
                    shown(&named.path),
                    wanted.len(),
                    RawStr::new(name)
                ))
                .with_hint(Some("--take selects one of them".to_owned())));
            }
            let is_replaced = |tensor: &&SourceTensor| {
                graft.tensor(named.target.as_ref().unwrap_or(&tensor.name)).is_some()
            };
            if !args.add && !wanted.is_empty() && !wanted.iter().any(is_replaced) {
                return Err(nothing_replaced(named, &wanted, graft));
            }
            graft
                .take(tensors, args.keep_types, |name| {
                    let new = || named.target.clone().unwrap_or_else(|| name.as_bytes().to_vec());
                    is_taken(name).then(new)
                })
                .map_err(Failure::new)?;
        }
        match donor {
            Donor::Gguf(model) => drop(
                graft
                    .take_keys(model, |key| args.take_key.iter().any(|glob| glob.matches(key)))
                    .map_err(Failure::new)?,
            ),
            Donor::Metadata(edits) => graft.edit(edits).map_err(Failure::new)?,
            Donor::Tensors(_) => {}
        }
    }
    Ok(())
}

/// A donor of which no tensor is in the model: most often it has another name there.
fn nothing_replaced(named: &Named, wanted: &[&SourceTensor], graft: &Graft<'_>) -> Failure {
    const SHOWN: usize = 3;
    let path = shown(&named.path);
    let hint = match wanted {
        [one] => {
            let fits = |name: &RawStr<'_>| {
                graft.tensor(name.as_bytes()).is_some_and(|(_, shape)| shape == one.shape)
            };
            let same: Vec<String> =
                graft.names().filter(fits).take(SHOWN).map(|name| name.to_string()).collect();
            let such = if same.is_empty() {
                String::new()
            } else {
                format!(", such as {}, of the same shape", same.join(" or "))
            };
            format!("--from NAME={path} names the tensor to replace{such}; --add adds it")
        }
        _ => "--add adds them".to_owned(),
    };
    let what = match wanted {
        [one] => {
            let name = named.target.as_ref().unwrap_or(&one.name);
            format!("the model has no tensor {:?}", RawStr::new(name))
        }
        several => format!("the model has none of the {} tensors of this donor", several.len()),
    };
    Failure::new(format_args!("{path}: {what}, so nothing would be replaced")).with_hint(Some(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_the_same_text() {
        let renamed = |renaming: &str, name: &str| {
            Renaming::parse(renaming)
                .unwrap()
                .of(RawStr::from(name))
                .map(|name| String::from_utf8(name).unwrap())
        };
        assert_eq!(renamed("blk.*.q=layer.*.query", "blk.7.q").as_deref(), Some("layer.7.query"));
        assert_eq!(renamed("a=b", "a").as_deref(), Some("b"));
        assert_eq!(renamed("a=b", "ab"), None);
        assert_eq!(renamed("ab*ba=x*", "aba"), None);
        for wrong in ["a", "=b", "a=", "a*=b", "a=b*", "**=*"] {
            assert!(Renaming::parse(wrong).is_err(), "{wrong}");
        }
    }
}
