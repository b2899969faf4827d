//! Where and how an instance is bought: the CreateFleet request (§4.11).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_api::names::annotations;
use karpenter_model::claim::ClaimView;
use karpenter_model::labels;

use super::tags::{effective_tags, fleet_tags};
use super::templates::{LaunchFacts, Template, target_reservation};
use crate::cloud::{FleetAnswer, FleetConfig, FleetOverride, FleetRequest};
use crate::fnv;

/// Nothing that the templates stand for is on offer in any zone that has a subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no capacity offerings are currently available given the constraints")]
pub struct NoOverrides;

/// For one instance; requests that are equal are sent together. `subnets` has the one to use in each zone.
pub fn fleet_request(
    templates: &[Template],
    subnets: &BTreeMap<String, String>,
    facts: &LaunchFacts<'_>,
) -> Result<FleetRequest, NoOverrides> {
    let configs: Vec<FleetConfig> = templates
        .iter()
        .map(|template| FleetConfig {
            template_name: template.request.name.clone(),
            version: "$Latest",
            overrides: overrides(template, subnets, facts),
        })
        .filter(|config| !config.overrides.is_empty())
        .collect();
    if configs.is_empty() {
        return Err(NoOverrides);
    }
    let claim = facts.claim;
    let terms = terms(templates, facts.capacity_type, claim);
    let relaxed = claim.annotations.get(annotations::MIN_VALUES_RELAXED).is_some_and(|value| value == "true");
    let tags = effective_tags(facts.class, &facts.cluster.name, claim.pool.as_deref().unwrap_or_default());
    Ok(FleetRequest {
        target_capacity: 1,
        default_capacity_type: terms.default_capacity_type,
        on_demand_strategy: terms.on_demand_strategy,
        spot_strategy: terms.spot_strategy,
        reservation_types: terms.reservation_types,
        configs,
        context: facts.class.spec.context.clone().filter(|_| !relaxed),
        tags: fleet_tags(&tags),
    })
}

struct Terms {
    default_capacity_type: &'static str,
    on_demand_strategy: Option<&'static str>,
    spot_strategy: Option<&'static str>,
    reservation_types: Option<&'static str>,
}

/// The user's prices count where overlays made them; EC2 goes by its own otherwise (AWS-185).
fn terms(templates: &[Template], capacity_type: &str, claim: &ClaimView) -> Terms {
    let overlaid = claim.annotations.contains_key(annotations::PRICE_OVERLAY_APPLIED);
    let on_demand = Some(if overlaid { "prioritized" } else { "lowest-price" });
    let spot = Some(if overlaid { "capacity-optimized-prioritized" } else { "price-capacity-optimized" });
    let target = templates.iter().find_map(|template| template.reservation.as_ref());
    let (default_capacity_type, on_demand_strategy, spot_strategy, reservation_types) = match (capacity_type, target) {
        (labels::CAPACITY_TYPE_SPOT, _) => ("spot", None, spot, None),
        (labels::CAPACITY_TYPE_RESERVED, Some(target)) if target.kind == "capacity-block" => {
            ("capacity-block", None, None, None)
        }
        (labels::CAPACITY_TYPE_RESERVED, Some(target)) if target.interruptible => {
            ("reserved-capacity", None, None, Some("interruptible-capacity-reservation"))
        }
        _ => ("on-demand", on_demand, None, None),
    };
    Terms { default_capacity_type, on_demand_strategy, spot_strategy, reservation_types }
}

fn overrides(template: &Template, subnets: &BTreeMap<String, String>, facts: &LaunchFacts<'_>) -> Vec<FleetOverride> {
    let mut seen = BTreeSet::new();
    let mut overrides = Vec::new();
    for known in &template.types {
        let launchable = known.launchable_offerings(&facts.claim.requirements, facts.rules);
        for offering in launchable {
            let bought_so = offering.capacity_type() == Some(facts.capacity_type)
                && target_reservation(offering).map(|target| target.id)
                    == template.reservation.as_ref().map(|target| target.id.clone());
            let Some((zone, subnet)) = offering.zone().and_then(|zone| subnets.get_key_value(zone)) else { continue };
            if bought_so && seen.insert((known.name.clone(), zone.clone())) {
                overrides.push(FleetOverride {
                    instance_type: known.name.clone(),
                    subnet_id: subnet.clone(),
                    image_id: template.request.data.image_id.clone(),
                    zone: zone.clone(),
                    priority: offering.price.per_hour(),
                });
            }
        }
    }
    overrides
}

/// EC2 may name a template by its id only, or leave out where something was bought; the request says the rest.
pub fn completed(mut answer: FleetAnswer, request: &FleetRequest) -> FleetAnswer {
    for one in &mut answer.instances {
        complete(request, &one.instance_type, [&mut one.zone, &mut one.subnet_id, &mut one.template_name]);
    }
    for one in &mut answer.errors {
        complete(request, &one.instance_type, [&mut one.zone, &mut one.subnet_id, &mut one.template_name]);
    }
    answer
}

/// Only if all that is said fits one override: an error about nothing stays one (AWS-292).
fn complete(request: &FleetRequest, instance_type: &str, [zone, subnet, template]: [&mut String; 3]) {
    if instance_type.is_empty() || (zone.is_empty() && subnet.is_empty()) {
        return;
    }
    let fits = |said: &str, is: &str| said.is_empty() || said == is;
    let mut ways = request.configs.iter().flat_map(|config| config.overrides.iter().map(move |one| (config, one)));
    let found = ways.find(|(config, one)| {
        one.instance_type == instance_type
            && fits(zone, &one.zone)
            && fits(subnet, &one.subnet_id)
            && fits(template, &config.template_name)
    });
    if let Some((config, one)) = found {
        for (said, is) in [(zone, &one.zone), (subnet, &one.subnet_id), (template, &config.template_name)] {
            said.clone_from(is);
        }
    }
}

/// The token that makes a repeated request the same request: the claim's UID, or a digest of all UIDs that are sent
/// together. EC2 takes 64 characters.
pub fn client_token(uids: &[&str]) -> String {
    match uids {
        [only] if only.len() <= 64 => (*only).to_owned(),
        many => {
            let mut sorted = many.to_vec();
            sorted.sort_unstable();
            let text = sorted.join(",");
            let halves = [fnv::hash(text.as_bytes()), fnv::hash(format!("{text}#").as_bytes())];
            format!("batch-{}-{:016x}{:016x}", many.len(), halves[0], halves[1])
        }
    }
}
