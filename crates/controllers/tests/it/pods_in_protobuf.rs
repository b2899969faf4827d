//! A real kube-apiserver answers in JSON and in protobuf, and both are the same pods.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use http::header;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use karpenter_controllers::watches::{Form, Frames, PodClasses, PodEvent, SeenPod, WireReader};
use karpenter_model::labels::LabelRules;
use karpenter_testkit::ControlPlane;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::client::Body;
use serde_json::{Value, json};

const NAMESPACE: &str = "pods-in-protobuf";
const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf, application/json";
const WATCHED: &str = "application/vnd.kubernetes.protobuf;stream=watch, application/json";

/// All that somebody reads, of what an API server lets through.
fn pods() -> Vec<(Value, Value)> {
    let container = json!({"name": "app", "image": "i", "command": ["sh"], "env": [{"name": "E", "value": "1"}],
        "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 53, "protocol": "UDP"}],
        "livenessProbe": {"httpGet": {"port": 80}},
        "resources": {"requests": {"cpu": "1500m", "memory": "1Gi", "example.com/device": "2"}, "limits": {"example.com/device": "2", "memory": "2Gi"}}});
    let running = json!({"phase": "Running", "startTime": "2026-01-01T00:00:02Z",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:04Z"}],
        "containerStatuses": [{"name": "app", "image": "i", "imageID": "x", "ready": true, "restartCount": 3, "containerID": "c://1",
            "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "2"}}}]});
    vec![
        (json!({"metadata": {"name": "plain"}, "spec": {"containers": [container]}}), running),
        (
            json!({"metadata": {"name": "wishes", "labels": {"app": "web", "empty": ""},
                "annotations": {"karpenter.sh/do-not-disrupt": "true", "controller.kubernetes.io/pod-deletion-cost": "5", "note": "x"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]},
            "spec": {"containers": [container], "initContainers": [
                    {"name": "side", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
                    {"name": "step", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
                "terminationGracePeriodSeconds": 0, "nodeSelector": {"disk": "ssd"}, "hostname": "h",
                "tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}, {"key": "k", "value": "v"}],
                "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "web"}}, "minDomains": 2, "nodeTaintsPolicy": "Honor"}],
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b", "c"]}, {"key": "d", "operator": "Exists"}]}]},
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "preference": {"matchExpressions": [{"key": "g", "operator": "Gt", "values": ["3"]}]}}]},
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}, "labelSelector": {}}]},
                    "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "namespaces": ["x"],
                        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}}}]}}}}),
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}], "nominatedNodeName": "n-1"}),
        ),
        (
            json!({"metadata": {"name": "volumes"}, "spec": {"containers": [container], "nodeName": "node-7", "schedulingGates": null,
                "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "m", "emptyDir": {}},
                    {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}]}}),
            json!({"phase": "Failed", "reason": "Evicted"}),
        ),
        (
            json!({"metadata": {"name": "gated"}, "spec": {"containers": [container], "schedulingGates": [{"name": "example.com/wait"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "own", "resourceClaimName": "mine"}]}}),
            json!({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gated-gpu"}]}),
        ),
        (
            json!({"metadata": {"name": "daemon", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "7", "controller": true}]},
            "spec": {"containers": [container], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}}}}}),
            json!({"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}),
        ),
    ]
}

async fn create(cluster: &ControlPlane) {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    Api::all(cluster.client()).create(&PostParams::default(), &namespace).await.unwrap();
    let api: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
    for (pod, status) in pods() {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        let mut pod: Pod = serde_json::from_value(pod).unwrap();
        pod.spec.as_mut().unwrap().automount_service_account_token = Some(false);
        api.create(&PostParams::default(), &pod).await.unwrap();
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
    }
}

async fn ask(cluster: &ControlPlane, query: &str, accept: &str) -> (u16, Form, Body) {
    let request =
        http::Request::get(format!("/api/v1/namespaces/{NAMESPACE}/pods?{query}")).header(header::ACCEPT, accept);
    let response = cluster.client().send(request.body(Body::empty()).unwrap()).await.unwrap();
    let form = Form::of(response.headers()[header::CONTENT_TYPE].as_bytes());
    (response.status().as_u16(), form, response.into_body())
}

type Read = BTreeMap<String, SeenPod>;

async fn list(cluster: &ControlPlane, accept: &str) -> (Form, Read, Option<String>) {
    let (classes, mut reader, mut pods, mut version) =
        (PodClasses::default(), WireReader::default(), Read::new(), None);
    let mut query = "limit=2".to_owned();
    loop {
        let (_, form, body) = ask(cluster, &query, accept).await;
        let bytes = body.collect().await.unwrap().to_bytes();
        let page = form.page(&bytes, &mut reader, |object| {
            pods.insert(object.name().to_owned(), classes.read(object, &LabelRules::core()).unwrap());
        });
        let page = page.unwrap();
        version = page.version.or(version);
        match page.rest {
            Some(rest) => query = format!("limit=2&continue={rest}"),
            None => return (form, pods, version),
        }
    }
}

async fn watch(cluster: &ControlPlane, accept: &str, count: usize) -> (Form, Read) {
    let (classes, mut reader, mut pods) = (PodClasses::default(), WireReader::default(), Read::new());
    let (_, form, body) = ask(cluster, "watch=true&resourceVersion=0&allowWatchBookmarks=true", accept).await;
    let (mut frames, mut body) = (Frames::new(form), body.into_data_stream());
    while pods.len() < count {
        let next = tokio::time::timeout(Duration::from_mins(1), body.next()).await;
        frames.put(&next.expect("all pods are told at once").unwrap().unwrap());
        while let Some(frame) = frames.cut().unwrap() {
            let PodEvent::Applied(object) = form.event(frame, &mut reader).unwrap() else { panic!("not applied") };
            assert!(!object.version().is_empty());
            pods.insert(object.name().to_owned(), classes.read(&object, &LabelRules::core()).unwrap());
        }
    }
    (form, pods)
}

fn assert_same(json: &Read, protobuf: &Read) {
    assert_eq!(json.keys().collect::<Vec<_>>(), protobuf.keys().collect::<Vec<_>>());
    for (name, pod) in json {
        assert_eq!(pod.view, protobuf[name].view, "{name}");
        assert_eq!(pod.problems, protobuf[name].problems, "{name}");
    }
}

/// SCH-12, SCH-60: the form is chosen by the server, and changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_says_the_same_in_both_forms() {
    let cluster = ControlPlane::shared().await;
    create(cluster).await;
    let (form, json, version) = list(cluster, JSON).await;
    assert_eq!((form, json.len()), (Form::Json, pods().len()));
    assert!(
        json["plain"].view.requests.to_string().contains("example.com/device: 2"),
        "{}",
        json["plain"].view.requests
    );
    assert!(json["wishes"].view.unschedulable && json["gated"].view.uses_devices);
    let (form, protobuf, later) = list(cluster, PROTOBUF).await;
    // Whatever else is written in the cluster counts it up.
    let number = |version: Option<String>| version.unwrap().parse::<u64>().unwrap();
    assert!(form == Form::Protobuf && number(later) >= number(version));
    assert_same(&json, &protobuf);
    for (accept, want) in [(JSON, Form::Json), (WATCHED, Form::Protobuf)] {
        let (form, watched) = watch(cluster, accept, json.len()).await;
        assert_eq!(form, want);
        assert_same(&json, &watched);
    }
    // What goes wrong is said in the same form.
    for (accept, want) in [(JSON, Form::Json), (PROTOBUF, Form::Protobuf)] {
        let (code, form, body) = ask(cluster, "continue=nonsense", accept).await;
        let bytes = body.collect().await.unwrap().to_bytes();
        let status = form.status(&bytes).unwrap();
        assert_eq!((form, status.code), (want, code));
        assert!(status.message.contains("continue"), "{}", status.message);
    }
}
