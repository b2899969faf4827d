//! Shares of devices, and budgets that devices share.

use karpenter_model::devices::{CounterUse, DeviceCapacity, ValidAmounts};

use super::build::{World, asking, claim, device, exactly, slice, types};
use super::*;

const NONE: &str = "the devices of its resource claims cannot be had";

fn gi(amount: i64) -> Quantity {
    Quantity::bytes(amount << 30)
}

/// A device that several may share.
fn shared(name: &str, capacity: i64, default: Option<i64>, valid: ValidAmounts) -> Device {
    let capacity = DeviceCapacity { value: gi(capacity), default: default.map(gi), valid };
    Device { capacity: BTreeMap::from([("memory".to_owned(), capacity)]), shared: true, ..device(name) }
}

fn own(device: Device) -> TypeDevices {
    let pool =
        TemplatePool { driver: "gpu.com".into(), pool: "own".into(), devices: vec![device], ..TemplatePool::default() };
    TypeDevices { pools: vec![pool], bindings: Vec::new() }
}

fn wants(amount: Option<i64>) -> DeviceRequest {
    match amount {
        Some(amount) => asking(exactly("gpu", 1), "memory", gi(amount)),
        None => exactly("gpu", 1),
    }
}

/// How many of these requests in a row one node takes.
fn takes(device: &Device, amounts: &[Option<i64>]) -> usize {
    let claims = amounts.iter().enumerate().map(|(index, amount)| claim(&format!("c{index}"), [wants(*amount)]));
    let world = World::default().claims(claims);
    let kinds = types(&[("t", own(device.clone()))]);
    let mut pass = world.pass();
    (0..amounts.len()).take_while(|index| pass.give("n", &kinds, &[&format!("c{index}")]) != NONE).count()
}

/// SC-307, SC-310, SC-311, SCH-209: how many share a device that comes with a node.
#[test]
fn shares_of_a_device() {
    let plain = |capacity| shared("d", capacity, None, ValidAmounts::Any);
    let four_gi = shared("d", 12, Some(4), ValidAmounts::Any);
    let listed = || ValidAmounts::Listed(vec![gi(4), gi(8), gi(16)]);
    let range = ValidAmounts::Range { min: gi(4), max: Some(gi(72)), step: Some(gi(4)) };
    for (id, device, amounts, want) in [
        ("SC-307", plain(16), vec![Some(4), Some(4), Some(4), Some(8)], 3),
        ("SC-307", plain(16), vec![Some(32)], 0),
        ("SC-307 default", four_gi, vec![None, None, None, None], 3),
        ("SC-310", shared("d", 80, Some(8), range), vec![None; 11], 10),
        ("SC-311", shared("d", 16, None, listed()), vec![Some(5), Some(5), Some(1)], 2),
        ("SC-311", plain(32), vec![Some(16), Some(16)], 2),
        ("SC-311", plain(32), vec![Some(16), Some(24)], 1),
    ] {
        assert_eq!(takes(&device, &amounts), want, "{id} {amounts:?}");
    }
    let unknown = World::default().claims([claim("a", [asking(exactly("gpu", 1), "bandwidth", gi(1))])]);
    let kinds = types(&[("t", own(plain(16)))]);
    assert_eq!(unknown.pass().give("n", &kinds, &["a"]), NONE, "SC-307: a dimension that it lacks");
    let unbounded = Device { shared: true, ..device("d") };
    assert_eq!(takes(&unbounded, &[None; 20]), 20, "SCH-209: nothing to run out of");
}

/// SC-308, SC-311, SCH-195, Q38: shares that the API says are taken.
#[test]
fn shares_of_others() {
    let pod = |uid: &str| Consumer::Pod { uid: uid.to_owned() };
    let fits = |capacity: i64, shares: &[(i64, Vec<Consumer>)], amount: i64| {
        let published =
            Slice { devices: vec![shared("d", capacity, None, ValidAmounts::Any)], ..slice("gpu.com", &[]) };
        let mut world = World::default().slice(published).moving("moving");
        for (index, (amount, by)) in shares.iter().enumerate() {
            world = world.shared_by(&format!("s{index}"), "d", &[("memory", gi(*amount))], by);
        }
        let world = world.claims([claim("a", [wants(Some(amount))])]);
        world.pass().give("n", &types(&[("t", TypeDevices::default())]), &["a"]) != NONE
    };
    let two = [(4, vec![pod("live")]), (10, vec![pod("moving")])];
    assert!(fits(16, &two, 10) && fits(16, &two, 12) && !fits(16, &two, 13), "SC-308");
    assert!(!fits(80, &[(70, vec![pod("live")])], 16), "SC-311");
    let kept = [(10, vec![pod("moving")]), (4, vec![]), (4, vec![Consumer::Other])];
    assert!(fits(16, &kept, 8) && !fits(16, &kept, 9), "Q38");
}

/// A part of a device: its counters are taken from the budget.
fn part(name: &str, counters: &[(&str, i64)]) -> Device {
    let counters = counters.iter().map(|(counter, amount)| ((*counter).to_owned(), gi(*amount))).collect();
    Device { consumes: vec![CounterUse { set: "gpu".to_owned(), counters }], ..device(name) }
}

fn budget(counters: &[(&str, i64)]) -> BTreeMap<String, BTreeMap<String, Quantity>> {
    let counters = counters.iter().map(|(counter, amount)| ((*counter).to_owned(), gi(*amount))).collect();
    BTreeMap::from([("gpu".to_owned(), counters)])
}

/// SC-312, SCH-210: parts of a device that comes with a node.
#[test]
fn parts_of_a_device() {
    let takes = |budgets: &[(&str, i64)], parts: Vec<Device>, asks: usize| {
        let pool =
            TemplatePool { driver: "gpu.com".into(), pool: "own".into(), counters: budget(budgets), devices: parts };
        let kinds = types(&[("t", TypeDevices { pools: vec![pool], bindings: Vec::new() })]);
        let world = World::default().claims((0..asks).map(|index| claim(&format!("c{index}"), [exactly("gpu", 1)])));
        let mut pass = world.pass();
        (0..asks).take_while(|index| pass.give("n", &kinds, &[&format!("c{index}")]) != NONE).count()
    };
    let forty = |name: &str| part(name, &[("memory", 40)]);
    assert_eq!(takes(&[("memory", 80)], vec![forty("a"), forty("b"), forty("c")], 3), 2);
    assert_eq!(takes(&[("memory", 40)], vec![part("a", &[("memory", 80)])], 1), 0);
    assert_eq!(takes(&[("other", 40)], vec![forty("a")], 1), 0, "a budget that nobody declared");
    let both = |name: &str| part(name, &[("memory", 10), ("compute", 60)]);
    assert_eq!(takes(&[("memory", 100), ("compute", 100)], vec![both("a"), both("b")], 2), 1);
}

/// A published pool in two parts: the budget, and the devices that take from it.
fn published(world: World, counters: &[(&str, i64)], devices: Vec<Device>) -> World {
    let shared = Slice { name: "counters".into(), parts: 2, counters: budget(counters), ..slice("gpu.com", &[]) };
    world.slice(shared).slice(Slice { parts: 2, devices, ..slice("gpu.com", &[]) })
}

/// SC-312, SC-313, SC-314, SCH-211: what counts of a candidate is the most that one of its types uses.
#[test]
fn budgets_of_published_pools() {
    let plain = || types(&[("t", TypeDevices::default())]);
    let unknown = published(World::default(), &[("other", 1)], vec![part("a", &[("memory", 1)])]);
    let unknown = unknown.claims([claim("a", [exactly("gpu", 1)])]);
    assert_eq!(unknown.pass().give("n", &plain(), &["a"]), NONE, "SC-312: the pool is not sound");

    let forty = |name: &str| part(name, &[("memory", 40)]);
    let asks = |name: &str, count| claim(name, [exactly("gpu", count)]);
    let world = published(World::default(), &[("memory", 120)], vec![forty("a"), forty("b"), forty("c")]);
    let world = world.claims([asks("two", 2), asks("also", 2), asks("one", 1)]);
    let both = types(&[("it-1", TypeDevices::default()), ("it-2", TypeDevices::default())]);
    let mut pass = world.pass();
    assert_eq!(pass.give("A", &both, &["two"]), "it-1: two/gpu=a two/gpu=b, it-2: two/gpu=a two/gpu=b");
    assert_eq!(pass.ask("B", &plain(), &["also"]), NONE, "SC-313");
    assert_eq!(pass.ask("B", &plain(), &["one"]), "t: one/gpu=c", "SC-313");
    pass.devices.keep_types("A", &BTreeSet::from(["it-2"]));
    assert_eq!(pass.ask("B", &plain(), &["also"]), NONE, "SC-313: the other type still has them");
    pass.devices.keep_types("A", &BTreeSet::new());
    assert_eq!(pass.ask("B", &plain(), &["also"]), "t: also/gpu=a also/gpu=b", "SC-313");

    let sizes = vec![part("s60", &[("memory", 60)]), part("s20", &[("memory", 20)]), part("s40", &[("memory", 40)])];
    let world = published(World::default(), &[("memory", 120)], sizes);
    let world = world.claims([asks("first", 1), asks("second", 1), asks("b", 1)]);
    let mut pass = world.pass();
    let only = types(&[("it-1", TypeDevices::default())]);
    assert_eq!(pass.give("A", &only, &["first"]), "it-1: first/gpu=s60");
    assert_eq!(pass.give("A", &both, &["second"]), "it-1: second/gpu=s20, it-2: second/gpu=s60");
    assert_eq!(pass.ask("B", &plain(), &["b"]), "t: b/gpu=s40", "SC-314: 80 are gone, 40 are left");
}

/// SCH-210: what is given already is taken from the budget, too.
#[test]
fn budgets_after_what_is_given() {
    let forty = |name: &str| part(name, &[("memory", 40)]);
    let world = published(World::default(), &[("memory", 80)], vec![forty("a"), forty("b"), forty("c")]);
    let world = world
        .held("a", &[Consumer::Other])
        .claims([claim("two", [exactly("gpu", 2)]), claim("one", [exactly("gpu", 1)])]);
    let plain = types(&[("t", TypeDevices::default())]);
    assert_eq!(world.pass().give("n", &plain, &["two"]), NONE);
    assert_eq!(world.pass().give("n", &plain, &["one"]), "t: one/gpu=b");
}
