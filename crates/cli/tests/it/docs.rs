//! What the guide says is what happens.

use std::path::Path;

use super::karpenter;

/// Commands of `console` blocks with what they are said to print.
fn console(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            _ if !inside => {}
            _ => match (line.strip_prefix("$ "), found.last_mut()) {
                (Some(command), _) => found.push((command.to_owned(), String::new())),
                (None, Some((_, output))) => {
                    output.push_str(line);
                    output.push('\n');
                }
                (None, None) => {}
            },
        }
    }
    found
}

/// Without the amounts of the last lines: a better planner or bound is no mistake of the guide.
fn stable(text: &str) -> String {
    let line = |line: &str| {
        let amounts = line.starts_with('$') || line.starts_with("no plan for");
        let shown = line.chars().filter(|c| !amounts || !(c.is_ascii_digit() || *c == '.'));
        shown.chain(['\n']).collect::<String>()
    };
    text.lines().map(line).collect()
}

/// Guides, each with the folder that its commands run in.
const GUIDES: [(&str, &str); 2] = [("plan.md", "examples/plan"), ("overlays-and-buffers.md", "examples/overlays")];

#[test]
fn commands_of_the_guides_print_what_they_say() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (guide, folder) in GUIDES {
        let commands = console(&std::fs::read_to_string(docs.join(guide)).unwrap());
        assert!(commands.len() >= 3, "{guide} has lost its commands");
        for (command, said) in commands {
            let (command, lines) = command.split_once(" | tail -").unwrap_or((&command, "1000"));
            let args: Vec<&str> = command.strip_prefix("karpenter ").unwrap().split(' ').collect();
            let mut run = karpenter(&docs.join(folder), &args, b"");
            let all: Vec<&str> = run.out.lines().collect();
            run.out = all[all.len().saturating_sub(lines.parse().unwrap())..].join("\n");
            assert_eq!(stable(&run.out), stable(&said), "$ {command}\n{}", run.err);
            assert_eq!(run.err, "", "$ {command}");
        }
    }
}

/// SEED-0-30, SEED-4-10: what the guides for EKS and kOps apply is valid, with the rules that only the API server checks otherwise.
#[test]
fn manifests_of_the_guides_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = [
        "docs/examples/eks/nodepool.yaml",
        "docs/examples/eks/nodeclass.yaml",
        "deploy/kops/nodeclass.yaml",
        "deploy/kops/nodepool.yaml",
    ];
    let args: Vec<&str> = ["validate"].into_iter().chain(files.iter().flat_map(|file| ["-f", *file])).collect();
    let run = karpenter(&root, &args, b"");
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
}
