//! Tensors with more than four dimensions, as video models have them, in every command that moves data.

use ggmill_core::Header;
use ggmill_testdata::bytes::FileBytes;

use crate::support::{Directory, Outcome, ggmill};

const SHAPES: [&[u64]; 3] = [&[2, 2, 1, 8, 4], &[32, 4, 1, 1, 1, 1, 1, 2], &[32, 2]];

fn model() -> Vec<u8> {
    let mut file = FileBytes::v3(3, 1);
    file.pair("general.architecture", &"wan".into());
    let mut offset = 0;
    for (number, shape) in SHAPES.into_iter().enumerate() {
        file.tensor(format!("t{number}.weight"), shape, 0, offset);
        offset += shape.iter().product::<u64>() * 4;
    }
    file.pad(32);
    let count = u16::try_from(offset / 4).unwrap();
    for value in 0..count {
        file.raw(&f32::from(value).to_le_bytes());
    }
    file.into_bytes()
}

#[test]
fn every_command_keeps_the_dimensions() {
    let directory = Directory::new().with("in.gguf", model());
    let run = |command: &str| -> Outcome {
        let args: Vec<&str> = command.split(' ').collect();
        let found = ggmill(directory.path(), &args);
        assert_eq!(found.code, 0, "{command}: {}{}", found.stdout, found.stderr);
        found
    };
    run("split in.gguf part --max-tensors 1");
    for (command, out) in [
        ("edit in.gguf -o edited.gguf --set general.name=x", "edited.gguf"),
        ("merge part-00001-of-00003.gguf -o merged.gguf", "merged.gguf"),
        ("repack in.gguf -o big.gguf --endian big", "big.gguf"),
        ("quantize in.gguf copy.gguf COPY", "copy.gguf"),
        ("quantize in.gguf f16.gguf Q8_0 --tensor-type t=q8_0", "f16.gguf"),
        ("extract in.gguf -o some.gguf", "some.gguf"),
    ] {
        run(command);
        let bytes = std::fs::read(directory.path().join(out)).unwrap();
        let header = Header::parse(&bytes).unwrap();
        let shapes: Vec<_> = header.tensors().iter().map(|tensor| *tensor.shape()).collect();
        assert!(
            shapes.iter().map(ggmill_core::Shape::dimensions).eq(SHAPES),
            "{command}: {shapes:?}"
        );
        if command.contains("Q8_0") {
            // Rows of two elements fit no block type.
            let types: Vec<_> =
                header.tensors().iter().map(|tensor| tensor.ggml_type().to_string()).collect();
            assert_eq!(types, ["F16", "Q8_0", "Q8_0"]);
        } else {
            run(&format!("diff in.gguf {out} --tensors --data"));
        }
    }
    run("extract in.gguf t0.weight -o t0.npy");
    run("graft in.gguf --from t0.weight=t0.npy -o grafted.gguf");
    run("diff in.gguf grafted.gguf --tensors --data");
    run("inspect in.gguf --tensors");
    run("hash in.gguf");
    let found = ggmill(directory.path(), &["check", "in.gguf"]);
    assert!(found.code == 1 && found.stdout.contains("GG1314"), "{}", found.stdout);
    let vetted = run("check in.gguf --profile threat --quiet");
    assert!(vetted.stdout.contains("\"safe\":true"), "{}", vetted.stdout);
}
