//! Conversion of manifests of older API versions to v1 (API-309 … API-345).
//!
//! Provisioner and AWSNodeTemplate (v1alpha5, v1alpha1) and NodePool, NodeClaim and EC2NodeClass of v1beta1 go in,
//! NodePool, NodeClaim and EC2NodeClass of v1 come out. All documents are converted together, because kubelet settings
//! moved from pools to classes (API-332). An object that cannot be converted is reported and left out; the others are
//! converted all the same. What a reader must know about changed behaviour is a warning.

mod beta;
mod classes;
mod findings;
mod kubelet;
mod labels;
mod live;
mod metadata;
mod provisioner;
mod reading;
mod selectors;
mod settings;
mod template;
mod volumes;
mod workloads;

use std::collections::BTreeMap;

use serde_json::Value;

pub use findings::{Finding, Severity};
pub use live::{Translation, owner, template_findings, template_name, translate};

use classes::{ClassDraft, PoolDraft};
use findings::Report;
use reading::typed;

use crate::values::NillableDurationText;

/// How to fill what older manifests left to the installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The role of nodes whose class names neither a role nor an instance profile.
    pub role: Option<String>,
    /// Whether to write out the requirements that the webhook of old added by itself (API-323).
    pub requirement_defaults: bool,
    /// Objects are served where they are, not turned into manifests (AWS-257).
    pub installation: Option<Installation>,
}

/// The cluster that legacy objects are served in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installation {
    /// Of nodes whose class names none.
    pub default_instance_profile: Option<String>,
    /// Such as `1.35`.
    pub kubernetes_version: String,
}

impl Installation {
    /// Images of AL2 are published up to Kubernetes 1.32.
    fn has_al2(&self) -> bool {
        let mut parts = self.kubernetes_version.split('.').map_while(|part| part.parse::<u32>().ok());
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        version < (1, 33)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { role: None, requirement_defaults: true, installation: None }
    }
}

/// What came out, in the order of the input.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    pub documents: Vec<Converted>,
    pub findings: Vec<Finding>,
}

/// One object of the output.
#[derive(Debug, Clone, PartialEq)]
pub struct Converted {
    /// The input document it comes from.
    pub document: usize,
    pub object: Value,
}

impl Outcome {
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}

/// One object after reading, before classes are given out to pools.
enum Step {
    Done(Value),
    Pool(Box<PoolDraft>),
    Class(Box<ClassDraft>),
    Failed,
}

/// Converts documents, each the JSON form of one manifest.
pub fn convert(documents: &[Value], options: &Options) -> Outcome {
    let mut findings = Vec::new();
    let mut steps = Vec::new();
    let expiries = beta::pool_expiries(documents);
    for (document, value) in documents.iter().enumerate() {
        for object in expanded(value) {
            let mut report = Report::new(document, &object, &mut findings);
            steps.push((document, read(object, options, &expiries, &mut report)));
        }
    }
    let converted = classes::assign(steps, &mut findings);
    findings.sort_by_key(|finding| finding.document);
    Outcome { documents: converted, findings }
}

/// The items of a list that holds something to convert; any other document as it is.
fn expanded(value: &Value) -> Vec<Value> {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match value["items"].as_array() {
        Some(items) if is_list => items
            .iter()
            .map(|item| {
                let mut item = item.clone();
                inherit_type(&mut item, value);
                item
            })
            .collect(),
        _ => vec![value.clone()],
    }
}

/// Items of a typed list may leave out what the list already says.
fn inherit_type(item: &mut Value, list: &Value) {
    let (Some(item), Some(kind)) = (item.as_object_mut(), list["kind"].as_str()) else { return };
    let kind = kind.trim_end_matches("List");
    if kind.is_empty() {
        return;
    }
    item.entry("apiVersion").or_insert_with(|| list["apiVersion"].clone());
    item.entry("kind").or_insert_with(|| kind.into());
}

fn read(
    object: Value,
    options: &Options,
    expiries: &BTreeMap<String, NillableDurationText>,
    report: &mut Report<'_>,
) -> Step {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let step = match (text("apiVersion").as_str(), text("kind").as_str()) {
        ("karpenter.sh/v1alpha5", "Provisioner") => provisioner::read(&object, options, report).map(Step::from),
        ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate") => template::read(&object, options, report).map(Step::from),
        ("karpenter.sh/v1beta1", "NodePool") => beta::read_pool(&object, report).map(Step::from),
        ("karpenter.sh/v1beta1", "NodeClaim") => beta::read_claim(&object, expiries, report).map(Step::Done),
        ("karpenter.k8s.aws/v1beta1", "EC2NodeClass") => beta::read_class(object, options, report).map(Step::from),
        ("karpenter.sh/v1alpha5", "Machine") => {
            report.error("", "machines belong to the controller of their time and have no manifest in v1");
            None
        }
        _ => Some(Step::Done(workloads::convert(settings::explain(object, report), report))),
    };
    step.unwrap_or(Step::Failed)
}

impl From<PoolDraft> for Step {
    fn from(draft: PoolDraft) -> Self {
        Self::Pool(Box::new(draft))
    }
}

impl From<ClassDraft> for Step {
    fn from(draft: ClassDraft) -> Self {
        Self::Class(Box::new(draft))
    }
}

#[cfg(test)]
mod tests;
