//! `ggmill template`.

use ggmill_testdata::bytes::{FileBytes, Value};
use serde_json::{Value as Json, json};

use crate::support::{Directory, Outcome, ggmill};

const CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n\
    {% if message.role == 'assistant' %}{% generation %}{{ message.content }}<|im_end|>\
    {% endgeneration %}{% else %}{{ message.content }}<|im_end|>{% endif %}{{ '\n' }}{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Returns a model with a vocabulary of bytes and markers, and with templates.
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
        // Every byte of the text is in the tokens, as text.
        assert_eq!(found.len(), plain.len() - 2 + text.len() - "user:".len(), "{text}");
    }
    let noted = run(&directory, &["render", "a.gguf", "--ids", "-m", "user:<|im_end|>"]);
    assert!(
        noted.stderr.contains("messages[0].content contains the special token \"<|im_end|>\" (97)"),
        "{}",
        noted.stderr
    );
    // Text of the template that is joined with text of a message is plain text, too.
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
    let offsets = found["offsets"].as_array().unwrap();
    assert_eq!(offsets.len(), ids.len());
    assert_eq!((&offsets[0], &ids[0]), (&serde_json::json!([0, 12]), &Json::from(96)));
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
        ("a.gguf", "a.jinja", 0, "the templates are identical"),
        ("a.gguf", "c.jinja", 0, "render the same text"),
        ("a.gguf", "b.jinja", 1, "conversations differ"),
    ] {
        let found = run(&directory, &["diff", first, second]);
        assert_eq!(found.code, code, "{}{}", found.stdout, found.stderr);
        assert!(found.stdout.contains(words), "{}", found.stdout);
    }
    let found = run(&directory, &["diff", "a.gguf", "b.jinja", "-m", "user:x"]);
    assert!(found.stdout.contains("1 of 1 conversation differs"), "{}", found.stdout);
}

#[test]
fn lint_renders_and_names_the_conversation() {
    let silent = "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n\
                  {{ m.content }}<|end|>\n{% endfor %}";
    let directory = directory().with("odd.gguf", model(&[("tokenizer.chat_template", silent)]));
    let fine = run(&directory, &["lint", "a.gguf"]);
    assert_eq!((fine.code, &*fine.stderr), (0, ""), "{}", fine.stdout);
    let found = run(&directory, &["lint", "odd.gguf"]);
    // As in check, the exit code is 1 for errors.
    assert_eq!(found.code, 0, "{}", found.stdout);
    for words in [
        "GG2204",
        "\"<|end|>\" is not a token in the vocabulary",
        "GG2206",
        "expected an end-of-generation token",
        "GG2209",
        "the text does not contain the system message (test conversation: system message)",
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
    // A default check does not render templates.
    let unasked = ggmill(directory.path(), &["check", "odd.gguf"]);
    assert!(!unasked.stdout.contains("GG22"), "{}", unasked.stdout);
    let asked = ggmill(directory.path(), &["check", "odd.gguf", "--profile", "run"]);
    assert!(asked.stdout.contains("GG2209"), "{}", asked.stdout);
}

#[test]
fn errors_name_their_cause() {
    let directory = directory()
        .with("refuses.jinja", "{{ raise_exception('Only user messages!') }}")
        .with("broken.jinja", "a\n{% if %}")
        .with("bomb.jinja", "{{ 'x' * 10 ** 9 }}")
        .with("config.json", "{}")
        .with("chat.json", "[1]")
        .with("cut.json", "[{")
        .with("role.json", r#"[{"role": 7, "content": "a"}]"#)
        .with("empty.jinja", "")
        .with("gg", "GG");
    for (arguments, words) in [
        (&["none.gguf", "-m", "user:a"][..], "none.gguf: the file has no chat template"),
        (
            &["refuses.jinja", "-m", "user:a"],
            "refuses.jinja: line 1: the template rejects the conversation: Only user messages!",
        ),
        (&["broken.jinja", "-m", "user:a"], "broken.jinja: line 2: the template does not parse"),
        (&["bomb.jinja", "-m", "user:a"], "bomb.jinja: line 1: the template takes too many steps"),
        (&["config.json", "-m", "user:a"], "config.json: "),
        (&["absent.gguf", "-m", "user:a"], "absent.gguf"),
        (&["a.gguf"], "expected a conversation"),
        (&["a.gguf", "-m", "hello"], "expected ROLE:TEXT, such as user:Hello\n"),
        (&["-m", "a.gguf", "-m", "user:a"], "the model has no option: it is the argument FILE"),
        (&["a.gguf", "-m", "user:a", "--set", "x"], "expected a name and a value"),
        (&["a.gguf", "-m", "user:a", "--name", "x"], "no template \"x\""),
        (
            &["a.gguf", "--messages", "chat.json"],
            "chat.json: messages[0]: expected an object with role and content, found 1",
        ),
        (
            &["a.gguf", "--messages", "config.json"],
            "config.json: expected an array of messages, or an object with \"messages\", found an \
             empty object",
        ),
        (
            &["a.gguf", "--messages", "role.json"],
            "role.json: messages[0].role: expected text such as \"user\", found 7",
        ),
        (&["empty.jinja", "-m", "user:a"], "empty.jinja: the file is empty"),
        (&["gg", "-m", "user:a"], "gg: offset 0x0: magic needs 4 bytes, but 2 remain"),
        (&["a.gguf", "--messages", "cut.json"], "cut.json: not valid JSON"),
        (&["a.gguf", "-m", "user:a", "--tools", "config.json"], "config.json: expected an array"),
        (&["a.jinja", "-m", "user:a", "--ids"], "a.jinja: the file has no usable tokenizer"),
    ] {
        let found = run(&directory, &[&["render"][..], arguments].concat());
        assert_eq!((found.code, &*found.stdout), (2, ""), "{arguments:?}");
        assert!(found.stderr.contains(words), "{arguments:?}: {}", found.stderr);
    }
}

/// Returns the text of findings with single spaces, so that wrapping does not matter.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn lint_of_a_template_file_has_special_tokens() {
    let needs = "{{ bos_token + messages[0].content }}{% for m in messages[1:] %}{{ m.content }}\
                 {{ eos_token + '\n' }}{% endfor %}{% if sep %}{{ sep + '' }}{% endif %}";
    let directory = Directory::new().with("needs.jinja", needs).with(
        "tokenizer_config.json",
        json!({"eos_token": "<|end|>", "chat_template": format!(
            "{{% if eos_token != '<|end|>' %}}{{{{ raise_exception(eos_token) }}}}{{% endif %}}{needs}"
        )})
        .to_string(),
    );
    for file in ["needs.jinja", "tokenizer_config.json"] {
        let found = run(&directory, &["lint", file]);
        assert_eq!(found.code, 0, "{}{}", found.stdout, found.stderr);
        assert!(!found.stdout.contains("GG2201"), "{}", found.stdout);
        // Findings about generated metadata have no offset.
        assert!(!found.stdout.contains("0x"), "{}", found.stdout);
    }
    let refuses = format!(
        "{{% if eos_token != '<|im_end|>' or n != 3 %}}{{{{ raise_exception('set it') }}}}\
         {{% endif %}}{needs}"
    );
    let directory = directory.with("refuses.jinja", refuses);
    let found = run(&directory, &["lint", "refuses.jinja"]);
    assert!(
        words(&found.stdout).contains("set it (test conversation: question)"),
        "{}",
        found.stdout
    );
    let set = ["lint", "refuses.jinja", "--set", "eos_token=<|im_end|>", "--set", "n=3"];
    let found = run(&directory, &set);
    assert!(!found.stdout.contains("GG2201"), "{}", found.stdout);
    let found = run(&directory, &["lint", "refuses.jinja", "--set", "n"]);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("expected a name and a value"), "{}", found.stderr);
    let found = run(&directory, &["lint", "refuses.jinja", "--json"]);
    let document: Json = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(document["files"][0]["findings"][0]["offset"], Json::Null, "{document}");
}

#[test]
fn lint_exits_as_check_does() {
    let escape = "{{ messages.__class__ }}";
    let directory = directory()
        .with("escape.jinja", escape)
        .with("escape.gguf", model(&[("tokenizer.chat_template", escape)]));
    for (file, code) in [("a.gguf", 0), ("escape.gguf", 1)] {
        let linted = run(&directory, &["lint", file]);
        let checked = ggmill(directory.path(), &["check", file, "--select", "template,rendering"]);
        assert_eq!((linted.code, checked.code), (code, code), "{}", linted.stdout);
    }
    assert_eq!(run(&directory, &["lint", "escape.jinja"]).code, 1);
    assert_eq!(run(&directory, &["lint", "none.gguf"]).code, 2);
}

#[test]
fn lint_and_list_take_files_and_directories() {
    let directory = directory()
        .with("tokenizer_config.json", r#"{"chat_template": "{{ messages }}"}"#)
        .with("config.json", "{}")
        .with("notes.txt", "nothing");
    let found = run(&directory, &["list", "."]);
    assert_eq!((found.code, &*found.stderr), (0, ""), "{}", found.stdout);
    let paths: Vec<_> = found.stdout.lines().filter(|line| line.starts_with("./")).collect();
    let expected =
        ["./a.gguf", "./a.jinja", "./b.jinja", "./named.gguf", "./tokenizer_config.json"];
    assert_eq!(paths, expected);
    let found = run(&directory, &["list", "a.gguf", "named.gguf", "--json"]);
    let listed: Json = serde_json::from_str(&found.stdout).unwrap();
    let names: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["path"].as_str().unwrap(), entry["name"].as_str().unwrap()))
        .collect();
    let expected = [("a.gguf", "default"), ("named.gguf", "default"), ("named.gguf", "tool_use")];
    assert_eq!(names, expected);
    let found = run(&directory, &["lint", ".", "absent.jinja"]);
    assert_eq!(found.code, 2, "{}", found.stdout);
    assert!(found.stderr.contains("absent.jinja"), "{}", found.stderr);
    assert!(found.stdout.contains("6 files: 0 with errors"), "{}", found.stdout);
    let found = run(&directory, &["lint", "a.jinja", "b.jinja", "--json"]);
    let document: Json = serde_json::from_str(&found.stdout).unwrap();
    let paths: Vec<_> =
        document["files"].as_array().unwrap().iter().map(|file| &file["path"]).collect();
    assert_eq!(paths, ["a.jinja", "b.jinja"]);
    let empty = Directory::new().with("notes.txt", "nothing");
    let found = run(&empty, &["lint", "."]);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("no files with chat templates found"), "{}", found.stderr);
    let found = run(&directory, &["list", "a.gguf", "a.jinja", "--show", "default"]);
    assert_eq!((found.code, &*found.stdout), (2, ""));
}

#[test]
fn json_ends_with_one_line_break() {
    let directory = directory();
    for arguments in [
        &["lint", "a.gguf", "--json"][..],
        &["list", "a.gguf", "--json"],
        &["render", "a.gguf", "-m", "user:a", "--json"],
    ] {
        let found = run(&directory, arguments);
        assert!(found.stdout.ends_with(['}', ']']) || found.stdout.ends_with('\n'));
        assert!(!found.stdout.ends_with("\n\n"), "{arguments:?}: {:?}", found.stdout);
        serde_json::from_str::<Json>(&found.stdout).unwrap();
    }
}

#[test]
fn an_unusual_role_is_noted() {
    let directory = directory();
    let found = run(&directory, &["render", "a.gguf", "-m", "usr:x", "-m", "assistant:y"]);
    assert_eq!(found.code, 0);
    assert!(found.stderr.contains("messages[0] has the role \"usr\""), "{}", found.stderr);
    let found = run(&directory, &["render", "a.gguf", "-m", "user:x", "-m", "assistant:y"]);
    assert_eq!(&*found.stderr, "");
}

#[test]
fn templates_of_a_truncated_model_are_used() {
    let whole = model(&[("tokenizer.chat_template", CHATML)]);
    // The last value is the template; a file that ends before it has none.
    let directory =
        Directory::new().with("cut.gguf", &whole[..whole.len() - 1]).with("named.gguf", {
            let named = model(&[
                ("tokenizer.chat_template", CHATML),
                ("tokenizer.chat_template.late", "late"),
            ]);
            named[..named.len() - 2].to_vec()
        });
    let found = run(&directory, &["list", "cut.gguf"]);
    assert_eq!((found.code, &*found.stdout), (2, ""));
    assert!(found.stderr.contains("perhaps an incomplete download"), "{}", found.stderr);
    let found = run(&directory, &["render", "named.gguf", "-m", "user:Hi"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert_eq!(found.stdout, "<|im_start|>user\nHi<|im_end|>\n");
    assert!(found.stderr.contains("warning: named.gguf: "), "{}", found.stderr);
    assert!(found.stderr.contains("perhaps an incomplete download"), "{}", found.stderr);
}

/// `list` reports that a model has no template; other commands fail with a hint.
#[test]
fn a_model_without_a_template() {
    let directory = directory();
    let listed = run(&directory, &["list", "none.gguf"]);
    assert_eq!((listed.code, &*listed.stdout, &*listed.stderr), (0, "no chat template\n", ""));
    let listed = run(&directory, &["list", "none.gguf", "a.gguf"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert!(listed.stdout.starts_with("none.gguf\nno chat template\n\na.gguf\n"), "{listed:?}");
    assert_eq!(run(&directory, &["list", "none.gguf", "--json"]).stdout, "[]\n");
    for args in [&["lint", "none.gguf"][..], &["render", "none.gguf", "-m", "user:a"]] {
        let found = run(&directory, args);
        let hint = "hint: `ggmill edit MODEL --chat-template FILE` sets one";
        assert!(found.code == 2 && found.stderr.contains(hint), "{}", found.stderr);
    }
}

/// A template of another model writes markers that are plain text in this vocabulary.
#[test]
fn markers_that_are_not_tokens_are_noted() {
    let gemma = "{% for m in messages %}<start_of_turn>{{ m.role }}\n{{ m.content }}<end_of_turn>\n\
                 {% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}";
    let directory = directory().with("gemma.gguf", model(&[("tokenizer.chat_template", gemma)]));
    let found = run(&directory, &["render", "gemma.gguf", "-m", "user:Is <b> bold?", "--ids"]);
    let note = |marker: &str| {
        format!(
            "note: the template writes \"{marker}\", which is not a token in the vocabulary: it is \
             tokenized as plain text\n"
        )
    };
    let notes = [note("<start_of_turn>"), note("<end_of_turn>")].concat();
    assert_eq!((found.code, found.stderr), (0, notes));
    let found = run(&directory, &["render", "a.gguf", "-m", "user:Is <b> bold?", "--ids"]);
    assert_eq!((found.code, &*found.stderr), (0, ""));
    let found = run(&directory, &["lint", "gemma.gguf", "--json"]);
    for marker in ["<start_of_turn>", "<end_of_turn>"] {
        let words = format!("\\\"{marker}\\\" is not a token in the vocabulary");
        assert!(found.stdout.contains(&words), "{}", found.stdout);
    }
}

/// A separate template file does not have the special tokens.
#[test]
fn special_tokens_that_are_not_set_are_noted() {
    let directory = Directory::new()
        .with("silent.jinja", "{{ bos_token }}{{ messages[0].content }}")
        .with("fails.jinja", "{{ messages[0].content + eos_token }}");
    let found = run(&directory, &["render", "silent.jinja", "-m", "user:a"]);
    let note =
        "note: the template reads bos_token, which is not set: --set bos_token='…' sets it\n";
    assert_eq!((found.code, &*found.stdout, &*found.stderr), (0, "a", note));
    let set = ["render", "silent.jinja", "-m", "user:a", "--set", "bos_token=<s>"];
    let found = run(&directory, &set);
    assert_eq!((&*found.stdout, &*found.stderr), ("<s>a", ""));
    let found = run(&directory, &["render", "fails.jinja", "-m", "user:a"]);
    let hint = "\nhint: --set eos_token='…' sets it\n";
    assert!(found.code == 2 && found.stderr.ends_with(hint), "{}", found.stderr);
}
