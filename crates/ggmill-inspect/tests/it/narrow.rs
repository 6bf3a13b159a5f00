//! Tables on narrow terminals: no line is longer than the terminal, and nothing is left out.

use ggmill_core::{Builder, GgmlType, MetadataBuf, Model, Shape};
use ggmill_inspect::diff::{DataDiff, Diff, NumericDiff, text};
use ggmill_inspect::text::{Candidate, Options, write_comparison};
use ggmill_inspect::{Selection, TypeUse};
use unicode_width::UnicodeWidthStr as _;

const WIDTHS: [usize; 6] = [40, 48, 60, 72, 80, 120];

fn at(width: usize) -> Options {
    Options::default().with_width(width)
}

/// Fails for a line that is too long, except for a line with only a name, which is not cut.
fn fits(text: &str, width: usize) {
    let is_name = |line: &&str| line.strip_prefix("  ~ ").is_some_and(|name| !name.contains(' '));
    for line in text.lines().filter(|line| !is_name(line)) {
        assert!(line.width() <= width, "{} columns of {width}: {line}\n{text}", line.width());
    }
}

fn model(file_type: u32, name: &str, ggml_type: GgmlType) -> Model {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "llama");
    metadata.set("general.name", name);
    metadata.set("general.file_type", file_type);
    metadata.set(
        "llama.attention.layer_norm_rms_epsilon",
        1e-5f32 * if file_type == 3 { 1.0 } else { 2.0 },
    );
    let shape = Shape::new(&[256, 4]).unwrap();
    let plan = Builder::new()
        .metadata(metadata)
        .tensor("blk.0.attn_output.weight", ggml_type, shape)
        .tensor("output.weight", ggml_type, shape)
        .plan()
        .unwrap();
    let mut file = vec![0; usize::try_from(plan.total_len()).unwrap()];
    file[..plan.header().len()].copy_from_slice(plan.header());
    Model::open(file).unwrap()
}

fn compared(options: &Options) -> String {
    let long = "A name that is longer than any narrow terminal has columns, or so";
    let (a, b) = (model(3, long, GgmlType::Q4_1), model(15, &format!("{long}!"), GgmlType::Q4_K));
    let mut diff = Diff::of(&a, &b, &Selection::default()).unwrap();
    for pair in 0..2 {
        let numeric = NumericDiff {
            max_abs: 0.012_345,
            max_at: Some(3),
            rmse: 0.001_234_5,
            relative: Some(0.0432),
            cosine: Some(0.999_123),
            non_finite: 0,
        };
        let data = DataDiff { numeric: Some(numeric), ..DataDiff::default() };
        diff.set_data(pair, data);
    }
    let mut out = Vec::new();
    text::write(&mut out, &diff, ["a.gguf", "b.gguf"], options).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn differences_fit_the_terminal() {
    for width in WIDTHS {
        let text = compared(&at(width));
        fits(&text, width);
        for words in ["blk.0.attn_output.weight", "relative 4.320e-2", "cosine 0.999123"] {
            assert!(text.contains(words), "{width}: {words}\n{text}");
        }
    }
    insta::assert_snapshot!(compared(&at(40)));
    insta::assert_snapshot!("differences_at_80_columns", compared(&at(80)));
}

#[test]
fn file_types_have_names_in_differences() {
    let text = compared(&Options::default());
    assert!(text.contains("general.file_type"), "{text}");
    assert!(text.contains("u32 3 (Q4_1) → 15 (Q4_K_M)"), "{text}");
}

#[test]
fn candidates_fit_the_terminal() {
    let shapes = [4096, 2048, 1024].map(|elements| Shape::new(&[elements]).unwrap());
    let types = TypeUse::tally([
        (GgmlType::Q4_K, &shapes[0], Some(2304)),
        (GgmlType::Q6_K, &shapes[1], Some(1680)),
        (GgmlType::Q8_0, &shapes[2], Some(1088)),
    ]);
    let refused = Candidate::new("IQ2_XXS", 1_234_567, types.clone())
        .with_remark(Some("IQ2_XXS needs importance weights for output.weight".to_owned()));
    let candidates = [Candidate::new("Q4_K_M", 24_400_000, types), refused];
    let shown = |width| {
        let mut out = Vec::new();
        write_comparison(&mut out, &candidates, Some(98_000_000), &at(width)).unwrap();
        String::from_utf8(out).unwrap()
    };
    for width in WIDTHS {
        let text = shown(width);
        fits(&text, width);
        for words in ["Q4_K_M", "24.9%", "Q6_K 33%", "importance weights"] {
            assert!(text.replace("\n  ", " ").contains(words), "{width}: {words}\n{text}");
        }
    }
    insta::assert_snapshot!(shown(40));
}
