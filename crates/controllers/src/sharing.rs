//! What nodes, claims and pods have in common is kept once: ten thousand nodes have a few hundred kinds of labels, and as many
//! resources as there are instance types.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use karpenter_model::claim::ClaimView;
use karpenter_model::labels::HOSTNAME;
use karpenter_model::node::NodeView;
use karpenter_model::pod::PodClass;
use karpenter_model::requirements::Requirements;
use karpenter_model::resources::Resources;
use karpenter_model::shared::Shared;
use karpenter_model::text::Text;

/// Labels that no two pods of a workload share.
const OF_ONE_POD: [&str; 3] =
    ["statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index"];

type Map = BTreeMap<String, String>;

#[derive(Debug, Default)]
pub(crate) struct Sharing {
    maps: Table<Shared<Map>, Map>,
    requirements: Table<Shared<Requirements>, Requirements>,
    /// By their text: equal amounts may be written differently.
    resources: Table<String, Resources>,
    texts: Texts,
}

impl Sharing {
    /// A name that many say.
    pub(crate) fn text(&mut self, text: &str) -> Text {
        self.texts.shared(text)
    }

    pub(crate) fn node(&mut self, node: &mut NodeView) {
        self.maps.share(node.labels.common(|key| key == HOSTNAME));
        self.maps.share(node.annotations.common(|_| false));
        self.resources.share_text(&mut node.capacity);
        self.resources.share_text(&mut node.allocatable);
    }

    pub(crate) fn claim(&mut self, claim: &mut ClaimView) {
        self.maps.share(claim.labels.common(|key| key == HOSTNAME));
        self.maps.share(claim.annotations.common(|_| false));
        self.requirements.share(&mut claim.requirements);
        self.resources.share_text(&mut claim.capacity);
        self.resources.share_text(&mut claim.allocatable);
        claim.requests.shrink_to_fit();
    }

    pub(crate) fn pod(&mut self, class: &mut PodClass) {
        self.maps.share(class.labels.common(|key| OF_ONE_POD.contains(&key)));
    }
}

/// Names that somebody says, dropped as the values of a [`Table`] are.
#[derive(Debug, Default)]
struct Texts {
    known: HashSet<Text>,
    look_again_at: usize,
}

impl Texts {
    fn shared(&mut self, text: &str) -> Text {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        if self.known.len() >= self.look_again_at.max(FEW) {
            self.known.retain(|known| known.owners() > 1);
            self.look_again_at = self.known.len() * 2;
        }
        let text = Text::from(text);
        self.known.insert(text.clone());
        text
    }
}

/// Values that somebody has. What nobody has any more is dropped when the number of entries has doubled.
#[derive(Debug)]
struct Table<K, T> {
    known: HashMap<K, Shared<T>>,
    look_again_at: usize,
}

impl<K, T> Default for Table<K, T> {
    fn default() -> Self {
        Self { known: HashMap::new(), look_again_at: FEW }
    }
}

/// Small tables are not worth a look.
const FEW: usize = 256;

impl<K: Hash + Eq, T> Table<K, T> {
    /// Makes the value one with its like, of which `in_table` owners are this table.
    fn share_as(&mut self, key: K, value: &mut Shared<T>, in_table: usize) {
        if let Some(known) = self.known.get(&key) {
            *value = known.clone();
            return;
        }
        if self.known.len() >= self.look_again_at {
            self.known.retain(|_, known| known.owners() > in_table);
            self.look_again_at = FEW.max(self.known.len() * 2);
        }
        self.known.insert(key, value.clone());
    }
}

impl<T: Hash + Eq> Table<Shared<T>, T> {
    fn share(&mut self, value: &mut Shared<T>) {
        // Once as the key, once as the value.
        self.share_as(value.clone(), value, 2);
    }
}

impl Table<String, Resources> {
    fn share_text(&mut self, value: &mut Shared<Resources>) {
        self.share_as(value.to_string(), value, 1);
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::example;
    use karpenter_model::requirements::Requirement;

    use super::*;

    fn node(name: &str) -> NodeView {
        let labels = [("zone", "z1"), (HOSTNAME, name)].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let capacity = Resources::new().with("cpu", "4".parse().unwrap());
        NodeView { labels: labels.into(), capacity: capacity.into(), ..example::node(name) }
    }

    /// Sharing changes nothing but where things are.
    #[test]
    fn what_is_alike_is_one() {
        let mut sharing = Sharing::default();
        let (mut a, mut b) = (node("a"), node("b"));
        sharing.node(&mut a);
        sharing.node(&mut b);
        assert_eq!((&a, &b), (&node("a"), &node("b")));
        assert!(a.capacity.is_one_with(&b.capacity));
        assert!(a.labels.common(|_| false).is_one_with(b.labels.common(|_| false)));
        let claim = |name: &str, memory: &str| ClaimView {
            requirements: Requirements::from_iter([Requirement::any_of("zone", ["z1"])]).into(),
            allocatable: Resources::new().with("memory", memory.parse().unwrap()).into(),
            ..example::claim(name)
        };
        let (mut one, mut other) = (claim("one", "1Gi"), claim("other", "1073741824"));
        sharing.claim(&mut one);
        sharing.claim(&mut other);
        assert!(one.requirements.is_one_with(&other.requirements));
        assert_eq!(
            (one.allocatable.to_string(), other.allocatable.to_string()),
            ("memory: 1Gi".to_owned(), "memory: 1073741824".to_owned()),
            "as they were written"
        );
    }

    #[test]
    fn a_name_is_one_as_long_as_somebody_says_it() {
        let mut texts = Texts::default();
        let kept = texts.shared("kept");
        for number in 0..10 * FEW {
            texts.shared(&number.to_string());
        }
        assert!(texts.shared("kept").is_one_with(&kept));
        assert!(texts.known.len() <= 2 * FEW, "{}", texts.known.len());
    }

    #[test]
    fn what_nobody_has_is_dropped() {
        let mut table: Table<Shared<usize>, usize> = Table::default();
        let kept: Vec<Shared<usize>> = (0..10 * FEW)
            .filter_map(|number| {
                let mut value = Shared::from(number);
                table.share(&mut value);
                (number % 100 == 0).then_some(value)
            })
            .collect();
        assert!(table.known.len() <= 2 * FEW, "{}", table.known.len());
        assert!(kept.iter().all(|value| table.known.contains_key(value)));
    }
}
