//! What operators read about nodes that go.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Metadata, Subscriber};

use super::desk::Desk;
use super::disrupting::{LARGE, SMALL, add_node, add_pool, going, on, replacements};
use super::repairing::{set_conditions, ward};

type Line = BTreeMap<String, String>;

/// Every line that this thread logs, by field.
#[derive(Debug, Clone, Default)]
struct Lines(Arc<Mutex<Vec<Line>>>);

impl Lines {
    /// Hears this thread from now on.
    fn listen(&self) -> DefaultGuard {
        // While there is only one subscriber, a place in the code that another thread comes by first is taken to have none at all.
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(Self::default()));
        tracing::subscriber::set_default(self.clone())
    }

    /// Those with this message.
    fn with(&self, message: &str) -> Vec<Line> {
        self.0.lock().unwrap().iter().filter(|line| line["message"] == message).cloned().collect()
    }
}

struct Fields(Line);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(Line::from([("message".to_owned(), String::new())]));
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn assert_says(line: &Line, want: &[(&str, &str)]) {
    for (field, value) in want {
        assert_eq!(line.get(*field).map(String::as_str), Some(*value), "{field}: {line:#?}");
    }
}

/// DC-180, DIS-170, DIS-176: a command says what it does to whom, once; five pods of two nodes are five. It counts once, and once for
/// each pool.
#[tokio::test(start_paused = true)]
async fn a_delete_is_logged_with_its_pods() {
    let lines = Lines::default();
    let _guard = lines.listen();
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_pool(&desk, "red", json!({})).await;
    let kept = json!({ "karpenter.sh/do-not-disrupt": "true" });
    for (node, pool, pods) in [("a", "blue", 3), ("b", "red", 2), ("c", "blue", 1)] {
        add_node(&desk, node, SMALL, json!({ "metadata": { "labels": { "karpenter.sh/nodepool": pool } } })).await;
        if node == "c" {
            desk.change::<k8s_openapi::api::core::v1::Node>(node, json!({ "metadata": { "annotations": kept } })).await;
        }
        for number in 0..pods {
            desk.add_pod(&format!("on-{node}-{number}"), on(node, "100m")).await;
        }
    }
    desk.work(60).await;
    let left = going(&desk).await.into_values().filter(|going| !going).count();
    assert_eq!(left, 1);
    let said = lines.with("disrupting nodes");
    assert_eq!(said.len(), 1, "{said:#?}");
    assert_says(
        &said[0],
        &[
            ("decision", "delete"),
            ("reason", "Underutilized"),
            ("node_count", "2"),
            ("replacement_count", "0"),
            ("pod_count", "5"),
        ],
    );
    for node in ["a", "b"] {
        assert!(said[0]["nodes"].contains(&format!("{node} ({SMALL}, on-demand)")), "{said:#?}");
    }
    let metrics = &desk.ctx.report.metrics.all;
    assert_eq!(metrics.disruption_decisions.value(["delete", "underutilized", "multi"]), Some(1.0), "DIS-176");
    for pool in ["blue", "red"] {
        let of_pool = metrics.disruption_decisions_by_nodepool.value([pool, "delete", "underutilized", "multi"]);
        assert_eq!(of_pool, Some(1.0), "DIS-176: {pool}");
    }
}

/// DIS-170: one replacement says what it may become.
#[tokio::test(start_paused = true)]
async fn a_replacement_is_logged_with_its_types() {
    let lines = Lines::default();
    let _guard = lines.listen();
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_node(&desk, "large", LARGE, json!({})).await;
    desk.add_pod("web", on("large", "500m")).await;
    desk.work(60).await;
    assert_eq!(replacements(&desk).await.len(), 1);
    let said = lines.with("disrupting nodes");
    assert_eq!(said.len(), 1, "{said:#?}");
    assert_says(
        &said[0],
        &[("decision", "replace"), ("replacement_count", "1"), ("replacement_capacity_type", "on-demand")],
    );
    let types = said[0]["replacement_instance_types"].split(", ").count();
    assert!((1..=5).contains(&types), "{said:#?}");
}

/// V15-52: a repair says what was wrong, which policy says so, and how long pods have; once.
#[tokio::test(start_paused = true)]
async fn a_repair_is_logged_with_its_cause() {
    let lines = Lines::default();
    let _guard = lines.listen();
    let mut desk = ward().await;
    let since = desk.now();
    set_conditions(&desk, "a", "True", "False", "1").await;
    desk.work(3 * 60).await;
    let said = lines.with("repairing a node");
    assert_eq!(said.len(), 1, "{said:#?}");
    assert_says(
        &said[0],
        &[
            ("node", "a"),
            ("condition", "KernelReady"),
            ("condition_status", "False"),
            ("condition_reason", "r"),
            ("reason_expression", ".*"),
            ("fallback", "false"),
            ("action", "RebootNode"),
            ("drain_bound_seconds", "0"),
            ("drain_bound_by", "KernelReady"),
            ("reboot_escalated", "false"),
        ],
    );
    let due: jiff::Timestamp = said[0]["due_since"].parse().unwrap();
    // The API knows seconds only.
    assert!((59..=61).contains(&due.duration_since(since).as_secs()), "{due} {since}");
}
