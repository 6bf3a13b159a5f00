//! Every file of the corpus is answered as it says.

use ggmill_core::{Gguf, Subject};
use ggmill_testdata::corpus::{self, About, Case, Expected};

/// What is wrong with the answer to a case, if anything.
fn complaint(case: &Case) -> Option<String> {
    let result = Gguf::parse_with(&case.bytes, &case.limits);
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
fn every_file_is_answered_as_it_says() {
    let complaints: Vec<String> = corpus::all().iter().filter_map(complaint).collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}
