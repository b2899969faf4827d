//! How many more nodes of a pool may go for a reason (DIS-53 … DIS-63, V15-42, V15-43).

use jiff::Timestamp;
use karpenter_model::budget::{Budgets, DisruptionReason};

/// What a node of a pool is to its pool's budgets. Facts, so that every method counts alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    pub initialized: bool,
    pub rebooting: bool,
    /// The instance is being terminated: the node no longer counts at all.
    pub instance_terminating: bool,
    /// For whatever reason: own commands, expiration, repair, by hand.
    pub marked_for_deletion: bool,
    /// The node's `Ready` condition is True.
    pub ready: bool,
}

impl Counted {
    fn counts(self) -> bool {
        (self.initialized || self.rebooting) && !self.instance_terminating
    }

    /// Sick nodes hold back everything but their own repair (V15-43).
    fn consumes(self, reason: DisruptionReason) -> bool {
        self.marked_for_deletion || self.rebooting || (reason != DisruptionReason::Unhealthy && !self.ready)
    }
}

/// The budget of a pool for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowance {
    pub nodes: u32,
    /// Before those under way are taken off.
    pub allowed: u32,
    pub consuming: u32,
}

impl Allowance {
    pub fn remaining(&self) -> u32 {
        self.allowed.saturating_sub(self.consuming)
    }

    /// Takes one of those that may go; false when there is none left.
    pub fn take(&mut self) -> bool {
        let any = self.remaining() > 0;
        self.consuming = self.consuming.saturating_add(u32::from(any));
        any
    }

    /// The pool's author closed it for this reason, and there is something that it closes (DIS-61).
    pub fn is_closed(&self) -> bool {
        self.nodes > 0 && self.allowed == 0
    }
}

/// Managed nodes of one pool in, its allowance out.
pub fn allowance<'a>(
    budgets: &Budgets,
    reason: DisruptionReason,
    nodes: impl IntoIterator<Item = &'a Counted>,
    now: Timestamp,
) -> Allowance {
    let (mut counted, mut consuming) = (0_u32, 0_u32);
    for node in nodes.into_iter().filter(|node| node.counts()) {
        counted = counted.saturating_add(1);
        consuming = consuming.saturating_add(u32::from(node.consumes(reason)));
    }
    Allowance { nodes: counted, allowed: budgets.allowed(reason, counted, now), consuming }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_model::budget::Budget;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;
    const FINE: Counted = Counted {
        initialized: true,
        rebooting: false,
        instance_terminating: false,
        marked_for_deletion: false,
        ready: true,
    };

    fn budgets(nodes: &str) -> Budgets {
        Budgets::Parsed(vec![Budget { nodes: nodes.parse().unwrap(), reasons: None, window: None }])
    }

    fn remaining(nodes: &str, reason: DisruptionReason, fine: usize, others: &[Counted]) -> u32 {
        let all: Vec<Counted> = std::iter::repeat_n(FINE, fine).chain(others.iter().copied()).collect();
        allowance(&budgets(nodes), reason, &all, NOW).remaining()
    }

    /// DIS-57 … DIS-60, V15-43, DC-39 … DC-43, DC-60: fine nodes, others, and what may still go.
    #[test]
    fn what_counts_and_what_consumes() {
        use DisruptionReason::{Empty, Unhealthy};
        let young = Counted { initialized: false, ready: false, ..FINE };
        let ending = Counted { instance_terminating: true, marked_for_deletion: true, ..FINE };
        let marked = Counted { marked_for_deletion: true, ..FINE };
        let sick = Counted { ready: false, ..FINE };
        let rebooting = Counted { rebooting: true, initialized: false, ready: false, ..FINE };
        for (case, nodes, reason, fine, others, want) in [
            ("DC-39", "100%", Empty, 10, vec![], 10),
            ("DC-40, not initialized", "100%", Empty, 10, vec![young], 10),
            ("DC-40, instance terminating", "100%", Empty, 10, vec![ending], 10),
            ("DC-41, never below nothing", "10%", Empty, 0, vec![marked; 10], 0),
            ("DC-42, deleting", "100%", Empty, 8, vec![marked; 2], 8),
            ("DC-42, not ready", "100%", Empty, 8, vec![sick; 2], 8),
            ("DC-43", "50%", Empty, 3, vec![], 2),
            ("DC-43", "20%", Empty, 19, vec![], 4),
            ("DC-43", "5%", Empty, 10, vec![], 1),
            ("DC-43", "1%", Empty, 1, vec![], 1),
            ("DC-60", "2", Empty, 8, vec![marked; 2], 0),
            ("DC-60, instances terminating", "2", Empty, 8, vec![ending; 2], 2),
            ("V15-43, the sick do not starve their repair", "2", Unhealthy, 8, vec![sick; 2], 2),
            ("V15-43, a reboot under way does", "2", Unhealthy, 8, vec![rebooting; 2], 0),
            ("V15-43, and counts", "100%", Unhealthy, 8, vec![rebooting; 2], 8),
            ("VC-51", "100%", Unhealthy, 8, vec![sick; 2], 10),
            ("VC-51", "100%", Empty, 8, vec![sick; 2], 8),
            ("VC-52", "100%", Unhealthy, 8, vec![marked; 2], 8),
            ("VC-53, draining", "10", Unhealthy, 8, vec![Counted { rebooting: true, ..FINE }; 2], 8),
            ("VC-53, issued", "10", Empty, 8, vec![rebooting; 2], 8),
        ] {
            assert_eq!(remaining(nodes, reason, fine, &others), want, "{case}");
        }
    }

    /// DIS-61, DC-53: a closed budget is worth telling only where there are nodes.
    #[test]
    fn closed_pools() {
        let of =
            |nodes: &str, all: &[Counted]| allowance(&budgets(nodes), DisruptionReason::Empty, all, NOW).is_closed();
        assert!(of("0", &[FINE]));
        assert!(!of("0", &[]));
        assert!(!of("1", &[Counted { ready: false, ..FINE }]), "used up is not closed");
    }
}
