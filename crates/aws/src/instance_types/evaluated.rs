//! What expressions in the kubelet's settings come to for a type (AWS-97 … AWS-101).

use std::collections::BTreeMap;

use karpenter_model::quantity::Quantity;
use karpenter_model::resources::Resources;
use tracing::debug;

use super::TypeFacts;
use super::pods::{default_pods, pods};
use crate::class::{ClassError, NodeClass};
use crate::cloud::InstanceTypeInfo;
use crate::expressions::{Compiled, Inputs, amount, max_pods};

/// Compiled expressions of a class, by text.
pub type Programs = BTreeMap<String, Compiled>;

/// Amounts as the kubelet is told them, by resource. Both pools and launch templates have them from here, so that they cannot
/// differ (AWS-101).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Evaluated {
    pub kube_reserved: BTreeMap<String, String>,
    pub system_reserved: BTreeMap<String, String>,
}

/// `None` while there is no expression for it, or nobody is to evaluate it.
pub(super) fn evaluated_max_pods(info: &InstanceTypeInfo, facts: &TypeFacts<'_>) -> Result<Option<i64>, ClassError> {
    let text = facts.class.kubelet.max_pods_expression.as_deref();
    let Some((programs, text)) = facts.expressions.zip(text) else { return Ok(None) };
    let default = default_pods(info, facts);
    let result = run(programs, text, info, default).and_then(max_pods);
    result.map(Some).map_err(|why| ClassError::MaxPods { instance_type: info.name.clone(), why })
}

/// Entries that fail are left out.
pub(super) fn evaluated(info: &InstanceTypeInfo, facts: &TypeFacts<'_>, pods: i64) -> Evaluated {
    let all = |list: &str, expressions: &BTreeMap<String, String>| {
        let Some(programs) = facts.expressions else { return BTreeMap::new() };
        let results = expressions.iter().filter_map(|(resource, text)| {
            let result = reserved(programs, resource, text, info, pods);
            if let Err(why) = &result {
                debug!(nodeclass = %facts.class.name, instance_type = %info.name, list, resource, why, "left out an expression");
            }
            Some((resource.clone(), result.ok()?))
        });
        results.collect()
    };
    let kubelet = &facts.class.kubelet;
    Evaluated {
        kube_reserved: all("kubeReserved", &kubelet.kube_expressions),
        system_reserved: all("systemReserved", &kubelet.system_expressions),
    }
}

/// The same as amounts; what is not one was left out before.
pub(super) fn amounts(texts: &BTreeMap<String, String>) -> Resources {
    texts.iter().filter_map(|(resource, text)| Some((resource.clone(), text.parse::<Quantity>().ok()?))).collect()
}

/// Why an expression of the class does not hold for a type (AWS-99).
pub(super) fn failing_expression(info: &InstanceTypeInfo, facts: &TypeFacts<'_>) -> Option<String> {
    let programs = facts.expressions?;
    let pods = match pods(info, facts) {
        Ok(pods) => pods,
        Err(error) => return Some(error.to_string()),
    };
    let kubelet = &facts.class.kubelet;
    let lists = [("kubeReserved", &kubelet.kube_expressions), ("systemReserved", &kubelet.system_expressions)];
    let mut all =
        lists.into_iter().flat_map(|(list, all)| all.iter().map(move |(resource, text)| (list, resource, text)));
    all.find_map(|(list, resource, text)| {
        let why = reserved(programs, resource, text, info, pods).err()?;
        Some(format!("spec.kubelet.{list}[{resource}] for {}: {why}", info.name))
    })
}

fn reserved(
    programs: &Programs,
    resource: &str,
    text: &str,
    info: &InstanceTypeInfo,
    pods: i64,
) -> Result<String, String> {
    let text = amount(resource, run(programs, text, info, pods)?)?;
    text.parse::<Quantity>().map(|_| text).map_err(|error| error.to_string())
}

fn run(programs: &Programs, text: &str, info: &InstanceTypeInfo, max_pods: i64) -> Result<i64, String> {
    let inputs = Inputs {
        vcpus: info.vcpus,
        memory_mib: info.memory_mib,
        default_enis: info.default_card_interfaces(),
        ips_per_eni: info.network.ipv4_per_interface,
        max_pods,
        instance_type: &info.name,
    };
    match programs.get(text) {
        Some(Ok(program)) => program.evaluate(&inputs),
        Some(Err(why)) => Err(why.clone()),
        None => Err("the expression is not compiled".to_owned()),
    }
}

/// The expressions of a class, for a cache to compile.
pub fn expression_texts(class: &NodeClass) -> Vec<&str> {
    class.kubelet.expressions().map(|(_, text)| text).collect()
}
