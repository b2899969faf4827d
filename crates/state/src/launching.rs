//! Claims that have no instance yet (SCH-241, X2).
//!
//! Nobody knows what they will become, but for whom they were made and how much that needs. Until they are launched a pass
//! sees each as a node of just that size, with the pods that are expected on it: they are not planned again, they count where
//! pods are counted, and a slow or failing launch holds nobody else up.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::claim::ClaimView;
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::quantity::Quantity;
use karpenter_model::resources::{NODES, Resources};
use karpenter_model::shared::Labels;
use karpenter_model::snapshot::ExistingNode;

use crate::{ClusterState, Unsynced, usage};

/// How long a pass waits for a launch that has not failed. What is launched is known in full, and usually has room left
/// that a pass which did not wait would buy again; most clouds answer within this.
const PATIENCE: SignedDuration = SignedDuration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Launching(BTreeMap<String, StandIn>);

/// What stands for a claim until it is launched.
#[derive(Debug)]
struct StandIn {
    uid: String,
    pool: Option<String>,
    claim: Arc<ClaimView>,
    node: Arc<NodeView>,
    /// The most that it may become, if whoever made it said so.
    charge: Option<Resources>,
    failed: bool,
    waited_since: Option<Timestamp>,
}

impl StandIn {
    fn of(claim: &ClaimView) -> Self {
        let mut known = claim.labels.to_map();
        for requirement in claim.requirements.iter().filter(|requirement| requirement.key() != labels::HOSTNAME) {
            if let Some(value) = requirement.single_value() {
                known.entry(requirement.key().to_owned()).or_insert_with(|| value.to_owned());
            }
        }
        let known = Labels::from(known);
        let node =
            NodeView { created_at: claim.created_at, labels: known.clone(), ..NodeView::new(claim.name.as_str()) };
        let stand_in = ClaimView {
            labels: known,
            capacity: claim.requests.clone().into(),
            allocatable: claim.requests.clone().into(),
            ..claim.clone()
        };
        Self {
            uid: claim.uid.clone(),
            pool: claim.pool.clone(),
            claim: Arc::new(stand_in),
            node: Arc::new(node),
            charge: None,
            failed: false,
            waited_since: None,
        }
    }

    /// A pass may do without it.
    fn is_waited_for(&mut self, now: Timestamp) -> bool {
        let since = *self.waited_since.get_or_insert(now);
        !self.failed && now.duration_since(since) < PATIENCE
    }

    fn charged(&self) -> Resources {
        let most = self.charge.clone().unwrap_or_else(|| self.claim.requests.clone());
        most.with(NODES, Quantity::units(1))
    }
}

impl ClusterState {
    pub(crate) fn note_launching(&mut self, claim: &ClaimView) {
        if claim.provider_id.is_some() || claim.deleting_since.is_some() {
            self.launching.0.remove(&claim.name);
            return;
        }
        let known = self.launching.0.get_mut(&claim.name).filter(|known| known.uid == claim.uid);
        let mut stand_in = StandIn::of(claim);
        if let Some(known) = known {
            stand_in.charge = known.charge.take();
            (stand_in.failed, stand_in.waited_since) = (known.failed, known.waited_since);
        }
        self.launching.0.insert(claim.name.clone(), stand_in);
    }

    pub(crate) fn forget_launching(&mut self, claim: &str) {
        self.launching.0.remove(claim);
    }

    /// Claims without an instance that are not going, by name.
    pub fn launching(&self) -> impl Iterator<Item = &Arc<ClaimView>> {
        self.launching.0.keys().filter_map(|name| self.claims.get(name))
    }

    /// The most that an unlaunched claim may add to its pool, as it was weighed when it was planned.
    pub fn charge(&mut self, claim: &str, most: Resources) {
        if let Some(stand_in) = self.launching.0.get_mut(claim) {
            stand_in.charge = Some(most);
        }
    }

    /// The cloud was asked for the claim and said no. It is asked again, but nobody waits for the answer.
    pub fn note_launch_failed(&mut self, claim: &str) {
        if let Some(stand_in) = self.launching.0.get_mut(claim) {
            stand_in.failed = true;
        }
    }

    /// What a pass has to wait for: lists that are not complete, and for a moment claims that are being launched.
    pub fn waits_for(&mut self, now: Timestamp) -> Option<Unsynced> {
        self.unlisted().map(Unsynced::NotListed).or_else(|| {
            // All of them are asked, so that the wait for each begins now.
            let waited: Vec<&String> = self
                .launching
                .0
                .iter_mut()
                .filter_map(|(name, stand_in)| stand_in.is_waited_for(now).then_some(name))
                .collect();
            waited.first().map(|name| Unsynced::ClaimNotLaunched((*name).clone()))
        })
    }

    /// The pod has a place on a claim that is not launched yet, or keeps one ([`ClusterState::hold`]): planning for it again
    /// would buy a second one.
    pub fn is_in_hand(&self, pod: &PodId) -> bool {
        let launching = |claim: &str| self.launching.0.contains_key(claim);
        self.expectations.claim_of(pod).is_some_and(launching) || self.holding.has(pod)
    }

    /// Usage of a pool with what its unlaunched claims may become, so that limits hold at every moment.
    pub fn charged(&self, pool: &str) -> Resources {
        let mut all = self.usage(pool);
        for stand_in in self.launching.0.values().filter(|stand_in| stand_in.pool.as_deref() == Some(pool)) {
            all.add(&stand_in.charged());
        }
        all
    }

    /// What a pass may put pods on: [`ClusterState::nodes`], with those who keep a place there, and what stands for claims that
    /// are not launched; by name.
    pub fn places(&self, now: Timestamp) -> Vec<ExistingNode> {
        let mut places = self.nodes();
        for place in &mut places {
            place.held_up = place.claim.as_ref().is_some_and(|claim| claim.drains_for_long(now));
        }
        self.seat(&mut places);
        if self.launching.0.is_empty() {
            return places;
        }
        places.extend(self.launching.0.iter().map(|(name, stand_in)| self.place(name, stand_in)));
        places.sort_by(|a, b| a.name().cmp(b.name()));
        places
    }

    /// Pods of the node need another place.
    fn is_leaving(&self, node: &str) -> bool {
        let entry = self.nodes.get(node).and_then(|node| self.entry(&usage::node_key(node)));
        entry.is_some_and(|entry| self.needs_place_for_pods(&entry))
    }

    /// The pod has no node that it may stay on.
    pub(crate) fn waits(&self, pod: &PodView) -> bool {
        pod.is_active() && pod.node_name.as_deref().is_none_or(|node| self.is_leaving(node))
    }

    fn place(&self, name: &str, stand_in: &StandIn) -> ExistingNode {
        // Who has found a node meanwhile counts there.
        let expected = self.expectations.pods_of(name).filter_map(|id| self.pod(id));
        let pods: Vec<Arc<PodView>> = expected.filter(|pod| self.waits(pod)).collect();
        let mut requested = Resources::new();
        for pod in &pods {
            requested.add(&pod.requests);
        }
        ExistingNode {
            node: Some(stand_in.node.clone()),
            claim: Some(stand_in.claim.clone()),
            requested: requested.into(),
            pods: pods.into(),
            nominated_until: self.nominations.get(name).copied(),
            ..ExistingNode::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::example;
    use karpenter_model::requirements::{Requirement, Requirements};

    use super::*;
    use crate::{Change, Source};

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn cpu(count: i64) -> Resources {
        Resources::new().with("cpu", Quantity::units(count))
    }

    fn claim(name: &str) -> ClaimView {
        ClaimView {
            pool: Some("pool".into()),
            labels: [(labels::NODEPOOL.to_owned(), "pool".to_owned())].into(),
            requests: cpu(3),
            requirements: Requirements::from_iter([
                Requirement::any_of(labels::ZONE, ["z1"]),
                Requirement::any_of(labels::INSTANCE_TYPE, ["a", "b"]),
            ])
            .into(),
            provider_id: None,
            ..example::claim(name)
        }
    }

    fn listed() -> ClusterState {
        let mut state = ClusterState::default();
        for source in Source::ALL {
            state.apply(Change::Complete(source));
        }
        state
    }

    fn launched(name: &str) -> ClaimView {
        ClaimView { provider_id: Some("id".into()), allocatable: cpu(4).into(), capacity: cpu(4).into(), ..claim(name) }
    }

    /// X2, LC-118: a pass waits for a launch for a moment, not for one that has failed, and never for long.
    #[test]
    fn nobody_waits_long_for_a_launch() {
        let mut state = listed();
        state.apply(Change::Claim(Arc::new(claim("a"))));
        state.apply(Change::Claim(Arc::new(claim("b"))));
        assert_eq!(state.waits_for(time(10)), Some(Unsynced::ClaimNotLaunched("a".into())));
        state.note_launch_failed("a");
        assert_eq!(state.waits_for(time(11)), Some(Unsynced::ClaimNotLaunched("b".into())));
        assert_eq!(state.waits_for(time(15)), None);
        assert_eq!(state.unsynced(), Some(Unsynced::ClaimNotLaunched("a".into())), "which is still shown");
        let changed = ClaimView { has_finalizer: !claim("b").has_finalizer, ..claim("b") };
        state.apply(Change::Claim(Arc::new(changed)));
        assert_eq!(state.waits_for(time(16)), None, "a change of the claim is no new launch");
        state.apply(Change::Claim(Arc::new(ClaimView { uid: "new".into(), ..claim("b") })));
        assert!(state.waits_for(time(16)).is_some(), "another claim of the name is");
        state.apply(Change::Claim(Arc::new(launched("b"))));
        assert_eq!((state.waits_for(time(17)), state.launching().count()), (None, 1));
        state.apply(Change::ClaimGone("a".into()));
        assert_eq!((state.unsynced(), state.launching().count()), (None, 0));
        assert!(ClusterState::default().waits_for(time(99)).is_some(), "lists are waited for as long as it takes");
    }

    /// X2, SCH-25: pods of a claim that is not launched are in hand, and the claim has no room for others.
    #[test]
    fn pods_of_an_unlaunched_claim_are_in_hand() {
        let mut state = listed();
        let pod = example::pod("web").but(|pod| pod.requests = cpu(2));
        state.apply(Change::Pod(Arc::new(pod.clone())));
        state.apply(Change::Claim(Arc::new(claim("a"))));
        state.expectations.expect(&pod.id, Some("a"));
        assert!(state.is_in_hand(&pod.id));
        let [place] = &state.places(time(0))[..] else { panic!("one place") };
        assert_eq!((place.name(), place.available().to_string().as_str(), place.pods.len()), ("a", "cpu: 1", 1));
        assert_eq!(place.labels().get(labels::ZONE).map(String::as_str), Some("z1"), "what is certain");
        assert!(!place.labels().contains_key(labels::INSTANCE_TYPE), "what is not");
        assert!(!place.is_initialized());
        assert!(state.nodes().is_empty(), "SCH-228: it is no entry yet");
        let node = NodeView { provider_id: Some("other".into()), ..example::node("n") };
        state.apply(Change::Node(Arc::new(node.clone())));
        let bound = PodView { node_name: Some("n".into()), ..pod.clone() };
        state.apply(Change::Pod(Arc::new(bound)));
        let on_claim =
            |state: &ClusterState| state.places(time(0)).iter().find(|place| place.name() == "a").unwrap().pods.len();
        assert_eq!(on_claim(&state), 0, "it has found another node");
        state.apply(Change::Node(Arc::new(NodeView { deleting_since: Some(time(1)), ..node })));
        assert_eq!(on_claim(&state), 1, "which it has to leave");
        state.apply(Change::NodeGone("n".into()));
        state.apply(Change::Pod(Arc::new(pod.clone())));
        for (name, end) in [
            ("launched", Change::Claim(Arc::new(launched("a")))),
            ("going", Change::Claim(Arc::new(ClaimView { deleting_since: Some(time(1)), ..claim("a") }))),
            ("gone", Change::ClaimGone("a".into())),
        ] {
            state.apply(Change::Claim(Arc::new(claim("a"))));
            assert!(state.is_in_hand(&pod.id));
            state.apply(end);
            assert!(!state.is_in_hand(&pod.id), "{name}");
        }
    }

    /// SCH-239, X2: limits are kept although nobody knows yet what a claim will become.
    #[test]
    fn unlaunched_claims_are_charged() {
        let mut state = listed();
        state.apply(Change::Claim(Arc::new(claim("a"))));
        assert_eq!(state.charged("pool").to_string(), "cpu: 3, nodes: 1", "what it was made for, at least");
        state.charge("a", cpu(16));
        state.apply(Change::Claim(Arc::new(ClaimView { has_finalizer: !claim("a").has_finalizer, ..claim("a") })));
        assert_eq!(state.charged("pool").to_string(), "cpu: 16, nodes: 1");
        assert!(state.usage("pool").is_empty(), "SCH-239: what is recorded is what is there");
        state.apply(Change::Claim(Arc::new(launched("a"))));
        assert_eq!(state.charged("pool").to_string(), "cpu: 4, nodes: 1");
    }
}
