//! What was said of pods like this one a moment ago: in a crowd of equal pods all are refused for the same reasons.

use std::collections::VecDeque;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::super::decision::Unfit;
use super::super::pod_info::nominated_node;
use super::super::preemption::Nomination;

/// More sorts of pods that wait at one time are decided on one by one.
const KEPT: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Of the cluster that the answers are about.
    version: u64,
    answers: VecDeque<(Arc<Pod>, Unfit)>,
}

/// Whether filters cannot tell them apart: volumes and nominations may be a pod's own.
fn are_alike(a: &Pod, b: &Pod) -> bool {
    let own = |pod: &Pod| {
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
        nominated_node(pod).is_some() || volumes.is_some_and(|volumes| !volumes.is_empty())
    };
    a.metadata.namespace == b.metadata.namespace
        && a.metadata.labels == b.metadata.labels
        && a.spec == b.spec
        && !own(a)
        && !own(b)
}

impl Refusals {
    /// What was said of such a pod, if nothing has happened since.
    pub(super) fn of(&self, version: u64, pod: &Pod) -> Option<Unfit> {
        let known = self.answers.iter().filter(|_| self.version == version);
        known.into_iter().find(|(other, _)| are_alike(other, pod)).map(|(_, unfit)| unfit.clone())
    }

    pub(super) fn note(&mut self, version: u64, pod: &Arc<Pod>, unfit: &Unfit) {
        if self.version != version {
            self.answers.clear();
            self.version = version;
        }
        // Others that are told to go are gone for the next one.
        if matches!(unfit.nomination, Nomination::Set(_)) {
            return;
        }
        self.answers.push_back((Arc::clone(pod), unfit.clone()));
        if self.answers.len() > KEPT {
            self.answers.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use karpenter_testkit::build;

    use super::*;

    #[test]
    fn equal_pods_are_refused_alike_until_something_changes() {
        let unfit = Unfit { message: "full".to_owned(), filters: BTreeSet::new(), nomination: Nomination::Clear };
        let pod = |name: &str, cpu: &str| build::pod(name).uid(name).cpu(cpu).build();
        let mut refusals = Refusals::default();
        refusals.note(7, &Arc::new(pod("a", "1")), &unfit);
        assert_eq!(refusals.of(7, &pod("b", "1")), Some(unfit.clone()));
        assert_eq!(refusals.of(7, &pod("b", "2")), None, "asks for something else");
        assert_eq!(refusals.of(8, &pod("b", "1")), None, "something has changed");
        let mut meant = pod("b", "1");
        meant.status.get_or_insert_default().nominated_node_name = Some("n".to_owned());
        assert_eq!(refusals.of(7, &meant), None, "a node is kept for it");
        refusals.note(8, &Arc::new(pod("a", "2")), &unfit);
        assert_eq!((refusals.of(7, &pod("b", "1")), refusals.of(8, &pod("b", "1"))), (None, None));
    }
}
