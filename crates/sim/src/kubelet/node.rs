//! A machine's node: registration, heartbeats, status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, Taint as ApiTaint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use karpenter_model::labels;
use karpenter_model::resources::Resources;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::{Kubelets, is_by_hand};
use crate::chance::Chance;
use crate::cluster::{Outcome, Queue, Requeue, is_already_there};
use crate::fleet::{Health, Machine};

const LEASES: &str = "kube-node-lease";

/// Machines whose kubelet has registered since it was started: a node that is deleted behind its back stays deleted.
type Registered = Mutex<BTreeSet<(String, String)>>;

pub(super) async fn run(kubelets: &Kubelets) {
    let queue = Arc::<Queue>::default();
    kubelets.fleet.wake(&queue);
    let by_hand = |node: &Node| is_by_hand(node).then(|| node.name_any()).into_iter().collect();
    kubelets.cluster.wake::<Node>(&queue, move |_, node| by_hand(node));
    for machine in kubelets.fleet.all() {
        queue.add(machine.provider_id);
    }
    kubelets.cluster.synced().await;
    let registered = &Registered::default();
    queue.work("kubelet", |key| async move { reconcile(kubelets, registered, &key).await }).await;
}

async fn reconcile(kubelets: &Kubelets, registered: &Registered, key: &str) -> Outcome {
    let now = kubelets.cluster.now();
    let Some(machine) = kubelets.fleet.get(key) else { return by_hand(kubelets, key).await };
    if !machine.on || machine.health == Health::Silent {
        return Ok(Requeue::OnChange);
    }
    if let Some(wait) =
        [Some(machine.joins_at), machine.down_until].into_iter().flatten().max().and_then(|at| until(at, now))
    {
        return Ok(Requeue::After(wait));
    }
    let node = if let Some(node) = kubelets.cluster.get::<Node>(&machine.node_name) {
        node
    } else {
        let boot = (machine.provider_id.clone(), machine.boot_id.clone());
        if registered.lock().unwrap_or_else(PoisonError::into_inner).contains(&boot) {
            return Ok(Requeue::OnChange);
        }
        match kubelets.cluster.create(&new_node(&machine)).await {
            Ok(created) => {
                registered.lock().unwrap_or_else(PoisonError::into_inner).insert(boot);
                created
            }
            // Of an earlier start, and not seen yet.
            Err(error) if is_already_there(&error) => return Ok(Requeue::After(Duration::from_millis(100))),
            Err(error) => return Err(error),
        }
    };
    let wait = renew_lease(kubelets, &node).await?;
    let status_wait = write_status(kubelets, &node, &Picture::of(&machine, &node, kubelets)).await?;
    Ok(Requeue::After(wait.min(status_wait)))
}

/// A node made by hand gets a kubelet that is always well.
async fn by_hand(kubelets: &Kubelets, name: &str) -> Outcome {
    let Some(node) = kubelets.cluster.get::<Node>(name).filter(|node| is_by_hand(node)) else {
        return Ok(Requeue::OnChange);
    };
    let wait = renew_lease(kubelets, &node).await?;
    let status_wait = write_status(kubelets, &node, &Picture::by_hand(&node)).await?;
    Ok(Requeue::After(wait.min(status_wait)))
}

fn until(at: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(at.duration_since(now)).ok().filter(|wait| !wait.is_zero())
}

/// As a bootstrap would: the labels and taints of the launch, and what every kubelet says about itself.
fn new_node(machine: &Machine) -> Node {
    let mut labels = machine.labels.clone();
    labels.insert(labels::HOSTNAME.to_owned(), machine.node_name.clone());
    let taint = |taint: &karpenter_model::taints::Taint| ApiTaint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: taint.effect.as_str().to_owned(),
        time_added: None,
    };
    Node {
        metadata: ObjectMeta { name: Some(machine.node_name.clone()), labels: Some(labels), ..ObjectMeta::default() },
        spec: Some(NodeSpec {
            provider_id: Some(machine.provider_id.clone()),
            taints: Some(machine.taints.iter().map(taint).collect()).filter(|taints: &Vec<_>| !taints.is_empty()),
            ..NodeSpec::default()
        }),
        status: None,
    }
}

async fn renew_lease(kubelets: &Kubelets, node: &Node) -> Result<Duration, kube::Error> {
    let (cluster, every) = (&kubelets.cluster, kubelets.pace.lease);
    let name = node.name_any();
    let Some(lease) = cluster.get::<Lease>(&format!("{LEASES}/{name}")) else {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(LEASES.to_owned()),
                owner_references: Some(vec![OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Node".to_owned(),
                    name: name.clone(),
                    uid: node.uid().unwrap_or_default(),
                    ..OwnerReference::default()
                }]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(name),
                lease_duration_seconds: Some(40),
                renew_time: Some(MicroTime(cluster.now())),
                ..LeaseSpec::default()
            }),
        };
        return match cluster.create(&lease).await {
            Err(error) if !is_already_there(&error) => Err(error),
            _ => Ok(every),
        };
    };
    let renewed =
        lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let due = renewed.checked_add(SignedDuration::try_from(every).unwrap_or_default()).unwrap_or(Timestamp::MAX);
    if let Some(wait) = until(due, cluster.now()) {
        return Ok(wait);
    }
    cluster.patch(lease.as_ref(), json!({"spec": {"renewTime": MicroTime(cluster.now())}})).await?;
    Ok(every)
}

/// What a node's status should say.
struct Picture {
    /// Reason of `Ready=False`; `None` when the node is ready.
    not_ready: Option<String>,
    /// When the picture changes by itself.
    changes_at: Option<Timestamp>,
    ailments: BTreeMap<String, crate::fleet::Ailment>,
    boot_id: String,
    amounts: Option<(Resources, Resources)>,
    architecture: String,
    system: String,
}

impl Picture {
    fn of(machine: &Machine, node: &Node, kubelets: &Kubelets) -> Self {
        let now = kubelets.cluster.now();
        let born = node.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        let delay = kubelets.drawn(kubelets.pace.ready, &["ready", &machine.node_name]);
        let ready_at = born.checked_add(SignedDuration::try_from(delay).unwrap_or_default()).unwrap_or(born);
        let waits = until(ready_at, now).is_some();
        let label = |key: &str, otherwise: &str| machine.labels.get(key).map_or(otherwise, String::as_str).to_owned();
        Self {
            not_ready: match &machine.health {
                Health::NotReady(reason) => Some(reason.clone()),
                _ if waits => Some("KubeletNotReady".to_owned()),
                _ => None,
            },
            changes_at: waits.then_some(ready_at),
            ailments: machine.ailments.clone(),
            boot_id: machine.boot_id.clone(),
            amounts: Some((machine.capacity.clone(), machine.allocatable.clone())),
            architecture: label(labels::ARCH, "amd64"),
            system: label(labels::OS, "linux"),
        }
    }

    fn by_hand(node: &Node) -> Self {
        let label = |key: &str, otherwise: &str| node.labels().get(key).map_or(otherwise, String::as_str).to_owned();
        let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        let boot_id = info.map(|info| info.boot_id.clone()).filter(|id| !id.is_empty());
        Self {
            not_ready: None,
            changes_at: None,
            ailments: BTreeMap::new(),
            boot_id: boot_id.unwrap_or_else(|| "by-hand".to_owned()),
            amounts: None,
            architecture: label(labels::ARCH, "amd64"),
            system: label(labels::OS, "linux"),
        }
    }

    fn conditions(&self, node: &Node, now: Timestamp) -> Vec<NodeCondition> {
        let known = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        let make = |type_: &str, status: &str, reason: &str, since: Option<Timestamp>| {
            let before = known.iter().find(|condition| condition.type_ == type_ && condition.status == status);
            let since = since.or_else(|| before.and_then(|before| Some(before.last_transition_time.as_ref()?.0)));
            NodeCondition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(String::new()),
                last_heartbeat_time: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now)),
                last_transition_time: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(since.unwrap_or(now))),
            }
        };
        let mut conditions = vec![
            make("MemoryPressure", "False", "KubeletHasSufficientMemory", None),
            make("DiskPressure", "False", "KubeletHasNoDiskPressure", None),
            make("PIDPressure", "False", "KubeletHasSufficientPID", None),
        ];
        // What others have written, and what an operator of the simulation asked for.
        let own = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];
        let others = known.iter().filter(|c| !own.contains(&&*c.type_) && !self.ailments.contains_key(&c.type_));
        let others: Vec<NodeCondition> = others.cloned().collect();
        conditions.retain(|condition| !self.ailments.contains_key(&condition.type_));
        conditions.extend(others);
        conditions.extend(self.ailments.iter().map(|(type_, a)| make(type_, &a.status, &a.reason, Some(a.since))));
        conditions.push(match &self.not_ready {
            None => make("Ready", "True", "KubeletReady", None),
            Some(reason) => make("Ready", "False", reason, None),
        });
        conditions
    }
}

/// Writes what changed; a full picture when the last one is old. Answers when to look again.
async fn write_status(kubelets: &Kubelets, node: &Node, picture: &Picture) -> Result<Duration, kube::Error> {
    let now = kubelets.cluster.now();
    let status = node.status.clone().unwrap_or_default();
    let conditions = picture.conditions(node, now);
    let known = status.conditions.clone().unwrap_or_default();
    let gist = |c: &NodeCondition| (c.type_.clone(), c.status.clone(), c.reason.clone());
    let said: BTreeSet<_> = known.iter().map(gist).collect();
    let says: BTreeSet<_> = conditions.iter().map(gist).collect();
    let beat = known.iter().find(|c| c.type_ == "Ready").and_then(|c| Some(c.last_heartbeat_time.as_ref()?.0));
    let due = beat
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .checked_add(SignedDuration::try_from(kubelets.pace.status).unwrap_or_default());
    let due = due.unwrap_or(Timestamp::MAX);
    let info = status.node_info.as_ref();
    let has_capacity = status.capacity.as_ref().is_some_and(|capacity| !capacity.is_empty());
    let booted = info.is_some_and(|info| info.boot_id == picture.boot_id);
    if said != says || !booted || !has_capacity || until(due, now).is_none() {
        let mut patch = json!({
            "conditions": conditions,
            "nodeInfo": node_info(picture, &node.name_any()),
            "addresses": [
                {"type": "InternalIP", "address": address(&node.name_any())},
                {"type": "Hostname", "address": node.name_any()},
            ],
        });
        if let Some((capacity, allocatable)) = &picture.amounts {
            // Amounts that others have added stay: device plugins and the like.
            let texts = |amounts: &Resources| -> BTreeMap<String, String> {
                amounts.iter().map(|(name, amount)| (name.to_owned(), amount.to_string())).collect()
            };
            patch["capacity"] = json!(texts(capacity));
            patch["allocatable"] = json!(texts(allocatable));
        } else if !has_capacity {
            let four = json!({"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "20Gi"});
            patch["capacity"] = four.clone();
            patch["allocatable"] = four;
        }
        kubelets.cluster.patch_status(node, patch).await?;
        return Ok(picture.changes_at.and_then(|at| until(at, now)).unwrap_or(kubelets.pace.status));
    }
    let next = [Some(due), picture.changes_at].into_iter().flatten().filter_map(|at| until(at, now)).min();
    Ok(next.unwrap_or(kubelets.pace.status))
}

/// A private address that follows from the name.
pub(super) fn address(name: &str) -> String {
    let number = Chance::about(0, &["address", name]).number();
    format!("10.{}.{}.{}", number >> 16 & 0xff, number >> 8 & 0xff, (number & 0xff).clamp(1, 254))
}

fn node_info(picture: &Picture, name: &str) -> Value {
    let id = format!("{:016x}", Chance::about(0, &["machine", name]).number());
    json!({
        "machineID": id, "systemUUID": id, "bootID": picture.boot_id, "kernelVersion": "6.12.0", "osImage": "Simulated",
        "containerRuntimeVersion": "simulated://1", "kubeletVersion": "v1.35.4", "kubeProxyVersion": "",
        "operatingSystem": picture.system, "architecture": picture.architecture,
    })
}
