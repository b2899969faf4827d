//! Where a test body runs: the embedded API or a real kube-apiserver.
//!
//! A body is generic over [`Backend`] and sees only a [`Cluster`], whose methods go through `client()`. It has a namespace of
//! its own and makes names of cluster-wide objects with [`Cluster::name`], since the real server is shared by all bodies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jiff::Timestamp;
use karpenter_apiserver::{Api, Clock, Options};
use karpenter_testkit::ControlPlane;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::sync::OnceCell;

/// One way of having a Kubernetes API.
pub(crate) trait Backend {
    /// The API alone: nothing acts on its objects.
    async fn start() -> Cluster;

    /// Something collects what has lost its owner, and empties namespaces that are deleted.
    async fn start_with_collector() -> Cluster;

    /// Roles are asked for everybody but the administrator whose client it is.
    async fn start_with_roles() -> Cluster;

    /// Both of these.
    async fn start_with_roles_and_collector() -> Cluster;
}

/// What a body may use.
pub(crate) struct Cluster {
    client: Client,
    namespace: String,
    number: u32,
}

impl Cluster {
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The namespace of this body, made before it starts.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A name for a cluster-wide object that no other body uses.
    pub(crate) fn name(&self, stem: &str) -> String {
        format!("{stem}-{}", self.number)
    }

    /// A group for custom resources that no other body uses.
    pub(crate) fn group(&self) -> String {
        format!("g{}.example.com", self.number)
    }

    async fn ready(client: Client) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let cluster = Self { client, namespace: format!("case-{number}"), number };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.namespace}});
        cluster.post("/api/v1/namespaces", &namespace).await.created();
        cluster
    }
}

/// Without the retries of an ordinary client: bodies want to see every answer.
async fn plain_client(plane: &ControlPlane) -> Client {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// etcd and kube-apiserver; fails with what to run when they cannot be had.
pub(crate) struct RealApi;

impl Backend for RealApi {
    async fn start() -> Cluster {
        Cluster::ready(plain_client(ControlPlane::shared().await).await).await
    }

    /// With kube-controller-manager, which would also act on workloads and budgets, so only bodies that need it take it.
    async fn start_with_collector() -> Cluster {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        let start = || async { ControlPlane::builder().controller_manager().start().await };
        let shared = SHARED.get_or_try_init(start).await.unwrap_or_else(|e| panic!("{e:#}"));
        Cluster::ready(plain_client(shared).await).await
    }

    async fn start_with_roles() -> Cluster {
        Self::start().await
    }

    async fn start_with_roles_and_collector() -> Cluster {
        Self::start_with_collector().await
    }
}

/// The API of this crate, one per body, on the clock of the test.
pub(crate) struct Embedded;

impl Backend for Embedded {
    async fn start() -> Cluster {
        embedded(Options { collector: false, ..Options::default() }).await
    }

    async fn start_with_collector() -> Cluster {
        embedded(Options { collector: true, ..Options::default() }).await
    }

    async fn start_with_roles() -> Cluster {
        embedded(Options { collector: false, rbac: true, ..Options::default() }).await
    }

    async fn start_with_roles_and_collector() -> Cluster {
        embedded(Options { collector: true, rbac: true, ..Options::default() }).await
    }
}

async fn embedded(options: Options) -> Cluster {
    Cluster::ready(Client::new(Api::new(Options { clock: test_clock(), ..options }), "default")).await
}

/// Wall time that follows tokio's clock: an hour on it costs nothing.
pub(crate) fn test_clock() -> Clock {
    let (epoch, started) = ("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap(), tokio::time::Instant::now());
    Arc::new(move || epoch + started.elapsed())
}

/// The same bodies on the embedded API and on a real kube-apiserver.
macro_rules! on_every_backend {
    ($($body:ident),+ $(,)?) => {
        mod embedded {
            $(#[tokio::test(start_paused = true)] async fn $body() { super::$body::<crate::backend::Embedded>().await })+
        }
        mod real {
            $(#[tokio::test] async fn $body() { super::$body::<crate::backend::RealApi>().await })+
        }
    };
}
pub(crate) use on_every_backend;
