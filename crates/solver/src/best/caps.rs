//! What pods of a kind allow on one node beside themselves, as dimensions of the packing problem.
//!
//! A pod that spreads over hosts, stays away from its like or holds a host port takes one of a few places that every node
//! has for its group. Only pods that both own the rule and are counted by it are in a group, so that no valid plan breaks
//! the cap.

use karpenter_model::labels;
use karpenter_model::pod::PodView;
use karpenter_model::scheduling::{AffinityTerm, HostPort, SpreadConstraint, WhenUnsatisfiable};
use karpenter_model::selector::Selector;

/// At most so many pods of a group on one node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cap {
    group: Group,
    pub(crate) most: u32,
}

#[derive(Debug, Clone, PartialEq)]
enum Group {
    Spread { namespace: String, selector: Option<Selector> },
    Apart { selector: Option<Selector>, namespaces: karpenter_model::scheduling::Namespaces },
    Port(HostPort),
}

/// Problems with more groups than this are packed as if the others were none; the pass looks at them anyway.
const MOST_CAPS: usize = 48;

fn selects(selector: Option<&Selector>, pod: &PodView) -> bool {
    selector.is_some_and(|selector| selector.matches(&pod.labels))
}

fn spreads(pod: &PodView) -> impl Iterator<Item = &SpreadConstraint> {
    let hosts = pod.scheduling.spread.iter().filter(|constraint| constraint.key == labels::HOSTNAME);
    hosts.filter(|constraint| selects(constraint.selector.as_ref(), pod))
}

/// The term is about hosts, and the pod itself is one of those it is about.
fn keeps_apart(pod: &PodView, term: &AffinityTerm) -> bool {
    let here = term.namespaces.selector.is_none() && term.namespaces.listed.contains(pod.id.namespace.as_str());
    term.key == labels::HOSTNAME && here && selects(term.selector.as_ref(), pod)
}

/// The positions of the pod's caps in `all`, which grows as needed. With `wishes` also those that could be given up.
pub(crate) fn of(pod: &PodView, wishes: bool, all: &mut Vec<Cap>) -> Vec<usize> {
    let mut own: Vec<Cap> = Vec::new();
    for constraint in spreads(pod).filter(|one| wishes || one.when == WhenUnsatisfiable::DoNotSchedule) {
        let group = Group::Spread { namespace: pod.id.namespace.to_string(), selector: constraint.selector.clone() };
        own.push(Cap { group, most: constraint.max_skew });
    }
    let preferred = pod.scheduling.preferred_anti_affinity.iter().filter(|_| wishes).map(|preferred| &preferred.value);
    for term in pod.scheduling.anti_affinity.iter().chain(preferred).filter(|term| keeps_apart(pod, term)) {
        let group = Group::Apart { selector: term.selector.clone(), namespaces: term.namespaces.clone() };
        own.push(Cap { group, most: 1 });
    }
    own.extend(pod.scheduling.host_ports.iter().map(|port| Cap { group: Group::Port(port.clone()), most: 1 }));
    let mut positions = Vec::new();
    for cap in own {
        let known = all.iter().position(|known| *known == cap);
        let Some(at) = known.or((all.len() < MOST_CAPS).then_some(all.len())) else { continue };
        if known.is_none() {
            all.push(cap);
        }
        if !positions.contains(&at) {
            positions.push(at);
        }
    }
    positions
}
