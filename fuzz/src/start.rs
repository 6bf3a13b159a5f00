//! Any configuration and names of tensors: a description to begin with is one that can be read, for
//! the class that the configuration names, whatever texts both have.

use ggmill_arch::{Architecture, Catalogue};
use serde_json::Value;

/// Makes a description to begin with for a checkpoint of this configuration, up to a zero byte, and
/// of tensors with these names, one in a line.
pub fn start(data: &[u8]) {
    let mut parts = data.splitn(2, |&byte| byte == 0);
    let config = serde_json::from_slice::<Value>(parts.next().unwrap_or_default());
    let Ok(config) = config else { return };
    let names = String::from_utf8_lossy(parts.next().unwrap_or_default());
    let names: Vec<&str> = names.split('\n').collect();
    let catalogue = Catalogue::new();
    let Some(start) = catalogue.starting_description(&config, &names) else { return };
    // It is printed, and what a file has must not become anything else than text there.
    let control = start.text.chars().find(|&c| c.is_control() && c != '\n');
    assert_eq!(control, None, "{}", start.text.escape_debug());
    let architecture = Architecture::parse(&start.text).expect("a description that can be read");
    assert_eq!(architecture.name(), start.nearest);
    // Where no class is named, the model type is what it is for.
    let classes: Vec<&str> = architecture.checkpoint_classes().collect();
    assert!(classes.is_empty() || classes == [&*start.class], "{classes:?}");
}
