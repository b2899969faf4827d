//! Affinity and anti-affinity between pods.

#![expect(clippy::needless_pass_by_value, reason = "rows are written as values")]

use serde_json::{Value, json};

use super::{fits, node, on, pod, reason};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

fn term(key: &str, app: &str) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}})
}

fn affinity(kind: &str, terms: Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn three() -> Vec<Value> {
    vec![node("a", "1"), node("b", "1"), node("c", "2")]
}

#[test]
fn affinity_joins_and_anti_affinity_avoids() {
    let mut objects = three();
    objects.push(on("a", pod("web", "web", json!({}))));
    for (name, kind, terms, want) in [
        ("together in a zone", "podAffinity", json!([term(ZONE, "web")]), "a b"),
        ("together on a host", "podAffinity", json!([term(HOST, "web")]), "a"),
        ("with nobody", "podAffinity", json!([term(ZONE, "db")]), ""),
        ("a label that no node has", "podAffinity", json!([term("rack", "web")]), ""),
        ("apart by zone", "podAntiAffinity", json!([term(ZONE, "web")]), "c"),
        ("apart by host", "podAntiAffinity", json!([term(HOST, "web")]), "b c"),
        ("apart from nobody", "podAntiAffinity", json!([term(ZONE, "db")]), "a b c"),
        ("apart in places that are not there", "podAntiAffinity", json!([term("rack", "web")]), "a b c"),
        ("no selector selects nobody", "podAntiAffinity", json!([{"topologyKey": ZONE}]), "a b c"),
        ("an empty one everybody", "podAntiAffinity", json!([{"topologyKey": ZONE, "labelSelector": {}}]), "c"),
        ("one pod has to meet all terms", "podAffinity", json!([term(ZONE, "web"), term(ZONE, "db")]), ""),
    ] {
        assert_eq!(fits(&objects, &pod("p", "x", affinity(kind, terms))), want, "{name}");
    }
}

#[test]
fn the_first_of_a_group_goes_anywhere_with_the_label() {
    let mut objects = three();
    objects[2]["metadata"]["labels"].as_object_mut().unwrap().remove(ZONE);
    let group = affinity("podAffinity", json!([term(ZONE, "web")]));
    assert_eq!(fits(&objects, &pod("first", "web", group.clone())), "a b");
    // Somebody else's group is not there yet.
    assert_eq!(fits(&objects, &pod("other", "db", group.clone())), "");
    // Once there is one, the others join it.
    objects.push(on("c", pod("first", "web", json!({}))));
    assert_eq!(fits(&objects, &pod("second", "web", group.clone())), "a b", "the first is in no zone");
    objects.push(node("d", "3"));
    objects.push(on("d", pod("third", "web", json!({}))));
    assert_eq!(fits(&objects, &pod("second", "web", group)), "d");
}

#[test]
fn anti_affinity_holds_both_ways() {
    let mut objects = three();
    objects.push(on("a", pod("lonely", "db", affinity("podAntiAffinity", json!([term(ZONE, "web")])))));
    assert_eq!(fits(&objects, &pod("p", "web", json!({}))), "c");
    assert_eq!(fits(&objects, &pod("p", "db", json!({}))), "a b c");
    let narrow = [objects[0].clone(), objects[3].clone()];
    assert_eq!(
        reason(&narrow, &pod("p", "web", json!({}))),
        "1 node(s) didn't satisfy existing pods anti-affinity rules"
    );
    assert_eq!(
        reason(&narrow, &pod("p", "x", affinity("podAntiAffinity", json!([term(ZONE, "db")])))),
        "1 node(s) didn't match pod anti-affinity rules"
    );
    assert_eq!(
        reason(&narrow, &pod("p", "x", affinity("podAffinity", json!([term(ZONE, "web")])))),
        "1 node(s) didn't match pod affinity rules"
    );
}

#[test]
fn namespaces_bound_what_a_term_sees() {
    let mut objects = three();
    objects.push(json!({"kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "red"}}}));
    objects.push(json!({"kind": "Namespace", "metadata": {"name": "default"}}));
    let mut elsewhere = on("a", pod("web", "web", json!({})));
    elsewhere["metadata"]["namespace"] = json!("other");
    objects.push(elsewhere);
    for (name, more, want) in [
        ("its own", json!({}), "a b c"),
        ("by name", json!({"namespaces": ["other"]}), "c"),
        ("by another name", json!({"namespaces": ["third"]}), "a b c"),
        ("by label", json!({"namespaceSelector": {"matchLabels": {"team": "red"}}}), "c"),
        ("by another label", json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}}), "a b c"),
        ("all", json!({"namespaceSelector": {}}), "c"),
        (
            "names or labels",
            json!({"namespaces": ["third"], "namespaceSelector": {"matchLabels": {"team": "red"}}}),
            "c",
        ),
    ] {
        let mut apart = term(ZONE, "web");
        apart.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let asks = pod("p", "x", affinity("podAntiAffinity", json!([apart])));
        assert_eq!(fits(&objects, &asks), want, "{name}");
    }
}

#[test]
fn label_keys_narrow_a_term_to_the_pod_itself() {
    let mut objects = three();
    for (name, node, version) in [("one", "a", "1"), ("two", "c", "2")] {
        let mut pod = on(node, pod(name, "web", json!({})));
        pod["metadata"]["labels"]["version"] = json!(version);
        objects.push(pod);
    }
    for (name, keys, want) in [
        ("all versions", json!({}), ""),
        ("its own version", json!({"matchLabelKeys": ["version"]}), "c"),
        ("other versions", json!({"mismatchLabelKeys": ["version"]}), "a b"),
        ("a key that it does not have", json!({"matchLabelKeys": ["nope"]}), ""),
    ] {
        let mut apart = term(ZONE, "web");
        apart.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let mut asks = pod("p", "x", affinity("podAntiAffinity", json!([apart])));
        asks["metadata"]["labels"]["version"] = json!("1");
        assert_eq!(fits(&objects, &asks), want, "{name}");
    }
}
