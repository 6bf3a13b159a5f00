//! Model cards, generation configurations and overrides: whole files of the reference converter.

use std::fs;
use std::ops::ControlFlow;

use ggmill_arch::Architecture;
use ggmill_convert::{ConvertOptions, MetadataOverride, convert};
use ggmill_core::FileType;
use ggmill_pipeline::formats::CheckpointDirectory;
use ggmill_pipeline::{RunOptions, run};
use ggmill_testdata::{real, sha256};
use serde_json::Value;

const CASES: &str = include_str!("../fixtures/authorship/cases.json");
/// Printed by `xtask/peers/authorship.py`.
const FILES: &str = include_str!("../fixtures/authorship/files.sha256");

#[test]
fn files_are_those_of_the_reference_converter() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    for line in FILES.lines() {
        let (expected, name) = line.split_once(' ').unwrap();
        let case = cases.iter().find(|case| case["case"] == name).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join(case["directory"].as_str().unwrap());
        fs::create_dir(&directory).unwrap();
        for entry in fs::read_dir(real("tinystories260K")).unwrap().map(Result::unwrap) {
            fs::copy(entry.path(), directory.join(entry.file_name())).unwrap();
        }
        for (part, file) in [("card", "README.md"), ("generation", "generation_config.json")] {
            if let Some(text) = case[part].as_str() {
                fs::write(directory.join(file), text).unwrap();
            }
        }
        if let Some(more) = case["config"].as_object() {
            let path = directory.join("config.json");
            let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            config.as_object_mut().unwrap().extend(more.clone());
            fs::write(&path, config.to_string()).unwrap();
        }
        let checkpoint = CheckpointDirectory::open(&directory).unwrap();
        let mut options = ConvertOptions::new(FileType::F16);
        options.metadata = case
            .get("override")
            .map(|given| MetadataOverride::from_json(given.to_string().as_bytes()).unwrap());
        let architecture = Architecture::builtin("llama").unwrap();
        let plan = convert(&checkpoint, architecture, &options).unwrap().plan(&checkpoint).unwrap();
        let file = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(sha256(&file), expected, "{name}");
    }
}
