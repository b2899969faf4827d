//! Arbitrary bytes as a manifest never panic. `fuzz/` has the same for a coverage-guided fuzzer.

use karpenter_cli::{fuzz_manifest, fuzz_plan};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Pieces of manifests, so that random input gets past the parser.
fn pieces() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "apiVersion: karpenter.sh/v1\n",
        "kind: NodePool\n",
        "kind: NodeClaim\n",
        "metadata:\n",
        "  name: a\n",
        "spec:\n",
        "  template:\n",
        "    spec:\n",
        "      requirements:\n",
        "      - {key: a, operator: Gt, values: [x]}\n",
        "      nodeClassRef: {group: a, kind: b, name: c}\n",
        "  weight: 5\n",
        "  limits: {cpu: 5, nodes: x}\n",
        "  replicas: -1\n",
        "---\n",
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\n",
        "  amiSelectorTerms: [{alias: al2023@latest}]\n",
        "  kubelet: {evictionSoft: {a: b}}\n",
        "  networkInterfaces: [{networkCardIndex: 0}, 5, {}]\n",
        "items:\n- ",
        "kind: List\n",
        "? [a]\n: b\n",
        "<<: *x\n",
        "&x ",
        "*x ",
        "!!binary ",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        "|\n",
        "\t",
        "null",
        "1e999",
        ".nan",
        "0x",
        "\u{feff}",
        "%YAML 1.2\n",
    ])
    .prop_map(str::to_owned)
}

/// What does not belong where it is put.
fn odd_values() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(9_007_199_254_740_993_u64),
        json!(""),
        json!("x"),
        json!("1e400"),
        json!("-5"),
        json!("9223372036854775807E"),
        json!("100%"),
        json!([]),
        json!([null]),
        json!({}),
        json!({"key": "x", "operator": "Gt", "values": ["-1"]}),
        json!([{"key": "x", "operator": "In", "values": []}]),
        json!([{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "?"}]),
    ])
}

/// Pointers to every value of a document.
fn places(value: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    let below =
        children.iter().flat_map(|(name, child)| places(child).into_iter().map(move |rest| format!("/{name}{rest}")));
    std::iter::once(String::new()).chain(below).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz_manifest(&bytes);
    }

    #[test]
    fn random_manifests_never_panic(text in prop::collection::vec(pieces(), 0..30)) {
        fuzz_manifest(text.concat().as_bytes());
    }

    #[test]
    fn random_clusters_never_panic(values in prop::collection::vec((any::<prop::sample::Index>(), odd_values()), 1..6)) {
        let mut cluster: Value = serde_json::from_slice(include_bytes!("cluster.json")).unwrap();
        for (at, value) in values {
            let places = places(&cluster);
            *cluster.pointer_mut(&places[at.index(places.len())]).unwrap() = value;
        }
        fuzz_plan(cluster.to_string().as_bytes());
    }

    #[test]
    fn random_plans_never_panic(text in prop::collection::vec(pieces(), 0..30)) {
        fuzz_plan(text.concat().as_bytes());
    }

    #[test]
    fn damaged_manifests_never_panic(at in 0_usize..400, byte in any::<u8>(), cut in 0_usize..400) {
        let mut bytes = crate::POOL.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(bytes.len() - cut % bytes.len());
        fuzz_manifest(&bytes);
    }
}

#[test]
fn deep_and_wide_input_ends() {
    for text in
        ["[".repeat(100_000), "{a: ".repeat(50_000), "- ".repeat(50_000), "a:\n ".repeat(3_000), "a: &a [*a]\n".into()]
    {
        fuzz_manifest(text.as_bytes());
    }
    for depth in [60, 199, 200, 201, 250] {
        fuzz_manifest(format!("{}{}", "[".repeat(depth), "]".repeat(depth)).as_bytes());
        fuzz_manifest(
            format!("apiVersion: karpenter.sh/v1\nkind: NodePool\nspec: {}{}", "{a: ".repeat(depth), "}".repeat(depth))
                .as_bytes(),
        );
    }
    let bomb = (0..20).fold("a0: &a0 [x,x,x,x]\n".to_owned(), |text, i| {
        format!("{text}a{}: &a{} [*a{i}, *a{i}, *a{i}, *a{i}]\n", i + 1, i + 1)
    });
    fuzz_manifest(bomb.as_bytes());
}
