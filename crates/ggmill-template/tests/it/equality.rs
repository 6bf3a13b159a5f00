//! Compares renderings with Jinja's by recorded hashes. `renders.txt` documents their origin.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use ggmill_template::{Conversation, Json, Moment, RenderOptions, Template};
use sha2::{Digest as _, Sha256};

fn sum(text: &[u8]) -> String {
    let mut sum = String::new();
    for byte in Sha256::digest(text) {
        let _ = write!(sum, "{byte:02x}");
    }
    sum
}

struct Conversations {
    options: RenderOptions,
    conversations: Vec<(String, Conversation)>,
}

fn conversations() -> Conversations {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let text = fs::read_to_string(directory.join("conversations.json")).expect("conversations");
    let json = Json::parse(&text).expect("JSON");
    let Some(Json::Int(now)) = json.get("now") else { panic!("no time") };
    let now = Moment::from_unix(i64::try_from(*now).expect("a time"));
    let Some(Json::Array(list)) = json.get("conversations") else { panic!("no conversations") };
    let mut conversations = Vec::new();
    for entry in list {
        let name = entry.get("name").and_then(Json::as_str).expect("a name");
        let Some(Json::Object(variables)) = entry.get("context") else { panic!("no context") };
        let mut conversation = Conversation::new(Json::Array(Vec::new()));
        for (name, value) in variables {
            conversation = conversation.with_variable(name.as_str(), value.clone());
        }
        conversations.push((name.to_owned(), conversation));
    }
    Conversations { options: RenderOptions::new().with_now(now), conversations }
}

/// Renderings that are known to differ from Jinja, for reasons in `docs/exactness.md`.
const KNOWN: &[(&str, &str)] = &[];

#[test]
fn renders_equal_jinja() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut known = HashMap::new();
    let shared = tests.join("../../../../shared/data/chat/templates");
    for directory in [tests.join("templates"), shared] {
        let Ok(files) = fs::read_dir(&directory) else {
            println!("{} is absent: its templates are left out", directory.display());
            continue;
        };
        for file in files {
            let path = file.expect("a file").path();
            let text = fs::read_to_string(&path).expect("a template");
            known.insert(sum(text.as_bytes()), text);
        }
    }
    let Conversations { options, conversations } = conversations();
    let (mut renders, mut own, mut wrong) = (0, 0, Vec::new());
    let recorded = fs::read_to_string(tests.join("renders.txt")).expect("recorded sums");
    for line in recorded.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (name, key) = (words.next().expect("a name"), words.next().expect("a sum"));
        let Some(text) = known.get(key) else { continue };
        own += 1;
        let template = Template::parse(text);
        for ((title, conversation), expected) in conversations.iter().zip(words) {
            if KNOWN.contains(&(name, title)) {
                continue;
            }
            renders += 1;
            let rendered = template.clone().and_then(|it| it.render(conversation, &options));
            let found = rendered.as_ref().map(|found| sum(found.text().as_bytes()));
            let equal = match &found {
                Ok(found) => found.get(..16) == Some(expected),
                Err(_) => expected == "-",
            };
            if !equal {
                wrong.push(format!(
                    "{name}, {title}: {:?}",
                    rendered.map(|it| it.text().to_owned())
                ));
            }
        }
    }
    assert!(own >= 8 && renders >= 8 * 17, "{own} templates, {renders} renders");
    assert!(wrong.is_empty(), "{} of {renders}:\n{}", wrong.len(), wrong.join("\n"));
}
