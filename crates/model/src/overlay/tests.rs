use super::*;
use crate::devices::{TemplatePool, TypeDevices};
use crate::example;
use crate::instance_type::{Overhead, Overrides, Price};
use crate::quantity::Quantity;

const FUSE: &str = "smarter-devices/fuse";
const HUGE: &str = "hugepages-2Mi";

fn offering(zone: &str, capacity_type: &str, price: f64) -> Offering {
    Offering {
        requirements: [
            Requirement::any_of(labels::ZONE, [zone]),
            Requirement::any_of(labels::CAPACITY_TYPE, [capacity_type]),
        ]
        .into_iter()
        .collect(),
        price: Price::new(price).unwrap(),
        available: true,
        reservation_capacity: None,
        overrides: Overrides::default(),
    }
}

fn instance_type(name: &str, offerings: Vec<Offering>) -> InstanceType {
    let values = |key: &str| {
        let own = offerings.iter().filter_map(|offering| offering.requirements.get(key)?.single_value());
        Requirement::any_of(key, own.map(ToOwned::to_owned).collect::<Vec<_>>())
    };
    InstanceType {
        name: name.to_owned(),
        requirements: [
            Requirement::any_of(labels::INSTANCE_TYPE, [name]),
            values(labels::ZONE),
            values(labels::CAPACITY_TYPE),
        ]
        .into_iter()
        .collect(),
        offerings,
        capacity: Resources::new().with("cpu", Quantity::units(4)),
        overhead: Overhead::default(),
        attachment_limits: BTreeMap::from([("d.csi".to_owned(), 7)]),
        devices: TypeDevices::default(),
    }
}

/// One offering on demand in z1.
fn priced(name: &str, price: f64) -> InstanceType {
    instance_type(name, vec![offering("z1", "on-demand", price)])
}

fn overlay(name: &str, weight: i32) -> OverlayView {
    OverlayView {
        name: name.to_owned(),
        weight,
        requirements: Requirements::new(),
        price: None,
        capacity: Resources::new(),
        invalid: None,
    }
}

impl OverlayView {
    fn costs(mut self, change: &str) -> Self {
        self.price = PriceChange::parse(change).unwrap();
        self
    }

    fn has(mut self, name: &str, amount: i64) -> Self {
        self.capacity.set(name, Quantity::units(amount));
        self
    }

    fn on(mut self, requirement: Requirement) -> Self {
        self.requirements.add(requirement);
        self
    }

    fn on_types(self, names: &[&str]) -> Self {
        self.on(Requirement::any_of(labels::INSTANCE_TYPE, names.iter().copied()))
    }
}

struct World {
    pools: Vec<PoolView>,
    types: Vec<InstanceType>,
}

/// One pool.
fn world(types: Vec<InstanceType>) -> World {
    World { pools: vec![example::pool("pool1")], types }
}

impl World {
    fn evaluate(&self, overlays: &[OverlayView]) -> Evaluation {
        let pools: Vec<PoolTypes<'_>> =
            self.pools.iter().map(|pool| PoolTypes { pool, instance_types: &self.types }).collect();
        evaluate(overlays, &pools, &LabelRules::core())
    }

    /// Who conflicts with whom.
    fn conflicts(&self, overlays: &[OverlayView]) -> Vec<String> {
        let verdicts = self.evaluate(overlays).verdicts;
        let losers = verdicts.iter().filter_map(|(name, verdict)| match verdict {
            Verdict::Conflict { with, .. } => Some(format!("{name}<{with}")),
            _ => None,
        });
        losers.collect()
    }

    fn applied(&self, overlays: &[OverlayView], pool: &str) -> Vec<InstanceType> {
        self.evaluate(overlays).store.apply(pool, &self.types).unwrap()
    }

    /// Prices of all offerings in their order.
    fn prices(&self, overlays: &[OverlayView], pool: &str) -> Vec<f64> {
        let types = self.applied(overlays, pool);
        // Sums of decimals are compared to the millionth.
        let rounded = |offering: &Offering| (offering.price.per_hour() * 1e6).round() / 1e6;
        types.iter().flat_map(|known| known.offerings.iter().map(rounded)).collect()
    }
}

/// SC-258, SC-259, SCH-167, SCH-170, SCH-172, API-90, API-91: who of two wins on everything.
#[test]
fn prices_of_equal_weight_conflict() {
    let one = world(vec![priced("std", 1.0), priced("small", 2.0)]);
    for (a, b, price) in [("5", "7", 7.0), ("5", "5", 5.0), ("5", "+0", 1.0), ("+1", "9", 9.0)] {
        let both = [overlay("overlay-a", 10).costs(a), overlay("overlay-b", 10).costs(b)];
        assert_eq!(one.conflicts(&both), ["overlay-a<overlay-b"], "SC-258 {a} {b}");
        assert_eq!(one.evaluate(&both).verdicts["overlay-b"], Verdict::Accepted);
        assert!((one.prices(&both, "pool1")[0] - price).abs() < 1e-9, "SC-258 {a} {b}");
    }
    let weighed = [overlay("overlay-a", 10).costs("5"), overlay("overlay-b", 20).costs("7")];
    assert_eq!(one.conflicts(&weighed), [""; 0], "SC-259");
    assert_eq!(one.prices(&weighed, "pool1"), [7.0, 7.0]);
    let three = [overlay("a", 10).costs("5"), overlay("b", 10).costs("6"), overlay("c", 20).costs("7")];
    assert_eq!(one.conflicts(&three), ["a<b"], "API-91: also where a heavier one supplies the price");
}

/// SC-260, SC-261.
#[test]
fn selection_decides_about_conflicts() {
    let one = world(vec![priced("std", 1.0), priced("small", 2.0)]);
    let not_std = Requirement::new(
        &LabelRules::core(),
        labels::INSTANCE_TYPE,
        crate::requirements::Operator::NotIn,
        &["std".to_owned()],
        None,
    );
    let apart = [overlay("a", 10).costs("5").on_types(&["std"]), overlay("b", 10).costs("7").on(not_std.unwrap())];
    assert_eq!(one.conflicts(&apart), [""; 0]);
    assert_eq!(one.prices(&apart, "pool1"), [5.0, 7.0]);
    let crossing = [
        overlay("a", 10).costs("5").on(Requirement::any_of(labels::ZONE, ["z1"])),
        overlay("b", 10).costs("7").on(Requirement::exists(labels::CAPACITY_TYPE)),
    ];
    assert_eq!(one.conflicts(&crossing), ["a<b"]);
}

/// SC-262, SC-263, SC-264, SC-265, SCH-171, SCH-175, Q19.
#[test]
fn capacity_conflicts_by_resource() {
    let one = world(vec![priced("std", 1.0)]);
    let amount = |overlays: &[OverlayView], name: &str| one.applied(overlays, "pool1")[0].capacity.amount(name).value();
    let equal = [overlay("a", 10).has(FUSE, 5), overlay("b", 10).has(FUSE, 99)];
    assert_eq!(one.conflicts(&equal), ["a<b"], "SC-262");
    let weighed = [overlay("a", 10).has(FUSE, 5), overlay("b", 20).has(FUSE, 99)];
    assert_eq!((one.conflicts(&weighed).len(), amount(&weighed, FUSE)), (0, 99), "SC-262");
    let merged = [overlay("a", 10).has(FUSE, 1), overlay("b", 10).has(HUGE, 2)];
    assert_eq!((amount(&merged, FUSE), amount(&merged, HUGE)), (1, 2), "SC-263");
    let kinds = [overlay("a", 10).costs("5"), overlay("b", 10).has(FUSE, 3)];
    assert_eq!(one.conflicts(&kinds), [""; 0], "SC-264");
    assert_eq!((amount(&kinds, FUSE), one.prices(&kinds, "pool1")), (3, vec![5.0]), "SC-264");
    let three = [overlay("a", 10).has(HUGE, 9), overlay("b", 10).has(FUSE, 1), overlay("c", 10).has(HUGE, 2)];
    assert_eq!(one.conflicts(&three), ["a<c"], "SC-265, Q19: not only the last one counts");
    assert_eq!((amount(&three, FUSE), amount(&three, HUGE)), (1, 2));
}

/// SC-266, API-92: a loser changes nothing anywhere.
#[test]
fn losers_lose_everywhere() {
    let mut two = world(vec![priced("a", 1.0), priced("b", 2.0), priced("c", 3.0)]);
    let clash = [
        overlay("first", 10).costs("50").on_types(&["a", "b"]),
        overlay("later", 10).costs("70").on_types(&["b", "c"]),
    ];
    assert_eq!(two.prices(&clash, "pool1"), [1.0, 70.0, 70.0]);
    two.pools.push(example::pool("pool2"));
    let in_pool2 = [
        overlay("first", 10).costs("50"),
        overlay("later", 10).costs("70").on(Requirement::any_of(labels::NODEPOOL, ["pool2"])),
    ];
    let evaluation = two.evaluate(&in_pool2);
    let conflict = Verdict::Conflict { with: "later".into(), pool: "pool2".into(), instance_type: "a".into() };
    assert_eq!(evaluation.verdicts["first"], conflict);
    assert_eq!(two.prices(&in_pool2, "pool1"), [1.0, 2.0, 3.0]);
    assert_eq!(two.prices(&in_pool2, "pool2"), [70.0, 70.0, 70.0]);
}

/// SC-267, SC-268, SCH-169, SCH-177, API-89: pools are told apart by name and by template labels.
#[test]
fn pools_are_selected() {
    let mut two = world(vec![priced("t", 1.02)]);
    two.pools.push(example::pool("pool2"));
    two.pools[0].labels.insert("team".into(), "a".into());
    for (change, want) in [("13234.223", 13234.223), ("+1000", 1001.02)] {
        let own = [overlay("o", 0).costs(change).on(Requirement::any_of(labels::NODEPOOL, ["pool1"]))];
        assert_eq!((two.prices(&own, "pool1"), two.prices(&own, "pool2")), (vec![want], vec![1.02]));
    }
    let team = [overlay("o", 0).costs("9").on(Requirement::any_of("team", ["a"]))];
    assert_eq!((two.prices(&team, "pool1"), two.prices(&team, "pool2")), (vec![9.0], vec![1.02]));
    assert!(!two.applied(&team, "pool1")[0].requirements.has_key("team"));
    let class = [overlay("o", 0).costs("9").on(Requirement::exists("example.com/exampleclass"))];
    assert_eq!(two.prices(&class, "pool1"), [1.02], "the class label is none of the template's");
}

/// SC-269: of a type only the offerings that match.
#[test]
fn offerings_are_selected() {
    let kinds = world(vec![instance_type(
        "t",
        vec![offering("z1", "on-demand", 5.02), offering("z2", "spot", 1.02), offering("z1", "spot", 1.5)],
    )]);
    let on_demand = [overlay("o", 0).costs("+1000").on(Requirement::any_of(labels::CAPACITY_TYPE, ["on-demand"]))];
    assert_eq!(kinds.prices(&on_demand, "pool1"), [1005.02, 1.02, 1.5]);
    let zone = [overlay("o", 0).costs("7").on(Requirement::any_of(labels::ZONE, ["z1"]))];
    assert_eq!(kinds.prices(&zone, "pool1"), [7.0, 1.02, 7.0]);
    let nowhere = [
        overlay("a", 0)
            .has(FUSE, 1)
            .on(Requirement::any_of(labels::ZONE, ["z2"]))
            .on(Requirement::any_of(labels::CAPACITY_TYPE, ["on-demand"])),
        overlay("b", 0).has(HUGE, 1).on(Requirement::any_of(labels::ZONE, ["z2"])),
    ];
    let capacity = &kinds.applied(&nowhere, "pool1")[0].capacity;
    assert_eq!(capacity.get(FUSE), None, "no offering is both");
    assert_eq!(capacity.amount(HUGE).value(), 1, "one offering is enough for the whole type");
}

/// SC-270, SC-271, SCH-175: the heaviest wins, and changes do not add up.
#[test]
fn changes_do_not_stack() {
    let three = world(vec![priced("a", 2.02), priced("b", 4.02), priced("c", 1.02)]);
    let apart = [overlay("x", 20).costs("+201").on_types(&["a", "b"]), overlay("y", 10).costs("-0.5").on_types(&["c"])];
    assert_eq!(three.prices(&apart, "pool1"), [203.02, 205.02, 0.52]);
    let nested =
        [overlay("x", 20).costs("+201").on_types(&["a"]), overlay("y", 10).costs("-1.5").on_types(&["a", "b"])];
    assert_eq!(three.prices(&nested, "pool1"), [203.02, 2.52, 1.02]);
}

/// SC-272, SCH-166, SCH-174: a pool that was not evaluated has no types, the others have.
#[test]
fn pools_that_were_not_evaluated() {
    let one = world(vec![priced("t", 1.0)]);
    let store = one.evaluate(&[overlay("o", 0).costs("2")]).store;
    assert_eq!(store.apply("pool2", &one.types), Err(Unevaluated("pool2".to_owned())));
    assert_eq!(store.pools().into_iter().collect::<Vec<_>>(), ["pool1"]);
    assert_eq!(Unevaluated("p".into()).to_string(), "node overlays have not been evaluated for nodepool p");
}

/// SC-274, SC-275, SCH-168: an invalid overlay neither applies nor conflicts; one that goes leaves nothing behind.
#[test]
fn invalid_and_deleted_overlays() {
    let one = world(vec![priced("t", 1.0)]);
    let broken = OverlayView { invalid: Some("key is too long".into()), ..overlay("z", 10).costs("5") };
    let both = [broken, overlay("a", 10).costs("7")];
    assert_eq!(one.evaluate(&both).verdicts["z"], Verdict::Invalid("key is too long".into()));
    assert_eq!((one.conflicts(&both).len(), one.prices(&both, "pool1")), (0, vec![7.0]));
    let clash = [overlay("a", 10).costs("7"), overlay("b", 10).costs("5")];
    assert_eq!(one.conflicts(&clash), ["a<b"]);
    assert_eq!((one.conflicts(&clash[..1]).len(), one.prices(&clash[..1], "pool1")), (0, vec![7.0]), "SC-275");
    assert_eq!(one.prices(&[], "pool1"), [1.0], "SC-275");
}

/// SC-277, SCH-223.
#[test]
fn marks_of_claims() {
    let one = world(vec![priced("a", 1.0), priced("b", 2.0), priced("c", 3.0)]);
    let overlays = [overlay("x", 0).costs("5").on_types(&["a"]), overlay("y", 0).has(FUSE, 1).on_types(&["b"])];
    let store = one.evaluate(&overlays).store;
    for (types, price, capacity) in
        [(&["a", "c"][..], true, false), (&["b"], false, true), (&["a", "b"], true, true), (&["c"], false, false)]
    {
        assert_eq!(store.marks("pool1", types.iter().copied()), Marks { price, capacity }, "{types:?}");
    }
    assert_eq!(store.marks("elsewhere", ["a"]), Marks::default());
}

/// SCH-177, SCH-178, Q18, V15-107, VC-115, API-264, API-265, Z17: copies keep what offerings override, what a type attaches and the
/// devices that come with it.
#[test]
fn copies_are_complete() {
    let mut known = priced("t", 1.0);
    let pool = TemplatePool { driver: "gpu.com".into(), pool: "own".into(), ..TemplatePool::default() };
    known.devices = TypeDevices { pools: vec![pool], bindings: Vec::new() };
    known.offerings[0].overrides.capacity = Resources::new().with("slots", Quantity::units(4));
    let one = world(vec![known.clone()]);
    let overlaid = one.applied(&[overlay("o", 0).costs("5").has(FUSE, 1)], "pool1").remove(0);
    assert_eq!(overlaid.offerings[0].overrides, known.offerings[0].overrides);
    assert_eq!(overlaid.attachment_limits, known.attachment_limits);
    assert_eq!(overlaid.devices, known.devices, "VC-115");
    assert_eq!(one.types[0], known, "the provider's own list stays");
    assert_eq!(overlaid.allocatable().amount(FUSE).value(), 1, "SCH-179");
}
