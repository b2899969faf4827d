//! What one test has of a cluster for itself: a namespace, and pools whose nodes take nobody else's pods.
//!
//! Objects are plain JSON, so that what is asserted shares no code with what is tested.

#![allow(clippy::needless_pass_by_value, reason = "callers write json!(...), not &json!(...)")]

use std::time::{Duration, Instant};

use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use super::installed::{Installed, LIMIT};

/// Of pools, their claims and nodes: whose they are. Nodes also have it as a taint.
const SCENE: &str = "example.com/scene";

pub(crate) struct Scene<'a> {
    installed: &'a Installed,
    pub(crate) name: &'static str,
    client: Client,
}

impl<'a> Scene<'a> {
    pub(crate) async fn new(installed: &'a Installed, name: &'static str) -> Self {
        let scene = Self { installed, name, client: installed.client() };
        scene.create(json!({"kind": "Namespace", "metadata": {"name": name}})).await;
        // Pods are refused before it is there.
        scene.wait("a service account", async || Ok(scene.get("ServiceAccount", "default").await?.map(|_| ()))).await;
        scene
    }

    /// A pool that takes pods of this scene; `suffix` tells several apart, `spec` is laid over its spec.
    pub(crate) fn pool(&self, suffix: &str, spec: Value) -> Value {
        let mut pool = json!({"kind": "NodePool", "metadata": {"name": self.pool_name(suffix), "labels": {SCENE: self.name}}, "spec": {
        "disruption": {"consolidateAfter": "Never"},
        "template": {"metadata": {"labels": {SCENE: self.name}}, "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "taints": [{"key": SCENE, "value": self.name, "effect": "NoSchedule"}],
            "requirements": [
                {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
            ]}}}});
        lay_over(&mut pool["spec"], spec);
        pool
    }

    pub(crate) fn pool_name(&self, suffix: &str) -> String {
        if suffix.is_empty() { self.name.to_owned() } else { format!("{}-{suffix}", self.name) }
    }

    /// The taint of this scene's nodes.
    pub(crate) fn taint(&self) -> Value {
        json!({"key": SCENE, "value": self.name, "effect": "NoSchedule"})
    }

    /// A pod with one container that asks for this much, labelled with its name; `rest` is laid over the object.
    pub(crate) fn pod(&self, name: &str, cpu: &str, rest: Value) -> Value {
        let mut pod = json!({"kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": {
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {SCENE: self.name},
            "tolerations": [{"key": SCENE, "operator": "Equal", "value": self.name}],
            "containers": [{"name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": cpu}}}]}});
        lay_over(&mut pod, rest);
        pod
    }

    /// Creates objects of the kinds in [`place`]; those with a namespace in the scene's.
    pub(crate) async fn create(&self, mut object: Value) -> Value {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let (root, ..) = place(&kind);
        object["apiVersion"] = root.trim_start_matches("/apis/").trim_start_matches("/api/").into();
        let made = self.ask(Method::POST, &self.path(&kind, ""), &object).await;
        made.unwrap_or_else(|error| panic!("{error}\n{object}"))
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, kube::Error> {
        absent(self.ask(Method::GET, &self.path(kind, name), &Value::Null).await)
    }

    /// Of the kinds with a namespace those of the scene, of the others all.
    pub(crate) async fn list(&self, kind: &str) -> Result<Vec<Value>, kube::Error> {
        let answer = self.ask(Method::GET, &self.path(kind, ""), &Value::Null).await?;
        Ok(answer["items"].as_array().cloned().unwrap_or_default())
    }

    /// Those of the scene.
    pub(crate) async fn claims(&self) -> Result<Vec<Value>, kube::Error> {
        self.ours("NodeClaim").await
    }

    /// Those of the scene.
    pub(crate) async fn nodes(&self) -> Result<Vec<Value>, kube::Error> {
        self.ours("Node").await
    }

    async fn ours(&self, kind: &str) -> Result<Vec<Value>, kube::Error> {
        let path = format!("{}?labelSelector={SCENE}%3D{}", self.path(kind, ""), self.name);
        let answer = self.ask(Method::GET, &path, &Value::Null).await?;
        Ok(answer["items"].as_array().cloned().unwrap_or_default())
    }

    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) -> Value {
        let patched = self.ask(Method::PATCH, &self.path(kind, name), &patch).await;
        patched.unwrap_or_else(|error| panic!("{kind} {name}: {error}\n{patch}"))
    }

    /// What the API server says to a patch that it may refuse. `name` may end with a subresource.
    pub(crate) async fn try_patch(&self, kind: &str, name: &str, patch: &Value) -> Result<Value, kube::Error> {
        self.ask(Method::PATCH, &self.path(kind, name), patch).await
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        absent(self.ask(Method::DELETE, &self.path(kind, name), &json!({})).await).unwrap();
    }

    pub(crate) async fn scale(&self, deployment: &str, replicas: u32) {
        self.patch("Deployment", deployment, json!({"spec": {"replicas": replicas}})).await;
    }

    fn path(&self, kind: &str, name: &str) -> String {
        let (root, plural, namespaced) = place(kind);
        let within = if namespaced { format!("/namespaces/{}", self.name) } else { String::new() };
        let name = if name.is_empty() { String::new() } else { format!("/{name}") };
        format!("{root}{within}/{plural}{name}")
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", kind).body(body);
        self.client.request(request.unwrap()).await
    }

    /// Asks until the answer is there; fails with a picture of everything when it does not come.
    pub(crate) async fn wait<T>(&self, what: &str, question: impl AsyncFn() -> Result<Option<T>, kube::Error>) -> T {
        let since = Instant::now();
        loop {
            let answer = question().await;
            if let Ok(Some(answer)) = answer {
                return answer;
            }
            if since.elapsed() > LIMIT {
                let picture = self.picture().await;
                panic!("{}: {what}: not after {LIMIT:?} ({:?})\n{picture}", self.name, answer.err());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until all pods of the scene run and there are this many; returns them, sorted by name.
    pub(crate) async fn all_run(&self, count: usize) -> Vec<Value> {
        self.wait(&format!("{count} pods run"), async || {
            let pods = self.list("Pod").await?;
            let run = pods.iter().filter(|pod| is_running(pod)).count();
            Ok((run == count && pods.len() == count).then_some(pods))
        })
        .await
    }

    /// Waits until this many pods have been looked at by kube-scheduler and found no node. A pool that is made after that
    /// has all of them to plan for at once.
    pub(crate) async fn all_wait(&self, count: usize) {
        self.wait(&format!("{count} pods wait"), async || {
            let pods = self.list("Pod").await?;
            let waiting =
                pods.iter().filter(|pod| condition(pod, "PodScheduled") == ("False", "Unschedulable")).count();
            Ok((waiting == count).then_some(()))
        })
        .await;
    }

    /// Waits until this pod runs.
    pub(crate) async fn runs(&self, name: &str) -> Value {
        self.wait(&format!("pod {name} runs"), async || Ok(self.get("Pod", name).await?.filter(is_running))).await
    }

    /// Waits for one claim of the scene.
    pub(crate) async fn claim(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.wait(what, async || Ok(self.claims().await?.into_iter().find(|claim| wanted(claim)))).await
    }

    /// Waits until no claim, no node and no pod of the scene is left.
    pub(crate) async fn nothing_left(&self) {
        self.wait("nothing is left", async || {
            let left = self.claims().await?.len() + self.nodes().await?.len() + self.list("Pod").await?.len();
            Ok((left == 0).then_some(()))
        })
        .await;
    }

    /// About objects of the scene, and about those without a namespace.
    pub(crate) async fn events(&self) -> Result<Vec<Value>, kube::Error> {
        let mut events = self.list("Event").await?;
        let others = self.ask(Method::GET, "/api/v1/namespaces/default/events", &Value::Null).await?;
        events.extend(others["items"].as_array().cloned().unwrap_or_default());
        Ok(events)
    }

    /// What our events with this reason say about the object, which is one of the scene, or one without a namespace.
    pub(crate) async fn told(&self, reason: &str, about: &str) -> Result<Option<String>, kube::Error> {
        let events = self.events().await?;
        let fits = |event: &&Value| {
            event["reason"] == reason
                && event["involvedObject"]["name"] == about
                && event["source"]["component"] == "karpenter"
        };
        let said: Vec<&str> = events.iter().filter(fits).filter_map(|event| event["message"].as_str()).collect();
        Ok((!said.is_empty()).then(|| said.join("\n")))
    }

    /// Waits until a claim and its node are gone.
    pub(crate) async fn gone(&self, claim: &str) {
        self.wait(&format!("nodeclaim {claim} and its node are gone"), async || {
            let nodes = self.nodes().await?;
            let alone = nodes.iter().all(|node| label(node, "kubernetes.io/hostname") != claim);
            Ok((alone && self.get("NodeClaim", claim).await?.is_none()).then_some(()))
        })
        .await;
    }

    /// Waits for an event of ours about the object and returns its message.
    pub(crate) async fn event(&self, reason: &str, about: &str) -> String {
        self.wait(&format!("event {reason} about {about}"), async || self.told(reason, about).await).await
    }

    /// What there is, for whoever reads about a failure.
    pub(crate) async fn picture(&self) -> String {
        let cluster = &self.installed.cluster;
        let mut picture = Vec::new();
        for command in [
            format!("get pods -n {} -o wide", self.name),
            format!("get nodepools,nodeclaims,nodes -l {SCENE}={} -o wide", self.name),
            format!("get events -n {} --sort-by=.lastTimestamp", self.name),
            "get events -n default --sort-by=.lastTimestamp".to_owned(),
            format!("get nodeclaims -l {SCENE}={} -o jsonpath={{.items[*].status.conditions}}", self.name),
        ] {
            let said = match cluster.kubectl(command.split(' ')).await {
                Ok(out) => format!("{}{}", tail(&out.stdout, 60), tail(&out.stderr, 5)),
                Err(error) => error.to_string(),
            };
            picture.push(format!("--- kubectl {command}\n{said}\n"));
        }
        let logs = std::fs::read_dir(cluster.folder().join("logs")).unwrap().map(|entry| entry.unwrap().path());
        let mut ours: Vec<_> = logs.filter(|path| path.to_string_lossy().contains("/karpenter-")).collect();
        ours.sort_by_key(|path| std::fs::metadata(path).and_then(|data| data.modified()).ok());
        for path in ours.iter().rev().take(2) {
            let text = std::fs::read(path).unwrap_or_default();
            picture.push(format!("--- end of {}\n{}\n", path.display(), tail(&text, 60)));
        }
        picture.concat()
    }
}

fn tail(text: &[u8], lines: usize) -> String {
    let text = String::from_utf8_lossy(text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn absent(answer: Result<Value, kube::Error>) -> Result<Option<Value>, kube::Error> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The root of a kind's API, its plural, and whether its objects have a namespace.
fn place(kind: &str) -> (&'static str, &'static str, bool) {
    match kind {
        "Namespace" => ("/api/v1", "namespaces", false),
        "Node" => ("/api/v1", "nodes", false),
        "PersistentVolume" => ("/api/v1", "persistentvolumes", false),
        "Pod" => ("/api/v1", "pods", true),
        "Event" => ("/api/v1", "events", true),
        "PodTemplate" => ("/api/v1", "podtemplates", true),
        "ServiceAccount" => ("/api/v1", "serviceaccounts", true),
        "PersistentVolumeClaim" => ("/api/v1", "persistentvolumeclaims", true),
        "Deployment" => ("/apis/apps/v1", "deployments", true),
        "DaemonSet" => ("/apis/apps/v1", "daemonsets", true),
        "PodDisruptionBudget" => ("/apis/policy/v1", "poddisruptionbudgets", true),
        "StorageClass" => ("/apis/storage.k8s.io/v1", "storageclasses", false),
        "VolumeAttachment" => ("/apis/storage.k8s.io/v1", "volumeattachments", false),
        "Provisioner" => ("/apis/karpenter.sh/v1alpha5", "provisioners", false),
        "AWSNodeTemplate" => ("/apis/karpenter.k8s.aws/v1alpha1", "awsnodetemplates", false),
        "NodePool" => ("/apis/karpenter.sh/v1", "nodepools", false),
        "NodeClaim" => ("/apis/karpenter.sh/v1", "nodeclaims", false),
        "NodeOverlay" => ("/apis/karpenter.sh/v1alpha1", "nodeoverlays", false),
        "EC2NodeClass" => ("/apis/karpenter.k8s.aws/v1", "ec2nodeclasses", false),
        "KWOKNodeClass" => ("/apis/karpenter.kwok.sh/v1alpha1", "kwoknodeclasses", false),
        "CapacityBuffer" => ("/apis/autoscaling.x-k8s.io/v1beta1", "capacitybuffers", true),
        other => panic!("where does {other} live?"),
    }
}

/// Members of `over` replace those of `under`; objects are merged.
pub(crate) fn lay_over(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                lay_over(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

/// A workload of pods: `Deployment` or `DaemonSet`.
pub(crate) fn workload(kind: &str, name: &str, replicas: u32, pod: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": name}}, "template": pod});
    spec["template"]["metadata"].as_object_mut().unwrap().remove("name");
    if kind != "DaemonSet" {
        spec["replicas"] = replicas.into();
    }
    json!({"kind": kind, "metadata": {"name": name}, "spec": spec})
}

pub(crate) fn is_running(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
}

/// Of any object.
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The node that a pod is on.
pub(crate) fn node_of(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

/// A label of any object.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

/// Status and reason of a condition.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> (&'a str, &'a str) {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == type_);
    let text = |key: &str| found.and_then(|found| found[key].as_str()).unwrap_or_default();
    (text("status"), text("reason"))
}

pub(crate) fn is_ready(claim: &Value) -> bool {
    condition(claim, "Ready").0 == "True"
}
