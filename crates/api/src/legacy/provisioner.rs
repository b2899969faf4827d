//! Provisioner becomes NodePool (API-312 … API-328).

use std::collections::BTreeMap;

use serde_json::Value;

use super::classes::{ClassUse, PoolDraft};
use super::findings::Report;
use super::labels::Types;
use super::{Options, kubelet, labels, metadata, template, typed};
use crate::kinds::awsnodetemplate::AWSNodeTemplateSpec;
use crate::kinds::nodepool::{Disruption, NodeClaimTemplate, NodeClaimTemplateSpec, NodePoolSpec, TemplateMetadata};
use crate::kinds::provisioner::ProvisionerSpec;
use crate::kinds::{NodeClassRef, Requirement, Taint};
use crate::names::aws;
use crate::validation;
use crate::values::{NillableDurationText, QuantityText};

/// Members that the inline `provider` never had.
const TEMPLATE_ONLY: [&str; 3] = ["amiSelector", "userData", "detailedMonitoring"];

pub(super) fn read(object: &Value, options: &Options, report: &mut Report<'_>) -> Option<PoolDraft> {
    let metadata = metadata::kept(object, report)?;
    let name = metadata.name.clone().unwrap_or_default();
    let given: ProvisionerSpec = typed(&object["spec"], "spec", report)?;
    let class = class_use(&given, options, report);
    let kubelet = given.kubelet_configuration.clone();
    let kubelet = kubelet.and_then(|kubelet| kubelet::converted(kubelet, "spec.kubeletConfiguration", report));
    let class_name = match &class {
        Some(ClassUse::Named(name)) => name.clone(),
        _ => name,
    };
    let spec = pool_spec(given, class_name, options, report);
    let draft = PoolDraft { metadata, spec, class: class?, kubelet, kubelet_field: "spec.kubeletConfiguration" };
    report.unless_failed(draft)
}

fn class_use(given: &ProvisionerSpec, options: &Options, report: &mut Report<'_>) -> Option<ClassUse> {
    match (&given.provider, &given.provider_ref) {
        (Some(_), Some(_)) => {
            report.error("spec.provider", "cannot be combined with providerRef");
            None
        }
        (None, None) => {
            report.error("spec.providerRef", "is required when there is no provider");
            None
        }
        (None, Some(reference)) => {
            if let Some(kind) = reference.kind.as_deref().filter(|kind| *kind != "AWSNodeTemplate") {
                report.error("spec.providerRef.kind", format!("{kind:?} cannot be converted, only AWSNodeTemplate"));
            }
            let name = reference.name.clone().filter(|name| !name.is_empty());
            if name.is_none() {
                report.error("spec.providerRef.name", "is missing");
            }
            name.map(ClassUse::Named)
        }
        (Some(provider), None) => {
            for name in TEMPLATE_ONLY.into_iter().filter(|name| provider.contains_key(*name)) {
                report.error(format!("spec.provider.{name}"), "is known to AWSNodeTemplate only");
            }
            let provider: AWSNodeTemplateSpec = typed(&Value::Object(provider.clone()), "spec.provider", report)?;
            Some(ClassUse::Inline(Box::new(template::class_spec(provider, "spec.provider", options, report))))
        }
    }
}

fn pool_spec(given: ProvisionerSpec, class_name: String, options: &Options, report: &mut Report<'_>) -> NodePoolSpec {
    check_labels(&given, report);
    for problem in validation::taint_problems("spec", [&given.taints, &given.startup_taints]) {
        report.error(problem.field, problem.issue.to_string());
    }
    check_limits(&given, report);
    let disruption = disruption(&given, report);
    let expire_after = expire_after(&given, report);
    report.warn(
        "spec",
        "v1 disrupts at most 10% of the nodes of a pool at once unless spec.disruption.budgets says more",
    );
    let requirements: Vec<Requirement> = given.requirements.into_iter().flatten().map(Into::into).collect();
    let mut requirements = labels::kept_requirements(requirements, "spec.requirements", report);
    let template_labels = given.labels.map(|all| labels::kept_labels(all, "spec.labels", report));
    if options.requirement_defaults {
        // The first of these webhooks left the instance types free, and so does who serves the objects (AWS-257, SEED-2-43).
        let types = if options.installation.is_some() { Types::Free } else { Types::Usual };
        labels::add_defaults(&mut requirements, template_labels.as_ref(), types);
    }
    let annotations = given.annotations.map(|all| metadata::renamed_annotations(all, "spec.annotations", report));
    let metadata = TemplateMetadata { labels: template_labels, annotations };
    NodePoolSpec {
        template: NodeClaimTemplate {
            metadata: (metadata != TemplateMetadata::default()).then_some(metadata),
            spec: NodeClaimTemplateSpec {
                taints: taints(given.taints, "spec.taints", report),
                startup_taints: taints(given.startup_taints, "spec.startupTaints", report),
                requirements,
                node_class_ref: NodeClassRef {
                    group: aws::GROUP.to_owned(),
                    kind: aws::NODE_CLASS_KIND.to_owned(),
                    name: class_name,
                },
                termination_grace_period: None,
                expire_after: Some(expire_after),
            },
        },
        disruption: Some(disruption),
        limits: given.limits.and_then(|limits| limits.resources).map(written_out),
        weight: given.weight,
        replicas: None,
    }
}

/// Quantities as the API server admits them: whole numbers or text.
fn written_out(limits: BTreeMap<String, QuantityText>) -> BTreeMap<String, QuantityText> {
    let admitted = |quantity: QuantityText| match &quantity {
        QuantityText::Number(number) if !number.is_i64() => QuantityText::Text(number.to_string()),
        _ => quantity,
    };
    limits.into_iter().map(|(name, quantity)| (name, admitted(quantity))).collect()
}

/// Taints as v1 has them: an effect is required, an empty value is none.
fn taints(given: Option<Vec<Taint>>, field: &str, report: &mut Report<'_>) -> Option<Vec<Taint>> {
    let mut given = given?;
    for (at, taint) in given.iter_mut().enumerate() {
        if taint.effect.is_empty() {
            report.error(format!("{field}[{at}].effect"), "is missing");
        }
        taint.value.take_if(|value| value.is_empty());
    }
    Some(given)
}

fn check_labels(given: &ProvisionerSpec, report: &mut Report<'_>) {
    let kept =
        |key: &String| *key != crate::names::legacy::PROVISIONER_NAME && *key != crate::names::legacy::INSTANCE_PODS;
    for (key, value) in given.labels.iter().flatten().filter(|(key, _)| kept(key)) {
        let field = format!("spec.labels[{key}]");
        if let Err(error) = validation::qualified_name(key) {
            report.error(&field, format!("key {error}"));
        }
        if let Err(error) = validation::label_value(value) {
            report.error(&field, format!("value {value:?} {error}"));
        }
        labels::check_v1alpha5(key, &field, report);
    }
    for (at, requirement) in given.requirements.iter().flatten().enumerate().filter(|(_, one)| kept(&one.key)) {
        labels::check_v1alpha5(&requirement.key, &format!("spec.requirements[{at}].key"), report);
    }
}

fn check_limits(given: &ProvisionerSpec, report: &mut Report<'_>) {
    let limits = given.limits.as_ref().and_then(|limits| limits.resources.as_ref());
    for (name, quantity) in limits.into_iter().flatten() {
        if let Err(error) = quantity.parse() {
            report.error(format!("spec.limits.resources[{name}]"), error.to_string());
        }
    }
    if given.weight.is_some_and(|weight| !(1..=100).contains(&weight)) {
        report.error("spec.weight", "must be between 1 and 100");
    }
}

fn disruption(given: &ProvisionerSpec, report: &mut Report<'_>) -> Disruption {
    let consolidation = given.consolidation.as_ref().and_then(|consolidation| consolidation.enabled).unwrap_or(false);
    let (policy, after) = match given.ttl_seconds_after_empty {
        Some(_) if consolidation => {
            report.error("spec.ttlSecondsAfterEmpty", "cannot be combined with consolidation.enabled");
            return Disruption::default();
        }
        Some(seconds) if seconds < 0 => {
            report.error("spec.ttlSecondsAfterEmpty", "must not be negative");
            return Disruption::default();
        }
        Some(seconds) => {
            let message = "v1 counts from the last pod that came or went, not from when the node was seen empty";
            report.warn("spec.ttlSecondsAfterEmpty", message);
            ("WhenEmpty", seconds_text(seconds, "spec.ttlSecondsAfterEmpty", report).0)
        }
        None if consolidation => ("WhenEmptyOrUnderutilized", "0s".to_owned()),
        None => ("WhenEmpty", NillableDurationText::NEVER.to_owned()),
    };
    Disruption {
        consolidate_after: Some(NillableDurationText(after)),
        consolidation_policy: Some(policy.to_owned()),
        budgets: None,
    }
}

fn seconds_text(seconds: i64, field: &str, report: &mut Report<'_>) -> NillableDurationText {
    let text = NillableDurationText(format!("{seconds}s"));
    if let Err(error) = text.parse() {
        report.error(field, error.to_string());
    }
    text
}

/// Never must be explicit: what is left out means 720h in v1.
fn expire_after(given: &ProvisionerSpec, report: &mut Report<'_>) -> NillableDurationText {
    const FIELD: &str = "spec.ttlSecondsUntilExpired";
    match given.ttl_seconds_until_expired {
        None => NillableDurationText::never(),
        Some(seconds) if seconds < 0 => {
            report.error(FIELD, "must not be negative");
            NillableDurationText::never()
        }
        Some(seconds) => {
            if seconds == 0 {
                report.warn(FIELD, "0 lets every node expire at once");
            }
            report.warn(FIELD, "expiry is forceful in v1: no replacement first, no budgets");
            seconds_text(seconds, FIELD, report)
        }
    }
}
