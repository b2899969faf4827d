//! What a provider says about itself and what it offers.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Operator, Requirement};
use karpenter_model::resources::{CPU, MEMORY, PODS};

use super::{Broken, Subject, ensure};

pub(super) fn names(subject: &dyn Subject) -> Result<(), Broken> {
    let provider = subject.provider();
    ensure(!provider.name().is_empty(), || "no name".to_owned())?;
    let class = provider.node_classes().first().ok_or("no node class")?;
    ensure(provider.supports(&class.group, &class.kind), || format!("does not support its own {}", class.kind))?;
    // Group and kind both count (API-250).
    ensure(!provider.supports("nobody.example.com", &class.kind), || "supports a class of nobody".to_owned())?;
    ensure(!provider.supports(&class.group, "Nothing"), || "supports a kind that is none".to_owned())
}

async fn listed(subject: &dyn Subject) -> Result<Arc<Vec<InstanceType>>, Broken> {
    subject.provider().instance_types(&subject.pool()).await.map_err(|error| error.to_string())
}

pub(super) async fn types(subject: &dyn Subject) -> Result<(), Broken> {
    let types = listed(subject).await?;
    ensure(!types.is_empty(), || "no types".to_owned())?;
    let names: BTreeSet<&str> = types.iter().map(|t| t.name.as_str()).collect();
    ensure(names.len() == types.len(), || "two types share a name".to_owned())?;
    let again = listed(subject).await?;
    let names_again: BTreeSet<&str> = again.iter().map(|t| t.name.as_str()).collect();
    ensure(names == names_again, || "asked again, other types".to_owned())
}

pub(super) async fn well_known_labels(subject: &dyn Subject) -> Result<(), Broken> {
    for instance_type in listed(subject).await?.iter() {
        let name = &instance_type.name;
        let own = instance_type.requirements.get(labels::INSTANCE_TYPE).and_then(Requirement::single_value);
        ensure(own == Some(name), || format!("{name} is labelled {own:?}"))?;
        // The pool's name is nothing a type has a say in.
        let missing =
            labels::WELL_KNOWN.iter().find(|key| **key != labels::NODEPOOL && !instance_type.requirements.has_key(key));
        ensure(missing.is_none(), || format!("{name} lacks {missing:?}"))?;
    }
    Ok(())
}

pub(super) async fn amounts(subject: &dyn Subject) -> Result<(), Broken> {
    for instance_type in listed(subject).await?.iter() {
        for resource in [CPU, MEMORY, PODS] {
            let (has, left) = (instance_type.capacity.amount(resource), instance_type.allocatable().amount(resource));
            ensure(left <= has && has > Quantity::ZERO, || {
                format!("{}: {left} of {has} {resource} can be allocated", instance_type.name)
            })?;
        }
    }
    Ok(())
}

pub(super) async fn offerings(subject: &dyn Subject) -> Result<(), Broken> {
    for instance_type in listed(subject).await?.iter() {
        let mut seen = BTreeSet::new();
        for offering in &instance_type.offerings {
            let shown = offering.requirements.to_string();
            for (key, value) in [(labels::ZONE, offering.zone()), (labels::CAPACITY_TYPE, offering.capacity_type())] {
                let value = value.ok_or_else(|| format!("{} has an offering without one {key}", instance_type.name))?;
                // A provider may list what it does not sell (AWS-134 has every zone of the region); nobody launches that.
                let of_type = instance_type.requirements.get(key).is_some_and(|requirement| requirement.has(value));
                ensure(of_type || !offering.available, || {
                    format!("{} does not name {key} {value} of its offering", instance_type.name)
                })?;
            }
            ensure(seen.insert(shown.clone()), || format!("{} offers {shown} twice", instance_type.name))?;
        }
    }
    Ok(())
}

pub(super) async fn reservations(subject: &dyn Subject) -> Result<(), Broken> {
    let provider = subject.provider();
    let keys = provider.reservation_labels();
    if let Some(keys) = keys {
        // Decisions count what is left of a reservation by this key.
        let known = provider.label_rules().reservation_key();
        ensure(known == Some(&keys.id), || format!("reservations are by {}, the rules say {known:?}", keys.id))?;
    }
    for instance_type in listed(subject).await?.iter() {
        for offering in &instance_type.offerings {
            let what = || format!("{} {}", instance_type.name, offering.requirements);
            let reserved = offering.capacity_type() == Some(labels::CAPACITY_TYPE_RESERVED);
            ensure(reserved == offering.reservation_capacity.is_some(), || {
                format!("{}: reserved is {reserved}, count {:?}", what(), offering.reservation_capacity)
            })?;
            match keys {
                None => ensure(!reserved, || format!("{}: no label for reservations", what()))?,
                Some(keys) => {
                    let defined = |key: &String| match offering.requirements.get(key) {
                        Some(requirement) => (requirement.operator() != Operator::DoesNotExist) == reserved,
                        None => !reserved,
                    };
                    ensure(keys.all.iter().all(defined), || format!("{}: wrong reservation labels", what()))?;
                    let id = offering.requirements.get(&keys.id).and_then(Requirement::single_value);
                    ensure(reserved == id.is_some(), || format!("{}: reservation id {id:?}", what()))?;
                }
            }
        }
    }
    Ok(())
}
