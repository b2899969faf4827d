//! A real control plane for tests: etcd and kube-apiserver, on request kube-scheduler, kube-controller-manager and kwok.
//!
//! Each one has free ports, its own certificates and its own data folder, so any number run side by side. Everything is
//! stopped on drop, and also when the test process dies without dropping anything (see [`process`]). The folder is removed
//! with it, but for the logs when something failed: a panic anywhere in the process, or a failed start.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let cluster = karpenter_testkit::ControlPlane::builder().scheduler().controller_manager().kwok().start().await?;
//! let version = cluster.client().apiserver_version().await?;
//! # Ok(()) }
//! ```

mod crds;
mod failure;
mod flags;
mod pki;
mod process;
mod programs;

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::OnceCell;
use tokio::time::sleep;

use self::process::Janitor;
pub use self::process::Supervised;
use self::programs::{Program, Programs};

/// Ready takes 4 to 5 seconds on an idle machine; a loaded CI machine gets ten times that before we call it broken.
const START_LIMIT: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);
/// A free port can be taken by somebody else between our finding it and the program's using it.
const ATTEMPTS: usize = 3;

/// A running control plane. Dropping it stops every program and removes the data folder.
#[derive(Debug)]
pub struct ControlPlane {
    // Declared in the order in which they end: programs first, then the folder they write to.
    _running: Vec<Supervised>,
    _janitor: Janitor,
    config: Config,
    folder: PathBuf,
    kubeconfig: PathBuf,
    kubectl: PathBuf,
}

/// Which programs run beside etcd and kube-apiserver.
#[derive(Debug, Clone, Copy, Default)]
pub struct Builder {
    scheduler: bool,
    controller_manager: bool,
    kwok: bool,
}

/// Where kubectl is, for tests that bring their own server.
pub fn kubectl_path() -> Result<PathBuf> {
    Ok(programs::find()?.path(Program::Kubectl))
}

impl Builder {
    /// Also runs kube-scheduler, so pods are bound to nodes.
    #[must_use]
    pub fn scheduler(self) -> Self {
        Self { scheduler: true, ..self }
    }

    /// Also runs kube-controller-manager: workloads make pods, owners are collected, service accounts exist. Without it
    /// the API server does not ask pods for a service account.
    #[must_use]
    pub fn controller_manager(self) -> Self {
        Self { controller_manager: true, ..self }
    }

    /// Also runs kwok, which plays kubelet for nodes annotated `kwok.x-k8s.io/node=fake`.
    #[must_use]
    pub fn kwok(self) -> Self {
        Self { kwok: true, ..self }
    }

    /// Starts the programs and waits until the API server is ready.
    ///
    /// Fails, and says what to run, when the programs are missing; a test never skips for that.
    pub async fn start(self) -> Result<ControlPlane> {
        let programs = programs::find()?;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match ControlPlane::start(self, programs).await {
                Ok(started) => return Ok(started),
                Err(e) if format!("{e:#}").contains("address already in use") => last = Some(e),
                Err(e) => return Err(e),
            }
        }
        Err(last.context("no attempt was made")?)
    }
}

impl ControlPlane {
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// etcd and kube-apiserver, started once and shared by all tests of the binary. Use own names and namespaces.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        SHARED.get_or_init(|| async { started(Self::builder().start().await) }).await
    }

    /// Like [`shared`](Self::shared), with kube-scheduler, kube-controller-manager and kwok.
    pub async fn shared_cluster() -> &'static Self {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        let all = Self::builder().scheduler().controller_manager().kwok();
        SHARED.get_or_init(|| async { started(all.start().await) }).await
    }

    /// A new client. One per test, since a client lives on the runtime it was made on.
    pub fn client(&self) -> Client {
        Client::try_from(self.config.clone()).expect("the configuration has made a client before")
    }

    /// A kubeconfig of a cluster administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Where the data, the certificates and, in `logs`, the output of each program are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs kubectl of the same release as the API server, and returns what it printed.
    pub async fn kubectl<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<Output> {
        self.kubectl_with_input(args, "").await
    }

    /// Like [`kubectl`](Self::kubectl), with `input` on its standard input.
    pub async fn kubectl_with_input<S: AsRef<std::ffi::OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        input: &str,
    ) -> Result<Output> {
        let mut child = tokio::process::Command::new(&self.kubectl)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            // Discovery is cached per server address; ports are used again, so the cache of the user would be wrong.
            .arg("--cache-dir")
            .arg(self.folder.join("kubectl-cache"))
            .args(args)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {}", self.kubectl.display()))?;
        let mut stdin = child.stdin.take().context("stdin was asked for")?;
        // kubectl may end without reading all of it; its exit code tells.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        Ok(child.wait_with_output().await?)
    }

    /// Applies objects in their JSON form and fails with kubectl's words when one is refused.
    pub async fn install(&self, objects: impl IntoIterator<Item = serde_json::Value>) -> Result<()> {
        let items: Vec<_> = objects.into_iter().collect();
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let out = self.kubectl_with_input(["apply", "--server-side", "-f", "-"], &list).await?;
        ensure!(out.status.success(), "kubectl apply: {}", String::from_utf8_lossy(&out.stderr).trim());
        Ok(())
    }

    /// Runs a program of ours against this cluster, with `KUBECONFIG` set; it ends with the value or this process. Its
    /// log is kept beside those of the control plane.
    pub fn run(
        &self,
        name: &str,
        path: &Path,
        args: impl IntoIterator<Item = String>,
        environment: &[(&str, &str)],
    ) -> Result<Supervised> {
        let kubeconfig = self.kubeconfig.display().to_string();
        let mut all = vec![("KUBECONFIG", kubeconfig.as_str())];
        all.extend(environment);
        Supervised::start(name, path, args.into_iter().collect(), &all, &self.folder)
    }

    async fn start(with: Builder, programs: &Programs) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("karpenter-control-plane-").tempdir()?.keep();
        let logs = folder.join("logs");
        std::fs::create_dir(&logs)?;
        // From here on the folder goes away with this process, whatever happens to it.
        let janitor = Janitor::start(&folder)?;
        failure::keep_logs_on_panic(&logs);
        let mut running = Vec::new();
        match Self::start_in(with, programs, &folder, &mut running).await {
            Ok((config, kubeconfig)) => {
                let kubectl = programs.path(Program::Kubectl);
                Ok(Self { _running: running, _janitor: janitor, config, folder, kubeconfig, kubectl })
            }
            Err(e) => {
                failure::keep_logs(&logs)?;
                let logs = logs.display();
                Err(e.context(format!("the control plane did not start; logs are kept in {logs}")))
            }
        }
    }

    async fn start_in(
        with: Builder,
        programs: &Programs,
        folder: &Path,
        running: &mut Vec<Supervised>,
    ) -> Result<(Config, PathBuf)> {
        let ports = flags::Ports::free()?;
        pki::write(&folder.join("pki"))?;
        let kubeconfig = |user| pki::write_kubeconfig(folder, user, ports.api);
        let admin = kubeconfig("admin")?;
        let mut start = |program: Program, args| -> Result<()> {
            running.push(Supervised::start(program.name(), &programs.path(program), args, &[], folder)?);
            Ok(())
        };
        // kube-apiserver dials etcd until it answers, so the two start together.
        start(Program::Etcd, flags::etcd(folder, &ports))?;
        start(Program::Apiserver, flags::apiserver(folder, &ports, with.controller_manager))?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(&admin)?, &options).await?;
        let client = Client::try_from(config.clone())?;
        wait(running, "kube-apiserver is not ready", async || ready(&client).await).await?;

        let mut start = |program: Program, args| -> Result<()> {
            running.push(Supervised::start(program.name(), &programs.path(program), args, &[], folder)?);
            Ok(())
        };
        if with.controller_manager {
            start(Program::ControllerManager, flags::controller_manager(folder, &kubeconfig("controller-manager")?))?;
        }
        if with.scheduler {
            start(Program::Scheduler, flags::scheduler(&kubeconfig("scheduler")?))?;
        }
        if with.kwok {
            start(Program::Kwok, flags::kwok(&admin, &programs.kwok_stages()))?;
        }
        if with.controller_manager {
            let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
            wait(running, "no default service account", async || Ok(accounts.get_opt("default").await?.is_some()))
                .await?;
        }
        Ok((config, admin))
    }
}

/// `/readyz` answers a little before the namespaces are made, and a test wants to use one.
async fn ready(client: &Client) -> Result<bool> {
    client.request_text(kube::core::Request::new("/readyz").list(&ListParams::default())?).await?;
    Ok(Api::<Namespace>::all(client.clone()).get_opt("default").await?.is_some())
}

/// Asks until the answer is yes. Errors of the question are what a starting server gives; an ended program is final.
async fn wait(running: &mut [Supervised], otherwise: &str, question: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let since = Instant::now();
    loop {
        let answer = question().await;
        if matches!(answer, Ok(true)) {
            return Ok(());
        }
        for program in &mut *running {
            program.ensure_running()?;
        }
        if since.elapsed() > START_LIMIT {
            let tail: String = running.iter().map(Supervised::last_words).collect();
            let said = answer.err().map_or_else(String::new, |e| format!(": {e:#}"));
            bail!("{otherwise} after {} s{said}\n{tail}", START_LIMIT.as_secs());
        }
        sleep(POLL).await;
    }
}

fn started(result: Result<ControlPlane>) -> ControlPlane {
    result.unwrap_or_else(|e| {
        // Everything that shares it would fail with less to say.
        #[expect(clippy::panic, reason = "a test helper: the test has to fail here")]
        {
            panic!("{e:#}")
        }
    })
}
