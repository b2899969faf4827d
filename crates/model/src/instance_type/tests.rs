use super::*;

fn offering(zone: &str, capacity_type: &str, price: f64, available: bool) -> Offering {
    Offering {
        requirements: [
            Requirement::any_of(labels::ZONE, [zone]),
            Requirement::any_of(labels::CAPACITY_TYPE, [capacity_type]),
        ]
        .into_iter()
        .collect(),
        price: Price::new(price).unwrap(),
        available,
        reservation_capacity: None,
        overrides: Overrides::default(),
    }
}

fn resources(entries: &[(&str, &str)]) -> Resources {
    entries.iter().map(|(name, amount)| (name.to_string(), amount.parse().unwrap())).collect()
}

/// API-259, API-260, SCH-68: overhead keys absent from the capacity are dropped, huge pages come out of memory.
#[test]
fn allocatable_arithmetic() {
    let mut large = InstanceType {
        name: "large".to_owned(),
        requirements: Requirements::new(),
        offerings: vec![],
        capacity: resources(&[("cpu", "4"), ("memory", "8Gi"), ("hugepages-2Mi", "1Gi")]),
        overhead: Overhead {
            kube_reserved: resources(&[("cpu", "100m"), ("pid", "5")]),
            system_reserved: resources(&[("cpu", "50m")]),
            eviction_threshold: resources(&[("memory", "100Mi")]),
        },
        attachment_limits: BTreeMap::new(),
        devices: crate::devices::TypeDevices::default(),
    };
    assert_eq!(large.allocatable(), resources(&[("cpu", "3850m"), ("memory", "7068Mi"), ("hugepages-2Mi", "1Gi")]));
    large.capacity.set("hugepages-2Mi", "100Gi".parse().unwrap());
    assert_eq!(large.allocatable().amount("memory"), Quantity::ZERO);
}

/// SC-101: two sizes of huge pages.
#[test]
fn huge_pages_come_out_of_memory() {
    let mut huge = plain(Vec::new());
    huge.capacity = resources(&[("cpu", "5"), ("memory", "20Gi"), ("hugepages-2Mi", "5Gi"), ("hugepages-1Gi", "10Gi")]);
    huge.overhead = Overhead { kube_reserved: resources(&[("cpu", "125m"), ("memory", "1Gi")]), ..Overhead::default() };
    let allocatable = huge.allocatable();
    assert_eq!(
        (allocatable.amount("cpu"), allocatable.amount("memory")),
        ("4875m".parse().unwrap(), "4Gi".parse().unwrap())
    );
    huge.capacity.set("hugepages-2Mi", "50Gi".parse().unwrap());
    assert_eq!(huge.allocatable().amount("memory"), Quantity::ZERO);
}

/// API-267, API-270, API-273: only available and compatible offerings, cheapest first.
#[test]
fn usable_offerings_are_sorted() {
    let rules = LabelRules::core();
    let small = InstanceType {
        name: "small".to_owned(),
        requirements: Requirements::new(),
        offerings: vec![
            offering("b", "on-demand", 0.2, true),
            offering("b", "spot", 0.1, true),
            offering("a", "spot", 0.1, true),
            offering("c", "spot", 0.01, false),
        ],
        capacity: Resources::new(),
        overhead: Overhead::default(),
        attachment_limits: BTreeMap::new(),
        devices: crate::devices::TypeDevices::default(),
    };
    let shown = |asked: &Requirements| -> Vec<String> {
        small
            .usable_offerings(asked, &rules)
            .iter()
            .map(|o| format!("{}/{}", o.zone().unwrap(), o.capacity_type().unwrap()))
            .collect()
    };
    assert_eq!(shown(&Requirements::new()), ["a/spot", "b/spot", "b/on-demand"]);
    let on_demand = Requirements::from_iter([Requirement::any_of(labels::CAPACITY_TYPE, ["on-demand"])]);
    assert_eq!(shown(&on_demand), ["b/on-demand"]);
    assert_eq!(small.cheapest_price(&on_demand, &rules).to_string(), "0.200000");
    let elsewhere = Requirements::from_iter([Requirement::any_of(labels::ZONE, ["z"])]);
    assert_eq!(small.cheapest_price(&elsewhere, &rules), Price::MAX);
}

/// API-268: prices are numbers of zero or more.
#[test]
fn prices() {
    for bad in [-0.1, f64::NAN, f64::INFINITY] {
        assert!(Price::new(bad).is_err());
    }
    assert_eq!(Price::new(-0.0).unwrap(), Price::ZERO);
    assert!(Price::ZERO < Price::new(0.1).unwrap());
}

fn plain(offerings: Vec<Offering>) -> InstanceType {
    InstanceType {
        name: "plain".to_owned(),
        requirements: Requirements::new(),
        offerings,
        capacity: resources(&[("cpu", "4"), ("memory", "8Gi")]),
        overhead: Overhead {
            kube_reserved: resources(&[("cpu", "100m")]),
            system_reserved: resources(&[("cpu", "50m")]),
            eviction_threshold: resources(&[("memory", "100Mi")]),
        },
        attachment_limits: BTreeMap::new(),
        devices: crate::devices::TypeDevices::default(),
    }
}

/// API-262, API-263, V15-101: overrides replace or add keys, of the overhead in its total, and make groups of their own.
#[test]
fn overrides_make_groups() {
    let overriding = |zone: &str, capacity: &[(&str, &str)], overhead: &[(&str, &str)]| Offering {
        overrides: Overrides { capacity: resources(capacity), overhead: resources(overhead) },
        ..offering(zone, "on-demand", 1.0, true)
    };
    let shown = |offerings: Vec<Offering>| -> Vec<String> {
        let instance_type = plain(offerings);
        let zones = |group: &AllocatableGroup<'_>| -> String {
            group.offerings.iter().map(|offering| offering.zone().unwrap()).collect::<Vec<_>>().join(" ")
        };
        instance_type.allocatable_groups().iter().map(|g| format!("{}: [{}]", g.allocatable, zones(g))).collect()
    };
    assert_eq!(
        shown(vec![
            overriding("a", &[("memory", "6Gi"), ("gpu", "1")], &[]),
            overriding("b", &[], &[]),
            overriding("c", &[], &[("cpu", "1")]),
            overriding("d", &[("memory", "6Gi"), ("gpu", "1")], &[]),
        ]),
        ["cpu: 3850m, memory: 8092Mi: [b]", "cpu: 3850m, gpu: 1, memory: 6044Mi: [a d]", "cpu: 3, memory: 8092Mi: [c]",]
    );
    let gone = Offering { available: false, ..overriding("a", &[("memory", "6Gi")], &[]) };
    assert_eq!(shown(vec![gone]), ["cpu: 3850m, memory: 8092Mi: []"]);
}

/// SCH-120, V15-87.
///
/// V15-82, V15-83, API-271: a full reservation is on offer, but nothing that launches now counts with it.
#[test]
fn full_reservations_are_available_but_not_launchable() {
    let rules = LabelRules::core();
    let reserved = |left: u32| Offering {
        reservation_capacity: Some(left),
        ..offering("a", labels::CAPACITY_TYPE_RESERVED, 0.001, true)
    };
    let all = Requirements::new();
    let on_demand = || offering("a", "on-demand", 0.5, true);
    let dear = || offering("b", "on-demand", 0.6, true);
    for (offerings, usable, launchable, cheapest, worst) in [
        (vec![reserved(2), on_demand(), dear()], 3, 3, 0.001, 0.001),
        (vec![reserved(0), on_demand(), dear()], 3, 2, 0.5, 0.6),
        (vec![reserved(0)], 1, 0, f64::MAX, f64::MAX),
        (vec![Offering { available: false, ..reserved(2) }], 0, 0, f64::MAX, f64::MAX),
        (vec![offering("a", "spot", 0.1, true), offering("b", "spot", 0.3, true), on_demand()], 3, 3, 0.1, 0.3),
    ] {
        let instance_type = plain(offerings);
        assert_eq!(instance_type.usable_offerings(&all, &rules).len(), usable);
        assert_eq!(instance_type.launchable_offerings(&all, &rules).len(), launchable);
        assert_eq!(instance_type.cheapest_price(&all, &rules), Price::new(cheapest).unwrap());
        assert_eq!(instance_type.worst_launch_price(&all, &rules), Price::new(worst).unwrap());
    }
}

/// V15-88, API-272: availability does not matter for what runs already.
#[test]
fn running_nodes_keep_their_price() {
    let instance_type = plain(vec![offering("a", "spot", 0.1, false)]);
    assert_eq!(instance_type.running_price("a", "spot"), Some(Price::new(0.1).unwrap()));
    assert_eq!(instance_type.running_price("a", "on-demand"), None);
}
