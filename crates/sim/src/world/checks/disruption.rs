//! What must hold when nodes are taken away on purpose: budgets are kept, taints come to an end, and money is saved.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_apiserver::Written;
use serde_json::Value;

use super::{Violation, name};

/// On claims that go: the command, as JSON. On claims that come for them: the command's id.
pub(super) const COMMAND: &str = "karpenter.sh/disruption-command";
const REPLACES: &str = "karpenter.sh/replacement-for";
/// Methods that are there to save money.
pub(super) const SAVING: [&str; 3] = ["emptiness", "multi", "single"];
/// A command may wait for its replacements for this long: ten minutes and some for each node, and whoever leads next begins
/// to count anew.
const RELEASED_AFTER: SignedDuration = SignedDuration::from_mins(45);

#[derive(Debug, Default)]
pub(super) struct Disruptions {
    /// Claims that some command has chosen, with pool and reason.
    going: BTreeMap<String, (String, String)>,
    /// Nodes that budgets count at the last look, by pool.
    totals: BTreeMap<String, i64>,
    tainted_since: BTreeMap<String, Timestamp>,
    /// What each machine cost at the last look.
    worth: BTreeMap<String, f64>,
    /// Those of which some node is still there.
    commands: BTreeMap<String, Command>,
    /// How many are over.
    past: usize,
    /// Claims that were found to be what they replace.
    same: BTreeSet<String>,
}

/// What a command takes and gives, in dollars an hour by claim.
#[derive(Debug, Default)]
struct Command {
    saves: bool,
    nodes: usize,
    takes: BTreeMap<String, f64>,
    gives: BTreeMap<String, f64>,
}

/// What there is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) nodes: &'a [Arc<Value>],
    pub(super) claims: &'a [Arc<Value>],
    /// What happened to claims since the last look, in order.
    pub(super) written: &'a [Written],
    pub(super) pools: &'a [Arc<Value>],
    /// What each machine costs now, by provider id.
    pub(super) worth: &'a BTreeMap<String, f64>,
    /// By what share prices may have moved between a decision and a launch.
    pub(super) swing: f64,
    pub(super) now: Timestamp,
}

impl Disruptions {
    pub(super) fn commands(&self) -> usize {
        self.past + self.commands.len()
    }

    pub(super) fn look(&mut self, scene: Scene<'_>) -> Vec<Violation> {
        let mut found = self.budgets(scene);
        found.extend(self.taints(scene));
        found.extend(self.costs(scene));
        found.extend(self.same_again(scene));
        found
    }

    /// Nothing comes for the sake of money that is what goes for it: the old one could have stayed. Both are there for a
    /// while, so that prices of one moment are compared.
    fn same_again(&mut self, scene: Scene<'_>) -> Vec<Violation> {
        let sold = |claim: &Value| {
            let price = scene.worth.get(claim["status"]["providerID"].as_str()?)?;
            Some((text(&claim["metadata"]["labels"]["node.kubernetes.io/instance-type"]), price.to_bits()))
        };
        let mut going: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
        for claim in scene.claims {
            let command = claim["metadata"]["annotations"][COMMAND].as_str();
            let command = command.and_then(|text| serde_json::from_str::<Value>(text).ok()).unwrap_or_default();
            if SAVING.contains(&command["method"].as_str().unwrap_or_default())
                && let Some(sold) = sold(claim)
            {
                going.entry(text(&command["id"])).or_default().push(sold);
            }
        }
        let mut found = Vec::new();
        for claim in scene.claims {
            let Some(command) = claim["metadata"]["annotations"][REPLACES].as_str() else { continue };
            let Some(sold) = sold(claim).filter(|(instance_type, _)| !instance_type.is_empty()) else { continue };
            let same = going.get(command).is_some_and(|going| going.contains(&sold));
            if same && self.same.insert(name(claim).to_owned()) {
                let (command, claim, instance_type) = (command.to_owned(), name(claim).to_owned(), sold.0);
                found.push(Violation::SameAgain { command, claim, instance_type });
            }
        }
        found
    }

    /// Whoever is chosen was chosen within the budget of its pool and reason (DIS-53 … DIS-59), at the very moment at which it was.
    fn budgets(&mut self, scene: Scene<'_>) -> Vec<Violation> {
        let mut totals = BTreeMap::new();
        for pool in scene.pools {
            let labels = |node: &Value, key: &str| text(&node["metadata"]["labels"][key]);
            let of_pool = |node: &&Arc<Value>| {
                labels(node, "karpenter.sh/nodepool") == name(pool)
                    && labels(node, "karpenter.sh/initialized") == "true"
            };
            let count = i64::try_from(scene.nodes.iter().filter(of_pool).count()).unwrap_or(i64::MAX);
            let before = self.totals.insert(name(pool).to_owned(), count).unwrap_or(0);
            totals.insert(name(pool), count.max(before));
        }
        let mut found = Vec::new();
        for written in scene.written {
            match (&written.new, &written.old) {
                (Some(claim), _) => found.extend(self.choose(claim, scene.pools, &totals)),
                (None, Some(gone)) => drop(self.going.remove(name(gone))),
                (None, None) => {}
            }
        }
        // The same for those who come with no history.
        let names: BTreeSet<&str> = scene.claims.iter().map(|claim| name(claim)).collect();
        self.going.retain(|claim, _| names.contains(claim.as_str()));
        for claim in scene.claims {
            found.extend(self.choose(claim, scene.pools, &totals));
        }
        found
    }

    /// Takes note of a claim as it was at one moment.
    fn choose(&mut self, claim: &Value, pools: &[Arc<Value>], totals: &BTreeMap<&str, i64>) -> Option<Violation> {
        let ends = condition(claim, "InstanceTerminating").is_some_and(|c| c["status"] == "True");
        let reason = condition(claim, "DisruptionReason").filter(|c| c["status"] == "True" && !ends);
        let Some(reason) = reason.map(|reason| text(&reason["reason"])) else {
            self.going.remove(name(claim));
            return None;
        };
        let of = text(&claim["metadata"]["labels"]["karpenter.sh/nodepool"]);
        let known = self.going.insert(name(claim).to_owned(), (of.clone(), reason.clone()));
        if known.is_some() {
            return None;
        }
        let pool = pools.iter().find(|pool| name(pool) == of)?;
        let going = self.going.values().filter(|(pool, _)| *pool == of).count();
        let going = i64::try_from(going).unwrap_or(i64::MAX);
        let allowed = allowed(pool, &reason, totals.get(of.as_str()).copied().unwrap_or(0));
        (going > allowed).then_some(Violation::TooManyGo { pool: of, going, allowed })
    }

    /// A node that was chosen goes, or is released.
    fn taints(&mut self, scene: Scene<'_>) -> Vec<Violation> {
        let tainted = |node: &&Arc<Value>| {
            let taints = node["spec"]["taints"].as_array();
            node["metadata"]["deletionTimestamp"].is_null()
                && taints.into_iter().flatten().any(|taint| taint["key"] == "karpenter.sh/disrupted")
        };
        let names: BTreeSet<&str> = scene.nodes.iter().filter(tainted).map(|node| name(node)).collect();
        self.tainted_since.retain(|node, _| names.contains(node.as_str()));
        let mut found = Vec::new();
        for node in names {
            let since = *self.tainted_since.entry(node.to_owned()).or_insert(scene.now);
            if scene.now.duration_since(since) > RELEASED_AFTER {
                found.push(Violation::NeitherGoesNorStays { node: node.to_owned() });
            }
        }
        found
    }

    /// What comes for the sake of money costs less than what goes for it.
    fn costs(&mut self, scene: Scene<'_>) -> Vec<Violation> {
        let known = std::mem::take(&mut self.worth);
        let costs = |claim: &Value| {
            let machine = claim["status"]["providerID"].as_str()?;
            scene.worth.get(machine).or_else(|| known.get(machine)).copied()
        };
        // Also those that were chosen and went between two looks.
        let written = scene.written.iter().filter_map(|written| written.new.as_ref());
        for claim in written.chain(scene.claims) {
            let annotations = &claim["metadata"]["annotations"];
            let Some(price) = costs(claim) else { continue };
            let command = annotations[COMMAND].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
            if let Some(command) = command {
                let known = self.commands.entry(text(&command["id"])).or_default();
                known.saves = SAVING.contains(&command["method"].as_str().unwrap_or_default());
                known.nodes = usize::try_from(command["nodes"].as_u64().unwrap_or(0)).unwrap_or(0);
                known.takes.entry(name(claim).to_owned()).or_insert(price);
            }
            if let Some(known) = annotations[REPLACES].as_str().and_then(|id| self.commands.get_mut(id)) {
                known.gives.entry(name(claim).to_owned()).or_insert(price);
            }
        }
        self.worth.clone_from(scene.worth);
        let mut found = Vec::new();
        self.commands.retain(|id, command| {
            let (takes, gives): (f64, f64) = (command.takes.values().sum(), command.gives.values().sum());
            let complete = command.takes.len() == command.nodes;
            // The same price again would be a move for nothing.
            let dear = command.saves && complete && !command.gives.is_empty() && gives >= takes * (1.0 + scene.swing);
            if dear {
                found.push(Violation::NothingSaved {
                    command: id.clone(),
                    takes: format!("{takes:.5}"),
                    gives: format!("{gives:.5}"),
                });
            }
            !dear
        });
        let names: BTreeSet<&str> = scene.claims.iter().map(|claim| name(claim)).collect();
        let known = self.commands.len();
        self.commands.retain(|_, command| command.takes.keys().any(|claim| names.contains(claim.as_str())));
        self.past += known - self.commands.len();
        found
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// How many nodes of the pool may be on their way out for this reason. Budgets with a schedule are left out: no world that
/// is looked at has one.
fn allowed(pool: &Value, reason: &str, nodes: i64) -> i64 {
    let budgets = pool["spec"]["disruption"]["budgets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let applies = |budget: &&Value| {
        let reasons = budget["reasons"].as_array().filter(|reasons| !reasons.is_empty());
        let concerns = |reasons: &Vec<Value>| {
            reasons.iter().any(|of| of.as_str().is_some_and(|of| of.eq_ignore_ascii_case(reason)))
        };
        budget["schedule"].is_null() && reasons.is_none_or(concerns)
    };
    let number = |budget: &Value| {
        let nodes_of = text(&budget["nodes"]);
        match nodes_of.strip_suffix('%') {
            Some(percent) => (percent.parse::<i64>().unwrap_or(0) * nodes + 99) / 100,
            None => nodes_of.parse().unwrap_or(0),
        }
    };
    budgets.iter().filter(applies).map(number).min().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
