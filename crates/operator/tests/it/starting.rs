//! What is wrong at the start is said in one line, and the process ends.

use std::path::Path;
use std::process::{Command, Output};

use karpenter_api::crd;
use karpenter_testkit::ControlPlane;
use serde_json::{Value, json};

use crate::live::installed::account_kubeconfig;

fn controller(kubeconfig: &Path, environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_karpenter-controller"))
        .env_clear()
        .envs([("CLOUD_PROVIDER", "kwok"), ("METRICS_PORT", "0"), ("HEALTH_PROBE_PORT", "0")])
        .env("LEADER_ELECTION_NAMESPACE", "default")
        .env("KUBECONFIG", kubeconfig)
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

/// The one line that says why it ended; nothing is said on standard error, and nothing looks like a crash.
fn complaint(out: &Output) -> String {
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(1), "{text} {}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    let errors: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["level"] == "ERROR")
        .collect();
    assert_eq!(errors.len(), 1, "{text}");
    errors[0]["error"].as_str().unwrap().to_owned()
}

/// AWS-229, API-287, API-300: a port in use, a kubeconfig that is none, instance types that are none, an API server that is none.
#[test]
fn without_a_cluster_or_a_port() {
    let taken = std::net::TcpListener::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let nowhere = Path::new("/nonexistent/kubeconfig");
    for setting in ["metrics-port", "health-probe-port"] {
        let variable = setting.to_uppercase().replace('-', "_");
        let said = complaint(&controller(nowhere, &[(&variable, &port)]));
        assert!(said.contains(&format!("--{setting}: cannot listen on port {port}")), "{said}");
        assert!(said.to_lowercase().contains("in use"), "{said}");
    }
    let said = complaint(&controller(nowhere, &[]));
    assert!(said.contains("KUBECONFIG") && said.contains("/nonexistent/kubeconfig"), "{said}");

    let folder = std::env::temp_dir().join(format!("karpenter-starting-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let broken = folder.join("broken");
    std::fs::write(&broken, "clusters: {").unwrap();
    let said = complaint(&controller(&broken, &[]));
    assert!(said.contains("KUBECONFIG"), "{said}");
    // A port that nobody listens on: taken, and given back.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = folder.join("closed");
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": format!("https://127.0.0.1:{closed}")}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}], "users": [{"name": "x", "user": {"token": "t"}}]});
    std::fs::write(&config, text.to_string()).unwrap();
    // A file of instance types that is missing, or none.
    let types = broken.display().to_string();
    for (path, why) in
        [("/nonexistent/types", "cannot read instance types"), (&types, "is not a list of instance types")]
    {
        let said = complaint(&controller(&config, &[("INSTANCE_TYPES_FILE_PATH", path)]));
        assert!(said.contains(why) && said.contains(path), "{said}");
    }
    let said = complaint(&controller(&config, &[]));
    assert!(said.contains(&format!("cannot talk to the API server at https://127.0.0.1:{closed}")), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Logs that cannot be written are said on standard error.
#[test]
fn logs_that_cannot_be_written() {
    let out = controller(Path::new("/nonexistent"), &[("LOG_OUTPUT_PATHS", "/nonexistent/log")]);
    assert_eq!(out.status.code(), Some(2));
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(text.contains("--log-output-paths") && text.contains("/nonexistent/log"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

/// API-290, API-300, API-301, V15-16: CRDs that are missing, then rights that are missing, all named together.
#[tokio::test]
async fn a_cluster_that_is_not_prepared() {
    let cluster = ControlPlane::builder().controller_manager().start().await.unwrap();
    let said = complaint(&controller(cluster.kubeconfig(), &[]));
    for named in ["NodePool (karpenter.sh/v1)", "NodeClaim (karpenter.sh/v1)", "KWOKNodeClass", "karpenter-crd"] {
        assert!(said.contains(named), "{named} is missing in: {said}");
    }
    assert!(!said.contains("NodeOverlay") && !said.contains("CapacityBuffer"), "not needed by everybody: {said}");
    let crds = crd::all().into_iter().map(|crd| serde_json::from_value(crd).unwrap());
    cluster.apply_crds(crds).await.unwrap();

    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody", "namespace": "default"}});
    cluster.install([account]).await.unwrap();
    let nobody = account_kubeconfig(&cluster, "default", "nobody").await;
    let said = complaint(&controller(&nobody, &[]));
    for named in [
        "list nodepools.karpenter.sh",
        "patch nodeclaims.karpenter.sh/status",
        "create pods/eviction",
        "create nodes",
        "update leases.coordination.k8s.io in namespace default",
        "chart karpenter",
    ] {
        assert!(said.contains(named), "{named} is missing in: {said}");
    }
    assert!(!said.contains("verticalpodautoscalers"), "{said}");
}
