//! One suite for the embedded API and for a real kube-apiserver: where the two differ, the embedded one is wrong.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "the settings for tests do not reach helper functions of test binaries"
)]

mod backend;
mod objects;
mod watching;
mod wire;

mod admission;
mod apply;
mod clients;
mod commands;
mod create;
mod custom;
mod definitions;
mod delete;
mod discovery;
mod faults;
mod fuzz;
mod list;
mod owners;
mod patch;
mod requests;
mod roles;
mod selectors;
mod strategic;
mod subresources;
mod tables;
mod update;
mod watch;

/// The table in `docs/embedded-api.md` names tests that exist.
#[test]
fn the_documentation_names_tests_that_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("../../docs/embedded-api.md")).unwrap();
    let names: Vec<(&str, &str)> = text.split('`').filter_map(|word| word.split_once("::")).collect();
    let names = names.into_iter().filter(|(module, name)| {
        let is_word = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        is_word(module) && is_word(name)
    });
    let mut found = 0;
    for (module, name) in names {
        let source = std::fs::read_to_string(root.join(format!("tests/it/{module}.rs"))).unwrap_or_default();
        assert!(source.contains(&format!("fn {name}")), "{module}::{name} is no test");
        found += 1;
    }
    assert!(found > 80, "only {found} names were read");
}
