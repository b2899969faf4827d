//! Looks over the shoulder of the autoscaler's processes: who acts, and how often.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use karpenter_apiserver::{self as apiserver, GroupKind};

use super::checks::Violation;
use super::process::lease;

/// How often one thing may be asked of one object within a minute. What is tried again waits a second and longer; ten times
/// a second would be a conflict that nobody gets out of.
const PER_MINUTE: u32 = 90;
/// How often the types of one pool may be asked for within a minute, for each claim that there is: each is compared with them now
/// and then, and all of them at once by a process that has just begun.
const TYPES_FOR_EACH: u32 = 3;
/// How often something of one kind may be made within a minute, for each pod and each claim that there is: a claim, and what
/// is told about it.
const MADE_FOR_EACH: u32 = 12;

#[derive(Debug)]
pub(super) struct Overseer {
    api: apiserver::Api,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    minute: i64,
    calls: BTreeMap<String, u32>,
    found: Vec<Violation>,
}

impl Overseer {
    pub(super) fn new(api: apiserver::Api) -> Self {
        Self { api, seen: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call is about to be made. `identity` is empty for a process that is alone.
    pub(super) fn sees(&self, now: Timestamp, identity: &str, what: &str, writes: bool) {
        let minute = now.as_second().div_euclid(60);
        {
            let mut seen = self.lock();
            if seen.minute != minute {
                seen.minute = minute;
                seen.calls.clear();
            }
            match seen.calls.get_mut(what) {
                Some(count) => *count += 1,
                None => drop(seen.calls.insert(what.to_owned(), 1)),
            }
        }
        if writes && !identity.is_empty() {
            let holder = self.leader();
            if holder != identity {
                let (who, what) = (identity.to_owned(), what.to_owned());
                self.lock().found.push(Violation::ActsWithoutLease { who, what, holder });
            }
        }
    }

    /// Who holds the lease, as the API server has it.
    pub(super) fn leader(&self) -> String {
        let wanted = lease();
        let kind = GroupKind { group: "coordination.k8s.io".to_owned(), kind: "Lease".to_owned() };
        let lease = self.api.object(&kind, &wanted.namespace, &wanted.name);
        lease.and_then(|lease| Some(lease["spec"]["holderIdentity"].as_str()?.to_owned())).unwrap_or_default()
    }

    pub(super) fn found(&self, pods: usize, claims: usize) -> Vec<Violation> {
        let mut seen = self.lock();
        let more = |each: u32, count: usize| {
            PER_MINUTE.saturating_add(each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)))
        };
        let (made, types) = (more(MADE_FOR_EACH, pods + claims), more(TYPES_FOR_EACH, claims));
        let limit = |what: &str| {
            if what.starts_with("POST ") && !what.ends_with("/eviction") {
                made
            } else if what.starts_with("cloud instance types ") {
                types
            } else {
                PER_MINUTE
            }
        };
        let too_often = seen.calls.iter().filter(|(what, times)| **times > limit(what));
        let mut found: Vec<Violation> =
            too_often.map(|(what, times)| Violation::HotLoop { what: what.clone(), times: *times }).collect();
        found.append(&mut seen.found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_call_again_and_again_is_a_loop() {
        let overseer = Overseer::new(apiserver::Api::default());
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        for call in 0..90 {
            overseer.sees(at(60 + call / 2), "", "PATCH /api/v1/nodes/n", true);
            overseer.sees(at(60 + call / 2), "", "POST /api/v1/namespaces/default/events", true);
        }
        assert_eq!(overseer.found(0, 0), []);
        overseer.sees(at(119), "", "PATCH /api/v1/nodes/n", true);
        overseer.sees(at(119), "", "POST /api/v1/namespaces/default/events", true);
        let found: Vec<String> = overseer.found(1, 0).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["PATCH /api/v1/nodes/n was asked 91 times within a minute"]);
        overseer.sees(at(120), "", "PATCH /api/v1/nodes/n", true);
        assert_eq!(overseer.found(0, 0), [], "another minute");
    }

    #[test]
    fn every_claim_may_ask_for_types_but_not_all_the_time() {
        let overseer = Overseer::new(apiserver::Api::default());
        let at = Timestamp::from_second(60).unwrap();
        let ask = |times: u32, what: &str| (0..times).for_each(|_| overseer.sees(at, "", what, false));
        ask(120, "cloud instance types default");
        ask(90, "cloud list");
        assert_eq!(overseer.found(500, 10), []);
        let found = |pods, claims| overseer.found(pods, claims).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(found(500, 9), ["cloud instance types default was asked 120 times within a minute"]);
        ask(1, "cloud list");
        assert_eq!(found(500, 10), ["cloud list was asked 91 times within a minute"]);
    }
}
