//! The controller with the environment, the account and the rights that the chart gives it, in two replicas.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Pod, ServiceAccount};
use karpenter_api::crd;
use karpenter_testkit::ControlPlane;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::chart;

/// A takeover takes 17 seconds; a loaded machine gets far more before we call it stuck.
const LIMIT: Duration = Duration::from_mins(3);

async fn wait<T: Debug>(what: &str, question: impl AsyncFn() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(answer) = question().await {
            return answer;
        }
        assert!(since.elapsed() < LIMIT, "{what}: not after {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A cluster with everything that the chart renders but the Deployment itself, whose pods could not run on it.
struct Installed {
    cluster: ControlPlane,
    environment: Vec<(String, String)>,
    kubeconfig: PathBuf,
}

impl Installed {
    async fn new() -> Self {
        let cluster = ControlPlane::builder().scheduler().controller_manager().kwok().start().await.unwrap();
        let crds = crd::all().into_iter().map(|crd| serde_json::from_value(crd).unwrap());
        cluster.apply_crds(crds).await.unwrap();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karpenter"}});
        cluster.install([namespace]).await.unwrap();
        let objects = chart::render(chart::KWOK);
        let environment = chart::environment(&objects);
        cluster.install(objects.into_iter().filter(|object| object["kind"] != "Deployment")).await.unwrap();
        let kubeconfig = account_kubeconfig(&cluster, "karpenter", "karpenter").await;
        Self { cluster, environment, kubeconfig }
    }

    fn client(&self) -> Client {
        self.cluster.client()
    }

    fn start(&self, name: &str) -> Replica {
        let log = self.cluster.folder().join("logs").join(format!("{name}.log"));
        let file = std::fs::File::create(&log).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_karpenter-controller"))
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            // Every replica has its own machine in a cluster; here they share one.
            .env("METRICS_PORT", "0")
            .env("HEALTH_PROBE_PORT", "0")
            .env("KUBECONFIG", &self.kubeconfig)
            .env("BATCH_IDLE_DURATION", "200ms")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Replica { process, log }
    }

    /// Who holds the lease.
    async fn holder(&self) -> Option<String> {
        let leases: Api<Lease> = Api::namespaced(self.client(), "karpenter");
        let spec = leases.get_opt("karpenter-leader-election").await.unwrap()?.spec?;
        spec.holder_identity.filter(|holder| !holder.is_empty())
    }

    async fn create_pod(&self, name: &str) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [
                {"name": "web", "image": "example.com/web", "resources": {"requests": {"cpu": "3"}}}],
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]}}},
        });
        let pods: Api<Pod> = Api::default_namespaced(self.client());
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    async fn runs(&self, name: &str) {
        let pods: Api<Pod> = Api::default_namespaced(self.client());
        wait(&format!("pod {name} runs"), async || {
            let status = pods.get(name).await.unwrap().status?;
            (status.phase.as_deref() == Some("Running")).then_some(())
        })
        .await;
    }
}

struct Replica {
    process: Child,
    log: PathBuf,
}

impl Replica {
    fn log(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap();
        // The last line may be half written.
        text.rsplit_once('\n').map(|(lines, _)| lines.to_owned()).unwrap_or_default()
    }

    fn lines(&self) -> Vec<Value> {
        self.log().lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }

    fn is_leader(&self) -> bool {
        self.log().contains("became leader")
    }

    /// The port that it says it serves this on.
    async fn port(&self, what: &str) -> u64 {
        wait(what, async || {
            let line =
                self.lines().into_iter().find(|line| line["message"] == "serving" && line["endpoint"] == what)?;
            line["port"].as_u64()
        })
        .await
    }

    /// Status and body of an answer.
    async fn get(&self, port: u64, path: &str) -> (u16, String) {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(format!("127.0.0.1:{port}")).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
        (code, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }
}

/// A kubeconfig with a token of the account and nothing else.
pub(crate) async fn account_kubeconfig(cluster: &ControlPlane, namespace: &str, name: &str) -> PathBuf {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), namespace);
    let request = TokenRequest {
        spec: TokenRequestSpec { audiences: Vec::new(), expiration_seconds: Some(3600), bound_object_ref: None },
        ..TokenRequest::default()
    };
    let token = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
    let token = token.status.unwrap().token;
    let mut config: Value = serde_saphyr::from_str(&std::fs::read_to_string(cluster.kubeconfig()).unwrap()).unwrap();
    config["users"][0]["user"] = json!({"token": token});
    config["contexts"][0]["context"]["namespace"] = namespace.into();
    let path = cluster.folder().join(format!("{namespace}-{name}.kubeconfig"));
    write(&path, &config.to_string());
    path
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

fn pool() -> [Value; 2] {
    [
        json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}),
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}}}}),
    ]
}

/// API-169, API-181, API-296, API-297, API-300, API-305, V15-136, LIF-128: with the rights of the chart and no
/// others, exactly one of two replicas acts; killed, the other takes over; told to stop, it gives the lease back and ends well.
#[tokio::test]
async fn two_replicas_of_the_chart() {
    let installed = Installed::new().await;
    installed.cluster.install(pool()).await.unwrap();
    let first = installed.start("first");
    wait("the first leads", async || first.is_leader().then_some(())).await;
    let mut second = installed.start("second");
    installed.create_pod("one").await;
    installed.runs("one").await;

    // Probes and metrics of both, whoever leads.
    for (replica, leads) in [(&first, "1"), (&second, "0")] {
        let probes = replica.port("probes").await;
        wait("ready", async || (replica.get(probes, "/readyz").await.0 == 200).then_some(())).await;
        for path in ["/healthz", "/healthz/healthz", "/readyz/crd", "/readyz/manager", "/readyz/readyz"] {
            assert_eq!(replica.get(probes, path).await, (200, "ok".to_owned()), "{path}");
        }
        assert_eq!(replica.get(probes, "/readyz/other").await.0, 404);
        let port = replica.port("metrics").await;
        let (code, text) = replica.get(port, "/metrics").await;
        assert_eq!(code, 200);
        let leading = format!("leader_election_master_status{{name=\"karpenter-leader-election\"}} {leads}");
        assert!(text.contains(&leading), "{leading}\n{text}");
        for name in [
            "go_gc_heap_live_bytes",
            "process_resident_memory_bytes",
            "karpenter_build_info",
            "client_go_request_total",
        ] {
            assert!(text.contains(&format!("# TYPE {name} ")) || leads == "0", "{name}\n{text}");
        }
        assert_eq!(replica.get(port, "/debug/pprof/").await.0, 404, "profiles are off");
    }
    let port = first.port("metrics").await;
    let (_, text) = first.get(port, "/metrics").await;
    for line in [
        "karpenter_nodeclaims_created_total{reason=\"provisioned\",nodepool=\"default\",min_values_relaxed=\"false\"} 1",
        "karpenter_cluster_state_synced 1",
        "karpenter_pods_state{name=\"one\",namespace=\"default\"",
        "operator_nodeclaim_status_condition_count{",
        "karpenter_cloudprovider_duration_seconds_count{controller=\"nodeclaim.lifecycle\",method=\"Create\",provider=\"kwok\"} 1",
        "controller_runtime_reconcile_total{controller=\"nodeclaim.lifecycle\"",
    ] {
        assert!(text.lines().any(|have| have.starts_with(line)), "{line}\n{text}");
    }
    assert!(!second.log().contains("created nodeclaim"), "the standby did nothing: {}", second.log());

    // Users of the cluster are told.
    let events: Api<Event> = Api::default_namespaced(installed.client());
    let event = wait("an event about the pod", async || {
        let events = events.list(&ListParams::default()).await.unwrap();
        events.items.into_iter().find(|event| event.reason.as_deref() == Some("Nominated"))
    })
    .await;
    assert_eq!(event.source.unwrap().component.as_deref(), Some("karpenter"));
    assert_eq!(event.involved_object.name.as_deref(), Some("one"));

    // Every line of the log is what log pipelines expect.
    for line in first.lines() {
        assert_eq!(line["logger"], "controller", "{line}");
        assert!(line["level"].as_str().is_some_and(|level| level == level.to_uppercase()), "{line}");
        assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')) && line["commit"].is_string(), "{line}");
        assert!(line["message"].is_string(), "{line}");
    }

    // Killed: the other takes over when the lease has run out, and goes on with the work.
    let before = installed.holder().await.unwrap();
    drop(first);
    installed.create_pod("two").await;
    installed.runs("two").await;
    let after = installed.holder().await.unwrap();
    assert_ne!(before, after);
    assert!(second.is_leader());

    // Told to stop: the lease is given back at once.
    let pid = second.process.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
    let status = tokio::time::timeout(LIMIT, second.process.wait()).await.unwrap().unwrap();
    assert!(status.success(), "{}", second.log());
    assert_eq!(installed.holder().await, None, "{}", second.log());
}
