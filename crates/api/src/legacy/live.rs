//! One Provisioner as the NodePool and the EC2NodeClass that serve it in a cluster (AWS-257, AWS-258).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;

use super::classes::ClassUse;
use super::findings::{Finding, Report, Severity};
use super::{Installation, Options, provisioner, template};
use crate::kinds::ec2nodeclass::{EC2NodeClass, EC2NodeClassSpec};
use crate::kinds::nodepool::NodePool;
use crate::names::GROUP;
use crate::names::legacy::PROVISIONER_NAME;

/// Names of pools and classes are label values too.
const NAME_LIMIT: usize = 63;

/// What became of a Provisioner.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Translation {
    /// Nothing when the Provisioner or its template cannot be served; the findings say why.
    pub objects: Option<(NodePool, EC2NodeClass)>,
    /// About the Provisioner (document 0) and its template (document 1).
    pub findings: Vec<Finding>,
}

/// The owner of an object that serves a Provisioner.
pub fn owner(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = metadata.owner_references.iter().flatten();
    let mut ours = owners.filter(|one| one.kind == "Provisioner" && one.controller == Some(true));
    ours.find(|one| one.api_version.split('/').next() == Some(GROUP))
}

/// The template that a Provisioner refers to.
pub fn template_name(provisioner: &Value) -> Option<&str> {
    provisioner["spec"]["providerRef"]["name"].as_str().filter(|name| !name.is_empty())
}

/// What is wrong with a template, or is to be known about it, whoever uses it.
pub fn template_findings(template: &Value, installation: &Installation) -> Vec<Finding> {
    let mut findings = Vec::new();
    template::read(template, &options(installation), &mut Report::new(1, template, &mut findings));
    findings
}

fn options(installation: &Installation) -> Options {
    Options { role: None, requirement_defaults: true, installation: Some(installation.clone()) }
}

/// Both objects, with the Provisioner as their owner. `template` is the one it refers to, if that exists.
pub fn translate(provisioner: &Value, template: Option<&Value>, installation: &Installation) -> Translation {
    let options = options(installation);
    let mut findings = Vec::new();
    let objects = objects(provisioner, template, &options, &mut findings);
    // They keep their meaning here, and what asks for others is an error.
    findings.retain(|finding| finding.severity == Severity::Error || !finding.message.starts_with(PROVISIONER_NAME));
    Translation { objects, findings }
}

fn objects(
    provisioner: &Value,
    template: Option<&Value>,
    options: &Options,
    findings: &mut Vec<Finding>,
) -> Option<(NodePool, EC2NodeClass)> {
    let mut report = Report::new(0, provisioner, findings);
    check_name(provisioner, &mut report);
    let draft = provisioner::read(provisioner, options, &mut report);
    let draft = draft.and_then(|draft| report.unless_failed(draft));
    let class = match draft.as_ref().map(|draft| &draft.class) {
        Some(ClassUse::Named(name)) if template.is_none() => {
            report.error("spec.providerRef.name", format!("there is no AWSNodeTemplate {name}"));
            None
        }
        Some(ClassUse::Inline(spec)) => Some((**spec).clone()),
        // Said even where the Provisioner itself is wrong.
        _ => template.and_then(|template| {
            let class = template::read(template, options, &mut Report::new(1, template, findings))?;
            Some(class.spec)
        }),
    };
    let (mut draft, class) = (draft?, class?);
    let metadata = metadata(provisioner);
    draft.spec.template.spec.node_class_ref.name = metadata.name.clone().unwrap_or_default();
    let class = EC2NodeClassSpec { kubelet: draft.kubelet, ..class };
    Some((
        NodePool { metadata: metadata.clone(), spec: draft.spec, status: None },
        EC2NodeClass { metadata, spec: class, status: None },
    ))
}

/// Of both objects. Labels and annotations of the Provisioner stay with it: tools that apply manifests mark what is theirs with
/// them, and would remove what they did not apply.
fn metadata(provisioner: &Value) -> ObjectMeta {
    let text = |member: &str| provisioner["metadata"][member].as_str().unwrap_or_default().to_owned();
    ObjectMeta {
        name: Some(text("name")),
        labels: Some(BTreeMap::from([(PROVISIONER_NAME.to_owned(), text("name"))])),
        owner_references: Some(vec![OwnerReference {
            api_version: "karpenter.sh/v1alpha5".to_owned(),
            kind: "Provisioner".to_owned(),
            name: text("name"),
            uid: text("uid"),
            block_owner_deletion: Some(true),
            controller: Some(true),
        }]),
        ..ObjectMeta::default()
    }
}

/// The name is the value of the label that every node gets, so whatever asks for another asks for nothing (AWS-258).
fn check_name(provisioner: &Value, report: &mut Report<'_>) {
    let name = provisioner["metadata"]["name"].as_str().unwrap_or_default();
    if name.len() > NAME_LIMIT {
        report.error("metadata.name", format!("has more than {NAME_LIMIT} characters, and nodes are labelled with it"));
    }
    let message = format!("nodes of this Provisioner have the value {name:?} and no other");
    if provisioner["spec"]["labels"][PROVISIONER_NAME].as_str().is_some_and(|value| value != name) {
        report.error(format!("spec.labels[{PROVISIONER_NAME}]"), &message);
    }
    let requirements = provisioner["spec"]["requirements"].as_array().into_iter().flatten();
    for (at, one) in requirements.enumerate().filter(|(_, one)| one["key"] == PROVISIONER_NAME) {
        let listed = one["values"].as_array().is_some_and(|values| values.iter().any(|value| value == name));
        let met = match one["operator"].as_str().unwrap_or_default() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => true,
            _ => false,
        };
        if !met {
            report.error(format!("spec.requirements[{at}]"), &message);
        }
    }
}
