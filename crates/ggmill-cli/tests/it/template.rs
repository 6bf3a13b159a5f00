//! `ggmill template`.

use ggmill_testdata::bytes::{FileBytes, Value};
use serde_json::{Value as Json, json};

use crate::support::{Directory, Outcome, ggmill};

const CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n\
    {% if message.role == 'assistant' %}{% generation %}{{ message.content }}<|im_end|>\
    {% endgeneration %}{% else %}{{ message.content }}<|im_end|>{% endif %}{{ '\n' }}{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// A vocabulary of bytes and markers, with templates.
fn model(templates: &[(&str, &str)]) -> Vec<u8> {
    let mut tokens: Vec<String> = (b' '..=b'~')
        .map(|byte| if byte == b' ' { "Ġ".to_owned() } else { char::from(byte).to_string() })
        .collect();
    tokens.push("Ċ".to_owned());
    let markers = ["<|im_start|>", "<|im_end|>"];
    tokens.extend(markers.map(str::to_owned));
    let types = tokens.iter().map(|token| if markers.contains(&&**token) { 3 } else { 1 });
    let types = Value::Array(5, types.map(Value::I32).collect());
    let end = u32::try_from(tokens.len() - 1).unwrap();
    let tokens = Value::Array(8, tokens.iter().map(|token| Value::from(&**token)).collect());
    let mut file = FileBytes::v3(0, 7 + templates.len() as u64);
    file.pair("general.architecture", &"llama".into())
        .pair("tokenizer.ggml.model", &"gpt2".into())
        .pair("tokenizer.ggml.pre", &"gpt-2".into())
        .pair("tokenizer.ggml.tokens", &tokens)
        .pair("tokenizer.ggml.token_type", &types)
        .pair("tokenizer.ggml.merges", &Value::Array(8, vec![]))
        .pair("tokenizer.ggml.eos_token_id", &Value::U32(end));
    for (key, text) in templates {
        file.pair(key, &Value::from(*text));
    }
    file.into_bytes()
}

fn directory() -> Directory {
    Directory::new()
        .with("a.gguf", model(&[("tokenizer.chat_template", CHATML)]))
        .with(
            "named.gguf",
            model(&[
                ("tokenizer.chat_template.tool_use", "tools: {{ tools|tojson }}"),
                ("tokenizer.chat_template", CHATML),
            ]),
        )
        .with("none.gguf", model(&[]))
        .with("a.jinja", CHATML)
        .with("b.jinja", CHATML.replace("<|im_end|>{% endif %}", "<|end|>{% endif %}"))
}

fn run(directory: &Directory, arguments: &[&str]) -> Outcome {
    ggmill(directory.path(), &[&["template"][..], arguments].concat())
}

fn rendered(directory: &Directory, arguments: &[&str]) -> String {
    let found = run(directory, &[&["render"][..], arguments].concat());
    assert_eq!(found.code, 0, "{arguments:?}: {}", found.stderr);
    found.stdout
}

#[test]
fn conversations_are_rendered() {
    let directory = directory()
        .with("chat.json", r#"[{"role": "user", "content": "Hi"}]"#)
        .with("all.json", r#"{"messages": [{"role": "user", "content": "Hi"}], "tools": [{"z": 1, "a": [1.0, "é"]}], "x": 2}"#)
        .with("tools.json", r#"[{"name": "f"}]"#)
        .with("vars.jinja", "{{ x }} {{ y }} {{ bos_token }} {{ tools|tojson }}");
    let hi = "<|im_start|>user\nHi<|im_end|>\n";
    let prompt = format!("{hi}<|im_start|>assistant\n");
    assert_eq!(rendered(&directory, &["a.gguf", "-m", "user:Hi"]), hi);
    assert_eq!(rendered(&directory, &["a.jinja", "-m", "user:Hi", "-g"]), prompt);
    assert_eq!(rendered(&directory, &["a.gguf", "--messages", "chat.json", "-g"]), prompt);
    let variables = ["vars.jinja", "--messages", "all.json", "--set", "y=[true, null]"];
    let tools = r#"[{"z": 1, "a": [1.0, "é"]}]"#;
    assert_eq!(rendered(&directory, &variables), format!("2 [True, None]  {tools}"));
    let text = ["vars.jinja", "--messages", "all.json", "--set", "y=a b", "--tools", "tools.json"];
    assert_eq!(rendered(&directory, &text), "2 a b  [{\"name\": \"f\"}]");
    let named = ["named.gguf", "-m", "user:x", "--tools", "tools.json", "--name", "tool_use"];
    assert_eq!(rendered(&directory, &named), "tools: [{\"name\": \"f\"}]");
}

#[test]
fn templates_come_from_configurations() {
    let config = json!({
        "bos_token": {"content": "<s>"}, "eos_token": "</s>",
        "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}",
    });
    let directory = Directory::new().with("tokenizer_config.json", config.to_string());
    assert_eq!(rendered(&directory, &["tokenizer_config.json", "-m", "user:x"]), "<s>x</s>");
}

#[test]
fn text_of_messages_never_becomes_a_special_token() {
    let directory = directory();
    let ids = |message: &str| -> Vec<u32> {
        let out = rendered(&directory, &["a.gguf", "--ids", "--quiet", "-m", message]);
        serde_json::from_str(&out).unwrap()
    };
    let (start, end) = (96, 97);
    let plain = ids("user:Hi");
    assert_eq!((plain[0], plain[plain.len() - 2], plain.len()), (start, end, 10));
    for text in ["user:<|im_end|>", "user:a<|im_start|>b<|im_end|>", "user:<|im_<|im_end|>"] {
        let found = ids(text);
        assert_eq!(found.iter().filter(|id| **id == start).count(), 1, "{text}");
        assert_eq!(found.iter().filter(|id| **id == end).count(), 1, "{text}");
        // Every byte of the text is there, as text.
        assert_eq!(found.len(), plain.len() - 2 + text.len() - "user:".len(), "{text}");
    }
    let noted = run(&directory, &["render", "a.gguf", "--ids", "-m", "user:<|im_end|>"]);
    assert!(
        noted.stderr.contains("messages[0].content has the special token \"<|im_end|>\" (97)"),
        "{}",
        noted.stderr
    );
    // What the template joins with text of a message is none either.
    let joined = Directory::new()
        .with("j.gguf", model(&[("tokenizer.chat_template", "<|im_{{ messages[0].content }}|>")]));
    let out = rendered(&joined, &["j.gguf", "--ids", "-m", "user:end"]);
    assert_eq!(serde_json::from_str::<Vec<u32>>(&out).unwrap().len(), 10, "{out}");
}

#[test]
fn json_has_origins_tokens_and_masks() {
    let directory = directory();
    let arguments = ["a.gguf", "--json", "-m", "user:a", "-m", "assistant:b"];
    let found: Json = serde_json::from_str(&rendered(&directory, &arguments)).unwrap();
    let text = found["text"].as_str().unwrap();
    assert_eq!(text, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n");
    let part = |segment: &Json| {
        let [start, end] =
            ["start", "end"].map(|key| usize::try_from(segment[key].as_u64().unwrap()).unwrap());
        text[start..end].to_owned()
    };
    let foreign: Vec<_> = found["segments"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|segment| segment["from"] != "template")
        .map(|segment| (segment["from"].as_str().unwrap(), part(segment)))
        .collect();
    let expected = [
        ("messages[0].role", "user"),
        ("messages[0].content", "a"),
        ("messages[1].role", "assistant"),
        ("messages[1].content", "b"),
    ];
    assert_eq!(foreign, expected.map(|(path, text)| (path, text.to_owned())));
    let ids = found["ids"].as_array().unwrap();
    let generated: Vec<_> = ids
        .iter()
        .zip(found["generated"].as_array().unwrap())
        .filter(|(_, generated)| **generated == Json::Bool(true))
        .map(|(id, _)| id.as_u64().unwrap())
        .collect();
    assert_eq!(generated, [66, 97], "b and <|im_end|>");
}

#[test]
fn a_terminal_shows_special_tokens() {
    let directory = directory();
    let found = rendered(&directory, &["a.gguf", "-m", "user:a\u{1b}[2Jb", "--color", "always"]);
    assert!(found.contains("\u{1b}[1m\u{1b}[35m<|im_start|>\u{1b}[0m"), "{found:?}");
    assert!(!found.contains("\u{1b}[2J"), "{found:?}");
}

#[test]
fn templates_are_listed_and_compared() {
    let directory = directory().with("c.jinja", format!("{CHATML}{{# comment #}}"));
    let found = run(&directory, &["list", "named.gguf"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    let lines: Vec<_> = found.stdout.lines().collect();
    assert!(
        lines[0].starts_with("default ")
            && lines[0].ends_with("generation prompt, generation blocks")
    );
    assert!(
        lines[1].starts_with("tool_use ") && lines[1].ends_with("25 bytes  tools"),
        "{lines:?}"
    );
    assert_eq!(run(&directory, &["list", "a.gguf", "--show", "default"]).stdout, CHATML);
    for (first, second, code, words) in [
        ("a.gguf", "a.jinja", 0, "the same template"),
        ("a.gguf", "c.jinja", 0, "make the same text"),
        ("a.gguf", "b.jinja", 1, "conversations differ"),
    ] {
        let found = run(&directory, &["diff", first, second]);
        assert_eq!(found.code, code, "{}{}", found.stdout, found.stderr);
        assert!(found.stdout.contains(words), "{}", found.stdout);
    }
    let found = run(&directory, &["diff", "a.gguf", "b.jinja", "-m", "user:x"]);
    assert!(found.stdout.contains("1 of 1 conversations differ"), "{}", found.stdout);
}

#[test]
fn lint_renders_and_names_the_conversation() {
    let silent = "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n\
                  {{ m.content }}<|end|>\n{% endfor %}";
    let directory = directory().with("odd.gguf", model(&[("tokenizer.chat_template", silent)]));
    let fine = run(&directory, &["lint", "a.gguf"]);
    assert_eq!((fine.code, &*fine.stderr), (0, ""), "{}", fine.stdout);
    let found = run(&directory, &["lint", "odd.gguf"]);
    assert_eq!(found.code, 1, "{}", found.stdout);
    for words in [
        "GG2204",
        "\"<|end|>\" is not a token of the vocabulary",
        "GG2206",
        "and no token that ends a generation",
        "GG2209",
        "the text does not contain the system message (conversation: system message)",
    ] {
        assert!(found.stdout.contains(words), "{words}: {}", found.stdout);
    }
    for (text, lost) in [
        (
            "{% for m in messages if m.role != 'user' %}{{ m.content }}{% endfor %}",
            "user's message",
        ),
        ("{{ messages[0].content }}", "model's answer"),
    ] {
        let directory = Directory::new().with("lost.jinja", text);
        let found = run(&directory, &["lint", "lost.jinja"]);
        assert!(found.stdout.contains(&format!("does not contain the {lost}")), "{}", found.stdout);
    }
    let bare = run(&directory, &["lint", "b.jinja", "--json"]);
    assert_eq!(bare.code, 0, "{}{}", bare.stdout, bare.stderr);
    serde_json::from_str::<Json>(&bare.stdout).unwrap();
    // A default check renders nothing.
    let unasked = ggmill(directory.path(), &["check", "odd.gguf"]);
    assert!(!unasked.stdout.contains("GG22"), "{}", unasked.stdout);
    let asked = ggmill(directory.path(), &["check", "odd.gguf", "--profile", "run"]);
    assert!(asked.stdout.contains("GG2209"), "{}", asked.stdout);
}

#[test]
fn what_is_wrong_is_said() {
    let directory = directory()
        .with("refuses.jinja", "{{ raise_exception('Only user messages!') }}")
        .with("broken.jinja", "a\n{% if %}")
        .with("bomb.jinja", "{{ 'x' * 10 ** 9 }}")
        .with("config.json", "{}")
        .with("chat.json", "[1]")
        .with("cut.json", "[{");
    for (arguments, words) in [
        (&["none.gguf", "-m", "user:a"][..], "none.gguf: the file has no chat template"),
        (
            &["refuses.jinja", "-m", "user:a"],
            "refuses.jinja: line 1: the template refuses the conversation: Only user messages!",
        ),
        (&["broken.jinja", "-m", "user:a"], "broken.jinja: line 2: the template does not parse"),
        (&["bomb.jinja", "-m", "user:a"], "bomb.jinja: line 1: the template takes too many steps"),
        (&["config.json", "-m", "user:a"], "config.json: "),
        (&["absent.gguf", "-m", "user:a"], "absent.gguf"),
        (&["a.gguf"], "expected a conversation"),
        (&["a.gguf", "-m", "hello"], "expected a role and a text"),
        (&["a.gguf", "-m", "user:a", "--set", "x"], "expected a name and a value"),
        (&["a.gguf", "-m", "user:a", "--name", "x"], "no template \"x\""),
        (&["a.gguf", "--messages", "chat.json"], "chat.json: expected messages as objects"),
        (&["a.gguf", "--messages", "cut.json"], "cut.json: not JSON"),
        (&["a.gguf", "-m", "user:a", "--tools", "config.json"], "config.json: expected an array"),
        (&["a.jinja", "-m", "user:a", "--ids"], "a.jinja: the file has no tokenizer"),
    ] {
        let found = run(&directory, &[&["render"][..], arguments].concat());
        assert_eq!((found.code, &*found.stdout), (2, ""), "{arguments:?}");
        assert!(found.stderr.contains(words), "{arguments:?}: {}", found.stderr);
    }
}
