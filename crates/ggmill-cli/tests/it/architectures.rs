//! `ggmill architectures`: the list, and the check and the first draft of a description.

use crate::convert_default::checkpoint;
use crate::support::{Directory, Outcome, ggmill};

fn fine(directory: &Directory, args: &[&str]) -> Outcome {
    let done = ggmill(directory.path(), args);
    assert_eq!(done.code, 0, "{args:?}: {}", done.stderr);
    done
}

#[test]
fn architectures_are_listed_with_their_classes() {
    let directory = Directory::new();
    let all = fine(&directory, &["architectures"]).stdout;
    let line = |name: &str| {
        let found = all.lines().find(|line| line.split(' ').next() == Some(name));
        found.unwrap_or_else(|| panic!("{name}: {all}")).to_owned()
    };
    assert!(line("llama").contains("  yes  ") && line("llama").contains("MixtralForCausalLM"));
    assert!(all.lines().last().unwrap().contains(" architectures, "), "{all}");
    let found = fine(&directory, &["architectures", "qwen2moeforcausallm", "--json"]).stdout;
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["schema"], "ggmill.architectures/1");
    let [one] = &**found["architectures"].as_array().unwrap() else { panic!("{found}") };
    assert_eq!((&one["name"], &one["checkpoints"]), (&"qwen2moe".into(), &true.into()));
    assert!(one["vocabularies"].as_array().unwrap().iter().any(|kind| kind == "bpe"), "{one}");
    let none = ggmill(directory.path(), &["architectures", "nemtron"]);
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("hint: did you mean nemotron or nemotron_h?"), "{}", none.stderr);
}

/// A checkpoint of an unknown class is refused with the command that drafts a description, and is
/// converted with the draft.
#[test]
fn a_checkpoint_of_an_unknown_class_is_converted_with_a_drafted_description() {
    let directory = Directory::new();
    checkpoint(&directory, |config| config.replace("LlamaForCausalLM", "LlanaForCausalLM"));
    let refused = ggmill(directory.path(), &["convert", "model"]);
    assert_eq!((refused.code, &*refused.stdout), (2, ""));
    assert!(
        refused.stderr.contains("no description is for checkpoints of class \"LlanaForCausalLM\"")
            && refused.stderr.contains("the names most similar are LlamaForCausalLM, ")
            && refused.stderr.contains(
                "\nhint: `ggmill architectures new CLASS DIR > mine.toml` writes a first draft of a \
                 description, based on that of llama"
            ),
        "{}",
        refused.stderr
    );
    let draft = fine(&directory, &["architectures", "new", "LlanaForCausalLM", "model"]).stdout;
    assert!(
        draft.starts_with("# A first draft of a description for checkpoints of LlanaForCausalLM")
    );
    assert!(draft.contains("classes = [\"LlanaForCausalLM\"]\n"), "{draft}");
    assert!(draft.contains("# Every tensor of the checkpoint is described.\n"), "{draft}");
    let config = directory.path().join("model/config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    let with_member = text.replacen('{', "{ \"mtp_depth\": 2,", 1);
    let directory = directory.with("mine.toml", &draft).with("more.json", with_member.clone());
    let args = ["architectures", "check", "mine.toml", "--config", "more.json"];
    let checked = fine(&directory, &args).stdout;
    let (_, unread) = checked
        .split_once("\nmembers of config.json that the description does not read\n")
        .unwrap();
    assert!(unread.contains("  mtp_depth = 2\n") && !unread.contains("hidden_size"), "{unread}");
    let args = ["architectures", "check", "mine.toml", "--config", "model/config.json"];
    let checked = fine(&directory, &args).stdout;
    for expected in [
        "llama: LLaMA, Mistral and Mixtral\n",
        "\nclasses: LlanaForCausalLM\n",
        "\n  block_count = 5\n",
        "\n  llama.block_count = 5 (u32)\n",
        "\n  blk.{bid}.attn_k.bias [32] optional from model.layers.{bid}.self_attn.k_proj.bias or \
         layers.{bid}.self_attn.k_proj.bias, {bid} = 0-4\n",
        "\n  blocks 0-4: ",
        " operations with attn_norm, attn_q, attn_k, attn_v, attn_output, ffn_norm, ",
    ] {
        assert!(checked.contains(expected), "{expected}: {checked}");
    }
    fine(&directory, &["convert", "model", "-o", "new.gguf", "--arch-file", "mine.toml"]);
    checkpoint_of_llama(&directory);
    fine(&directory, &["convert", "known", "-o", "known.gguf", "--name", "Model"]);
    let same = ggmill(directory.path(), &["diff", "new.gguf", "known.gguf", "--data"]);
    assert!(!same.stdout.contains("blk.") && !same.stdout.contains("llama."), "{}", same.stdout);
    std::fs::write(directory.path().join("model/config.json"), with_member).unwrap();
    let args = ["convert", "model", "-o", "more.gguf", "--arch-file", "mine.toml"];
    let noted = fine(&directory, &args).stderr;
    let note = "note: the description does not read these members of config.json: ";
    assert!(noted.contains(note) && noted.contains(", mtp_depth = 2"), "{noted}");
}

/// Copies `model` to `known`, with its class restored.
fn checkpoint_of_llama(directory: &Directory) {
    let (from, to) = (directory.path().join("model"), directory.path().join("known"));
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
    }
    let config = to.join("config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(config, text.replace("LlanaForCausalLM", "LlamaForCausalLM")).unwrap();
}

/// Every fault has its file, its line and its column.
#[test]
fn a_wrong_description_is_refused_with_its_place() {
    let directory = Directory::new();
    let text = fine(&directory, &["explain", "llama", "--description"]).stdout;
    let wrong = text.replacen("shape = [\"embedding_length\"", "shape = [\"embeding_length\"", 1);
    let directory = directory
        .with("right.toml", &text)
        .with("table.toml", wrong)
        .with("program.toml", text.replacen("swiglu(h, ", "swiglu(hh, ", 1))
        .with("config.json", "{}");
    let refused = |args: &[&str]| {
        let done = ggmill(directory.path(), &[&["architectures", "check"], args].concat());
        assert_eq!((done.code, &*done.stdout), (2, ""), "{args:?}");
        done.stderr
    };
    let table = refused(&["table.toml"]);
    assert!(table.starts_with("error: table.toml: line "), "{table}");
    let expected = "shape: expression \"embeding_length\": \"embeding_length\" is not a \
                    hyperparameter; did you mean embedding_length?\n";
    assert!(
        table.contains(": architecture \"llama\", tensor \"") && table.contains(expected),
        "{table}"
    );
    let program = refused(&["program.toml"]);
    let expected = "error: program.toml: architecture \"llama\": llama.py:12:27: \"hh\" is neither \
                    assigned here, nor a hyperparameter, nor a tensor";
    assert!(program.starts_with(expected), "{program}");
    let config = refused(&["right.toml", "--config", "config.json"]);
    let expected =
        "error: config.json: architecture \"llama\", hyperparameter \"block_count\": missing";
    assert!(config.starts_with(expected), "{config}");
    assert!(refused(&["missing.toml"]).contains("missing.toml"));
    assert!(refused(&["."]).starts_with("error: "));
    // Without a configuration, what does not depend on it is printed.
    let printed = fine(&directory, &["architectures", "check", "right.toml"]).stdout;
    for expected in [
        "\n  blk.{bid}.attn_norm.weight [embedding_length] for bid in 0..block_count\n",
        "\ngraph: checked on generated models, operation set 1\n",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
}
