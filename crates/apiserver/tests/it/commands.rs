//! `kubectl` on both: the same commands print the same and end the same. It takes longest, and tests start in the order of
//! their names.

mod script;
mod words;

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use karpenter_apiserver::{Api, Options, serve};
use karpenter_testkit::ControlPlane;
use serde_json::json;

use self::script::{SCRIPT, session};
use self::words::{normal, split};

/// The real server publishes the schema of a new kind a few seconds later, and on a busy machine a command meets its own
/// timeout now and then.
const PATIENCE: Duration = Duration::from_mins(1);

/// One command.
struct Step {
    /// As after `kubectl`.
    line: String,
    /// On its standard input.
    input: String,
    /// Repeated until it succeeds on both: what the real server does a moment later. It is not compared.
    awaited: bool,
}

fn steps() -> Vec<Step> {
    let step =
        |(line, input): &(&str, &str)| Step { line: (*line).to_owned(), input: (*input).to_owned(), awaited: false };
    SCRIPT.iter().map(step).chain(session()).collect()
}

/// Commands that can be repeated until both say the same.
fn changes_nothing(line: &str) -> bool {
    let mut words = line.split(' ').skip_while(|word| matches!(*word, "-n" | "play" | "smoke" | "nowhere"));
    let verb = words.next().unwrap_or_default();
    matches!(verb, "api-resources" | "auth" | "describe" | "drain" | "events" | "explain" | "get" | "version" | "wait")
}

/// What a command did, in words that do not depend on names, times and versions.
fn said(out: &std::process::Output) -> String {
    let text = |bytes: &[u8]| normal(&String::from_utf8_lossy(bytes));
    let mut said = text(&out.stdout);
    let err = text(&out.stderr);
    if !err.is_empty() {
        write!(said, "(stderr)\n{err}").unwrap();
    }
    if let Some(code) = out.status.code().filter(|c| *c != 0) {
        writeln!(said, "(exit code {code})").unwrap();
    }
    said
}

/// Where kubectl is to go.
struct Server<'a> {
    plane: &'a ControlPlane,
    kubeconfig: &'a Path,
    cache: &'a Path,
}

impl Server<'_> {
    /// What a command said, and whether it succeeded.
    async fn run(&self, step: &Step) -> (String, bool) {
        // The last of two equal flags counts.
        let mut args = vec!["--kubeconfig".to_owned(), self.kubeconfig.display().to_string()];
        args.extend(["--cache-dir".to_owned(), self.cache.display().to_string()]);
        args.extend(split(&step.line));
        let out = self.plane.kubectl_with_input(&args, &step.input).await.unwrap();
        (said(&out), out.status.success())
    }
}

fn write_kubeconfig(folder: &Path, url: &str) -> std::path::PathBuf {
    let path = folder.join("kubeconfig");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "embedded",
        "clusters": [{"name": "embedded", "cluster": {"server": url}}],
        "users": [{"name": "admin", "user": {}}],
        "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "admin"}}]});
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// Both clocks are real here: kubectl measures ages itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_says_the_same_on_both() {
    // A server of its own, since lists of cluster-wide objects are compared.
    let plane = ControlPlane::builder().start().await.unwrap();
    let api = Api::new(Options { rbac: true, collector: false, ..Options::default() });
    let serving = serve::listen(api, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = write_kubeconfig(folder.path(), &serving.url());
    let (real_cache, cache) = (folder.path().join("real"), folder.path().join("embedded"));
    let real = Server { plane: &plane, kubeconfig: plane.kubeconfig(), cache: &real_cache };
    let embedded = Server { plane: &plane, kubeconfig: &kubeconfig, cache: &cache };
    let (mut differences, mut compared) = (String::new(), 0);
    for step in steps() {
        let began = Instant::now();
        let (wanted, found) = loop {
            let ((wanted, done), (found, also_done)) = tokio::join!(real.run(&step), embedded.run(&step));
            let again = if step.awaited { !done || !also_done } else { wanted != found && changes_nothing(&step.line) };
            if !again || began.elapsed() > PATIENCE {
                break (wanted, found);
            }
        };
        compared += usize::from(!step.awaited);
        if wanted != found && !step.awaited {
            writeln!(differences, "$ kubectl {}\n--- real\n{wanted}--- embedded\n{found}", step.line).unwrap();
        }
    }
    serving.shutdown().await;
    assert!(differences.is_empty(), "{differences}");
    assert!(compared > 250, "only {compared} commands were compared");
}
