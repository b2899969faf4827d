//! Which badges a selector can mean, and which nodes have pods with a badge, without looking at all of them.

use std::collections::BTreeMap;

use karpenter_model::selector::{Selector, SelectorOperator};

use super::super::group::Identity;
use super::super::intern::{Id, id};
use super::super::nodes::Node;
use super::super::pods::{Badge, BadgeId};

/// So few are looked through.
const FEW: usize = if cfg!(test) { 2 } else { 32 };

#[derive(Debug, Default)]
pub(super) struct Badges {
    /// By key and value of a label; empty while there are few badges.
    labels: BTreeMap<String, BTreeMap<String, Vec<BadgeId>>>,
    namespaces: BTreeMap<String, Vec<BadgeId>>,
    known: usize,
    /// By badge: nodes with pods that wear it, and how many.
    holders: Option<Vec<Vec<(Id, u32)>>>,
}

impl Badges {
    /// Badges that the group might be about, ascending: those in its namespaces, and of these, where the selector lists
    /// values of a label, those with one of the values.
    pub(super) fn meant_by(&mut self, identity: &Identity, badges: &[Badge]) -> Vec<BadgeId> {
        if badges.len() <= FEW {
            return (0..badges.len()).map(id).collect();
        }
        self.know(badges);
        let listed =
            |selector: &Selector| selector.expressions().iter().position(|one| one.operator == SelectorOperator::In);
        let selector = identity.selector.as_ref();
        let mut meant: Vec<BadgeId> = Vec::new();
        match selector.and_then(|selector| Some(&selector.expressions()[listed(selector)?])) {
            Some(expression) => {
                let values = self.labels.get(&expression.key);
                for value in &expression.values {
                    meant.extend(values.and_then(|values| values.get(value)).into_iter().flatten());
                }
            }
            None => meant.extend(identity.namespaces.iter().filter_map(|name| self.namespaces.get(name)).flatten()),
        }
        meant.sort_unstable();
        meant
    }

    fn know(&mut self, badges: &[Badge]) {
        for (at, badge) in badges.iter().enumerate().skip(self.known) {
            let at = id(at);
            let of_namespace = self.namespaces.entry(badge.namespace.clone()).or_default();
            of_namespace.push(at);
            for (key, value) in &badge.labels {
                self.labels.entry(key.clone()).or_default().entry(value.clone()).or_default().push(at);
            }
        }
        self.known = badges.len();
    }

    /// A node has so many pods of a badge now.
    pub(super) fn hold(&mut self, badge: BadgeId, node: usize, count: u32) {
        // Nobody has asked yet, and whoever does looks at all nodes.
        let Some(holders) = &mut self.holders else { return };
        if holders.len() <= badge as usize {
            holders.resize(badge as usize + 1, Vec::new());
        }
        let holders = &mut holders[badge as usize];
        match (holders.binary_search_by_key(&id(node), |(node, _)| *node), count) {
            (Ok(at), 0) => drop(holders.remove(at)),
            (Ok(at), _) => holders[at].1 = count,
            (Err(_), 0) => {}
            (Err(at), _) => holders.insert(at, (id(node), count)),
        }
    }

    /// Nodes with pods of a badge, and how many.
    pub(super) fn holders(&mut self, badge: BadgeId, nodes: &[Node]) -> &[(Id, u32)] {
        let holders = self.holders.get_or_insert_with(|| {
            let mut holders: Vec<Vec<(Id, u32)>> = Vec::new();
            for (at, node) in nodes.iter().enumerate() {
                for (badge, count) in &node.badges {
                    let badge = *badge as usize;
                    if holders.len() <= badge {
                        holders.resize(badge + 1, Vec::new());
                    }
                    holders[badge].push((id(at), *count));
                }
            }
            holders
        });
        holders.get(badge as usize).map_or(&[], Vec::as_slice)
    }
}
