use serde_json::{Map, Value, json};

use crate::{Ratcheting, Schema, SchemaError};

/// A schema with one field for each keyword. What a kube-apiserver 1.35 answered for it is in the tables below.
fn probe() -> Schema {
    let text = json!({"type": "string"});
    let rule = |rule: &str, message: &str| json!([{"rule": rule, "message": message}]);
    let plain = json!({
            "req": text,
            "minlen": {"type": "string", "minLength": 3},
            "maxlen": {"type": "string", "maxLength": 3},
            "minitems": {"type": "array", "minItems": 2, "items": {"type": "integer"}},
            "maxitems": {"type": "array", "maxItems": 2, "items": {"type": "integer"}},
            "maxprops": {"type": "object", "maxProperties": 1, "additionalProperties": text},
            "minprops": {"type": "object", "minProperties": 1, "additionalProperties": text},
            "min": {"type": "integer", "minimum": 5},
            "exmin": {"type": "integer", "minimum": 5, "exclusiveMinimum": true},
            "exmax": {"type": "integer", "maximum": 5, "exclusiveMaximum": true},
            "mult": {"type": "number", "multipleOf": 0.5},
            "i32": {"type": "integer", "format": "int32"},
            "num": {"type": "number", "minimum": 0.5},
            "int": {"type": "integer"},
            "dt": {"type": "string", "format": "date-time"},
            "bool": {"type": "boolean"},
            "nullable": {"type": "string", "nullable": true, "default": "x"},
            "notnull": text,
            "defnull": {"type": "string", "default": "foo"},
    });
    let special = json!({
            "ios": {"x-kubernetes-int-or-string": true},
            "qty": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+$"},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "maplist": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {
                    "k": text, "v": {"type": "string", "x-kubernetes-validations": rule("self == oldSelf", "v immutable")}}}},
            "atomlist": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object", "properties": {
                "k": {"type": "string", "x-kubernetes-validations": rule("self == oldSelf", "k immutable")}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": text}},
            "any": {"type": "object", "additionalProperties": true},
            "enumint": {"type": "integer", "enum": [1, 2]},
            "nested": {"type": "object", "properties": {
                "inner": {"type": "object", "required": ["z"], "properties": {"z": text}}}},
    });
    let ruled = json!({
            "celint": {"type": "integer", "x-kubernetes-validations": rule("self > 5", "must be big")},
            "celnomsg": {"type": "string", "x-kubernetes-validations": [{"rule": "self == 'x'"}]},
            "celobj": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "x-kubernetes-validations": [
                    {"rule": "self.a < self.b", "message": "a < b", "fieldPath": ".a", "reason": "FieldValueForbidden"},
                    {"rule": "self.a != 7", "messageExpression": "'got ' + string(self.a)"}]},
            "mapcel": {"type": "object", "additionalProperties": {"type": "object", "required": ["q"], "properties": {
                "q": {"type": "string", "x-kubernetes-validations": rule("self != 'bad'", "bad q")}}}},
            "mapdef": {"type": "object", "additionalProperties": {"type": "object", "properties": {
                "d": {"type": "integer", "default": 4}}}},
            "pat": {"type": "string", "pattern": "^a$", "x-kubernetes-validations": rule("self != 'bad'", "bad pat")},
            "arrlen": {"type": "array", "maxLength": 2, "pattern": "^z$", "items": text},
            "trans": {"type": "string", "x-kubernetes-validations": rule("self == oldSelf", "immutable")},
            "either": {"type": "object", "properties": {"a": text, "b": text},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "no": {"type": "string", "not": {"enum": ["no"]}},
            "all": {"type": "string", "allOf": [{"minLength": 2}, {"maxLength": 1}]},
    });
    let properties: Map<String, Value> =
        [plain, special, ruled].into_iter().flat_map(|part| part.as_object().cloned().unwrap()).collect();
    let spec = json!({"type": "object", "required": ["req"], "properties": properties});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    Schema::compile(&schema).unwrap()
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "probe.test/v1", "kind": "Probe", "metadata": {"name": "p"}, "spec": spec})
}

/// Prunes, defaults, validates, as the server does; unknown fields come first.
fn check(spec: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = probe();
    let mut new = object(spec);
    let mut lines: Vec<String> = schema.prune(&mut new).iter().map(|path| format!("unknown field {path}")).collect();
    schema.default(&mut new);
    let old = old.map(|old| {
        let mut old = object(old);
        schema.default(&mut old);
        old
    });
    lines.extend(schema.validate(&new, old.as_ref()).iter().map(ToString::to_string));
    lines
}

const UNCHECKED: &str = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

#[test]
fn verdicts_and_texts_are_those_of_the_api_server() {
    for (spec, want) in [
        (json!({"req": "a"}), vec![]),
        (json!({}), vec!["spec.req: Required value", UNCHECKED]),
        (json!({"req": null}), vec!["spec.req: Required value", UNCHECKED]),
        (
            json!({"req": "a", "minlen": "a"}),
            vec!["spec.minlen: Invalid value: \"a\": spec.minlen in body should be at least 3 chars long"],
        ),
        (json!({"req": "a", "maxlen": "éééé"}), vec!["spec.maxlen: Too long: may not be more than 3 bytes", UNCHECKED]),
        (json!({"req": "a", "maxlen": "ééé"}), vec![]),
        (
            json!({"req": "a", "minitems": [1]}),
            vec!["spec.minitems: Invalid value: 1: spec.minitems in body should have at least 2 items"],
        ),
        (
            json!({"req": "a", "maxitems": [1, 2, 3]}),
            vec!["spec.maxitems: Too many: 3: must have at most 2 items", UNCHECKED],
        ),
        (
            json!({"req": "a", "maxprops": {"a": "b", "c": "d"}}),
            vec!["spec.maxprops: Too many: 2: must have at most 1 item", UNCHECKED],
        ),
        (
            json!({"req": "a", "minprops": {}}),
            vec!["spec.minprops: Invalid value: 0: spec.minprops in body should have at least 1 properties"],
        ),
        (
            json!({"req": "a", "min": 4}),
            vec!["spec.min: Invalid value: 4: spec.min in body should be greater than or equal to 5"],
        ),
        (
            json!({"req": "a", "exmin": 5, "exmax": 5}),
            vec![
                "spec.exmax: Invalid value: 5: spec.exmax in body should be less than 5",
                "spec.exmin: Invalid value: 5: spec.exmin in body should be greater than 5",
            ],
        ),
        (
            json!({"req": "a", "num": 0.1}),
            vec!["spec.num: Invalid value: 0.1: spec.num in body should be greater than or equal to 0.5"],
        ),
        (
            json!({"req": "a", "mult": 0.75}),
            vec!["spec.mult: Invalid value: 0.75: spec.mult in body should be a multiple of 0.5"],
        ),
        (
            json!({"req": "a", "int": 1.5}),
            vec![
                "spec.int: Invalid value: \"number\": spec.int in body must be of type integer: \"number\"",
                UNCHECKED,
            ],
        ),
        (
            json!({"req": "a", "int": 9_223_372_036_854_775_808_u64}),
            vec![
                "spec.int: Invalid value: \"number\": spec.int in body must be of type integer: \"number\"",
                UNCHECKED,
            ],
        ),
        (json!({"req": "a", "int": 1.0, "i32": 3_000_000_000_i64}), vec![]),
        (
            json!({"req": "a", "dt": "foo"}),
            vec!["spec.dt: Invalid value: \"foo\": spec.dt in body must be of type date-time: \"foo\"", UNCHECKED],
        ),
        (
            json!({"req": "a", "bool": "true"}),
            vec![
                "spec.bool: Invalid value: \"string\": spec.bool in body must be of type boolean: \"string\"",
                UNCHECKED,
            ],
        ),
        (
            json!({"req": "a", "ios": true}),
            vec![
                "spec.ios: Invalid value: \"boolean\": spec.ios in body must be of type integer,string: \"boolean\"",
                UNCHECKED,
            ],
        ),
        (
            json!({"req": "a", "qty": 1.5}),
            vec![
                "spec.qty: Invalid value: \"number\": spec.qty in body must be of type integer,string: \"number\"",
                UNCHECKED,
            ],
        ),
        (
            json!({"req": "a", "qty": "abc"}),
            vec!["spec.qty: Invalid value: \"abc\": spec.qty in body should match '^[0-9]+$'"],
        ),
        (json!({"req": "a", "qty": -5}), vec![]),
        (json!({"req": "a", "set": ["a", "b", "a", "a"]}), vec!["spec.set[2]: Duplicate value: \"a\""]),
        (
            json!({"req": "a", "maplist": [{"k": "a"}, {"k": "a", "v": "b"}]}),
            vec!["spec.maplist[1]: Duplicate value: {\"k\":\"a\"}"],
        ),
        (
            json!({"req": "a", "maplist": [null]}),
            vec![
                "spec.maplist[0]: Invalid value: \"null\": spec.maplist[0] in body must be of type object: \"null\"",
                UNCHECKED,
            ],
        ),
        (
            json!({"req": "a", "enumint": 3}),
            vec!["spec.enumint: Unsupported value: 3: supported values: \"1\", \"2\"", UNCHECKED],
        ),
        (json!({"req": "a", "nested": {"inner": {}}}), vec!["spec.nested.inner.z: Required value", UNCHECKED]),
        (
            json!({"req": "a", "celint": 1, "celnomsg": "abc"}),
            vec![
                "spec.celint: Invalid value: 1: must be big",
                "spec.celnomsg: Invalid value: \"abc\": failed rule: self == 'x'",
            ],
        ),
        (json!({"req": "a", "celobj": {"a": 3, "b": 2}}), vec!["spec.celobj.a: Forbidden: a < b"]),
        (json!({"req": "a", "celobj": {"a": 7, "b": 9}}), vec!["spec.celobj: Invalid value: got 7"]),
        (
            json!({"req": "a", "mapcel": {"x/y.z": {"q": "bad"}}}),
            vec!["spec.mapcel[x/y.z].q: Invalid value: \"bad\": bad q"],
        ),
        (json!({"req": "a", "mapcel": {"x/y.z": {}}}), vec!["spec.mapcel.x/y.z.q: Required value", UNCHECKED]),
        (
            json!({"req": "a", "pat": "bad"}),
            vec![
                "spec.pat: Invalid value: \"bad\": spec.pat in body should match '^a$'",
                "spec.pat: Invalid value: \"bad\": bad pat",
            ],
        ),
        (json!({"req": "a", "arrlen": ["zzzzzzzzz", "a", "b"]}), vec![]),
        (
            json!({"req": "a", "either": {}}),
            vec!["spec.either: Invalid value: \"\": \"spec.either\" must validate one and only one schema (oneOf)"],
        ),
        (
            json!({"req": "a", "no": "no"}),
            vec!["spec.no: Invalid value: \"\": \"spec.no\" must not validate the schema (not)"],
        ),
        (
            json!({"req": "a", "all": "a"}),
            vec!["spec.all: Invalid value: \"a\": spec.all in body should be at least 2 chars long"],
        ),
        (
            json!(5),
            vec!["spec: Invalid value: \"integer\": spec in body must be of type object: \"integer\"", UNCHECKED],
        ),
        (json!(null), vec![]),
    ] {
        assert_eq!(check(&spec, None), want, "{spec}");
    }
}

/// A rule that cannot be evaluated refuses, and the text says which rule. The cause is worded by the CEL library.
#[test]
fn a_rule_that_fails_to_evaluate_refuses() {
    let lines = check(&json!({"req": "a", "celobj": {"a": 7}}), None);
    assert_eq!(lines[0], "spec.celobj: Invalid value: \"object\": no such key: b evaluating rule: a < b");
    assert_eq!(lines[1], "spec.celobj: Invalid value: got 7");
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    for (spec, want) in [
        (
            json!({"req": "a", "x": 1, "nested": {"x": 1, "inner": {"z": "", "y": 1}}}),
            vec!["spec.nested.inner.y", "spec.nested.x", "spec.x"],
        ),
        (json!({"req": "a", "maplist": [{"k": "a"}, {"k": "b", "foo": 1}]}), vec!["spec.maplist[1].foo"]),
        (json!({"req": "a", "minitems": {"a": 1}}), vec!["spec.minitems.a"]),
        (json!({"req": "a", "req2": null}), vec!["spec.req2"]),
        (json!({"req": "a", "free": {"a": "b", "c": {"d": [1]}}, "any": {"x": {"y": 1}}}), vec![]),
        (json!({"req": "a", "bool": [{"a": 1}]}), vec!["spec.bool[0].a"]),
    ] {
        let (schema, mut pruned) = (probe(), object(&spec));
        let paths: Vec<String> = schema.prune(&mut pruned).iter().map(ToString::to_string).collect();
        assert_eq!(paths, want, "{spec}");
        assert!(schema.prune(&mut pruned).is_empty(), "pruning twice finds nothing: {pruned}");
    }
}

#[test]
fn only_whole_objects_keep_metadata_that_no_schema_mentions() {
    let schema = json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string"}}}}});
    let given = json!({"kind": "K", "metadata": {"name": "a", "x": 1}});
    let (mut object, mut fragment) = (given.clone(), given);
    assert!(Schema::compile(&schema).unwrap().prune(&mut object).is_empty());
    let pruned = Schema::compile_fragment(&schema).unwrap().prune(&mut fragment);
    assert_eq!(pruned.iter().map(ToString::to_string).collect::<Vec<_>>(), ["kind", "metadata.x"]);
}

#[test]
fn defaults_fill_in_and_nulls_go() {
    for (spec, want) in [
        (json!({"req": "a"}), json!({"req": "a", "nullable": "x", "defnull": "foo"})),
        (
            json!({"req": "a", "nullable": null, "defnull": null, "notnull": null}),
            json!({"req": "a", "nullable": null, "defnull": "foo"}),
        ),
        (
            json!({"mapdef": {"a": {}, "b": null}, "maxprops": {"a": null}}),
            json!({"mapdef": {"a": {"d": 4}}, "maxprops": {}, "nullable": "x", "defnull": "foo"}),
        ),
        (
            json!({"any": {"x": null}, "nullable": "", "defnull": ""}),
            json!({"any": {"x": null}, "nullable": "", "defnull": ""}),
        ),
    ] {
        let mut defaulted = object(&spec);
        probe().default(&mut defaulted);
        assert_eq!(defaulted["spec"], want, "{spec}");
    }
}

#[test]
fn transitions_follow_keys_but_not_positions() {
    for (name, old, new, want) in [
        (
            "scalar",
            json!({"req": "a", "trans": "a"}),
            json!({"req": "a", "trans": "b"}),
            vec!["spec.trans: Invalid value: \"b\": immutable"],
        ),
        ("set for the first time", json!({"req": "a"}), json!({"req": "a", "trans": "b"}), vec![]),
        (
            "a list with keys, reordered",
            json!({"req": "a", "maplist": [{"k": "a", "v": "a"}, {"k": "b", "v": "b"}]}),
            json!({"req": "a", "maplist": [{"k": "b", "v": "x"}, {"k": "a", "v": "a"}]}),
            vec!["spec.maplist[0].v: Invalid value: \"x\": v immutable"],
        ),
        (
            "an atomic list",
            json!({"req": "a", "atomlist": [{"k": "a"}]}),
            json!({"req": "a", "atomlist": [{"k": "b"}]}),
            vec![],
        ),
    ] {
        assert_eq!(check(&new, Some(&old)), want, "{name}");
    }
}

#[test]
fn ratcheting_spares_what_did_not_change() {
    let (schema, old) = (probe(), object(&json!({"req": "a", "min": 1, "celint": 1, "trans": "a"})));
    let mut new = old.clone();
    new["spec"]["req"] = json!("b");
    assert_eq!(schema.validate_with(&new, Some(&old), Ratcheting::On), vec![]);
    let strict = schema.validate_with(&new, Some(&old), Ratcheting::Off);
    assert_eq!(strict.iter().map(|v| v.path.to_string()).collect::<Vec<_>>(), ["spec.min", "spec.celint"]);
    new["spec"]["min"] = json!(2);
    assert_eq!(schema.validate_with(&new, Some(&old), Ratcheting::On).len(), 1, "a changed value is checked");
}

/// What a kube-apiserver 1.35 answered when a stored object met a tightened schema. It turns the CEL violations that it
/// forgives into warnings of the response.
#[test]
fn ratcheting_reaches_as_far_as_on_the_server() {
    let short = json!({"type": "string", "maxLength": 2});
    let rule = |rule: &str, message: &str| json!([{"rule": rule, "message": message}]);
    let schema = Schema::compile(&json!({"type": "object", "properties": {
        "other": {"type": "string"},
        "min": {"type": "integer", "minimum": 5},
        "atom": {"type": "array", "items": {"type": "object", "properties": {"k": short}}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": short},
        "ml": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": short}}},
        "cel": {"type": "integer", "x-kubernetes-validations": rule("self > 5", "big")},
        "obj": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "x-kubernetes-validations": rule("self.a < 5", "small a")},
        "mp": {"type": "object", "additionalProperties": short},
    }}))
    .unwrap();
    let stored = json!({
        "other": "x", "min": 1, "atom": [{"k": "long"}, {"k": "a"}], "set": ["long", "b"],
        "ml": [{"k": "a", "v": "long"}, {"k": "b", "v": "b"}], "cel": 1, "obj": {"a": 9, "b": 1}, "mp": {"a": "long", "b": "c"},
    });
    for (field, value, refused) in [
        ("other", json!("y"), None),
        ("min", json!(2), Some("min")),
        ("atom", json!([{"k": "long"}, {"k": "b"}]), Some("atom[0].k")),
        ("set", json!(["long", "c"]), Some("set[0]")),
        ("ml", json!([{"k": "b", "v": "c"}, {"k": "a", "v": "long"}]), None),
        ("ml", json!([{"k": "b", "v": "c"}, {"k": "a", "v": "longer"}]), Some("ml[1].v")),
        ("cel", json!(2), Some("cel")),
        ("obj", json!({"a": 9, "b": 2}), Some("obj")),
        ("mp", json!({"a": "long", "b": "d"}), None),
        ("mp", json!({"a": "lonf", "b": "c"}), Some("mp.a")),
    ] {
        let mut new = stored.clone();
        new[field] = value.clone();
        let violations = schema.validate(&new, Some(&stored));
        let fields: Vec<String> =
            violations.iter().filter(|v| !v.path.is_root()).map(crate::Violation::field).collect();
        assert_eq!(fields, refused.into_iter().collect::<Vec<_>>(), "{field} = {value}");
    }
}

#[test]
fn a_bad_schema_is_refused_with_its_place() {
    for (schema, want) in [
        (json!([]), "openAPIV3Schema: a schema must be an object"),
        (
            json!({"properties": {"a": {"type": "strin"}}}),
            "openAPIV3Schema.properties[a].type: unexpected value \"strin\"",
        ),
        (json!({"items": {"pattern": "("}}), "openAPIV3Schema.items.pattern: not a regular expression"),
        (json!({"maxLength": -1}), "openAPIV3Schema.maxLength: unexpected value -1"),
    ] {
        assert_eq!(Schema::compile(&schema).unwrap_err().to_string(), want);
    }
    let rule = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self ==", "message": "x"}]});
    assert!(matches!(Schema::compile(&rule), Err(SchemaError::Rule { .. })));
    let deep = (0..100).fold(json!({}), |inner, _| json!({"items": inner}));
    assert!(matches!(Schema::compile(&deep), Err(SchemaError::TooDeep { .. })));
}

mod laws {
    use proptest::prelude::*;

    use super::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,6}".prop_map(Value::from),
        ];
        // Names of the probe's fields, so that values meet checks.
        let name = prop_oneof![
            prop::sample::select(vec![
                "spec", "req", "min", "maxprops", "set", "maplist", "k", "v", "free", "qty", "celint", "celobj", "a",
                "b", "mapcel", "q", "trans", "nested", "inner", "dt", "either", "all", "mult",
            ])
            .prop_map(str::to_owned),
            "[a-z/.]{0,3}",
        ];
        leaf.prop_recursive(5, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(name.clone(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_panics_and_passes_are_idempotent(value in any_json(), old in proptest::option::of(any_json())) {
            thread_local!(static SCHEMA: Schema = probe());
            SCHEMA.with(|schema| {
                let (mut value, old) = (value, old);
                schema.prune(&mut value);
                schema.default(&mut value);
                let settled = value.clone();
                prop_assert!(schema.prune(&mut value).is_empty());
                schema.default(&mut value);
                prop_assert_eq!(&value, &settled);
                let strict = schema.validate_with(&value, old.as_ref(), Ratcheting::Off);
                // Ratcheting only ever forgives.
                let lenient = schema.validate_with(&value, old.as_ref(), Ratcheting::On);
                let judged = |violations: &[crate::Violation]| violations.iter().any(|v| v.kind.blocks_rules());
                if judged(&strict) == judged(&lenient) {
                    prop_assert!(lenient.iter().all(|violation| strict.contains(violation)));
                }
                // An object that is stored stays acceptable.
                let unchanged = schema.validate(&value, Some(&value));
                prop_assert!(unchanged.is_empty(), "{unchanged:?}");
                Ok(())
            })?;
        }
    }
}

/// A server shares one compiled schema between its threads.
#[test]
fn a_schema_can_be_shared() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    shared(&probe());
}
