//! Whether the kubelet can be told what a class says, where the cluster's definition leaves `spec.kubelet` open (§2.9).
//!
//! With the usual definition the API server has checked all of this, and some of it less strictly; see [`Definition`].

mod schema;

use std::collections::BTreeSet;

use karpenter_api::kinds::ec2nodeclass::KubeletConfiguration;
use karpenter_api::names::aws::{EVICTION_SIGNALS, RESERVED_RESOURCES};
use karpenter_model::duration::GoDuration;
use karpenter_model::quantity::Quantity;
use serde_json::{Map, Value};

use crate::class::{Kubelet, MANAGED};
use crate::expressions::Expression;
use crate::family::AmiFamily;
use crate::validation::Verdict;

/// What the API server lets a class say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Definition {
    /// The twelve members that every family understands in some way.
    Usual,
    /// Anything: the rules of this module are all there are.
    OpenKubelet,
}

/// What the settings themselves are wrong in, whatever the images are: their form (AWS-86 … AWS-91), expressions that nobody may
/// use (AWS-94), expressions that are none (AWS-96). All of these stay until the class changes.
pub fn verdict(kubelet: &KubeletConfiguration, definition: Definition, gate: bool) -> Option<Verdict> {
    if definition == Definition::OpenKubelet
        && let Some(message) = violations(kubelet)
    {
        return failed("InvalidKubeletConfiguration", message);
    }
    let read = match Kubelet::read(kubelet) {
        Ok(read) => read,
        Err(error) => return failed("InvalidKubeletConfiguration", error.to_string()),
    };
    let fields: Vec<(String, &str)> = read.expressions().collect();
    if !gate && !fields.is_empty() {
        let fields: Vec<String> = fields.iter().map(|(field, _)| format!("spec.kubelet.{field}")).collect();
        let message = format!("the gate NodeClassCEL is off, but {} has an expression", fields.join(", "));
        return failed("KubeletExpressionsDisabled", message);
    }
    let wrong: Vec<String> = fields
        .iter()
        .filter_map(|(field, text)| Some(format!("spec.kubelet.{field}: {}", Expression::compile(text).err()?)))
        .collect();
    if wrong.is_empty() { None } else { failed("KubeletExpressionInvalid", wrong.join("; ")) }
}

/// What images of the family cannot be told (AWS-93).
pub fn family_verdict(kubelet: &KubeletConfiguration, family: AmiFamily, definition: Definition) -> Option<Verdict> {
    let any = matches!(family, AmiFamily::Al2023 | AmiFamily::Custom);
    if definition == Definition::Usual || any {
        return None;
    }
    let mut unsupported: Vec<String> =
        kubelet.other.keys().filter(|name| !MANAGED.contains(&name.as_str())).cloned().collect();
    if kubelet.pods_per_core.is_some() && !family.honours_pods_per_core() {
        unsupported.push("podsPerCore".to_owned());
    }
    if kubelet.cluster_dns.as_ref().is_some_and(|addresses| addresses.len() > 1) {
        unsupported.push("clusterDNS with more than one address".to_owned());
    }
    if unsupported.is_empty() {
        return None;
    }
    let message = format!("{} nodes cannot be told spec.kubelet.{}", family.as_str(), unsupported.join(", "));
    failed("UnsupportedKubeletConfiguration", message)
}

/// An expression does not hold for some type (AWS-99).
pub fn evaluation_failed(message: String) -> Verdict {
    Verdict::Failed { reason: "KubeletExpressionEvaluationFailed", message }
}

#[expect(clippy::unnecessary_wraps, reason = "every caller answers with an option")]
fn failed(reason: &'static str, message: String) -> Option<Verdict> {
    Some(Verdict::Failed { reason, message })
}

/// Values of the wrong type are told alone: nothing else can be said of them.
fn violations(kubelet: &KubeletConfiguration) -> Option<String> {
    // Plain values with text keys always have a JSON form.
    let Ok(Value::Object(members)) = serde_json::to_value(kubelet) else { return None };
    let checked = schema::check(&members);
    if !checked.types.is_empty() {
        return Some(checked.types.join("; "));
    }
    let mut all = checked.unknown;
    if members.contains_key("registerWithTaints") {
        all.push(
            "spec.kubelet.registerWithTaints may not be set, the controller does (use taints of the pool)".to_owned(),
        );
    }
    all.extend(evictions(&members));
    all.extend(reserved(&members));
    all.extend(limits(kubelet));
    (!all.is_empty()).then(|| all.join("; "))
}

fn entries<'a>(members: &'a Map<String, Value>, list: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let all = members.get(list).and_then(Value::as_object).into_iter().flatten();
    all.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// AWS-88, AWS-89.
fn evictions(members: &Map<String, Value>) -> Vec<String> {
    let mut all = Vec::new();
    for list in ["evictionHard", "evictionMinimumReclaim", "evictionSoft", "evictionSoftGracePeriod"] {
        for (signal, text) in entries(members, list) {
            if !EVICTION_SIGNALS.contains(&signal) {
                all.push(format!("spec.kubelet.{list}: {signal} is none of {}", EVICTION_SIGNALS.join(", ")));
            } else if list == "evictionSoftGracePeriod" {
                if !text.parse::<GoDuration>().is_ok_and(|period| period >= GoDuration::from_secs(0)) {
                    all.push(format!("spec.kubelet.{list}[{signal}]: {text:?} is not a duration of zero or more"));
                }
            } else if !is_threshold(text) {
                all.push(format!(
                    "spec.kubelet.{list}[{signal}]: {text:?} is neither a percentage nor a quantity of zero or more"
                ));
            }
        }
    }
    let signals = |list: &str| entries(members, list).map(|(signal, _)| signal.to_owned()).collect::<BTreeSet<_>>();
    let (soft, periods) = (signals("evictionSoft"), signals("evictionSoftGracePeriod"));
    let lone = |signal: &String, in_list: &str, other: &str| {
        format!("spec.kubelet.{in_list}[{signal}] has no matching entry in {other}")
    };
    all.extend(soft.difference(&periods).map(|signal| lone(signal, "evictionSoft", "evictionSoftGracePeriod")));
    all.extend(periods.difference(&soft).map(|signal| lone(signal, "evictionSoftGracePeriod", "evictionSoft")));
    all
}

fn is_threshold(text: &str) -> bool {
    match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().is_ok_and(|percent| (0.0..=100.0).contains(&percent)),
        None => text.parse::<Quantity>().is_ok_and(|amount| !amount.is_negative()),
    }
}

/// AWS-90. What is no quantity is an expression, which is looked at later.
fn reserved(members: &Map<String, Value>) -> Vec<String> {
    let of_list = |list: &'static str| {
        entries(members, list).flat_map(move |(resource, text)| {
            let unknown = (!RESERVED_RESOURCES.contains(&resource))
                .then(|| format!("spec.kubelet.{list}: {resource} is none of {}", RESERVED_RESOURCES.join(", ")));
            let negative = (text.parse::<Quantity>().is_ok() && text.starts_with('-'))
                .then(|| format!("spec.kubelet.{list}[{resource}] must not be negative"));
            [unknown, negative].into_iter().flatten()
        })
    };
    of_list("kubeReserved").chain(of_list("systemReserved")).collect()
}

/// AWS-91.
fn limits(kubelet: &KubeletConfiguration) -> Vec<String> {
    let (high, low) = (kubelet.image_gc_high_threshold_percent, kubelet.image_gc_low_threshold_percent);
    let mut all = Vec::new();
    for (name, percent) in [("imageGCHighThresholdPercent", high), ("imageGCLowThresholdPercent", low)] {
        if percent.is_some_and(|percent| !(0..=100).contains(&percent)) {
            all.push(format!("spec.kubelet.{name} must be between 0 and 100"));
        }
    }
    if high.zip(low).is_some_and(|(high, low)| high <= low) {
        let message = "spec.kubelet.imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent";
        all.push(message.to_owned());
    }
    for (name, number) in [
        ("maxPods", kubelet.max_pods),
        ("podsPerCore", kubelet.pods_per_core),
        ("evictionMaxPodGracePeriod", kubelet.eviction_max_pod_grace_period),
    ] {
        if number.is_some_and(|number| number < 0) {
            all.push(format!("spec.kubelet.{name} must not be negative"));
        }
    }
    all
}

#[cfg(test)]
mod tests;
