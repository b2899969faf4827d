//! A pod as it comes over the wire, read once and only as far as somebody looks at it.
//!
//! A cluster has hundreds of thousands of pods and few kinds of them. What differs from pod to pod is decoded here. The rest
//! is copied, without what nobody reads, and [`PodClasses`](super::pod_classes::PodClasses) finds by the digest of that copy
//! what it already knows.

pub(super) mod copy;

use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::LazyLock;

use jiff::Timestamp;
use k8s_openapi::serde::de::{Deserialize, Deserializer};
use karpenter_model::pod::{PodId, PodPhase};

use self::copy::Copied;
pub(super) use self::copy::Text;

/// Name and version of a pod, and the pod itself unless it could not be read. It borrows from the bytes that it was read from.
#[derive(Debug, Clone)]
pub struct PodObject<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) namespace: Cow<'a, str>,
    pub(super) uid: Cow<'a, str>,
    pub(super) version: Cow<'a, str>,
    pub(super) content: Result<PodText<'a>, String>,
}

/// What is the pod's own, and where to find what it may share.
#[derive(Debug, Clone, Default)]
pub(super) struct PodText<'a> {
    pub(super) created: Option<Timestamp>,
    pub(super) deleted: Option<Timestamp>,
    pub(super) started: Option<Timestamp>,
    pub(super) node: Text<'a>,
    pub(super) nominated: Text<'a>,
    pub(super) phase: PodPhase,
    pub(super) unschedulable: bool,
    pub(super) unjudged: bool,
    pub(super) unready: bool,
    pub(super) ready: bool,
    /// When `PodScheduled` and `Ready` last changed.
    pub(super) scheduled_at: Option<Timestamp>,
    pub(super) ready_at: Option<Timestamp>,
    /// What ReplicaSets are told about the pod, and what of that we said.
    pub(super) deletion_cost: Text<'a>,
    pub(super) managed_cost: Text<'a>,
    /// Of everything that pods of a workload have in common; `None` when the pod's name plays a part in it.
    pub(super) digest: Option<Digest>,
    pub(super) common: Common<'a>,
}

/// What the pod may share with others. Pods of DaemonSets have no affinity to nodes there: their controller pins each to its
/// node, such a pod never goes elsewhere, and what the DaemonSet asks of other nodes is read from its template.
#[derive(Debug, Clone)]
pub(super) enum Common<'a> {
    /// The pod without what is its own and without what nobody reads.
    Json { pod: Vec<u8>, node_affinity: Vec<u8> },
    /// The whole pod; it is looked at again only if nobody has what it has.
    Wire { pod: &'a [u8], of_daemon_set: bool },
}

impl Default for Common<'_> {
    fn default() -> Self {
        Self::Wire { pod: &[], of_daemon_set: false }
    }
}

/// 128 bits under keys that are random in each process: nobody can make two that are equal, and chance will not.
pub(super) type Digest = (u64, u64);

impl PodObject<'_> {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of the API that brought it.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn id(&self) -> PodId {
        PodId::new(&*self.namespace, &*self.name)
    }
}

/// Fails only where the text is no JSON: whatever is wrong with one object, the watch goes on.
impl<'de: 'a, 'a> Deserialize<'de> for PodObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut copied = copy::pod(deserializer)?;
        Ok(Self {
            name: copied.name.take().unwrap_or_default(),
            namespace: copied.namespace.take().unwrap_or_default(),
            uid: copied.uid.take().unwrap_or_default(),
            version: copied.resource_version.take().unwrap_or_default(),
            content: text(copied),
        })
    }
}

fn text(copied: Copied<'_>) -> Result<PodText<'_>, String> {
    let condition = |type_: &str| copied.conditions.iter().find(|condition| condition.type_ == type_);
    let is = |type_: &str, status: &str| condition(type_).is_some_and(|condition| condition.status == status);
    let since = |type_: &str| {
        let text = condition(type_).and_then(|condition| condition.since.as_deref());
        time(text, "status.conditions.lastTransitionTime")
    };
    let node_affinity = if copied.of_daemon_set { Vec::new() } else { copied.node_affinity };
    Ok(PodText {
        created: time(copied.created.as_deref(), "metadata.creationTimestamp")?,
        deleted: time(copied.deleted.as_deref(), "metadata.deletionTimestamp")?,
        started: time(copied.started.as_deref(), "status.startTime")?,
        phase: phase(copied.phase.as_deref()),
        unschedulable: condition("PodScheduled").is_some_and(|c| c.reason.as_deref() == Some("Unschedulable")),
        unjudged: condition("PodScheduled").is_none(),
        unready: is("Ready", "False"),
        ready: is("Ready", "True"),
        scheduled_at: since("PodScheduled")?,
        ready_at: since("Ready")?,
        node: copied.node.filter(|name| !name.is_empty()),
        nominated: copied.nominated.filter(|name| !name.is_empty()),
        deletion_cost: copied.deletion_cost,
        managed_cost: copied.managed_cost,
        digest: (!copied.named_volumes).then(|| digest(&copied.common, &node_affinity)),
        common: Common::Json { pod: copied.common, node_affinity },
    })
}

fn time(text: Option<&str>, field: &str) -> Result<Option<Timestamp>, String> {
    text.map(|text| text.parse().map_err(|error| format!("{field}: {error}"))).transpose()
}

pub(super) fn phase(phase: Option<&str>) -> PodPhase {
    match phase {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some("Pending") | None => PodPhase::Pending,
        Some(_) => PodPhase::Unknown,
    }
}

pub(super) fn digest(common: &[u8], node_affinity: &[u8]) -> Digest {
    static KEYS: LazyLock<(RandomState, [u64; 2])> = LazyLock::new(|| {
        let keys = RandomState::new();
        let folding = [keys.hash_one(0), keys.hash_one(1)];
        (RandomState::new(), folding)
    });
    let (keys, folding) = &*KEYS;
    let mut hasher = keys.build_hasher();
    // The length keeps one part from running into the other.
    hasher.write_usize(common.len());
    hasher.write(common);
    hasher.write(node_affinity);
    (hasher.finish(), folded(common, folding) ^ folded(node_affinity, folding).rotate_left(1))
}

/// Products of the text's words with secret keys: alone easier to deceive than the hash beside it, and ten times as fast.
fn folded(text: &[u8], keys: &[u64; 2]) -> u64 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        let (low, high) = (product & u128::from(u64::MAX), product >> 64);
        u64::try_from(low ^ high).unwrap_or_default()
    };
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        for (into, byte) in word.iter_mut().zip(bytes) {
            *into = *byte;
        }
        u64::from_le_bytes(word)
    };
    let (chunks, rest) = text.as_chunks::<16>();
    let mut sum = keys[0] ^ text.len() as u64;
    for chunk in chunks {
        let (a, b) = chunk.split_at(8);
        sum = fold(word(a) ^ keys[0], word(b) ^ keys[1] ^ sum);
    }
    let (a, b) = rest.split_at(rest.len().min(8));
    fold(word(a) ^ keys[1], word(b) ^ keys[0] ^ sum)
}
