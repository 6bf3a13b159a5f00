//! The facade: a program like that of the README, run on the file the README's command makes.

use std::ops::ControlFlow;

use ggmill::convert::ConvertOptions;
use ggmill::formats::Safetensors;
use ggmill::io::{FileSink, Overwrite};
use ggmill::pipeline::Pretrained as _;
use ggmill::{FileType, GgmlType};

#[test]
fn from_a_checkpoint_to_a_row_of_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stories260K.gguf");

    let checkpoint = Safetensors::open(&ggmill_testdata::real("stories260K")).unwrap();
    let catalogue = ggmill::arch::Catalogue::new();
    let architecture = catalogue.for_checkpoint(checkpoint.config()).unwrap();
    let recipe = ggmill::convert::convert(&checkpoint, architecture, &ConvertOptions::new(FileType::Q8_0)).unwrap();
    let plan = recipe.plan(&checkpoint).unwrap();
    let sink = FileSink::create(&path, Overwrite::Refuse).unwrap();
    ggmill::pipeline::run(&plan, &checkpoint, sink, &mut |_| ControlFlow::Continue(())).unwrap().commit().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), plan.layout().total_len());

    let model = ggmill::io::open(&path).unwrap();
    assert_eq!(model.metadata().str("general.architecture").unwrap(), "llama");
    let norm = model.tensor("output_norm.weight").unwrap();
    let mut values = vec![0.0; usize::try_from(norm.shape().elements()).unwrap()];
    ggmill::quant::dequantize(norm.ggml_type(), &model.read_tensor(&norm).unwrap(), &mut values).unwrap();
    assert_eq!(norm.ggml_type(), GgmlType::F32);
    // The trained norm of the last layer: close to one, and no number left out.
    assert_eq!(values.len(), 64);
    assert!(values.iter().all(|value| (0.5..20.0).contains(value)), "{values:?}");
}
