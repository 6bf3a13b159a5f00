//! Malformed and hostile descriptions.

use ggmill_arch::{Architecture, Error, ErrorKind};
use serde_json::json;

/// Returns a small description with one part replaced or added.
fn description(parameters: &str, keys: &str, tensors: &str) -> String {
    format!(
        "schema = \"ggmill.architecture/1\"\nname = \"small\"\ntitle = \"Small\"\n[parameters]\nn \
         = {{ type = \"int\", from = [\"n\"] }}\n{parameters}\n[keys]\n{keys}\n{tensors}"
    )
}

fn tensor(body: &str) -> String {
    description(
        "",
        "",
        &format!(
            "[[tensors]]\nfor = \"bid in 0..n\"\n[tensors.tensor]\n\"t.{{bid}}\" = {{ {body} }}\n"
        ),
    )
}

fn refused(toml: &str) -> Error {
    match Architecture::parse(toml) {
        Err(error) => error,
        Ok(_) => panic!("accepted: {toml}"),
    }
}

#[test]
fn a_slip_is_found_when_the_description_is_loaded() {
    for (toml, message) in [
        (
            description(
                "m = { type = \"int\", default = \"l\" }\nl = { type = \"int\", default = \"m\" }",
                "",
                "",
            ),
            "hyperparameter \"m\": its value depends on itself",
        ),
        (
            description("m = { type = \"integer\" }", "", ""),
            "hyperparameter \"m\": type \"integer\": expected int, float, bool, string or any",
        ),
        (
            description("\"a b\" = { type = \"int\" }", "", ""),
            "hyperparameter \"a b\": expected a name of letters, digits and _",
        ),
        (
            description("", "\"k\" = { type = \"u32\" }", ""),
            "key \"k\": the value is missing: only general.file_type",
        ),
        (
            description("", "\"k\" = { type = \"u31\", value = \"n\" }", ""),
            "key \"k\": type \"u31\": expected one such as u32",
        ),
        (
            description("", "\"k\" = { type = \"u32\", value = \"m\" }", ""),
            "key \"k\": value: expression \"m\": \"m\" is not",
        ),
        (
            tensor("shape = [\"n\"], role = \"nom\", from = [\"a\"]"),
            "tensor \"t.{bid}\": there is no role \"nom\"",
        ),
        (
            tensor("shape = [1, 1, 1, 1, 1], role = \"norm\", from = [\"a\"]"),
            "tensor \"t.{bid}\": the shape has 5 dimensions, the limit is 4",
        ),
        (
            tensor("shape = [1], role = \"norm\"")
                .replace("[[tensors]]", "[[checkpoint]]\nclasses = [\"C\"]\n[[tensors]]"),
            "tensor \"t.{bid}\": expected from or compute",
        ),
        (
            description("m = { type = \"int\", in_file = \"later\" }", "", ""),
            "hyperparameter \"m\": in_file: expression \"later\": \"later\" is not a \
             hyperparameter",
        ),
        (
            tensor("shape = [1], role = \"norm\", from = [\"a.{x}\"]"),
            "tensor \"t.{bid}\": from: name \"a.{x}\": there is no loop over x",
        ),
        (
            tensor("shape = [1], role = \"norm\", from = [\"a\"], operations = [\"turn\"]"),
            "tensor \"t.{bid}\": from: there is no operation \"turn\"",
        ),
        (
            tensor("shape = [1], role = \"norm\", from = [\"a\"], operations = [\"permute\"]"),
            "tensor \"t.{bid}\": from: operation \"permute\": permute takes 1 arguments, found 0",
        ),
        (
            tensor("shape = [1], role = \"norm\", from = [\"a\"], operations = [\"stack\"]"),
            "tensor \"t.{bid}\": from: expected one name, or several names and a first operation",
        ),
        (
            tensor("shape = [1], role = \"norm\", from = [{ names = [\"a\", \"b\"] }]"),
            "tensor \"t.{bid}\": from: expected one name, or several names and a first operation",
        ),
        (
            tensor("shape = [1], role = \"norm\", compute = \"magic(1)\""),
            "tensor \"t.{bid}\": expression \"magic(1)\": there is no function \"magic\"",
        ),
        (
            tensor("shape = [1], role = \"norm\", from = [\"a\"], tied = \"[a]b\""),
            "tensor \"t.{bid}\": name \"[a]b\": only names in the checkpoint can have optional \
             pieces",
        ),
    ] {
        let error = refused(&toml);
        let text = error.to_string();
        let (place, fault) = text.split_once(": ").unwrap();
        assert!(
            place.starts_with("line ")
                && fault.starts_with(&format!("architecture \"small\", {message}")),
            "{error}\nexpected {message}"
        );
        assert_eq!(error.kind(), ErrorKind::Description);
    }
}

#[test]
fn what_is_no_description_says_where() {
    for (toml, message) in [
        ("", "line 1, column 1: missing field `schema`"),
        ("schema = 1", "line 1, column 10: invalid type: integer `1`, expected a string"),
        (
            "schema = \"x\"\nname = \"\u{202e}\"\ntitle = \"\"",
            "architecture \"\\u{202e}\": schema is \"x\", expected \"ggmill.architecture/1\"",
        ),
        (
            "schema = \"ggmill.architecture/1\"\nname = \"A b\"\ntitle = \"\"",
            "architecture \"A b\": expected a name of lowercase letters, digits, - and _",
        ),
        ("\u{0}", "line 1, column 2: "),
        ("a = 1\na = 2", "line 2, column 1: duplicate key"),
    ] {
        let error = refused(toml);
        assert!(error.to_string().starts_with(message), "{error}");
    }
    let error = refused(
        &description("", "", "").replace("[parameters]", "include = [\"heads\"]\n[parameters]"),
    );
    assert!(
        error.to_string().starts_with(
            "architecture \"small\": include \"heads\": there is no such part; the parts are \
             attention, "
        ),
        "{error}"
    );
    assert_eq!(refused(&" ".repeat(Architecture::MAX_LEN + 1)).kind(), ErrorKind::Limit);
    for deep in ["[", "{a="] {
        refused(&format!("a = {}", deep.repeat(100_000)));
    }
}

#[test]
fn no_description_makes_a_model_without_bounds() {
    let huge = json!({ "n": 65_000 });
    let loops = |body: &str| Architecture::parse(&tensor(body)).unwrap();
    assert!(loops("shape = [1], role = \"norm\", from = [\"a.{bid}\"]").resolve(&huge).is_ok());
    for body in [
        "shape = [1], role = \"norm\", from = [{ name = \"a.{x}\", for = \"x in 0..n\", \
         operations = [\"stack\"] }]",
        "shape = [1], role = \"norm\", from = [\"[a][b][c]{bid}\", \"[d][e][f]{bid}\", \
         \"[g][h][i]{bid}\"]",
    ] {
        let error = loops(body).resolve(&huge).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    }
    let error = loops("shape = [1], role = \"norm\", from = [\"a\"]")
        .resolve(&json!({ "n": 65_537 }))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let error = loops("shape = [\"9223372036854775807\", 4], role = \"norm\", from = [\"a\"]")
        .resolve(&json!({ "n": 1 }))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}

#[test]
fn two_tensors_of_one_name_are_refused() {
    let toml = description(
        "",
        "",
        "[[tensors]]\nfor = \"bid in 0..n\"\n[tensors.tensor]\n\"t\" = { shape = [1], role = \
         \"norm\", from = [\"a\"] }\n",
    );
    let architecture = Architecture::parse(&toml).unwrap();
    assert!(architecture.resolve(&json!({ "n": 1 })).is_ok());
    assert_eq!(
        architecture.resolve(&json!({ "n": 2 })).unwrap_err().to_string(),
        "architecture \"small\", tensor \"t\": occurs twice in the model"
    );
}

/// A pseudo-random number generator with a fixed seed (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end.max(1)).unwrap()).unwrap()
    }
}

#[test]
fn a_damaged_description_gives_an_answer() {
    const PIECES: [&str; 20] = [
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "\"",
        "'",
        "..",
        "0",
        "9223372036854775807",
        " in ",
        "none",
        "bid",
        "/",
        "-",
        "*",
        "min(",
        "block_count",
        "\n",
    ];
    // The graph is omitted, because it would be checked on many generated models.
    let whole = include_str!("../../data/architectures/llama.toml");
    let config = json!({
        "architectures": ["MixtralForCausalLM"], "hidden_size": 64, "intermediate_size": 172, "num_attention_heads": 8, "num_hidden_layers": 3,
        "vocab_size": 512, "rope_scaling": { "rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 7 },
    });
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    let mut accepted = 0;
    let tries = if ggmill_testdata::is_long() { 3000 } else { 300 };
    for _ in 0..tries {
        let mut text = whole.to_owned();
        for _ in 0..=numbers.below(3) {
            let start = numbers.below(text.len());
            let end = (start + numbers.below(6)).min(text.len());
            let piece = PIECES[numbers.below(PIECES.len())];
            // The description is ASCII, so every index is a character boundary.
            text.replace_range(start..end, piece);
        }
        if let Ok(architecture) = Architecture::parse(&text) {
            accepted += 1;
            if let Err(error) = architecture.resolve(&config) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
    // Changes in comments and names leave a description valid.
    assert!(accepted > tries / 30, "{accepted}");
}

#[test]
fn a_damaged_graph_gives_an_answer() {
    const PIECES: [&str; 10] = ["(", ")", "[", "\"", "=", ",", "None", "q", "linear(", "\n"];
    let whole = Architecture::builtin_text("llama").unwrap();
    let (graph, end) = (whole.find("\ndef layer").unwrap(), whole.rfind("'''").unwrap());
    let mut numbers = Numbers(7);
    let mut accepted = 0;
    for _ in 0..60 {
        let mut text = whole.to_owned();
        let start = graph + numbers.below(end - graph);
        let end = (start + numbers.below(4)).min(text.len());
        text.replace_range(start..end, PIECES[numbers.below(PIECES.len())]);
        match Architecture::parse(&text) {
            Ok(_) => accepted += 1,
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(accepted < 30, "{accepted}");
}

/// Returns a description with `count` entries of one kind.
fn with(count: usize, before: &str, entry: impl Fn(usize) -> String, after: &str) -> String {
    let entries: String = (0..count).map(entry).collect();
    description("", "", "")
        .replace("[parameters]", &format!("{before}{entries}{after}\n[parameters]"))
}

#[test]
fn what_a_description_has_many_times_is_bounded() {
    let remark =
        |kind: &'static str| move |_| format!("[[{kind}]]\nwhen = 'true'\nbecause = 'b'\n");
    let parameter = |n: usize| format!("p{n} = {{ type = 'int', default = 1 }}\n");
    let key = |n: usize| format!("k{n} = {{ type = 'u32', optional = true }}\n");
    let tensor = |n: usize| format!("t{n} = {{ shape = [1], role = 'norm', from = ['a{n}'] }}\n");
    let many = |of: usize, entry: &dyn Fn(usize) -> String| (0..of).map(entry).collect::<String>();
    for toml in [
        // Reading 50,000 included parts took 13 seconds before there was a limit.
        with(50_000, "include = [", |_| "'model',".to_owned(), "]"),
        with(65, "include = [", |_| "'model',".to_owned(), "]"),
        with(2000, "ignore = [", |n| format!("'{n}',"), "]"),
        description(&many(1025, &parameter), "", ""),
        description(&many(20_000, &parameter), "", ""),
        description("", &many(4097, &key), ""),
        description("", "", &format!("[[tensors]]\n[tensors.tensor]\n{}", many(4097, &tensor))),
        description("", "", &many(4097, &|_| "[[tensors]]\ntensor = {}\n".to_owned())),
        description("", "", &many(1025, &remark("contradiction"))),
        description("", "", &many(1025, &remark("refuse"))),
        description("", "", &many(1025, &remark("warn"))),
        description(
            &format!("p = {{ type = 'int', from = [{}] }}\n", many(33, &|n| format!("'f{n}',"))),
            "",
            "",
        ),
    ] {
        let error = refused(&toml);
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(error.to_string().contains("the limit is"), "{error}");
    }
    // Descriptions at the limits are accepted.
    let whole = description(
        &many(1000, &parameter),
        &many(4000, &key),
        &format!("[[tensors]]\n[tensors.tensor]\n{}", many(4000, &tensor)),
    );
    assert_eq!(Architecture::parse(&whole).unwrap().outline().count(), 4000);
}

/// Returns a description whose graph is this function.
fn with_computation(source: &str) -> String {
    description("", "", "[[tensors]]\n[tensors.tensor]\n\"t.weight\" = { shape = [4, 8], role = \"norm\", from = [\"t\"] }\n")
        .replace("[parameters]", &format!("computation = '''\n{source}'''\n[parameters]"))
        .replace("from = [\"n\"]", "default = 1")
}

/// A graph is checked on many generated models, each of which has all tensors of a loop.
#[test]
fn tensors_of_generated_models_are_bounded() {
    let computation = "def model():\n    return logits(embed(t, tokens))\n";
    let many = "[[tensors]]\nfor = \"n in 0..60000\"\n[tensors.tensor]\n\"x.{n}\" = { shape = [1], from = \
                [\"x.{n}\"], required = false }\n";
    let text = with_computation(computation);
    Architecture::parse(&text).unwrap();
    let error = refused(&format!("{text}{many}")).to_string();
    assert!(error.contains("takes too many steps to check, after 0 generated models"), "{error}");
}

#[test]
fn programs_are_bounded() {
    let nested = |open: &str, count: usize, close: &str| {
        let value = format!("{}1{}", open.repeat(count), close.repeat(count));
        format!("def model():\n    x = {value}\n    return logits(embed(t, tokens))\n")
    };
    let blocks: String = (1..40).map(|depth| format!("{}if True:\n", "  ".repeat(depth))).collect();
    // Each function calls the previous one twice.
    let calls: String =
        (1..30).map(|n| format!("def f{n}(x):\n    return f{}(f{}(x))\n", n - 1, n - 1)).collect();
    let functions: String = (0..300).map(|n| format!("def f{n}():\n    return 1\n")).collect();
    let ring = "def a():\n    return b()\ndef b():\n    return a()\ndef model():\n    return a()\n";
    for (source, expected) in [
        (nested("(", 1000, ")"), "nested deeper"),
        (nested("-", 1000, ""), "nested deeper"),
        (nested("not ", 1000, ""), "nested deeper"),
        (nested("[", 1000, "]"), "nested deeper"),
        (nested("1 + ", 1000, ""), "more than 128 operators"),
        (nested("1 if True else ", 1000, ""), "nested deeper"),
        (format!("def model():\n{blocks}"), "more than 16 blocks"),
        (format!("{functions}def model():\n    return 1\n"), "more than 256 functions"),
        (ring.to_owned(), "calls itself"),
        (
            format!("def f0(x):\n    return x\n{calls}def model():\n    return logits(f29(embed(t, tokens)))\n"),
            "more than 16 calls within each other",
        ),
        (
            "def model():\n    for i in range(60000):\n        for j in range(60000):\n            x = i\n    return logits(embed(t, tokens))\n".to_owned(),
            "too many steps",
        ),
        (
            "def model():\n    x = [1]\n    for i in range(100):\n        x = [x, x]\n    return logits(embed(t, tokens))\n".to_owned(),
            "the limit is 65536 in 8",
        ),
        (
            "def model():\n    x = range(60000)\n    for i in range(60000):\n        y = x\n    return logits(embed(t, tokens))\n".to_owned(),
            "too many steps",
        ),
        // Strings and lists that double with each iteration, and lists that nest deeper.
        (
            "def model():\n    x = 'a'\n    for i in range(100):\n        x = x + x\n    return logits(embed(t, tokens))\n".to_owned(),
            "has 131072 values in 0 levels, the limit is 65536 in 8",
        ),
        (
            "def model():\n    x = [1] + [1]\n    for i in range(100):\n        x = x + x\n    return logits(embed(t, tokens))\n".to_owned(),
            "has 131072 values in 1 levels, the limit is 65536 in 8",
        ),
        (
            "def model():\n    x = [1] + [1]\n    for i in range(100):\n        x = [x] + []\n    return logits(embed(t, tokens))\n".to_owned(),
            "the limit is 65536 in 8",
        ),
        (
            "def model():\n    x = range(60000)\n    for i in range(60000):\n        y = [0 for j in [1]]\n    return logits(embed(t, tokens))\n".to_owned(),
            "too many steps",
        ),
        (
            "def model():\n    x = t\n    for i in range(60000):\n        x = x.bias\n    return logits(embed(t, tokens))\n".to_owned(),
            "has a name of more than 256 bytes",
        ),
        ("x".repeat(300_000), "the limit is"),
    ] {
        let error = refused(&with_computation(&source)).to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}
