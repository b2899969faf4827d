use serde_json::{Value, json};

use super::*;

fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

/// SCH-193, SCH-198, SCH-200.
#[test]
fn slices_are_read() {
    let of = |spec: Value| {
        let mut object = json!({"metadata": {"name": "s", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]},
            "spec": {"driver": "gpu.com", "pool": {"name": "p", "generation": 3, "resourceSliceCount": 2}}});
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        resource_slice(&read(object), &LabelRules::core())
    };
    let slice = of(json!({"allNodes": true})).view;
    assert_eq!((slice.driver.as_str(), slice.pool.as_str(), slice.generation, slice.parts), ("gpu.com", "p", 3, 2));
    assert_eq!((slice.owner.as_deref(), slice.reach), (Some("n"), Reach::AllNodes));
    assert_eq!(of(json!({"nodeName": "n"})).view.reach, Reach::Node("n".to_owned()));
    assert_eq!(of(json!({})).view.reach, Reach::Nowhere);
    let terms = json!({"nodeSelector": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["z1"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "Near"}]}]}});
    let selected = of(terms);
    let Reach::Nodes(terms) = &selected.view.reach else { panic!("{:?}", selected.view.reach) };
    assert_eq!(terms[0].to_string(), "topology.kubernetes.io/zone In [z1]");
    assert_eq!(selected.problems.len(), 1);
}

/// SCH-209, SCH-210: what a device has, may be asked for, and takes.
#[test]
fn devices_are_read() {
    let spec = json!({"driver": "gpu.com", "allNodes": true, "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "sharedCounters": [{"name": "set", "counters": {"memory": {"value": "80Gi"}}}],
        "devices": [{"name": "d", "allowMultipleAllocations": true,
            "attributes": {"model": {"string": "x"}, "numa": {"int": 1}, "fast": {"bool": true}, "fw": {"version": "1.2.3"}},
            "capacity": {
                "memory": {"value": "80Gi", "requestPolicy": {"default": "4Gi", "validRange": {"min": "4Gi", "step": "4Gi"}}},
                "slots": {"value": "8", "requestPolicy": {"validValues": ["8", "2"]}},
                "odd": {"value": "lots"}},
            "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "40Gi"}}}]}]});
    let converted = resource_slice(&read(json!({"metadata": {"name": "s"}, "spec": spec})), &LabelRules::core());
    let device = &converted.view.devices[0];
    assert!(device.shared);
    assert_eq!(device.attributes["model"], AttributeValue::Text("x".into()));
    assert_eq!(device.attributes["numa"], AttributeValue::Int(1));
    assert_eq!(device.attributes["fast"], AttributeValue::Bool(true));
    assert_eq!(device.attributes["fw"], AttributeValue::Version("1.2.3".into()));
    let memory = &device.capacity["memory"];
    assert_eq!((memory.value.to_string(), memory.default.unwrap().to_string()), ("80Gi".into(), "4Gi".into()));
    assert!(matches!(memory.valid, ValidAmounts::Range { max: None, step: Some(_), .. }));
    let listed = ValidAmounts::Listed(vec![Quantity::units(2), Quantity::units(8)]);
    assert_eq!(device.capacity["slots"].valid, listed, "in ascending order");
    assert!(!device.capacity.contains_key("odd"));
    assert_eq!(device.consumes[0].counters["memory"].to_string(), "40Gi");
    assert_eq!(converted.view.counters["set"]["memory"].to_string(), "80Gi");
    assert_eq!(converted.problems[0].field, "spec.devices[0].capacity[odd].value");
}

/// SCH-202, SCH-205, V15-106.
#[test]
fn claims_are_read() {
    let requests = json!([
        {"name": "one", "exactly": {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "true"}}, {}],
            "capacity": {"requests": {"memory": "4Gi"}}}},
        {"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
        {"name": "some", "firstAvailable": [
            {"name": "four", "deviceClassName": "gpu", "count": 4}, {"name": "two", "deviceClassName": "gpu", "count": 2}]},
        {"name": "later"},
    ]);
    let constraints =
        json!([{"matchAttribute": "gpu.com/numa", "requests": ["one"]}, {"distinctAttribute": "gpu.com/x"}]);
    let object = json!({"metadata": {"name": "c", "namespace": "n"},
        "spec": {"devices": {"requests": requests, "constraints": constraints}}});
    let claim = resource_claim(&read(object), &LabelRules::core()).view;
    assert_eq!(claim.id.to_string(), "n/c");
    let RequestKind::Exactly(one) = &claim.requests[0].kind else { panic!("{:?}", claim.requests[0]) };
    assert_eq!((one.count, one.capacity["memory"].to_string()), (Count::Exactly(1), "4Gi".to_owned()));
    let texts: Vec<String> = one.selectors.iter().map(|selector| format!("{selector:?}")).collect();
    assert_eq!(texts, ["Compiled(Expression(\"true\"))", "Unusable(\"a selector without an expression\")"]);
    assert!(matches!(&claim.requests[1].kind, RequestKind::Exactly(ask) if ask.count == Count::All));
    let RequestKind::FirstAvailable(some) = &claim.requests[2].kind else { panic!("{:?}", claim.requests[2]) };
    let names: Vec<_> = some.iter().map(|(name, ask)| (name.as_str(), ask.count)).collect();
    assert_eq!(names, [("four", Count::Exactly(4)), ("two", Count::Exactly(2))]);
    assert!(matches!(claim.requests[3].kind, RequestKind::Unknown));
    assert!(claim.constraints[0].covers("one") && !claim.constraints[0].covers("all"));
    assert_eq!(claim.constraints[1], Constraint::Unknown("distinctAttribute".into()));
    assert!(claim.allocation.is_none());
    let class = device_class(&read(
        json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "x"}}]}}),
    ));
    assert_eq!((class.name.as_str(), class.selectors.len()), ("gpu", 1));
}

/// SCH-194, SCH-195, SC-309: who has what.
#[test]
fn allocations_are_read() {
    let status = json!({
        "allocation": {
            "devices": {"results": [{"request": "one", "driver": "gpu.com", "pool": "p", "device": "d",
                "consumedCapacity": {"memory": "4Gi"}}]},
            "nodeSelector": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]}},
        "reservedFor": [{"resource": "pods", "name": "web", "uid": "u"},
            {"apiGroup": "x.com", "resource": "pods", "name": "odd", "uid": "v"},
            {"resource": "jobs", "name": "j", "uid": "w"}]});
    let object = json!({"metadata": {"name": "c"}, "spec": {}, "status": status});
    let given = resource_claim(&read(object), &LabelRules::core()).view.allocation.unwrap();
    assert_eq!(given.devices[0].id.to_string(), "gpu.com/p/d");
    assert_eq!(given.devices[0].consumed["memory"].to_string(), "4Gi");
    assert_eq!(given.terms[0].to_string(), "zone In [z1]");
    assert_eq!(given.reserved_for, [Consumer::Pod { uid: "u".into() }, Consumer::Other, Consumer::Other]);
}
