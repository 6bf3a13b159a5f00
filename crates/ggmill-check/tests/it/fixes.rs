//! Automatic fixes: the example of a rule has the fix that its page describes.

use ggmill_check::{Fix, Options, Profile, rules};

use crate::examples::example;
use crate::support::report_named;

fn fix_of(code: &str) -> Option<Fix> {
    let (name, bytes) = example(code).unwrap();
    [Profile::All, Profile::Spec].into_iter().find_map(|profile| {
        let found = report_named(name, &bytes, &Options::default().with_profile(profile));
        found.diagnostics().iter().find(|diagnostic| diagnostic.rule.code == code)?.fix.clone()
    })
}

#[test]
fn fixes_match_the_pages() {
    for rule in rules() {
        let promised = rule.automatic.is_some();
        // The example of a rule whose fix is conditional may have none.
        let conditional =
            matches!(rule.code, "GG1102" | "GG1201" | "GG1504" | "GG1403" | "GG1404" | "GG1407");
        assert!(
            promised || fix_of(rule.code).is_none(),
            "{}: a fix that its page does not mention",
            rule.code
        );
        assert!(!promised || conditional || fix_of(rule.code).is_some(), "{}: no fix", rule.code);
    }
}

#[test]
fn fixes_say_what_they_do() {
    let said = |code: &str| fix_of(code).unwrap().to_string();
    assert_eq!(said("GG1011"), "rewrite the file");
    assert_eq!(said("GG1102"), "set general.file_type = 0 (u32)");
    assert_eq!(said("GG1104"), "set llama.attention.causal = true (bool)");
    assert_eq!(said("GG1111"), "set general.alignment = 32 (u32)");
    assert_eq!(said("GG1207"), "rename general.autor to general.author");
    assert_eq!(said("GG1401"), "set general.quantization_version = 2 (u32)");
    assert_eq!(said("GG1404"), "set general.file_type = 0 (u32)");
    assert_eq!(said("GG1504"), "set llama.context_length = 16 (u32)");
    assert_eq!(said("GG1610"), "set tokenizer.ggml.seperator_token_id = 1 (u32)");
    assert_eq!(said("GG1615"), "set tokenizer.ggml.fim_pre_token_id = 1 (u32)");
    assert_eq!(said("GG1904"), "remove split.count");
    assert_eq!(said("GG2010"), "set general.size_label = \"0.6K\" (string)");
    // Bytes that a rewritten file would lack prevent the fix.
    assert_eq!(fix_of("GG1311"), Some(Fix::Rewrite));
    let mut bytes = example("GG1013").unwrap().1;
    let found = report_named("Tiny-1K-v1.0.gguf", &bytes, &Options::default());
    assert!(
        found.diagnostics().iter().any(|diagnostic| diagnostic.rule.code == "GG1311")
            && found.diagnostics().iter().all(|one| one.fix.is_none())
    );
    // This also holds when the rule about those bytes is not selected.
    let options = Options::default().with_select(vec!["GG1311".parse().unwrap()]);
    bytes.extend_from_slice(&[7; 64]);
    assert!(
        report_named("Tiny-1K-v1.0.gguf", &bytes, &options)
            .diagnostics()
            .iter()
            .all(|one| one.fix.is_none())
    );
    // If two entries differ, the correct one is unknown.
    assert_eq!(fix_of("GG1201"), None);
}
