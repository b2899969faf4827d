//! Pods, pools and nodes that state only what a case is about.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::example;
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_model::pod::{PodOwner, PodView};
use karpenter_model::pool::{NodeClassRef, PoolView};
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Operator, Requirement, Requirements};
use karpenter_model::resources::Resources;
use karpenter_model::scheduling::{
    AffinityTerm, HostPort, Namespaces, NodePolicy, PodScheduling, Preferred, SpreadConstraint, WhenUnsatisfiable,
};
use karpenter_model::selector::{Selector, SelectorExpression, SelectorOperator};
use karpenter_model::shared::{Labels, Shared};
use karpenter_model::snapshot::ExistingNode;
use karpenter_model::taints::{Effect, Taint, Toleration, TolerationOperator};

use super::fixtures::{resources, rules};

/// Short names of the labels that most cases are about.
pub(super) fn key(name: &str) -> &str {
    match name {
        "zone" => labels::ZONE,
        "capacity" => labels::CAPACITY_TYPE,
        "type" => labels::INSTANCE_TYPE,
        "arch" => labels::ARCH,
        "os" => labels::OS,
        "host" => labels::HOSTNAME,
        "pool" => labels::NODEPOOL,
        other => other,
    }
}

/// `"zone In z1 z2; integer Gt 8; type Exists min=3"`.
pub(super) fn reqs(text: &str) -> Requirements {
    text.split(';').map(str::trim).filter(|one| !one.is_empty()).map(req).collect()
}

fn req(text: &str) -> Requirement {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap();
    let operator = Operator::parse(words.next().unwrap_or_default()).unwrap_or_else(|| panic!("operator in {text:?}"));
    let (minimum, values): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with("min="));
    let minimum = minimum.first().map(|word| word["min=".len()..].parse().unwrap());
    let values: Vec<String> = values.into_iter().map(ToOwned::to_owned).collect();
    Requirement::new(&rules(), key(name), operator, &values, minimum).unwrap()
}

/// `"app=web tier=front"`.
pub(super) fn pairs(text: &str) -> BTreeMap<String, String> {
    let split = |word: &str| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap();
    text.split_whitespace().map(split).collect()
}

pub(super) fn selector(text: &str) -> Selector {
    Selector::labels(pairs(text).iter().map(|(key, value)| (key.as_str(), value.as_str())))
}

/// `"foo=bar:NoSchedule"`.
pub(super) fn taint(text: &str) -> Taint {
    let (pair, effect) = text.split_once(':').unwrap();
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    Taint::new(key, value, Effect::parse(effect).unwrap())
}

/// `tolerate("key", Exists, "", None)` in words: `"key Exists"`, `"key Equal value NoSchedule"`, `"* Exists"`.
pub(super) fn toleration(text: &str) -> Toleration {
    let words: Vec<&str> = text.split_whitespace().collect();
    let key = if words[0] == "*" { "" } else { words[0] };
    let operator = match words[1] {
        "Exists" => TolerationOperator::Exists,
        "Equal" => TolerationOperator::Equal,
        "Gt" => TolerationOperator::Gt,
        "Lt" => TolerationOperator::Lt,
        _ => TolerationOperator::Unknown,
    };
    let effect = words.get(2..).and_then(|rest| rest.iter().find_map(|word| Effect::parse(word)));
    let value = words.get(2).filter(|word| Effect::parse(word).is_none()).copied().unwrap_or_default();
    Toleration { key: key.to_owned(), operator, value: value.to_owned(), effect }
}

/// A pod in the making. The cluster names those that have no name.
#[derive(Clone, Debug)]
pub(super) struct Pod(pub(super) PodView);

pub(super) fn pod() -> Pod {
    let mut pod = PodView { uid: "".into(), unschedulable: true, ..example::pod("") };
    pod.requests = Resources::new().with("pods", Quantity::units(1));
    Pod(pod)
}

/// A pod that carries a label, as most of those that are counted do.
pub(super) fn app() -> Pod {
    pod().label("app=test")
}

impl Pod {
    fn edit(mut self, change: impl FnOnce(&mut PodScheduling)) -> Self {
        change(&mut self.0.scheduling);
        self
    }

    pub(super) fn named(mut self, name: &str) -> Self {
        self.0.id.name = name.into();
        self
    }

    pub(super) fn namespace(mut self, name: &str) -> Self {
        self.0.id.namespace = name.into();
        self
    }

    /// On top of what it asks for already.
    pub(super) fn asks(mut self, text: &str) -> Self {
        self.0.requests.add(&resources(text));
        self
    }

    pub(super) fn label(mut self, text: &str) -> Self {
        self.0.labels.extend(pairs(text));
        self
    }

    pub(super) fn select(self, name: &str, value: &str) -> Self {
        let one = Requirement::any_of(rules().normalized(key(name)), [value]);
        self.edit(|wishes| wishes.node_selector.add(one))
    }

    /// One more required term.
    pub(super) fn require(self, text: &str) -> Self {
        self.edit(|wishes| wishes.required_terms.push(reqs(text)))
    }

    pub(super) fn prefer(self, weight: i32, text: &str) -> Self {
        self.edit(|wishes| wishes.preferred_terms.push(Preferred { weight, value: reqs(text) }))
    }

    pub(super) fn tolerate(self, text: &str) -> Self {
        self.edit(|wishes| wishes.tolerations.push(toleration(text)))
    }

    pub(super) fn spread(self, constraint: SpreadConstraint) -> Self {
        self.edit(|wishes| wishes.spread.push(constraint))
    }

    pub(super) fn near(self, term: AffinityTerm) -> Self {
        self.edit(|wishes| wishes.affinity.push(term))
    }

    pub(super) fn prefers_near(self, weight: i32, term: AffinityTerm) -> Self {
        self.edit(|wishes| wishes.preferred_affinity.push(Preferred { weight, value: term }))
    }

    pub(super) fn apart(self, term: AffinityTerm) -> Self {
        self.edit(|wishes| wishes.anti_affinity.push(term))
    }

    pub(super) fn prefers_apart(self, weight: i32, term: AffinityTerm) -> Self {
        self.edit(|wishes| wishes.preferred_anti_affinity.push(Preferred { weight, value: term }))
    }

    /// Shares its host with no other pod of this kind.
    pub(super) fn alone(self) -> Self {
        self.label("alone=yes").apart(near("host", "alone=yes"))
    }

    pub(super) fn port(self, port: u16) -> Self {
        let ip = "0.0.0.0".to_owned();
        self.edit(|wishes| wishes.host_ports.push(HostPort { ip, port, protocol: "TCP".into() }))
    }

    /// The volumes can be attached together in any of these places.
    pub(super) fn volumes_in(self, alternatives: &[&str]) -> Self {
        self.edit(|wishes| wishes.volumes.alternatives = alternatives.iter().map(|text| reqs(text)).collect())
    }

    /// Volume claims of a driver.
    pub(super) fn mounts(self, driver: &str, claims: &[&str]) -> Self {
        self.edit(|wishes| {
            let all = wishes.volumes.claims.entry(driver.to_owned()).or_default();
            all.extend(claims.iter().map(|claim| format!("default/{claim}")));
        })
    }

    /// Resource claims.
    pub(super) fn uses(mut self, claims: &[&str]) -> Self {
        self.0.uses_devices = true;
        self.0.resource_claims.extend(claims.iter().map(ToString::to_string));
        self
    }

    pub(super) fn daemon(mut self) -> Self {
        self.0.owner = PodOwner::DaemonSet;
        self
    }
}

/// Hard, skew 1, over pods labelled `app=test`, with the API's defaults.
pub(super) fn spread(name: &str) -> SpreadConstraint {
    SpreadConstraint {
        key: key(name).to_owned(),
        max_skew: 1,
        when: WhenUnsatisfiable::DoNotSchedule,
        selector: Some(selector("app=test")),
        min_domains: None,
        node_affinity_policy: NodePolicy::Honor,
        node_taints_policy: NodePolicy::Ignore,
    }
}

pub(super) fn soft(constraint: SpreadConstraint) -> SpreadConstraint {
    SpreadConstraint { when: WhenUnsatisfiable::ScheduleAnyway, ..constraint }
}

pub(super) fn skew(max_skew: u32, constraint: SpreadConstraint) -> SpreadConstraint {
    SpreadConstraint { max_skew, ..constraint }
}

pub(super) fn over(text: &str, constraint: SpreadConstraint) -> SpreadConstraint {
    SpreadConstraint { selector: Some(selector(text)), ..constraint }
}

pub(super) fn min_domains(count: u32, constraint: SpreadConstraint) -> SpreadConstraint {
    SpreadConstraint { min_domains: Some(count), ..constraint }
}

/// A term about pods of the default namespace.
pub(super) fn near(name: &str, labels: &str) -> AffinityTerm {
    AffinityTerm {
        key: key(name).to_owned(),
        selector: Some(selector(labels)),
        namespaces: Namespaces::only("default"),
    }
}

pub(super) fn exists(name: &str) -> Selector {
    let one = SelectorExpression { key: name.into(), operator: SelectorOperator::Exists, values: vec![] };
    Selector::new([one])
}

#[derive(Clone, Debug)]
pub(super) struct Pool(pub(super) PoolView);

/// NP of the fixtures, under another name if need be.
pub(super) fn pool(name: &str) -> Pool {
    let node_class = NodeClassRef { group: "test.sh".into(), kind: "TestClass".into(), name: "default".into() };
    let labels = BTreeMap::from([
        (labels::NODEPOOL.to_owned(), name.to_owned()),
        (node_class.label_key(), node_class.name.clone()),
    ]);
    let mut requirements = reqs("capacity In spot on-demand reserved");
    requirements.add_all(&Requirements::from_labels(&rules(), &labels));
    Pool(PoolView { limits: resources("cpu=2000"), node_class, labels, requirements, ..example::pool(name) })
}

impl Pool {
    pub(super) fn weight(mut self, weight: u32) -> Self {
        self.0.weight = weight;
        self
    }

    pub(super) fn require(mut self, text: &str) -> Self {
        text.split(';').for_each(|one| self.0.requirements.add_all(&reqs(one)));
        self
    }

    pub(super) fn label(mut self, text: &str) -> Self {
        let more = pairs(text).into_iter().map(|(name, value)| (key(&name).to_owned(), value));
        let more: BTreeMap<String, String> = more.collect();
        self.0.requirements.add_all(&Requirements::from_labels(&rules(), &more));
        self.0.labels.extend(more);
        self
    }

    pub(super) fn taint(mut self, text: &str) -> Self {
        self.0.taints.push(taint(text));
        self
    }

    pub(super) fn startup_taint(mut self, text: &str) -> Self {
        self.0.startup_taints.push(taint(text));
        self
    }

    /// Instead of the limits that NP has.
    pub(super) fn limits(mut self, text: &str) -> Self {
        self.0.limits = resources(text);
        self
    }
}

/// A node that is not ours.
pub(super) fn unmanaged(name: &str, allocatable: &str, node_labels: &str) -> ExistingNode {
    let mut labels: Labels =
        pairs(node_labels).into_iter().map(|(name, value)| (key(&name).to_owned(), value)).collect();
    labels.insert(labels::HOSTNAME.to_owned(), name.to_owned());
    let amounts = Shared::from(resources(allocatable));
    let node = NodeView {
        name: name.into(),
        uid: name.into(),
        provider_id: None,
        created_at: Timestamp::UNIX_EPOCH,
        deleting_since: None,
        has_finalizer: false,
        labels,
        annotations: Labels::new(),
        taints: vec![],
        capacity: amounts.clone(),
        allocatable: amounts,
        ready: true,
        conditions: Vec::new(),
        boot_id: String::new(),
    };
    ExistingNode { node: Some(Arc::new(node)), ..ExistingNode::default() }
}
