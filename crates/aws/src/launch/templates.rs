//! What is launched: one launch template for each combination of image, pods and reservation (§4.4).

mod parts;

use std::collections::BTreeMap;

use karpenter_api::kinds::ec2nodeclass::KubeletConfiguration;
use karpenter_api::names::aws;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::{InstanceType, Offering};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::Requirement;
use karpenter_model::resources::PODS;

use super::images::image_for;
use super::interfaces::{Wiring, interfaces};
use super::tags::{effective_tags, template_tags};
use crate::class::{ClassError, NodeClass};
use crate::cloud::{LaunchTemplateData, LaunchTemplateRequest, ReservationSpec};
use crate::fnv;
use crate::instance_types::{Evaluated, PlacementGroup};
use crate::user_data::{
    Bootstrap, Cluster, ImageVersion, Rendered, UserDataError, image_version, node_labels, node_taints, render,
};

const EFA: &str = "vpc.amazonaws.com/efa";
/// A claim that asks for it wants enclaves.
const ENCLAVES: &str = "eks.amazonaws.com/nip-slots";

/// Everything that shapes a launch but the types.
#[derive(Debug, Clone, Copy)]
pub struct LaunchFacts<'a> {
    pub class: &'a NodeClass,
    pub cluster: &'a Cluster,
    pub region: &'a str,
    pub claim: &'a ClaimView,
    pub capacity_type: &'a str,
    pub tenancy: &'a str,
    pub placement_group: Option<&'a PlacementGroup>,
    /// The gate: without it no template says anything about reservations.
    pub reserved_capacity: bool,
    /// What expressions for reserved amounts come to, by type; none for types that have none (AWS-101).
    pub evaluated: &'a BTreeMap<String, Evaluated>,
    pub rules: &'a LabelRules,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("no security groups are known")]
    NoSecurityGroups,
    #[error("no image of the class suits any of the instance types")]
    NoImages,
    #[error(transparent)]
    UserData(#[from] UserDataError),
    #[error(transparent)]
    Class(#[from] ClassError),
}

/// A reservation that a template launches into.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetReservation {
    pub id: String,
    /// `default` or `capacity-block`.
    pub kind: String,
    pub interruptible: bool,
}

/// A template and the types that are launched from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    pub request: LaunchTemplateRequest,
    pub reservation: Option<TargetReservation>,
    pub types: Vec<InstanceType>,
    /// Before base64, for the gauge.
    pub user_data_bytes: usize,
    /// Settings of the user that were left out.
    pub dropped_settings: Vec<String>,
}

/// What tells one template from another (AWS-159).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    image: String,
    pods: i64,
    efa: i64,
    reservation: Option<TargetReservation>,
    evaluated: Evaluated,
}

pub fn templates(types: &[InstanceType], facts: &LaunchFacts<'_>) -> Result<Vec<Template>, TemplateError> {
    if facts.class.status.security_groups.iter().flatten().next().is_none() {
        return Err(TemplateError::NoSecurityGroups);
    }
    let images = facts.class.status.amis.as_deref().unwrap_or_default();
    let mut groups: BTreeMap<Key, Vec<InstanceType>> = BTreeMap::new();
    for known in types {
        let Some(image) = image_for(known, images, facts.rules) else { continue };
        let wants_efa = !facts.claim.requests.amount(EFA).is_zero();
        let efa = if wants_efa { known.capacity.amount(EFA).value() } else { 0 };
        for reservation in target_reservations(known, facts) {
            let pods = known.capacity.amount(PODS).value();
            let evaluated = facts.evaluated.get(&known.name).cloned().unwrap_or_default();
            let key = Key { image: image.id.clone(), pods, efa, reservation, evaluated };
            groups.entry(key).or_default().push(known.clone());
        }
    }
    if groups.is_empty() {
        return Err(TemplateError::NoImages);
    }
    groups.into_iter().map(|(key, types)| template(&key, types, facts)).collect()
}

/// The reservations that a reserved launch could use, or none for any other launch.
fn target_reservations(known: &InstanceType, facts: &LaunchFacts<'_>) -> Vec<Option<TargetReservation>> {
    if facts.capacity_type != labels::CAPACITY_TYPE_RESERVED {
        return vec![None];
    }
    let launchable = known.launchable_offerings(&facts.claim.requirements, facts.rules);
    let mut targets: Vec<_> = launchable.into_iter().filter_map(target_reservation).map(Some).collect();
    targets.sort();
    targets.dedup();
    targets
}

pub(super) fn target_reservation(offering: &Offering) -> Option<TargetReservation> {
    let value = |key: &str| offering.requirements.get(key).and_then(Requirement::single_value);
    Some(TargetReservation {
        id: value(aws::CAPACITY_RESERVATION_ID)?.to_owned(),
        kind: value(aws::CAPACITY_RESERVATION_TYPE).unwrap_or("default").to_owned(),
        interruptible: value(aws::CAPACITY_RESERVATION_INTERRUPTIBLE) == Some("true"),
    })
}

fn template(key: &Key, types: Vec<InstanceType>, facts: &LaunchFacts<'_>) -> Result<Template, TemplateError> {
    let (class, claim) = (facts.class, facts.claim);
    let rendered = user_data(key, facts)?;
    let tags = effective_tags(class, &facts.cluster.name, claim.pool.as_deref().unwrap_or_default());
    let spot = facts.capacity_type == labels::CAPACITY_TYPE_SPOT;
    let data = LaunchTemplateData {
        image_id: key.image.clone(),
        instance_profile: class.status.instance_profile.clone().unwrap_or_default(),
        block_devices: parts::block_devices(class)?,
        user_data: rendered.base64(),
        detailed_monitoring: class.spec.detailed_monitoring.unwrap_or_default(),
        metadata: parts::metadata(class, facts.region, facts.cluster.is_ipv6()),
        interfaces: interfaces(&Wiring { class, ipv6: facts.cluster.is_ipv6(), efa: key.efa }),
        placement: parts::placement(facts),
        enclave: !claim.requests.amount(ENCLAVES).is_zero(),
        nested_virtualization: class.spec.cpu_options.as_ref().and_then(|cpu| cpu.nested_virtualization.clone()),
        reservation: facts.reserved_capacity.then(|| reservation_spec(key.reservation.as_ref())),
        market: key.reservation.as_ref().filter(|_| facts.reserved_capacity).and_then(market),
        tags: template_tags(&tags, spot),
    };
    let name = template_name(&data, facts);
    Ok(Template {
        request: LaunchTemplateRequest { name, data, tags },
        reservation: key.reservation.clone(),
        types,
        user_data_bytes: rendered.text.len(),
        dropped_settings: rendered.dropped,
    })
}

/// Over all that shapes the template, and the class, so that no two classes share one (AWS-158).
fn template_name(data: &LaunchTemplateData, facts: &LaunchFacts<'_>) -> String {
    let cluster = facts.cluster;
    let shape = (&cluster.name, &cluster.endpoint, &facts.class.name, facts.capacity_type, data);
    // These are plain values with text keys, which always have a JSON form.
    let text = serde_json::to_vec(&shape).unwrap_or_default();
    format!("karpenter.k8s.aws/{}", fnv::hash(&text))
}

fn user_data(key: &Key, facts: &LaunchFacts<'_>) -> Result<Rendered, UserDataError> {
    let class = facts.class;
    let labels = node_labels(&facts.claim.labels.to_map(), facts.capacity_type, class.family);
    let taints = node_taints(&facts.claim.taints, &facts.claim.startup_taints);
    let kubelet = class.spec.kubelet.as_ref().map(|kubelet| without_expressions(kubelet, &key.evaluated));
    let bootstrap = Bootstrap {
        cluster: facts.cluster,
        kubelet: kubelet.as_ref(),
        pods: key.pods,
        labels: &labels,
        taints: &taints,
        custom: class.spec.user_data.as_deref(),
        joins_disks: class.joins_disks(),
        image: match class.family {
            crate::family::AmiFamily::Bottlerocket => {
                image_version(&class.spec.ami_selector_terms, class.status.amis.as_deref().unwrap_or_default())
            }
            _ => ImageVersion::Unknown,
        },
    };
    render(class.family, &bootstrap)
}

/// The kubelet is told amounts only; an expression that comes to none is left out (AWS-94, AWS-99).
fn without_expressions(kubelet: &KubeletConfiguration, evaluated: &Evaluated) -> KubeletConfiguration {
    let mut told = kubelet.clone();
    told.other.remove("maxPods");
    for (given, evaluated) in
        [(&mut told.kube_reserved, &evaluated.kube_reserved), (&mut told.system_reserved, &evaluated.system_reserved)]
    {
        if let Some(given) = given {
            given.retain(|_, text| text.parse::<Quantity>().is_ok());
            given.extend(evaluated.iter().map(|(resource, text)| (resource.clone(), text.clone())));
        }
    }
    told
}

/// Anything but a reserved launch stays out of reservations that would take it in (AWS-269).
fn reservation_spec(target: Option<&TargetReservation>) -> ReservationSpec {
    match target {
        Some(target) => ReservationSpec { preference: "capacity-reservations-only", target: Some(target.id.clone()) },
        None => ReservationSpec { preference: "none", target: None },
    }
}

fn market(target: &TargetReservation) -> Option<&'static str> {
    match (target.kind.as_str(), target.interruptible) {
        ("capacity-block", _) => Some("capacity-block"),
        (_, true) => Some("interruptible-capacity-reservation"),
        _ => None,
    }
}
