//! Any bytes as the head of a request to the server of the inspector page.

use std::fmt::Write as _;

use ggmill_text::http::{Asked, Request, asked};

use crate::allocations::bounded;

/// Parses a head. Its formatted form parses to the same head, and the requested range is within a
/// file.
pub fn request(data: &[u8]) {
    let request = match bounded(data.len(), 1 << 12, 16, || Request::parse(data)) {
        Ok(request) => request,
        Err(refusal) => return assert!(matches!(refusal.status(), 400 | 505), "{refusal}"),
    };
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.target);
    for (name, value) in [("Host", &request.host), ("Range", &request.range)] {
        if let Some(value) = value {
            write!(head, "{name}: {value}\r\n").expect("a string is written");
        }
    }
    head.push_str("\r\n");
    assert_eq!(Request::parse(head.as_bytes()).as_ref(), Ok(&request), "{head:?}");
    for len in [0, 1, 10, u64::MAX] {
        match asked(request.range.as_deref(), len) {
            Asked::Part(start, end) => {
                assert!(start < end && end <= len, "{start} to {end} of {len}");
            }
            Asked::Whole | Asked::Outside => {}
        }
    }
}
