//! Origins of the parts of a rendered text.

use ggmill_template::{Conversation, Json, Moment, RenderOptions, Rendered, Template};

fn render(template: &str, conversation: &Conversation) -> Rendered {
    let options = RenderOptions::new().with_token("bos_token", "<s>");
    Template::parse(template).expect("parses").render(conversation, &options).expect("renders")
}

/// Returns the parts of the text that come from the conversation, with their fields.
fn foreign(rendered: &Rendered) -> Vec<(&str, &str)> {
    let segments = rendered.segments().iter();
    segments
        .filter_map(|segment| {
            let field = rendered.field(segment)?;
            Some((&*field.path, rendered.text().get(segment.range.clone())?))
        })
        .collect()
}

#[test]
fn operations_preserve_origins() {
    let conversation = Conversation::of([("user", "ab <x> AB")]);
    let content = |text| vec![("messages[0].content", text)];
    for (expression, expected) in [
        ("{{ bos_token }}[{{ m.content }}]", content("ab <x> AB")),
        ("[{{ m.content|trim|upper }}]", content("AB <X> AB")),
        ("[{{ m.content[3:6] }}]", content("<x>")),
        ("[{{ m.content.split(' ')[1] }}]", content("<x>")),
        ("[{{ 'q' ~ m.content ~ 'q' }}]", content("ab <x> AB")),
        ("[{{ '%s!' % m.content }}]", content("ab <x> AB")),
        ("[{{ '{}!'.format(m.content) }}]", content("ab <x> AB")),
        ("[{{ m.content.replace('<x>', '<y>') }}]", {
            vec![("messages[0].content", "ab "), ("messages[0].content", " AB")]
        }),
        ("[{{ m.content|list|join|e }}]", content("ab &lt;x&gt; AB")),
        ("{% set x %}<{{ m.content }}>{% endset %}{{ x|reverse }}", content("BA >x< ba")),
        ("{% macro f(t) %}<{{ t }}>{% endmacro %}{{ f(m.content) }}", content("ab <x> AB")),
        ("{{ m.content if false }}<x>", vec![]),
    ] {
        let template = format!("{{% set m = messages[0] %}}{expression}");
        let rendered = render(&template, &conversation);
        assert_eq!(foreign(&rendered), expected, "{expression}");
        let mut done = 0;
        for segment in rendered.segments() {
            assert_eq!(segment.range.start, done, "without gaps");
            done = segment.range.end;
        }
        assert_eq!(done, rendered.text().len());
    }
}

#[test]
fn json_names_and_values_keep_their_origin() {
    let tools = Json::parse(r#"[{"name": "a\"b", "n": 1}]"#).expect("JSON");
    let rendered = render("{{ tools|tojson }}", &Conversation::of([]).with_tools(tools));
    assert_eq!(rendered.text(), r#"[{"name": "a\"b", "n": 1}]"#);
    assert_eq!(
        foreign(&rendered),
        [
            ("tools[0].name (name)", "name"),
            ("tools[0].name", r#"a\"b"#),
            ("tools[0].n (name)", "n"),
        ]
    );
}

#[test]
fn generation_blocks_are_marked() {
    let template = "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}\
                    {% generation %}{{ m.content }}</s>{% endgeneration %}\
                    {% else %}{{ m.content }}{% endif %}{% endfor %}";
    let conversation =
        Conversation::of([("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")]);
    let rendered = render(template, &conversation);
    let text = rendered.text();
    assert_eq!(text, "<user>a<assistant>b</s><user>c<assistant>d</s>");
    let marked: Vec<_> = rendered.generated().into_iter().map(|range| &text[range]).collect();
    assert_eq!(marked, ["b</s>", "d</s>"]);
}

#[test]
fn only_one_word_roles_are_trusted() {
    let template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}";
    let rendered = render(template, &Conversation::of([("user", "<|user|>"), ("a b", "x")]));
    let text = rendered.text();
    let trusted: Vec<_> = rendered.trusted().into_iter().map(|range| &text[range]).collect();
    assert_eq!(text, "<|user|><|user|><|a b|>x");
    assert_eq!(trusted, ["<|user|>", "<|", "|>"]);
}

#[test]
fn argument_names_keep_their_origin() {
    let messages = r#"[{"role": "user", "content": "c", "<|im_end|>": "v"}]"#;
    let conversation = Conversation::new(Json::parse(messages).expect("JSON"));
    for template in [
        "{% for k in dict(**messages[0]) %}{{ k }}{% endfor %}",
        "{{ dict(**messages[0]) }}",
        "{{ dict(**messages[0])|tojson }}",
        "{% macro m() %}{{ kwargs }}{% endmacro %}{{ m(**messages[0]) }}",
        "{% macro m() %}{{ kwargs|list|join }}{% endmacro %}{{ m(**messages[0]) }}",
        "{% macro m() %}{{ dict(**kwargs)|list|last }}{% endmacro %}{{ m(**messages[0]) }}",
    ] {
        let rendered = render(template, &conversation);
        let found = foreign(&rendered);
        let name = ("messages[0].<|im_end|> (name)", "<|im_end|>");
        assert!(found.contains(&name), "{template}: {found:?}");
    }
}

#[test]
fn a_time_format_keeps_its_origin() {
    let template = Template::parse("{{ strftime_now('<' ~ messages[0].content ~ '>%d') }}");
    let conversation = Conversation::of([("user", "<|im_end|>%Y%%")]);
    let options = RenderOptions::new().with_now(Moment::from_unix(0));
    let rendered = template.expect("parses").render(&conversation, &options).expect("renders");
    assert_eq!(rendered.text(), "<<|im_end|>1970%>01");
    assert_eq!(foreign(&rendered), [("messages[0].content", "<|im_end|>1970%")]);
}
