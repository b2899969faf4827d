//! One consistent picture of the cluster, which a decision is made on.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;

use crate::claim::ClaimView;
use crate::devices::DeviceFacts;
use crate::instance_type::InstanceType;
use crate::labels;
use crate::node::NodeView;
use crate::pod::{PodId, PodView};
use crate::pool::PoolView;
use crate::quantity::Quantity;
use crate::resources::{NODES, Resources};
use crate::shared::{Labels, Shared};
use crate::taints::Taint;

/// A pool with what its cloud offers it.
#[derive(Debug, Clone)]
pub struct PoolOffer {
    pub pool: Arc<PoolView>,
    pub instance_types: Arc<Vec<InstanceType>>,
    /// Capacity of the pool's nodes that are not going away, with `nodes` (SCH-239).
    pub usage: Resources,
}

/// A node, a claim, or both joined by provider ID (SCH-228).
#[derive(Debug, Clone, Default)]
pub struct ExistingNode {
    pub node: Option<Arc<NodeView>>,
    pub claim: Option<Arc<ClaimView>>,
    /// Requests of the pods bound to the node.
    pub requested: Shared<Resources>,
    /// Pods bound to the node that have not ended, by name. While nothing happens to them, one list from look to look.
    pub pods: Shared<Vec<Arc<PodView>>>,
    /// How many volumes each CSI driver that has reported to the node can attach; `None`: as many as one likes. For a
    /// driver that has not, the limit of the instance type holds (V15-103).
    pub volume_limits: BTreeMap<String, Option<u32>>,
    pub nominated_until: Option<Timestamp>,
    /// A disruption command has chosen it to go.
    pub marked: bool,
    /// A simulation asks what would become of its pods without it. Unlike those of nodes that are going, they have not lost
    /// their place yet.
    pub leaving: bool,
    /// It is to be rebooted, and has been draining for so long that it is no place for pods that wait
    /// ([`ClaimView::drains_for_long`]).
    pub held_up: bool,
    /// In a consolidation simulation: pods came or went so lately that pods which run elsewhere are not moved here
    /// (SCH-98).
    pub unsettled: bool,
}

impl ExistingNode {
    pub fn is_managed(&self) -> bool {
        self.claim.is_some()
    }

    /// Unmanaged nodes count as registered and initialized (SCH-231).
    pub fn is_initialized(&self) -> bool {
        !self.is_managed() || self.node.as_ref().is_some_and(|node| node.is_initialized())
    }

    fn is_registered(&self) -> bool {
        !self.is_managed() || self.node.as_ref().is_some_and(|node| node.is_registered())
    }

    /// The half that speaks for the entry: the claim until the node is registered (SCH-231).
    fn registered_node(&self) -> Option<&NodeView> {
        self.node.as_deref().filter(|_| self.is_registered())
    }

    pub fn name(&self) -> &str {
        match (self.registered_node(), &self.claim, &self.node) {
            (Some(node), _, _) => &node.name,
            (None, Some(claim), _) => &claim.name,
            (None, None, node) => node.as_ref().map_or("", |node| &node.name),
        }
    }

    pub fn labels(&self) -> &Labels {
        static NONE: LazyLock<Labels> = LazyLock::new(Labels::new);
        match (self.registered_node(), &self.claim) {
            (Some(node), _) => &node.labels,
            (None, Some(claim)) => &claim.labels,
            (None, None) => &NONE,
        }
    }

    /// The host name label, or the name (SCH-231).
    pub fn hostname(&self) -> &str {
        self.labels().get(labels::HOSTNAME).map_or(self.name(), String::as_str)
    }

    pub fn pool(&self) -> Option<&str> {
        self.labels().get(labels::NODEPOOL).map(String::as_str)
    }

    /// SCH-57: what keeps pods off, without what a starting node sheds by itself.
    pub fn taints(&self) -> Vec<Taint> {
        let taints = match (self.registered_node(), &self.claim) {
            (Some(node), _) => &node.taints,
            (None, Some(claim)) => &claim.taints,
            (None, None) => return Vec::new(),
        };
        let startup = self.claim.as_ref().map_or(&[][..], |claim| &claim.startup_taints);
        // A rebooting node comes back: until then its pods wait for it (V15-71), unless that takes too long.
        let rebooting = !self.held_up && self.claim.as_ref().is_some_and(|claim| claim.rebooting);
        let starting = self.is_managed() && (!self.is_initialized() || rebooting);
        let fence = Taint::rebooting();
        let sheds = |taint: &Taint| {
            taint.is_known_ephemeral()
                || startup.iter().any(|other| other.is_same(taint))
                || (rebooting && taint.is_same(&fence))
        };
        taints.iter().filter(|taint| !(starting && sheds(taint))).cloned().collect()
    }

    /// SCH-83: what the node reports; while it starts, gaps are filled from what its claim promised.
    fn amounts(
        &self,
        of_node: impl Fn(&NodeView) -> &Resources,
        of_claim: impl Fn(&ClaimView) -> &Resources,
    ) -> Resources {
        let reported = self.node.as_deref().map(of_node);
        let promised = self.claim.as_deref().map(of_claim).filter(|_| !self.is_initialized() || reported.is_none());
        let mut amounts = reported.cloned().unwrap_or_default();
        for (name, amount) in promised.into_iter().flat_map(Resources::iter) {
            if amounts.amount(name).is_zero() {
                amounts.set(name, amount);
            }
        }
        amounts
    }

    pub fn capacity(&self) -> Resources {
        self.amounts(|node| &node.capacity, |claim| &claim.capacity).with(NODES, Quantity::units(1))
    }

    pub fn allocatable(&self) -> Resources {
        self.amounts(|node| &node.allocatable, |claim| &claim.allocatable)
    }

    /// What further pods can have.
    pub fn available(&self) -> Resources {
        let mut available = self.allocatable();
        available.subtract(&self.requested);
        available
    }

    /// SCH-232.
    pub fn is_going(&self) -> bool {
        if self.marked {
            return true;
        }
        match (&self.claim, &self.node) {
            (Some(claim), _) => {
                claim.deleting_since.is_some()
                    || claim.instance_terminating.is_some_and(crate::claim::ConditionView::is_true)
            }
            (None, node) => node.as_ref().is_some_and(|node| node.deleting_since.is_some()),
        }
    }

    /// Whether pods could be sent here, as far as its own future goes.
    pub fn stays(&self) -> bool {
        !self.is_going() && !self.leaving
    }
}

/// What a scheduling pass looks at. Everything is ordered, so that equal clusters give equal plans.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Usable pools, in order of precedence.
    pub pools: Vec<PoolOffer>,
    /// By name. Nodes that are going are among them: their pods still count where pods are counted.
    pub nodes: Vec<ExistingNode>,
    /// Pods that wait for capacity, by namespace and name.
    pub pending: BTreeMap<PodId, Arc<PodView>>,
    /// One pod per DaemonSet: what it will run on a node that it accepts.
    pub daemons: Vec<Arc<PodView>>,
    /// Instances that a simulation would give back to a reservation first, by its id (V15-76).
    pub reservation_credits: BTreeMap<String, u32>,
    /// Labels of all namespaces.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// What is known about devices; `None` when nobody asks, so that pods which use some cannot be planned (SCH-191).
    pub devices: Option<Arc<DeviceFacts>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::REBOOT_PRE_BOOT_ID;
    use crate::claim::{RebootView, Status};
    use crate::example;
    use crate::taints::Effect;

    /// V15-71, VC-76: a rebooting node comes back, so that its fence and what it sheds while it starts keep nobody off its
    /// capacity; the fence alone, on a node that does not reboot, does.
    #[test]
    fn vc_76_taints_of_rebooting_nodes() {
        let own = Taint::new("team", "a", Effect::NoSchedule);
        let startup = Taint::new("agent", "", Effect::NoSchedule);
        let starting = Taint::new("node.kubernetes.io/not-ready", "", Effect::NoExecute);
        let labels = [labels::REGISTERED, labels::INITIALIZED].map(|key| (key.to_owned(), "true".to_owned()));
        let node = NodeView {
            labels: labels.into(),
            taints: vec![own.clone(), startup.clone(), starting.clone(), Taint::rebooting()],
            ..example::node("n")
        };
        let claim = ClaimView { startup_taints: vec![startup.clone()], ..example::claim("c") };
        let mut entry =
            ExistingNode { node: Some(Arc::new(node)), claim: Some(Arc::new(claim)), ..ExistingNode::default() };
        assert_eq!(entry.taints(), [own.clone(), startup, starting, Taint::rebooting()]);
        Arc::make_mut(entry.claim.as_mut().unwrap()).rebooting = true;
        assert_eq!(entry.taints(), std::slice::from_ref(&own));
        entry.held_up = true;
        assert!(entry.taints().contains(&Taint::rebooting()), "nobody can say when it comes back");
    }

    /// V15-71: pods wait for a node that drains for a reboot, but not for hours; and again for one that is about to restart.
    #[test]
    fn a_drain_is_not_waited_for_without_end() {
        let second = |second| Timestamp::from_second(second).unwrap();
        let reboot = |reason: &str| RebootView {
            status: Status::True,
            reason: reason.to_owned(),
            message: String::new(),
            since: second(1000),
        };
        let drains = ClaimView { rebooting: true, reboot: Some(reboot("RebootRequested")), ..example::claim("c") };
        let asked = [(REBOOT_PRE_BOOT_ID.to_owned(), String::new())];
        let is_asked_for = ClaimView { annotations: asked.into(), ..drains.clone() };
        let restarts = ClaimView { reboot: Some(reboot("RebootIssued")), ..drains.clone() };
        let ended = ClaimView { rebooting: false, ..drains.clone() };
        for (claim, at, want) in [
            (&drains, 1119, false),
            (&drains, 1120, true),
            (&is_asked_for, 90_000, false),
            (&restarts, 90_000, false),
            (&ended, 90_000, false),
        ] {
            assert_eq!(claim.drains_for_long(second(at)), want, "{at} {:?}", claim.reboot);
        }
    }
}
