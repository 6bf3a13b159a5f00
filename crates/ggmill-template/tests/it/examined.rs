//! Problems found by rendering templates, and the limits of rendering them.

use ggmill_template::{Aspect, Limits, RenderOptions, Template, examine};

fn aspects(text: &str, options: &RenderOptions) -> Vec<Aspect> {
    let template = Template::parse(text).expect("it parses");
    examine(&template, None, options).into_iter().map(|found| found.aspect).collect()
}

#[test]
fn rendering_stops_after_a_limit() {
    let bomb = "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}";
    let options = RenderOptions::new();
    assert_eq!(aspects(bomb, &options), [Aspect::Limit]);
    // Also if the first conversations are within the limit; earlier observations are kept.
    let late = format!("{{{{ messages[0].content }}}}{{% if tools %}}{bomb}{{% endif %}}");
    let found = aspects(&late, &options);
    assert_eq!(found.iter().filter(|aspect| **aspect == Aspect::Limit).count(), 1, "{found:?}");
    assert_eq!(found.last(), Some(&Aspect::Limit), "{found:?}");
}

#[test]
fn all_conversations_together_are_limited() {
    // Each conversation is within the limit, but needs most of it.
    let slow = "{% for i in range(150) %}{% endfor %}{% for m in messages %}{{ m.content }}\
                {% endfor %}";
    let options = RenderOptions::new().with_limits(Limits::new().with_steps(1_000));
    let template = Template::parse(slow).expect("it parses");
    let found = examine(&template, None, &options);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].aspect, Aspect::Limit);
    assert!(found[0].message.contains("together"), "{}", found[0].message);
    let options = RenderOptions::new().with_limits(Limits::new().with_steps(100_000));
    assert!(!aspects(slow, &options).contains(&Aspect::Limit));
}

#[test]
fn templates_that_need_tools_or_documents_are_recognized() {
    let options = RenderOptions::new();
    let each = "{% for m in messages %}{{ m.content }}{% endfor %}";
    for text in [
        format!("{{% for tool in tools %}}{{{{ tool.function.name }}}}{{% endfor %}}{each}"),
        format!("{{% for it in documents %}}{{{{ it.title }}}}{{% endfor %}}{each}"),
        // With tools, it fails for another reason.
        format!("{{% for tool in tools %}}{{{{ tool.name + '' }}}}{{% endfor %}}{each}"),
    ] {
        let found = aspects(&text, &options);
        assert!(found.contains(&Aspect::NeedsMore), "{text}: {found:?}");
        assert_eq!(found.contains(&Aspect::Fails), text.contains("tool.name"), "{text}: {found:?}");
    }
    // Documents are also needed with tools.
    let both = "{% if tools %}{{ 'tools' }}{% endif %}{% for it in documents %}{% endfor %}";
    let found = aspects(&format!("{both}{each}"), &options);
    assert!(found.contains(&Aspect::NeedsMore) && !found.contains(&Aspect::Fails), "{found:?}");
    let found = aspects(&format!("{{{{ 1 + none }}}}{each}"), &options);
    assert!(found.contains(&Aspect::Fails) && !found.contains(&Aspect::NeedsMore), "{found:?}");
}

#[test]
fn an_unconditional_prompt_can_have_an_empty_thought() {
    let options = RenderOptions::new();
    let each = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    for (prompt, is_found) in
        [("<assistant>", false), ("<assistant><think></think>", false), ("<model>", true)]
    {
        let found = aspects(&format!("{each}{prompt}"), &options);
        assert_eq!(found.contains(&Aspect::Prompt), is_found, "{prompt}: {found:?}");
    }
}
