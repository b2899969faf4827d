//! What a pod asks of the place where it runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::labels;
use crate::requirements::{Operator, Requirements};
use crate::selector::Selector;
use crate::taints::{Effect, Toleration, TolerationOperator};

/// Everything that decides whether a pod may run on a node, as the pod's author wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PodScheduling {
    /// `nodeSelector`, each entry as `In`.
    pub node_selector: Requirements,
    /// Terms of required node affinity; any of them suffices. Empty: no restriction.
    pub required_terms: Vec<Requirements>,
    /// Terms of preferred node affinity, as listed.
    pub preferred_terms: Vec<Preferred<Requirements>>,
    pub tolerations: Vec<Toleration>,
    pub spread: Vec<SpreadConstraint>,
    pub affinity: Vec<AffinityTerm>,
    pub preferred_affinity: Vec<Preferred<AffinityTerm>>,
    pub anti_affinity: Vec<AffinityTerm>,
    pub preferred_anti_affinity: Vec<Preferred<AffinityTerm>>,
    pub host_ports: Vec<HostPort>,
    pub volumes: PodVolumes,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Preferred<T> {
    pub weight: i32,
    pub value: T,
}

/// The index of the heaviest preference; the first of equal ones (SCH-93).
pub fn heaviest<T>(preferences: &[Preferred<T>]) -> Option<usize> {
    let best = preferences.iter().map(|preference| preference.weight).max()?;
    preferences.iter().position(|preference| preference.weight == best)
}

impl PodScheduling {
    /// Without preferences (SCH-52).
    pub fn strict_requirements(&self) -> Requirements {
        let mut all = self.node_selector.clone();
        if let Some(first) = self.required_terms.first() {
            all.add_all(first);
        }
        all
    }

    /// The pod says explicitly, whichever of its terms is taken, that it does not want a node of ours (SCH-17, Q44). A mere
    /// contradiction about pools is no such wish.
    pub fn avoids_managed_nodes(&self) -> bool {
        let refuses = |term: &Requirements| {
            term.get(labels::NODEPOOL).is_some_and(|pool| pool.operator() == Operator::DoesNotExist)
        };
        !self.required_terms.is_empty() && self.required_terms.iter().all(refuses)
    }

    /// With the heaviest preferred node-affinity term (SCH-51).
    pub fn requirements(&self) -> Requirements {
        let mut all = self.strict_requirements();
        if let Some(index) = heaviest(&self.preferred_terms) {
            all.add_all(&self.preferred_terms[index].value);
        }
        all
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodePolicy {
    Honor,
    Ignore,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpreadConstraint {
    pub key: String,
    pub max_skew: u32,
    pub when: WhenUnsatisfiable,
    /// `None` selects no pod but counts all that exist (SCH-132). `matchLabelKeys` are merged in.
    pub selector: Option<Selector>,
    pub min_domains: Option<u32>,
    pub node_affinity_policy: NodePolicy,
    pub node_taints_policy: NodePolicy,
}

/// A term of pod affinity or anti-affinity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AffinityTerm {
    pub key: String,
    /// `None` selects nothing.
    pub selector: Option<Selector>,
    pub namespaces: Namespaces,
}

/// The namespaces a term is about (SCH-134).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Namespaces {
    pub listed: BTreeSet<String>,
    pub selector: Option<Selector>,
}

impl Namespaces {
    pub fn only(namespace: &str) -> Self {
        Self { listed: BTreeSet::from([namespace.to_owned()]), selector: None }
    }

    /// The names, given the labels of all namespaces.
    pub fn resolve(&self, all: &BTreeMap<String, BTreeMap<String, String>>) -> BTreeSet<String> {
        let mut names = self.listed.clone();
        if let Some(selector) = &self.selector {
            names.extend(all.iter().filter(|(_, labels)| selector.matches(labels)).map(|(name, _)| name.clone()));
        }
        names
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// `0.0.0.0` when none is given.
    pub ip: String,
    pub port: u16,
    pub protocol: String,
}

impl HostPort {
    /// SCH-161.
    pub fn conflicts(&self, other: &Self) -> bool {
        let unspecified = |ip: &str| ip == "0.0.0.0" || ip == "::";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || unspecified(&self.ip) || unspecified(&other.ip))
    }
}

/// What the pod's volumes ask for, resolved from claims, volumes and storage classes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PodVolumes {
    /// Where the volumes can be attached together; any of them suffices, tried in order. Empty: anywhere (SCH-154).
    pub alternatives: Vec<Requirements>,
    /// Volume claims by CSI driver, `namespace/name` (SCH-158).
    pub claims: BTreeMap<String, BTreeSet<String>>,
}

impl Toleration {
    /// What relaxing adds last (SCH-93).
    pub fn prefer_no_schedule() -> Self {
        Self {
            key: String::new(),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect: Some(Effect::PreferNoSchedule),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirements::Requirement;

    /// SC-252, SCH-161.
    #[test]
    fn host_ports_conflict_on_equal_or_unspecified_addresses() {
        let port = |ip: &str, port, protocol: &str| HostPort { ip: ip.into(), port, protocol: protocol.into() };
        for (a, b, conflict) in [
            (port("10.0.0.1", 80, "TCP"), port("10.0.0.1", 80, "TCP"), true),
            (port("10.0.0.1", 80, "TCP"), port("0.0.0.0", 80, "TCP"), true),
            (port("::", 80, "TCP"), port("10.0.0.1", 80, "TCP"), true),
            (port("10.0.0.1", 80, "TCP"), port("10.0.0.2", 80, "TCP"), false),
            (port("0.0.0.0", 80, "TCP"), port("0.0.0.0", 80, "UDP"), false),
            (port("0.0.0.0", 80, "TCP"), port("0.0.0.0", 81, "TCP"), false),
        ] {
            assert_eq!(a.conflicts(&b), conflict);
            assert_eq!(b.conflicts(&a), conflict);
        }
    }

    /// SCH-51, SCH-52, SCH-93: the heaviest preference counts, the first of equals.
    #[test]
    fn requirements_with_and_without_preferences() {
        let term = |value: &str| Requirements::from_iter([Requirement::any_of("zone", [value])]);
        let scheduling = PodScheduling {
            node_selector: Requirements::from_iter([Requirement::any_of("arch", ["amd64"])]),
            required_terms: vec![term("a"), term("b")],
            preferred_terms: vec![
                Preferred { weight: 1, value: term("a") },
                Preferred { weight: 7, value: Requirements::from_iter([Requirement::exists("x")]) },
                Preferred { weight: 7, value: term("c") },
            ],
            ..PodScheduling::default()
        };
        assert_eq!(scheduling.strict_requirements().to_string(), "arch In [amd64], zone In [a]");
        assert_eq!(scheduling.requirements().to_string(), "arch In [amd64], x Exists, zone In [a]");
    }

    /// SCH-134.
    #[test]
    fn namespaces_are_listed_or_selected() {
        let all = BTreeMap::from([
            ("a".to_owned(), BTreeMap::from([("team".to_owned(), "x".to_owned())])),
            ("b".to_owned(), BTreeMap::new()),
        ]);
        let names = |namespaces: Namespaces| namespaces.resolve(&all).into_iter().collect::<Vec<_>>().join(",");
        assert_eq!(names(Namespaces::only("z")), "z");
        let selected = Namespaces { selector: Some(Selector::labels([("team", "x")])), ..Namespaces::only("z") };
        assert_eq!(names(selected), "a,z");
        assert_eq!(names(Namespaces { selector: Some(Selector::default()), ..Namespaces::default() }), "a,b");
    }
}
