//! What must hold for pods that were evicted so that their node can go: whoever comes for them finds room as soon as a
//! replacement takes, and is left alone for a while.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_apiserver::Written;
use serde_json::Value;

use super::disruption::{COMMAND, SAVING};
use super::{Violation, name};

/// What replaces a pod is made as soon as it is told to go.
const REPLACED_WITHIN: SignedDuration = SignedDuration::from_secs(60);
const LEFT_ALONE_FOR: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Default)]
pub(super) struct Evictions {
    /// Nodes that commands have chosen, and whether it was for the sake of money.
    chosen: BTreeMap<String, bool>,
    /// Uids of pods whose eviction has been seen.
    seen: BTreeSet<String>,
    /// How many of them were on nodes that commands have chosen.
    number: usize,
    /// By owner: evictions whose replacement has not been seen.
    owed: BTreeMap<String, VecDeque<Eviction>>,
    /// By uid: pods that came for evicted ones.
    came: BTreeMap<String, Came>,
    /// Nobody changes anything but the autoscaler: no pod is moved twice for the sake of money.
    steady: bool,
}

#[derive(Debug, Clone, Copy)]
struct Eviction {
    at: Timestamp,
    saves: bool,
}

#[derive(Debug)]
struct Came {
    name: String,
    after: Eviction,
    waits_since: Option<Timestamp>,
}

/// What a look at the pods needs to know.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances {
    pub(super) now: Timestamp,
    /// As long as a replacement takes. `None` when that cannot be said, as in a storm.
    pub(super) replacement: Option<SignedDuration>,
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

fn owner(pod: &Value) -> Option<String> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    owner["uid"].as_str().map(ToOwned::to_owned)
}

fn is_evicted(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let evicted = |c: &Value| c["type"] == "DisruptionTarget" && c["reason"] == "EvictionByEvictionAPI";
    conditions.into_iter().flatten().any(evicted)
}

fn waits(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_null() && pod["metadata"]["deletionTimestamp"].is_null()
}

impl Evictions {
    /// From now on nobody but the autoscaler changes anything.
    pub(super) fn steady(&mut self) {
        self.steady = true;
        self.came.clear();
        self.owed.clear();
    }

    /// How many pods had to leave nodes that commands have chosen.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn look(
        &mut self,
        claims: &[Arc<Value>],
        written: &[Written],
        pods: &[Written],
        circumstances: Circumstances,
    ) -> Vec<Violation> {
        self.choose(claims, written);
        let mut found = Vec::new();
        for written in pods {
            found.extend(self.note(written));
        }
        found.extend(self.waiting(circumstances));
        let Circumstances { now, .. } = circumstances;
        let recent = |at: Timestamp| now.duration_since(at) < LEFT_ALONE_FOR;
        self.came.retain(|_, came| came.waits_since.is_some() || recent(came.after.at));
        found
    }

    /// A claim is there for longer than any of its pods, so that none of them is evicted unseen; it may be gone since the last
    /// look, though.
    fn choose(&mut self, claims: &[Arc<Value>], written: &[Written]) {
        self.chosen.clear();
        let written = written.iter().flat_map(|written| [&written.old, &written.new]).flatten();
        for claim in written.chain(claims) {
            let Some(text) = claim["metadata"]["annotations"][COMMAND].as_str() else { continue };
            let Some(node) = claim["status"]["nodeName"].as_str() else { continue };
            let command: Value = serde_json::from_str(text).unwrap_or_default();
            let saves = SAVING.contains(&command["method"].as_str().unwrap_or_default());
            self.chosen.insert(node.to_owned(), saves);
        }
    }

    fn note(&mut self, written: &Written) -> Option<Violation> {
        let Some(pod) = &written.new else {
            let uid = uid(written.old.as_ref()?);
            self.seen.remove(&uid);
            self.came.remove(&uid);
            return None;
        };
        if written.old.is_none() {
            self.comes(pod, written.at);
        }
        if !waits(pod)
            && let Some(came) = self.came.get_mut(&uid(pod))
        {
            came.waits_since = None;
        }
        if is_evicted(pod) && self.seen.insert(uid(pod)) { self.goes(pod, written.at) } else { None }
    }

    fn comes(&mut self, pod: &Value, at: Timestamp) {
        let Some(owed) = owner(pod).and_then(|owner| self.owed.get_mut(&owner)) else { return };
        while owed.front().is_some_and(|eviction| at.duration_since(eviction.at) > REPLACED_WITHIN) {
            owed.pop_front();
        }
        let Some(after) = owed.pop_front() else { return };
        let came = Came { name: name(pod).to_owned(), after, waits_since: Some(at) };
        self.came.insert(uid(pod), came);
    }

    fn goes(&mut self, pod: &Value, at: Timestamp) -> Option<Violation> {
        let saves = *self.chosen.get(pod["spec"]["nodeName"].as_str()?)?;
        self.number += 1;
        let before = self.came.remove(&uid(pod)).map(|came| came.after);
        self.owed.entry(owner(pod)?).or_default().push_back(Eviction { at, saves });
        let again = |before: Eviction| saves && before.saves && at.duration_since(before.at) < LEFT_ALONE_FOR;
        (self.steady && before.is_some_and(again)).then(|| Violation::MovedAgain { pod: name(pod).to_owned() })
    }

    fn waiting(&mut self, Circumstances { now, replacement }: Circumstances) -> Vec<Violation> {
        let mut found = Vec::new();
        for came in self.came.values_mut() {
            let Some(since) = came.waits_since else { continue };
            match replacement {
                // Nobody can say; whoever still waits when calm returns is counted from then on.
                None => came.waits_since = Some(now),
                Some(longest) if now.duration_since(since) > longest => {
                    found.push(Violation::LeftWaiting { pod: came.name.clone() });
                    came.waits_since = None;
                }
                Some(_) => {}
            }
        }
        found
    }
}
