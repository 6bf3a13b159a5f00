//! One file of a server: ranges of it, all of one content.

use std::io::Read;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::answer::{Answer, ContentRange, Validator};
use crate::client::{Ask, Client, Fault};
use crate::error::{Detail, Error, Result};
use crate::location::Location;
use crate::url::Url;

/// Bytes after which a connection that breaks off has not been in vain.
const PROGRESS: usize = 64 << 10;

/// A file that has been asked for once: its length and what tells its content.
#[derive(Debug)]
pub(crate) struct Target {
    client: Client,
    location: Location,
    name: String,
    /// Where to begin: at the commit that was found, where there is one.
    url: Url,
    /// Where redirects have led. Asked first; such addresses can expire.
    direct: Mutex<Option<Url>>,
    len: u64,
    validator: Validator,
    /// The server that gave the validator.
    origin: Url,
    commit: Option<String>,
}

/// The content of a file that is known from before.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) etag: String,
    /// The host that gave the tag.
    pub(crate) host: String,
    pub(crate) len: u64,
    pub(crate) beginning: Vec<u8>,
}

/// The first answer about a file.
pub(crate) struct First {
    pub(crate) target: Target,
    pub(crate) bytes: Vec<u8>,
    /// The rest of the file, from a server that sends it whole.
    pub(crate) stream: Option<Box<dyn Read + Send + Sync>>,
    /// Whether the bytes are those that were known.
    pub(crate) was_known: bool,
}

impl Target {
    /// Asks for the first bytes, which also says how long the file is.
    pub(crate) fn contact(
        client: &Client,
        location: &Location,
        first: u64,
        known: Option<&Known>,
    ) -> Result<First> {
        let ask = Ask {
            range: Some(0..first),
            unless: known.map(|known| (known.etag.as_str(), known.host.as_str())),
            ..Ask::default()
        };
        client.persist(|_| {
            // Where a bucket is can be news of the attempt before.
            let url = client.address(location)?;
            let answer = client.ask(location, &url, &ask)?;
            first_answer(client, location, &url, answer, first, known)
        })
    }

    /// This many bytes of the file have come.
    pub(crate) fn count(&self, bytes: usize) {
        self.client.count_bytes(bytes);
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The commit that the file was found at, on the Hub.
    pub(crate) fn commit(&self) -> Option<&str> {
        self.commit.as_deref()
    }

    /// The location, at the commit that was found.
    pub(crate) fn location(&self) -> Location {
        self.commit
            .as_deref()
            .map_or_else(|| self.location.clone(), |commit| self.location.at_commit(commit))
    }

    /// What this content can be known by later.
    pub(crate) fn known(&self, beginning: &[u8]) -> Option<Known> {
        Some(Known {
            etag: self.validator.strong_etag()?.to_owned(),
            host: self.origin.host().to_owned(),
            len: self.len,
            beginning: beginning.to_vec(),
        })
    }

    /// Fills `out` with the bytes from `offset` on, which are within the file.
    pub(crate) fn fetch(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        self.client.persist(|progress| {
            let before = filled;
            let result = self.attempt(offset, out, &mut filled);
            *progress = filled.saturating_sub(before) >= PROGRESS;
            result
        })
    }

    fn attempt(&self, offset: u64, out: &mut [u8], filled: &mut usize) -> Result<(), Fault> {
        let end = offset.saturating_add(out.len() as u64);
        while let Some(rest) = out.get_mut(*filled..).filter(|rest| !rest.is_empty()) {
            let asked = offset.saturating_add(*filled as u64)..end;
            let mut answer = self.ask(&asked)?;
            let sent = self.range_of(&answer, &asked)?;
            let expected =
                usize::try_from(sent.end.saturating_sub(sent.start)).unwrap_or(usize::MAX);
            let rest = rest.get_mut(..expected).unwrap_or_default();
            let read = fill(&mut answer.body, rest);
            self.client.count_bytes(read);
            *filled = filled.saturating_add(read);
            if read < expected {
                return Err(cut(&self.name, &asked, read));
            }
            let _ = answer.body.read(&mut [0]);
        }
        Ok(())
    }

    /// Asks for a range where the file was found last, or from the beginning again when that is
    /// refused: such addresses are good for a while.
    fn ask(&self, range: &Range<u64>) -> Result<Answer, Fault> {
        let ask = Ask {
            range: Some(range.clone()),
            only: Some((&self.origin, &self.validator)),
            unless: None,
        };
        let direct = self.lock().clone();
        if let Some(direct) = direct {
            match self.client.ask(&self.location, &direct, &ask) {
                Err(fault) if matches!(fault.error.status(), Some(400..=499)) => {
                    *self.lock() = None;
                }
                result => return result,
            }
        }
        let answer = self.client.ask(&self.location, &self.url, &ask)?;
        if answer.url != self.url {
            *self.lock() = Some(answer.url.clone());
        }
        Ok(answer)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Url>> {
        self.direct.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part of what was asked for that the answer has. Fails when it is of another content.
    fn range_of(&self, answer: &Answer, asked: &Range<u64>) -> Result<Range<u64>, Error> {
        let changed = |what, found: String, expected: String| {
            let (found, expected) = (found.into(), expected.into());
            Error::new(&self.name, Detail::Changed { what, found, expected })
        };
        if let Some((what, found, expected)) = self.validator.contradiction(&answer.validator) {
            return Err(changed(what, found.to_owned(), expected.to_owned()));
        }
        match (answer.status, &answer.range) {
            (206, Some(Ok(ContentRange::Bytes { total: Some(total), .. })))
            | (416, Some(Ok(ContentRange::Unsatisfied { total })))
                if *total != self.len =>
            {
                Err(changed("length", total.to_string(), self.len.to_string()))
            }
            (206, Some(Ok(ContentRange::Bytes { start, end, .. })))
                if *start == asked.start && *end <= asked.end && answer.encoding.is_none() =>
            {
                Ok(*start..*end)
            }
            (412, _) => {
                let tag = self.validator.etag.clone().or_else(|| self.validator.modified.clone());
                Err(changed("entity tag", "another".to_owned(), tag.unwrap_or_default()))
            }
            (200, _) => Err(Error::new(&self.name, Detail::NoRanges { asked: asked.clone() })),
            _ => Err(senseless(&self.name, asked, answer)),
        }
    }
}

/// What the first answer says of the file.
fn first_answer(
    client: &Client,
    location: &Location,
    url: &Url,
    mut answer: Answer,
    first: u64,
    known: Option<&Known>,
) -> Result<First, Fault> {
    let asked = 0..first;
    let name = location.to_string();
    let mut was_known = false;
    let (len, sent) = match (answer.status, &answer.range) {
        _ if answer.encoding.is_some() => return Err(senseless(&name, &asked, &answer).into()),
        (304, _) => match known {
            Some(known) => {
                was_known = true;
                (known.len, 0)
            }
            None => return Err(senseless(&name, &asked, &answer).into()),
        },
        (206, Some(Ok(ContentRange::Bytes { start: 0, end, total: Some(total) })))
            if *end <= first =>
        {
            (*total, *end)
        }
        (416, Some(Ok(ContentRange::Unsatisfied { total: 0 }))) => (0, 0),
        (200, _) => {
            let length = answer.length.ok_or_else(|| {
                let came = "the response does not specify the length of the file".into();
                Error::new(&name, Detail::Protocol { asked: None, came })
                    .advise(Some(crate::Advice::Download))
            })?;
            (length, length.min(first))
        }
        _ => return Err(senseless(&name, &asked, &answer).into()),
    };
    // No more than what was asked for.
    let mut bytes = vec![0; usize::try_from(sent).unwrap_or_default()];
    let read = fill(&mut answer.body, &mut bytes);
    client.count_bytes(read);
    if read < bytes.len() {
        return Err(cut(&name, &asked, read));
    }
    let mut stream = None;
    if answer.status == 200 && sent < len {
        stream = Some(answer.body);
    } else {
        let _ = answer.body.read(&mut [0]);
    }
    if let Some(known) = known.filter(|_| was_known) {
        bytes.clone_from(&known.beginning);
        answer.validator.etag.get_or_insert_with(|| known.etag.clone());
    }
    let commit = answer.commit.clone();
    let begin = match &commit {
        Some(commit) => client.address(&location.at_commit(commit))?,
        None => url.clone(),
    };
    let target = Target {
        client: client.clone(),
        location: location.clone(),
        name,
        direct: Mutex::new(Some(answer.url.clone()).filter(|found| found != url)),
        url: begin,
        len,
        validator: answer.validator,
        origin: answer.url,
        commit,
    };
    Ok(First { target, bytes, stream, was_known })
}

/// Reads until `out` is full or the body ends, and says how much that is.
pub(crate) fn fill(body: &mut dyn Read, out: &mut [u8]) -> usize {
    let mut filled = 0;
    while let Some(rest) = out.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match body.read(rest) {
            Ok(0) => break,
            Ok(read) => filled = filled.saturating_add(read),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // Whatever broke it off, asking again is all that can be done.
            Err(_) => break,
        }
    }
    filled
}

fn cut(name: &str, asked: &Range<u64>, read: usize) -> Fault {
    let last = format!(
        "the connection was interrupted {read} bytes into bytes {} to {}",
        asked.start, asked.end
    );
    let detail = Detail::Unavailable { attempts: 1, last: last.into() };
    Fault { error: Error::new(name, detail), passes: true, wait: None }
}

/// An answer that HTTP does not allow here.
fn senseless(name: &str, asked: &Range<u64>, answer: &Answer) -> Error {
    let came = match (answer.status, &answer.range, &answer.encoding) {
        (_, _, Some(encoding)) => format!("the response is compressed ({encoding})"),
        (206, None, _) => "the response is 206 without Content-Range".to_owned(),
        (206 | 416, Some(Err(text)), _) => {
            format!("the response is {} with Content-Range {text:?}", answer.status)
        }
        (206, Some(Ok(ContentRange::Bytes { start, end, total })), _) => match total {
            Some(_) => format!("the response contains bytes {start} to {end}"),
            None => "the response does not specify the length of the file".to_owned(),
        },
        (status, ..) => format!("the response is {status}"),
    };
    Error::new(name, Detail::Protocol { asked: Some(asked.clone()), came: came.into() })
}
