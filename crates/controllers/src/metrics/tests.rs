use std::collections::BTreeSet;

use karpenter_model::shared::Labels;

use super::*;

fn metrics() -> Metrics {
    let extra = ["karpenter.kwok.sh/kwoknodeclass", "karpenter.sh/nodepool"].map(str::to_owned).to_vec();
    let claim = WatchedKind { group: "karpenter.sh".to_owned(), kind: "NodeClaim".to_owned(), extra, twins: true };
    Metrics::new(&LabelRules::core(), vec![claim])
}

struct Wanted<'a> {
    name: &'a str,
    kind: &'a str,
    stability: &'a str,
    labels: Vec<&'a str>,
    bounds: Vec<&'a str>,
}

fn wanted() -> impl Iterator<Item = Wanted<'static>> {
    let rows = include_str!("tests/catalogue.txt").lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let [name, kind, stability, labels, bounds] = line.splitn(5, '\t').collect::<Vec<_>>().try_into().unwrap();
        let words = |text: &'static str| text.split_whitespace().collect();
        Wanted { name, kind, stability, labels: words(labels), bounds: words(bounds) }
    })
}

/// API-182, API-183, API-186, API-187, API-188, API-189, API-192, API-194, API-196, API-198, API-200, API-205, API-206, API-207, API-208,
/// LIF-127, V15-17, V15-18, V15-21, V15-136: what is served is what the specification lists, to the letter and nothing else.
#[test]
fn the_exposition_is_the_catalogue_of_the_specification() {
    let metrics = metrics();
    for family in metrics.families.values() {
        let labels: Vec<String> = family.description().labels.iter().map(|label| format!("<{label}>")).collect();
        family.clear();
        family.touch(&labels.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let text = metrics.render(Timestamp::UNIX_EPOCH);
    let mut lines: BTreeSet<&str> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
    for Wanted { name, kind, stability, labels, bounds } in wanted() {
        let type_line = format!("# TYPE {name} {kind}");
        assert!(lines.remove(type_line.as_str()), "{type_line} is missing");
        let pairs: Vec<String> = labels.iter().map(|label| format!("{label}=\"<{label}>\"")).collect();
        let mut line = |suffix: &str, extra: Option<String>, value: &str| {
            let pairs: Vec<String> = pairs.iter().cloned().chain(extra).collect();
            let braces = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
            let line = format!("{name}{suffix}{braces} {value}");
            assert!(lines.remove(line.as_str()), "{line} is missing");
        };
        match kind {
            "counter" | "gauge" => line("", None, "0"),
            _ => {
                for bound in bounds.iter().chain(["+Inf"].iter().filter(|_| kind == "histogram")) {
                    line("_bucket", Some(format!("le=\"{bound}\"")), "0");
                }
                for quantile in ["0", "0.5", "0.9", "0.99", "1"].iter().filter(|_| kind == "summary") {
                    line("", Some(format!("quantile=\"{quantile}\"")), "NaN");
                }
                line("_sum", None, "0");
                line("_count", None, "0");
            }
        }
        let have = metrics.family(name).unwrap().description().stability;
        let want = match stability {
            "S" => Stability::Stable,
            "B" => Stability::Beta,
            "A" => Stability::Alpha,
            "D" => Stability::Deprecated,
            other => panic!("{name}: {other}"),
        };
        assert_eq!(have, want, "{name}");
    }
    assert_eq!(lines, BTreeSet::new(), "not in the specification");
}

/// API-189: provider labels come in, equal endings collapse.
#[test]
fn labels_of_nodes_follow_the_provider() {
    let rules = LabelRules::core().well_known(["karpenter.kwok.sh/instance-size", "other.example.com/zone"]);
    let labels = NodeLabels::new(&rules);
    let node = BTreeMap::from(
        [
            ("karpenter.kwok.sh/instance-size", "4x"),
            ("topology.kubernetes.io/zone", "a"),
            ("kubernetes.io/os", "linux"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    let node = Labels::from(node);
    let values = labels.values(&node, "n1", "", true);
    let metrics = Metrics::new(&rules, Vec::new());
    let names = &metrics.nodes.allocatable.description().labels;
    let pairs: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(values).collect();
    assert!(pairs.contains(&("instance_size", "4x")) && pairs.contains(&("os", "linux")), "{pairs:?}");
    assert_eq!(names.iter().filter(|name| *name == "zone").count(), 1);
    assert!(pairs.contains(&("node_name", "n1")) && pairs.contains(&("managed", "true")), "{pairs:?}");
}

/// API-194: there before anything timed out. API-197, V15-17: series go by some of their labels.
#[test]
fn series_come_and_go() {
    let metrics = metrics();
    let text = metrics.render(Timestamp::UNIX_EPOCH);
    for kind in ["multi", "single"] {
        let line =
            format!("karpenter_voluntary_disruption_consolidation_timeouts_total{{consolidation_type=\"{kind}\"}} 0");
        assert!(text.contains(&line), "{text}");
    }
    let depth = &metrics.all.scheduler_queue_depth;
    for (controller, id) in [("provisioner", "1"), ("provisioner", "2"), ("disruption", "3")] {
        depth.set([controller, id], 5.0);
    }
    depth.remove_where(&[("controller", "provisioner")]);
    assert_eq!(depth.value(["provisioner", "2"]), None);
    assert_eq!(depth.value(["disruption", "3"]), Some(5.0));
    depth.remove_where(&[("no such label", "x")]);
    assert_eq!(depth.value(["disruption", "3"]), Some(5.0));
    depth.remove(["disruption", "3"]);
    assert_eq!(depth.value(["disruption", "3"]), None);
}

#[test]
fn observations_land_below_their_bounds() {
    let metrics = metrics();
    let duration = &metrics.all.nodeclaims_termination_duration;
    for seconds in [0.5, 1.0, 1.5, 5000.0] {
        duration.observe(["blue"], seconds);
    }
    let text = metrics.render(Timestamp::UNIX_EPOCH);
    for (bound, count) in [("1", 2), ("2", 3), ("2048", 3), ("+Inf", 4)] {
        let line = format!(
            "karpenter_nodeclaims_termination_duration_seconds_bucket{{nodepool=\"blue\",le=\"{bound}\"}} {count}"
        );
        assert!(text.lines().any(|have| have == line), "{line}\n{text}");
    }
}
