//! Which DaemonSets run where.

use karpenter_model::pod::{PodOwner, PodView};
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirements, Undefined};
use karpenter_model::resources::Resources;
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use karpenter_model::taints::{Taint, Toleration, first_untolerated};

/// DaemonSets put up with `PreferNoSchedule` (SCH-56).
pub(crate) fn accepts_taints(daemon: &PodView, taints: &[Taint]) -> bool {
    let mut tolerations = daemon.scheduling.tolerations.clone();
    tolerations.push(Toleration::prefer_no_schedule());
    first_untolerated(taints, &tolerations).is_none()
}

/// The node selector with each required term in turn.
pub(crate) fn alternatives(daemon: &PodView) -> impl Iterator<Item = Requirements> + '_ {
    let scheduling = &daemon.scheduling;
    let none = scheduling.required_terms.is_empty().then(Requirements::new);
    none.into_iter().chain(scheduling.required_terms.iter().cloned()).map(|term| {
        let mut all = scheduling.node_selector.clone();
        all.add_all(&term);
        all
    })
}

/// DaemonSets that will run on an existing node and are not there yet (SCH-77).
pub(crate) fn missing_daemons(snapshot: &Snapshot, node: &ExistingNode, labels: &Requirements) -> Resources {
    let taints = node.taints();
    let mut missing = Resources::new();
    for daemon in snapshot.daemons.iter().filter(|daemon| accepts_taints(daemon, &taints)) {
        if alternatives(daemon).any(|asked| labels.is_compatible(&asked, Undefined::Denied)) {
            missing.add(&daemon.requests);
        }
    }
    let running = node.pods.iter().filter(|pod| pod.owner == PodOwner::DaemonSet);
    let mut present = Resources::new();
    running.for_each(|pod| present.add(&pod.requests));
    missing.subtract(&present);
    missing.iter().map(|(name, amount)| (name.to_owned(), amount.max(Quantity::ZERO))).collect()
}
