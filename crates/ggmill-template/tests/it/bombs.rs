//! Templates that ask for too much are refused before they get it.

use std::time::{Duration, Instant};

use ggmill_template::{Conversation, ErrorKind, RenderOptions, Template};

fn refused(text: &str) -> ErrorKind {
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => return error.kind(),
    };
    let conversation = Conversation::of([("user", "Hello")]);
    let begun = Instant::now();
    let rendered = template.render(&conversation, &RenderOptions::new());
    // Builds of tests are many times slower than those that are used.
    assert!(begun.elapsed() < Duration::from_secs(30), "{text}: {:?}", begun.elapsed());
    match rendered {
        Ok(rendered) => panic!("{text}: {} bytes", rendered.text().len()),
        Err(error) => error.kind(),
    }
}

#[test]
fn memory_is_limited() {
    let doubled = "{% set ns = namespace(s='x' * 64) %}{% for i in range(40) %}\
                   {% set ns.s = OPERATION %}{% endfor %}";
    for operation in [
        "ns.s ~ ns.s",
        "ns.s + ns.s",
        "ns.s * 2",
        "[ns.s, ns.s]|join",
        "''.join([ns.s, ns.s])",
        "'%s%s' % (ns.s, ns.s)",
        "'{0}{0}'.format(ns.s)",
        "ns.s|replace('x', 'xx')",
        "ns.s.replace('x', 'xx')",
        "[ns.s, ns.s]|tojson",
        "[ns.s, ns.s]|string",
        "(ns.s|list + ns.s|list)|join",
        "ns.s.replace('', ns.s)",
    ] {
        assert_eq!(
            refused(&doubled.replace("OPERATION", operation)),
            ErrorKind::Limit,
            "{operation}"
        );
    }
    for text in [
        "{{ 'x' * 10**9 }}",
        "{{ 10**9 * 'x' }}",
        "{{ [0] * 10**9 }}",
        "{{ '%0999999999d' % 1 }}",
        "{{ '%999999999s'|format('x') }}",
        "{{ '{:>999999999}'.format('x') }}",
        "{{ '{:0999999999}'.format(1) }}",
        "{{ 'x'|center(10**9) }}",
        "{{ 'x'.ljust(10**9) }}",
        "{{ 'x'.zfill(10**9) }}",
        "{{ 'x'|indent(10**9, true) }}",
        "{{ ('x\\n' * 10**5)|indent(10**5) }}",
        "{{ 'x'|replace('', 'y' * 10**6)|replace('', 'y' * 10**6) }}",
        "{{ [1]|batch(10**9, 'x')|list }}",
        "{{ [1]|slice(10**9)|list }}",
        "{{ 2 ** 200 }}",
        "{{ '%.999999999f' % 1.0 }}",
        "{% set ns = namespace(l=[0]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
        "{% set ns = namespace(l=[0]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
        "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}",
        "{% for i in range(100000) %}{% for j in range(100000) %}{{ 'x' * 100 }}{% endfor %}{% endfor %}",
    ] {
        let kind = refused(text);
        assert!(matches!(kind, ErrorKind::Limit | ErrorKind::Value), "{text}: {kind:?}");
    }
}

#[test]
fn time_and_depth_are_limited() {
    for text in [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m(n) %}{{ m(n + 1) ~ m(n + 1) }}{% endmacro %}{{ m(0) }}",
        "{% for x in [[]] recursive %}{{ loop([[1]]) }}{% endfor %}",
        "{% set s = 'ab' * 100000 %}{% for i in range(100000) %}{{ 'ba' in s and '' }}{% if s == s ~ '' %}{% endif %}{% endfor %}",
        "{% set d = namespace(d={}) %}{% for i in range(100000) %}{% macro m() %}{% endmacro %}{% endfor %}{% for i in range(100000) %}{% for j in range(100000) %}{{ i == j and '' }}{% endfor %}{% endfor %}",
    ] {
        assert_eq!(refused(text), ErrorKind::Limit, "{text}");
    }
    let deep = |open: &str, close: &str, times: usize| {
        format!("{{{{ {}1{} }}}}", open.repeat(times), close.repeat(times))
    };
    for text in [
        deep("(", ")", 100_000),
        deep("[", "]", 100_000),
        deep("-", "", 100_000),
        deep("not ", "", 100_000),
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
fn what_is_empty_takes_no_time() {
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
fn nothing_outside_can_be_reached() {
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
