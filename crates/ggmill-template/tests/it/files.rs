//! Templates in Jinja and JSON files.

use ggmill_core::{Builder, Model};
use ggmill_template::{ErrorKind, Feature, Template, TemplateFile, model_templates};

#[test]
fn a_plain_text_is_a_template() {
    for text in ["{{ messages }}", "", "[INST] {{ messages }}", "{% if %}", "7"] {
        let file = TemplateFile::parse(text).unwrap();
        assert_eq!(file.templates.len(), 1);
        assert_eq!((&file.templates[0].name, &*file.templates[0].text), (&None, text));
        assert!(file.tokens.is_empty());
    }
}

#[test]
fn configurations_have_templates_and_tokens() {
    let file = TemplateFile::parse(
        r#"{"bos_token": null, "eos_token": {"content": "</s>", "special": true},
        "pad_token": "<pad>", "unk_token": {"x": 1}, "mask_token": 3, "cls_token": "[CLS]",
        "chat_template": [{"name": "rag", "template": "R"}, {"name": "default", "template": "D"},
        {"name": "tool-Use", "template": "T"}, {"name": "rag", "template": "R2"}]}"#,
    )
    .unwrap();
    let found: Vec<_> = file.templates.iter().map(|it| (it.key(), &*it.text)).collect();
    let base = "tokenizer.chat_template";
    let expected =
        [(format!("{base}.rag"), "R2"), (base.to_owned(), "D"), (format!("{base}.tool_use"), "T")];
    assert_eq!(found, expected);
    assert_eq!(file.names(), ["rag", "tool_use"]);
    let token = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let expected =
        [token("eos_token", "</s>"), token("pad_token", "<pad>"), token("cls_token", "[CLS]")];
    assert_eq!(file.tokens, expected);
    // The metadata has the same templates, the default one first.
    let plan = Builder::new().metadata(file.to_metadata()).plan().unwrap();
    let model = Model::open(plan.header().to_vec()).unwrap();
    let found: Vec<_> = model_templates(&model.metadata()).into_iter().map(|it| it.text).collect();
    assert_eq!(found, ["D", "R2", "T"]);
}

#[test]
fn documents_without_a_template_are_refused() {
    for text in [
        "{}",
        r#"{"bos_token": "<s>"}"#,
        r#"{"chat_template": 1}"#,
        r#"{"chat_template": []}"#,
        r#"[{"name": "x"}]"#,
        "[]",
    ] {
        let error = TemplateFile::parse(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::Missing, "{text}");
    }
}

#[test]
fn features_are_found_by_names_and_tags() {
    let features = |text: &str| Template::parse(text).expect(text).features();
    assert_eq!(features("tools documents enable_thinking {# tools #}"), []);
    assert_eq!(
        features("{{ kwargs['tools'] }}{{ documents }}"),
        [Feature::Tools, Feature::Documents]
    );
    assert_eq!(
        features("{% if enable_thinking and add_generation_prompt %}{% endif %}"),
        [Feature::Thinking, Feature::GenerationPrompt]
    );
    assert_eq!(features("{% generation %}a{% endgeneration %}"), [Feature::GenerationBlocks]);
}
