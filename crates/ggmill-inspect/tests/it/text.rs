//! Text output.

use ggmill_arch::Catalogue;
use ggmill_inspect::text::Options;
use ggmill_testdata::real;
use unicode_width::UnicodeWidthStr as _;

use crate::support::{open, shown, small_model};

fn at(width: usize) -> Options {
    Options::default().with_width(width)
}

#[test]
fn a_model_at_60_columns() {
    insta::assert_snapshot!(shown(&small_model(), "small.gguf", at(60)));
}

#[test]
fn a_model_at_100_columns() {
    insta::assert_snapshot!(shown(&small_model(), "small.gguf", at(100)));
}

#[test]
fn a_model_without_a_terminal() {
    insta::assert_snapshot!(shown(&small_model(), "small.gguf", Options::default()));
}

#[test]
fn a_real_vocabulary() {
    let name = "ggml-vocab-phi-3.gguf";
    insta::assert_snapshot!(shown(&open(&real(name)), name, at(100)));
}

#[test]
fn a_real_model_of_an_unknown_architecture() {
    let name = "mobilenetv3_3class_v3_fp16.gguf";
    insta::assert_snapshot!(shown(
        &open(&real(name)),
        name,
        at(100).with_tensor_rows(12).with_rest_hint("--tensors lists all")
    ));
}

/// Nothing wraps on a terminal of ordinary width.
#[test]
fn lines_fit_the_terminal() {
    let files = [
        small_model(),
        open(&real("ggml-vocab-phi-3.gguf")),
        open(&real("mobilenetv3_3class_v3_fp16.gguf")),
    ];
    for width in [60, 72, 80, 100, 200] {
        for line in files.iter().flat_map(|file| {
            shown(file, "model.gguf", at(width)).lines().map(str::to_owned).collect::<Vec<_>>()
        }) {
            assert!(line.width() <= width, "{} columns of {width}: {line}", line.width());
        }
    }
}

/// Without a terminal, names are not cut.
#[test]
fn names_are_whole_without_a_terminal() {
    let file = open(&real("mobilenetv3_3class_v3_fp16.gguf"));
    let text = shown(&file, "model.gguf", Options::default());
    for tensor in file.tensors() {
        assert!(text.contains(&format!("  {}  ", tensor.name())), "{}", tensor.name());
    }
}

#[test]
fn full_shows_every_element() {
    let text = shown(&small_model(), "small.gguf", at(60).with_full(true));
    assert!(text.contains("\"token0\", \"token1\"") && text.contains("\"token299\"]"));
    assert_eq!(text.matches("message.content").count(), 20);
}

/// On a narrow terminal names and numbers are not cut; a long name has a separate line.
#[test]
fn names_and_numbers_are_whole_on_a_narrow_terminal() {
    let file = small_model();
    let keys: Vec<String> = file.metadata().iter().map(|entry| entry.key().to_string()).collect();
    assert!(keys.iter().any(|key| key.len() > 30), "{keys:?}");
    for width in [30, 40, 50, 59] {
        let narrow = shown(&file, "model.gguf", at(width));
        for key in &keys {
            assert!(narrow.contains(&**key), "{width}: {key}: {narrow}");
        }
        assert!(!narrow.lines().any(|line| line.ends_with('·')), "{narrow}");
    }
}

#[test]
fn architectures_fit_a_narrow_terminal_and_are_whole() {
    let list = ggmill_inspect::architectures::listed(&Catalogue::new(), Some("llama"));
    for width in [30, 50, 70] {
        let mut out = Vec::new();
        ggmill_inspect::architectures::write_text(&mut out, &list, &at(width)).unwrap();
        let text = String::from_utf8(out).unwrap();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for listed in &list {
            let classes = listed.classes.join(", ");
            assert!(words.contains(&classes), "{width}: {classes}: {text}");
        }
        // A word that has no room is whole; the count below the list is a sentence.
        let fits = |line: &str| line.width() <= width || line.split_whitespace().count() <= 2;
        let list = text.trim_end().rsplit_once('\n').map_or(&*text, |(list, _)| list);
        assert!(list.lines().all(fits), "{width}: {text}");
    }
}
