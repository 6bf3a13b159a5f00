//! The public API as a list in the repository: a change of the API changes `api.txt`.

use std::fmt::Write as _;
use std::path::Path;

/// Set to write the list instead of comparing it.
const UPDATE: &str = "GGMILL_UPDATE_API";

#[test]
fn the_list_of_the_public_api_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    collect(&root.join("src"), &mut sources);
    sources.sort();
    let mut list = String::new();
    for path in sources {
        let items = items(&std::fs::read_to_string(&path).unwrap());
        if items.is_empty() {
            continue;
        }
        let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
        write!(list, "# {name}\n{}\n\n", items.join("\n")).unwrap();
    }
    let file = root.join("api.txt");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&file, list).unwrap();
        return;
    }
    let recorded = std::fs::read_to_string(&file).unwrap_or_default();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (found, recorded) = (lines(&list), lines(&recorded));
    let added: Vec<_> = found.iter().filter(|line| !recorded.contains(line)).collect();
    let removed: Vec<_> = recorded.iter().filter(|line| !found.contains(line)).collect();
    assert!(
        found == recorded,
        "api.txt is out of date; set {UPDATE}=1 to write it\nadded: {added:#?}\nremoved: {removed:#?}"
    );
}

fn collect(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the public items of a source file, one per line, each after the block that contains it.
/// The source is formatted, so an indented line belongs to the block above it.
fn items(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut block, mut is_open_enum) = (String::new(), false);
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        let (text, indent) = (line.trim(), line.len() - line.trim_start().len());
        if text.starts_with("//") || text.starts_with("#[") || text.is_empty() {
            continue;
        }
        if indent == 0 {
            block = String::new();
            is_open_enum = false;
            if ["impl", "macro_rules!", "trait"].iter().any(|word| text.starts_with(word)) {
                block = format!("{}: ", text.trim_end_matches('{').trim_end());
            }
        }
        // Methods of a trait implementation are public without the keyword.
        let implements = block.starts_with("impl") && block.contains(" for ");
        let is_variant = is_open_enum && indent == 4 && text.starts_with(char::is_uppercase);
        let is_variant = is_variant || is_open_enum && indent == 8;
        let is_call = block.starts_with("impl") && indent == 4 && text.contains("_options!(");
        if is_variant || is_call {
            found.push(format!("{block}{}", text.trim_end_matches([',', '{', ';']).trim_end()));
        } else if text.starts_with("pub ") && !implements {
            let mut item = text.to_owned();
            let is_field = indent > 0 && text.ends_with(',');
            let ends = if text.starts_with("pub use") { &[';'][..] } else { &['{', ';', '}'] };
            while !is_field && !item.ends_with(ends) {
                let Some(next) = lines.next() else { break };
                item = format!("{item} {}", next.trim());
            }
            if text.starts_with("pub enum") || text.starts_with("pub struct") {
                let name = text.split([' ', '<', '(']).nth(2).unwrap_or_default();
                block = format!("{name}: ");
                is_open_enum = text.starts_with("pub enum");
                let item = item.trim_end_matches(['{', ';']).trim_end();
                // The fields of these types are private.
                found.push(item.split_once('(').map_or(item, |(item, _)| item).to_owned());
            } else {
                let item = item.trim_end_matches(['{', ';', ',']).trim_end();
                found.push(format!("{block}{item}"));
            }
        }
    }
    found
}
