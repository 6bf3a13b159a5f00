//! Scores of parts of a text, and merging them.

use ggmill_run::{
    Chunks, Error, ErrorKind, Measurement, Options, Program, Runner, Scores, measure,
    scores_together,
};

use crate::models::{CASES, Case};

const CONTEXT: usize = 16;

fn chunks() -> Chunks {
    let tokens: Vec<u32> = (0..90u32).map(|place| (place * place * 7 + place / 3) % 259).collect();
    Chunks::of(&tokens, CONTEXT, Some(1)).unwrap()
}

/// Returns the scores of a part, serialized and parsed.
fn part(
    program: &Program<'_>,
    base: Option<&Program<'_>>,
    (first, most): (usize, Option<usize>),
) -> Vec<u8> {
    let runner = Runner::new(Options::default()).unwrap();
    let chunks = chunks().part(first, most).unwrap();
    let watch = |_: ggmill_run::MeasureProgress<'_>| Ok::<_, Error>(());
    let found = scores_together(&runner, &[program], base, &chunks, false, watch).unwrap();
    let models = found.into_iter().map(|scores| ("m.gguf".to_owned(), scores));
    let scores = Scores::new(base.map(|_| "base.gguf".to_owned()), CONTEXT, models);
    let json = serde_json::to_vec(&scores).unwrap();
    assert_eq!(Scores::parse(&json).unwrap(), scores, "no digit is lost");
    json
}

fn whole(program: &Program<'_>, base: Option<&Program<'_>>) -> Measurement {
    let runner = Runner::new(Options::default()).unwrap();
    measure(&runner, program, base, &chunks(), false, |_| Ok::<_, Error>(())).unwrap()
}

fn case(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).unwrap()
}

#[test]
fn merged_parts_equal_the_whole() {
    for (name, other) in [("llama", Some("gemma")), ("llama", None), ("bert", Some("bert"))] {
        let model = case(name).model();
        let program = Program::of(&model, case(name).described()).unwrap();
        let other = other.map(|other| (case(other), case(other).model()));
        let base =
            other.as_ref().map(|(case, model)| Program::of(model, case.described()).unwrap());
        let base = base.as_ref();
        let parts = [(3, None), (0, Some(1)), (1, Some(2))]
            .map(|range| Scores::parse(&part(&program, base, range)).unwrap());
        let merged = Scores::merge(parts).unwrap();
        assert_eq!((merged.base().is_some(), merged.context()), (base.is_some(), CONTEXT));
        let found: Vec<Measurement> =
            merged.models().map(|(_, scores)| scores.measurement()).collect();
        assert_eq!(found, [whole(&program, base)], "{name}");
    }
}

#[test]
fn parts_that_do_not_match_are_errors() {
    let model = case("llama").model();
    let program = Program::of(&model, case("llama").described()).unwrap();
    let scores = |range, base| Scores::parse(&part(&program, base, range)).unwrap();
    let [first, second] = [(0, Some(2)), (2, None)].map(|range| scores(range, None));
    let with_base = scores((2, None), Some(&program));
    let refused = |parts: &[&Scores]| {
        let error = Scores::merge(parts.iter().copied().cloned()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Scores);
        error.to_string()
    };
    assert_eq!(refused(&[]), "expected at least one part");
    assert_eq!(refused(&[&first, &second, &second]), "chunk 2 is in two parts");
    assert_eq!(refused(&[&first, &scores((3, None), None)]), "chunk 2 is in no part");
    assert_eq!(refused(&[&first, &with_base]), "the parts have different bases or chunk lengths");

    let changed = |from: &str, to: &str| {
        let json = String::from_utf8(part(&program, None, (2, None))).unwrap();
        assert!(json.contains(from), "{json}");
        Scores::parse(json.replacen(from, to, 1).as_bytes())
    };
    let other = changed("m.gguf", "n.gguf").unwrap();
    assert_eq!(refused(&[&first, &other]), "the parts are of different models");
    for (from, to, expected) in [
        ("scores/1", "scores/2", "schema \"ggmill.scores/2\", expected \"ggmill.scores/1\""),
        ("\"chunks\":3", "\"chunks\":4", "21 positions in 4 chunks"),
        ("\"chunks\":3", "\"chunks\":0", "21 positions in 0 chunks"),
        ("\"first_chunk\":2", "\"first_chunk\":18446744073709551615", "is out of range"),
        ("\"surprise\"", "\"other\"", "expected the column surprise or cosine"),
        (
            "\"surprise\"",
            "\"base\":{\"surprise\":[],\"divergence\":[],\"same_top\":[]},\"surprise\"",
            "columns of different lengths",
        ),
        ("[", "{", "not a document of scores"),
    ] {
        let error = changed(from, to).unwrap_err();
        assert!(error.to_string().contains(expected), "{to}: {error}");
    }
}

#[test]
fn a_part_without_chunks_is_an_error() {
    let error = chunks().part(5, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooShort);
    let expected = "there is no chunk 5: the text has 5 chunks of 16 tokens, numbered from 0";
    assert_eq!(error.to_string(), expected);
    let part = chunks().part(1, Some(3)).unwrap().part(1, None).unwrap();
    assert_eq!((part.first(), part.texts()), (2, &chunks().texts()[2..4]));
}
