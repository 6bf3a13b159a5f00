//! Chat templates with obfuscated access to Python, and harmless ones that look similar.

use ggmill_check::Options;

use crate::support::{Model, codes, report_named, strings};

fn found(template: &str) -> Vec<&'static str> {
    let options = Options::default().with_select(vec!["template".parse().unwrap()]);
    codes(&report_named(
        "Tiny-1K-v1.0.gguf",
        &Model::llama().set("tokenizer.chat_template", template).bytes(),
        &options,
    ))
}

#[test]
fn sandbox_escapes_are_found_in_any_spelling() {
    for template in [
        "{{ ''.__class__ }}",
        "{{ ''|attr('__cl'~'ass__') }}",
        r"{{ ''['\x5f\x5fclass\x5f\x5f'] }}",
        "{%set x='__glob'+'als__'%}{{cycler[x]}}",
        "{% set x %}__globals__{% endset %}{{ cycler[x] }}",
        "{% set n = namespace(a='__globals__') %}{{ cycler[n.a] }}",
        "{% set n = {'a': '__globals__'} %}{{ cycler[n.a] }}",
        "{% set a, b = '__glob', 'als__' %}{{ cycler[a ~ b] }}",
        "{% for a in ['__class__', '__mro__'] %}{{ ''[a] }}{% endfor %}",
        "{% macro f(x) %}{{ ''[x] }}{% endmacro %}{{ f('__class__') }}",
        "{% with x = '__class__' %}{{ ''[x] }}{% endwith %}",
        "{{ ''[['__','class','__']|join] }}",
        "{{ ''['__ssalc__'[::-1]] }}",
        "{{ ''['__ssalc__'|reverse] }}",
        "{{ ''['__%s__' % 'class'] }}",
        "{{ ''['__{}__'.format('class')] }}",
        "{{ ''['__xlass__'|replace('x', 'c')] }}",
        "{{ ''['__CLASS__'.lower()] }}",
        "{{ ''['_'.join(['', '_class_', ''])] }}",
        "{{ ''['_' * 2 ~ 'class' ~ '_' * 2] }}",
        "{{ ''['__class__' if x else 'y'] }}",
        "{{ ''.mro() }}",
        "{{ x.__len__() }}",
        "{{ messages|map(attribute='__class__')|list }}",
        "{{ messages|selectattr('content.__class__') }}",
        "{{ '{0.__class__}'.format(messages) }}",
        "{{ namespace.os.system('id') }}",
        "{{ x['os'].popen('id') }}",
        "{{ self._TemplateReference__context }}",
        "{{ raise_exception.func_globals }}",
        "{{ __import__('os') }}",
        // Another parser may accept what this one rejects.
        "{% trans %}{{ ''.__class__ }}{% endtrans %}",
        "{% trans %}{{ ''['__cl' 'ass__'] }}{% endtrans %}",
    ] {
        assert!(found(template).contains(&"GG1702"), "{template}: {:?}", found(template));
    }
    for template in [
        "{% import 'os' as os %}",
        "{% from 'x' import y %}",
        "{% extends 'x' %}",
        "{% include x %}",
    ] {
        assert_eq!(found(template), ["GG1707"], "{template}");
    }
    for template in [
        "{% for i in range(10**4) %}{% for j in range(10**4) %}x{% endfor %}{% endfor %}",
        "{% set n = 9999999 %}{{ range(n)|list }}",
        "{{ 'a' * 10**9 }}",
    ] {
        assert_eq!(found(template), ["GG1708"], "{template}");
    }
    for template in ["a\u{200b}b", "\u{feff}{{ messages }}"] {
        assert_eq!(found(template), ["GG1703"], "{template}");
    }
    assert_eq!(found("{{ lipsum['__' ~ name] }}"), ["GG1706"]);
}

#[test]
fn harmless_names_are_not_reported() {
    for template in [
        "Python: def __init__(self)",
        "{# ''.__class__ is bad #}{{ messages }}",
        "{{ '__init__' in messages[0].content }}",
        "{{ messages[0].content == '__class__' }}",
        "{% raw %}{{ ''.__class__ }}{% endraw %}",
        "{{ '__class__' }}",
        "{% for message in messages[1:] %}{{ message['role'] ~ message[key] }}{% endfor %}",
        "{% set ns = namespace(found=false) %}{% for i in range(messages|length) %}{% set \
         ns.found = true %}{% endfor %}",
        "{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join('\n') }}",
        "{% generation %}{{ tools|tojson(indent=4) }}{% endgeneration %}",
        "{{ messages[(loop.index0 ~ '')|int] }}",
        "<\u{200d}a\u{200c}>",
    ] {
        assert_eq!(found(template), Vec::<&str>::new(), "{template}");
    }
}

/// The parser is recursive, so deeply nested expressions must not reach it.
#[test]
fn deeply_nested_expressions_are_refused() {
    let long = |start: &str, part: &str, end: &str| format!("{start}{}{end}", part.repeat(50_000));
    for template in [
        long("{{ x", "~x", " }}"),
        long("{{ x", ".a", " }}"),
        long("{{ x", "|e", " }}"),
        long("{{ 1", " if 1 else 1", " }}"),
        long("{{ ", "not ", "1 }}"),
        long("{{ ", "- ", "1 }}"),
        long("{% if x %}", "{% elif x %}", "{% endif %}"),
    ] {
        assert_eq!(found(&template), ["GG1705"], "{}", &template[..20]);
    }
    // The deepest permitted expression is parsed.
    let longest = format!("{{{{ x{} }}}}", "~x".repeat(450));
    assert_eq!(found(&longest), Vec::<&str>::new());
    assert_eq!(found(&format!("{{{{ {}1 }}}}", "not ".repeat(900))), Vec::<&str>::new());
}

fn rendered(model: &Model) -> ggmill_check::Report {
    let options = Options::default()
        .with_select(vec!["rendering".parse().unwrap()])
        .with_findings_per_rule(1000);
    report_named("Tiny-1K-v1.0.gguf", &model.bytes(), &options)
}

#[test]
fn at_most_sixteen_templates_are_rendered() {
    let with = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("t{number:02}")).collect();
        let model = names.iter().fold(Model::llama(), |model, name| {
            // Each leaves out the user's message, which is a finding.
            model.set(format!("tokenizer.chat_template.{name}"), "{{ messages|length }}")
        });
        let report = rendered(&model);
        let found = |code: &str| {
            let of = |it: &&ggmill_check::Diagnostic| it.rule.code == code;
            report.diagnostics().iter().filter(of).cloned().collect::<Vec<_>>()
        };
        let mut dropping: Vec<_> =
            found("GG2209").iter().map(|it| it.subject.to_string()).collect();
        dropping.dedup();
        (dropping.len(), found("GG2202"))
    };
    // The model has a default template too.
    let (dropping, limited) = with(15);
    assert_eq!((dropping, limited.len()), (15, 0));
    let (dropping, limited) = with(20);
    assert_eq!((dropping, limited.len()), (15, 1));
    assert_eq!(limited[0].subject.to_string(), "key \"tokenizer.chat_template.t15\"");
    assert!(limited[0].message.contains("the limit is 16 templates"), "{}", limited[0].message);
}

/// A list of names is compared with the templates even if the file has no template at all, and a
/// default template is not a named one.
#[test]
fn listed_names_are_checked_without_templates() {
    let names = || strings(&["tool_use", "rag"]);
    let told = |model: Model| {
        let report = rendered(&model.set("tokenizer.chat_templates", names()));
        let of = report.diagnostics().iter().filter(|it| it.rule.code == "GG2214");
        of.map(|it| it.message.clone()).collect::<Vec<_>>()
    };
    let lists = |name: &str| format!("lists \"{name}\", but the file has no such template");
    let bare = || Model::llama().unset("tokenizer.chat_template");
    assert_eq!(told(bare()), [lists("tool_use"), lists("rag")]);
    assert_eq!(told(Model::llama()), [lists("tool_use"), lists("rag")]);
    assert_eq!(told(bare().set("tokenizer.chat_template.rag", "{{ 1 }}")), [lists("tool_use")]);
}

#[test]
fn nothing_is_rendered_after_a_template_beyond_its_limits() {
    let bomb = "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}";
    let model = Model::llama()
        .set("tokenizer.chat_template", bomb)
        .set("tokenizer.chat_template.other", "{{ messages|length }}");
    let report = rendered(&model);
    let found = codes(&report);
    assert_eq!(found.iter().filter(|code| **code == "GG2202").count(), 1, "{found:?}");
    assert!(!found.contains(&"GG2209"), "{found:?}");
}

#[test]
fn what_parses_is_what_is_rendered() {
    for (template, expected) in [
        ("{% do messages %}", true),
        ("{{ +1 }}", false),
        ("{{ messages.0.1 }}", false),
        ("{% generation %}{{ 1 }}{% endgeneration %}", false),
        ("{% generation %}{{ 1 }}", true),
        ("{{ 1 }", true),
    ] {
        assert_eq!(found(template).contains(&"GG1701"), expected, "{template}");
    }
    // Another parser may know the statement.
    assert!(found("{% do messages['__cl' ~ 'ass__'] %}").contains(&"GG1702"));
}

#[test]
fn special_tokens_of_an_unknown_vocabulary_are_the_usual_ones() {
    let needs = "{% for m in messages %}{{ bos_token + m.content + eos_token }}{% endfor %}";
    let model = Model::llama()
        .set("tokenizer.ggml.model", "unheard-of")
        .set("tokenizer.chat_template", needs);
    let found = codes(&rendered(&model));
    assert!(!found.contains(&"GG2201"), "{found:?}");
}
