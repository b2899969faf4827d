//! Node overlays in a pass (SC-276).

use std::sync::Arc;

use karpenter_model::overlay::{OverlayView, PoolTypes, PriceChange, evaluate};
use karpenter_model::requirements::Requirements;
use karpenter_model::resources::Resources;

use super::build::{pod, pool, reqs};
use super::cluster::{Cluster, with};
use super::fixtures::{it, resources};

fn overlay(name: &str, requirements: &str) -> OverlayView {
    OverlayView {
        name: name.to_owned(),
        weight: 0,
        requirements: if requirements.is_empty() { Requirements::new() } else { reqs(requirements) },
        price: None,
        capacity: Resources::new(),
        invalid: None,
    }
}

/// The pools' types as the overlays leave them.
fn laid(mut cluster: Cluster, overlays: &[OverlayView]) -> Cluster {
    let pools: Vec<PoolTypes<'_>> =
        cluster.pools.iter().map(|(pool, types)| PoolTypes { pool: &pool.0, instance_types: types }).collect();
    let store = evaluate(overlays, &pools, &cluster.rules).store;
    for (pool, types) in &mut cluster.pools {
        *types = Arc::new(store.apply(&pool.0.name, types).unwrap());
    }
    cluster
}

fn two() -> Cluster {
    let sized = |name: &str, price: f64| it(name, "cpu=4 memory=4Gi pods=5").price(price);
    with(pool("p"), vec![sized("cheap", 1.0), sized("dear", 2.0)])
}

/// SC-276, SCH-179: prices decide what is launched, resources decide what fits, limits count them.
#[test]
fn sc_276_overlays_decide() {
    assert_eq!(two().one_label("type", pod()), "cheap");
    let raised = OverlayView { price: PriceChange::parse("+100%").unwrap(), ..overlay("o", "type In cheap") };
    let dearer = OverlayView { price: PriceChange::parse("+5").unwrap(), ..raised.clone() };
    assert_eq!(laid(two(), &[raised]).one_label("type", pod()), "cheap", "equal prices go by name");
    assert_eq!(laid(two(), &[dearer]).one_label("type", pod()), "dear");

    let fuse = || pod().asks("smarter-devices/fuse=1");
    assert_eq!(two().one_label("type", fuse()), "none");
    let more = OverlayView { capacity: resources("smarter-devices/fuse=2"), ..overlay("o", "type In dear") };
    let mut fused = laid(two(), std::slice::from_ref(&more));
    let ids = fused.run([fuse(), fuse(), fuse()]);
    assert_eq!((fused.placed(&ids), fused.hosts(&ids)), (3, 2), "two of them on each node");
    assert_eq!(fused.label("type", &ids[0]), "dear");
    let bounded = with(
        pool("p").limits("smarter-devices/fuse=1"),
        two().pools[0].1.iter().cloned().map(super::fixtures::Type).collect(),
    );
    assert_eq!(laid(bounded, &[more]).one_label("type", fuse()), "none", "SCH-179: limits");
}
