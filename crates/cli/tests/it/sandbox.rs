//! `karpenter sandbox` with the real kubectl.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::{POOL, folder, karpenter};

/// Far more than anything here takes; what is slower is broken.
const LIMIT: Duration = Duration::from_mins(5);

/// A running sandbox; killed if a test ends before it.
struct Sandbox {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Sandbox {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_karpenter"))
            .args(args)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let (send, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Self { child, lines }
    }

    /// Everything up to a line that begins so.
    fn until(&self, beginning: &str) -> String {
        let mut text = String::new();
        loop {
            let line = self.lines.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no {beginning:?} after:\n{text}"));
            text += &line;
            text.push('\n');
            if line.starts_with(beginning) {
                return text;
            }
        }
    }

    fn interrupt(&mut self, signal: &str) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(started.elapsed() < LIMIT, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kubectl(folder: &Path, args: &str) -> String {
    let program = karpenter_testkit::control_plane::kubectl_path().unwrap();
    let out = Command::new(program)
        .args(["--kubeconfig", "sandbox.kubeconfig", "--cache-dir", "cache"])
        .args(args.split_whitespace())
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "kubectl {args}: {text}{}", String::from_utf8_lossy(&out.stderr));
    text
}

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {karpenter.sh/nodepool: second}
      containers:
      - {name: web, image: none, resources: {requests: {cpu: '1'}}}
";

#[test]
fn kubectl_sees_nodes_come_for_pods() {
    let pool = POOL.replace("name: default\nspec", "name: second\nspec");
    let folder = folder(&[("pool.yaml", &pool), ("web.yaml", DEPLOYMENT)]);
    let mut sandbox = Sandbox::start(folder.path(), &["sandbox", "--seed", "3"]);
    let told = sandbox.until("Ctrl-C");
    assert!(told.contains("export KUBECONFIG=sandbox.kubeconfig"), "{told}");
    let address = told.split_once("http://").unwrap().1.split_once(',').unwrap().0.to_owned();

    kubectl(folder.path(), "apply -f pool.yaml -f web.yaml");
    kubectl(folder.path(), "rollout status deployment/web --timeout=300s");
    let pods = kubectl(folder.path(), "get pods -o wide --no-headers");
    assert_eq!(pods.lines().filter(|line| line.contains(" Running ")).count(), 3, "{pods}");
    let nodes = kubectl(folder.path(), "get nodes -l karpenter.sh/nodepool=second --no-headers");
    assert!(nodes.lines().all(|line| line.contains(" Ready ")) && !nodes.is_empty(), "{nodes}");
    let claims = kubectl(folder.path(), "get nodeclaims --no-headers");
    assert!(claims.starts_with("second-") && claims.contains(" True "), "{claims}");

    // Another one neither takes its port nor its file.
    let port = address.rsplit_once(':').unwrap().1;
    let second = karpenter(folder.path(), &["sandbox", "--port", port, "--kubeconfig", "other"], b"");
    assert_eq!((second.code, second.out.as_str()), (2, ""));
    assert!(second.err.starts_with(&format!("error: port {port} is in use")), "{}", second.err);
    let second = karpenter(folder.path(), &["sandbox"], b"");
    assert_eq!(second.code, 2);
    assert!(second.err.contains("sandbox.kubeconfig is there already"), "{}", second.err);

    assert_eq!(sandbox.interrupt("-INT"), Some(0));
    assert_eq!(sandbox.until("ended"), "ended; nothing is left of the cluster\n");
    assert!(!folder.path().join("sandbox.kubeconfig").exists());
    std::net::TcpListener::bind(&address).unwrap();
}

#[test]
fn time_goes_as_fast_as_told() {
    let folder = folder(&[("web.yaml", &DEPLOYMENT.replace("second", "default"))]);
    let mut sandbox =
        Sandbox::start(folder.path(), &["sandbox", "--speed", "600x", "--instance-types", "ec2", "--faults"]);
    sandbox.until("Ctrl-C");
    kubectl(folder.path(), "apply -f web.yaml");
    kubectl(folder.path(), "rollout status deployment/web --timeout=300s");
    assert_eq!(sandbox.interrupt("-TERM"), Some(0));

    let bad = karpenter(folder.path(), &["sandbox", "--speed", "fast"], b"");
    assert_eq!(bad.code, 2);
    assert!(bad.err.contains("a speed is `jump` or a number of times"), "{}", bad.err);
}

#[test]
fn a_demo_that_is_kept_is_a_sandbox() {
    let folder = folder(&[("web.yaml", &DEPLOYMENT.replace("second", "default"))]);
    let mut demo = Sandbox::start(folder.path(), &["demo", "--keep"]);
    let told = demo.until("Ctrl-C");
    assert!(told.contains("everything is gone again") && told.contains("export KUBECONFIG="), "{told}");
    kubectl(folder.path(), "apply -f web.yaml");
    kubectl(folder.path(), "rollout status deployment/web --timeout=300s");
    assert_eq!(demo.interrupt("-INT"), Some(0));
    assert!(!folder.path().join("sandbox.kubeconfig").exists());
}
