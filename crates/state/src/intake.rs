//! Whether a pod that waits can be planned for (SCH-17, SCH-19, SCH-20, SCH-27).

use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::PodView;
use karpenter_model::requirements::{Operator, Requirement, Requirements};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intake {
    Plan,
    /// The pod does not want to run on a node of ours; nobody has to hear of it.
    Avoids,
    Reject(String),
    /// It asks for what is not looked at, and finds no place until that changes.
    Unsupported(&'static str),
}

/// Whether dynamic resources are looked at (SCH-191).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceRequests {
    Ignored,
    Considered,
}

pub fn intake(pod: &PodView, rules: &LabelRules, devices: DeviceRequests) -> Intake {
    if avoids_our_nodes(pod) {
        return Intake::Avoids;
    }
    if pod.uses_devices && devices == DeviceRequests::Ignored {
        // A node that is chosen without looking at devices may be the wrong one.
        return Intake::Unsupported("its resource claims are not looked at, see IGNORE_DRA_REQUESTS");
    }
    if let Some(why) = &pod.unplannable {
        return Intake::Reject(why.clone());
    }
    let scheduling = &pod.scheduling;
    let all = std::iter::once(&scheduling.node_selector).chain(&scheduling.required_terms);
    let mut problems: Vec<String> = all.flat_map(Requirements::iter).filter_map(|r| problem(r, rules)).collect();
    problems.dedup();
    if problems.is_empty() { Intake::Plan } else { Intake::Reject(problems.join("; ")) }
}

/// Only who demands it everywhere, in so many words, avoids us; a contradiction fails in the pass, with an event (Q44).
fn avoids_our_nodes(pod: &PodView) -> bool {
    let demands = |requirements: &Requirements| {
        requirements.get(labels::NODEPOOL).is_some_and(|r| r.operator() == Operator::DoesNotExist)
    };
    let terms = &pod.scheduling.required_terms;
    !terms.is_empty() && terms.iter().all(demands)
}

fn problem(requirement: &Requirement, rules: &LabelRules) -> Option<String> {
    let key = requirement.key();
    if !rules.is_askable(key) {
        return Some(format!("label {key} is restricted"));
    }
    let known = [labels::CAPACITY_TYPE_ON_DEMAND, labels::CAPACITY_TYPE_SPOT, labels::CAPACITY_TYPE_RESERVED];
    let hopeless = key == labels::CAPACITY_TYPE
        && requirement.operator() == Operator::In
        && !known.iter().any(|value| requirement.has(value));
    hopeless.then(|| format!("label {key} has no value that exists, known ones are {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use karpenter_model::example;
    use karpenter_model::scheduling::{PodScheduling, Preferred};

    use super::*;

    fn any_of(key: &str, value: &str) -> Requirements {
        Requirements::from_iter([Requirement::any_of(key, [value])])
    }

    fn not_ours() -> Requirements {
        Requirements::from_iter([Requirement::does_not_exist(labels::NODEPOOL)])
    }

    /// SCH-27, SCH-191, SC-292: who asks for devices that are not looked at gets no node that may be the wrong one; who does not
    /// want our nodes is left in peace all the same.
    #[test]
    fn pods_that_ask_for_devices() {
        let with = |uses_devices, requirements: &[Requirements]| {
            let scheduling = PodScheduling { required_terms: requirements.to_vec(), ..PodScheduling::default() };
            example::pod("a").but(|pod| (pod.uses_devices, pod.scheduling) = (uses_devices, scheduling))
        };
        let rules = LabelRules::core();
        for (pod, devices, planned) in [
            (with(false, &[]), DeviceRequests::Ignored, true),
            (with(true, &[]), DeviceRequests::Considered, true),
            (with(true, &[]), DeviceRequests::Ignored, false),
        ] {
            let verdict = intake(&pod, &rules, devices);
            assert_eq!(verdict == Intake::Plan, planned, "{verdict:?}");
            assert_eq!(matches!(verdict, Intake::Unsupported(_)), !planned);
        }
        assert_eq!(intake(&with(true, &[not_ours()]), &rules, DeviceRequests::Ignored), Intake::Avoids);
    }

    /// SCH-17, SCH-19, SCH-20, SC-12, SC-13, SC-15, SC-16, SC-17, SC-385, SC-388.
    #[test]
    fn pods_that_are_not_planned_for() {
        let selects = |requirements| PodScheduling { node_selector: requirements, ..PodScheduling::default() };
        let requires = |terms: &[Requirements]| PodScheduling { required_terms: terms.to_vec(), ..Default::default() };
        for (name, scheduling, unplannable, want) in [
            ("plain", PodScheduling::default(), None, "plan"),
            ("zone", selects(any_of(labels::ZONE, "z1")), None, "plan"),
            ("spot", selects(any_of(labels::CAPACITY_TYPE, "spot")), None, "plan"),
            ("no such capacity type", selects(any_of(labels::CAPACITY_TYPE, "xspot")), None, "reject"),
            ("host name", requires(&[any_of(labels::HOSTNAME, "x")]), None, "reject"),
            ("restricted domain", requires(&[any_of("karpenter.sh/test", "x")]), None, "reject"),
            (
                "restricted in a later term",
                requires(&[any_of("a", "x"), any_of(labels::HOSTNAME, "x")]),
                None,
                "reject",
            ),
            ("unreadable", PodScheduling::default(), Some("matchFields are not supported"), "reject"),
            ("not ours", requires(&[not_ours()]), None, "avoids"),
            ("not ours, both ways", requires(&[not_ours(), not_ours()]), None, "avoids"),
            ("not ours, or a zone", requires(&[not_ours(), any_of(labels::ZONE, "z1")]), None, "plan"),
            ("not ours, and unreadable", requires(&[not_ours()]), Some("no such PVC"), "avoids"),
            (
                "one pool, would rather another",
                PodScheduling {
                    preferred_terms: vec![Preferred { weight: 1, value: any_of(labels::NODEPOOL, "b") }],
                    ..selects(any_of(labels::NODEPOOL, "a"))
                },
                None,
                "plan",
            ),
        ] {
            let unplannable = unplannable.map(ToOwned::to_owned);
            let pod = example::pod("a").but(|pod| (pod.scheduling, pod.unplannable) = (scheduling, unplannable));
            let verdict = intake(&pod, &LabelRules::core(), DeviceRequests::Considered);
            let word = match verdict {
                Intake::Plan => "plan",
                Intake::Avoids => "avoids",
                Intake::Reject(_) | Intake::Unsupported(_) => "reject",
            };
            assert_eq!(word, want, "{name}");
        }
    }
}
