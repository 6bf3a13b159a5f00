//! Computation graphs in files: written by `convert` and `edit`, run by `measure` and `imatrix
//! make`, and compared with the description by `check`.

use serde_json::Value as Json;

use crate::support::{Directory, Outcome, command, ggmill, outcome, real};

fn directory() -> Directory {
    let ids: Vec<u32> = (3..99).collect();
    let directory = Directory::new().with("ids.json", format!("{ids:?}"));
    for (name, more) in [("plain.gguf", None), ("graph.gguf", Some("--with-graph"))] {
        let mut convert = command(directory.path());
        convert.arg("convert").arg(real("tinystories260K"));
        convert.args(["-o", name, "--type", "f32"]).args(more);
        fine(outcome(&mut convert));
    }
    directory
}

fn fine(found: Outcome) -> Outcome {
    assert_eq!(found.code, 0, "{}{}", found.stdout, found.stderr);
    found
}

fn run(directory: &Directory, args: &[&str]) -> Outcome {
    ggmill(directory.path(), args)
}

fn steps(directory: &Directory, file: &str) -> String {
    fine(run(directory, &["get", file, "ggmill.graph"])).stdout
}

fn perplexity(directory: &Directory, file: &str, more: &[&str]) -> (Json, String) {
    let args = ["measure", file, "--tokens", "ids.json", "-c", "32", "--json"];
    let found = fine(run(directory, &[&args[..], more].concat()));
    let found_json: Json = serde_json::from_str(&found.stdout).unwrap();
    (found_json["perplexity"].clone(), found.stderr)
}

#[test]
fn a_file_of_an_unknown_architecture_is_run_by_its_graph() {
    let directory = directory();
    let written = steps(&directory, "graph.gguf");
    assert!(written.contains("linear('blk.0.attn_q', "), "{written}");
    fine(run(&directory, &["edit", "plain.gguf", "--add-graph", "-o", "added.gguf"]));
    assert_eq!(steps(&directory, "added.gguf"), written);
    let checked = run(&directory, &["check", "added.gguf"]);
    assert!(!checked.stdout.contains("GG1528"), "{}", checked.stdout);
    let (expected, said) = perplexity(&directory, "graph.gguf", &[]);
    assert_eq!(said, "", "the description goes first");
    assert_eq!(perplexity(&directory, "graph.gguf", &["--graph", "file"]).0, expected);
    // An unknown architecture, without the hyperparameters.
    let set = ["edit", "graph.gguf", "--set", "general.architecture=invented"];
    let rest = ["--unset", "llama.*", "--force", "-o", "invented.gguf"];
    fine(run(&directory, &[&set[..], &rest].concat()));
    let (found, said) = perplexity(&directory, "invented.gguf", &[]);
    assert_eq!(found, expected);
    assert!(said.contains("invented.gguf is run from the computation graph in the file"), "{said}");
    let make = ["imatrix", "make", "invented.gguf", "--tokens", "ids.json", "-c", "32"];
    fine(run(&directory, &[&make[..], &["-o", "i.gguf"]].concat()));
    // The description is selected, but there is none.
    let only = ["measure", "invented.gguf", "--tokens", "ids.json", "--graph", "description"];
    let refused = run(&directory, &only);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("no description of the architecture"), "{}", refused.stderr);
    let refused = run(&directory, &["edit", "invented.gguf", "--add-graph", "-o", "x.gguf"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("no computation graph for"), "{}", refused.stderr);
    // The graph would be that of the metadata before the other edits.
    let both = ["edit", "plain.gguf", "--add-graph", "--set", "general.name=x", "-o", "x.gguf"];
    let refused = run(&directory, &both);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("cannot be combined with other edits"), "{}", refused.stderr);
}

#[test]
fn a_model_is_run_by_check() {
    let directory = directory();
    let found = fine(run(&directory, &["check", "plain.gguf", "--run"]));
    assert!(found.stdout.contains("tokens run, outputs from"), "{}", found.stdout);
    // In the other formats.
    let json = |args: &[&str], code: i32| {
        let found = run(&directory, &[&["check", "--format", "json"], args].concat());
        assert_eq!(found.code, code, "{}", found.stderr);
        serde_json::from_str::<serde_json::Value>(&found.stdout).unwrap()["files"][0].clone()
    };
    let ran = &json(&["plain.gguf", "--run"], 0)["run"];
    assert_eq!(ran["tokens"], 16);
    assert!(ran["outputs"]["min"].as_f64().unwrap() < ran["outputs"]["max"].as_f64().unwrap());
    assert!(ran["outputs"]["root_mean_square"].as_f64().unwrap() > 0.0);
    let nothing = (&ran["recorded"], &ran["faults"], &ran["error"]);
    assert_eq!(nothing, (&().into(), &serde_json::json!([]), &().into()));
    assert!(json(&["plain.gguf"], 0).get("run").is_none());
    let ran = &json(&["plain.gguf", "--run=ids.json"], 2)["run"];
    assert!(ran["error"].as_str().unwrap().contains("ids.json"), "{ran}");
    assert_eq!((&ran["tokens"], &ran["outputs"]), (&().into(), &().into()));
    let found = run(&directory, &["check", "--format", "github", "plain.gguf", "--run=ids.json"]);
    assert!(found.stdout.contains("::error file=plain.gguf,title=run%3A "), "{}", found.stdout);
    let found = run(&directory, &["check", "--format", "sarif", "plain.gguf", "--run=ids.json"]);
    assert!(found.stdout.contains("\"ruleId\": \"run\""), "{}", found.stdout);
    // Recorded logits, and a file without logits.
    let found = run(&directory, &["check", "plain.gguf", "--run=ids.json"]);
    assert_eq!((found.code, &*found.stdout), (2, ""));
    assert!(found.stderr.contains("ids.json"), "{}", found.stderr);
    // After a file that cannot be read, the others are run.
    let found = run(&directory, &["check", "ids.json", "plain.gguf", "--run"]);
    assert!(found.stdout.contains("plain.gguf: "), "{}", found.stdout);
    assert!(found.stdout.contains("tokens run, outputs from"), "{}", found.stdout);
}

#[test]
fn a_graph_that_differs_from_the_description_is_reported() {
    let directory = directory();
    let set = |value: &str| {
        let value = format!("ggmill.graph:[string]={value}");
        let args = ["edit", "graph.gguf", "--set", &*value, "--force", "-o", "other.gguf"];
        fine(run(&directory, &args));
        let checked = run(&directory, &["check", "other.gguf"]);
        assert!(checked.stdout.contains("GG1528"), "{}", checked.stdout);
        checked.stdout
    };
    let told = set(r#"["logits = linear('output', x)"]"#);
    assert!(told.contains("which no earlier step defines"), "{told}");
    let told = set(
        r#"["x = rows('token_embd', tokens)", "y = rms_norm(x, 'output_norm', 1e-5)", "logits = linear('token_embd', y)"]"#,
    );
    assert!(told.contains("differs from the description of the architecture"), "{told}");
    let run = run(&directory, &["measure", "other.gguf", "--tokens", "ids.json", "-c", "32"]);
    assert_eq!(run.code, 0, "the description is right: {}", run.stderr);
}

/// The error for a new model tells its user how to describe it.
#[test]
fn an_unknown_architecture_gets_a_hint() {
    let directory = directory();
    let set = |name: &str, file: &str| {
        let architecture = format!("general.architecture={name}");
        fine(run(
            &directory,
            &["edit", "plain.gguf", "--set", &architecture, "--force", "-o", file],
        ));
    };
    set("lama", "near.gguf");
    set("entirely-new", "far.gguf");
    let near = "hint: --arch-file FILE adds a description with a graph; the \
                most similar name is llama: `ggmill explain llama --description` prints its \
                description, to change a copy of it\n";
    let far = "hint: --arch-file FILE adds a description with a graph; \
               `ggmill architectures` lists the known ones, and `ggmill explain NAME \
               --description` prints a description, to change a copy of it\n";
    for (file, name, hint) in [("near.gguf", "lama", near), ("far.gguf", "entirely-new", far)] {
        let message = format!("no computation graph for {name:?}: the architecture is unknown\n");
        let tokens = ["--tokens", "ids.json"];
        for args in [
            &[&["measure", file][..], &tokens].concat()[..],
            &[&["imatrix", "make", file, "-o", "i.gguf"][..], &tokens].concat(),
            &["check", file, "--run"],
            &["explain", file, "--graph"],
        ] {
            let refused = run(&directory, args);
            assert_eq!(refused.code, 2, "{args:?}");
            for expected in [&*message, hint] {
                assert!(refused.stderr.contains(expected), "{args:?}: {}", refused.stderr);
            }
        }
    }
}

/// The printed description is valid for `--arch-file`.
#[test]
fn a_description_is_printed_and_changed() {
    let directory = directory();
    let text = fine(run(&directory, &["explain", "llama", "--description"])).stdout;
    assert!(text.contains("schema = \"ggmill.architecture/1\"\nname = \"llama\""), "{text}");
    let of_model = fine(run(&directory, &["explain", "mistral", "--description"])).stdout;
    assert_eq!(of_model, text);
    let own = text.replace("name = \"llama\"", "name = \"mine\"");
    std::fs::write(directory.path().join("mine.toml"), own).unwrap();
    let convert = real("tinystories260K");
    let args = ["-o", "mine.gguf", "--type", "f32", "--arch-file", "mine.toml"];
    fine(outcome(command(directory.path()).arg("convert").arg(convert).args(args)));
    let expected = perplexity(&directory, "plain.gguf", &[]).0;
    assert_eq!(perplexity(&directory, "mine.gguf", &["--arch-file", "mine.toml"]).0, expected);
    // `explain` uses it, too.
    let steps = |args: &[&str]| {
        let graph = fine(run(&directory, &[&["explain", "--graph"], args].concat())).stdout;
        graph.split_once('\n').unwrap().1.to_owned()
    };
    let of_llama = steps(&["llama"]);
    for topic in ["mine", "mine.gguf"] {
        assert_eq!(steps(&[topic, "--arch-file", "mine.toml"]), of_llama);
    }
    for (args, expected) in [
        (&["explain", "lama", "--description"][..], "did you mean llama"),
        (&["explain", "plain.gguf", "--description"], "a file, expected a topic"),
        (&["explain", "--description"], "required"),
        (&["explain", "llama", "--description", "--graph"], "cannot be used with"),
    ] {
        let refused = run(&directory, args);
        assert_eq!((refused.code, &*refused.stdout), (2, ""), "{args:?}");
        assert!(refused.stderr.contains(expected), "{args:?}: {}", refused.stderr);
    }
}

#[test]
fn the_graph_of_a_file_is_printed() {
    let directory = directory();
    let graph =
        |args: &[&str]| fine(run(&directory, &[&["explain"], args, &["--graph"]].concat())).stdout;
    // The stored graph has precedence: the steps of this model.
    let stored = graph(&["graph.gguf"]);
    let (title, written) = stored.split_once('\n').unwrap();
    assert_eq!(title, "# graph.gguf, stored in the file, operation set 1");
    assert_eq!(written, steps(&directory, "graph.gguf"));
    let picture = graph(&["graph.gguf", "--svg"]);
    let count = written.lines().count();
    assert_eq!(picture.matches("class=\"step\"").count(), count, "{picture}");
    assert!(picture.contains("marker-end"));
    // Commands that run the file prefer the graph of the description.
    let noted = |file: &str| fine(run(&directory, &["explain", file, "--graph"])).stderr;
    assert!(noted("graph.gguf").starts_with("note: commands that run this file use the graph in"));
    let set = ["edit", "graph.gguf", "--set", "general.architecture=invented"];
    fine(run(&directory, &[&set[..], &["--force", "-o", "invented.gguf"]].concat()));
    assert_eq!([noted("invented.gguf"), noted("plain.gguf")], ["", ""]);
    // Without a stored graph, that of the architecture is printed.
    assert_eq!(graph(&["plain.gguf"]), graph(&["llama"]));
    assert_eq!(graph(&["plain.gguf", "--svg"]), graph(&["mistral", "--svg"]));
    let value = r#"ggmill.graph:[string]=["logits = linear('output', x)"]"#;
    let args = ["edit", "graph.gguf", "--set", value, "--force", "-o", "broken.gguf"];
    fine(run(&directory, &args));
    for (args, expected) in [
        (&["explain", "broken.gguf", "--graph"][..], "ggmill get FILE ggmill.graph"),
        (&["explain", "graph.gguf"], "`ggmill explain FILE --graph` its computation graph"),
        (&["explain", "ids.json", "--graph"], "ids.json"),
        (&["explain", "none.gguf", "--graph"], "unknown topic \"none.gguf\""),
    ] {
        let refused = run(&directory, args);
        assert_eq!((refused.code, &*refused.stdout), (2, ""), "{args:?}");
        assert!(refused.stderr.contains(expected), "{args:?}: {}", refused.stderr);
    }
    let page = fine(run(&directory, &["explain", "ggmill.graph"])).stdout;
    assert!(page.starts_with("# ggmill.graph\n\nThe computation graph of the model"), "{page}");
    assert!(page.contains("\n- GG1528: "), "{page}");
}
