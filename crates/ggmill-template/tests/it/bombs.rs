//! Templates that exceed the limits of time or memory are refused.

use std::time::{Duration, Instant};

use ggmill_template::{Access, Conversation, ErrorKind, RenderOptions, Template, accesses};

fn refused(text: &str) -> ErrorKind {
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => return error.kind(),
    };
    let conversation = Conversation::of([("user", "Hello")]);
    let begun = Instant::now();
    let rendered =
        template.render(&conversation, &RenderOptions::new().with_token("bos_token", "<s>"));
    // Test builds are many times slower than release builds.
    assert!(begun.elapsed() < Duration::from_secs(30), "{text}: {:?}", begun.elapsed());
    match rendered {
        Ok(rendered) => panic!("{text}: {} bytes", rendered.text().len()),
        Err(error) => error.kind(),
    }
}

#[test]
fn memory_and_time_are_limited() {
    let templates = include_str!("../bombs.txt").lines().filter(|line| !line.starts_with("# "));
    let mut count = 0;
    for text in templates {
        let kind = refused(text);
        let head: String = text.chars().take(200).collect();
        // Python refuses some sizes itself.
        let is_asked_at_once = !text.contains(" in range(") && kind == ErrorKind::Value;
        assert!(kind == ErrorKind::Limit || is_asked_at_once, "{head}: {kind:?}");
        count += 1;
    }
    assert_eq!(count, 100);
}

/// Folding nested constants needs bounded time and memory, and incomplete folding is reported.
#[test]
fn constants_are_folded_within_limits() {
    let values: Vec<_> = (0..16).map(|i| format!("{{% set x = 'v{i}' %}}")).collect();
    let arguments = (0..40).fold("'q'".to_owned(), |inner, _| format!("x|replace({inner}, 'z')"));
    let lists: Vec<_> = ('b'..='f')
        .zip('a'..)
        .map(|(name, element)| {
            format!("{{% set {name} = [{}] %}}", vec![element.to_string(); 490].join(","))
        })
        .collect();
    let texts: Vec<_> = ('b'..='t')
        .zip('a'..)
        .map(|(name, text)| {
            format!("{{% set {name} = [{text}] * 2 %}}{{{{ {name}|join({name}) }}}}")
        })
        .collect();
    let (values, lists, texts) = (values.concat(), lists.concat(), texts.concat());
    for text in [
        format!("{values}{{{{ messages[{arguments}] }}}}"),
        format!("{values}{{{{ messages[{}] }}}}", vec!["x"; 400].join(" ~ ")),
        format!("{{% set a = 1 %}}{lists}"),
        format!("{{% set a = 'x' * 1000 %}}{texts}"),
    ] {
        let begun = Instant::now();
        let found = accesses(&text);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        // Accesses after them are still reported.
        assert!(
            found.iter().all(|access| matches!(access, Access::Computed | Access::Excessive(_))),
            "{found:?}"
        );
    }
    // Accesses hidden behind too many constants are reported as excessive.
    let list = format!("{{% set a = [{}] %}}", vec!["'x' * 1000"; 16].join(","));
    let hidden = "{{ messages['__cl' ~ 'ass__'] }}";
    for times in [1, 1000] {
        let found = accesses(&format!("{list}{}{hidden}", "{{ m[a|join] }}".repeat(times)));
        let is_said = found.iter().any(|access| {
            matches!(access, Access::Internal(_))
                || times > 1 && matches!(access, Access::Excessive(_))
        });
        assert!(is_said, "{times}: {found:?}");
    }
}

#[test]
fn time_and_depth_are_limited() {
    let source = "x = 1 ".repeat(100_000);
    let variables: Vec<_> = (0..20_000).map(|i| format!("{{% set v{i} = 1 %}}")).collect();
    let variables = variables.concat();
    for text in [
        format!(
            "{{% for i in range(100000) %}}{{% macro m() %}}{source}{{% endmacro %}}{{% endfor %}}"
        ),
        format!(
            "{variables}{{% for i in range(100000) %}}{{% for j in range(100000) %}}{{{{ v19999 and '' }}}}{{% endfor %}}{{% endfor %}}"
        ),
    ] {
        let head: String = text.chars().take(200).collect();
        assert_eq!(refused(&text), ErrorKind::Limit, "{head}");
    }
    let deep = |open: &str, close: &str, times: usize| {
        format!("{{{{ {}1{} }}}}", open.repeat(times), close.repeat(times))
    };
    for text in [
        deep("(", ")", 100_000),
        deep("[", "]", 100_000),
        deep("-", "", 100_000),
        deep("not ", "", 100_000),
        deep("+ ", "", 300_000),
        deep("- + ", "", 150_000),
        deep("+", "", 900),
        format!("{{{{ 1{} }}}}", " ~ 1".repeat(100_000)),
        format!("{{{{ x{} }}}}", "|upper".repeat(100_000)),
        format!("{{{{ x{} }}}}", ".a".repeat(100_000)),
        "{% if 1 %}".repeat(100_000),
        format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(100_000)),
    ] {
        let kind = refused(&text);
        assert!(matches!(kind, ErrorKind::Limit | ErrorKind::Syntax), "{kind:?}");
    }
}

#[test]
fn empty_loops_need_no_time() {
    let template = Template::parse("{{ [] * 10**18 }}{{ '' * 10**18 }}{{ [1] * -5 }}");
    let rendered =
        template.expect("it parses").render(&Conversation::of([]), &RenderOptions::new());
    assert_eq!(rendered.expect("it renders").text(), "[][]");
}

#[test]
fn ordinary_depth_is_allowed() {
    let text = format!("{{{{ 'a'{} }}}}", " ~ 'a'".repeat(400));
    let template = Template::parse(&text).expect("it parses");
    let rendered = template.render(&Conversation::of([("user", "")]), &RenderOptions::new());
    assert_eq!(rendered.expect("it renders").text().len(), 401);
}

#[test]
fn the_sandbox_is_closed() {
    for text in [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__class__.__name__ }}",
        "{{ ''['__class__']() }}",
        "{{ ''|attr('__class__') + '' }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({}) }}",
        "{{ messages[0].pop('role') }}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{{ '{0.__class__}'.format('') }}",
        "{{ range(100001) }}",
    ] {
        assert_eq!(refused(text), ErrorKind::Security, "{text}");
    }
    for text in ["{{ lipsum() }}", "{{ self.x }}", "{{ cycler.__init__() }}", "{{ open('x') }}"] {
        let kind = refused(text);
        assert!(matches!(kind, ErrorKind::Undefined | ErrorKind::Security), "{text}: {kind:?}");
    }
}

#[test]
fn messages_about_undefined_names_are_truncated() {
    for text in [
        "{% set n = 'x' * 100000 %}{{ messages[n] + 1 }}",
        "{% set n = 'x' * 100000 %}{{ messages[0][n] + 1 }}",
        "{% set n = '__' ~ 'x' * 100000 ~ '__' %}{{ messages[n] + 1 }}",
        "{{ messages[range(10000)|list|string] + 1 }}",
        "{{ 'a'[range(10000)|list] + 1 }}",
    ] {
        let template = Template::parse(text).expect("it parses");
        let conversation = Conversation::of([("user", "Hello")]);
        let error = template.render(&conversation, &RenderOptions::new()).expect_err("it fails");
        assert!(error.to_string().len() < 300, "{text}");
    }
}

#[test]
fn long_conversations_are_rendered() {
    let content = "long ".repeat(6 << 20);
    let template = Template::parse("{{ messages[0].content|length }}").expect("it parses");
    let conversation = Conversation::of([("user", &*content)]);
    let rendered = template.render(&conversation, &RenderOptions::new()).expect("it renders");
    assert_eq!(rendered.text(), content.len().to_string());
}

#[test]
fn sorting_nan_does_not_panic() {
    let render = |text: &str| {
        let template = Template::parse(text).expect("it parses");
        template.render(&Conversation::of([("user", "Hello")]), &RenderOptions::new())
    };
    for modulus in 2..9 {
        let numbers = format!(
            "{{% set ns = namespace(l=[], d={{}}) %}}{{% for i in range(60) %}}{{% set ns.l = ns.l + \
             [OTHER if i % {modulus} == 0 else (i * 37) % 61] %}}{{% endfor %}}"
        );
        for filter in ["sort", "sort(reverse=true)", "groupby('real')"] {
            for other in ["'nan'|float", "'a'"] {
                let text = numbers.replace("OTHER", other);
                let _ = render(&format!("{text}{{{{ ns.l|{filter}|length }}}}"));
            }
        }
        let text = numbers.replace("OTHER", "'nan'|float");
        let sorted = render(&format!("{text}{{{{ ns.l|sort|length }}}}")).expect("it renders");
        assert_eq!(sorted.text(), "60");
        let mixed = render(&format!("{}{{{{ ns.l|sort }}}}", numbers.replace("OTHER", "'a'")));
        assert_eq!(mixed.expect_err("Python refuses it").kind(), ErrorKind::Value);
    }
    let entries: Vec<_> = (0..60)
        .map(|i| match i % 3 {
            0 => format!("'nan'|float: {i}"),
            1 => format!("{}: {i}", (i * 37) % 61),
            _ => format!("-{}.5: {i}", (i * 31) % 61),
        })
        .collect();
    let entries = entries.join(", ");
    render(&format!("{{{{ {{ {entries} }}|tojson(sort_keys=true) }}}}")).expect("it renders");
    let stable = "{{ [[1, 'a'], [0, 'b'], [1, 'c'], [0, 'd']]|sort(attribute=0, reverse=true) }}";
    let stable = render(stable).expect("it renders");
    assert_eq!(stable.text(), "[[1, 'a'], [1, 'c'], [0, 'b'], [0, 'd']]");
}
