//! Which pods are on which node.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use karpenter_model::pod::{PodId, PodView};
use karpenter_model::text::Text;

use crate::ByName;

/// Pods by the node they are bound to, those of a node by name. Nodes are looked up and never listed, so they need no order.
#[derive(Debug, Default)]
pub(crate) struct Bound(
    #[expect(clippy::disallowed_types, reason = "looked up only; the hash has no secret")]
    std::collections::HashMap<Text, Vec<ByName>, BuildHasherDefault<DefaultHasher>>,
);

impl Bound {
    pub(crate) fn on(&self, node: &str) -> &[ByName] {
        self.0.get(node).map_or(&[], Vec::as_slice)
    }

    /// Another of its name goes.
    pub(crate) fn put(&mut self, node: &Text, pod: Arc<PodView>) {
        let pods = self.0.entry(node.clone()).or_default();
        match place(pods, &pod.id) {
            Ok(at) => pods[at] = ByName(pod),
            Err(at) => {
                // A node has few pods: room for one more takes less than room for twice as many.
                if pods.len() == pods.capacity() {
                    pods.reserve_exact(ROOM);
                }
                pods.insert(at, ByName(pod));
            }
        }
    }

    /// The pod that is known becomes the other, which has its name. It is found by where it is in memory, without a look at
    /// its neighbours.
    pub(crate) fn replace(&mut self, node: &str, known: &Arc<PodView>, pod: &Arc<PodView>) {
        let pods = self.0.get_mut(node).into_iter().flatten();
        if let Some(ByName(here)) = pods.into_iter().find(|here| Arc::ptr_eq(&here.0, known)) {
            *here = pod.clone();
        }
    }

    pub(crate) fn remove(&mut self, node: &str, id: &PodId) {
        let Some(pods) = self.0.get_mut(node) else { return };
        if let Ok(at) = place(pods, id) {
            pods.remove(at);
        }
        if pods.is_empty() {
            self.0.remove(node);
        }
    }
}

/// So many pods more.
const ROOM: usize = 8;

fn place(pods: &[ByName], id: &PodId) -> Result<usize, usize> {
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
}
