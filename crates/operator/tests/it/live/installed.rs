//! A cluster with everything that the chart renders but the Deployment itself, whose pods could not run on it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use karpenter_api::crd;
use karpenter_testkit::ControlPlane;
use karpenter_testkit::control_plane::Supervised;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::chart;

/// What happens in seconds gets minutes on a loaded machine before we call it stuck.
pub(crate) const LIMIT: Duration = Duration::from_mins(5);

/// What most tests run with: the chart for kwok with everything on that is built.
const EVERYTHING: &[&str] = &[
    "settings.cloudProvider=kwok",
    "settings.featureGates.staticCapacity=true",
    "settings.featureGates.nodeOverlay=true",
    "settings.featureGates.capacityBuffer=true",
    "settings.featureGates.spotToSpotConsolidation=true",
    "settings.featureGates.nodeRepair=true",
    "settings.featureGates.terminateFirstDrift=true",
    "settings.featureGates.terminateFirstRepair=true",
    // What is expected on a node keeps it for twice as long.
    "settings.batchMaxDuration=5s",
];

pub(crate) async fn wait<T>(what: &str, question: impl AsyncFn() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(answer) = question().await {
            return answer;
        }
        assert!(since.elapsed() < LIMIT, "{what}: not after {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

pub(crate) struct Installed {
    pub(crate) cluster: ControlPlane,
    namespace: &'static str,
    environment: Vec<(String, String)>,
    kubeconfig: PathBuf,
}

impl Installed {
    /// With these values of the chart, and the node class `default`.
    pub(crate) async fn new(values: &[&str]) -> Self {
        Self::in_namespace("karpenter", values).await
    }

    pub(crate) async fn in_namespace(namespace: &'static str, values: &[&str]) -> Self {
        let cluster = ControlPlane::builder().scheduler().controller_manager().kwok().start().await.unwrap();
        let crds = crd::all().into_iter().map(|crd| serde_json::from_value(crd).unwrap());
        cluster.apply_crds(crds).await.unwrap();
        let objects = chart::render_in(namespace, values);
        let environment = chart::environment(&objects);
        let first = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}),
        ];
        let rest = objects.into_iter().filter(|object| object["kind"] != "Deployment");
        cluster.install(first.into_iter().chain(rest)).await.unwrap();
        let kubeconfig = account_kubeconfig(&cluster, namespace, "karpenter").await;
        Self { cluster, namespace, environment, kubeconfig }
    }

    pub(crate) fn client(&self) -> Client {
        self.cluster.client()
    }

    pub(crate) fn start(&self, name: &str) -> Replica {
        self.start_with(name, &[])
    }

    pub(crate) fn start_with(&self, name: &str, more: &[(&str, &str)]) -> Replica {
        Replica::start(&self.cluster, name, &self.kubeconfig, &self.environment, more)
    }

    /// Who holds the lease.
    pub(crate) async fn holder(&self) -> Option<String> {
        let leases: Api<Lease> = Api::namespaced(self.client(), self.namespace);
        let spec = leases.get_opt("karpenter-leader-election").await.unwrap()?.spec?;
        spec.holder_identity.filter(|holder| !holder.is_empty())
    }
}

/// One cluster with one controller for all tests that only use it.
pub(crate) async fn shared() -> &'static Installed {
    &both().await.0
}

/// The controller on it.
pub(crate) async fn shared_replica() -> &'static Replica {
    &both().await.1
}

async fn both() -> &'static (Installed, Replica) {
    static SHARED: OnceCell<(Installed, Replica)> = OnceCell::const_new();
    SHARED.get_or_init(|| everything("karpenter-shared")).await
}

/// The same for a scene that must not hear of others: pods that wait count in every what-if, and a node says only once in a
/// quarter of an hour why it stays.
pub(crate) async fn quiet() -> &'static Installed {
    static QUIET: OnceCell<(Installed, Replica)> = OnceCell::const_new();
    &QUIET.get_or_init(|| everything("karpenter-quiet")).await.0
}

async fn everything(name: &str) -> (Installed, Replica) {
    let installed = Installed::new(EVERYTHING).await;
    let replica = installed.start(name);
    (installed, replica)
}

/// A process of the controller; killed hard on drop.
pub(crate) struct Replica {
    process: Supervised,
    log: PathBuf,
    pid: PathBuf,
}

impl Replica {
    /// With the environment that the chart gives it, but for what `more` says.
    pub(crate) fn start(
        cluster: &ControlPlane,
        name: &str,
        kubeconfig: &Path,
        environment: &[(String, String)],
        more: &[(&str, &str)],
    ) -> Self {
        let pid = cluster.folder().join(format!("{name}.pid"));
        let kubeconfig = kubeconfig.display().to_string();
        // Every replica has its own machine in a cluster; here they share one.
        let ours = [("METRICS_PORT", "0"), ("HEALTH_PROBE_PORT", "0"), ("KUBECONFIG", kubeconfig.as_str())];
        let charts = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let all = charts.chain(ours).chain(more.iter().copied());
        // Nothing but what the chart says, not even our own environment; and who it is, for signals.
        let script = r#"echo $$ >"$1.new" && mv "$1.new" "$1" && shift && exec env -i "$@""#;
        let arguments = ["-c", script, "sh"].map(str::to_owned).into_iter().chain([pid.display().to_string()]);
        let arguments = arguments
            .chain(all.map(|(name, value)| format!("{name}={value}")))
            .chain([env!("CARGO_BIN_EXE_karpenter-controller").to_owned()]);
        let process = cluster.run(name, Path::new("/bin/sh"), arguments, &[]).unwrap();
        Self { process, log: cluster.folder().join("logs").join(format!("{name}.log")), pid }
    }

    pub(crate) fn log(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap();
        // The last line may be half written.
        text.rsplit_once('\n').map(|(lines, _)| lines.to_owned()).unwrap_or_default()
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.log().lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.log().contains("became leader")
    }

    pub(crate) async fn signal(&self, signal: &str) {
        let pid = wait("a process", async || std::fs::read_to_string(&self.pid).ok()).await;
        let status = tokio::process::Command::new("kill").args([signal, pid.trim()]).status().await.unwrap();
        assert!(status.success(), "{signal} {pid}");
    }

    /// Waits for its end and returns its exit code.
    pub(crate) async fn ended(&mut self) -> i32 {
        let since = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(since.elapsed() < LIMIT, "still running: {}", self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The port that it says it serves this on.
    pub(crate) async fn port(&self, what: &str) -> u64 {
        wait(what, async || {
            let line =
                self.lines().into_iter().find(|line| line["message"] == "serving" && line["endpoint"] == what)?;
            line["port"].as_u64()
        })
        .await
    }

    /// Status and body of an answer.
    pub(crate) async fn get(&self, port: u64, path: &str) -> (u16, String) {
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

    /// The value of a metric without labels.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let (_, text) = self.get(self.port("metrics").await, "/metrics").await;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
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
    std::fs::write(&path, config.to_string()).unwrap();
    path
}
