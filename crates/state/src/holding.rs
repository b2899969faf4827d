//! Pods that keep the place they were promised (SCH-24, SCH-25).
//!
//! A node takes a while to start, and kube-scheduler lets a pod that it has refused wait for up to ten seconds before it looks again.
//! Passes that are made meanwhile would plan the same pods for the same nodes once more, in another order than the first
//! time; whoever then finds no room gets a second node, although the first one is waiting for them. So a pod keeps its place
//! while its node starts and a little longer, as long as there is room for it; passes see it as if it were there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::labels;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::scheduling::WhenUnsatisfiable;
use karpenter_model::selector::Selector;
use karpenter_model::snapshot::ExistingNode;

use crate::{ClusterState, refusals};

/// How long a pod keeps its place on a node that is ready for it: the longest pause of kube-scheduler, and also how often a
/// pod that waits asks for a pass (SCH-3).
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);
/// The same for a pod that may go only where others are, or are not: that kube-scheduler put these elsewhere than planned is likelier
/// than that it has not looked.
const SOCIAL_PATIENCE: SignedDuration = SignedDuration::from_secs(5);
/// Whom kube-scheduler refuses so long after its node was ready it has looked at with the node in mind, and it knows better.
const LOOKED_AT: SignedDuration = SignedDuration::from_secs(1);
/// A busy kube-scheduler comes to a pod later than that. As long as it binds pods that have a place waiting for them, others keep theirs:
/// planned anew, in another order, some of them would find no room and get a second node. Not for longer than this, however
/// busy it is.
const LONGEST_PATIENCE: SignedDuration = SignedDuration::from_mins(1);

#[derive(Debug, Default)]
pub(crate) struct Holding {
    /// Who keeps a place, by claim.
    places: BTreeMap<String, Vec<PodId>>,
    pods: BTreeSet<PodId>,
    /// Who could have been bound to its claim's node.
    ready: BTreeMap<PodId, Ready>,
    /// When somebody who could have been bound was last seen to be.
    last_bound: Option<Timestamp>,
}

#[derive(Debug)]
struct Ready {
    claim: String,
    since: Timestamp,
    /// kube-scheduler has looked, and put it nowhere.
    refused: bool,
}

impl Holding {
    pub(crate) fn has(&self, pod: &PodId) -> bool {
        self.pods.contains(pod)
    }

    fn on(&self, claim: &str) -> &[PodId] {
        self.places.get(claim).map_or(&[], Vec::as_slice)
    }

    fn is_over(&mut self, pod: &PodView, claim: &str, now: Timestamp) -> bool {
        let patience = if refusals::looks_at_others(pod) { SOCIAL_PATIENCE } else { PATIENCE };
        let pod = &pod.id;
        let fresh = || Ready { claim: claim.to_owned(), since: now, refused: false };
        let known = self.ready.entry(pod.clone()).or_insert_with(fresh);
        if known.claim != claim {
            *known = fresh();
        }
        let since = self.last_bound.map_or(known.since, |bound| bound.max(known.since));
        let over = known.refused
            || now.duration_since(since) >= patience
            || now.duration_since(known.since) >= LONGEST_PATIENCE;
        if over {
            // Planned for the same node again, it has the same time again.
            self.ready.remove(pod);
        }
        over
    }
}

impl ClusterState {
    /// Decides who keeps a place, for the pass that is about to be made: among the pods that wait, and those that have to
    /// move ([`ClusterState::moving_pods`]). The claims whose nodes they are expected on.
    pub fn hold(&mut self, moving: &BTreeMap<PodId, Arc<PodView>>, now: Timestamp) -> Vec<String> {
        let mut expected: BTreeMap<String, Vec<Arc<PodView>>> = BTreeMap::new();
        for pod in self.waiting.iter().map(|pod| self.view(&pod.0)).chain(moving.values()) {
            if let Some(claim) = self.expectations.claim_of(&pod.id) {
                expected.entry(claim.to_owned()).or_default().push(pod.clone());
            }
        }
        let mut holding = std::mem::take(&mut self.holding);
        holding.places.clear();
        holding.pods.clear();
        let waits: BTreeSet<&PodId> = expected.values().flatten().map(|pod| &pod.id).collect();
        let mut bound = false;
        holding.ready.retain(|id, _| {
            let stays = waits.contains(id);
            bound |= !stays && self.pods.get(id).is_some_and(|pod| pod.node_name.is_some());
            stays
        });
        if bound {
            holding.last_bound = Some(now);
        }
        for (claim, pods) in &expected {
            let Some(place) = self.held_place(claim, now) else { continue };
            let mut room = place.available();
            let neighbours = place.node.as_ref().map_or(&[][..], |node| self.bound.on(&node.name));
            for pod in pods {
                let fits = pod.requests.fits(&room) && !is_crowded(pod, neighbours);
                if fits && !(place.is_initialized() && holding.is_over(pod, claim, now)) {
                    room.subtract(&pod.requests);
                    holding.pods.insert(pod.id.clone());
                    holding.places.entry(claim.clone()).or_default().push(pod.id.clone());
                }
            }
        }
        self.holding = holding;
        self.holding.places.keys().cloned().collect()
    }

    /// kube-scheduler says of a pod that waits that it has found nothing for it.
    pub fn found_nothing(&mut self, pod: &PodId, now: Timestamp) {
        if let Some(ready) = self.holding.ready.get_mut(pod) {
            ready.refused |= now.duration_since(ready.since) >= LOOKED_AT;
        }
    }

    /// A launched claim that is not going, with its node if it has one, and with what is used of it.
    fn held_place(&self, claim: &str, now: Timestamp) -> Option<ExistingNode> {
        let known = self.claims.get(claim).filter(|claim| !claim.drains_for_long(now))?;
        let mut place = self.entry(known.provider_id.as_deref()?)?;
        if self.needs_place_for_pods(&place) || place.claim.as_ref().is_none_or(|known| known.name != claim) {
            return None;
        }
        if let Some(node) = &place.node {
            place.requested = self.bound.shared(&node.name).1;
        }
        Some(place)
    }

    /// Puts those who keep a place where they keep it.
    pub(crate) fn seat(&self, places: &mut [ExistingNode]) {
        if self.holding.places.is_empty() {
            return;
        }
        for place in places {
            let Some(claim) = place.claim.as_ref().map(|claim| claim.name.clone()) else { continue };
            // Who has been bound meanwhile counts where it is.
            let held = self.holding.on(&claim).iter().filter_map(|id| self.pod(id)).filter(|pod| self.waits(pod));
            let held: Vec<Arc<PodView>> = held.collect();
            for pod in &held {
                place.requested.add(&pod.requests);
            }
            if !held.is_empty() {
                place.pods.extend(held);
                place.pods.sort_by(|a, b| a.id.cmp(&b.id));
            }
        }
    }
}

/// As many as the pod bears are on the node already, of those whom it keeps apart from or spreads over hosts with. Who came first was
/// planned for elsewhere; whether there is still a way is for a pass to find out.
fn is_crowded(pod: &PodView, neighbours: &[Arc<PodView>]) -> bool {
    let selected = |key: &str, selector: Option<&Selector>| {
        let chosen = |other: &&Arc<PodView>| selector.is_some_and(|selector| selector.matches(&other.labels));
        if key == labels::HOSTNAME { neighbours.iter().filter(chosen).count() } else { 0 }
    };
    let wishes = &pod.scheduling;
    let must = wishes.spread.iter().filter(|spread| spread.when == WhenUnsatisfiable::DoNotSchedule);
    wishes.anti_affinity.iter().any(|term| selected(&term.key, term.selector.as_ref()) > 0)
        || must
            .into_iter()
            .any(|spread| selected(&spread.key, spread.selector.as_ref()) >= spread.max_skew.try_into().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use karpenter_model::claim::{ClaimView, RebootView, Status};
    use karpenter_model::node::NodeView;
    use karpenter_model::quantity::Quantity;
    use karpenter_model::resources::Resources;
    use karpenter_model::scheduling::{AffinityTerm, Namespaces, NodePolicy, PodScheduling, SpreadConstraint};
    use karpenter_model::shared::Labels;
    use karpenter_model::{example, snapshot};

    use super::*;
    use crate::Change;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn cpu(count: i64) -> Resources {
        Resources::new().with("cpu", Quantity::units(count))
    }

    fn pod(name: &str) -> PodView {
        PodView { unschedulable: true, ..example::pod(name).but(|pod| pod.requests = cpu(2)) }
    }

    fn claim() -> ClaimView {
        ClaimView {
            provider_id: Some("id".into()),
            allocatable: cpu(5).into(),
            capacity: cpu(5).into(),
            ..example::claim("a")
        }
    }

    fn node(initialized: bool) -> NodeView {
        let mut all: Labels =
            [(labels::NODEPOOL, "pool"), (labels::INSTANCE_TYPE, "large"), (labels::REGISTERED, "true")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into();
        if initialized {
            all.insert(labels::INITIALIZED.to_owned(), "true".to_owned());
        }
        let (capacity, allocatable) = (cpu(5).into(), cpu(5).into());
        NodeView { provider_id: Some("id".into()), labels: all, capacity, allocatable, ..example::node("n") }
    }

    /// A claim with two pods that were promised it, and one that was not.
    fn state() -> ClusterState {
        let mut state = ClusterState::default();
        state.apply(Change::Claim(Arc::new(claim())));
        for name in ["x", "y", "z"] {
            state.apply(Change::Pod(Arc::new(pod(name))));
        }
        for name in ["x", "y"] {
            state.expectations.expect(&pod(name).id, Some("a"));
        }
        state
    }

    fn in_hand(state: &mut ClusterState, second: i64) -> Vec<&'static str> {
        state.hold(&BTreeMap::new(), time(second));
        ["x", "y", "z"].into_iter().filter(|name| state.is_in_hand(&pod(name).id)).collect()
    }

    fn place(state: &ClusterState) -> snapshot::ExistingNode {
        state.places(time(0)).into_iter().next().unwrap()
    }

    /// SCH-24, SCH-25: pods keep the place on a node that starts, however long that takes, and passes see them there.
    #[test]
    fn pods_keep_their_place_while_the_node_starts() {
        let mut state = state();
        for second in [0, 1000] {
            assert_eq!(in_hand(&mut state, second), ["x", "y"]);
        }
        state.apply(Change::Node(Arc::new(node(false))));
        assert_eq!(in_hand(&mut state, 2000), ["x", "y"]);
        assert_eq!((place(&state).pods.len(), place(&state).available().to_string().as_str()), (2, "cpu: 1"));
        assert_eq!(state.nodes()[0].pods.len(), 0, "only passes for pods that wait see them there");
    }

    /// SCH-3: once the node is ready they have ten seconds; then they are planned again, and may keep the place again.
    #[test]
    fn a_ready_node_is_waited_for_for_a_while() {
        let mut state = state();
        state.apply(Change::Node(Arc::new(node(true))));
        assert_eq!(state.hold(&BTreeMap::new(), time(0)), ["a"], "its node is nominated");
        assert_eq!(in_hand(&mut state, 9), ["x", "y"]);
        assert!(in_hand(&mut state, 10).is_empty());
        state.expectations.expect(&pod("x").id, Some("a"));
        state.expectations.expect(&pod("y").id, None);
        assert_eq!(in_hand(&mut state, 11), ["x"]);
        assert_eq!(in_hand(&mut state, 20), ["x"]);
        assert!(in_hand(&mut state, 21).is_empty());
    }

    /// SCH-3: whom kube-scheduler refuses although its node has been ready for a moment is planned for at once, and may keep the place.
    #[test]
    fn a_refused_pod_is_not_waited_for() {
        let mut state = state();
        state.found_nothing(&pod("x").id, time(0));
        state.apply(Change::Node(Arc::new(node(true))));
        assert_eq!(in_hand(&mut state, 0), ["x", "y"], "that was before the node was there");
        state.found_nothing(&pod("y").id, time(0));
        assert_eq!(in_hand(&mut state, 1), ["x", "y"], "that may have been said before it was seen");
        state.found_nothing(&pod("x").id, time(1));
        assert_eq!(in_hand(&mut state, 1), ["y"]);
        state.expectations.expect(&pod("x").id, Some("a"));
        assert_eq!(in_hand(&mut state, 2), ["x", "y"], "a pass has found no other place");
    }

    /// SCH-3: while kube-scheduler is seen to bind those that have a place, the others keep theirs, for a minute at most.
    #[test]
    fn a_busy_scheduler_is_waited_for_longer() {
        let mut state = state();
        for name in ["x", "y"] {
            state.apply(Change::Pod(Arc::new(pod(name).but(|pod| pod.requests = Resources::new()))));
        }
        state.apply(Change::Node(Arc::new(node(true))));
        assert_eq!(in_hand(&mut state, 0), ["x", "y"]);
        let others: Vec<PodView> =
            (0..6).map(|at| pod(&format!("other-{at}")).but(|pod| pod.requests = Resources::new())).collect();
        for other in &others {
            state.apply(Change::Pod(Arc::new(other.clone())));
            state.expectations.expect(&other.id, Some("a"));
        }
        assert_eq!(in_hand(&mut state, 9), ["x", "y"]);
        for (at, other) in others.iter().enumerate() {
            let bound = PodView { node_name: Some("n".into()), unschedulable: false, ..other.clone() };
            state.apply(Change::Pod(Arc::new(bound)));
            let second = 18 + 9 * i64::try_from(at).unwrap();
            let want: &[&str] = if second < 60 { &["x", "y"] } else { &[] };
            assert_eq!(in_hand(&mut state, second), want, "{second}");
        }
        let mut state = self::state();
        state.apply(Change::Node(Arc::new(node(true))));
        assert_eq!(in_hand(&mut state, 0), ["x", "y"]);
        state.apply(Change::PodGone(pod("y").id));
        assert_eq!(in_hand(&mut state, 9), ["x"]);
        assert!(in_hand(&mut state, 10).is_empty(), "who was deleted says nothing about kube-scheduler");
    }

    /// SCH-24: who keeps apart from others, or spreads with them, has lost its place where one of them came first; and is waited
    /// for for half as long.
    #[test]
    fn company_ends_the_promise() {
        let web = Labels::from([("app".to_owned(), "web".to_owned())]);
        let selector = || Some(Selector::labels([("app", "web")]));
        let term = |key: &str| AffinityTerm {
            key: key.to_owned(),
            selector: selector(),
            namespaces: Namespaces::only("default"),
        };
        let spread = |max_skew| SpreadConstraint {
            key: labels::HOSTNAME.to_owned(),
            max_skew,
            when: WhenUnsatisfiable::DoNotSchedule,
            selector: selector(),
            min_domains: None,
            node_affinity_policy: NodePolicy::Honor,
            node_taints_policy: NodePolicy::Ignore,
        };
        let apart = |key: &str| PodScheduling { anti_affinity: vec![term(key)], ..PodScheduling::default() };
        let spread = |max_skew| PodScheduling { spread: vec![spread(max_skew)], ..PodScheduling::default() };
        for (name, wishes, kept) in [
            ("nothing", PodScheduling::default(), true),
            ("apart on hosts", apart(labels::HOSTNAME), false),
            ("apart in zones, which a pass looks at", apart(labels::ZONE), true),
            ("spread over hosts", spread(1), false),
            ("spread a little", spread(2), true),
        ] {
            let mut state = state();
            state.apply(Change::Node(Arc::new(node(true))));
            let social = wishes != PodScheduling::default();
            state.apply(Change::Pod(Arc::new(pod("x").but(|pod| pod.scheduling = wishes))));
            let first = PodView { node_name: Some("n".into()), unschedulable: false, ..pod("first") };
            let first = first.but(|pod| (pod.labels, pod.requests) = (web.clone(), cpu(0)));
            state.apply(Change::Pod(Arc::new(first)));
            assert_eq!(in_hand(&mut state, 0).contains(&"x"), kept, "{name}");
            if kept {
                assert_eq!(in_hand(&mut state, 5).contains(&"x"), !social, "{name}");
            }
        }
    }

    /// What ends the promise: the room is taken, the node goes, the claim is gone, the pod is bound.
    #[test]
    fn places_are_lost() {
        let mut state = state();
        state.apply(Change::Node(Arc::new(node(true))));
        let other = PodView { node_name: Some("n".into()), ..pod("other") };
        state.apply(Change::Pod(Arc::new(other)));
        assert_eq!(in_hand(&mut state, 0), ["x"], "there is room for one more");
        let bound = PodView { node_name: Some("n".into()), unschedulable: false, ..pod("x") };
        state.apply(Change::Pod(Arc::new(bound)));
        assert_eq!(place(&state).pods.len(), 2, "bound since it was held: counted once");
        assert!(in_hand(&mut state, 0).is_empty(), "y finds no room");
        let mut state = self::state();
        state.mark("a", true);
        assert!(in_hand(&mut state, 0).is_empty(), "it is about to go");
        state.mark("a", false);
        assert_eq!(in_hand(&mut state, 0), ["x", "y"]);
        state.apply(Change::Claim(Arc::new(ClaimView { deleting_since: Some(time(1)), ..claim() })));
        assert!(in_hand(&mut state, 0).is_empty(), "it goes");
        let since = time(0);
        let reboot = RebootView { status: Status::True, reason: "RebootRequested".into(), message: "m".into(), since };
        state.apply(Change::Claim(Arc::new(ClaimView { rebooting: true, reboot: Some(reboot), ..claim() })));
        assert_eq!(in_hand(&mut state, 119), ["x", "y"], "V15-71: it comes back soon");
        assert!(in_hand(&mut state, 120).is_empty() && state.places(time(120))[0].held_up, "V15-71: or not so soon");
        state.apply(Change::ClaimGone("a".into()));
        assert!(in_hand(&mut state, 0).is_empty() && state.places(time(0)).is_empty(), "it is gone");
    }
}
