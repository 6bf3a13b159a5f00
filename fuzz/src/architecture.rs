//! Any description of an architecture and any configuration: the text of the description, a zero
//! byte, the JSON of the configuration.

use std::collections::BTreeSet;

use ggmill_arch::{Architecture, Resolved};
use ggmill_core::{Builder, FileType, Header, MetadataBuf};
use serde_json::Value;

use crate::allocations::bounded;

/// Loads the description, and applies it to the configuration and to the metadata that results from
/// it.
pub fn architecture(data: &[u8]) {
    let mut halves = data.splitn(2, |&byte| byte == 0);
    let Some(Ok(description)) = halves.next().map(str::from_utf8) else { return };
    // Includes, and the tensors and the graph of a model, up to the limits of the library: graphs
    // are checked on sampled models.
    let most = 3 * i64::try_from(Resolved::MAX_BYTES).expect("small");
    let Ok(architecture) =
        bounded(description.len(), most, 2000, || Architecture::parse(description))
    else {
        return;
    };
    assert_eq!(architecture.graph_text().is_some(), architecture.has_graph());
    let outline: Vec<_> = architecture.outline().collect();
    assert!(outline.len() <= description.len() + (1 << 12), "{} tensors", outline.len());
    let Some(config) = halves.next().and_then(|json| serde_json::from_slice::<Value>(json).ok())
    else {
        return;
    };
    let Ok(resolved) = bounded(data.len(), most, 2000, || architecture.resolve(&config)) else {
        return;
    };
    let names: BTreeSet<&str> =
        resolved.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names.len(), resolved.tensors().len(), "names are unique");
    for tensor in resolved.tensors() {
        assert_eq!(resolved.tensor(&tensor.name).map(|found| &found.name), Some(&tensor.name));
        assert!(architecture.may_have_tensor(&tensor.name), "{}", tensor.name);
    }
    let again = architecture.resolve(&config).expect("as before");
    assert!(again.tensors() == resolved.tensors(), "the same from the same");
    let mut metadata = MetadataBuf::new();
    resolved.write_keys(FileType::F16, &mut metadata);
    let Ok(plan) = Builder::new().metadata(metadata).plan() else { return };
    let file = Header::parse(plan.header()).expect("what is written is read");
    if let Ok(model) = architecture.resolve_file(file.metadata())
        && let Ok(graph) = bounded(data.len(), most, 2000, || model.graph(&|_| true))
    {
        let covered: usize = graph.sections().iter().map(|section| section.nodes.len()).sum();
        assert_eq!(covered, graph.nodes().len(), "sections are all nodes");
        for (number, node) in graph.nodes().iter().enumerate() {
            assert!(node.inputs.iter().all(|&input| input < number), "operands come first");
        }
    }
    let _ = architecture.missing_keys(file.metadata());
}
