//! The cases of dynamic resource allocation, as far as they are about who gets which device.

pub(crate) mod build;
mod sharing;

use std::collections::BTreeSet;

use karpenter_model::devices::{
    AttributeBinding, Constraint, Consumer, Device, DeviceRequest, Reach, RequestKind, Selector, Slice, TemplatePool,
};

use self::build::{
    World, any, claim, device, exactly, first, id, in_zone, labelled, match_attribute, named_nodes, on, request, slice,
    template, types,
};
use super::*;

/// SC-293, SC-295, SCH-201: devices that come with a type; each is given once, and a third pod needs another node.
#[test]
fn devices_of_types() {
    let world = World::default().claims([
        claim("a", [exactly("gpu", 1)]),
        claim("b", [exactly("gpu", 1)]),
        claim("c", [exactly("gpu", 1)]),
    ]);
    let kinds = types(&[("g", template("gpu.com", &["d0", "d1"])), ("plain", template("gpu.com", &[]))]);
    let mut pass = world.pass();
    assert_eq!(pass.give("n1", &kinds, &["a"]), "g: a/gpu=d0");
    assert_eq!(pass.give("n1", &kinds, &["b"]), "g: b/gpu=d1", "SC-295");
    assert_eq!(pass.give("n1", &kinds, &["c"]), "the devices of its resource claims cannot be had", "SC-295");
    assert_eq!(pass.give("n2", &kinds, &["c"]), "g: c/gpu=d0", "SC-295: devices of another node");
    assert_eq!(pass.devices.drivers("n1").into_iter().collect::<Vec<_>>(), ["gpu.com"], "SCH-215");
    assert!(pass.devices.drivers("elsewhere").is_empty(), "SC-339");
}

/// SC-296, SCH-198: devices of one node are for that node.
#[test]
fn devices_of_nodes() {
    let world =
        World::default().slice(named_nodes(slice("gpu.com", &["d0"]), "n1")).claims([claim("a", [exactly("gpu", 1)])]);
    let running = types(&[("t", TypeDevices::default())]);
    for (node, want) in [
        (Some("n1"), "t: a/gpu=d0"),
        (Some("n2"), "the devices of its resource claims cannot be had"),
        (None, "the devices of its resource claims cannot be had"),
    ] {
        assert_eq!(world.pass().give_on(node, "c", &running, &["a"]), want, "{node:?}");
    }
    let nowhere = World::default()
        .slice(Slice { reach: Reach::Nowhere, ..slice("gpu.com", &["d0"]) })
        .claims([claim("a", [exactly("gpu", 1)])]);
    assert_eq!(nowhere.pass().give("c", &running, &["a"]), "the devices of its resource claims cannot be had");
}

/// SC-297, SC-318, SCH-197, SCH-200, Q21, Q22: devices narrow the candidate to where they are.
#[test]
fn devices_narrow_the_candidate() {
    let plain = types(&[("t", TypeDevices::default())]);
    let world = |a: &[&str], b: &[&str]| {
        let mut second = slice("nic.com", &["n0"]);
        second.reach = in_zone(b);
        World::default()
            .slice(Slice { reach: in_zone(a), ..slice("gpu.com", &["d0"]) })
            .slice(second)
            .class("nic", "nic.com")
            .claims([claim("a", [exactly("gpu", 1)]), claim("b", [on("nic", exactly("nic", 1))])])
    };
    let one = world(&["z1"], &["z1"]);
    let mut pass = one.pass();
    assert_eq!(pass.give("c", &plain, &["a"]), "t: a/gpu=d0 in zone In [z1]");
    let both = world(&["z1 z2"], &["z2"]);
    assert_eq!(both.pass().give("c", &plain, &["a", "b"]), "t: a/gpu=d0 b/nic=n0 in zone In [z2]");
    let apart = world(&["z1"], &["z2"]);
    assert_eq!(apart.pass().give("c", &plain, &["a", "b"]), "the devices of its resource claims cannot be had");
    let terms = world(&["z1", "z2"], &["z2"]);
    assert_eq!(
        terms.pass().give("c", &plain, &["a", "b"]),
        "t: a/gpu=d0 b/nic=n0 in zone In [z2]",
        "Q22: terms are alternatives"
    );
    let mixed = World::default()
        .slice(Slice { reach: in_zone(&["z1"]), ..slice("gpu.com", &["p0"]) })
        .claims([claim("a", [exactly("gpu", 2)])]);
    let kinds = types(&[("it-a", template("gpu.com", &["d0"])), ("it-b", TypeDevices::default())]);
    assert_eq!(mixed.pass().give("c", &kinds, &["a"]), "it-a: a/gpu=p0 a/gpu=d0 in zone In [z1]", "SC-318");
}

/// SC-298, SCH-196, SCH-213: pods that share a claim.
#[test]
fn shared_claims() {
    let plain = types(&[("t", TypeDevices::default())]);
    let everywhere = World::default().slice(slice("gpu.com", &["d0"])).claims([claim("a", [exactly("gpu", 1)])]);
    let mut pass = everywhere.pass();
    assert_eq!(pass.give("c1", &plain, &["a"]), "t: a/gpu=d0");
    assert_eq!(pass.give("c2", &plain, &["a"]), "t:", "it is allocated already");
    let zonal = World::default()
        .slice(Slice { reach: in_zone(&["z1"]), ..slice("gpu.com", &["d0"]) })
        .claims([claim("a", [exactly("gpu", 1)])]);
    let mut pass = zonal.pass();
    pass.give("c1", &plain, &["a"]);
    assert_eq!(pass.give("c2", &plain, &["a"]), "t: in zone In [z1]");
    let own = World::default().claims([claim("a", [exactly("gpu", 1)])]);
    let kinds = types(&[("g", template("gpu.com", &["d0"]))]);
    let mut pass = own.pass();
    pass.give("c1", &kinds, &["a"]);
    assert_eq!(pass.give("c1", &kinds, &["a"]), "g:");
    assert_eq!(pass.give("c2", &kinds, &["a"]), "resource claim default/a has devices of another node");
}

/// SC-299, SC-315, VC-113, SCH-199, SCH-203: all devices, or nothing.
#[test]
fn all_devices() {
    let plain = types(&[("t", TypeDevices::default())]);
    let all = |world: World| world.claims([claim("a", [any("gpu")])]).pass().give("c", &plain, &["a"]);
    let none = "the devices of its resource claims cannot be had";
    let three = || slice("gpu.com", &["d0", "d1", "d2"]);
    assert_eq!(all(World::default().slice(three())), "t: a/gpu=d0 a/gpu=d1 a/gpu=d2");
    assert_eq!(all(World::default()), none, "VC-113");
    assert_eq!(all(World::default().slice(three()).held("d1", &[Consumer::Other])), none);
    assert_eq!(all(World::default().slice(Slice { parts: 2, ..three() })), none, "SC-315: a part is missing");
    let exact = |world: World| world.claims([claim("a", [exactly("gpu", 1)])]).pass().give("c", &plain, &["a"]);
    assert_eq!(exact(World::default().slice(Slice { parts: 2, ..three() })), none, "SC-315");
    let newer = Slice { generation: 2, reach: Reach::Node("other".into()), name: "s2".into(), ..three() };
    assert_eq!(exact(World::default().slice(three()).slice(newer)), none, "SC-315: only the newest generation");
    let twice = Slice { name: "s2".into(), parts: 2, ..slice("gpu.com", &["d0"]) };
    assert_eq!(exact(World::default().slice(Slice { parts: 2, ..three() }).slice(twice)), none, "SCH-199: equal names");
    let fallback = claim("a", [first("gpu", [("all", any("other")), ("one", exactly("gpu", 1))])]);
    let world = World::default().slice(three()).class("other", "other.com").claims([fallback]);
    assert_eq!(world.pass().give("c", &plain, &["a"]), "t: a/gpu/one=d0", "VC-113: the next alternative");
}

/// SCH-206, SC-301, SC-317, VC-112, V15-106: the first alternative that can be had.
#[test]
fn alternatives() {
    let choice = || claim("a", [first("gpu", [("four", exactly("gpu", 4)), ("two", exactly("gpu", 2))])]);
    let world = World::default().claims([choice()]);
    let kinds = types(&[
        ("one", template("gpu.com", &["d0"])),
        ("two", template("gpu.com", &["d0", "d1"])),
        ("four", template("gpu.com", &["d0", "d1", "d2", "d3"])),
    ]);
    assert_eq!(
        world.pass().give("c", &kinds, &["a"]),
        "four: a/gpu/four=d0 a/gpu/four=d1 a/gpu/four=d2 a/gpu/four=d3, two: a/gpu/two=d0 a/gpu/two=d1",
        "VC-112: each type its own choice"
    );
    let last = types(&[("one", template("gpu.com", &["d0"]))]);
    assert_eq!(world.pass().give("c", &last, &["a"]), "the devices of its resource claims cannot be had", "VC-112");
    let later = World::default().claims([
        claim("a", [first("gpu", [("three", exactly("gpu", 3)), ("two", exactly("gpu", 2))])]),
        claim("b", [exactly("gpu", 1)]),
    ]);
    let three = types(&[("t", template("gpu.com", &["d0", "d1", "d2"]))]);
    assert_eq!(later.pass().give("c", &three, &["a", "b"]), "t: a/gpu/two=d0 a/gpu/two=d1 b/gpu=d2", "SC-317");
}

/// SCH-207, SC-300, VC-114, SCH-205: devices with the same value of an attribute.
#[test]
fn equal_attributes() {
    let kinds = |devices: Vec<Device>| {
        let pool = TemplatePool { driver: "gpu.com".into(), pool: "own".into(), devices, ..Default::default() };
        types(&[("t", TypeDevices { pools: vec![pool], bindings: Vec::new() })])
    };
    let numa = |name: &str, value: i64| labelled(device(name), "numa", value);
    let pair = |scope: &[&str]| {
        let mut claim = claim("a", [exactly("x", 1), exactly("y", 1)]);
        claim.constraints = vec![match_attribute(scope, "gpu.com/numa")];
        World::default().class("x", "gpu.com").class("y", "gpu.com").claims([claim])
    };
    let four = || kinds(vec![numa("a0", 0), numa("b1", 1), numa("c1", 1), numa("d0", 0)]);
    assert_eq!(pair(&[]).pass().give("c", &four(), &["a"]), "t: a/x=a0 a/y=d0", "SC-300");
    let odd = || kinds(vec![numa("a0", 0), numa("b1", 1)]);
    assert_eq!(pair(&[]).pass().give("c", &odd(), &["a"]), "the devices of its resource claims cannot be had");
    assert_eq!(pair(&["x"]).pass().give("c", &odd(), &["a"]), "t: a/x=a0 a/y=b1", "VC-114: y is not covered");

    let sub = |scope: &str| {
        let mut claim = claim("a", [first("x", [("one", exactly("gpu", 1))]), exactly("y", 1)]);
        claim.constraints = vec![match_attribute(&[scope, "y"], "gpu.com/numa")];
        World::default().class("y", "gpu.com").claims([claim]).pass().give("c", &odd(), &["a"])
    };
    let none = "the devices of its resource claims cannot be had";
    assert_eq!((sub("x").as_str(), sub("x/one").as_str()), (none, none), "VC-114");
    assert_eq!(sub("x/other"), "t: a/x/one=a0 a/y=b1", "VC-114");

    let binding = AttributeBinding {
        attribute: "gpu.com/numa".into(),
        devices: [("gpu-0", "own"), ("nic-0", "own")].map(|(name, pool)| id("gpu.com", pool, name)).to_vec(),
    };
    let unvalued = || kinds(vec![device("free"), device("gpu-0"), device("gpu-1"), device("nic-0")]);
    let mut bound = unvalued();
    bound[0].1.bindings = vec![binding];
    assert_eq!(pair(&[]).pass().give("c", &bound, &["a"]), "t: a/x=gpu-0 a/y=nic-0", "SC-300: bound to each other");
    assert_eq!(pair(&[]).pass().give("c", &unvalued(), &["a"]), none, "no value and no binding");
    let mut mixed = kinds(vec![numa("a0", 0), device("gpu-0"), device("nic-0")]);
    mixed[0].1.bindings = bound[0].1.bindings.clone();
    assert_eq!(pair(&[]).pass().give("c", &mixed, &["a"]), "t: a/x=gpu-0 a/y=nic-0", "never a value and a binding");
}

/// SC-302, SC-304, SCH-202: drivers of several claims; what is missing or not understood.
#[test]
fn what_is_asked_for_is_understood() {
    let kinds = types(&[("t", template("gpu.com", &["d0", "d1"]))]);
    let world = World::default().claims([claim("a", [exactly("gpu", 1)])]);
    assert_eq!(world.pass().give("c", &kinds, &["gone"]), "resource claim default/gone not found", "SC-304");
    for (name, claim, why) in [
        ("class", claim("a", [on("gone", exactly("gpu", 1))]), "device class gone not found"),
        ("kind", claim("a", [request("gpu", RequestKind::Unknown)]), "request gpu is of no known kind"),
        (
            "selector",
            claim("a", [build::selecting(exactly("gpu", 1), Selector::Unusable("it does not compile".into()))]),
            "selector of request gpu: it does not compile",
        ),
        (
            "constraint",
            ResourceClaim {
                constraints: vec![Constraint::Unknown("distinctAttribute".into())],
                ..claim("a", [exactly("gpu", 1)])
            },
            "constraint distinctAttribute is not supported",
        ),
    ] {
        let refused = World::default().claims([claim]).pass().give("c", &kinds, &["a"]);
        assert_eq!(refused, format!("resource claim default/a: {why}"), "{name}");
    }
    let failing = |request: DeviceRequest| {
        let claim = claim("a", [build::selecting(request, build::failing_on("d0"))]);
        World::default().claims([claim]).pass().give("c", &kinds, &["a"])
    };
    assert_eq!(failing(exactly("gpu", 1)), "t: a/gpu=d1", "an expression that fails rejects the device");
    assert_eq!(failing(any("gpu")), "resource claim default/a: no such attribute", "and a request for all");
    let two = World::default()
        .class("nic", "nic.com")
        .slice(slice("nic.com", &["n0"]))
        .claims([claim("a", [exactly("gpu", 1)]), claim("b", [on("nic", exactly("nic", 1))])]);
    let mut pass = two.pass();
    pass.give("c", &kinds, &["a", "b"]);
    assert_eq!(pass.devices.drivers("c").into_iter().collect::<Vec<_>>().join(","), "gpu.com,nic.com", "SC-302");
}

/// SC-303, SC-305, SC-309, SC-319, SCH-194, SCH-196: what the API says is allocated.
#[test]
fn what_is_allocated_already() {
    let plain = types(&[("t", TypeDevices::default())]);
    let pod = |uid: &str| Consumer::Pod { uid: uid.to_owned() };
    let none = "the devices of its resource claims cannot be had";
    for (name, consumers, other, own) in [
        ("SC-303 a live pod", vec![pod("live")], none, "t:"),
        ("SC-305 a moving pod", vec![pod("moving")], "t: b/gpu=d0", "t: a/gpu=d0"),
        ("SC-309 one of each", vec![pod("moving"), pod("live")], none, "t:"),
        ("SC-309 somebody else", vec![Consumer::Other], none, "t:"),
        ("nobody", vec![], none, "t:"),
    ] {
        let world = || {
            let world = World::default().slice(slice("gpu.com", &["d0"])).held("d0", &consumers);
            world.moving("moving").claims([claim("b", [exactly("gpu", 1)])])
        };
        assert_eq!(world().pass().give("c", &plain, &["b"]), other, "{name}");
        assert_eq!(
            world().pass().give("c", &plain, &["holder"]),
            if own == "t: a/gpu=d0" { "t: holder/gpu=d0" } else { own },
            "{name}"
        );
    }
    let mut there = World::default().slice(slice("gpu.com", &["d0", "d1"])).held("d0", &[Consumer::Other]);
    there.holder().terms = vec![build::zone("z1")];
    let there = there.claims([claim("b", [exactly("gpu", 1)])]);
    assert_eq!(there.pass().give("c", &plain, &["holder", "b"]), "t: b/gpu=d1 in zone In [z1]", "SC-319, Q21");
    let far = build::zone("z2");
    assert_eq!(there.pass().give_in(&far, "c", &plain, &["holder"]), none);
}

/// SC-306, SCH-193: what nodes published that are not up yet does not count.
#[test]
fn slices_of_nodes_that_are_not_up() {
    let plain = types(&[("t", TypeDevices::default())]);
    let owned = |node: &str| Slice { owner: Some(node.into()), ..slice("gpu.com", &["d0"]) };
    let of = |node: &str| {
        let world = World::default().slice(owned(node)).node("up").claims([claim("a", [exactly("gpu", 1)])]);
        world.pass().give("c", &plain, &["a"])
    };
    assert_eq!(of("up"), "t: a/gpu=d0");
    assert_eq!(of("starting"), "the devices of its resource claims cannot be had");
}

/// SC-316, SCH-204: at most 32 devices per claim.
#[test]
fn numbers_of_devices() {
    let names: Vec<String> = (0..40).map(|index| format!("d{index:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let kinds = types(&[("t", template("gpu.com", &names))]);
    let given = |requests: Vec<DeviceRequest>| {
        let world = World::default().claims([claim("a", requests)]);
        let answer = world.pass().give("c", &kinds, &["a"]);
        if answer.starts_with("t:") { format!("{} devices", answer.matches('=').count()) } else { answer }
    };
    let one_of = |name: &str, counts: &[u32]| {
        first(name, counts.iter().map(|count| (format!("of{count}"), exactly("gpu", *count))).collect::<Vec<_>>())
    };
    let too_many = |count| format!("resource claim default/a asks for {count} devices, at most 32 can be given");
    assert_eq!(given(vec![exactly("gpu", 32)]), "32 devices");
    assert_eq!(given(vec![exactly("gpu", 33)]), too_many(33));
    assert_eq!(given(vec![one_of("x", &[20, 10]), one_of("y", &[20, 10])]), "30 devices");
    assert_eq!(given(vec![one_of("x", &[40, 20])]), "20 devices");
    assert_eq!(given(vec![one_of("x", &[20]), one_of("y", &[20])]), too_many(40));
    assert_eq!(given(vec![any("gpu")]), too_many(40), "all of them, on every type");
}

/// SC-389, SCH-208, SCH-212, Q45: types of a candidate may have the same device; those that are dropped give it back.
#[test]
fn dropped_types_give_back() {
    let attribute = "gpu.com/model";
    let modelled = |name: &str, model: i64| labelled(device(name), "model", model);
    let mut two = claim("a", [exactly("gpu", 2)]);
    two.constraints = vec![match_attribute(&[], attribute)];
    let published = Slice { devices: vec![modelled("p", 7)], ..slice("gpu.com", &[]) };
    let world = World::default().slice(published).claims([two, claim("b", [exactly("gpu", 1)])]);
    let own = |devices: Vec<Device>| TypeDevices {
        pools: vec![TemplatePool { driver: "gpu.com".into(), pool: "own".into(), devices, ..Default::default() }],
        bindings: Vec::new(),
    };
    let kinds =
        types(&[("it-a", own(vec![modelled("x0", 1), modelled("x1", 1)])), ("it-b", own(vec![modelled("y0", 7)]))]);
    let plain = types(&[("t", TypeDevices::default())]);
    let mut pass = world.pass();
    assert_eq!(pass.give("c1", &kinds, &["a"]), "it-a: a/gpu=x0 a/gpu=x1, it-b: a/gpu=p a/gpu=y0");
    let none = "the devices of its resource claims cannot be had";
    assert_eq!(pass.ask("c2", &plain, &["b"]), none);
    let mark = pass.devices.mark();
    pass.devices.keep_types("c1", &BTreeSet::from(["it-a"]));
    assert_eq!(pass.ask("c2", &plain, &["b"]), "t: b/gpu=p");
    pass.devices.undo_to(mark);
    assert_eq!(pass.ask("c2", &plain, &["b"]), none, "as before");
    pass.devices.undo_to(0);
    assert_eq!(pass.ask("c2", &plain, &["b"]), "t: b/gpu=p", "as in the beginning");
    assert!(pass.devices.drivers("c1").is_empty());
}

/// SCH-214, Q8: a search without end is given up, and fails like any other.
#[test]
fn hard_searches_are_given_up() {
    let names: Vec<String> = (0..60).map(|index| format!("d{index:02}")).collect();
    let devices = names.iter().zip(0..).map(|(name, index)| labelled(device(name), "n", index / 15)).collect();
    let mut hard = claim("a", [exactly("gpu", 10), exactly("gpu2", 10)]);
    // Four values with fifteen devices each: every choice of ten has to be tried before it is sure that twenty do not fit.
    hard.constraints = vec![match_attribute(&[], "gpu.com/n")];
    let world =
        World::default().class("gpu2", "gpu.com").slice(Slice { devices, ..slice("gpu.com", &[]) }).claims([hard]);
    let plain = types(&[("t", TypeDevices::default())]);
    assert_eq!(
        world.pass().give("c", &plain, &["a"]),
        "no devices for its resource claims were found in reasonable time"
    );
}
