use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::example;
use karpenter_model::instance_type::{InstanceType, Offering, Overhead, Overrides, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::node::NodeView;
use karpenter_model::pod::PodView;
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::resources::{NODES, Resources};
use karpenter_model::scheduling::PodScheduling;
use karpenter_model::shared::{Labels, Shared};
use karpenter_model::snapshot::{ExistingNode, PoolOffer, Snapshot};
use karpenter_model::taints::{Effect, Taint};
use proptest::prelude::*;

use crate::*;

fn cpu(milli: i64) -> Resources {
    Resources::new().with("cpu", Quantity::milli(milli)).with("pods", Quantity::units(1))
}

fn pod(name: &str, milli: i64) -> PodView {
    PodView { uid: name.into(), unschedulable: true, ..example::pod(name) }.but(|pod| pod.requests = cpu(milli))
}

fn instance_type(cpus: i64) -> InstanceType {
    let offering = |zone: &str, capacity_type: &str, factor: f64| Offering {
        requirements: [
            Requirement::any_of(labels::ZONE, [zone]),
            Requirement::any_of(labels::CAPACITY_TYPE, [capacity_type]),
        ]
        .into_iter()
        .collect(),
        #[expect(clippy::cast_precision_loss, reason = "a handful of CPUs")]
        price: Price::new(cpus as f64 * factor).unwrap(),
        available: true,
        reservation_capacity: None,
        overrides: Overrides::default(),
    };
    let name = format!("t{cpus}");
    InstanceType {
        requirements: [
            Requirement::any_of(labels::INSTANCE_TYPE, [name.as_str()]),
            Requirement::any_of(labels::ZONE, ["a", "b"]),
            Requirement::any_of(labels::CAPACITY_TYPE, ["spot", "on-demand"]),
        ]
        .into_iter()
        .collect(),
        name,
        offerings: vec![offering("a", "spot", 0.5), offering("b", "on-demand", 1.0)],
        capacity: Resources::new().with("cpu", Quantity::units(cpus)).with("pods", Quantity::units(10)),
        overhead: Overhead::default(),
        attachment_limits: BTreeMap::new(),
        devices: karpenter_model::devices::TypeDevices::default(),
    }
}

fn pool(name: &str) -> PoolView {
    example::pool(name)
}

fn snapshot(pools: Vec<PoolView>, types: &[i64], pods: Vec<PodView>) -> Snapshot {
    let types: Vec<InstanceType> = types.iter().map(|cpus| instance_type(*cpus)).collect();
    let types = Arc::new(types);
    Snapshot {
        pools: pools
            .into_iter()
            .map(|pool| PoolOffer { pool: Arc::new(pool), instance_types: types.clone(), usage: Resources::new() })
            .collect(),
        nodes: vec![],
        pending: pods.into_iter().map(|pod| (pod.id.clone(), Arc::new(pod))).collect(),
        ..Snapshot::default()
    }
}

fn existing(name: &str, cpus: i64) -> ExistingNode {
    let node = NodeView {
        name: name.into(),
        uid: name.into(),
        provider_id: None,
        created_at: Timestamp::UNIX_EPOCH,
        deleting_since: None,
        has_finalizer: false,
        labels: [(labels::ZONE.into(), "a".into())].into(),
        annotations: Labels::new(),
        taints: vec![],
        capacity: Shared::default(),
        allocatable: Resources::new().with("cpu", Quantity::units(cpus)).with("pods", Quantity::units(10)).into(),
        ready: true,
        conditions: Vec::new(),
        boot_id: String::new(),
    };
    ExistingNode { node: Some(Arc::new(node)), ..ExistingNode::default() }
}

/// One line per new node (types, pods), then where the rest went and why some went nowhere.
fn check(snapshot: &Snapshot) -> String {
    let plan = plan(snapshot, &LabelRules::core(), &Options::default());
    let names = |pods: &PodList| pods.iter().map(|pod| pod.name.clone()).collect::<Vec<_>>().join(",");
    let mut lines: Vec<String> = plan
        .claims
        .iter()
        .map(|c| format!("{} {} [{}] {}", c.pool.name, names(&c.pods), c.instance_types.join(","), c.price.per_hour()))
        .collect();
    lines.extend(plan.placed.iter().filter_map(|(pod, at)| match at {
        Placement::Existing(node) => Some(format!("{} on {node}", pod.name)),
        Placement::New(_) => None,
    }));
    lines.extend(plan.unplaced.iter().map(|unplaced| {
        let why: Vec<String> = unplaced.reasons.iter().map(|r| format!("{}: {}", r.pool, r.why)).collect();
        format!("{} nowhere, {}", unplaced.pod.name, why.join("; "))
    }));
    lines.join("\n")
}

/// API-73, API-273: pods share a node, the claim keeps every type that holds them, cheapest first.
#[test]
fn pods_share_the_cheapest_node_that_holds_them() {
    let pods = vec![pod("a", 500), pod("b", 1500), pod("c", 2000)];
    let snapshot = snapshot(vec![pool("p")], &[8, 2, 4], pods);
    assert_eq!(check(&snapshot), "p c,b,a [t4,t8] 2");
    let plan = plan(&snapshot, &LabelRules::core(), &Options::default());
    let asked = &plan.claims[0].requirements;
    assert_eq!(asked.get(labels::CAPACITY_TYPE).unwrap().to_string(), "karpenter.sh/capacity-type In [on-demand spot]");
    assert_eq!(asked.get(labels::INSTANCE_TYPE).unwrap().len(), 2);
    assert_eq!(plan.claims[0].requests.amount("pods"), Quantity::units(3), "SCH-62");
}

#[test]
fn existing_room_is_used_first() {
    let mut snapshot = snapshot(vec![pool("p")], &[4], vec![pod("a", 1000), pod("b", 1500)]);
    snapshot.nodes.push(existing("n1", 2));
    assert_eq!(check(&snapshot), "p a [t4] 2\nb on n1");
}

/// SCH-53, SCH-42, SCH-79: each pool says why not.
#[test]
fn refusals_name_what_is_in_the_way() {
    let tainted = PoolView { taints: vec![Taint::new("gpu", "", Effect::NoSchedule)], ..pool("tainted") };
    let elsewhere = PoolView {
        requirements: Requirements::from_iter([Requirement::any_of(labels::ZONE, ["b"])]),
        ..pool("elsewhere")
    };
    let full = PoolView { limits: Resources::new().with(NODES, Quantity::ZERO), ..pool("full") };
    let scheduling = PodScheduling {
        node_selector: Requirements::from_iter([Requirement::any_of(labels::ZONE, ["a"])]),
        ..PodScheduling::default()
    };
    let in_a = pod("a", 5000).but(|pod| pod.scheduling = scheduling);
    assert_eq!(
        check(&snapshot(vec![tainted, elsewhere, full, pool("small")], &[2, 4], vec![in_a])),
        "a nowhere, tainted: did not tolerate taint gpu:NoSchedule; \
         small: no instance type has enough cpu, the largest lacks 1; \
         full: all available instance types exceed limits for nodepool; \
         elsewhere: incompatible requirements, key topology.kubernetes.io/zone, \
         topology.kubernetes.io/zone In [a] not in topology.kubernetes.io/zone In [b]"
    );
}

/// SCH-79, SCH-80: limits count what is opened in the same pass.
#[test]
fn limits_hold_within_a_pass() {
    let limited = PoolView { limits: Resources::new().with("cpu", Quantity::units(5)), ..pool("p") };
    let pods = vec![pod("a", 4000), pod("b", 4000)];
    assert_eq!(
        check(&snapshot(vec![limited], &[4], pods.clone())),
        "p a [t4] 2\nb nowhere, p: all available instance types exceed limits for nodepool"
    );
    let one_node = PoolView { limits: Resources::new().with(NODES, Quantity::units(1)), ..pool("p") };
    assert_eq!(
        check(&snapshot(vec![one_node], &[4], pods)),
        "p a [t4] 2\nb nowhere, p: all available instance types exceed limits for nodepool"
    );
}

proptest! {
    #[test]
    fn no_node_is_overfull_and_nobody_vanishes(
        sizes in prop::collection::vec(1_i64..9000, 0..40),
        types in prop::collection::vec(1_i64..16, 1..5),
        nodes in prop::collection::vec(1_i64..8, 0..3),
    ) {
        let pods: Vec<PodView> = sizes.iter().enumerate().map(|(i, milli)| pod(&format!("p{i}"), *milli)).collect();
        let mut snapshot = snapshot(vec![pool("p")], &types, pods);
        snapshot.nodes = nodes.iter().enumerate().map(|(i, cpus)| existing(&format!("n{i}"), *cpus)).collect();
        let plan = plan(&snapshot, &LabelRules::core(), &Options::default());
        prop_assert_eq!(plan.placed.len() + plan.unplaced.len(), sizes.len());
        for claim in &plan.claims {
            let mut needed = Resources::new();
            claim.pods.iter().for_each(|id| needed.add(&snapshot.pending[id].requests));
            prop_assert_eq!(&needed, &claim.requests);
            for name in claim.instance_types.iter() {
                let chosen = snapshot.pools[0].instance_types.iter().find(|t| &t.name == name).unwrap();
                prop_assert!(needed.fits(&chosen.allocatable()), "{} into {}", needed, name);
            }
        }
        for node in &snapshot.nodes {
            let mut needed = Resources::new();
            let here = plan.placed.iter().filter(|(_, at)| **at == Placement::Existing(node.name().to_owned()));
            here.for_each(|(id, _)| needed.add(&snapshot.pending[id].requests));
            prop_assert!(needed.fits(&node.available()));
        }
        // A pod is left out only if no type could hold it alone.
        let largest = types.iter().max().unwrap() * 1000;
        prop_assert!(plan.unplaced.iter().all(|u| snapshot.pending[&u.pod].requests.amount("cpu") > Quantity::milli(largest)));
    }
}
