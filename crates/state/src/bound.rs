//! Which pods are on which node.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, OnceLock};

use karpenter_model::pod::{PodId, PodView};
use karpenter_model::resources::Resources;
use karpenter_model::shared::Shared;
use karpenter_model::text::Text;

/// Pods by the node they are bound to. Nodes are looked up and never listed, so they need no order.
#[derive(Debug, Default)]
pub(crate) struct Bound(
    #[expect(clippy::disallowed_types, reason = "looked up only; the hash has no secret")]
    std::collections::HashMap<Text, OnNode, BuildHasherDefault<DefaultHasher>>,
);

/// Looks at the cluster share these: a change while one of them is held makes a copy, so who holds the same list knows that nothing has
/// happened to the pods of the node.
#[derive(Debug, Default)]
struct OnNode {
    /// By name.
    pods: Shared<Vec<Arc<PodView>>>,
    /// What they request together, once somebody has asked.
    requested: OnceLock<Shared<Resources>>,
}

impl Bound {
    pub(crate) fn on(&self, node: &str) -> &[Arc<PodView>] {
        self.0.get(node).map_or(&[], |here| here.pods.as_slice())
    }

    /// The pods of a node, and what they request.
    pub(crate) fn shared(&self, node: &str) -> (Shared<Vec<Arc<PodView>>>, Shared<Resources>) {
        let Some(here) = self.0.get(node) else { return Default::default() };
        let sum = || {
            let mut requested = Resources::new();
            here.pods.iter().for_each(|pod| requested.add(&pod.requests));
            requested.shrink_to_fit();
            requested.into()
        };
        (here.pods.clone(), here.requested.get_or_init(sum).clone())
    }

    /// Another of its name goes.
    pub(crate) fn put(&mut self, node: &Text, pod: Arc<PodView>) {
        let here = self.0.entry(node.clone()).or_default();
        here.requested.take();
        let pods = &mut *here.pods;
        match place(pods, &pod.id) {
            Ok(at) => pods[at] = pod,
            Err(at) => {
                // A node has few pods: room for one more takes less than room for twice as many.
                if pods.len() == pods.capacity() {
                    pods.reserve_exact(ROOM);
                }
                pods.insert(at, pod);
            }
        }
    }

    /// The pod that is known becomes the other, which has its name and its class. It is found by where it is in memory, without a look at
    /// its neighbours.
    pub(crate) fn replace(&mut self, node: &str, known: &Arc<PodView>, pod: &Arc<PodView>) {
        let Some(here) = self.0.get_mut(node) else { return };
        if let Some(at) = here.pods.iter().position(|here| Arc::ptr_eq(here, known)) {
            here.pods[at] = pod.clone();
        }
    }

    pub(crate) fn remove(&mut self, node: &str, id: &PodId) {
        let Some(here) = self.0.get_mut(node) else { return };
        let Ok(at) = place(&here.pods, id) else { return };
        here.requested.take();
        here.pods.remove(at);
        if here.pods.is_empty() {
            self.0.remove(node);
        }
    }
}

/// So many pods more.
const ROOM: usize = 8;

fn place(pods: &[Arc<PodView>], id: &PodId) -> Result<usize, usize> {
    pods.binary_search_by(|pod| pod.id.cmp(id))
}

#[cfg(test)]
mod tests {
    use karpenter_model::example;

    use super::*;

    #[test]
    fn pods_of_a_node_are_by_name_and_each_once() {
        let mut bound = Bound::default();
        let node = Text::from("n");
        let pods: Vec<Arc<PodView>> = ["b", "c", "a"].map(|name| Arc::new(example::pod(name))).into();
        for pod in pods.iter().chain(&pods) {
            bound.put(&node, pod.clone());
        }
        let names =
            |bound: &Bound| bound.on("n").iter().map(|pod| pod.id.name.to_string()).collect::<Vec<_>>().concat();
        assert_eq!((names(&bound).as_str(), bound.on("m").len()), ("abc", 0));
        let ready = Arc::new(PodView { ready: true, ..example::pod("b") });
        bound.replace("n", &pods[1], &pods[1].clone());
        bound.replace("n", &pods[0], &ready);
        assert_eq!((names(&bound).as_str(), bound.on("n")[1].ready), ("abc", true));
        for pod in &pods {
            bound.remove("n", &pod.id);
        }
        assert!(bound.0.is_empty());
    }

    /// Who holds a list holds it as it was; while nothing happens, all hold the same.
    #[test]
    fn looks_share_what_has_not_changed() {
        let (mut bound, node) = (Bound::default(), Text::from("n"));
        let asks = |name: &str| Arc::new(example::pod(name));
        bound.put(&node, asks("a"));
        let (pods, requested) = bound.shared("n");
        assert!(pods.is_one_with(&bound.shared("n").0) && requested.is_one_with(&bound.shared("n").1));
        bound.put(&node, asks("b"));
        let (more, twice) = bound.shared("n");
        assert_eq!((pods.len(), more.len()), (1, 2));
        let mut sum = Resources::clone(&requested);
        sum.add(&asks("b").requests);
        assert_eq!(*twice, sum);
        bound.remove("n", &more[1].id);
        assert_eq!((bound.shared("n").1, bound.shared("m").0.len()), (requested, 0));
        assert_eq!(more.len(), 2, "still held as it was");
    }
}
