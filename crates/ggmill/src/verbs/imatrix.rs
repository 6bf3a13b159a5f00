//! `imatrix`: measures, merges and converts importance matrices.

use std::path::{Path, PathBuf};

use ggmill_quantize::{Imatrix, ImatrixForm, ImatrixRun};
use ggmill_run::{Matrices, activations};

use super::running::{
    RunChoices, imatrix_of, located, note_unused_experts, program_with_note, run_options, within,
};
use crate::open::refuse_interrupted;
use crate::progress::{Call, Stage, call_options};
use crate::{Error, Model, Note, Result, check_output, write_file};

/// Measures the importance matrix of a model over a text, by the rules of llama-imatrix.
///
/// The model is computed in F32 from the weights in the file, on the CPU. The result does not depend
/// on the number of threads or on the memory.
///
/// ```no_run
/// let model = ggmill::Model::open("model-F16.gguf")?;
/// let text = ggmill::RunText::file("calibration.txt");
/// ggmill::imatrix(&model)?.text(text).write("imatrix.gguf")?;
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn imatrix<'a>(model: &Model) -> Result<MakeImatrix<'a>> {
    Ok(MakeImatrix {
        model: model.clone(),
        running: RunChoices::default(),
        matrices: Matrices::Blocks,
        resume: false,
        save_every: usize::MAX,
        form: None,
        call: Call::default(),
    })
}

/// The options of [`imatrix()`].
#[derive(Debug)]
pub struct MakeImatrix<'a> {
    model: Model,
    running: RunChoices,
    matrices: Matrices,
    resume: bool,
    save_every: usize,
    form: Option<ImatrixForm>,
    call: Call<'a>,
}

impl<'a> MakeImatrix<'a> {
    call_options!(overwrite);
    run_options!();

    /// Sets the matrices to measure: by default those in blocks.
    #[must_use]
    pub fn matrices(mut self, matrices: Matrices) -> Self {
        self.matrices = matrices;
        self
    }

    /// Continues after the chunks in the output if it exists. It must have been measured with the same
    /// text, chunks and matrices.
    #[must_use]
    pub fn resume(mut self, resume: bool) -> Self {
        self.resume = resume;
        self
    }

    /// Also writes the output after every `chunks` chunks, so that an interrupted run can be resumed.
    #[must_use]
    pub fn save_every(mut self, chunks: usize) -> Self {
        self.save_every = chunks;
        self
    }

    /// Sets the format of the file. The default is the legacy format for a name that ends in `.dat`,
    /// and otherwise GGUF.
    #[must_use]
    pub fn form(mut self, form: ImatrixForm) -> Self {
        self.form = Some(form);
        self
    }

    /// Measures the matrix, and writes no file.
    pub fn run(mut self) -> Result<Imatrix> {
        let mut run = self.new_run()?;
        self.measure(&mut run, &mut |_| Ok(()), None).map(|(imatrix, _)| imatrix)
    }

    /// Measures the matrix, and writes it into a file.
    pub fn write(mut self, out: impl AsRef<Path>) -> Result<WrittenImatrix> {
        let out = out.as_ref();
        let form = self.form.unwrap_or_else(|| form_of_name(out));
        let inputs = self.inputs();
        let mut run = self.new_run()?;
        if self.resume && out.exists() {
            let earlier = Imatrix::open(out)?;
            run = run.resume(earlier).map_err(|error| Error::from(error).within(out))?;
        }
        // A resumed run replaces its own earlier output; any other file needs `overwrite`.
        let mut overwrite = self.call.overwrite || run.earlier().is_some();
        let mut save = |imatrix: &Imatrix| {
            write_file(out, &inputs, overwrite, &imatrix.to_bytes(form)?)?;
            overwrite = true;
            Ok(())
        };
        let (imatrix, is_new) = self.measure(&mut run, &mut save, Some(out))?;
        if is_new {
            for note in losses(&imatrix, form) {
                self.call.note(note);
            }
        }
        Ok(WrittenImatrix { path: out.to_owned(), imatrix, form, notes: self.call.notes })
    }

    /// Returns the input files, which are never overwritten.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = self.model.files();
        inputs.extend(self.running.text.as_ref().and_then(super::RunText::input));
        inputs
    }

    fn new_run(&self) -> Result<ImatrixRun> {
        let text = self.running.text()?;
        Ok(ImatrixRun::new(text.context_len())
            .with_dataset(text.name())
            .with_output(self.matrices != Matrices::Blocks)
            .with_save_every(self.save_every))
    }

    /// Measures the remaining chunks, and saves the matrix regularly and at the end. Returns the
    /// matrix, and `false` if no chunk remained.
    fn measure(
        &mut self,
        run: &mut ImatrixRun,
        save: &mut dyn FnMut(&Imatrix) -> Result<()>,
        out: Option<&Path>,
    ) -> Result<(Imatrix, bool)> {
        let catalogue = self.running.catalogue();
        let program =
            program_with_note(&self.model, &catalogue, self.running.graph, &mut self.call)?;
        refuse_interrupted(&self.model.files())?;
        if let Some(out) = out {
            let overwrite = self.call.overwrite || run.earlier().is_some();
            check_output(out, &self.inputs(), overwrite)?;
        }
        let chunks = self.running.text()?.read(&self.model)?;
        let (texts, done) = (chunks.texts(), run.done());
        let rest = texts.get(done..).unwrap_or_default();
        if let (Some(earlier), Some(out), []) = (run.earlier(), out, rest) {
            self.call.note(Note::NoChunkLeft(out.to_owned(), texts.len()));
            return Ok((earlier.clone(), false));
        }
        let runner = self.running.runner(self.call.threads);
        let runner = runner.map_err(|error| within(error, &self.model))?;
        let call = &mut self.call;
        call.report(Stage::Importance, done, texts.len(), "")?;
        let sums = activations(&runner, &program, rest, self.matrices, |sums, now| {
            call.report(Stage::Importance, done.saturating_add(now), texts.len(), "")?;
            if now < rest.len() && run.is_due(now) {
                save(&imatrix_of(run, sums, now)?)?;
            }
            Ok::<_, Error>(())
        });
        let sums = sums.map_err(|error| located(error, &self.model))?;
        let imatrix = imatrix_of(run, &sums, rest.len())?;
        save(&imatrix)?;
        note_unused_experts(&sums, &mut self.call);
        Ok((imatrix, true))
    }
}

/// An importance matrix that was written.
#[derive(Debug)]
pub struct WrittenImatrix {
    path: PathBuf,
    imatrix: Imatrix,
    form: ImatrixForm,
    notes: Vec<Note>,
}

impl WrittenImatrix {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the matrix.
    pub fn imatrix(&self) -> &Imatrix {
        &self.imatrix
    }

    /// Returns the format of the file.
    pub fn form(&self) -> ImatrixForm {
        self.form
    }

    /// Returns the facts worth knowing about the matrix.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

/// Merges importance matrices, as llama-imatrix `--in-file` does: the sums and counts of each tensor
/// are added. Both formats can be mixed; one file is converted.
///
/// ```no_run
/// let parts = ["a.gguf", "b.dat"].map(Into::into);
/// ggmill::merge_imatrices(&parts)?.write("both.gguf")?;
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn merge_imatrices(paths: &[PathBuf]) -> Result<MergeImatrices> {
    refuse_interrupted(paths)?;
    let parts = paths.iter().map(Imatrix::open).collect::<Result<Vec<_>, _>>()?;
    Ok(MergeImatrices { paths: paths.to_vec(), parts, chunk_size: 0, form: None, overwrite: false })
}

/// The options of [`merge_imatrices`].
#[derive(Debug)]
pub struct MergeImatrices {
    paths: Vec<PathBuf>,
    parts: Vec<Imatrix>,
    chunk_size: u32,
    form: Option<ImatrixForm>,
    overwrite: bool,
}

impl MergeImatrices {
    /// Sets the number of tokens per chunk. The default is that of the first file, or 512.
    #[must_use]
    pub fn chunk_size(mut self, tokens: u32) -> Self {
        self.chunk_size = tokens;
        self
    }

    /// Sets the format of the file: see [`MakeImatrix::form`].
    #[must_use]
    pub fn form(mut self, form: ImatrixForm) -> Self {
        self.form = Some(form);
        self
    }

    /// Replaces an output that exists. Without it, an existing output is an error.
    #[must_use]
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Merges the matrices, and writes no file.
    pub fn run(&self) -> Result<Imatrix> {
        Ok(Imatrix::merge(&self.parts, self.chunk_size)?)
    }

    /// Merges the matrices into a file.
    pub fn write(self, out: impl AsRef<Path>) -> Result<WrittenImatrix> {
        let out = out.as_ref();
        let form = self.form.unwrap_or_else(|| form_of_name(out));
        let imatrix = self.run()?;
        write_file(out, &self.paths, self.overwrite, &imatrix.to_bytes(form)?)?;
        let mut notes = losses(&imatrix, form);
        if imatrix.chunk_count() == 0 && self.parts.iter().any(|part| part.chunk_count() > 0) {
            notes.push(Note::NoWholeChunk(imatrix.chunk_size()));
        }
        Ok(WrittenImatrix { path: out.to_owned(), imatrix, form, notes })
    }
}

fn form_of_name(path: &Path) -> ImatrixForm {
    let is_legacy = path.extension().is_some_and(|extension| extension == "dat");
    if is_legacy { ImatrixForm::Legacy } else { ImatrixForm::Gguf }
}

/// Returns notes about data that the format cannot represent.
fn losses(imatrix: &Imatrix, form: ImatrixForm) -> Vec<Note> {
    if form != ImatrixForm::Legacy {
        return Vec::new();
    }
    let unmeasured = imatrix.entries().filter(|(_, entry)| !entry.is_used());
    let mut notes: Vec<Note> = unmeasured
        .map(|(name, _)| Note::UnmeasuredEntry(name.to_string_lossy().into_owned()))
        .collect();
    if imatrix.datasets().len() > 1 {
        notes.push(Note::LastDatasetOnly);
    }
    notes
}
