//! Many texts, or one long text, on several threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::error::Error;
use crate::models::Fragment;
use crate::options::EncodeOptions;
use crate::sink::{Count, Ids, Sink};
use crate::special::Part;
use crate::tokenizer::{Scratch, Tokenizer, added};

/// The bytes of a long text that one thread takes at once, if it can be cut there.
const PIECE: usize = 1 << 16;
/// How far a place is looked for where a text can be cut.
const NEAR: usize = 1 << 12;

/// A part of the work on the text of this number.
#[derive(Clone, Copy, Debug)]
struct Work {
    text: usize,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// The whole text.
    Whole,
    /// An existing token.
    Token(u32),
    /// The text from one position to another, and whether it follows a special token.
    Text(usize, usize, bool),
}

/// The result for a text, part by part.
trait Gathered: Default + Send {
    /// The sink for a part.
    type Sink<'a>: Sink
    where
        Self: 'a;
    /// Where the tokens of a part go.
    fn sink(&mut self) -> Self::Sink<'_>;
    /// Takes the result of the next part.
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
    /// The tokens of texts, on so many threads: for each text those of [`encode`](Self::encode).
    ///
    /// Long texts are divided as well, where the model allows it: between special tokens, and for
    /// most models at some of the spaces or line breaks. Fails where `encode` fails for a text.
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

    /// The number of tokens of each text, on so many threads. Fails as
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
        let mut work = Vec::new();
        let mut scratch = self.borrow();
        for (number, text) in texts.iter().enumerate() {
            self.divide(number, text.as_ref(), options, &mut scratch, &mut work)?;
        }
        self.give_back(scratch);
        let next = AtomicUsize::new(0);
        let some = || {
            let mut scratch = self.borrow();
            let mut done = Vec::new();
            while let place = next.fetch_add(1, Ordering::Relaxed)
                && let Some(work) = work.get(place)
            {
                let text = texts.get(work.text).map_or(&[][..], |text| text.as_ref());
                let mut result = R::default();
                let ended = self.part(work.what, text, options, &mut scratch, &mut result.sink());
                done.push((place, ended.map(|()| result)));
            }
            self.give_back(scratch);
            done
        };
        let threads = threads.get().min(work.len());
        let mut done = thread::scope(|scope| {
            // Where the system gives no more threads, those that there are do the work.
            let spawn = |_| thread::Builder::new().spawn_scoped(scope, some).ok();
            let others: Vec<_> = (1..threads).map_while(spawn).collect();
            let mut done = some();
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
        for ((_, result), work) in done.into_iter().zip(&work) {
            if let Some(all) = all.get_mut(work.text) {
                all.add(result?);
            }
        }
        Ok(all)
    }

    /// Divides the work on a text. The parts of a short one cost more than they bring.
    fn divide(
        &self,
        text: usize,
        bytes: &[u8],
        options: EncodeOptions,
        scratch: &mut Scratch,
        work: &mut Vec<Work>,
    ) -> Result<(), Error> {
        self.can_encode(bytes)?;
        let mut push = |what| work.push(Work { text, what });
        if bytes.len() < 2 * PIECE {
            push(What::Whole);
            return Ok(());
        }
        let (before, after) = added(self.vocabulary(), options);
        if let Some(id) = before {
            push(What::Token(id));
        }
        let mut after_special = true;
        self.parts(bytes, options, scratch, |part| match part {
            Part::Token(id, ..) => {
                push(What::Token(id));
                after_special = true;
            }
            Part::Text(mut start, end) => {
                while end - start >= 2 * PIECE {
                    let part = bytes.get(start..end).unwrap_or_default();
                    let Some(cut) = self.model().cut(part, PIECE, PIECE + NEAR) else { break };
                    push(What::Text(start, start + cut, after_special));
                    after_special = false;
                    start += cut;
                }
                push(What::Text(start, end, after_special));
                after_special = false;
            }
        })?;
        if let Some(id) = after {
            push(What::Token(id));
        }
        Ok(())
    }

    fn part(
        &self,
        what: What,
        text: &[u8],
        options: EncodeOptions,
        scratch: &mut Scratch,
        out: &mut impl Sink,
    ) -> Result<(), Error> {
        match what {
            What::Whole => return self.encode_into(text, options, None, scratch, out),
            What::Token(id) => out.push(id, 0, 0),
            What::Text(start, end, after_special) => {
                let text = text.get(start..end).unwrap_or_default();
                let fragment = Fragment { text, start, after_special };
                self.model().encode(self.vocabulary(), fragment, &mut scratch.model, out);
            }
        }
        Ok(())
    }
}
