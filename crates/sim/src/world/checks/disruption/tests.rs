//! Each check is silent for what is allowed and finds what is not.

use serde_json::json;

use super::*;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

fn node(name: &str, tainted: bool) -> Arc<Value> {
    let taints = if tainted { json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]) } else { json!([]) };
    let labels = json!({"karpenter.sh/nodepool": "p", "karpenter.sh/initialized": "true"});
    Arc::new(json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}))
}

fn claim(name: &str, reason: Option<&str>, annotations: &Value) -> Arc<Value> {
    let going = reason.map(|reason| json!({"type": "DisruptionReason", "status": "True", "reason": reason}));
    let conditions: Vec<Value> = going.into_iter().collect();
    Arc::new(json!({
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "p"}, "annotations": annotations},
        "status": {"providerID": name, "conditions": conditions},
    }))
}

#[derive(Default)]
struct Eye {
    disruptions: Disruptions,
    worth: BTreeMap<String, f64>,
    /// Since the last look.
    written: Vec<Written>,
}

impl Eye {
    fn sees(&mut self, nodes: &[Arc<Value>], claims: &[Arc<Value>], budgets: &Value, minute: i64) -> Vec<String> {
        let pools = [Arc::new(json!({"metadata": {"name": "p"}, "spec": {"disruption": {"budgets": budgets}}}))];
        let written = std::mem::take(&mut self.written);
        let scene =
            Scene { nodes, claims, written: &written, pools: &pools, worth: &self.worth, swing: 0.0, now: at(minute) };
        self.disruptions.look(scene).iter().map(ToString::to_string).collect()
    }
}

/// DIS-53: also those who were chosen and let go between two looks.
#[test]
fn budgets_hold_between_looks() {
    let nodes: Vec<_> = (0..11).map(|number| node(&format!("n{number}"), false)).collect();
    let write = |name: &str, reason: Option<&str>| Written {
        at: at(0),
        old: None,
        new: Some(claim(name, reason, &Value::Null)),
    };
    let gone = |name: &str| Written { at: at(0), old: Some(claim(name, None, &Value::Null)), new: None };
    let one_by_one = vec![write("a", Some("Empty")), gone("a"), write("b", Some("Empty")), write("b", None)];
    let at_once = vec![write("a", Some("Empty")), write("b", Some("Empty")), gone("a"), write("b", None)];
    for (written, broken) in [(one_by_one, false), (at_once, true)] {
        let mut eye = Eye { written, ..Eye::default() };
        let found = eye.sees(&nodes, &[claim("b", None, &Value::Null)], &json!([{"nodes": "1"}]), 0);
        assert_eq!(!found.is_empty(), broken, "{found:?}");
    }
}

/// DIS-53, DIS-54, DIS-55, DIS-58, DIS-59.
#[test]
fn budgets_hold_for_whoever_is_chosen() {
    let nodes: Vec<_> = (0..11).map(|number| node(&format!("n{number}"), false)).collect();
    let going = |count: usize| -> Vec<_> {
        (0..11).map(|i| claim(&format!("c{i}"), (i < count).then_some("Empty"), &Value::Null)).collect()
    };
    for (name, budgets, chosen, broken) in [
        ("percent rounds up", json!([{"nodes": "10%"}]), 2, false),
        ("percent", json!([{"nodes": "10%"}]), 3, true),
        ("number", json!([{"nodes": "3"}]), 3, false),
        ("none at all", json!([{"nodes": "0"}]), 1, true),
        ("the smallest", json!([{"nodes": "100%"}, {"nodes": "1"}]), 2, true),
        ("of this reason", json!([{"nodes": "100%"}, {"nodes": "1", "reasons": ["Empty"]}]), 2, true),
        ("of another reason", json!([{"nodes": "1", "reasons": ["Drifted"]}]), 5, false),
        ("no budget", json!([]), 11, false),
    ] {
        let found = Eye::default().sees(&nodes, &going(chosen), &budgets, 0);
        assert_eq!(!found.is_empty(), broken, "{name}: {found:?}");
    }
    let mut eye = Eye::default();
    let budgets = json!([{"nodes": "10%"}]);
    assert!(eye.sees(&nodes, &going(2), &budgets, 0).is_empty());
    assert!(eye.sees(&nodes[..5], &going(2), &budgets, 1).is_empty(), "nobody new, though fewer would be allowed now");
    let text = "nodepool p lets 3 nodes go at once, 1 may";
    assert_eq!(eye.sees(&nodes[..5], &going(3), &budgets, 2), [text]);
}

#[test]
fn a_chosen_node_goes_or_is_released() {
    let mut eye = Eye::default();
    let mut sees = |tainted: bool, minute: i64| eye.sees(&[node("n", tainted)], &[], &json!([]), minute);
    assert!(sees(true, 0).is_empty());
    assert!(sees(true, 45).is_empty());
    assert_eq!(sees(true, 46), ["node n was chosen to go, and neither goes nor is released"]);
    assert!(sees(false, 47).is_empty());
    assert!(sees(true, 48).is_empty());
}

#[test]
fn money_is_saved() {
    let command = |method: &str| json!({"id": "x", "method": method, "nodes": 2}).to_string();
    for (method, price, broken) in [("multi", 0.9, false), ("multi", 1.0, true), ("drift", 5.0, false)] {
        let going = json!({COMMAND: command(method)});
        let claims = |with: bool| {
            let mut claims = vec![claim("a", Some("Underutilized"), &going), claim("b", Some("Underutilized"), &going)];
            claims.extend(with.then(|| claim("new", None, &json!({REPLACES: "x"}))));
            claims
        };
        let worth = [("a".to_owned(), 0.5), ("b".to_owned(), 0.5), ("new".to_owned(), price)].into();
        let mut eye = Eye { worth, ..Eye::default() };
        assert!(eye.sees(&[], &claims(false), &json!([]), 0).is_empty(), "{method}");
        let found = eye.sees(&[], &claims(true), &json!([]), 1);
        assert_eq!(!found.is_empty(), broken, "{method} {price}: {found:?}");
    }
}

/// What was chosen and went between two looks counts, at what it cost when it was last seen.
#[test]
fn money_is_saved_between_looks() {
    let going = json!({COMMAND: json!({"id": "x", "method": "single", "nodes": 1}).to_string()});
    for (price, broken) in [(0.4, false), (0.6, true)] {
        let mut eye = Eye { worth: [("a".to_owned(), 0.5)].into(), ..Eye::default() };
        assert!(eye.sees(&[], &[claim("a", None, &Value::Null)], &json!([]), 0).is_empty());
        let (old, new) = (Some(claim("a", None, &Value::Null)), Some(claim("a", Some("Underutilized"), &going)));
        eye.written = vec![Written { at: at(0), old, new: new.clone() }, Written { at: at(0), old: new, new: None }];
        eye.worth = [("new".to_owned(), price)].into();
        let found = eye.sees(&[], &[claim("new", None, &json!({REPLACES: "x"}))], &json!([]), 1);
        assert_eq!(
            (!found.is_empty(), eye.disruptions.commands()),
            (broken, usize::from(!broken)),
            "{price}: {found:?}"
        );
    }
}

/// A replacement of the same type and price means that the old node could have stayed.
#[test]
fn nothing_is_replaced_by_its_like() {
    let sold = |name: &str, instance_type: &str, annotations: &Value| {
        let mut claim = (*claim(name, None, annotations)).clone();
        claim["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!(instance_type);
        Arc::new(claim)
    };
    let going = |method: &str| json!({COMMAND: json!({"id": "c", "method": method, "nodes": 2}).to_string()});
    let comes = json!({REPLACES: "c"});
    for (name, method, replacement, price, wrong) in [
        ("the same", "multi", "small", 1.0, true),
        ("another type", "multi", "large", 1.0, false),
        ("another price", "multi", "small", 0.9, false),
        ("not for money", "drift", "small", 1.0, false),
    ] {
        let worth = [("old".to_owned(), 1.0), ("more".to_owned(), 5.0), ("new".to_owned(), price)].into();
        let mut eye = Eye { worth, ..Eye::default() };
        let claims = [
            sold("old", "small", &going(method)),
            sold("more", "huge", &going(method)),
            sold("new", replacement, &comes),
        ];
        let found = eye.sees(&[], &claims, &json!([]), 0);
        assert_eq!(!found.is_empty(), wrong, "{name}: {found:?}");
        assert!(eye.sees(&[], &claims, &json!([]), 1).is_empty(), "told once");
    }
}
