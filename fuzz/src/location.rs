//! Addresses, and the settings of other programs: text that users copy from elsewhere.

use ggmill_remote::{Location, Profile, S3Credentials};

/// Parses an address. Its display parses to the same address, and its siblings are in the same
/// place.
pub fn location(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let parsed = Location::parse(&text);
    if let Err(error) = &parsed {
        let query = error.name().split_once('?').map(|(_, query)| query);
        assert!(matches!(query, None | Some("…")), "{text:?} is refused as {error}");
    }
    if let Ok(Some(location)) = parsed {
        let again = Location::parse(&location.to_address());
        assert_eq!(again.ok().flatten().as_ref(), Some(&location), "{text:?}");
        let shown = location.to_string();
        // The display omits the query.
        if !shown.contains("?…") {
            let again = Location::parse(&shown);
            assert_eq!(
                again.ok().flatten().as_ref(),
                Some(&location),
                "{text:?} shows as {shown:?}"
            );
        }
        if location.file_name().is_some() {
            let beside = location.with_file_name("x-00001-of-00002.gguf");
            assert_eq!(beside.file_name(), Some("x-00001-of-00002.gguf"), "{text:?}");
            let back = beside.with_file_name("y.gguf").with_file_name("x-00001-of-00002.gguf");
            assert_eq!(back, beside);
            let set: Vec<_> = beside.siblings().into_iter().flatten().collect();
            assert_eq!((set.len(), set.first()), (2, Some(&beside)));
        }
    }
    let (config, credentials) = text.split_once('\0').unwrap_or((&text, ""));
    let name = config.lines().next().unwrap_or_default();
    for name in ["default", name] {
        if let Some(profile) = Profile::find(name, config, credentials) {
            // Keys appear only where they are meant to.
            let shown = format!("{profile:?}");
            assert!(!shown.contains("Secret(\""), "{shown}");
        }
    }
    let _ = S3Credentials::from_process(data);
}
