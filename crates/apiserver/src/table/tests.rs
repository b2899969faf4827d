use super::*;
use crate::resource::{PrinterColumn, Registry};

/// Objects of every kind and the rows that kube-apiserver 1.35.4 made of them.
fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("tests/recorded.json")).unwrap()
}

fn kind_of(case: &Value) -> ResourceType {
    let part = |name: &str| case[name].as_str().unwrap();
    if let Some(kind) = Registry::builtin().by_plural(part("group"), part("version"), part("plural")) {
        return kind.as_ref().clone();
    }
    let mut kind = Registry::builtin().by_kind("", "v1", "ConfigMap").unwrap().as_ref().clone();
    kind.kind = part("plural").to_owned();
    kind.crd = true;
    let text = |column: &Value, name: &str| column[name].as_str().unwrap_or_default().to_owned();
    kind.printer_columns = case["printer_columns"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| PrinterColumn {
            name: text(column, "name"),
            column_type: text(column, "type"),
            format: text(column, "format"),
            description: text(column, "description"),
            priority: column["priority"].as_i64().unwrap_or(0),
            json_path: text(column, "jsonPath"),
        })
        .collect();
    kind
}

#[test]
fn rows_are_those_of_the_real_server() {
    let mut rows = 0;
    for case in cases() {
        let kind = kind_of(&case);
        let items: Vec<_> = case["items"].as_array().unwrap().iter().cloned().map(Arc::new).collect();
        let now = case["now"].as_str().unwrap().parse().unwrap();
        let table = render(&kind, &items, &json!({"resourceVersion": "7"}), Options::at(now));
        assert_eq!(table["metadata"]["resourceVersion"], "7");
        for (ours, real) in table["rows"].as_array().unwrap().iter().zip(case["rows"].as_array().unwrap()) {
            assert_eq!(ours, real, "{}", kind.plural);
            rows += 1;
        }
        if let Some(columns) = case.get("columns") {
            assert_eq!(&table["columnDefinitions"], columns, "{}", kind.plural);
        }
    }
    assert!(rows > 130, "only {rows}");
}

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    for kind in Registry::builtin().iter().filter(|kind| kind.verbs.contains(&"list".to_owned())) {
        // An object that says nothing has to be bearable as well.
        let table = render(kind, &[Arc::new(json!({}))], &json!({}), Options::at(now));
        let columns = table["columnDefinitions"].as_array().unwrap().len();
        assert_eq!(table["rows"][0]["cells"].as_array().unwrap().len(), columns, "{}", kind.kind);
    }
}

#[test]
fn objects_are_included_as_asked() {
    let pod = Arc::new(json!({"metadata": {"name": "a"}, "spec": {}, "kind": "Pod", "apiVersion": "v1"}));
    let kind = Registry::builtin().by_kind("", "v1", "Pod").unwrap().clone();
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    for (parameter, want) in [
        ("", json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}})),
        ("None", Value::Null),
        ("Object", pod.as_ref().clone()),
    ] {
        let include = IncludeObject::parse(parameter).unwrap();
        let table = render(&kind, &[Arc::clone(&pod)], &json!({}), Options { include, columns: false, now });
        assert_eq!(table["rows"][0]["object"], want, "{parameter}");
        assert_eq!(table["columnDefinitions"], Value::Null);
    }
    assert_eq!(IncludeObject::parse("All"), None);
    assert_eq!(partial_list(&[pod], &json!({}))["items"][0]["metadata"]["name"], "a");
}
