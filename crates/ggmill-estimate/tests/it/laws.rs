//! Properties that hold for every model.

use ggmill_core::{Endian, GgmlType};
use ggmill_estimate::{Companions, ErrorKind, MAX_DEVICES, Options, TensorOverride, estimate, fit};
use proptest::prelude::*;

use crate::models::listed;

/// The models once, as headers.
fn all() -> Vec<(ggmill_core::Model, Option<&'static ggmill_arch::Architecture>)> {
    listed().iter().map(|model| (model.open(Endian::Little), model.description())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Larger options never need less memory, and all devices together have what the host has without
    /// devices, except for a second copy of an embedding.
    #[test]
    fn memory_is_monotonic_and_devices_share_it(
        context in 1u64..100_000,
        sequences in 1u64..9,
        micro_batch in 1u64..1000,
        layers in 0u64..5,
        shares in prop::collection::vec(0.1f32..4.0, 1..4),
        part in 0usize..8,
    ) {
        let mut options = Options::default();
        (options.context, options.sequences, options.micro_batch) =
            (Some(context), sequences, micro_batch);
        // A subset of the models for each case, as all of them take long.
        for (model, description) in all().into_iter().skip(part).step_by(8) {
            let one = estimate(&model, description, &options).unwrap();
            let mut longer = options.clone();
            longer.context = Some(context + 4096);
            // Compute buffers may shrink, by 13 % at most of those seen (Gemma 3n, contexts of 84,225 and
            // 88,321 tokens): see a_longer_context_may_need_a_smaller_compute_buffer.
            let longer = estimate(&model, description, &longer).unwrap();
            prop_assert!(longer.devices[0].context() >= one.devices[0].context());
            prop_assert_eq!(longer.devices[0].weights, one.devices[0].weights);
            let computed = one.devices[0].compute;
            prop_assert!(longer.total() >= one.total() - computed / 4);
            let mut divided = options.clone();
            (divided.placement.layers, divided.placement.shares) = (layers, shares.clone());
            let divided = estimate(&model, description, &divided).unwrap();
            prop_assert_eq!(divided.devices.len(), shares.len() + 1);
            let sum = |of: fn(&ggmill_estimate::Device) -> u64| -> u64 {
                divided.devices.iter().map(of).sum()
            };
            prop_assert_eq!(sum(ggmill_estimate::Device::context), one.devices[0].context());
            prop_assert!(sum(|device| device.weights) >= one.devices[0].weights);
        }
    }
}

/// The allocator takes the first of the free blocks that is large enough and closest in size, so
/// a larger attention mask may leave fewer gaps. Both sizes are those that libllama 0.3.36
/// accounts for (`accounted` in `conformance/estimate.py`, with these options).
#[test]
fn a_longer_context_may_need_a_smaller_compute_buffer() {
    let models = listed();
    let listed = models.iter().find(|model| model.name == "openelm-sized").unwrap();
    let mut options = Options::default();
    (options.sequences, options.micro_batch) = (4, 858);
    for (context, expected) in [(42_726, 483_701_120), (46_822, 468_325_760)] {
        options.context = Some(context);
        let model = listed.open(Endian::Little);
        let estimated = estimate(&model, listed.description(), &options).unwrap();
        assert_eq!(estimated.devices[0].compute, expected);
    }
}

#[test]
fn every_listed_architecture_describes_its_memory() {
    for model in listed() {
        let opened = model.open(Endian::Little);
        let mut options = Options::default();
        options.context = Some(4096);
        let estimate = estimate(&opened, model.description(), &options).unwrap();
        let unknown: Vec<_> =
            estimate.unknown.iter().filter(|unknown| unknown.part() != "compute").collect();
        // No current program runs this one.
        if !["gptj", "rwkv", "whisper"].contains(&model.architecture()) {
            assert!(unknown.is_empty(), "{}: {}", model.name, unknown[0]);
        }
    }
}

/// Options with too many devices or with types that caches cannot have are refused.
#[test]
fn too_many_devices_and_other_cache_types_are_refused() {
    let listed = listed();
    let model = listed.iter().find(|model| model.name == "llama-8B").unwrap();
    let (opened, description) = (model.open(Endian::Little), model.description());
    let mut options = Options::default();
    options.key_type = GgmlType::Q4_K;
    let error = estimate(&opened, description, &options).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NoCacheType(GgmlType::Q4_K));
    let mut options = Options::default();
    options.placement.shares = vec![1.0; MAX_DEVICES + 1];
    let error = estimate(&opened, description, &options).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutOfRange { what: "devices", found: 17, .. }));
    assert!("x=GPU9999999999".parse::<TensorOverride>().is_err());
    options.placement.shares = vec![3.0, 1.0];
    let error =
        fit(&opened, description, &options, &[8 << 30], &Companions::default()).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::SharesOfSizes { shares: 2, sizes: 1 });
}

/// A projector is always on the first device, which can be too small for it.
#[test]
fn a_companion_that_does_not_fit_is_an_error() {
    let listed = listed();
    let model = listed.iter().find(|model| model.name == "llama-8B").unwrap();
    let (opened, description) = (model.open(Endian::Little), model.description());
    let mut beside = Companions::default();
    beside.projector = Some(&opened);
    let error = fit(&opened, description, &Options::default(), &[1 << 30], &beside).unwrap_err();
    let ErrorKind::NothingFits { device: 1, needed, size } = *error.kind() else {
        panic!("{error}");
    };
    assert!(needed > size && size == 1 << 30);
    let found = fit(&opened, description, &Options::default(), &[20 << 30], &beside).unwrap();
    assert!(found.unwrap().estimate.devices[1].total() <= 20 << 30);
}

/// The result fits, and one step more does not.
#[test]
fn the_largest_configuration_that_fits_is_found() {
    let listed = listed();
    let model = listed.iter().find(|model| model.name == "llama-8B").unwrap();
    let (opened, description) = (model.open(Endian::Little), model.description());
    let largest = |sizes: &[u64], options: &Options| {
        fit(&opened, description, options, sizes, &Companions::default()).unwrap().unwrap()
    };
    let total = |options: &Options, device: usize| {
        estimate(&opened, description, options).unwrap().devices[device].total()
    };
    // Weights of 16 GB, and 128 KiB for each token.
    let size = 20 << 30;
    let found = largest(&[size], &Options::default());
    assert_eq!(found.options.placement.layers, u64::MAX);
    let context = found.options.context.unwrap();
    assert!((4096..131_072).contains(&context) && total(&found.options, 1) <= size);
    let mut more = found.options.clone();
    more.context = Some(context + 256);
    assert!(total(&more, 1) > size);
    // Too small for all layers: the maximum number of layers for the minimum context.
    let size = 8 << 30;
    let found = largest(&[size], &Options::default());
    assert_eq!(found.options.context, Some(4096));
    let layers = found.options.placement.layers;
    assert!((1..33).contains(&layers) && total(&found.options, 1) <= size);
    let mut more = found.options.clone();
    more.placement.layers = layers + 1;
    assert!(total(&more, 1) > size);
    // Large enough for everything, with the context that the model was trained with.
    let found = largest(&[30 << 30, 30 << 30], &Options::default());
    assert_eq!((found.options.context, found.estimate.devices.len()), (None, 3));
    // A requested context is kept.
    let mut options = Options::default();
    options.context = Some(65_536);
    let found = largest(&[12 << 30], &options);
    assert_eq!(found.options.context, Some(65_536));
    assert!(found.options.placement.layers < 33);
    // Nothing fits into nothing.
    assert_eq!(largest(&[0], &options).options.placement.layers, 0);
}
