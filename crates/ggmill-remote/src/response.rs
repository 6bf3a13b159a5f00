//! The relevant header fields of a response.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use ureq::http::HeaderMap;

use crate::url::Url;

/// The version of a file, from the first response. Later requests require it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Validator {
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
}

impl Validator {
    /// Returns the entity tag if it is strong, so that it identifies the exact bytes.
    pub(crate) fn strong_etag(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/"))
    }

    /// Returns the first contradiction to another validator: the field, found and expected.
    pub(crate) fn contradiction<'a>(
        &'a self,
        found: &'a Self,
    ) -> Option<(&'static str, &'a str, &'a str)> {
        let differs = |name, found: &'a Option<String>, expected: &'a Option<String>| {
            let (found, expected) = (found.as_deref()?, expected.as_deref()?);
            (found != expected).then_some((name, found, expected))
        };
        // Servers of one service can have different times, so entity tags take precedence.
        if self.etag.is_some() && found.etag.is_some() {
            return differs("entity tag", &found.etag, &self.etag);
        }
        differs("last modified", &found.modified, &self.modified)
    }
}

/// The header field `Content-Range`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentRange {
    /// The bytes `start..end` of a file of `total` bytes, if known.
    Bytes { start: u64, end: u64, total: Option<u64> },
    /// No bytes: the requested range is not in the file of `total` bytes.
    Unsatisfied { total: u64 },
}

impl ContentRange {
    fn parse(text: &str) -> Option<Self> {
        let rest = text.trim().strip_prefix("bytes")?.trim_start_matches([' ', '=']);
        let (range, total) = rest.split_once('/')?;
        let total = total.trim();
        if range.trim() == "*" {
            return Some(Self::Unsatisfied { total: total.parse().ok()? });
        }
        let (start, last) = range.split_once('-')?;
        let (start, last): (u64, u64) = (start.trim().parse().ok()?, last.trim().parse().ok()?);
        let total = if total == "*" { None } else { Some(total.parse::<u64>().ok()?) };
        let end = last.checked_add(1)?;
        (start < end && total.is_none_or(|total| end <= total)).then_some(Self::Bytes {
            start,
            end,
            total,
        })
    }
}

/// A response whose body has not been read.
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The URL after redirects.
    pub(crate) url: Url,
    /// The commit on the Hub.
    pub(crate) commit: Option<String>,
    /// `Content-Range`: `None` if it is missing, an error with its text if it is not valid.
    pub(crate) range: Option<Result<ContentRange, String>>,
    /// The length of the body in bytes.
    pub(crate) length: Option<u64>,
    pub(crate) validator: Validator,
    /// `Content-Encoding`, if it is not `identity`.
    pub(crate) encoding: Option<String>,
    /// The URL of the next page of a listing.
    pub(crate) next: Option<String>,
    pub(crate) body: Box<dyn Read + Send + Sync>,
}

/// Returns the value of a header field, if it is not empty.
pub(crate) fn field<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|value| !value.is_empty())
}

impl Response {
    pub(crate) fn new(
        response: ureq::http::Response<ureq::Body>,
        url: Url,
        commit: Option<String>,
        patience: Duration,
    ) -> Self {
        let headers = response.headers();
        let owned = |name| field(headers, name).map(str::to_owned);
        let next = headers.get_all("link").iter().find_map(|link| next_page(link.to_str().ok()?));
        Self {
            status: response.status().as_u16(),
            url,
            commit,
            range: field(headers, "content-range")
                .map(|text| ContentRange::parse(text).ok_or_else(|| text.to_owned())),
            length: field(headers, "content-length").and_then(|text| text.parse().ok()),
            validator: Validator { etag: owned("etag"), modified: owned("last-modified") },
            encoding: owned("content-encoding").filter(|name| name != "identity"),
            next,
            body: Box::new(Paced::new(response.into_body().into_reader(), patience)),
        }
    }
}

/// The fewest bytes per second, on average over the time without progress that a client allows. A slower
/// server would hold a command open forever with one byte at a time.
const MIN_RATE: f64 = 1024.0;

/// A body that fails if it is slower than [`MIN_RATE`]. Only the time in which the server is waited for
/// counts.
pub(crate) struct Paced<R> {
    body: R,
    window: Duration,
    waited: Duration,
    /// Bytes that were received in the window.
    received: f64,
}

impl<R: Read> Paced<R> {
    pub(crate) fn new(body: R, window: Duration) -> Self {
        Self { body, window, waited: Duration::ZERO, received: 0.0 }
    }
}

impl<R: Read> Read for Paced<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let begun = Instant::now();
        let read = self.body.read(out)?;
        self.waited = self.waited.saturating_add(begun.elapsed());
        self.received += f64::from(u32::try_from(read).unwrap_or(u32::MAX));
        if read > 0 && self.waited >= self.window {
            if self.received < MIN_RATE * self.waited.as_secs_f64() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            (self.waited, self.received) = (Duration::ZERO, 0.0);
        }
        Ok(read)
    }
}

/// Returns the URL in `<https://…>; rel="next"`.
fn next_page(link: &str) -> Option<String> {
    link.split(',').find_map(|part| {
        let (address, rest) = part.trim().strip_prefix('<')?.split_once('>')?;
        rest.contains("rel=\"next\"").then(|| address.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::{ContentRange, Validator, next_page};

    #[test]
    fn ranges_are_parsed_or_rejected() {
        let bytes = |start, end, total| Some(ContentRange::Bytes { start, end, total });
        for (text, range) in [
            ("bytes 0-9/10", bytes(0, 10, Some(10))),
            ("bytes 5-5/*", bytes(5, 6, None)),
            ("bytes */7", Some(ContentRange::Unsatisfied { total: 7 })),
            ("bytes 0-9/5", None),
            ("bytes 9-5/10", None),
            ("bytes 0-18446744073709551615/*", None),
            ("items 0-9/10", None),
            ("bytes 0-9", None),
            ("bytes -1-2/3", None),
        ] {
            assert_eq!(ContentRange::parse(text), range, "{text}");
        }
    }

    #[test]
    fn entity_tags_take_precedence_over_times() {
        let validator = |etag: &str, modified: &str| {
            let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            Validator { etag: some(etag), modified: some(modified) }
        };
        let first = validator("\"a\"", "Mon");
        assert!(first.contradiction(&validator("\"b\"", "Mon")).is_some());
        assert!(first.contradiction(&validator("\"a\"", "Tue")).is_none());
        assert!(first.contradiction(&validator("", "Tue")).is_some());
        assert!(first.contradiction(&validator("", "")).is_none());
        assert_eq!(validator("W/\"a\"", "").strong_etag(), None);
    }

    #[test]
    fn the_next_page_is_found() {
        let link = "<https://h/a?cursor=x>; rel=\"next\", <https://h/>; rel=\"first\"";
        assert_eq!(next_page(link).as_deref(), Some("https://h/a?cursor=x"));
        assert_eq!(next_page("<https://h/>; rel=\"prev\""), None);
    }
}
