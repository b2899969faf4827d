use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_testkit::ControlPlane;
use kube::Api;
use serde_json::json;

/// Processes that have `folder` in their command line: every program gets a path below it.
fn processes_using(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read(entry.unwrap().path().join("cmdline")).ok())
        .map(|words| String::from_utf8_lossy(&words).replace('\0', " "))
        .filter(|words| words.contains(folder))
        .collect()
}

async fn eventually(limit: Duration, what: &str, question: impl AsyncFn() -> bool) {
    let since = Instant::now();
    while !question().await {
        assert!(since.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn it_answers_and_leaves_nothing_when_dropped() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let version = cluster.client().apiserver_version().await.unwrap();
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "35"));
    let out = cluster.kubectl(["get", "namespace", "default", "-o", "name"]).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "namespace/default\n");
    let folder = cluster.folder().to_owned();
    assert!(processes_using(&folder).len() >= 2, "etcd and kube-apiserver run");
    drop(cluster);
    assert_eq!(processes_using(&folder), Vec::<String>::new());
    assert!(!folder.exists());
}

#[tokio::test]
async fn nothing_is_left_when_the_process_is_killed_hard() {
    let mut holder =
        Command::new(env!("CARGO_BIN_EXE_control-plane")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let folder = Path::new(line.trim()).parent().expect("it prints the path of a kubeconfig").to_owned();
    assert!(processes_using(&folder).len() >= 5, "all five programs run: {:?}", processes_using(&folder));
    holder.kill().unwrap(); // SIGKILL: nothing of the holder runs any more
    holder.wait().unwrap();
    eventually(Duration::from_secs(10), "all processes gone", async || processes_using(&folder).is_empty()).await;
    eventually(Duration::from_secs(10), "folder removed", async || !folder.exists()).await;
}

#[tokio::test]
async fn definitions_are_served_when_installed() {
    let cluster = ControlPlane::shared().await;
    let crd: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "things.test.example"},
        "spec": {
            "group": "test.example",
            "scope": "Cluster",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer"}}}}}],
        },
    }))
    .unwrap();
    cluster.apply_crds([crd]).await.unwrap();
    let thing = |size: serde_json::Value| json!({"apiVersion": "test.example/v1", "kind": "Thing", "metadata": {"name": "a"}, "size": size});
    cluster.install([thing(json!(3))]).await.unwrap();
    let refused = cluster.install([thing(json!("big"))]).await.unwrap_err().to_string();
    assert!(refused.contains("size"), "{refused}");
}

#[tokio::test]
async fn a_pod_runs_on_a_fake_node() {
    let cluster = ControlPlane::shared_cluster().await;
    cluster
        .install([
            json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": "fake-1", "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"fake": "1"}},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}, "capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "runs", "namespace": "default"},
                "spec": {"nodeSelector": {"fake": "1"}, "containers": [{"name": "main", "image": "none"}]}}),
        ])
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    eventually(Duration::from_mins(1), "the pod runs", async || {
        let pod = pods.get("runs").await.unwrap();
        pod.status.and_then(|s| s.phase).as_deref() == Some("Running")
    })
    .await;
    assert_eq!(pods.get("runs").await.unwrap().spec.unwrap().node_name.as_deref(), Some("fake-1"));
    Api::<Node>::all(cluster.client()).delete("fake-1", &kube::api::DeleteParams::default()).await.unwrap();
}
