//! Tells of preferences that can keep nodes from being merged later (SCH-18).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::pod::PodView;
use karpenter_model::scheduling::WhenUnsatisfiable;
use karpenter_solver::Preferences;

const AGAIN: SignedDuration = SignedDuration::from_hours(24);

/// When each pod was last named, by kind of preference and UID (Q27).
#[derive(Debug, Default)]
pub(super) struct Hints(BTreeMap<(&'static str, String), Timestamp>);

impl Hints {
    /// Pods to be named now, by kind of preference.
    pub(super) fn of<'a>(
        &mut self,
        pods: impl IntoIterator<Item = &'a Arc<PodView>>,
        preferences: Preferences,
        now: Timestamp,
    ) -> BTreeMap<&'static str, Vec<String>> {
        self.0.retain(|_, told| now.duration_since(*told) < AGAIN);
        let mut named: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        for pod in pods {
            let soft = pod.scheduling.spread.iter().any(|spread| spread.when == WhenUnsatisfiable::ScheduleAnyway);
            for (kind, applies) in [
                ("preferred anti-affinity", !pod.scheduling.preferred_anti_affinity.is_empty()),
                ("soft spread constraint", soft && preferences == Preferences::Respect),
            ] {
                if applies && self.0.insert((kind, pod.uid.to_string()), now).is_none() {
                    named.entry(kind).or_default().push(pod.id.to_string());
                }
            }
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::example;
    use karpenter_model::scheduling::{
        AffinityTerm, Namespaces, NodePolicy, PodScheduling, Preferred, SpreadConstraint,
    };

    use super::*;

    /// SCH-18, Q27: once a day per pod and kind.
    #[test]
    fn pods_are_named_once_a_day_and_kind() {
        let term = AffinityTerm { key: "zone".into(), selector: None, namespaces: Namespaces::only("default") };
        let spread = SpreadConstraint {
            key: "zone".into(),
            max_skew: 1,
            when: WhenUnsatisfiable::ScheduleAnyway,
            selector: None,
            min_domains: None,
            node_affinity_policy: NodePolicy::Honor,
            node_taints_policy: NodePolicy::Ignore,
        };
        let scheduling = PodScheduling {
            preferred_anti_affinity: vec![Preferred { weight: 1, value: term }],
            spread: vec![spread],
            ..PodScheduling::default()
        };
        let pods =
            [Arc::new(example::pod("both").but(|pod| pod.scheduling = scheduling)), Arc::new(example::pod("plain"))];
        let at = |hour: i64| Timestamp::from_second(hour * 3600).unwrap();
        let mut hints = Hints::default();
        let kinds = |named: BTreeMap<&'static str, Vec<String>>| named.into_keys().collect::<Vec<_>>();
        assert_eq!(kinds(hints.of(&pods, Preferences::Ignore, at(0))), ["preferred anti-affinity"]);
        assert_eq!(kinds(hints.of(&pods, Preferences::Respect, at(1))), ["soft spread constraint"], "the other kind");
        assert!(hints.of(&pods, Preferences::Respect, at(2)).is_empty(), "both were told");
        assert_eq!(hints.of(&pods, Preferences::Respect, at(26)).len(), 2, "the next day");
    }
}
