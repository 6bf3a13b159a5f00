//! Every file of the corpus opens, or fails with the expected error.

use ggmill_core::{Header, Subject};
use ggmill_testdata::corpus::{self, About, Case, Expected};

/// Returns the difference from the expected outcome of a case, if any.
fn difference(case: &Case) -> Option<String> {
    let result = Header::parse_with(&case.bytes, &case.limits);
    let error = match (&result, case.expected) {
        (Ok(_), Expected::Opens) => return None,
        (Ok(_), Expected::Fails { .. }) => {
            return Some(format!("{}: opens, expected {:?}", case.name, case.expected));
        }
        (Err(error), _) => error,
    };
    let subject = match error.subject() {
        Some(Subject::Key(key)) => ("key", key.as_bytes()),
        Some(Subject::Tensor(name)) => ("tensor", name.as_bytes()),
        _ => ("file", &b""[..]),
    };
    let Expected::Fails { kind, offset, about } = case.expected else {
        return Some(format!("{}: {error:?}, expected it to open", case.name));
    };
    let expected = match about {
        About::File => ("file", &b""[..]),
        About::Key(key) => ("key", key.as_bytes()),
        About::Tensor(name) => ("tensor", name.as_bytes()),
    };
    let same = (error.kind(), error.offset(), subject) == (kind, offset, expected);
    (!same).then(|| {
        format!(
            "{}: {error:?} (offset {:?}), expected {:?}",
            case.name,
            error.offset(),
            case.expected
        )
    })
}

#[test]
fn every_file_has_the_expected_outcome() {
    let differences: Vec<String> = corpus::all().iter().filter_map(difference).collect();
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}
