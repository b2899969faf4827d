//! Devices that are given out one by one: what is published, what is asked for, and what was given.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::pod::PodId;
use crate::quantity::Quantity;
use crate::requirements::Requirements;

/// A device of a pool of a driver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    pub driver: String,
    pub pool: String,
    pub device: String,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttributeValue {
    Bool(bool),
    Int(i64),
    Text(String),
    Version(String),
}

/// An amount that a device has, and how it may be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCapacity {
    pub value: Quantity,
    /// Given to who does not say how much; the whole amount when absent.
    pub default: Option<Quantity>,
    pub valid: ValidAmounts,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ValidAmounts {
    #[default]
    Any,
    /// In ascending order.
    Listed(Vec<Quantity>),
    Range {
        min: Quantity,
        max: Option<Quantity>,
        step: Option<Quantity>,
    },
}

/// Amounts of a counter set that using a device takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterUse {
    pub set: String,
    pub counters: BTreeMap<String, Quantity>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    pub name: String,
    /// By name, with the domain where it is not the driver's own.
    pub attributes: BTreeMap<String, AttributeValue>,
    pub capacity: BTreeMap<String, DeviceCapacity>,
    /// Several claims may have a share of it.
    pub shared: bool,
    pub consumes: Vec<CounterUse>,
}

impl Device {
    /// By the full name; an attribute of the driver's own domain may go without it (SCH-205).
    pub fn attribute(&self, driver: &str, name: &str) -> Option<&AttributeValue> {
        let short = name.split_once('/').filter(|(domain, _)| *domain == driver).map(|(_, short)| short);
        self.attributes.get(name).or_else(|| self.attributes.get(short?))
    }
}

/// From where the devices of a slice can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    AllNodes,
    Node(String),
    /// Any of the terms.
    Nodes(Vec<Requirements>),
    Nowhere,
}

/// A part of a pool of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    pub name: String,
    pub driver: String,
    pub pool: String,
    pub generation: i64,
    /// Of how many parts the pool consists.
    pub parts: u32,
    /// The Node that owns the object.
    pub owner: Option<String>,
    pub reach: Reach,
    /// Shared budgets by set and counter. The devices beside them are ignored.
    pub counters: BTreeMap<String, BTreeMap<String, Quantity>>,
    pub devices: Vec<Device>,
}

/// What a node of an instance type will publish once it runs (SCH-201).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TypeDevices {
    pub pools: Vec<TemplatePool>,
    pub bindings: Vec<AttributeBinding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TemplatePool {
    pub driver: String,
    pub pool: String,
    pub counters: BTreeMap<String, BTreeMap<String, Quantity>>,
    pub devices: Vec<Device>,
}

/// A slice that a node of an instance type will publish, as whoever knows the type describes it (API-278).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SliceTemplate {
    pub driver: String,
    pub pool: String,
    pub devices: Vec<Device>,
    /// Shared budgets by set and counter. Devices beside them are ignored.
    pub counters: BTreeMap<String, BTreeMap<String, Quantity>>,
}

impl TypeDevices {
    /// Pools of templates; bindings of fewer than two devices say nothing (API-278).
    pub fn described(templates: Vec<SliceTemplate>, bindings: Vec<AttributeBinding>) -> Self {
        let mut pools: BTreeMap<(String, String), TemplatePool> = BTreeMap::new();
        for SliceTemplate { driver, pool, devices, counters } in templates {
            let of_pool = pools.entry((driver.clone(), pool.clone()));
            let of_pool = of_pool.or_insert_with(|| TemplatePool { driver, pool, ..TemplatePool::default() });
            if counters.is_empty() {
                of_pool.devices.extend(devices);
            } else {
                of_pool.counters.extend(counters);
            }
        }
        let bindings = bindings.into_iter().filter(|binding| binding.devices.len() > 1);
        Self { pools: pools.into_values().collect(), bindings: bindings.collect() }
    }
}

/// Devices that will have the same value of an attribute, whatever it is going to be (SCH-205).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributeBinding {
    pub attribute: String,
    pub devices: Vec<DeviceId>,
}

/// Decides whether a device is one that is asked for. Expressions are compiled where they are read, so that decisions
/// need no interpreter; this is what they see of it.
pub trait DeviceSelector: fmt::Debug + Send + Sync {
    /// The error is one of evaluating the expression for this device.
    fn matches(&self, driver: &str, device: &Device) -> Result<bool, String>;
}

#[derive(Debug, Clone)]
pub enum Selector {
    Compiled(Arc<dyn DeviceSelector>),
    /// It does not compile, or is of a kind that we do not know.
    Unusable(String),
}

#[derive(Debug, Clone)]
pub struct DeviceClass {
    pub name: String,
    pub selectors: Vec<Selector>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    Exactly(u32),
    /// All that match.
    All,
}

/// One way to satisfy a request.
#[derive(Debug, Clone)]
pub struct Ask {
    pub class: String,
    pub selectors: Vec<Selector>,
    pub count: Count,
    /// How much of a shared device.
    pub capacity: BTreeMap<String, Quantity>,
}

#[derive(Debug, Clone)]
pub enum RequestKind {
    Exactly(Ask),
    /// The first of these that can be had, by name.
    FirstAvailable(Vec<(String, Ask)>),
    /// Of a later version of the API.
    Unknown,
}

#[derive(Debug, Clone)]
pub struct DeviceRequest {
    pub name: String,
    pub kind: RequestKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    /// The devices of these requests, or of all, have the same value.
    MatchAttribute {
        requests: Vec<String>,
        attribute: String,
    },
    Unknown(String),
}

impl Constraint {
    /// A request covers its alternatives, `request/alternative` only that one, nothing all (SCH-205).
    pub fn covers(&self, request: &str) -> bool {
        let Self::MatchAttribute { requests, .. } = self else { return false };
        let parent = request.split_once('/').map_or(request, |(parent, _)| parent);
        requests.is_empty() || requests.iter().any(|listed| listed == request || listed == parent)
    }
}

/// Who has what a claim was given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consumer {
    Pod { uid: String },
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenDevice {
    pub id: DeviceId,
    /// Of a shared device; empty for one that is given as a whole.
    pub consumed: BTreeMap<String, Quantity>,
}

/// What a claim was given, as the API says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allocation {
    pub devices: Vec<GivenDevice>,
    /// Where it can be used; any of the terms. Empty: anywhere.
    pub terms: Vec<Requirements>,
    pub reserved_for: Vec<Consumer>,
}

/// A ResourceClaim.
#[derive(Debug, Clone)]
pub struct ResourceClaim {
    pub id: PodId,
    pub requests: Vec<DeviceRequest>,
    pub constraints: Vec<Constraint>,
    pub allocation: Option<Allocation>,
}

/// Everything that is published, asked for and given.
#[derive(Debug, Clone, Default)]
pub struct DeviceFacts {
    pub slices: Vec<Arc<Slice>>,
    pub classes: Vec<Arc<DeviceClass>>,
    pub claims: Vec<Arc<ResourceClaim>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VC-114, SCH-205.
    #[test]
    fn constraints_cover_requests() {
        for (listed, request, covered) in [
            (&[][..], "gpu", true),
            (&[], "gpu/large", true),
            (&["gpu"], "gpu", true),
            (&["gpu"], "gpu/large", true),
            (&["gpu/large"], "gpu/large", true),
            (&["gpu/small"], "gpu/large", false),
            (&["gpu/large"], "gpu", false),
            (&["nic"], "gpu", false),
        ] {
            let requests = listed.iter().map(ToString::to_string).collect();
            let constraint = Constraint::MatchAttribute { requests, attribute: "numa".into() };
            assert_eq!(constraint.covers(request), covered, "{listed:?} {request}");
        }
        assert!(!Constraint::Unknown("x".into()).covers("gpu"));
    }

    /// API-278: slices of a pool together; devices beside counters, and bindings of one device, are ignored.
    #[test]
    fn what_a_type_is_said_to_bring() {
        let device = |name: &str| Device { name: name.to_owned(), ..Device::default() };
        let id = |name: &str| DeviceId { driver: "gpu.com".into(), pool: "p".into(), device: name.to_owned() };
        let template = |pool: &str, devices: &[&str]| SliceTemplate {
            driver: "gpu.com".into(),
            pool: pool.to_owned(),
            devices: devices.iter().map(|name| device(name)).collect(),
            counters: BTreeMap::new(),
        };
        let budget = BTreeMap::from([("memory".to_owned(), Quantity::units(80))]);
        let counters = BTreeMap::from([("card".to_owned(), budget)]);
        let counting = SliceTemplate { counters: counters.clone(), ..template("p", &["ignored"]) };
        let bound = |devices: &[&str]| AttributeBinding {
            attribute: "numa".into(),
            devices: devices.iter().map(|name| id(name)).collect(),
        };
        let templates = vec![template("p", &["a"]), counting, template("q", &["c"]), template("p", &["b"])];
        let described = TypeDevices::described(templates, vec![bound(&[]), bound(&["a"]), bound(&["a", "b"])]);
        let [p, q] = &described.pools[..] else { panic!("two pools: {described:?}") };
        let names = |pool: &TemplatePool| pool.devices.iter().map(|device| device.name.clone()).collect::<Vec<_>>();
        assert_eq!((p.pool.as_str(), names(p), &p.counters), ("p", vec!["a".to_owned(), "b".to_owned()], &counters));
        assert_eq!((q.pool.as_str(), names(q), q.counters.is_empty()), ("q", vec!["c".to_owned()], true));
        assert_eq!(described.bindings, [bound(&["a", "b"])]);
    }

    /// SCH-205: the driver's own domain may be left out.
    #[test]
    fn attributes_by_full_and_short_name() {
        let device = Device {
            attributes: BTreeMap::from([
                ("numa".to_owned(), AttributeValue::Int(1)),
                ("other.com/numa".to_owned(), AttributeValue::Int(2)),
            ]),
            ..Device::default()
        };
        for (name, want) in [
            ("gpu.com/numa", Some(AttributeValue::Int(1))),
            ("other.com/numa", Some(AttributeValue::Int(2))),
            ("third.com/numa", None),
        ] {
            assert_eq!(device.attribute("gpu.com", name).cloned(), want, "{name}");
        }
    }
}
