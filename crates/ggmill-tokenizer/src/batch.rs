//! Encoding many texts, or one long text, on several threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::error::Error;
use crate::models::Fragment;
use crate::special::Part;
use crate::tokenizer::{Count, EncodeOptions, Ids, Scratch, Sink, Tokenizer, added};

/// The preferred size in bytes of a part of a long text.
const PART: usize = 1 << 16;
/// The distance in bytes after a part in which a position is searched where the text can be split.
const SEARCH: usize = 1 << 12;

/// A job: a part of the text with index `text`.
#[derive(Clone, Copy, Debug)]
struct Job {
    text: usize,
    kind: JobKind,
}

#[derive(Clone, Copy, Debug)]
enum JobKind {
    /// Encode the whole text.
    Whole,
    /// A token that was already found.
    Token(u32),
    /// Encode the range from one position to another, which follows a special token or not.
    Text(usize, usize, bool),
}

/// The result for a text, collected part by part.
trait Gathered: Default + Send {
    /// The sink of a part.
    type Sink<'a>: Sink
    where
        Self: 'a;
    /// Returns the sink for the tokens of a part.
    fn sink(&mut self) -> Self::Sink<'_>;
    /// Appends the result of the next part.
    fn add(&mut self, next: Self);
}

impl Gathered for Vec<u32> {
    type Sink<'a> = Ids<'a>;

    fn sink(&mut self) -> Ids<'_> {
        Ids(self)
    }

    fn add(&mut self, next: Self) {
        if self.is_empty() {
            *self = next;
        } else {
            self.extend_from_slice(&next);
        }
    }
}

impl Gathered for Count {
    type Sink<'a> = &'a mut Self;

    fn sink(&mut self) -> &mut Self {
        self
    }

    fn add(&mut self, next: Self) {
        self.0 = self.0.saturating_add(next.0);
    }
}

impl Tokenizer {
    /// Encodes texts on `threads` threads. The tokens of each text are those of
    /// [`encode`](Self::encode).
    ///
    /// Long texts are split where the model allows it: at special tokens, and for most models at
    /// some spaces or line breaks. Fails if `encode` fails for one of the texts.
    ///
    /// ```
    /// # fn of(tokenizer: &ggmill_tokenizer::Tokenizer) -> Result<(), ggmill_tokenizer::Error> {
    /// use ggmill_tokenizer::EncodeOptions;
    /// let threads = std::thread::available_parallelism().unwrap_or(std::num::NonZeroUsize::MIN);
    /// let ids = tokenizer.encode_batch(&["one text", "another"], &EncodeOptions::new(), threads)?;
    /// assert_eq!(ids.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn encode_batch<T: AsRef<[u8]> + Sync>(
        &self,
        texts: &[T],
        options: &EncodeOptions,
        threads: NonZeroUsize,
    ) -> Result<Vec<Vec<u32>>, Error> {
        self.batch(texts, *options, threads)
    }

    /// Returns the number of tokens of each text, counted on `threads` threads. Fails as
    /// [`encode_batch`](Self::encode_batch) does.
    pub fn count_batch<T: AsRef<[u8]> + Sync>(
        &self,
        texts: &[T],
        options: &EncodeOptions,
        threads: NonZeroUsize,
    ) -> Result<Vec<usize>, Error> {
        let counts: Vec<Count> = self.batch(texts, *options, threads)?;
        Ok(counts.into_iter().map(|count| count.0).collect())
    }

    fn batch<T: AsRef<[u8]> + Sync, R: Gathered>(
        &self,
        texts: &[T],
        options: EncodeOptions,
        threads: NonZeroUsize,
    ) -> Result<Vec<R>, Error> {
        let mut jobs = Vec::new();
        let mut scratch = self.borrow();
        for (number, text) in texts.iter().enumerate() {
            self.divide(number, text.as_ref(), options, &mut scratch, &mut jobs)?;
        }
        self.give_back(scratch);
        let next = AtomicUsize::new(0);
        let run_jobs = || {
            let mut scratch = self.borrow();
            let mut done = Vec::new();
            while let place = next.fetch_add(1, Ordering::Relaxed)
                && let Some(job) = jobs.get(place)
            {
                let text = texts.get(job.text).map_or(&[][..], |text| text.as_ref());
                let mut result = R::default();
                let ended = self.part(job.kind, text, options, &mut scratch, &mut result.sink());
                done.push((place, ended.map(|()| result)));
            }
            self.give_back(scratch);
            done
        };
        let threads = threads.get().min(jobs.len());
        let mut done = thread::scope(|scope| {
            // If the system refuses more threads, the existing ones do the work.
            let spawn = |_| thread::Builder::new().spawn_scoped(scope, run_jobs).ok();
            let others: Vec<_> = (1..threads).map_while(spawn).collect();
            let mut done = run_jobs();
            for other in others {
                match other.join() {
                    Ok(more) => done.extend(more),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            done
        });
        done.sort_unstable_by_key(|&(place, _)| place);
        let mut all: Vec<R> = texts.iter().map(|_| R::default()).collect();
        for ((_, result), job) in done.into_iter().zip(&jobs) {
            if let Some(all) = all.get_mut(job.text) {
                all.add(result?);
            }
        }
        Ok(all)
    }

    /// Appends the jobs for a text. A short text is one job, since splitting it costs more than it
    /// saves.
    fn divide(
        &self,
        text: usize,
        bytes: &[u8],
        options: EncodeOptions,
        scratch: &mut Scratch,
        jobs: &mut Vec<Job>,
    ) -> Result<(), Error> {
        self.can_encode(bytes)?;
        let mut push = |kind| jobs.push(Job { text, kind });
        if bytes.len() < 2 * PART {
            push(JobKind::Whole);
            return Ok(());
        }
        let (before, after) = added(self.vocabulary(), options);
        if let Some(id) = before {
            push(JobKind::Token(id));
        }
        let mut after_special = true;
        self.parts(bytes, options, scratch, |part| match part {
            Part::Token(id, ..) => {
                push(JobKind::Token(id));
                after_special = true;
            }
            Part::Text(mut start, end) => {
                while end - start >= 2 * PART {
                    let part = bytes.get(start..end).unwrap_or_default();
                    let Some(cut) = self.model().cut(part, PART, PART + SEARCH) else { break };
                    push(JobKind::Text(start, start + cut, after_special));
                    after_special = false;
                    start += cut;
                }
                push(JobKind::Text(start, end, after_special));
                after_special = false;
            }
        })?;
        if let Some(id) = after {
            push(JobKind::Token(id));
        }
        Ok(())
    }

    fn part(
        &self,
        kind: JobKind,
        text: &[u8],
        options: EncodeOptions,
        scratch: &mut Scratch,
        out: &mut impl Sink,
    ) -> Result<(), Error> {
        match kind {
            JobKind::Whole => return self.encode_into(text, options, None, scratch, out),
            JobKind::Token(id) => out.push(id, 0, 0),
            JobKind::Text(start, end, after_special) => {
                let text = text.get(start..end).unwrap_or_default();
                let fragment = Fragment { text, start, after_special };
                let model = &mut scratch.model;
                return self.model().encode(self.vocabulary(), fragment, model, out);
            }
        }
        Ok(())
    }
}
