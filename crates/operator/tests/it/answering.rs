//! What the controller asks of an API server, seen from a server that only answers: an empty cluster with a lease.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Value, json};

/// What was asked takes seconds; a loaded machine gets far more.
const LIMIT: Duration = Duration::from_mins(2);

#[derive(Debug, Clone)]
struct Asked {
    method: String,
    path: String,
    watch: bool,
    agent: String,
}

impl Asked {
    fn is_about_the_lease(&self) -> bool {
        self.path.contains("/leases")
    }

    /// The kind that a list or a watch is of.
    fn listed(&self) -> Option<&str> {
        let is_version = |kind: &str| kind.starts_with("v1") || kind.starts_with("v2");
        let last = self.path.rsplit('/').next().filter(|kind| !is_version(kind))?;
        (self.method == "GET" && self.path.starts_with("/api") && !self.is_about_the_lease()).then_some(last)
    }

    fn writes(&self) -> bool {
        self.method != "GET" && !self.path.ends_with("selfsubjectaccessreviews")
    }
}

#[derive(Clone)]
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    lease: Arc<Mutex<Option<Value>>>,
}

impl Server {
    /// With a lease that another replica holds for long, or none.
    fn start(holder: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let lease = holder.map(|holder| {
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "karpenter-leader-election", "namespace": "default", "resourceVersion": "1"},
                "spec": {"holderIdentity": holder, "leaseDurationSeconds": 3600, "leaseTransitions": 0}})
        });
        let port = listener.local_addr().unwrap().port();
        let server = Self { port, asked: Arc::default(), lease: Arc::new(Mutex::new(lease)) };
        let app = axum::Router::new().fallback(answer).with_state(server.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let serve = async { axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), app).await.unwrap() };
            runtime.block_on(serve);
        });
        server
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until what was asked says so; gives all that was asked by then.
    fn wait(&self, what: &str, is_there: impl Fn(&[Asked]) -> bool) -> Vec<Asked> {
        let since = Instant::now();
        loop {
            let asked = self.asked();
            if is_there(&asked) {
                return asked;
            }
            assert!(since.elapsed() < LIMIT, "{what}: not after {LIMIT:?}, but {asked:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn controller(&self, environment: &[(&str, &str)]) -> Controller {
        let folder = std::env::temp_dir().join(format!("karpenter-answering-{}-{}", std::process::id(), self.port));
        std::fs::create_dir_all(&folder).unwrap();
        let kubeconfig = folder.join("kubeconfig");
        let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": format!("http://127.0.0.1:{}", self.port)}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "users": [{"name": "x", "user": {"token": "t"}}]});
        std::fs::write(&kubeconfig, text.to_string()).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_karpenter-controller"))
            .env_clear()
            .envs([("CLOUD_PROVIDER", "kwok"), ("METRICS_PORT", "0"), ("HEALTH_PROBE_PORT", "0")])
            .env("LEADER_ELECTION_NAMESPACE", "default")
            .env("KUBECONFIG", &kubeconfig)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Controller { child, folder }
    }
}

struct Controller {
    child: Child,
    folder: std::path::PathBuf,
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

impl Controller {
    /// Where it serves, as its log says: metrics and probes.
    fn ports(&mut self) -> [u64; 2] {
        let mut lines = BufReader::new(self.child.stdout.take().unwrap()).lines().map(|line| {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            line
        });
        ["metrics", "probes"].map(|endpoint| {
            let line = lines.find(|line| line["message"] == "serving" && line["endpoint"] == endpoint);
            line.unwrap()["port"].as_u64().unwrap()
        })
    }
}

async fn answer(State(server): State<Server>, request: Request) -> Response {
    let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
    let method = request.method().to_string();
    let agent = request.headers().get("user-agent").map_or("", |agent| agent.to_str().unwrap()).to_owned();
    let watch = query.contains("watch=true");
    let asked = Asked { method: method.clone(), path: path.clone(), watch, agent };
    server.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let mut sent: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut lease = server.lease.lock().unwrap_or_else(PoisonError::into_inner);
    match (method.as_str(), path.as_str()) {
        ("GET", "/version") => reply(
            200,
            &json!({"major": "1", "minor": "35", "gitVersion": "v1.35.4", "gitCommit": "",
            "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
        ),
        ("GET", "/apis/karpenter.sh/v1") => reply(200, &served(&["NodePool", "NodeClaim"])),
        ("GET", "/apis/karpenter.kwok.sh/v1alpha1") => reply(200, &served(&["KWOKNodeClass"])),
        ("POST", path) if path.ends_with("selfsubjectaccessreviews") => {
            sent["status"] = json!({"allowed": true});
            reply(201, &sent)
        }
        ("GET", path) if path.contains("/leases/") => match &*lease {
            Some(lease) => reply(200, lease),
            None => reply(404, &failure(404, "NotFound")),
        },
        ("POST" | "PUT", path) if path.contains("/leases") => {
            sent["metadata"]["resourceVersion"] = json!("2");
            *lease = Some(sent.clone());
            reply(200, &sent)
        }
        ("GET", _) if watch => {
            Response::new(Body::from_stream(futures::stream::pending::<Result<String, std::io::Error>>()))
        }
        ("GET", path) if path.starts_with("/api") => {
            reply(200, &json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}))
        }
        _ => reply(404, &failure(404, "NotFound")),
    }
}

fn served(kinds: &[&str]) -> Value {
    let resources: Vec<Value> = kinds
        .iter()
        .map(|kind| json!({"name": kind.to_lowercase(), "singularName": "", "namespaced": false, "kind": kind, "verbs": ["list"]}))
        .collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "x/v1", "resources": resources})
}

fn failure(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": "not here"})
}

fn reply(code: u16, value: &Value) -> Response {
    Response::builder().status(code).header("content-type", "application/json").body(value.to_string().into()).unwrap()
}

/// API-298, API-304: while the work may send one request a second and has a dozen kinds to list, the lease is renewed all the
/// same; whoever asks, says who asks.
#[test]
fn the_lease_does_not_wait_for_the_work() {
    let server = Server::start(None);
    let controller = server.controller(&[("KUBE_CLIENT_QPS", "1"), ("KUBE_CLIENT_BURST", "1")]);
    let renewals = |asked: &[Asked]| asked.iter().filter(|asked| asked.method == "PUT").count();
    let asked = server.wait("three renewals", |asked| renewals(asked) >= 3);
    assert!(asked.iter().filter(|asked| asked.method == "PUT").all(Asked::is_about_the_lease));
    let kinds = |asked: &[Asked]| asked.iter().filter_map(Asked::listed).map(str::to_owned).collect::<BTreeSet<_>>();
    let by_then = kinds(&asked).len();
    let all =
        server.wait("everything is watched", |asked| asked.iter().any(|asked| asked.watch) && kinds(asked).len() >= 12);
    assert!(by_then < 12, "the work was not slowed down at all: {asked:?}");
    let version = concat!("karpenter/", env!("CARGO_PKG_VERSION"));
    assert!(all.iter().all(|asked| asked.agent == version), "{all:?}");
    drop(controller);
}

/// API-299: who does not lead serves, and asks for nothing but the lease.
#[test]
fn a_standby_serves_and_waits() {
    let server = Server::start(Some("another"));
    let mut controller = server.controller(&[]);
    let [metrics, probes] = controller.ports();
    let tries = |asked: &[Asked]| asked.iter().filter(|asked| asked.is_about_the_lease()).count();
    let asked = server.wait("the lease is asked for again", |asked| tries(asked) >= 3);
    assert!(asked.iter().all(|asked| asked.listed().is_none() && !asked.writes()), "{asked:?}");
    assert!(get(metrics, "/metrics").contains("leader_election_master_status{name=\"karpenter-leader-election\"} 0"));
    assert_eq!((get(probes, "/healthz"), get(probes, "/readyz")), ("ok".to_owned(), "ok".to_owned()));
}

/// API-299: with warm-up it watches too, and still writes nothing.
#[test]
fn a_warm_standby_watches() {
    let server = Server::start(Some("another"));
    let controller = server.controller(&[("DISABLE_CONTROLLER_WARMUP", "false")]);
    let watched = |asked: &[Asked]| {
        let kinds = asked.iter().filter(|asked| asked.watch).filter_map(Asked::listed).collect::<BTreeSet<_>>();
        ["pods", "nodes", "nodeclaims", "nodepools", "daemonsets", "kwoknodeclasses"]
            .iter()
            .all(|kind| kinds.contains(kind))
    };
    let asked = server.wait("everything is watched", watched);
    assert!(!asked.iter().any(Asked::writes), "{asked:?}");
    drop(controller);
}

fn get(port: u64, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", u16::try_from(port).unwrap())).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}
