//! Instance types F1 to F4, and a way to write further ones.

use std::collections::BTreeMap;

use karpenter_model::devices::TypeDevices;
use karpenter_model::instance_type::{InstanceType, Offering, Overhead, Overrides, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::resources::Resources;

pub(super) const SIZE: &str = "size";
pub(super) const SPECIAL: &str = "special";
pub(super) const INTEGER: &str = "integer";
pub(super) const RESERVATION: &str = "reservation-id";

pub(super) fn rules() -> LabelRules {
    LabelRules::core().well_known([SIZE, SPECIAL, INTEGER]).reservation(RESERVATION)
}

/// `"cpu=1 memory=1Gi"`.
pub(super) fn resources(text: &str) -> Resources {
    text.split_whitespace()
        .map(|entry| entry.split_once('=').unwrap())
        .map(|(name, amount)| (name.to_owned(), amount.parse().unwrap()))
        .collect()
}

/// A type in the making: the defaults of the fixtures, and what a case changes.
#[derive(Clone, Debug)]
pub(super) struct Type(pub(super) InstanceType);

/// `it("std", "cpu=4 memory=4Gi pods=5")`.
pub(super) fn it(name: &str, capacity: &str) -> Type {
    let capacity = resources(capacity);
    let (cpu, memory) = (capacity.amount("cpu"), capacity.amount("memory"));
    let large = cpu > Quantity::units(4) && memory > Quantity::bytes(8 << 30);
    let accelerated = capacity.iter().any(|(name, _)| name.starts_with("vendor"));
    let price = 0.1 * cpu.as_f64() + 0.1 * memory.as_f64() / 1e9 + if accelerated { 1.0 } else { 0.0 };
    let requirements = Requirements::from_iter([
        Requirement::any_of(labels::INSTANCE_TYPE, [name]),
        Requirement::any_of(labels::ARCH, ["amd64"]),
        Requirement::any_of(labels::OS, ["linux", "windows", "darwin"]),
        Requirement::any_of(SIZE, [if large { "large" } else { "small" }]),
        if large { Requirement::any_of(SPECIAL, ["optional"]) } else { Requirement::does_not_exist(SPECIAL) },
        Requirement::any_of(INTEGER, [cpu.value().to_string()]),
    ]);
    let known = InstanceType {
        name: name.to_owned(),
        requirements,
        offerings: Vec::new(),
        capacity,
        overhead: Overhead { kube_reserved: resources("cpu=100m memory=10Mi"), ..Overhead::default() },
        attachment_limits: BTreeMap::new(),
        devices: TypeDevices::default(),
    };
    let default = [("z1", "spot"), ("z2", "spot"), ("z1", "on-demand"), ("z2", "on-demand"), ("z3", "on-demand")];
    Type(known).offers(&default.map(|(zone, capacity_type)| (zone, capacity_type, price)))
}

pub(super) fn offering(zone: &str, capacity_type: &str, price: f64) -> Offering {
    let requirements = Requirements::from_iter([
        Requirement::any_of(labels::ZONE, [zone]),
        Requirement::any_of(labels::CAPACITY_TYPE, [capacity_type]),
    ]);
    Offering {
        requirements,
        price: Price::new(price).unwrap(),
        available: true,
        reservation_capacity: None,
        overrides: Overrides::default(),
    }
}

impl Type {
    /// Replaces a requirement of the type.
    pub(super) fn with(mut self, key: &str, values: &[&str]) -> Self {
        self.0.requirements.replace(Requirement::any_of(key, values.iter().copied()));
        self
    }

    /// Replaces the offerings: zone, capacity type and price.
    pub(super) fn offers(self, list: &[(&str, &str, f64)]) -> Self {
        self.offerings(list.iter().map(|(zone, capacity_type, price)| offering(zone, capacity_type, *price)).collect())
    }

    /// The same price everywhere, all of them on demand.
    pub(super) fn in_zones(self, zones: &[&str], price: f64) -> Self {
        let list: Vec<_> = zones.iter().map(|zone| (*zone, "on-demand", price)).collect();
        self.offers(&list)
    }

    pub(super) fn price(mut self, price: f64) -> Self {
        self.0.offerings.iter_mut().for_each(|offering| offering.price = Price::new(price).unwrap());
        self
    }

    pub(super) fn offerings(mut self, offerings: Vec<Offering>) -> Self {
        self.0.offerings = offerings;
        for key in [labels::ZONE, labels::CAPACITY_TYPE, RESERVATION] {
            let values: Vec<&str> =
                self.0.offerings.iter().filter_map(|offering| offering.requirements.get(key)?.single_value()).collect();
            let asked = Requirement::any_of(key, values);
            self.0.requirements.replace(asked);
        }
        self
    }

    /// One more offering: `count` instances left of a reservation.
    pub(super) fn reserved(self, id: &str, zone: &str, count: u32, price: f64) -> Self {
        let mut reserved = offering(zone, labels::CAPACITY_TYPE_RESERVED, price);
        reserved.requirements.add(Requirement::any_of(RESERVATION, [id]));
        reserved.reservation_capacity = Some(count);
        let mut offerings = self.0.offerings.clone();
        // The others belong to no reservation.
        for other in offerings.iter_mut().filter(|offering| offering.reservation_capacity.is_none()) {
            other.requirements.replace(Requirement::does_not_exist(RESERVATION));
        }
        offerings.push(reserved);
        self.offerings(offerings)
    }

    /// What nodes of the type will publish.
    pub(super) fn brings(mut self, devices: TypeDevices) -> Self {
        self.0.devices = devices;
        self
    }

    pub(super) fn attaches(mut self, driver: &str, limit: u32) -> Self {
        self.0.attachment_limits.insert(driver.to_owned(), limit);
        self
    }
}

pub(super) fn f1() -> Vec<Type> {
    vec![
        it("std", "cpu=4 memory=4Gi pods=5"),
        it("small", "cpu=2 memory=2Gi pods=5"),
        it("gpu-a", "cpu=4 memory=4Gi pods=5 vendor-a=2"),
        it("gpu-b", "cpu=4 memory=4Gi pods=5 vendor-b=2"),
        it("arm", "cpu=16 memory=128Gi pods=5")
            .with(labels::ARCH, &["arm64"])
            .with(labels::OS, &["linux", "windows", "darwin", "ios"]),
        it("one-pod", "cpu=4 memory=4Gi pods=1"),
    ]
}

/// Index i has i + 1 CPU; the names sort by index.
pub(super) fn f2(count: usize) -> Vec<Type> {
    let one =
        |i: usize| it(&format!("t{i:03}"), &format!("cpu={} memory={}Gi pods={}", i + 1, 2 * (i + 1), 10 * (i + 1)));
    (0..count).map(one).collect()
}

pub(super) fn f3() -> Vec<Type> {
    let mut types = Vec::new();
    for cpu in [1, 2, 4, 8, 16, 32, 64] {
        for memory in [1, 2, 4, 8, 16, 32, 64, 128] {
            for zone in ["z1", "z2", "z3"] {
                for capacity_type in ["spot", "on-demand"] {
                    for os in ["linux", "windows"] {
                        for arch in ["amd64", "arm64"] {
                            let name = format!("{cpu}-{memory}-{arch}-{os}-{zone}-{capacity_type}");
                            let plain = it(&name, &format!("cpu={cpu} memory={memory}Gi pods=100"));
                            let price = plain.0.offerings[0].price.per_hour();
                            let offers = plain.offers(&[(zone, capacity_type, price)]);
                            types.push(offers.with(labels::ARCH, &[arch]).with(labels::OS, &[os]));
                        }
                    }
                }
            }
        }
    }
    types
}

pub(super) fn f4() -> Vec<Type> {
    vec![it("vol", "cpu=1024 memory=4Gi pods=1024")]
}
