//! `graft`: inserts tensors and metadata of other files into a model.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use ggmill_core::RawStr;
use ggmill_edit::{Edit, Graft as Grafting, RepackOptions};
use ggmill_inspect::FileKind;
use ggmill_pipeline::formats::{Numpy, SafetensorsFile, TorchFile};
use ggmill_pipeline::{Checkpoint, GgufCheckpoint, Joined, SourceTensor};
use ggmill_text::Glob;

use super::extract::{check_patterns, tensor_name};
use super::reshape::plan_file;
use crate::error::Kind;
use crate::open::{kind_of_file, refuse_interrupted};
use crate::output::Destination;
use crate::progress::{Call, call_options};
use crate::{Error, Hint, Model, Planned, Result, Written, read_patch};

/// Copies a model, inserts tensors and metadata of other files, and removes, renames or reorders
/// tensors.
///
/// A tensor of a donor replaces the one with the same name; new tensors are appended. After that,
/// tensors are dropped, renamed and reordered.
///
/// ```no_run
/// let model = ggmill::Model::open("model.gguf")?;
/// let graft = ggmill::graft(&model)?.donor("embedding.npy", Some("token_embd.weight"));
/// graft.drop(["mm.*".parse()?]).write("new.gguf")?;
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn graft<'a>(model: &Model) -> Result<Graft<'a>> {
    Ok(Graft {
        base: model.checkpoint()?,
        inputs: model.files(),
        call: Call::default(),
        donors: Vec::new(),
        take: Vec::new(),
        take_keys: Vec::new(),
        add: false,
        keep_types: false,
        drop: Vec::new(),
        rename: Vec::new(),
        order: Vec::new(),
        form: RepackOptions::default(),
    })
}

/// The options of [`graft()`].
#[derive(Debug)]
pub struct Graft<'a> {
    base: GgufCheckpoint,
    inputs: Vec<PathBuf>,
    call: Call<'a>,
    donors: Vec<DonorFile>,
    take: Vec<Glob>,
    take_keys: Vec<Glob>,
    add: bool,
    keep_types: bool,
    drop: Vec<Glob>,
    rename: Vec<Renaming>,
    order: Vec<Glob>,
    form: RepackOptions,
}

#[derive(Debug)]
struct DonorFile {
    path: PathBuf,
    /// The name of its only tensor in the model.
    name: Option<Vec<u8>>,
}

/// A pattern for tensor names, and their new names: `old=new`. Both sides may have one `*`, which
/// matches the same text.
///
/// ```
/// let renaming: ggmill::Renaming = "blk.*.q=layer.*.query".parse()?;
/// assert!("a*=b".parse::<ggmill::Renaming>().is_err());
/// # Ok::<(), ggmill::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renaming {
    old: String,
    new: String,
}

impl FromStr for Renaming {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (old, new) = text
            .split_once('=')
            .filter(|(old, new)| !old.is_empty() && !new.is_empty())
            .ok_or_else(|| Error::misuse("expected OLD=NEW"))?;
        if old.matches('*').count() > 1 || old.matches('*').count() != new.matches('*').count() {
            return Err(Error::misuse("expected one * on both sides, or none"));
        }
        Ok(Self { old: old.to_owned(), new: new.to_owned() })
    }
}

impl Renaming {
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

impl<'a> Graft<'a> {
    call_options!(overwrite, encoding);

    /// Adds a donor: a GGUF, safetensors, PyTorch or NumPy file, or JSON with metadata. `name` renames
    /// the only tensor of the donor; without it, the tensor of a NumPy file is named after the file.
    #[must_use]
    pub fn donor(mut self, path: impl Into<PathBuf>, name: Option<&str>) -> Self {
        let name = name.map(|name| name.as_bytes().to_vec());
        self.donors.push(DonorFile { path: path.into(), name });
        self
    }

    /// Takes only these tensors of the donors.
    #[must_use]
    pub fn take(mut self, names: impl IntoIterator<Item = Glob>) -> Self {
        self.take.extend(names);
        self
    }

    /// Takes this metadata of donors that are GGUF files; none by default.
    #[must_use]
    pub fn take_keys(mut self, keys: impl IntoIterator<Item = Glob>) -> Self {
        self.take_keys.extend(keys);
        self
    }

    /// Allows a donor whose tensors replace none.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "an option, as the command calls it")]
    pub fn add(mut self, add: bool) -> Self {
        self.add = add;
        self
    }

    /// Encodes a tensor in the type of the tensor that it replaces.
    #[must_use]
    pub fn keep_types(mut self, keep: bool) -> Self {
        self.keep_types = keep;
        self
    }

    /// Removes tensors.
    #[must_use]
    pub fn drop(mut self, names: impl IntoIterator<Item = Glob>) -> Self {
        self.drop.extend(names);
        self
    }

    /// Renames tensors.
    #[must_use]
    pub fn rename(mut self, renamings: impl IntoIterator<Item = Renaming>) -> Self {
        self.rename.extend(renamings);
        self
    }

    /// Writes matching tensors first, in the order of the patterns.
    #[must_use]
    pub fn order(mut self, names: impl IntoIterator<Item = Glob>) -> Self {
        self.order.extend(names);
        self
    }

    /// Sets the alignment, byte order and format version.
    #[must_use]
    pub fn form(mut self, form: RepackOptions) -> Self {
        self.form = form;
        self
    }

    /// Writes the file: `plan(out)?.write()`.
    pub fn write(self, out: impl AsRef<Path>) -> Result<Written> {
        self.plan(out)?.write()
    }

    /// Plans the file, and writes nothing.
    pub fn plan(self, out: impl AsRef<Path>) -> Result<Planned<'a>> {
        let out = out.as_ref();
        let mut inputs = self.inputs.clone();
        refuse_interrupted(&inputs)?;
        let files: Vec<PathBuf> =
            self.donors.iter().map(|donor| donor.path.clone()).chain(inputs.clone()).collect();
        Destination::File(out.to_owned()).check(&files, self.call.overwrite)?;
        let mut graft = Grafting::new(&self.base)?;
        let open = |file: &DonorFile| {
            refuse_interrupted(&[&file.path])?;
            Donor::open(file, &graft)
        };
        let donors: Vec<Donor> = self.donors.iter().map(open).collect::<Result<_>>()?;
        for (file, donor) in self.donors.iter().zip(&donors) {
            match donor {
                Donor::Gguf(model) => {
                    let files = ggmill_io::files(model.model()).map(|file| file.path().to_owned());
                    let files: Vec<PathBuf> = files.collect();
                    refuse_interrupted(&files)?;
                    inputs.extend(files);
                }
                _ => inputs.push(file.path.clone()),
            }
        }
        self.take_from(&donors, &mut graft)?;

        check_patterns("tensor", &self.drop, || graft.names())?;
        graft.keep(|name| !self.drop.iter().any(|glob| glob.matches(name)));
        for renaming in &self.rename {
            if graft.rename(|name| renaming.of(name)) == 0 {
                let pattern = if renaming.old.contains('*') {
                    renaming.old.parse()?
                } else {
                    Glob::literal(&renaming.old)
                };
                check_patterns("tensor", &[pattern], || graft.names())?;
            }
        }
        check_patterns("tensor", &self.order, || graft.names())?;
        graft.order(|name| {
            self.order.iter().position(|glob| glob.matches(name)).unwrap_or(self.order.len())
        });
        graft.repack(&self.form)?;
        let (recipe, _) = graft.finish();
        // The sources in the order in which the graft joined them.
        let mut sources = Joined::new();
        sources.add_shared(Arc::new(self.base));
        for donor in donors {
            if let Some(tensors) = donor.into_tensors() {
                sources.add_shared(tensors);
            }
        }
        plan_file(recipe, sources, out, inputs, self.call)
    }

    /// Takes tensors and metadata from the donors, in order. Every pattern must match in one of them.
    fn take_from<'d>(&self, donors: &'d [Donor], graft: &mut Grafting<'d>) -> Result<()> {
        let tensors = || {
            donors
                .iter()
                .filter_map(Donor::tensors)
                .flat_map(Checkpoint::tensors)
                .map(SourceTensor::name)
        };
        check_patterns("tensor of a donor", &self.take, tensors)?;
        let models = || {
            donors
                .iter()
                .filter_map(|donor| if let Donor::Gguf(model) = donor { Some(model) } else { None })
        };
        check_patterns("key of a donor", &self.take_keys, || {
            models().flat_map(|model| model.metadata().iter()).map(|entry| entry.key())
        })?;
        for (file, donor) in self.donors.iter().zip(donors) {
            if let Some(tensors) = donor.tensors() {
                self.take_tensors(file, tensors, graft)?;
            }
            match donor {
                Donor::Gguf(model) => {
                    let is_taken =
                        |key: RawStr<'_>| self.take_keys.iter().any(|glob| glob.matches(key));
                    graft.take_keys(model, is_taken)?;
                }
                Donor::Metadata(edits) => graft.edit(edits)?,
                Donor::Tensors(_) => {}
            }
        }
        Ok(())
    }

    fn take_tensors<'d>(
        &self,
        file: &DonorFile,
        tensors: &'d dyn Checkpoint,
        graft: &mut Grafting<'d>,
    ) -> Result<()> {
        let is_taken = |name: RawStr<'_>| {
            self.take.is_empty() || self.take.iter().any(|glob| glob.matches(name))
        };
        let wanted: Vec<&SourceTensor> =
            tensors.tensors().iter().filter(|tensor| is_taken(tensor.name())).collect();
        if let (Some(name), [_, _, ..]) = (&file.name, &*wanted) {
            let message = format_args!(
                "has {} tensors, but only one can be named {:?}",
                wanted.len(),
                RawStr::new(name)
            );
            return Err(Error::misuse(message).at(&file.path).with_hint(Hint::TakeOne));
        }
        let is_replaced = |tensor: &&SourceTensor| {
            graft.tensor(file.name.as_ref().unwrap_or(&tensor.name)).is_some()
        };
        if !self.add && !wanted.is_empty() && !wanted.iter().any(is_replaced) {
            return Err(nothing_replaced(file, &wanted, graft));
        }
        graft.take(tensors, self.keep_types, |name| {
            let new = || file.name.clone().unwrap_or_else(|| name.as_bytes().to_vec());
            is_taken(name).then(new)
        })?;
        Ok(())
    }
}

/// An open donor.
enum Donor {
    Gguf(Arc<GgufCheckpoint>),
    Tensors(Arc<dyn Checkpoint + Send + Sync>),
    Metadata(Vec<Edit>),
}

impl Donor {
    fn open(file: &DonorFile, base: &Grafting<'_>) -> Result<Self> {
        let path = &*file.path;
        let name = || file.name.clone().unwrap_or_else(|| tensor_name(path));
        let found = kind_of_file(path);
        // The extension selects the format; a file without a known extension is recognized by content.
        let kind = match path.extension().and_then(|ending| ending.to_str()) {
            Some("safetensors") => Some(FileKind::Safetensors),
            Some("npy") => Some(FileKind::Numpy),
            Some("json") => Some(FileKind::Json),
            Some("gguf") => Some(FileKind::Gguf),
            _ => found.clone(),
        };
        let donor = match kind {
            Some(FileKind::Safetensors) => SafetensorsFile::open(path)
                .map(|file| Self::Tensors(Arc::new(file)))
                .map_err(Error::from),
            Some(FileKind::Numpy) => Numpy::open(path, name(), |name| base.tensor(name))
                .map(|file| Self::Tensors(Arc::new(file)))
                .map_err(Error::from),
            Some(FileKind::PytorchZip | FileKind::PytorchLegacy) => {
                TorchFile::open(path).map(|file| Self::Tensors(Arc::new(file))).map_err(Error::from)
            }
            Some(FileKind::Json) => read_patch(path).map(Self::Metadata),
            _ => GgufCheckpoint::open(path)
                .map(|model| Self::Gguf(Arc::new(model)))
                .map_err(Error::from),
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
        donor.map_err(|error| error.with_hint(found.filter(is_other).map(Hint::DonorName)))
    }

    fn tensors(&self) -> Option<&dyn Checkpoint> {
        match self {
            Self::Gguf(model) => Some(&**model),
            Self::Tensors(tensors) => Some(&**tensors),
            Self::Metadata(_) => None,
        }
    }

    fn into_tensors(self) -> Option<Arc<dyn Checkpoint + Send + Sync>> {
        match self {
            Self::Gguf(model) => Some(model),
            Self::Tensors(tensors) => Some(tensors),
            Self::Metadata(_) => None,
        }
    }
}

/// Returns the error for a donor that replaces nothing: usually its tensors have different names in the
/// model.
fn nothing_replaced(file: &DonorFile, wanted: &[&SourceTensor], graft: &Grafting<'_>) -> Error {
    const SHOWN: usize = 3;
    let similar = match wanted {
        [one] => {
            let fits = |name: &RawStr<'_>| {
                graft.tensor(name.as_bytes()).is_some_and(|(_, shape)| shape == one.shape)
            };
            Some(graft.names().filter(fits).take(SHOWN).map(|name| name.to_string()).collect())
        }
        _ => None,
    };
    let what = match wanted {
        [one] => {
            let name = file.name.as_ref().unwrap_or(&one.name);
            format!("the model has no tensor {:?}", RawStr::new(name))
        }
        several => format!("the model has none of the {} tensors of this donor", several.len()),
    };
    let message = format_args!("{what}, so nothing would be replaced");
    Error::new(Kind::Refused, "nothing_replaced", message)
        .at(&file.path)
        .with_hint(Hint::NothingReplaced { path: file.path.clone(), similar })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_the_same_text() {
        let renamed = |renaming: &str, name: &str| {
            let renaming: Renaming = renaming.parse().unwrap();
            renaming.of(RawStr::from(name)).map(|name| String::from_utf8(name).unwrap())
        };
        assert_eq!(renamed("blk.*.q=layer.*.query", "blk.7.q").as_deref(), Some("layer.7.query"));
        assert_eq!(renamed("a=b", "a").as_deref(), Some("b"));
        assert_eq!(renamed("a=b", "ab"), None);
        assert_eq!(renamed("ab*ba=x*", "aba"), None);
        for wrong in ["a", "=b", "a=", "a*=b", "a=b*", "**=*"] {
            assert!(wrong.parse::<Renaming>().is_err(), "{wrong}");
        }
    }
}
