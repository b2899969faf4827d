//! What must always hold, whatever goes wrong.
//!
//! The checks look at the plain JSON of the API server and at the machines, and share no code with the controllers that
//! they judge: not even how an amount is read.

mod amounts;
mod disruption;
mod evictions;
mod loads;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_apiserver::{self as apiserver, GroupKind, Written};
use serde_json::Value;

use self::amounts::Amounts;
use self::disruption::{Disruptions, Scene};
use self::evictions::{Circumstances, Evictions};
use self::loads::Loads;
use crate::cloud::Cloud;
use crate::fleet::{Fleet, Health};

/// What is broken, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    NodeOverfull {
        node: String,
        resource: String,
        requested: i128,
        allocatable: i128,
    },
    /// A machine runs that no claim stands for.
    MachineWithoutClaim {
        machine: String,
        claim_uid: String,
    },
    /// A claim has more than one machine.
    SecondMachine {
        claim_uid: String,
        machines: Vec<String>,
    },
    /// A claim is neither ready nor gone, and has not been for far longer than that may take.
    ClaimWithoutEnd {
        claim: String,
    },
    /// The nodes of a pool have more than its limits allow.
    LimitBroken {
        pool: String,
        resource: String,
        used: i128,
        limit: i128,
    },
    /// Machines come and go, and nobody is served by it.
    Churn {
        launches: usize,
        pods: usize,
    },
    /// A pod is on a node that has been gone for too long, and nobody has taken care of it.
    PodLost {
        pod: String,
        node: String,
    },
    /// A process of the autoscaler changes something while another one holds the lease, or none does.
    ActsWithoutLease {
        who: String,
        what: String,
        holder: String,
    },
    /// The same is asked for again and again.
    HotLoop {
        what: String,
        times: u32,
    },
    /// More nodes of a pool were chosen to go than its budgets allow.
    TooManyGo {
        pool: String,
        going: i64,
        allowed: i64,
    },
    /// A node was chosen to go long ago.
    NeitherGoesNorStays {
        node: String,
    },
    /// A move for the sake of money that costs as much as before, or more, in dollars an hour.
    NothingSaved {
        command: String,
        takes: String,
        gives: String,
    },
    /// A move for the sake of money that ends with what it began with.
    SameAgain {
        command: String,
        claim: String,
        instance_type: String,
    },
    /// A pod that came for one that was evicted waits for longer than a replacement takes.
    LeftWaiting {
        pod: String,
    },
    /// A pod was moved twice within an hour for the sake of money, in a cluster that nobody changed.
    MovedAgain {
        pod: String,
    },
    /// Evictions have taken more pods than their budget allows.
    BudgetBroken {
        budget: String,
        healthy: i64,
        desired: i64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeOverfull { node, resource, requested, allocatable } => {
                write!(
                    f,
                    "node {node} is overfull: pods request {requested} of {allocatable} thousandths of {resource}"
                )
            }
            Self::MachineWithoutClaim { machine, claim_uid } => {
                write!(f, "machine {machine} runs, but its claim {claim_uid} does not exist")
            }
            Self::SecondMachine { claim_uid, machines } => {
                write!(f, "claim {claim_uid} has several machines: {}", machines.join(", "))
            }
            Self::ClaimWithoutEnd { claim } => write!(f, "claim {claim} becomes neither ready nor gone"),
            Self::LimitBroken { pool, resource, used, limit } => {
                write!(f, "nodepool {pool} has {used} of {limit} thousandths of {resource} that its limits allow")
            }
            Self::Churn { launches, pods } => {
                write!(f, "{launches} machines were launched within an hour for {pods} pods and static nodes at most")
            }
            Self::PodLost { pod, node } => write!(f, "pod {pod} is lost: its node {node} is gone"),
            Self::ActsWithoutLease { who, what, holder } => {
                write!(f, "{who} asks for {what}, but the lease is held by {holder:?}")
            }
            Self::HotLoop { what, times } => write!(f, "{what} was asked {times} times within a minute"),
            Self::TooManyGo { pool, going, allowed } => {
                write!(f, "nodepool {pool} lets {going} nodes go at once, {allowed} may")
            }
            Self::NeitherGoesNorStays { node } => {
                write!(f, "node {node} was chosen to go, and neither goes nor is released")
            }
            Self::NothingSaved { command, takes, gives } => {
                write!(f, "command {command} replaces nodes for ${takes} an hour by some for ${gives}")
            }
            Self::SameAgain { command, claim, instance_type } => {
                write!(f, "command {command} replaces a {instance_type} by {claim} of the same type and price")
            }
            Self::LeftWaiting { pod } => {
                write!(f, "pod {pod} came for one that was evicted, and waits for longer than a replacement takes")
            }
            Self::MovedAgain { pod } => write!(f, "pod {pod} was moved twice within an hour to save money"),
            Self::BudgetBroken { budget, healthy, desired } => {
                write!(f, "budget {budget} is broken: {healthy} pods are healthy, {desired} have to be")
            }
        }
    }
}

/// A pod may be on a node that is gone for this long: its collector waits 40 s and has to be told first.
const LOST_AFTER: SignedDuration = SignedDuration::from_mins(5);
/// After a machine was lost or a kubelet fell silent, pods may be missing for this long.
const INVOLUNTARY: SignedDuration = SignedDuration::from_mins(20);

/// A machine may be without a claim for this long: collection looks every two minutes at those older than 30 s, listings lag,
/// and the autoscaler may be down or refused for some of that time.
const COLLECTED_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// A claim may be under way for this long: a launch is given up after 5 minutes, a registration after 15, a drain waits for
/// pods whose kubelet is silent until they are evicted (5) and forgotten, and each step may meet a storm.
const ENDS_AFTER: SignedDuration = SignedDuration::from_hours(1);
const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Remembers what a single look cannot see.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    unclaimed_since: BTreeMap<String, Timestamp>,
    unfinished_since: BTreeMap<String, Timestamp>,
    /// How many pods and nodes of static pools were asked for at most, and when each machine was first seen, within the last hour.
    crowds: VecDeque<(Timestamp, usize)>,
    launches: BTreeMap<String, Timestamp>,
    orphaned_since: BTreeMap<String, Timestamp>,
    /// Budgets that had enough healthy pods, and how many that were.
    satisfied: BTreeMap<String, i64>,
    /// Until then pods may be missing for reasons that no budget covers.
    excused_until: Option<Timestamp>,
    /// Until then things go wrong on purpose, and nobody can say how long anything takes.
    upset_until: Option<Timestamp>,
    disruptions: Disruptions,
    evictions: Evictions,
    /// Up to which revision each kind has been looked at that nothing may be missed of.
    seen: BTreeMap<&'static str, u64>,
    /// What pods ask of their nodes.
    loads: Loads,
}

/// What is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight<'a> {
    pub(super) api: &'a apiserver::Api,
    pub(super) fleet: &'a Fleet,
    pub(super) cloud: &'a Cloud,
    /// As long as a replacement takes in calm weather.
    pub(super) replacement: SignedDuration,
    pub(super) now: Timestamp,
}

impl Watcher {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Something is about to happen that no budget covers.
    pub(super) fn excuse(&mut self, now: Timestamp) {
        self.excused_until = now.checked_add(INVOLUNTARY).ok();
    }

    /// Things go wrong on purpose.
    pub(super) fn upset(&mut self, now: Timestamp) {
        self.upset_until = now.checked_add(INVOLUNTARY).ok();
    }

    /// How many commands to take nodes away were seen.
    pub(super) fn moves(&self) -> usize {
        self.disruptions.commands()
    }

    /// How many pods were evicted from nodes that commands take away.
    pub(super) fn evicted(&self) -> usize {
        self.evictions.number()
    }

    /// From now on nobody but the autoscaler changes anything.
    pub(super) fn steady(&mut self) {
        self.evictions.steady();
    }

    pub(super) fn look(&mut self, Sight { api, fleet, cloud, replacement, now }: Sight<'_>) -> Vec<Violation> {
        let all = |group: &str, kind: &str| api.objects(group, "v1", kind);
        let nodes = all("", "Node");
        let written = self.catch_up(api);
        let pods = api.count(&GroupKind { group: String::new(), kind: "Pod".to_owned() });
        let mut found = self.loads.overfull(&nodes);
        let claims = all("karpenter.sh", "NodeClaim");
        let running = cloud.running();
        found.extend(self.unclaimed(&claims, &running, now));
        found.extend(several(&running));
        found.extend(self.unfinished(&claims, now));
        let pools = all("karpenter.sh", "NodePool");
        found.extend(beyond_limits(&pools, &claims));
        let ordered: u64 = pools.iter().filter_map(|pool| pool["spec"]["replicas"].as_u64()).sum();
        found.extend(self.churn(pods + usize::try_from(ordered).unwrap_or(0), &running, now));
        found.extend(self.lost(&nodes, now));
        if !cloud.interruptions().is_empty() || fleet.any(|machine| machine.health != Health::Well) {
            self.excuse(now);
        }
        // As they were at every instant since the last look.
        for Written { at, new, .. } in self.written(api, "policy", "PodDisruptionBudget").unwrap_or_default() {
            found.extend(self.budgets(new.as_slice(), at));
        }
        found.extend(self.budgets(&all("policy", "PodDisruptionBudget"), now));
        let written_claims = self.written(api, "karpenter.sh", "NodeClaim").unwrap_or_default();
        let (worth, swing) = (cloud.worth(), cloud.swing());
        let scene = Scene {
            nodes: &nodes,
            claims: &claims,
            written: &written_claims,
            pools: &pools,
            worth: &worth,
            swing,
            now,
        };
        found.extend(self.disruptions.look(scene));
        let calm = [self.excused_until, self.upset_until].into_iter().flatten().all(|until| until <= now);
        let circumstances = Circumstances { now, replacement: calm.then_some(replacement) };
        found.extend(self.evictions.look(&claims, &written_claims, &written, circumstances));
        found
    }

    /// What happened to pods since the last look.
    fn catch_up(&mut self, api: &apiserver::Api) -> Vec<Written> {
        if let Some(written) = self.written(api, "", "Pod") {
            for written in &written {
                self.loads.note(written);
            }
            written
        } else {
            self.loads.begin(&api.objects("", "v1", "Pod"));
            Vec::new()
        }
    }

    /// What was written to a kind since the last look, in order; `None` when some of that is forgotten.
    fn written(&mut self, api: &apiserver::Api, group: &str, kind: &'static str) -> Option<Vec<Written>> {
        let seen = self.seen.get(kind).copied().unwrap_or(0);
        let of = GroupKind { group: group.to_owned(), kind: kind.to_owned() };
        let changes = api.changes(&of, seen);
        self.seen.insert(kind, changes.as_ref().map_or_else(|| api.revision(), |(_, now)| *now));
        changes.map(|(written, _)| written)
    }

    fn lost(&mut self, nodes: &[Arc<Value>], now: Timestamp) -> Vec<Violation> {
        let orphans = self.loads.orphans(nodes);
        self.orphaned_since.retain(|pod, _| orphans.contains_key(pod));
        let mut lost = Vec::new();
        for (pod, node) in orphans {
            let since = *self.orphaned_since.entry(pod.clone()).or_insert(now);
            if now.duration_since(since) > LOST_AFTER {
                lost.push(Violation::PodLost { pod, node });
            }
        }
        lost
    }

    fn unclaimed(
        &mut self,
        claims: &[Arc<Value>],
        running: &BTreeMap<String, String>,
        now: Timestamp,
    ) -> Vec<Violation> {
        let uids: BTreeSet<&str> = claims.iter().filter_map(|claim| claim["metadata"]["uid"].as_str()).collect();
        let without: BTreeMap<&String, &String> =
            running.iter().filter(|(_, uid)| !uids.contains(uid.as_str())).collect();
        self.unclaimed_since.retain(|machine, _| without.contains_key(machine));
        let mut found = Vec::new();
        for (machine, claim_uid) in without {
            let since = *self.unclaimed_since.entry(machine.clone()).or_insert(now);
            if now.duration_since(since) > COLLECTED_AFTER {
                let (machine, claim_uid) = (machine.clone(), claim_uid.clone());
                found.push(Violation::MachineWithoutClaim { machine, claim_uid });
            }
        }
        found
    }

    fn unfinished(&mut self, claims: &[Arc<Value>], now: Timestamp) -> Vec<Violation> {
        let under_way = |claim: &&Arc<Value>| {
            let conditions = claim["status"]["conditions"].as_array();
            let ready = conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
            !ready || !claim["metadata"]["deletionTimestamp"].is_null()
        };
        let names: BTreeSet<&str> = claims.iter().filter(under_way).map(|claim| name(claim)).collect();
        self.unfinished_since.retain(|claim, _| names.contains(claim.as_str()));
        let mut found = Vec::new();
        for claim in names {
            let since = *self.unfinished_since.entry(claim.to_owned()).or_insert(now);
            if now.duration_since(since) > ENDS_AFTER {
                found.push(Violation::ClaimWithoutEnd { claim: claim.to_owned() });
            }
        }
        found
    }

    /// Three machines for each pod and ten more are beyond every storm that we raise.
    fn churn(&mut self, pods: usize, running: &BTreeMap<String, String>, now: Timestamp) -> Option<Violation> {
        let recent = |at: &Timestamp| now.duration_since(*at) <= HOUR;
        self.crowds.push_back((now, pods));
        while self.crowds.front().is_some_and(|(at, _)| !recent(at)) {
            self.crowds.pop_front();
        }
        // One that is still running is not new when its hour is over.
        self.launches.retain(|machine, at| recent(at) || running.contains_key(machine));
        for machine in running.keys() {
            self.launches.entry(machine.clone()).or_insert(now);
        }
        let pods = self.crowds.iter().map(|(_, pods)| *pods).max().unwrap_or(0);
        let launches = self.launches.values().filter(|at| recent(at)).count();
        (launches > 3 * pods + 10).then_some(Violation::Churn { launches, pods })
    }

    fn budgets(&mut self, budgets: &[Arc<Value>], now: Timestamp) -> Vec<Violation> {
        let excused = self.excused_until.is_some_and(|until| now < until);
        let mut broken = Vec::new();
        for budget in budgets {
            let number = |member: &str| budget["status"][member].as_i64().unwrap_or(0);
            let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
            let key = name(budget).to_owned();
            // What is asked for beyond that, as after a scale-up, has to be reached first.
            let reached = self.satisfied.get(&key).is_some_and(|kept| *kept >= desired);
            if healthy >= desired {
                self.satisfied.insert(key, desired);
            } else if excused || !reached {
                self.satisfied.remove(&key);
            } else {
                broken.push(Violation::BudgetBroken { budget: key, healthy, desired });
            }
        }
        broken
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// By claim: a second machine for one is a leak from the moment it starts.
fn several(running: &BTreeMap<String, String>) -> Vec<Violation> {
    let mut by_claim: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for (machine, claim) in running {
        by_claim.entry(claim).or_default().push(machine.clone());
    }
    let several = by_claim.into_iter().filter(|(_, machines)| machines.len() > 1);
    several.map(|(claim, machines)| Violation::SecondMachine { claim_uid: claim.clone(), machines }).collect()
}

/// What stays may not be more than the limits; what is on its way out is not charged (SCH-78, SCH-239), so that its
/// replacement can come before it is gone.
fn beyond_limits(pools: &[Arc<Value>], claims: &[Arc<Value>]) -> Vec<Violation> {
    let mut found = Vec::new();
    for pool in pools {
        let mut used = Amounts::new();
        let staying = claims.iter().filter(|claim| claim["metadata"]["deletionTimestamp"].is_null());
        for claim in staying.filter(|claim| claim["metadata"]["labels"]["karpenter.sh/nodepool"] == name(pool)) {
            for (resource, amount) in amounts::read(&claim["status"]["capacity"]) {
                *used.entry(resource).or_default() += amount;
            }
        }
        for (resource, limit) in amounts::read(&pool["spec"]["limits"]) {
            let used = used.get(&resource).copied().unwrap_or(0);
            if used > limit {
                found.push(Violation::LimitBroken { pool: name(pool).to_owned(), resource, used, limit });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
