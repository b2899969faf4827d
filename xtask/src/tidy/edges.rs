//! Which crate may use which. A crate exists to forbid a dependency, so the table below is the reason for the workspace.

use super::graph::{Graph, Package};

struct Rule {
    /// The crate's folder.
    name: &'static str,
    /// The crates of ours it may name in its manifest.
    uses: &'static [&'static str],
    /// What it must not reach, however long the way. A trailing `*` stands for anything.
    never: &'static [&'static str],
    /// Nothing of [`IMPURE`] either.
    pure: bool,
}

/// No I/O, no clock, no logger, no chance, no Kubernetes types.
const IMPURE: &[&str] = &[
    "tokio",
    "tokio-*",
    "async-*",
    "futures*",
    "kube",
    "kube-*",
    "k8s-openapi",
    "tracing",
    "tracing-*",
    "rand",
    "rand_*",
    "fastrand",
    "getrandom",
    "reqwest",
    "hyper",
    "hyper-*",
    "axum",
    "axum-*",
    "aws-*",
    "socket2",
    "mio",
];
const CLOUD: &[&str] = &["aws-*"];
const CLUSTER: &[&str] = &["kube-client", "kube-runtime"];

const fn pure(name: &'static str, uses: &'static [&'static str]) -> Rule {
    Rule { name, uses, never: &[], pure: true }
}

const fn rule(name: &'static str, uses: &'static [&'static str], never: &'static [&'static str]) -> Rule {
    Rule { name, uses, never, pure: false }
}

/// Also lists crates that do not exist yet, so that they start inside their boundary.
const RULES: &[Rule] = &[
    // the shared words; builds in seconds
    pure("model", &[]),
    // tested by calling `apply`, no watch needed
    pure("state", &["model"]),
    // hot, benchmarked, used by disruption, cli and sim
    pure("solver", &["model"]),
    // a state machine that can be tested as a table
    pure("lifecycle", &["model"]),
    // asks "what if" of the solver
    pure("disruption", &["model", "solver"]),
    // sole owner of the YAML form; slow to compile
    rule("api", &["model"], CLUSTER),
    // schemas of any custom resource, offline and in the embedded API server
    rule("schema", &[], &["kube-client", "kube-runtime", "k8s-openapi", "tokio"]),
    // the seam that sim and the providers fill
    rule("platform", &["model"], &["api", "aws-*", "kube", "kube-*", "k8s-openapi"]),
    // one provider among others
    rule("kwok", &["platform", "api", "model"], &["controllers", "solver", "state", "lifecycle", "disruption", "aws"]),
    // one provider among others; all of it is tested without the SDK
    rule(
        "aws",
        &["platform", "api", "model"],
        &["controllers", "solver", "state", "lifecycle", "disruption", "kwok", "aws-*"],
    ),
    // the SDK, which takes minutes and gigabytes to build
    rule("aws-sdk", &["aws"], &["controllers", "solver", "state", "lifecycle", "disruption", "kwok", "kube-client"]),
    // the shell
    rule(
        "controllers",
        &["model", "state", "solver", "lifecycle", "disruption", "api", "platform"],
        &["kwok", "aws", "aws-controllers", "apiserver", "sim", "aws-*"],
    ),
    // the shells that AWS adds; neither the provider nor the core may know them
    rule(
        "aws-controllers",
        &["model", "api", "platform", "aws", "controllers"],
        &["kwok", "apiserver", "sim", "testkit"],
    ),
    // the legacy objects; apart, so that nothing else knows them
    rule(
        "legacy",
        &["model", "api", "platform", "controllers"],
        &["aws", "aws-controllers", "aws-sdk", "kwok", "apiserver", "sim", "testkit"],
    ),
    // serves its own view types, so it cannot leak internals
    rule("dashboard", &["model"], &["controllers", "aws", "kube-client", "kube-runtime", "aws-*"]),
    // checked against a real kube-apiserver on its own
    rule("apiserver", &["schema"], CLUSTER),
    // runs the production controllers
    rule("sim", &["model", "api", "controllers", "platform", "apiserver", "testkit"], &["aws", "aws-*"]),
    // one set of builders for all tests
    rule("testkit", &["api", "model"], &["controllers", "aws", "aws-*"]),
    // the one place that sees all
    rule(
        "operator",
        &[
            "model",
            "api",
            "platform",
            "controllers",
            "kwok",
            "aws",
            "aws-controllers",
            "aws-sdk",
            "legacy",
            "dashboard",
        ],
        &["sim", "apiserver", "testkit"],
    ),
    // what-if for users; a first try must not build the cloud SDK
    rule(
        "cli",
        &["model", "api", "schema", "state", "solver", "disruption", "sim", "dashboard", "testkit"],
        &["aws", "aws-*"],
    ),
    // never shipped: scenarios for tests and times of the planners
    rule("bench", &["model", "solver", "disruption", "api"], &["aws-*", "kube-client", "kube-runtime", "tokio"]),
    // never shipped: whatever it documents
    rule("xtask", &["model", "api", "schema", "controllers", "operator", "aws"], CLOUD),
];

pub(super) fn problems(graph: &Graph) -> Vec<String> {
    graph.ours().flat_map(|(index, package)| problems_of(graph, index, package)).collect()
}

/// The names of the pure crates, for other checks.
pub(super) fn pure_crates() -> impl Iterator<Item = &'static str> {
    RULES.iter().filter(|r| r.pure).map(|r| r.name)
}

fn problems_of(graph: &Graph, index: usize, package: &Package) -> Vec<String> {
    let name = &package.name;
    let Some(rule) = RULES.iter().find(|r| r.name == name) else {
        return vec![format!("edges: {name} has no rule; say in xtask/src/tidy/edges.rs what it may use")];
    };
    let mut problems = Vec::new();
    for used in package.uses.iter().map(|&i| &graph.packages[i]).filter(|p| p.is_ours()) {
        if !rule.uses.contains(&used.name.as_str()) {
            problems.push(format!("edges: {name} may not use {}; it may use [{}]", used.name, rule.uses.join(", ")));
        }
    }
    let purity = if rule.pure { IMPURE } else { &[] };
    for (reached, way) in graph.reached_from(index) {
        let reached = &graph.packages[reached].name;
        if rule.never.iter().chain(purity).any(|pattern| matches(pattern, reached)) {
            problems.push(format!("edges: {name} must never reach {reached}: {way}"));
        }
    }
    problems
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sketch: &str) -> Vec<String> {
        problems(&Graph::sketch(sketch))
    }

    #[test]
    fn what_the_table_allows_is_fine() {
        let sketch = "model: serde, jiff\nsolver: model\napi: model, kube-core\ncontrollers: solver, api, kube\noperator: controllers, tokio";
        assert_eq!(found(sketch), Vec::<String>::new());
    }

    #[test]
    fn forbidden_edges_are_found() {
        for (name, sketch, want) in [
            (
                "a crate of ours",
                "model:\nstate: solver\nsolver: model",
                "edges: state may not use solver; it may use [model]",
            ),
            ("pure and direct", "model: tokio", "edges: model must never reach tokio: model -> tokio"),
            (
                "pure and far",
                "model: a\na: b\nb: kube-client",
                "edges: model must never reach kube-client: model -> a -> b -> kube-client",
            ),
            (
                "through ours",
                "solver: model\nmodel: rand",
                "edges: solver must never reach rand: solver -> model -> rand",
            ),
            (
                "a pattern",
                "lifecycle: aws-sdk-ec2",
                "edges: lifecycle must never reach aws-sdk-ec2: lifecycle -> aws-sdk-ec2",
            ),
            (
                "api and the client",
                "api: kube\nkube: kube-client",
                "edges: api must never reach kube-client: api -> kube -> kube-client",
            ),
            (
                "platform and api",
                "platform: a\na: api\napi:",
                "edges: platform must never reach api: platform -> a -> api",
            ),
            (
                "cli and the cloud",
                "cli: sim\nsim: x\nx: aws-config",
                "edges: cli must never reach aws-config: cli -> sim -> x -> aws-config",
            ),
            (
                "cli and the cloud, by way of ours",
                "cli: sim\nsim: aws\naws: aws-sdk\naws-sdk:",
                "edges: cli must never reach aws-sdk: cli -> sim -> aws -> aws-sdk",
            ),
            (
                "the provider and the SDK",
                "aws: x\nx: aws-sdk-ec2",
                "edges: aws must never reach aws-sdk-ec2: aws -> x -> aws-sdk-ec2",
            ),
            ("controllers and the SDK", "controllers: aws-sdk\naws-sdk:", "edges: controllers may not use aws-sdk"),
            ("testkit in a product", "controllers: testkit\ntestkit:", "edges: controllers may not use testkit"),
            ("schema is a leaf", "schema: api\napi:", "edges: schema may not use api; it may use []"),
            ("an unknown crate", "novelty:", "edges: novelty has no rule"),
        ] {
            let found = found(sketch);
            assert!(found.iter().any(|p| p.starts_with(want)), "{name}: {found:#?}");
        }
    }

    #[test]
    fn dev_dependencies_are_free() {
        assert_eq!(
            found("solver: model, [testkit], [tokio]\nmodel:\ntestkit: api, tokio\napi: model"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn this_workspace_keeps_its_rules() {
        assert_eq!(problems(&Graph::of_workspace().unwrap()), Vec::<String>::new());
    }
}
