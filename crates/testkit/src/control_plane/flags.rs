//! The command line of each program.

use std::net::TcpListener;
use std::path::Path;

use anyhow::{Context as _, Result};

pub(super) struct Ports {
    pub(super) api: u16,
    etcd_client: u16,
    etcd_peer: u16,
}

impl Ports {
    /// All held at once while they are looked for, so that they differ.
    pub(super) fn free() -> Result<Self> {
        let held: Vec<TcpListener> = (0..3)
            .map(|_| TcpListener::bind("127.0.0.1:0"))
            .collect::<Result<_, _>>()
            .context("no free port on 127.0.0.1")?;
        let port = |i: usize| held[i].local_addr().map(|a| a.port());
        Ok(Self { api: port(0)?, etcd_client: port(1)?, etcd_peer: port(2)? })
    }
}

pub(super) fn etcd(folder: &Path, ports: &Ports) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", ports.etcd_client);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    vec![
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // Nobody reads the data after a crash, and waiting for the disk makes every write slow.
        "--unsafe-no-fsync".into(),
    ]
}

pub(super) fn apiserver(folder: &Path, ports: &Ports, has_controller_manager: bool) -> Vec<String> {
    let pki = |name: &str| folder.join("pki").join(name).display().to_string();
    let mut args = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd_client),
        format!("--secure-port={}", ports.api),
        "--bind-address=127.0.0.1".into(),
        format!("--tls-cert-file={}", pki("apiserver.crt")),
        format!("--tls-private-key-file={}", pki("apiserver.key")),
        format!("--client-ca-file={}", pki("ca.crt")),
        format!("--service-account-key-file={}", pki("service-account.pub")),
        format!("--service-account-signing-key-file={}", pki("service-account.key")),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        "--service-cluster-ip-range=10.0.0.0/16".into(),
        "--authorization-mode=RBAC".into(),
        "--allow-privileged=true".into(),
    ];
    if !has_controller_manager {
        // Nobody would make the service accounts that this plugin asks for.
        args.push("--disable-admission-plugins=ServiceAccount".into());
    }
    args
}

pub(super) fn scheduler(kubeconfig: &Path) -> Vec<String> {
    client_of(kubeconfig)
}

pub(super) fn controller_manager(folder: &Path, kubeconfig: &Path) -> Vec<String> {
    let pki = |name: &str| folder.join("pki").join(name).display().to_string();
    let mut args = client_of(kubeconfig);
    args.push(format!("--service-account-private-key-file={}", pki("service-account.key")));
    args.push(format!("--root-ca-file={}", pki("ca.crt")));
    args.push("--use-service-account-credentials=true".into());
    args
}

pub(super) fn kwok(kubeconfig: &Path, stages: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--config={}", stages.display()),
        "--manage-all-nodes=false".into(),
        // Without heartbeats kube-controller-manager takes every node for dead after a minute.
        "--node-lease-duration-seconds=40".into(),
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".into(),
    ]
}

/// What kube-scheduler and kube-controller-manager share: alone, without a port of their own, never throttled.
fn client_of(kubeconfig: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
        "--kube-api-qps=1000".into(),
        "--kube-api-burst=2000".into(),
    ]
}
