//! The facade: a program like that of the README, run on the file of the README's command.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and what it compares is exact"
)]

mod api;
mod door;
mod examples;
mod guard;
mod library;
mod names;
mod one_pass;
mod packed;
mod reading;
mod tokenizers;
mod verify;
mod vetting;

use std::ops::ControlFlow;

use ggmill::convert::ConvertOptions;
use ggmill::formats::CheckpointDirectory;
use ggmill::io::{FileSink, Overwrite};
use ggmill::pipeline::Pretrained as _;
use ggmill::{FileType, GgmlType};

#[test]
fn from_a_checkpoint_to_a_row_of_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tinystories260K.gguf");

    let checkpoint = CheckpointDirectory::open(&ggmill_testdata::real("tinystories260K")).unwrap();
    let catalogue = ggmill::arch::Catalogue::new();
    let architecture = catalogue.for_checkpoint(checkpoint.config()).unwrap();
    let recipe =
        ggmill::convert::convert(&checkpoint, architecture, &ConvertOptions::new(FileType::Q8_0))
            .unwrap();
    let plan = recipe.plan(&checkpoint).unwrap();
    let sink = FileSink::create(&path, Overwrite::Refuse).unwrap();
    ggmill::pipeline::run(
        &plan,
        &checkpoint,
        sink,
        &ggmill::pipeline::RunOptions::default(),
        &mut |_| ControlFlow::Continue(()),
    )
    .unwrap()
    .commit()
    .unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), plan.layout().total_len());

    let model = ggmill::io::open(&path).unwrap();
    assert_eq!(model.metadata().str("general.architecture").unwrap(), "llama");
    let norm = model.tensor("output_norm.weight").unwrap();
    let values = ggmill::quant::read_f32(&model, &norm).unwrap();
    assert_eq!(norm.ggml_type(), GgmlType::F32);
    // The trained norm of the last layer: values close to one, none missing.
    assert_eq!(values.len(), 64);
    assert!(values.iter().all(|value| (0.5..20.0).contains(value)), "{values:?}");
}

/// The values of a tensor do not depend on the byte order of the file.
#[test]
fn values_do_not_depend_on_the_byte_order() {
    use ggmill::core::{Builder, Model};
    use ggmill::{Endian, MetadataBuf, Shape};

    let values: Vec<f32> = (0u8..64).map(|number| f32::from(number) - 31.5).collect();
    let models = [Endian::Little, Endian::Big].map(|endian| {
        let types = [GgmlType::F32, GgmlType::F16, GgmlType::Q8_0, GgmlType::Q5_1];
        let builder = Builder::new().endian(endian).metadata(MetadataBuf::new());
        let shape = Shape::new(&[64]).unwrap();
        let plan = types
            .iter()
            .fold(builder, |builder, ggml_type| {
                builder.tensor(ggml_type.to_string(), *ggml_type, shape)
            })
            .plan()
            .unwrap();
        let mut writer = ggmill::core::Writer::start(&plan, Vec::new()).unwrap();
        for (number, ggml_type) in types.into_iter().enumerate() {
            let mut blocks = vec![0; usize::try_from(plan.tensors()[number].size()).unwrap()];
            ggmill::quant::quantize(ggml_type, &values, 64, None, &mut blocks).unwrap();
            if endian == Endian::Big {
                ggmill::core::swap_bytes(ggml_type, &mut blocks).unwrap();
            }
            writer.write(number, &blocks).unwrap();
        }
        Model::open(writer.finish().unwrap()).unwrap()
    });
    assert_eq!(models[1].endian(), Endian::Big);
    for tensor in models[0].tensors() {
        let little = ggmill::quant::read_f32(&models[0], &tensor).unwrap();
        let turned = models[1].tensor(tensor.name().as_bytes()).unwrap();
        assert_eq!(ggmill::quant::read_f32(&models[1], &turned).unwrap(), little);
        assert!(
            little.iter().zip(&values).all(|(read, written)| (read - written).abs() < 2.1),
            "{}: {little:?}",
            tensor.name()
        );
    }
}
