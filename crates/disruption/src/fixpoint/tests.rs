use super::*;
use crate::testing::{Cluster, instance_type, running};

fn found(cluster: &Cluster) -> Consolidated {
    consolidated(cluster.world(), &LabelRules::core())
}

/// Empty nodes first, then several at once, then what is left; pods are where they were moved to, and the end is cheaper by
/// what was said.
#[test]
fn all_the_way_down() {
    let types = [instance_type("small", 4, 0.4, &[]), instance_type("large", 16, 1.6, &[])];
    let cluster = Cluster::new(types).pool("p", |_| ()).node("a", "p", "large", []);
    let cluster = cluster.node("b", "p", "large", [running("x", 1)]).node("c", "p", "large", [running("y", 1)]);
    let found = found(&cluster);
    let texts: Vec<String> = found.steps.iter().map(|step| step.command.text()).collect();
    assert_eq!(texts[0], "delete: [a]");
    assert!((found.cost_before - 4.8).abs() < 1e-9 && (found.cost_after - 0.4).abs() < 1e-9, "{texts:?}");
    let moved: usize = found.steps.iter().map(|step| step.moved.len()).sum();
    assert!(moved >= 2 && found.gap() < 1e-9, "{texts:?}");
    let left = &found.world.snapshot.nodes;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].pods.len(), 2);
    assert_eq!(found.held.iter().map(|(_, hold)| hold.code()).collect::<Vec<_>>(), ["NothingCheaper"]);
    assert!(found.steps[0].why[0].contains("NodePool p (WhenEmptyOrUnderutilized)"), "{:?}", found.steps[0].why);
}

/// A cluster that nothing can be done about is left as it is, and the gap says how far from ideal it is.
#[test]
fn nothing_to_do() {
    let types = [instance_type("small", 4, 0.4, &[])];
    let cluster = Cluster::new(types).pool("p", |_| ()).node("a", "p", "small", [running("x", 4)]);
    let found = found(&cluster);
    assert!(found.steps.is_empty() && !found.stopped);
    assert!((found.cost_before - found.cost_after).abs() < 1e-9 && found.gap() < 1e-9);
}
