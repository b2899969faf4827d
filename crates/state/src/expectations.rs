//! Which claim each pod is expected on (SCH-25), with the way back (Y35).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::pod::PodId;

#[derive(Debug, Default)]
pub struct Expectations {
    claims: BTreeMap<PodId, String>,
    pods: BTreeMap<String, BTreeSet<PodId>>,
}

impl Expectations {
    /// The last decision about a pod counts.
    pub fn expect(&mut self, pod: &PodId, claim: Option<&str>) {
        if let Some(old) = self.claims.remove(pod)
            && let Some(pods) = self.pods.get_mut(&old)
        {
            pods.remove(pod);
            if pods.is_empty() {
                self.pods.remove(&old);
            }
        }
        if let Some(claim) = claim {
            self.claims.insert(pod.clone(), claim.to_owned());
            self.pods.entry(claim.to_owned()).or_default().insert(pod.clone());
        }
    }

    pub fn claim_of(&self, pod: &PodId) -> Option<&str> {
        self.claims.get(pod).map(String::as_str)
    }

    pub fn pods_of(&self, claim: &str) -> impl Iterator<Item = &PodId> {
        self.pods.get(claim).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SCH-25, SCH-237, SC-25, Y35: the last decision counts, and claims know their pods.
    #[test]
    fn pods_are_found_from_claims_and_back() {
        let pod = |name: &str| PodId::new("default", name);
        let mut all = Expectations::default();
        all.expect(&pod("a"), Some("x"));
        all.expect(&pod("b"), Some("x"));
        all.expect(&pod("a"), Some("y"));
        assert_eq!(all.pods_of("x").collect::<Vec<_>>(), [&pod("b")]);
        assert_eq!((all.claim_of(&pod("a")), all.pods_of("y").count()), (Some("y"), 1));
        all.expect(&pod("a"), None);
        assert_eq!((all.claim_of(&pod("a")), all.pods_of("y").count(), all.pods.len()), (None, 0, 1));
    }
}
