//! Pods with resource claims in a pass (SC-292 … SC-321, SC-389). Who gets which device is tested where that is decided
//! ([`crate::devices`]); here it is about what becomes of nodes and claims.

use std::sync::Arc;

use karpenter_model::devices::{Consumer, DeviceFacts, Slice, TypeDevices};

use super::build::{Pod, pod, pool, spread, unmanaged};
use super::cluster::{Cluster, Launched, with};
use super::fixtures::{Type, it};
use super::random::text;
use crate::devices::DeviceRefusal;
use crate::devices::tests::build::{
    World, claim, exactly, in_zone, labelled, match_attribute, named_nodes, on, slice, template,
};
use crate::{MinValuesPolicy, Plan, Refusal, Solver, plan};

fn plain_type(name: &str) -> Type {
    it(name, "cpu=4 memory=4Gi pods=9")
}

fn gpu_type(name: &str, devices: &[&str]) -> Type {
    plain_type(name).brings(template("gpu.com", devices))
}

/// Claims `a`, `b` … ask for one GPU each.
fn world(slices: impl IntoIterator<Item = Slice>) -> World {
    let claims = ["a", "b", "c", "d"].map(|name| claim(name, [exactly("gpu", 1)]));
    slices.into_iter().fold(World::default().claims(claims), World::slice)
}

fn devices(world: &World) -> Arc<DeviceFacts> {
    Arc::new(world.facts())
}

fn cluster(types: Vec<Type>, world: &World) -> Cluster {
    let mut cluster = with(pool("p"), types);
    cluster.devices = Some(devices(world));
    cluster
}

fn gpu(claim: &str) -> Pod {
    pod().uses(&[claim])
}

/// Types of each claim with the devices of each, and of each node: `pods: type claim=device …`.
fn told(plan: &Plan) -> String {
    let one = |one: &crate::devices::Taken| [" ", &one.claim.name, "=", &one.device.device].concat();
    let taken = |all: &Vec<crate::devices::Taken>| all.iter().map(one).collect::<String>();
    let claims = plan.claims.iter().map(|claim| {
        let types = claim
            .instance_types
            .iter()
            .map(|name| format!("{name}{}", claim.devices.get(name).map(&taken).unwrap_or_default()));
        format!("{} on {}", claim.pods.len(), types.collect::<Vec<_>>().join(" or "))
    });
    let nodes = plan.devices.iter().map(|(name, all)| format!("{name}{}", taken(all)));
    claims.chain(nodes).collect::<Vec<_>>().join(", ")
}

/// Why the only pool refused the only pod that failed.
fn refusal(plan: &Plan) -> Refusal {
    assert_eq!(plan.unplaced.len(), 1);
    plan.unplaced[0].reasons[0].why.clone()
}

fn zones_of(plan: &Plan) -> Vec<String> {
    let zone =
        |claim: &crate::PlannedClaim| claim.requirements.get("topology.kubernetes.io/zone").map(ToString::to_string);
    plan.claims.iter().map(|claim| zone(claim).unwrap_or_default().replace("topology.kubernetes.io/", "")).collect()
}

/// SC-292, SCH-191, SCH-27, SCH-92: with the option on nobody looks at devices, and no wish is given up for it.
#[test]
fn sc_292_nobody_looks_at_devices() {
    let mut cluster = with(pool("p"), vec![gpu_type("g", &["d0"])]);
    cluster.add(gpu("a").prefer(1, "zone In z1"));
    cluster.add(pod());
    let plan = cluster.plan();
    assert_eq!(plan.placed.len(), 1);
    assert_eq!(refusal(&plan), Refusal::DevicesIgnored);
    assert_eq!(refusal(&plan).to_string(), "dynamic resource allocation is not supported");
}

/// SC-293, SC-339, SCH-215: only types with the devices stay; drivers are named on claims that need them.
#[test]
fn sc_293_types_with_devices() {
    let mut cluster = cluster(vec![gpu_type("g", &["d0"]), plain_type("plain")], &world([]));
    cluster.add(gpu("a"));
    let plan = cluster.plan();
    assert_eq!(told(&plan), "1 on g a=d0");
    assert_eq!(plan.claims[0].drivers().into_iter().collect::<Vec<_>>(), ["gpu.com"]);
    cluster.pending.clear();
    cluster.add(pod());
    let plain = cluster.plan();
    assert_eq!(told(&plain), "1 on g or plain");
    assert!(plain.claims[0].drivers().is_empty());
}

/// SC-294: a claim that has no name yet is none.
#[test]
fn sc_294_claims_without_names() {
    let mut cluster = cluster(vec![plain_type("plain")], &world([]));
    cluster.add(pod().uses(&[]));
    assert_eq!(told(&cluster.plan()), "1 on plain");
}

/// SC-295.
#[test]
fn sc_295_a_third_pod_needs_a_second_node() {
    let mut cluster = cluster(vec![gpu_type("g", &["d0", "d1"])], &world([]));
    for name in ["a", "b", "c"] {
        cluster.add(gpu(name));
    }
    assert_eq!(told(&cluster.plan()), "2 on g a=d0 b=d1, 1 on g c=d0");
}

/// SC-296, SCH-99, SCH-101: devices that a node has published.
#[test]
fn sc_296_nodes_with_devices() {
    let world = world([named_nodes(slice("gpu.com", &["d0"]), "n2")]);
    let mut cluster = cluster(vec![plain_type("plain")], &world);
    for name in ["n1", "n2"] {
        cluster.node(unmanaged(name, "cpu=4 memory=4Gi pods=9", "zone=z1"));
    }
    let one = cluster.add(gpu("a"));
    assert_eq!(told(&cluster.plan()), "n2 a=d0");
    cluster.pass();
    assert_eq!(cluster.label("host", &one), "n2");
    // SC-303: what a claim has is taken.
    cluster.add(gpu("b"));
    let plan = cluster.plan();
    assert_eq!(refusal(&plan), Refusal::Devices(DeviceRefusal::NoDevices));
    cluster.pending.clear();
    // SC-303: another pod with the same claim goes where the claim is.
    let again = cluster.add(gpu("a"));
    cluster.pass();
    assert_eq!(cluster.label("host", &again), "n2");
}

/// SC-297, SC-319, SCH-197: where devices can be reached from narrows the claim.
#[test]
fn sc_297_devices_of_zones() {
    let zonal = |name: &str, zones: &str| Slice { reach: in_zone(&[zones]), ..slice(&format!("{name}.com"), &["d0"]) };
    let world = World::default()
        .class("x", "x.com")
        .class("y", "y.com")
        .slice(zonal("x", "z1 z2"))
        .slice(zonal("y", "z2"))
        .slice(zonal("gpu", "z1"))
        .claims([claim("x", [exactly("x", 1)]), claim("y", [exactly("y", 1)]), claim("a", [exactly("gpu", 1)])]);
    for (claims, want) in [(&["a"][..], "zone In [z1]"), (&["x", "y"], "zone In [z2]"), (&["x", "a"], "zone In [z1]")] {
        let mut cluster = cluster(vec![plain_type("plain")], &world);
        cluster.add(pod().uses(claims));
        assert_eq!(zones_of(&cluster.plan()), [want]);
    }
    let mut apart = cluster(vec![plain_type("plain")], &world);
    apart.add(pod().uses(&["y", "a"]));
    assert_eq!(refusal(&apart.plan()), Refusal::Devices(DeviceRefusal::NoDevices));
    // The zone of the devices decides which types are left.
    let mut sold = cluster(vec![plain_type("far").in_zones(&["z3"], 1.0), plain_type("near")], &world);
    sold.add(pod().uses(&["a"]));
    assert_eq!(told(&sold.plan()), "1 on near a=d0");
    let mut far = cluster(vec![plain_type("far").in_zones(&["z3"], 1.0)], &world);
    far.add(pod().uses(&["a"]));
    assert_eq!(refusal(&far.plan()), Refusal::Devices(DeviceRefusal::NoDevices));
}

/// SC-298, SCH-196, SCH-213: pods that share a claim.
#[test]
fn sc_298_shared_claims() {
    let apart = |claim: &str| gpu(claim).alone();
    let mut anywhere = cluster(vec![plain_type("plain")], &world([slice("gpu.com", &["d0"])]));
    anywhere.add(apart("a"));
    anywhere.add(apart("a"));
    assert_eq!(told(&anywhere.plan()), "1 on plain a=d0, 1 on plain");
    let mut own = cluster(vec![gpu_type("g", &["d0"])], &world([]));
    own.add(gpu("a"));
    own.add(gpu("a"));
    assert_eq!(told(&own.plan()), "2 on g a=d0");
    let mut torn = cluster(vec![gpu_type("g", &["d0"])], &world([]));
    torn.add(apart("a"));
    torn.add(apart("a"));
    let on_another = DeviceRefusal::OnAnotherNode(torn.devices.as_ref().unwrap().claims[0].id.clone());
    assert_eq!(refusal(&torn.plan()), Refusal::Devices(on_another));
}

/// A claim that has the device of one node is of no use elsewhere.
#[test]
fn claims_on_devices_of_one_node() {
    let world = world([named_nodes(slice("gpu.com", &["d0"]), "n1")]);
    let mut cluster = cluster(vec![plain_type("plain")], &world);
    cluster.node(unmanaged("n1", "cpu=4 memory=4Gi pods=9", "zone=z1"));
    cluster.add(gpu("a").alone());
    cluster.add(gpu("a").alone());
    let plan = cluster.plan();
    assert_eq!((told(&plan).as_str(), plan.unplaced.len()), ("n1 a=d0", 1));
}

/// SC-304: deferred until the claim is there.
#[test]
fn sc_304_missing_claims() {
    let mut cluster = cluster(vec![gpu_type("g", &["d0"])], &World::default());
    cluster.add(gpu("late"));
    assert_eq!(cluster.plan().unplaced[0].reasons[0].why.to_string(), "resource claim default/late not found",);
    cluster.devices = Some(devices(&World::default().claims([claim("late", [exactly("gpu", 1)])])));
    assert_eq!(told(&cluster.plan()), "1 on g late=d0");
    cluster.devices = Some(devices(&World::default().claims([claim("late", [exactly("fpga", 1)])])));
    assert_eq!(
        cluster.plan().unplaced[0].reasons[0].why.to_string(),
        "resource claim default/late: device class fpga not found",
    );
}

/// SC-305, SC-309, DIS-90: a pod that leaves its node takes its device along.
#[test]
fn sc_305_devices_of_moving_pods() {
    for (going, want) in [(true, "1 on plain holder=d0"), (false, "")] {
        let consumers = [Consumer::Pod { uid: "u".into() }];
        let world = World::default().slice(slice("gpu.com", &["d0"])).held("d0", &consumers);
        let mut cluster = cluster(vec![plain_type("plain")], &world);
        cluster.node(unmanaged("n", "cpu=4 memory=4Gi pods=9", "zone=z1"));
        let mut holder = gpu("holder");
        holder.0.uid = "u".into();
        let id = cluster.bound(holder, "n");
        if going {
            let node = cluster.nodes[0].node.as_mut().unwrap();
            Arc::make_mut(node).deleting_since = Some(jiff::Timestamp::UNIX_EPOCH);
            let moving = cluster.nodes[0].pods[0].clone();
            cluster.pending.insert(id, moving);
        }
        assert_eq!(told(&cluster.plan()), want, "{going}");
    }
}

/// SC-306, SCH-193, SCH-201: a node that starts has the devices of its type, one that runs those it has published.
#[test]
fn sc_306_nodes_that_start() {
    for launched in [Launched::ClaimOnly, Launched::InFlight] {
        let mut cluster = cluster(vec![gpu_type("g", &["d0"])], &world([]));
        cluster.launched = launched;
        let one = cluster.add(gpu("a"));
        assert_eq!(told(cluster.pass()), "1 on g a=d0");
        assert_eq!(told(cluster.pass()), "n0001 a=d0", "the pod waits for the node");
        cluster.add(gpu("b"));
        assert_eq!(told(&cluster.plan()), "1 on g b=d0, n0001 a=d0");
        assert!(cluster.at(&one).is_none());
    }
    let mut up = cluster(vec![gpu_type("g", &["d0"])], &world([]));
    up.launched = Launched::Initialized;
    let one = up.add(gpu("a"));
    up.pass();
    assert_eq!(up.label("host", &one), "n0001");
    up.add(gpu("b"));
    assert_eq!(told(&up.plan()), "1 on g b=d0", "never what it has published and what its type brings");
}

/// SC-318.
#[test]
fn sc_318_published_and_own_devices() {
    let zonal = Slice { reach: in_zone(&["z1"]), ..slice("gpu.com", &["p"]) };
    let world = World::default().slice(zonal).claims([claim("two", [exactly("gpu", 2)])]);
    let mut cluster = cluster(vec![gpu_type("it-a", &["own"]), plain_type("it-b")], &world);
    cluster.add(gpu("two"));
    let plan = cluster.plan();
    assert_eq!((told(&plan).as_str(), zones_of(&plan)), ("1 on it-a two=p two=own", vec!["zone In [z1]".to_owned()]));
}

/// SC-320: what is large enough has no device, and what has one is too small.
#[test]
fn sc_320_devices_rule_out_every_type() {
    let small = it("small", "cpu=2 memory=2Gi pods=9").brings(template("gpu.com", &["d0"]));
    let mut cluster = cluster(vec![small, plain_type("large")], &world([]));
    cluster.add(gpu("a").asks("cpu=3"));
    let plan = cluster.plan();
    assert_eq!((plan.claims.len(), refusal(&plan)), (0, Refusal::Devices(DeviceRefusal::NoDevices)));
}

/// SC-321.
#[test]
fn sc_321_pods_with_and_without_devices() {
    let mut cluster = cluster(vec![gpu_type("g", &["d0"]), plain_type("plain")], &world([]));
    cluster.add(gpu("a").asks("cpu=1"));
    cluster.add_all(2, &pod().asks("cpu=500m"));
    let plan = cluster.plan();
    assert_eq!(told(&plan), "3 on g a=d0", "plain pods may share the node");
    let mut first = cluster;
    first.add_all(3, &pod().asks("cpu=2"));
    let plan = first.plan();
    assert_eq!(plan.unplaced.len(), 0);
}

/// Q32, SCH-103: minimums hold for what the devices leave.
#[test]
fn q32_minimums_after_devices() {
    let types = || vec![gpu_type("g", &["d0"]), plain_type("plain"), plain_type("other")];
    for policy in [MinValuesPolicy::Strict, MinValuesPolicy::BestEffort] {
        let mut cluster = with(pool("p").require("type Exists min=2"), types());
        cluster.devices = Some(devices(&world([])));
        cluster.options.min_values = policy;
        cluster.add(gpu("a"));
        let plan = cluster.plan();
        if policy == MinValuesPolicy::Strict {
            let key = "node.kubernetes.io/instance-type".to_owned();
            assert_eq!(refusal(&plan), Refusal::MinValues(vec![key]));
        } else {
            assert_eq!(told(&plan), "1 on g a=d0");
            assert!(plan.claims[0].min_values_relaxed);
        }
    }
    // A claim that is open already does not get below its minimum either.
    let mut cluster = with(pool("p").require("type Exists min=2"), types());
    cluster.devices = Some(devices(&world([])));
    cluster.add(pod().asks("cpu=1"));
    cluster.add(gpu("a"));
    let plan = cluster.plan();
    assert_eq!((plan.claims.len(), plan.unplaced.len()), (1, 1));
    assert_eq!(plan.claims[0].instance_types.len(), 3);
}

/// SC-389, SCH-212, Q45: a type that is dropped by a pod without claims gives back what it had.
#[test]
fn sc_389_dropped_types_give_back() {
    let own = |models: &[(&str, i64)]| {
        let mut all = template("gpu.com", &[]);
        let device =
            |(name, model): &(&str, i64)| labelled(crate::devices::tests::build::device(name), "model", *model);
        all.pools[0].devices = models.iter().map(device).collect();
        all
    };
    let published = Slice { devices: own(&[("p", 7)]).pools.remove(0).devices, ..slice("gpu.com", &[]) };
    let mut two = claim("two", [exactly("gpu", 2)]);
    two.constraints = vec![match_attribute(&[], "gpu.com/model")];
    let world = World::default().slice(published).claims([two, claim("one", [exactly("gpu", 1)])]);
    let large = it("it-a", "cpu=7 memory=8Gi pods=9").brings(own(&[("x0", 1), ("x1", 1)]));
    let small = it("it-b", "cpu=4 memory=4Gi pods=9").brings(own(&[("y0", 7)]));
    let other = it("other", "cpu=1 memory=1Gi pods=9").brings(TypeDevices::default());
    let mut cluster = cluster(vec![large, small, other], &world);
    cluster.add(gpu("two").asks("cpu=3500m"));
    assert_eq!(told(&cluster.plan()), "1 on it-b two=p two=y0 or it-a two=x0 two=x1");
    cluster.add(pod().asks("cpu=3400m"));
    cluster.add(gpu("one").asks("cpu=800m"));
    let plan = cluster.plan();
    assert_eq!(plan.unplaced.len(), 0, "{}", plan.summary());
    assert!(told(&plan).starts_with("2 on it-a two=x0 two=x1, 1 on other one=p"), "{}", told(&plan));
}

/// SC-302: drivers of several claims.
#[test]
fn sc_302_drivers_are_named() {
    let world = World::default()
        .class("nic", "nic.com")
        .slice(slice("nic.com", &["n0"]))
        .claims([claim("a", [exactly("gpu", 1)]), claim("b", [on("nic", exactly("nic", 1))])]);
    let mut cluster = cluster(vec![gpu_type("g", &["d0"])], &world);
    cluster.add(pod().uses(&["b", "a"]));
    let plan = cluster.plan();
    assert_eq!(plan.claims[0].drivers().into_iter().collect::<Vec<_>>().join(","), "gpu.com,nic.com");
}

/// SCH-104, SCH-251: where the emptiest zone has no device, the next one is taken.
#[test]
fn spread_goes_where_devices_are() {
    let zonal = Slice { reach: in_zone(&["z3"]), ..slice("gpu.com", &["d0"]) };
    let mut cluster = cluster(vec![plain_type("plain")], &world([zonal]));
    cluster.add(gpu("a").label("app=test").spread(spread("zone")));
    assert_eq!(zones_of(&cluster.plan()), ["zone In [z3]"]);
}

/// What a draft takes back, it also takes back of devices.
#[test]
fn devices_are_rolled_back() {
    let mut cluster = cluster(vec![gpu_type("g", &["d0", "d1"])], &world([slice("gpu.com", &["d9"])]));
    for name in ["a", "b", "c", "d"] {
        cluster.add(gpu(name).asks("cpu=1"));
    }
    let snapshot = cluster.snapshot();
    let mut planner = Solver::new(&cluster.rules);
    let mut draft = planner.draft(&snapshot, &cluster.options);
    let mark = draft.mark();
    for _ in 0..3 {
        let classes: Vec<_> = draft.classes().iter().map(|class| class.id).collect();
        assert_eq!(classes.len(), 4, "pods with different claims are never alike");
        let (pool, _) = draft.pools().next().unwrap();
        for class in classes.into_iter().rev() {
            draft.open(class, pool);
        }
        draft.roll_back(&mark);
    }
    draft.place_rest(&mut || false);
    assert_eq!(text(&draft.finish()), text(&plan(&snapshot, &cluster.rules, &cluster.options)));
}
