//! Any configuration and tensor names: a draft description loads, and is for the class that the
//! configuration names.

use ggmill_arch::{Architecture, Catalogue};
use ggmill_core::Shape;
use serde_json::Value;

/// Drafts a description for a checkpoint of this configuration, up to a zero byte, and of tensors
/// with these names, one per line.
pub fn start(data: &[u8]) {
    let mut parts = data.splitn(2, |&byte| byte == 0);
    let config = serde_json::from_slice::<Value>(parts.next().unwrap_or_default());
    let Ok(config) = config else { return };
    let names = String::from_utf8_lossy(parts.next().unwrap_or_default());
    let shape = Shape::new(&[64, 172]).expect("small");
    let tensors: Vec<(&str, Shape)> = names.split('\n').map(|name| (name, shape)).collect();
    let catalogue = Catalogue::new();
    let Some(start) = catalogue.starting_description(&config, &tensors) else { return };
    // The draft is printed, and names from a file must stay text in it.
    let control = start.text.chars().find(|&c| c.is_control() && c != '\n');
    assert_eq!(control, None, "{}", start.text.escape_debug());
    let architecture = Architecture::parse(&start.text).expect("a description that can be read");
    assert_eq!(architecture.name(), start.nearest);
    // Without a class, the description is for the model type.
    let classes: Vec<&str> = architecture.checkpoint_classes().collect();
    assert!(classes.is_empty() || classes == [&*start.class], "{classes:?}");
}
