//! `kubectl` on both: the same commands print the same and end the same.

mod script;
mod words;

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use karpenter_apiserver::{Api, Options, serve};
use karpenter_testkit::ControlPlane;
use serde_json::json;

use self::script::SCRIPT;
use self::words::{normal, split};

/// The real server publishes the schema of a new kind a few seconds later, and on a busy machine a command meets its own
/// timeout now and then.
const PATIENCE: Duration = Duration::from_secs(60);

/// Commands that can be repeated until both say the same.
fn changes_nothing(line: &str) -> bool {
    let mut words = line.split(' ').skip_while(|word| matches!(*word, "-n" | "play" | "nowhere"));
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

async fn run(plane: &ControlPlane, kubeconfig: &Path, cache: &Path, line: &str, input: &str) -> String {
    let kubeconfig = kubeconfig.to_str().unwrap().to_owned();
    let cache = cache.to_str().unwrap().to_owned();
    // The last of two equal flags counts.
    let mut args = vec!["--kubeconfig".to_owned(), kubeconfig, "--cache-dir".to_owned(), cache];
    args.extend(split(line));
    said(&plane.kubectl_with_input(&args, input).await.unwrap())
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
#[tokio::test]
async fn kubectl_says_the_same_on_both() {
    // A server of its own, since lists of cluster-wide objects are compared.
    let plane = ControlPlane::builder().start().await.unwrap();
    let api = Api::new(Options { collector: false, ..Options::default() });
    let serving = serve::listen(api, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = write_kubeconfig(folder.path(), &serving.url());
    let (real_cache, cache) = (folder.path().join("real"), folder.path().join("embedded"));
    let mut differences = String::new();
    for (line, input) in SCRIPT {
        let began = Instant::now();
        let (real, embedded) = loop {
            let (real, embedded) = tokio::join!(
                run(&plane, plane.kubeconfig(), &real_cache, line, input),
                run(&plane, &kubeconfig, &cache, line, input)
            );
            if real == embedded || !changes_nothing(line) || began.elapsed() > PATIENCE {
                break (real, embedded);
            }
        };
        if real != embedded {
            writeln!(differences, "$ kubectl {line}\n--- real\n{real}--- embedded\n{embedded}").unwrap();
        }
    }
    assert!(differences.is_empty(), "{differences}");
}
