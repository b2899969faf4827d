use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{folder, karpenter};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/consolidate")
}

fn text(file: &str) -> String {
    std::fs::read_to_string(example().join(file)).unwrap()
}

/// The example with something changed, as JSON, with the exit code.
fn plan(change: impl FnOnce(&mut [String; 3])) -> (i32, Value, String) {
    let mut files = [text("nodepools.yaml"), text("cluster.yaml"), text("budget.yaml")];
    change(&mut files);
    let [pools, cluster, budget] = &files;
    let folder = folder(&[("nodepools.yaml", pools), ("cluster.yaml", cluster), ("budget.yaml", budget)]);
    let args = ["plan", "-f", ".", "--consolidate", "--at", "2026-03-02T12:00:00Z", "-o", "json"];
    let run = karpenter(folder.path(), &args, b"");
    (run.code, serde_json::from_str(&run.out).unwrap(), run.err)
}

fn held(report: &Value, node: &str) -> String {
    let all = report["heldBack"].as_array().unwrap();
    let found = all.iter().find(|held| held["node"] == node);
    found.map_or_else(String::new, |held| held["reason"].as_str().unwrap().to_owned())
}

#[test]
fn a_script_finds_commands_savings_moves_and_reasons() {
    let (code, report, err) = plan(|_| ());
    assert_eq!((code, err.as_str()), (0, ""), "{report:#}");
    let commands = report["commands"].as_array().unwrap();
    assert_eq!(commands[0]["reason"], "Empty");
    assert_eq!(commands[0]["nodes"][0]["node"], "node-c");
    let saved: f64 = commands.iter().map(|command| command["savesPerHour"].as_f64().unwrap()).sum();
    let cost = &report["cost"];
    let (before, after) = (cost["before"].as_f64().unwrap(), cost["after"].as_f64().unwrap());
    assert!((before - after - saved).abs() < 1e-6 && saved > 0.0, "{report:#}");
    assert!(commands.iter().any(|command| command["evictions"].as_u64() == Some(2)), "{report:#}");
    assert_eq!(held(&report, "node-d"), "PodDisruptionBudget");
    assert_eq!(held(&report, "node-e"), "ProtectedPod");
    assert_eq!(held(&report, "node-f"), "Budget", "closed at noon");
}

/// What is wrong is told where it is, and holds back only the nodes concerned.
#[test]
fn mistakes_hold_only_their_nodes() {
    let (code, report, err) = plan(|files| files[0] = files[0].replace("0 9 * * *", "0 9 * * mon-sun-mon"));
    assert_eq!(code, 1, "{report:#}");
    assert!(err.contains("NodePool/night") && err.contains("spec.disruption.budgets[0]"), "{err}");
    assert_eq!(held(&report, "node-f"), "BudgetUnreadable");
    assert!(!report["commands"].as_array().unwrap().is_empty(), "the other pool goes on");

    let (code, report, _) = plan(|files| {
        let (before, last) = files[1].rsplit_once("name: node-f-claim").unwrap();
        let node = before.find("  name: node-f\n").unwrap();
        let moved = before[node..].replace("test-zone-a", "moon");
        files[1] = format!("{}{moved}name: node-f-claim{last}", &before[..node]);
        files[0] = files[0].replace("nodes: \"0\"", "nodes: \"1\"");
    });
    assert_eq!((code, held(&report, "node-f").as_str()), (0, "NoPrice"), "{report:#}");

    let (code, report, _) =
        plan(|files| files[2] = files[2].replace("selector:\n    matchLabels: {app: db}", "selector: {}"));
    assert_eq!(code, 0);
    assert_eq!(report["commands"].as_array().unwrap().len(), 1, "only the empty node goes: {report:#}");
    for node in ["node-a", "node-b", "node-d"] {
        assert_eq!(held(&report, node), "PodDisruptionBudget", "{node}");
    }
}

#[test]
fn usage() {
    let run = karpenter(&example(), &["plan", "-f", ".", "--at", "2026-03-02T12:00:00Z"], b"");
    assert_eq!(run.code, 2, "--at is for --consolidate");
    let night = ["plan", "-f", ".", "--consolidate", "--at", "2026-03-02T20:00:00Z", "-o", "json"];
    let report: Value = serde_json::from_str(&karpenter(&example(), &night, b"").out).unwrap();
    assert_ne!(held(&report, "node-f"), "Budget", "open at night");
}

/// Where nothing runs there is nothing to save, and it is said without a minus sign.
#[test]
fn nothing_costs_nothing() {
    let folder = folder(&[("nodepools.yaml", &text("nodepools.yaml"))]);
    let run = karpenter(folder.path(), &["plan", "-f", ".", "--consolidate"], b"");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert!(run.out.contains("costs less than $0.0000 per hour"), "{}", run.out);
}
