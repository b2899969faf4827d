//! Room on the node. Every resource that lacks is named.

use super::{Filter, Refusal};
use crate::scheduler::cluster::NodeInfo;
use crate::scheduler::pod_info::PodInfo;

pub(super) fn insufficient(pod: &PodInfo, node: &NodeInfo) -> Option<Refusal> {
    let mut reasons = Vec::new();
    let mut lasting = false;
    if i64::try_from(node.pods.len()).unwrap_or(i64::MAX) >= node.allowed_pods {
        reasons.push("Too many pods".to_owned());
    }
    let (asked, has, used) = (&pod.requests, &node.allocatable, &node.requested);
    let mut check = |name: &str, asked: i64, has: i64, used: i64| {
        if asked > 0 && asked > has.saturating_sub(used) {
            reasons.push(format!("Insufficient {name}"));
            lasting |= asked > has;
        }
    };
    check("cpu", asked.milli_cpu, has.milli_cpu, used.milli_cpu);
    check("memory", asked.memory, has.memory, used.memory);
    check("ephemeral-storage", asked.ephemeral_storage, has.ephemeral_storage, used.ephemeral_storage);
    for (name, &amount) in &asked.scalars {
        check(name, amount, has.scalar(name), used.scalar(name));
    }
    (!reasons.is_empty()).then_some(Refusal { filter: Filter::NodeResourcesFit, reasons, lasting })
}
