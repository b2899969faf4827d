use jiff::SignedDuration;
use karpenter_model::claim::{ClaimView, ConditionView, Status};
use karpenter_model::duration::GoDuration;
use karpenter_model::example;
use karpenter_model::node::NodeView;
use karpenter_model::pod::{PodOwner, PodPhase};
use karpenter_model::protection::Protection;
use karpenter_model::selector::Selector;
use karpenter_model::shared::Labels;

use super::*;

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A node with everything in order.
fn fine() -> ExistingNode {
    let labels = map(&[(labels::REGISTERED, "true"), (labels::INITIALIZED, "true"), (labels::NODEPOOL, "p")]);
    let labels = Labels::from(labels);
    let node = NodeView { labels: labels.clone(), ..example::node("n") };
    let claim = ClaimView { labels, ..example::claim("c") };
    ExistingNode { node: Some(Arc::new(node)), claim: Some(Arc::new(claim)), ..ExistingNode::default() }
}

fn with_claim(change: impl FnOnce(&mut ClaimView)) -> ExistingNode {
    let mut node = fine();
    change(Arc::make_mut(node.claim.as_mut().unwrap()));
    node
}

fn with_node(change: impl FnOnce(&mut NodeView)) -> ExistingNode {
    let mut node = fine();
    change(Arc::make_mut(node.node.as_mut().unwrap()));
    node
}

fn running(name: &str) -> PodView {
    PodView { phase: PodPhase::Running, ..example::pod(name) }.but(|pod| pod.labels = map(&[("app", "web")]).into())
}

fn with_pods(pods: impl IntoIterator<Item = PodView>, grace: bool) -> ExistingNode {
    let mut node = with_claim(|claim| claim.termination_grace_period = grace.then(|| GoDuration::from_secs(300)));
    node.pods = pods.into_iter().map(Arc::new).collect();
    node
}

struct World {
    pools: BTreeMap<String, PoolFacts>,
    budgets: Vec<Arc<PdbView>>,
    queued: BTreeSet<String>,
    now: i64,
}

impl World {
    fn new() -> Self {
        let pool = PoolFacts { view: Arc::new(example::pool("p")), instance_types: None };
        let pools = BTreeMap::from([("p".to_owned(), pool)]);
        Self { pools, budgets: Vec::new(), queued: BTreeSet::new(), now: 1000 }
    }

    fn budget(mut self, name: &str, disruptions_allowed: i32) -> Self {
        self.budgets.push(Arc::new(PdbView {
            id: PodId::new("default", name),
            selector: Some(Selector::labels([("app", "web")])),
            disruptions_allowed,
            never_allows: false,
            lets_unready_go: false,
        }));
        self
    }

    fn judge(&self, node: &ExistingNode, class: Class) -> Result<bool, Blocked> {
        let Self { pools, budgets, queued, now } = self;
        let facts = Facts { pools, budgets, queued, now: time(*now) };
        candidate(node, &facts, class).map(|candidate| candidate.has_blockers)
    }
}

/// API-145, DIS-10, DIS-11, DIS-12, DIS-13, DIS-14, DIS-15, DIS-16, DIS-17, DIS-18, V15-35, V15-36, DC-18 … DC-25: what keeps a node from going gracefully, and from being repaired.
#[test]
fn nodes_that_stay() {
    use Blocked::{
        Deleting, DoNotDisrupt, NoNode, NoPool, NoPoolLabel, Nominated, NotInitialized, NotRegistered, Rebooting,
        RepairNeedsPool, Unmanaged,
    };
    let annotated = |value: &str| {
        let annotations = map(&[(DO_NOT_DISRUPT, value)]);
        with_node(|node| node.annotations = annotations.into())
    };
    let unlabelled = |key: &'static str| with_node(|node| drop(node.labels.remove(key)));
    let mut standalone = unlabelled(labels::NODEPOOL);
    Arc::make_mut(standalone.claim.as_mut().unwrap()).labels.clear();
    let nominated = |at: i64| ExistingNode { nominated_until: Some(time(at)), ..fine() };
    let elsewhere = with_node(|node| drop(node.labels.insert(labels::NODEPOOL.to_owned(), "gone".to_owned())));
    let mut young = with_node(|node| node.labels.clear());
    young.nominated_until = Some(time(2000));
    for (case, node, graceful, repair) in [
        ("fine", fine(), Ok(false), Ok(false)),
        ("DC-19, no claim", ExistingNode { claim: None, ..fine() }, Err(Unmanaged), Err(Unmanaged)),
        ("DC-19, no node", ExistingNode { node: None, ..fine() }, Err(NoNode), Err(NoNode)),
        ("V15-35, rebooting", with_claim(|claim| claim.rebooting = true), Err(Rebooting), Err(Rebooting)),
        ("DC-21", with_claim(|claim| claim.deleting_since = Some(time(1))), Err(Deleting), Err(Deleting)),
        ("DC-22, registered", unlabelled(labels::INITIALIZED), Err(NotInitialized), Ok(false)),
        ("V15-35, never registered", young, Err(NotRegistered), Err(NotRegistered)),
        ("DC-20, nominated; Z6", nominated(1001), Err(Nominated), Ok(false)),
        ("DC-20, no longer", nominated(1000), Ok(false), Ok(false)),
        ("DC-18", annotated("true"), Err(DoNotDisrupt), Ok(false)),
        ("DC-18", annotated("false"), Ok(false), Ok(false)),
        ("DC-18, durations are for pods", annotated("2h"), Ok(false), Ok(false)),
        ("DC-23, no pool label", standalone, Err(NoPoolLabel), Err(RepairNeedsPool)),
        ("DC-23, pool gone", elsewhere, Err(NoPool("gone".into())), Err(NoPool("gone".into()))),
    ] {
        assert_eq!(World::new().judge(&node, Class::Graceful), graceful, "{case}");
        assert_eq!(World::new().judge(&node, Class::Repair), repair, "{case}");
    }
    let mut busy = World::new();
    busy.queued.insert("c".to_owned());
    assert_eq!(busy.judge(&fine(), Class::Graceful), Err(Blocked::Queued), "DC-25");
    assert!(Blocked::Queued.is_silent() && !Blocked::Deleting.is_silent());
    let terminating = ConditionView { status: Status::True, since: time(1) };
    let ends = with_claim(|claim| claim.instance_terminating = Some(terminating));
    assert_eq!(World::new().judge(&ends, Class::Graceful), Err(Deleting), "DIS-14");
    let marked = ExistingNode { marked: true, ..fine() };
    assert_eq!(World::new().judge(&marked, Class::Eventual), Err(Deleting), "DC-21, marked");
}

/// API-144, DIS-19 … DIS-21, DIS-46, V15-36, DC-11 … DC-17, DC-37, DC-38: pods that object, and who goes over them.
#[test]
fn pods_that_object() {
    let shy = || running("a").but(|pod| pod.protection = Protection::Always);
    let owned = |owner| PodView { owner, ..shy() };
    let leaving = PodView { deleting_since: Some(time(999).into()), ..shy() };
    let done = PodView { phase: PodPhase::Failed, ..shy() };
    let closed = || World::new().budget("b", 0);
    for (case, world, pods, free) in [
        ("DC-11", World::new(), vec![shy()], false),
        ("DC-14, mirror", World::new(), vec![owned(PodOwner::Node)], false),
        ("DC-14, daemon", World::new(), vec![owned(PodOwner::DaemonSet)], false),
        ("DC-15, leaving", World::new(), vec![leaving], true),
        ("DC-15, done", World::new(), vec![done], true),
        ("DC-13", closed(), vec![running("a")], false),
        ("DC-16, mirror", closed(), vec![PodView { owner: PodOwner::Node, ..running("a") }], true),
        ("DC-16, daemon", closed(), vec![PodView { owner: PodOwner::DaemonSet, ..running("a") }], false),
        ("DC-17", World::new().budget("b", 1).budget("c", 1), vec![running("a")], false),
        ("DC-37", closed(), vec![running("a").but(|pod| pod.labels.clear()), running("b")], false),
        ("DC-38", World::new().budget("b", 1), vec![running("a"), running("b"), running("c")], true),
    ] {
        let plain = with_pods(pods.clone(), false);
        let patient = with_pods(pods, true);
        assert_eq!(world.judge(&plain, Class::Graceful).is_ok(), free, "{case}");
        assert_eq!(world.judge(&plain, Class::Eventual).is_ok(), free, "{case}: no grace period, no force");
        assert_eq!(world.judge(&patient, Class::Graceful).is_ok(), free, "{case}: grace periods do not hurry");
        assert_eq!(world.judge(&patient, Class::Eventual), Ok(!free), "{case}: DC-12");
        assert_eq!(world.judge(&plain, Class::Repair), Ok(!free), "{case}: remembered");
    }
}

/// DIS-42, DIS-48, DC-27 … DC-31: protection that ends; the latest one counts.
#[test]
fn protection_ends() {
    let shy = |minutes: i64, started_at: Option<Timestamp>| {
        let pod = PodView { started_at: started_at.map(Into::into), ..running("a") };
        pod.but(|pod| pod.protection = Protection::For(SignedDuration::from_mins(minutes)))
    };
    let both = with_pods([shy(1, Some(time(0))), shy(3, Some(time(0)))], false);
    for (now, free) in [(0, false), (120, false), (179, false), (180, true), (240, true)] {
        let world = World { now, ..World::new() };
        assert_eq!(world.judge(&both, Class::Graceful).is_ok(), free, "{now}");
        assert_eq!(world.judge(&both, Class::Eventual).is_ok(), free, "{now}");
    }
    assert!(World::new().judge(&with_pods([shy(5, None)], false), Class::Graceful).is_err(), "DC-30");
}

/// DIS-18, DIS-23, X11, DC-24, DC-26: what is not known about a node's type does not keep it.
#[test]
fn x11_unknown_types_do_not_keep_nodes() {
    let world = World::new();
    let facts = Facts { pools: &world.pools, budgets: &[], queued: &BTreeSet::new(), now: time(0) };
    let node = fine();
    let found = candidate(&node, &facts, Class::Graceful).unwrap();
    assert_eq!((found.price, found.instance_type), (Price::ZERO, None));
    assert_eq!((found.name(), found.pool_name()), ("n", "p"));
}

/// DIS-22: labels and annotations are those of the node once it is registered, before that those of the claim.
#[test]
fn who_speaks_for_a_node() {
    let named = |name: &str| Labels::from(map(&[(labels::NODEPOOL, name)]));
    let mut node = with_node(|node| node.labels = named("of-node"));
    Arc::make_mut(node.claim.as_mut().unwrap()).labels = named("of-claim");
    assert_eq!((node.pool(), node.name()), (Some("of-claim"), "c"));
    let registered = map(&[(labels::NODEPOOL, "of-node"), (labels::REGISTERED, "true")]);
    Arc::make_mut(node.node.as_mut().unwrap()).labels = registered.into();
    assert_eq!((node.pool(), node.name()), (Some("of-node"), "n"));
}

/// DIS-25: what is known about a node that may go.
#[test]
fn what_a_candidate_knows() {
    let cluster = crate::testing::Cluster::new([crate::testing::instance_type("small", 4, 0.4, &[])]);
    let pods = [crate::testing::running("x", 1), crate::testing::running("y", 1)];
    let cluster = cluster.pool("p", |_| ()).node("a", "p", "small", pods);
    let look = cluster.look();
    let found = candidate(&cluster.snapshot.nodes[0], &look.facts, Class::Graceful).unwrap();
    assert_eq!((found.pool_name(), found.name(), found.price.per_hour()), ("p", "a", 0.4));
    assert_eq!(found.instance_type.map(|known| known.name.as_str()), Some("small"));
    assert_eq!((found.label(labels::ZONE), found.label(labels::CAPACITY_TYPE)), (Some("z1"), Some("on-demand")));
    assert_eq!((found.reschedulable_pods().count(), found.reschedule_cost), (2, 3.0));
}

/// DIS-26, V15-24, API-349: words that people search for.
#[test]
fn words() {
    let pod = || PodId::new("a", "b");
    for (blocked, text) in [
        (Blocked::NotRegistered, "Node isn't initialized nor registered"),
        (Blocked::Rebooting, "Node is rebooting"),
        (Blocked::RepairNeedsPool, "repair requires a NodePool to construct and budget a safe replacement"),
        (Blocked::ProtectedPod(pod()), "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=a/b)"),
        (Blocked::Budget { pod: pod(), budget: pod() }, "Pdb prevents pod evictions (PodDisruptionBudget=[a/b])"),
        (
            Blocked::ManyBudgets { pod: pod(), budgets: vec![pod(), pod()] },
            "Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[a/b a/b])",
        ),
        (Blocked::NoNode, "Nodeclaim does not have an associated node"),
        (Blocked::Deleting, "Node is deleting or marked for deletion"),
        (Blocked::Nominated, "Node is nominated for a pending pod"),
        (Blocked::NotInitialized, "Node isn't initialized"),
        (Blocked::DoNotDisrupt, "Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation"),
        (Blocked::NoPool("p".to_owned()), "NodePool not found (NodePool=p)"),
    ] {
        assert_eq!(blocked.to_string(), text);
    }
}
