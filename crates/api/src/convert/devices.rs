//! Devices: what is published, what is asked for, and what was given (`resource.k8s.io/v1`).
//!
//! Decisions see selectors that are compiled already ([`selector`]).

mod selector;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::api::resource::v1::{
    AllocationResult, CapacityRequestPolicy, CapacityRequirements, Device as ApiDevice, DeviceAttribute,
    DeviceClass as ApiClass, DeviceConstraint, DeviceRequest as ApiRequest, DeviceSelector as ApiSelector,
    ResourceClaim as ApiClaim, ResourceClaimConsumerReference, ResourceSlice,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use karpenter_model::devices::{
    Allocation, Ask, AttributeValue, Constraint, Consumer, Count, CounterUse, Device, DeviceCapacity, DeviceClass,
    DeviceId, DeviceRequest, GivenDevice, Reach, RequestKind, ResourceClaim, Selector, Slice, ValidAmounts,
};
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::PodId;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::Requirements;

use super::{Converted, Entry, Problems, requirements};

pub fn resource_slice(slice: &ResourceSlice, rules: &LabelRules) -> Converted<Slice> {
    let mut problems = Problems::new("ResourceSlice", &slice.metadata);
    let spec = &slice.spec;
    let owners = slice.metadata.owner_references.iter().flatten();
    let selected =
        spec.node_selector.as_ref().map(|selector| terms(&mut problems, "spec.nodeSelector", selector, rules));
    let reach = match (spec.all_nodes, &spec.node_name, selected) {
        (Some(true), _, _) => Reach::AllNodes,
        (_, Some(node), _) if !node.is_empty() => Reach::Node(node.clone()),
        (_, _, Some(terms)) => Reach::Nodes(terms),
        _ => Reach::Nowhere,
    };
    let mut counters = BTreeMap::new();
    for (index, set) in spec.shared_counters.iter().flatten().enumerate() {
        let field = format!("spec.sharedCounters[{index}].counters");
        let own = amounts(&mut problems, &field, set.counters.iter().map(|(name, counter)| (name, &counter.value)));
        counters.insert(set.name.clone(), own);
    }
    let devices = spec.devices.iter().flatten().enumerate();
    let devices = devices.map(|(index, one)| device(&mut problems, &format!("spec.devices[{index}]"), one)).collect();
    let view = Slice {
        name: slice.metadata.name.clone().unwrap_or_default(),
        driver: spec.driver.clone(),
        pool: spec.pool.name.clone(),
        generation: spec.pool.generation,
        parts: u32::try_from(spec.pool.resource_slice_count).unwrap_or(0),
        owner: owners.filter(|owner| owner.kind == "Node").map(|owner| owner.name.clone()).next(),
        reach,
        counters,
        devices,
    };
    Converted { view, problems: problems.found }
}

fn device(problems: &mut Problems, field: &str, given: &ApiDevice) -> Device {
    let mut capacity = BTreeMap::new();
    for (name, one) in given.capacity.iter().flatten() {
        let field = format!("{field}.capacity[{name}]");
        let Some(value) = problems.check(&format!("{field}.value"), one.value.0.parse()) else { continue };
        let (default, valid) = policy(problems, &format!("{field}.requestPolicy"), one.request_policy.as_ref());
        capacity.insert(name.clone(), DeviceCapacity { value, default, valid });
    }
    let consumes = given.consumes_counters.iter().flatten().map(|used| CounterUse {
        set: used.counter_set.clone(),
        counters: amounts(
            problems,
            &format!("{field}.consumesCounters[{}]", used.counter_set),
            used.counters.iter().map(|(name, counter)| (name, &counter.value)),
        ),
    });
    let consumes = consumes.collect();
    let attributes = given.attributes.iter().flatten();
    Device {
        name: given.name.clone(),
        attributes: attributes.filter_map(|(name, value)| Some((name.clone(), attribute(value)?))).collect(),
        capacity,
        shared: given.allow_multiple_allocations == Some(true),
        consumes,
    }
}

fn attribute(given: &DeviceAttribute) -> Option<AttributeValue> {
    let text = given.string.clone().map(AttributeValue::Text);
    let version = || given.version.clone().map(AttributeValue::Version);
    let number = || given.int.map(AttributeValue::Int);
    text.or_else(version).or_else(number).or_else(|| given.bool.map(AttributeValue::Bool))
}

fn policy(
    problems: &mut Problems,
    field: &str,
    given: Option<&CapacityRequestPolicy>,
) -> (Option<Quantity>, ValidAmounts) {
    let Some(given) = given else { return (None, ValidAmounts::Any) };
    let mut read =
        |name: &str, text: &ApiQuantity| problems.check(&format!("{field}.{name}"), text.0.parse::<Quantity>());
    let default = given.default.as_ref().and_then(|text| read("default", text));
    let valid = match (&given.valid_values, &given.valid_range) {
        (Some(values), _) if !values.is_empty() => {
            let mut listed: Vec<Quantity> = values.iter().filter_map(|text| read("validValues", text)).collect();
            listed.sort();
            ValidAmounts::Listed(listed)
        }
        (_, Some(range)) => ValidAmounts::Range {
            min: read("validRange.min", &range.min).unwrap_or_default(),
            max: range.max.as_ref().and_then(|text| read("validRange.max", text)),
            step: range.step.as_ref().and_then(|text| read("validRange.step", text)),
        },
        _ => ValidAmounts::Any,
    };
    (default, valid)
}

fn amounts<'a>(
    problems: &mut Problems,
    field: &str,
    list: impl Iterator<Item = (&'a String, &'a ApiQuantity)>,
) -> BTreeMap<String, Quantity> {
    list.filter_map(|(name, text)| Some((name.clone(), problems.check(&format!("{field}[{name}]"), text.0.parse())?)))
        .collect()
}

fn terms(problems: &mut Problems, field: &str, selector: &NodeSelector, rules: &LabelRules) -> Vec<Requirements> {
    let term = |(index, term): (usize, &k8s_openapi::api::core::v1::NodeSelectorTerm)| {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        let entries = expressions.iter().map(|expression| Entry {
            key: &expression.key,
            operator: &expression.operator,
            values: expression.values.as_deref().unwrap_or_default(),
            min_values: None,
        });
        requirements(problems, &format!("{field}.nodeSelectorTerms[{index}].matchExpressions"), rules, entries)
    };
    selector.node_selector_terms.iter().enumerate().map(term).collect()
}

pub fn device_class(class: &ApiClass) -> DeviceClass {
    DeviceClass {
        name: class.metadata.name.clone().unwrap_or_default(),
        selectors: selectors(class.spec.selectors.as_deref()),
    }
}

fn selectors(given: Option<&[ApiSelector]>) -> Vec<Selector> {
    let one = |selector: &ApiSelector| match &selector.cel {
        Some(cel) => selector::compile(&cel.expression),
        None => Selector::Unusable("a selector without an expression".to_owned()),
    };
    given.unwrap_or_default().iter().map(one).collect()
}

pub fn resource_claim(claim: &ApiClaim, rules: &LabelRules) -> Converted<ResourceClaim> {
    let mut problems = Problems::new("ResourceClaim", &claim.metadata);
    let devices = claim.spec.devices.as_ref();
    let requests = devices.and_then(|devices| devices.requests.as_deref()).unwrap_or_default();
    let constraints = devices.and_then(|devices| devices.constraints.as_deref()).unwrap_or_default();
    let status = claim.status.as_ref();
    let reserved = status.and_then(|status| status.reserved_for.as_deref()).unwrap_or_default();
    let view = ResourceClaim {
        id: PodId::new(
            claim.metadata.namespace.clone().unwrap_or_default(),
            claim.metadata.name.clone().unwrap_or_default(),
        ),
        requests: requests.iter().map(|one| request(&mut problems, one)).collect(),
        constraints: constraints.iter().map(constraint).collect(),
        allocation: status
            .and_then(|status| status.allocation.as_ref())
            .map(|given| allocation(&mut problems, given, reserved, rules)),
    };
    Converted { view, problems: problems.found }
}

fn request(problems: &mut Problems, given: &ApiRequest) -> DeviceRequest {
    let name = given.name.clone();
    let field = format!("spec.devices.requests[{name}]");
    let mut ask = |class: &str, from: Option<&[ApiSelector]>, mode: Option<&str>, number, capacity| Ask {
        class: class.to_owned(),
        selectors: selectors(from),
        count: count(mode, number),
        capacity: wanted(problems, &field, capacity),
    };
    let kind = if let Some(one) = &given.exactly {
        RequestKind::Exactly(ask(
            &one.device_class_name,
            one.selectors.as_deref(),
            one.allocation_mode.as_deref(),
            one.count,
            one.capacity.as_ref(),
        ))
    } else if let Some(all) = given.first_available.as_ref().filter(|all| !all.is_empty()) {
        let one = all.iter().map(|one| {
            let ask = ask(
                &one.device_class_name,
                one.selectors.as_deref(),
                one.allocation_mode.as_deref(),
                one.count,
                one.capacity.as_ref(),
            );
            (one.name.clone(), ask)
        });
        RequestKind::FirstAvailable(one.collect())
    } else {
        RequestKind::Unknown
    };
    DeviceRequest { name, kind }
}

/// One when nothing is said.
fn count(mode: Option<&str>, number: Option<i64>) -> Count {
    match mode {
        Some("All") => Count::All,
        _ => Count::Exactly(number.map_or(1, |number| u32::try_from(number).unwrap_or(u32::MAX))),
    }
}

fn wanted(problems: &mut Problems, field: &str, given: Option<&CapacityRequirements>) -> BTreeMap<String, Quantity> {
    let requests = given.and_then(|given| given.requests.as_ref()).into_iter().flatten();
    amounts(problems, &format!("{field}.capacity.requests"), requests)
}

fn constraint(given: &DeviceConstraint) -> Constraint {
    match (&given.match_attribute, &given.distinct_attribute) {
        (Some(attribute), _) => Constraint::MatchAttribute {
            requests: given.requests.clone().unwrap_or_default(),
            attribute: attribute.clone(),
        },
        (None, Some(_)) => Constraint::Unknown("distinctAttribute".to_owned()),
        (None, None) => Constraint::Unknown("of a later version".to_owned()),
    }
}

fn allocation(
    problems: &mut Problems,
    given: &AllocationResult,
    reserved: &[ResourceClaimConsumerReference],
    rules: &LabelRules,
) -> Allocation {
    let results = given.devices.as_ref().and_then(|devices| devices.results.as_deref()).unwrap_or_default();
    let device = |one: &k8s_openapi::api::resource::v1::DeviceRequestAllocationResult| GivenDevice {
        id: DeviceId { driver: one.driver.clone(), pool: one.pool.clone(), device: one.device.clone() },
        consumed: amounts(
            problems,
            "status.allocation.devices.results.consumedCapacity",
            one.consumed_capacity.iter().flatten(),
        ),
    };
    let devices = results.iter().map(device).collect();
    let selector = given.node_selector.as_ref();
    let is_pod = |by: &ResourceClaimConsumerReference| {
        by.resource == "pods" && by.api_group.as_deref().unwrap_or_default().is_empty()
    };
    let consumer = |by: &ResourceClaimConsumerReference| {
        if is_pod(by) { Consumer::Pod { uid: by.uid.clone() } } else { Consumer::Other }
    };
    Allocation {
        devices,
        terms: selector
            .map(|selector| terms(problems, "status.allocation.nodeSelector", selector, rules))
            .unwrap_or_default(),
        reserved_for: reserved.iter().map(consumer).collect(),
    }
}

#[cfg(test)]
mod tests;
