//! Which class each pool gets (API-332): one per distinct pair of class and kubelet settings.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::findings::{Finding, Report};
use super::{Converted, Step};
use crate::kinds::NodeClassRef;
use crate::kinds::ec2nodeclass::{EC2NodeClass, EC2NodeClassSpec, KubeletConfiguration};
use crate::kinds::nodepool::{NodePool, NodePoolSpec};
use crate::names::aws;

/// Names of classes are label values as well.
const NAME_LIMIT: usize = 63;

/// A pool that does not know the final name of its class yet.
pub(super) struct PoolDraft {
    pub(super) metadata: ObjectMeta,
    pub(super) spec: NodePoolSpec,
    pub(super) class: ClassUse,
    pub(super) kubelet: Option<KubeletConfiguration>,
    /// Where the kubelet settings stood in the input.
    pub(super) kubelet_field: &'static str,
}

pub(super) enum ClassUse {
    Named(String),
    /// A class of its own, named like the pool.
    Inline(Box<EC2NodeClassSpec>),
}

/// A class that does not know the kubelet settings of its pools yet.
pub(super) struct ClassDraft {
    pub(super) metadata: ObjectMeta,
    pub(super) spec: EC2NodeClassSpec,
}

/// Kubelet settings of one class with the name of the class that carries them.
type Variants = Vec<(Option<KubeletConfiguration>, String)>;

/// Gives classes to pools and writes everything out in the order of the input.
pub(super) fn assign(mut steps: Vec<(usize, Step)>, findings: &mut Vec<Finding>) -> Vec<Converted> {
    let mut taken: BTreeSet<String> = steps.iter().filter_map(|(_, step)| class_name(step)).collect();
    let known: BTreeSet<String> = steps.iter().filter_map(|(_, step)| draft_name(step)).collect();
    let mut variants: BTreeMap<String, Variants> = BTreeMap::new();
    for (document, step) in &mut steps {
        let Step::Pool(pool) = step else { continue };
        let mut report = Report::about(*document, pool_object(pool), findings);
        give_class(pool, &known, &mut taken, &mut variants, &mut report);
    }
    let written = steps.into_iter().flat_map(|(document, step)| {
        let objects = match step {
            Step::Done(object) => vec![object],
            Step::Pool(pool) => pool_objects(*pool),
            Step::Class(class) => class_objects(&class, &variants),
            Step::Failed => Vec::new(),
        };
        objects.into_iter().map(move |object| Converted { document, object })
    });
    written.collect()
}

/// Kind and name of the input object, whichever of the two kinds it was.
fn pool_object(pool: &PoolDraft) -> String {
    let kind = if pool.kubelet_field.starts_with("spec.template") { "NodePool" } else { "Provisioner" };
    format!("{kind}/{}", pool.metadata.name.as_deref().unwrap_or("?"))
}

/// Name of a class in the output, for classes that are written as they come.
fn class_name(step: &Step) -> Option<String> {
    match step {
        Step::Done(object) if object["kind"] == "EC2NodeClass" => Some(object["metadata"]["name"].as_str()?.to_owned()),
        _ => draft_name(step),
    }
}

fn draft_name(step: &Step) -> Option<String> {
    match step {
        Step::Class(class) => class.metadata.name.clone(),
        _ => None,
    }
}

fn give_class(
    pool: &mut PoolDraft,
    known: &BTreeSet<String>,
    taken: &mut BTreeSet<String>,
    variants: &mut BTreeMap<String, Variants>,
    report: &mut Report<'_>,
) {
    let pool_name = pool.metadata.name.clone().unwrap_or_default();
    let NodeClassRef { kind, name: reference, .. } = &mut pool.spec.template.spec.node_class_ref;
    match &mut pool.class {
        ClassUse::Inline(spec) => {
            spec.kubelet.clone_from(&pool.kubelet);
            *reference = free_name(&pool_name, taken);
            if *reference != pool_name {
                report.warn("spec.provider", format!("another class is called {pool_name}; this one is {reference}"));
            }
        }
        ClassUse::Named(class) if kind != aws::NODE_CLASS_KIND || !known.contains(class) => {
            if pool.kubelet.is_some() {
                let message = format!("belongs to the class in v1, and {class} is not among the inputs; set it there");
                report.warn(pool.kubelet_field, message);
            }
        }
        ClassUse::Named(class) => {
            let of_class = variants.entry(class.clone()).or_default();
            if let Some((_, name)) = of_class.iter().find(|(kubelet, _)| *kubelet == pool.kubelet) {
                reference.clone_from(name);
                return;
            }
            *reference =
                if of_class.is_empty() { class.clone() } else { free_name(&format!("{class}-{pool_name}"), taken) };
            if !of_class.is_empty() {
                let message =
                    format!("differs from that of another pool with class {class}; moved to class {reference}");
                report.warn(pool.kubelet_field, message);
            }
            of_class.push((pool.kubelet.clone(), reference.clone()));
        }
    }
}

/// The wanted name, shortened and numbered until nobody else has it.
fn free_name(wanted: &str, taken: &mut BTreeSet<String>) -> String {
    let numbered = |number: usize| {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        // Names are ASCII for the API server; for any other text cut where a character begins.
        let end = wanted.floor_char_boundary(NAME_LIMIT - suffix.len());
        format!("{}{suffix}", wanted[..end].trim_end_matches(['-', '.']))
    };
    let mut number = 1;
    while taken.contains(&numbered(number)) {
        number += 1;
    }
    let name = numbered(number);
    taken.insert(name.clone());
    name
}

fn pool_objects(pool: PoolDraft) -> Vec<Value> {
    let class_name = pool.spec.template.spec.node_class_ref.name.clone();
    let class = match pool.class {
        ClassUse::Inline(spec) => {
            let metadata = ObjectMeta { name: Some(class_name), ..ObjectMeta::default() };
            Some(json(&EC2NodeClass { metadata, spec: *spec, status: None }))
        }
        ClassUse::Named(_) => None,
    };
    let pool = json(&NodePool { metadata: pool.metadata, spec: pool.spec, status: None });
    class.into_iter().chain([pool]).collect()
}

fn class_objects(class: &ClassDraft, variants: &BTreeMap<String, Variants>) -> Vec<Value> {
    let object = |name: Option<String>, kubelet: Option<KubeletConfiguration>| {
        let metadata = ObjectMeta { name, ..class.metadata.clone() };
        let kubelet = kubelet.or_else(|| class.spec.kubelet.clone());
        json(&EC2NodeClass { metadata, spec: EC2NodeClassSpec { kubelet, ..class.spec.clone() }, status: None })
    };
    let name = class.metadata.name.clone();
    match name.as_ref().and_then(|name| variants.get(name)) {
        Some(of_class) => of_class.iter().map(|(kubelet, name)| object(Some(name.clone()), kubelet.clone())).collect(),
        None => vec![object(name, None)],
    }
}

fn json<T: serde::Serialize>(object: &T) -> Value {
    // Our own kinds hold text keys and finite numbers only, so writing them cannot fail.
    serde_json::to_value(object).unwrap_or_default()
}
