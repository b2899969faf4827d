//! v1beta1 (API-333, API-341, API-342).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::classes::{ClassDraft, ClassUse, PoolDraft};
use super::findings::Report;
use super::template::{self, PLACEHOLDER_ROLE};
use super::{Options, kubelet, labels, metadata, typed};
use crate::kinds::ec2nodeclass::EC2NodeClassSpec;
use crate::kinds::nodepool::{
    Budget, Disruption, NodeClaimTemplate, NodeClaimTemplateSpec, NodePoolSpec, TemplateMetadata,
};
use crate::kinds::provisioner::LegacyKubeletConfiguration;
use crate::kinds::{NodeClaim, NodeClaimSpec, NodeClassRef, Requirement, Taint, nodeclaim};
use crate::names::legacy::{KUBELET_ANNOTATION, MANAGED_BY, NODE_CLASS_REFERENCE_ANNOTATION};
use crate::names::{aws, labels as label_names};
use crate::values::{NillableDurationText, QuantityText};

/// Hop limit that v1beta1 filled in; v1 fills 1.
const HOP_LIMIT: i64 = 2;

#[derive(Serialize, Deserialize)]
struct PoolSpec {
    template: Template,
    #[serde(skip_serializing_if = "Option::is_none")]
    disruption: Option<BetaDisruption>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<BTreeMap<String, QuantityText>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<i32>,
}

#[derive(Serialize, Deserialize)]
struct Template {
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<TemplateMetadata>,
    spec: ClaimSpec,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    taints: Option<Vec<Taint>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    startup_taints: Option<Vec<Taint>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requirements: Option<Vec<Requirement>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kubelet: Option<LegacyKubeletConfiguration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_class_ref: Option<ClassRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<nodeclaim::ResourceRequests>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClassRef {
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BetaDisruption {
    #[serde(skip_serializing_if = "Option::is_none")]
    consolidate_after: Option<NillableDurationText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consolidation_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_after: Option<NillableDurationText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budgets: Option<Vec<Budget>>,
}

pub(super) fn read_pool(object: &Value, report: &mut Report<'_>) -> Option<PoolDraft> {
    let mut metadata = metadata::kept(object, report)?;
    let given: PoolSpec = typed(&object["spec"], "spec", report)?;
    let spec = given.template.spec;
    let kubelet = spec.kubelet.or_else(|| annotated(&mut metadata, KUBELET_ANNOTATION, report));
    let kubelet = kubelet.and_then(|kubelet| kubelet::converted(kubelet, "spec.template.spec.kubelet", report));
    let original = annotated(&mut metadata, NODE_CLASS_REFERENCE_ANNOTATION, report);
    let reference = class_ref(spec.node_class_ref, original, "spec.template.spec.nodeClassRef", report);
    drop_annotations(&mut metadata);
    let requirements =
        labels::kept_requirements(spec.requirements.unwrap_or_default(), "spec.template.spec.requirements", report);
    for problem in crate::validation::taint_problems("spec.template.spec", [&spec.taints, &spec.startup_taints]) {
        report.error(problem.field, problem.issue.to_string());
    }
    let (disruption, expire_after) = disruption(given.disruption, report);
    let template_metadata = given.template.metadata.map(|given| TemplateMetadata {
        labels: given.labels.map(|all| labels::kept_labels(all, "spec.template.metadata.labels", report)),
        annotations: given
            .annotations
            .map(|all| metadata::renamed_annotations(all, "spec.template.metadata.annotations", report)),
    });
    let spec = NodePoolSpec {
        template: NodeClaimTemplate {
            metadata: template_metadata,
            spec: NodeClaimTemplateSpec {
                taints: spec.taints,
                startup_taints: spec.startup_taints,
                requirements,
                node_class_ref: reference.clone(),
                termination_grace_period: None,
                expire_after,
            },
        },
        disruption: Some(disruption),
        limits: given.limits,
        weight: given.weight,
        replicas: None,
    };
    let kubelet_field = "spec.template.spec.kubelet";
    report.unless_failed(PoolDraft { metadata, spec, class: ClassUse::Named(reference.name), kubelet, kubelet_field })
}

/// Reads an annotation that holds JSON.
fn annotated<T: Serialize + serde::de::DeserializeOwned>(
    metadata: &mut ObjectMeta,
    key: &str,
    report: &mut Report<'_>,
) -> Option<T> {
    let text = metadata.annotations.as_mut()?.remove(key)?;
    let field = format!("metadata.annotations[{key}]");
    match serde_json::from_str::<Value>(&text) {
        Ok(value) => typed(&value, &field, report),
        Err(error) => {
            report.error(field, format!("is not JSON: {error}"));
            None
        }
    }
}

/// Both annotations have done their work, also where the fields won.
fn drop_annotations(metadata: &mut ObjectMeta) {
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| key != KUBELET_ANNOTATION && key != NODE_CLASS_REFERENCE_ANNOTATION);
    }
    metadata.annotations.take_if(|annotations| annotations.is_empty());
}

/// Group, kind and name of the class; what the reference leaves out comes from the annotation, then from the provider.
fn class_ref(
    given: Option<ClassRef>,
    original: Option<ClassRef>,
    field: &str,
    report: &mut Report<'_>,
) -> NodeClassRef {
    let (given, original) = (given.unwrap_or_default(), original.unwrap_or_default());
    let first = |one: Option<String>, two: Option<String>| one.filter(|text| !text.is_empty()).or(two);
    let api_version = first(given.api_version, original.api_version).unwrap_or_default();
    let group = api_version.split('/').next().filter(|group| !group.is_empty()).unwrap_or(aws::GROUP);
    let name = first(given.name, original.name).unwrap_or_default();
    if name.is_empty() {
        report.error(format!("{field}.name"), "is missing");
    }
    let kind = first(given.kind, original.kind).unwrap_or_else(|| aws::NODE_CLASS_KIND.to_owned());
    NodeClassRef { group: group.to_owned(), kind, name }
}

fn disruption(given: Option<BetaDisruption>, report: &mut Report<'_>) -> (Disruption, Option<NillableDurationText>) {
    let (after, policy, expire_after, budgets) = match given {
        Some(given) => (given.consolidate_after, given.consolidation_policy, given.expire_after, given.budgets),
        None => (None, None, None, None),
    };
    let never = after.as_ref().is_some_and(|after| after.0 == NillableDurationText::NEVER);
    let (policy, after) = match policy.as_deref().unwrap_or("WhenUnderutilized") {
        // `Never` was the one value allowed beside this policy and switched consolidation off.
        "WhenUnderutilized" => {
            ("WhenEmptyOrUnderutilized", Some(if never { after.unwrap_or_default() } else { "0s".into() }))
        }
        "WhenEmpty" => ("WhenEmpty", after),
        other => {
            let message = format!("{other:?} is not one of WhenEmpty, WhenUnderutilized");
            report.error("spec.disruption.consolidationPolicy", message);
            ("WhenEmpty", after)
        }
    };
    if expire_after.as_ref().is_none_or(|after| after.0 != NillableDurationText::NEVER) {
        report.warn("spec.disruption.expireAfter", "expiry is forceful in v1: no replacement first, no budgets");
    }
    for (field, text) in [("consolidateAfter", &after), ("expireAfter", &expire_after)] {
        if let Some(Err(error)) = text.as_ref().map(NillableDurationText::parse) {
            report.error(format!("spec.disruption.{field}"), error.to_string());
        }
    }
    let disruption = Disruption { consolidate_after: after, consolidation_policy: Some(policy.to_owned()), budgets };
    (disruption, expire_after)
}

pub(super) fn read_claim(
    object: &Value,
    expiries: &BTreeMap<String, NillableDurationText>,
    report: &mut Report<'_>,
) -> Option<Value> {
    let mut metadata = metadata::kept(object, report)?;
    drop_annotations(&mut metadata);
    let given: ClaimSpec = typed(&object["spec"], "spec", report)?;
    if given.kubelet.is_some() {
        report.warn("spec.kubelet", "belongs to the class in v1; left out");
    }
    let labels = metadata.labels.as_ref();
    let pool = labels.and_then(|labels| labels.get(label_names::NODEPOOL)).map(String::as_str).unwrap_or_default();
    let expire_after = expiries.get(pool).cloned();
    if expire_after.is_none() {
        report.warn("spec.expireAfter", "is taken from the pool, which is not among the inputs; v1 fills 720h");
    }
    let spec = NodeClaimSpec {
        taints: given.taints,
        startup_taints: given.startup_taints,
        requirements: given.requirements.unwrap_or_default(),
        resources: given.resources,
        node_class_ref: class_ref(given.node_class_ref, None, "spec.nodeClassRef", report),
        termination_grace_period: None,
        expire_after,
    };
    let claim = serde_json::to_value(NodeClaim { metadata, spec, status: None });
    claim.ok().and_then(|claim| report.unless_failed(claim))
}

/// Expiry of each v1beta1 pool in the input: claims carry it themselves in v1.
pub(super) fn pool_expiries(documents: &[Value]) -> BTreeMap<String, NillableDurationText> {
    let objects = documents.iter().flat_map(super::expanded);
    let pools = objects.filter(|object| object["apiVersion"] == "karpenter.sh/v1beta1" && object["kind"] == "NodePool");
    pools
        .filter_map(|pool| {
            let name = pool["metadata"]["name"].as_str()?.to_owned();
            // What v1beta1 filled in.
            let expiry = pool["spec"]["disruption"]["expireAfter"].as_str().unwrap_or("720h");
            Some((name, expiry.into()))
        })
        .collect()
}

pub(super) fn read_class(mut object: Value, options: &Options, report: &mut Report<'_>) -> Option<ClassDraft> {
    let metadata = metadata::kept(&object, report)?;
    if let Some(spec) = object["spec"].as_object_mut() {
        for terms in ["amiSelectorTerms", "subnetSelectorTerms", "securityGroupSelectorTerms"] {
            spec.entry(terms).or_insert_with(|| json!([]));
        }
    }
    let mut spec: EC2NodeClassSpec = typed(&object["spec"], "spec", report)?;
    let terms = std::mem::take(&mut spec.ami_selector_terms);
    let devices = spec.block_device_mappings.take();
    (spec.ami_family, spec.ami_selector_terms, spec.block_device_mappings) =
        template::family(spec.ami_family.as_deref(), terms, devices, "spec", options, report);
    if spec.tags.as_mut().is_some_and(|tags| tags.remove(MANAGED_BY).is_some()) {
        report.warn(
            format!("spec.tags[{MANAGED_BY}]"),
            "became eks:eks-cluster-name, which the controller sets; left out",
        );
    }
    spec.metadata_options.get_or_insert_default().http_put_response_hop_limit.get_or_insert(HOP_LIMIT);
    if spec.role.is_none() && spec.instance_profile.is_none() {
        spec.role = Some(options.role.clone().unwrap_or_else(|| {
            report.warn("spec.role", format!("is not set; replace the role {PLACEHOLDER_ROLE}"));
            PLACEHOLDER_ROLE.to_owned()
        }));
    }
    report.unless_failed(ClassDraft { metadata, spec })
}
