//! Workloads as the pods that they still need.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// More pods than this are not planned for; somebody wrote a wrong number.
const MOST_PODS: u64 = 2_000_000;

/// The pods that one object asks for.
#[derive(Debug)]
pub(super) struct Expanded {
    /// A pod that waits for a node, but for its name.
    pub(super) template: Value,
    pub(super) names: Vec<String>,
    /// Templates of volume claims that each pod has for itself.
    claims: Vec<Value>,
}

/// What there is already, so that pods of a running cluster are not planned twice.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// Names of all pods and of pods that were made here, by namespace.
    names: BTreeSet<(String, String)>,
    /// Pods that live, by namespace, kind and name of their controller.
    by_controller: BTreeMap<(String, &'static str, String), u64>,
    /// Deployments by namespace and ReplicaSet.
    deployments: BTreeMap<(String, String), String>,
    made: u64,
}

pub(super) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    path.iter().try_fold(object, |here, name| here.get(name)).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

/// `default` where nothing is said.
pub(super) fn namespace(object: &Value) -> &str {
    let written = text(object, &["metadata", "namespace"]);
    if written.is_empty() { "default" } else { written }
}

fn controller(object: &Value) -> Option<(&str, &str)> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    Some((text(owner, &["kind"]), text(owner, &["name"])))
}

impl Running {
    /// Takes note of a pod or a ReplicaSet; nothing else matters here.
    pub(super) fn note(&mut self, object: &Value) {
        let space = namespace(object).to_owned();
        match (text(object, &["kind"]), controller(object)) {
            ("Pod", owner) => {
                self.names.insert((space.clone(), name(object).to_owned()));
                let ended = matches!(text(object, &["status", "phase"]), "Succeeded" | "Failed");
                let Some((kind, owner)) = owner.filter(|_| !ended) else { return };
                let Some(kind) = KINDS.iter().find(|known| **known == kind) else { return };
                *self.by_controller.entry((space.clone(), *kind, owner.to_owned())).or_default() += 1;
                // The name of a ReplicaSet tells its Deployment where the ReplicaSet itself is not given.
                let hash = text(object, &["metadata", "labels", "pod-template-hash"]);
                if let Some(deployment) = owner.strip_suffix(hash).and_then(|rest| rest.strip_suffix('-'))
                    && *kind == "ReplicaSet"
                    && !hash.is_empty()
                {
                    self.deployments.insert((space, owner.to_owned()), deployment.to_owned());
                }
            }
            ("ReplicaSet", Some(("Deployment", deployment))) => {
                self.deployments.insert((space, name(object).to_owned()), deployment.to_owned());
            }
            _ => {}
        }
    }

    /// How many pods of the workload live.
    fn pods_of(&self, space: &str, kind: &str, name: &str) -> u64 {
        let own = |(namespace, owner_kind, owner): &(String, &'static str, String)| {
            let deployed = || self.deployments.get(&(namespace.clone(), owner.clone())).is_some_and(|d| d == name);
            namespace == space
                && match kind {
                    "Deployment" => *owner_kind == "ReplicaSet" && deployed(),
                    _ => *owner_kind == kind && owner == name,
                }
        };
        self.by_controller.iter().filter(|(key, _)| own(key)).map(|(_, count)| count).sum()
    }

    /// `count` names that are not taken, `<workload>-<n>`.
    fn free_names(&mut self, space: &str, workload: &str, count: u64) -> Vec<String> {
        let mut names = Vec::new();
        let mut number = 0_u64;
        while (names.len() as u64) < count {
            let name = format!("{workload}-{number}");
            number += 1;
            if self.names.insert((space.to_owned(), name.clone())) {
                names.push(name);
            }
        }
        names
    }
}

/// Controllers whose pods are told apart from those that are still to be made.
const KINDS: [&str; 4] = ["ReplicaSet", "StatefulSet", "ReplicationController", "Job"];

/// What is wrong with a number, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WrongNumber {
    pub(super) field: &'static str,
    pub(super) message: String,
}

/// `None` for objects that have no pods.
pub(super) fn pods(object: &Value, running: &mut Running) -> Option<Result<Expanded, WrongNumber>> {
    let kind = text(object, &["kind"]);
    Some(match (text(object, &["apiVersion"]), kind) {
        ("v1", "Pod") => Ok(single(object)),
        ("apps/v1", "Deployment" | "ReplicaSet") | ("v1", "ReplicationController") => {
            replicas(object).and_then(|wanted| fill_up(object, wanted, running))
        }
        ("apps/v1", "StatefulSet") => replicas(object).and_then(|wanted| stateful(object, wanted, running)),
        ("batch/v1", "Job") => job(object).and_then(|wanted| fill_up(object, wanted, running)),
        _ => return None,
    })
}

fn number(object: &Value, path: &[&str], field: &'static str) -> Result<Option<u64>, WrongNumber> {
    let value = path.iter().try_fold(object, |here, name| here.get(name)).filter(|value| !value.is_null());
    let Some(value) = value else { return Ok(None) };
    let wrong = || WrongNumber { field, message: format!("{value} is not a number of zero or more") };
    value.as_u64().map(Some).ok_or_else(wrong)
}

fn replicas(object: &Value) -> Result<u64, WrongNumber> {
    Ok(number(object, &["spec", "replicas"], "spec.replicas")?.unwrap_or(1))
}

/// Pods that a job runs at once and has still to run.
fn job(object: &Value) -> Result<u64, WrongNumber> {
    if object["spec"]["suspend"] == true {
        return Ok(0);
    }
    let at_once = number(object, &["spec", "parallelism"], "spec.parallelism")?.unwrap_or(1);
    let wanted = number(object, &["spec", "completions"], "spec.completions")?.unwrap_or(at_once);
    let done = number(object, &["status", "succeeded"], "status.succeeded")?.unwrap_or(0);
    Ok(at_once.min(wanted.saturating_sub(done)))
}

fn affordable(running: &mut Running, count: u64, field: &'static str) -> Result<(), WrongNumber> {
    if running.made.saturating_add(count) > MOST_PODS {
        return Err(WrongNumber { field, message: format!("more than {MOST_PODS} pods in all are not planned for") });
    }
    running.made += count;
    Ok(())
}

/// The pods that are missing from what is wanted.
fn fill_up(object: &Value, wanted: u64, running: &mut Running) -> Result<Expanded, WrongNumber> {
    let (space, kind, name) = (namespace(object), text(object, &["kind"]), name(object));
    // A Deployment that is given, too, answers for its ReplicaSets.
    let deployed = kind == "ReplicaSet" && controller(object).is_some_and(|(owner, _)| owner == "Deployment");
    let missing = if deployed { 0 } else { wanted.saturating_sub(running.pods_of(space, kind, name)) };
    affordable(running, missing, if kind == "Job" { "spec.parallelism" } else { "spec.replicas" })?;
    let names = running.free_names(space, name, missing);
    Ok(Expanded { template: template(object), names, claims: Vec::new() })
}

/// Pods of a StatefulSet have their numbers, and claims that are named after them.
fn stateful(object: &Value, wanted: u64, running: &mut Running) -> Result<Expanded, WrongNumber> {
    let first = number(object, &["spec", "ordinals", "start"], "spec.ordinals.start")?.unwrap_or(0);
    affordable(running, wanted, "spec.replicas")?;
    let (space, set) = (namespace(object), name(object));
    let names = (0..wanted).map(|number| format!("{set}-{}", first.saturating_add(number)));
    let names = names.filter(|name| running.names.insert((space.to_owned(), name.clone()))).collect();
    let claims = object["spec"]["volumeClaimTemplates"].as_array().cloned().unwrap_or_default();
    Ok(Expanded { template: template(object), names, claims })
}

impl Expanded {
    /// All pods are the same but for their names.
    pub(super) fn is_uniform(&self) -> bool {
        self.claims.is_empty() && !volumes(&self.template).iter().any(|volume| volume["ephemeral"].is_object())
    }

    /// One of the pods, and the volume claims that are made for it.
    pub(super) fn pod(&self, pod_name: &str) -> (Value, Vec<Value>) {
        let mut pod = self.template.clone();
        pod["metadata"]["name"] = json!(pod_name);
        let space = namespace(&pod).to_owned();
        let claim = |own: &str, template: &Value| {
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": own, "namespace": space}, "spec": template["spec"]})
        };
        let ephemeral = volumes(&pod).iter().filter(|volume| volume["ephemeral"].is_object()).map(|volume| {
            claim(&format!("{pod_name}-{}", text(volume, &["name"])), &volume["ephemeral"]["volumeClaimTemplate"])
        });
        let mut made: Vec<Value> = ephemeral.collect();
        if !self.claims.is_empty() && pod["spec"].is_object() {
            let replaced = |volume: &&Value| self.claims.iter().any(|claim| name(claim) == text(volume, &["name"]));
            let mut all: Vec<Value> = volumes(&pod).iter().filter(|volume| !replaced(volume)).cloned().collect();
            for template in &self.claims {
                let own = format!("{}-{pod_name}", name(template));
                made.push(claim(&own, template));
                all.push(json!({"name": name(template), "persistentVolumeClaim": {"claimName": own}}));
            }
            pod["spec"]["volumes"] = all.into();
        }
        (pod, made)
    }
}

fn volumes(pod: &Value) -> &[Value] {
    pod["spec"]["volumes"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn template(object: &Value) -> Value {
    let template = &object["spec"]["template"];
    let mut metadata = template["metadata"].clone();
    if !metadata.is_object() {
        metadata = json!({});
    }
    // A Deployment has its pods made by a ReplicaSet, which is who stands behind them.
    let kind = match text(object, &["kind"]) {
        "Deployment" => "ReplicaSet",
        kind => kind,
    };
    let name = name(object);
    let owner =
        json!({"apiVersion": object["apiVersion"], "kind": kind, "name": name, "uid": name, "controller": true});
    metadata["namespace"] = json!(namespace(object));
    metadata["name"] = json!(name);
    metadata["ownerReferences"] = json!([owner]);
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]});
    if !is_gated(&pod) {
        pod["status"] = waiting();
    }
    pod
}

/// A pod of a manifest that nobody has scheduled waits like one that the scheduler gave up on.
fn single(object: &Value) -> Expanded {
    let mut pod = object.clone();
    if !pod["metadata"].is_object() {
        pod["metadata"] = json!({});
    }
    pod["metadata"]["namespace"] = json!(namespace(object));
    let unbound = text(object, &["spec", "nodeName"]).is_empty();
    let ended = matches!(text(object, &["status", "phase"]), "Succeeded" | "Failed");
    if unbound && !ended && !is_gated(object) {
        pod["status"] = waiting();
    }
    Expanded { template: pod, names: vec![name(object).to_owned()], claims: Vec::new() }
}

/// The scheduler does not look at it yet, so nobody makes room for it.
pub(super) fn is_gated(pod: &Value) -> bool {
    pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty())
}

fn waiting() -> Value {
    json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]})
}

#[cfg(test)]
mod tests;
