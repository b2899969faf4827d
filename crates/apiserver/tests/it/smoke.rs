//! kubectl's whole repertoire in one session, on the embedded API and on a real one: both have to print the same.
//!
//! `smoke/commands.txt` has one command per line after `$`, or after `?` one that is repeated until it succeeds; what stands between `<<` and `>>` is the standard input of the
//! commands after it, and `<< crds` are our definitions.

use std::fmt::Write as _;
use std::path::Path;

use karpenter_apiserver::{Api, Options, serve};
use karpenter_testkit::ControlPlane;
use regex::Regex;
use serde_json::json;

struct Command {
    words: Vec<String>,
    input: String,
    /// Asked again until it succeeds, and not part of the comparison: what the real server does a moment later.
    awaited: bool,
}

fn commands() -> Vec<Command> {
    let mut commands = Vec::new();
    let mut input = String::new();
    let mut lines = include_str!("smoke/commands.txt").lines();
    while let Some(line) = lines.next() {
        match line {
            "<<" => {
                input = lines.by_ref().take_while(|line| *line != ">>").fold(String::new(), |all, l| all + l + "\n");
            }
            "<< crds" => {
                let items = karpenter_api::crd::all();
                input = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
            }
            line => {
                let (mark, rest) = line.split_once(' ').unwrap_or_else(|| panic!("no command: {line}"));
                commands.push(Command { words: words(rest), input: input.clone(), awaited: mark == "?" });
            }
        }
    }
    commands
}

/// Split at spaces that are not within single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words
}

/// What differs from run to run: times, ages, addresses, versions, UIDs, and the width of columns that have these.
fn normalised(text: &str) -> String {
    let rules = [
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
        (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]+ \+0000", "DATE"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
        (r#"([rR]esource ?Version"?: +)"?\d+"?"#, "${1}RV"),
        (r"\b\d+(s|m|h|m\d+s)\b", "AGE"),
        (r"\b10\.\d+\.\d+\.\d+\b", "IP"),
        (r"https?://127\.0\.0\.1:\d+", "SERVER"),
        (r" +", " "),
    ];
    rules
        .iter()
        .fold(text.to_owned(), |text, (from, to)| Regex::new(from).unwrap().replace_all(&text, *to).into_owned())
}

/// Runs all commands one after another; `extra` says which server.
async fn transcript(plane: &ControlPlane, extra: &[String]) -> Vec<String> {
    let mut transcript = Vec::new();
    for command in commands() {
        let namespaced = ["-n".to_owned(), "smoke".to_owned()];
        let words = extra.iter().chain(&namespaced).chain(&command.words);
        let mut out = plane.kubectl_with_input(words.clone(), &command.input).await.unwrap();
        if command.awaited {
            while !out.status.success() {
                out = plane.kubectl_with_input(words.clone(), &command.input).await.unwrap();
            }
            continue;
        }
        let mut text = format!("$ kubectl {}\n", command.words.join(" "));
        write!(text, "{}", String::from_utf8_lossy(&out.stdout)).unwrap();
        write!(text, "-- {} {}", out.status.code().unwrap_or(-1), String::from_utf8_lossy(&out.stderr)).unwrap();
        transcript.push(normalised(&text));
    }
    transcript
}

fn kubeconfig(folder: &Path, url: &str) -> Vec<String> {
    let path = folder.join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    std::fs::write(&path, config.to_string()).unwrap();
    // Later flags win over those of the control plane's own kubectl.
    let (path, cache) = (path.display().to_string(), folder.join("cache").display().to_string());
    vec!["--kubeconfig".to_owned(), path, "--cache-dir".to_owned(), cache]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_prints_the_same_on_both() {
    // Its own: the session makes cluster-wide objects and counts on being alone.
    let plane = ControlPlane::builder().start().await.unwrap();
    let api = Api::new(Options { rbac: true, collector: false, ..Options::default() });
    let serving = serve::listen(api, ([127, 0, 0, 1], 0).into()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let embedded = kubeconfig(folder.path(), &serving.url());
    let (ours, real) = tokio::join!(transcript(&plane, &embedded), transcript(&plane, &[]));
    serving.shutdown().await;
    let different: Vec<_> = ours.iter().zip(&real).filter(|(ours, real)| ours != real).collect();
    for (ours, real) in &different {
        println!("=== embedded\n{ours}\n=== real\n{real}\n");
    }
    assert!(different.is_empty(), "{} of {} commands print something else", different.len(), ours.len());
    assert!(ours.len() > 100);
}
