//! Devices, claims and passes in few words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::devices::{
    Allocation, Ask, AttributeValue, Constraint, Consumer, Count, Device, DeviceClass, DeviceFacts, DeviceRequest,
    DeviceSelector, GivenDevice, Reach, RequestKind, Selector, Slice, TemplatePool,
};
use karpenter_model::labels;
use karpenter_model::requirements::Requirement;

use super::super::*;

pub(crate) fn id(driver: &str, pool: &str, device: &str) -> DeviceId {
    DeviceId { driver: driver.to_owned(), pool: pool.to_owned(), device: device.to_owned() }
}

pub(crate) fn device(name: &str) -> Device {
    Device { name: name.to_owned(), ..Device::default() }
}

pub(crate) fn labelled(mut device: Device, name: &str, value: i64) -> Device {
    device.attributes.insert(name.to_owned(), AttributeValue::Int(value));
    device
}

/// One complete pool of the driver, for all nodes.
pub(crate) fn slice(driver: &str, devices: &[&str]) -> Slice {
    Slice {
        name: "s".to_owned(),
        driver: driver.to_owned(),
        pool: "pool".to_owned(),
        generation: 1,
        parts: 1,
        owner: None,
        reach: Reach::AllNodes,
        counters: BTreeMap::new(),
        devices: devices.iter().map(|name| device(name)).collect(),
    }
}

pub(crate) fn named_nodes(slice: Slice, node: &str) -> Slice {
    Slice { reach: Reach::Node(node.to_owned()), ..slice }
}

pub(crate) fn zone(zones: &str) -> Requirements {
    Requirements::from_iter([Requirement::any_of(labels::ZONE, zones.split(' '))])
}

/// A term for each text, with its zones.
pub(crate) fn in_zone(terms: &[&str]) -> Reach {
    Reach::Nodes(terms.iter().map(|zones| zone(zones)).collect())
}

pub(crate) fn template(driver: &str, devices: &[&str]) -> TypeDevices {
    let pool = TemplatePool {
        driver: driver.to_owned(),
        pool: "own".to_owned(),
        devices: devices.iter().map(|name| device(name)).collect(),
        ..TemplatePool::default()
    };
    TypeDevices { pools: vec![pool], bindings: Vec::new() }
}

pub(crate) fn types(list: &[(&str, TypeDevices)]) -> Vec<(String, TypeDevices)> {
    list.iter().map(|(name, devices)| ((*name).to_owned(), devices.clone())).collect()
}

/// Of the class that is named like the request.
pub(crate) fn ask(class: &str, count: Count) -> Ask {
    Ask { class: class.to_owned(), selectors: Vec::new(), count, capacity: BTreeMap::new() }
}

pub(crate) fn request(name: &str, kind: RequestKind) -> DeviceRequest {
    DeviceRequest { name: name.to_owned(), kind }
}

pub(crate) fn exactly(name: &str, count: u32) -> DeviceRequest {
    request(name, RequestKind::Exactly(ask(name, Count::Exactly(count))))
}

/// All of them.
pub(crate) fn any(name: &str) -> DeviceRequest {
    request(name, RequestKind::Exactly(ask(name, Count::All)))
}

fn exact(request: DeviceRequest) -> Ask {
    match request.kind {
        RequestKind::Exactly(ask) => ask,
        _ => panic!("an alternative of alternatives"),
    }
}

pub(crate) fn first<N: Into<String>>(name: &str, all: impl IntoIterator<Item = (N, DeviceRequest)>) -> DeviceRequest {
    let all = all.into_iter().map(|(name, request)| (name.into(), exact(request)));
    request(name, RequestKind::FirstAvailable(all.collect()))
}

fn edited(request: DeviceRequest, change: impl FnOnce(&mut Ask)) -> DeviceRequest {
    let name = request.name.clone();
    let mut ask = exact(request);
    change(&mut ask);
    self::request(&name, RequestKind::Exactly(ask))
}

pub(crate) fn on(class: &str, request: DeviceRequest) -> DeviceRequest {
    edited(request, |ask| class.clone_into(&mut ask.class))
}

pub(crate) fn selecting(request: DeviceRequest, selector: Selector) -> DeviceRequest {
    edited(request, |ask| ask.selectors.push(selector))
}

pub(crate) fn asking(request: DeviceRequest, dimension: &str, amount: Quantity) -> DeviceRequest {
    edited(request, |ask| {
        ask.capacity.insert(dimension.to_owned(), amount);
    })
}

pub(crate) fn match_attribute(requests: &[&str], attribute: &str) -> Constraint {
    let requests = requests.iter().map(ToString::to_string).collect();
    Constraint::MatchAttribute { requests, attribute: attribute.to_owned() }
}

pub(crate) fn claim(name: &str, requests: impl IntoIterator<Item = DeviceRequest>) -> ResourceClaim {
    ResourceClaim {
        id: PodId::new("default", name),
        requests: requests.into_iter().collect(),
        constraints: Vec::new(),
        allocation: None,
    }
}

#[derive(Debug)]
struct OfDriver(String);

impl DeviceSelector for OfDriver {
    fn matches(&self, driver: &str, _: &Device) -> Result<bool, String> {
        Ok(driver == self.0)
    }
}

#[derive(Debug)]
struct FailingOn(String);

impl DeviceSelector for FailingOn {
    fn matches(&self, _: &str, device: &Device) -> Result<bool, String> {
        if device.name == self.0 { Err("no such attribute".to_owned()) } else { Ok(true) }
    }
}

pub(crate) fn failing_on(device: &str) -> Selector {
    Selector::Compiled(Arc::new(FailingOn(device.to_owned())))
}

/// What there is. Class `gpu` selects by driver `gpu.com`.
#[derive(Clone)]
pub(crate) struct World {
    facts: DeviceFacts,
    moving: BTreeSet<String>,
    nodes: BTreeSet<String>,
    empty: Requirements,
}

impl Default for World {
    fn default() -> Self {
        let none = Self {
            facts: DeviceFacts::default(),
            moving: BTreeSet::new(),
            nodes: BTreeSet::new(),
            empty: Requirements::new(),
        };
        none.class("gpu", "gpu.com")
    }
}

impl World {
    pub(crate) fn class(mut self, name: &str, driver: &str) -> Self {
        let selectors = vec![Selector::Compiled(Arc::new(OfDriver(driver.to_owned())))];
        self.facts.classes.push(Arc::new(DeviceClass { name: name.to_owned(), selectors }));
        self
    }

    pub(crate) fn slice(mut self, slice: Slice) -> Self {
        self.facts.slices.push(Arc::new(slice));
        self
    }

    pub(crate) fn claims(mut self, claims: impl IntoIterator<Item = ResourceClaim>) -> Self {
        self.facts.claims.extend(claims.into_iter().map(Arc::new));
        self
    }

    pub(crate) fn moving(mut self, uid: &str) -> Self {
        self.moving.insert(uid.to_owned());
        self
    }

    pub(crate) fn node(mut self, name: &str) -> Self {
        self.nodes.insert(name.to_owned());
        self
    }

    /// A claim `holder` has the device of the published pool.
    pub(crate) fn held(self, device: &str, consumers: &[Consumer]) -> Self {
        self.shared_by("holder", device, &[], consumers)
    }

    /// A claim has this much of a device.
    pub(crate) fn shared_by(self, name: &str, device: &str, amounts: &[(&str, Quantity)], by: &[Consumer]) -> Self {
        let consumed = amounts.iter().map(|(dimension, amount)| ((*dimension).to_owned(), *amount)).collect();
        let allocation = Allocation {
            devices: vec![GivenDevice { id: id("gpu.com", "pool", device), consumed }],
            terms: Vec::new(),
            reserved_for: by.to_vec(),
        };
        self.claims([ResourceClaim { allocation: Some(allocation), ..claim(name, [exactly("gpu", 1)]) }])
    }

    pub(crate) fn holder(&mut self) -> &mut Allocation {
        let holder = self.facts.claims.iter_mut().find(|claim| claim.id.name == "holder");
        holder.and_then(|claim| Arc::make_mut(claim).allocation.as_mut()).unwrap()
    }

    pub(crate) fn facts(&self) -> DeviceFacts {
        self.facts.clone()
    }

    pub(crate) fn pass(&self) -> Pass {
        let known = Arc::new(self.facts.clone());
        let facts = Facts { known, moving: self.moving.clone(), nodes: self.nodes.clone() };
        let inventory = Arc::new(Inventory::new(facts));
        Pass { devices: Devices::new(inventory, &LabelRules::core()), empty: self.empty.clone() }
    }
}

pub(crate) struct Pass {
    pub(crate) devices: Devices,
    empty: Requirements,
}

type Kinds = [(String, TypeDevices)];

impl Pass {
    /// What the candidate would get, in words: `type: claim/request=device …, … in requirements`.
    fn attempt(
        &self,
        requirements: &Requirements,
        node: Option<&str>,
        name: &str,
        kinds: &Kinds,
        claims: &[&str],
    ) -> Result<Attempt, DeviceRefusal> {
        let types = kinds.iter().map(|(name, devices)| TypeOption { name, devices }).collect();
        let candidate = Candidate { name, node, requirements, types };
        let claims: Vec<PodId> = claims.iter().map(|name| PodId::new("default", *name)).collect();
        self.devices.allocate(&candidate, &claims)
    }

    fn told(&mut self, attempt: Result<Attempt, DeviceRefusal>, commit: bool) -> String {
        let attempt = match attempt {
            Ok(attempt) => attempt,
            Err(why) => return why.to_string(),
        };
        let one = |one: &Taken| format!(" {}/{}={}", one.claim.name, one.request, one.device.device);
        let by_type =
            attempt.by_type.iter().map(|(name, taken)| format!("{name}:{}", taken.iter().map(one).collect::<String>()));
        let mut text = by_type.collect::<Vec<_>>().join(", ");
        if !attempt.requirements.is_empty() {
            text += &format!(" in {}", attempt.requirements).replace("topology.kubernetes.io/", "");
        }
        if commit {
            self.devices.commit(attempt);
        }
        text
    }

    pub(crate) fn give(&mut self, candidate: &str, kinds: &Kinds, claims: &[&str]) -> String {
        self.give_on(None, candidate, kinds, claims)
    }

    pub(crate) fn give_on(&mut self, node: Option<&str>, candidate: &str, kinds: &Kinds, claims: &[&str]) -> String {
        let attempt = self.attempt(&self.empty, node, candidate, kinds, claims);
        self.told(attempt, true)
    }

    pub(crate) fn give_in(&mut self, place: &Requirements, candidate: &str, kinds: &Kinds, claims: &[&str]) -> String {
        let attempt = self.attempt(place, None, candidate, kinds, claims);
        self.told(attempt, true)
    }

    /// Without taking it.
    pub(crate) fn ask(&mut self, candidate: &str, kinds: &Kinds, claims: &[&str]) -> String {
        let attempt = self.attempt(&self.empty, None, candidate, kinds, claims);
        self.told(attempt, false)
    }
}
