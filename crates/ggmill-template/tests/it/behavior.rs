//! Unexpected behavior of templates.

use ggmill_template::{Moment, RenderOptions, Template, behaviors};

/// A directory of chat templates of published models, which are not bundled.
const TEMPLATES: &str = "GGMILL_TEMPLATES";

fn found(text: &str) -> Vec<String> {
    let template = Template::parse(text).expect("it parses");
    let options = RenderOptions::new().with_usual_tokens().with_now(Moment::from_unix(0));
    behaviors(&template, &options)
        .into_iter()
        .map(|found| format!("{:?}: {}", found.kind, found.message))
        .collect()
}

#[test]
fn templates_of_published_models_behave_as_expected() {
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/../ggmill-convert/data/templates");
    let more = std::env::var(TEMPLATES).ok();
    let mut alarms = Vec::new();
    for directory in [bundled.to_owned()].into_iter().chain(more) {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("readable").path();
            if path.extension().is_some_and(|extension| extension == "jinja") {
                let text = std::fs::read_to_string(&path).expect("readable");
                let name = path.file_name().unwrap_or_default().display().to_string();
                let start = std::time::Instant::now();
                alarms.extend(found(&text).into_iter().map(|found| format!("{name}: {found}")));
                println!("{name} {:?}", start.elapsed());
            }
        }
    }
    assert!(alarms.is_empty(), "{alarms:#?}");
}

/// Templates with unexpected behavior, one for each file, and the kinds that are found.
const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/behaviors");

#[test]
fn unexpected_behavior_is_found() {
    let mut wrong = Vec::new();
    let (mut count, mut hits) = (0, 0);
    for entry in std::fs::read_dir(CORPUS).expect("a directory") {
        let path = entry.expect("readable").path();
        let name = path.file_stem().unwrap_or_default().display().to_string();
        let text = std::fs::read_to_string(&path).expect("readable");
        let found = found(&text);
        let expected = match name.split('-').next().unwrap_or_default() {
            "gated" | "macro" | "namespace" | "set" | "call" | "filter" => Some("Gated"),
            "encoded" if name == "encoded-trigger" => Some("Gated"),
            "encoded" | "hidden" => Some("Concealed"),
            "address" => Some("Address"),
            "tool" => Some("Tool"),
            "overriding" => Some("Overriding"),
            "undetermined" => Some("Undetermined"),
            // Behavior that rendering cannot tell from that of ordinary templates.
            _ => None,
        };
        count += 1;
        hits += usize::from(!found.is_empty());
        let fits = match expected {
            Some(kind) => found.iter().any(|found| found.starts_with(kind)),
            None => found.is_empty(),
        };
        if !fits {
            wrong.push(format!("{name}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!((hits, count), (47, 50));
}
