//! The packages of the workspace and everything below them, as `cargo metadata` resolves it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand};

/// Package names of ours start with this; rules speak of folders, which are without it.
const PREFIX: &str = "karpenter-";

#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) packages: Vec<Package>,
}

#[derive(Debug, Default)]
pub(super) struct Package {
    /// The folder for ours (`model`), the crate's name for others.
    pub(super) name: String,
    pub(super) version: String,
    pub(super) licence: Option<String>,
    /// Only for ours.
    pub(super) folder: Option<PathBuf>,
    /// What is linked in: indices into the graph's packages.
    pub(super) uses: BTreeSet<usize>,
    /// What only tests use.
    pub(super) tests_use: BTreeSet<usize>,
}

impl Package {
    pub(super) fn is_ours(&self) -> bool {
        self.folder.is_some()
    }
}

impl Graph {
    pub(super) fn of_workspace() -> Result<Self> {
        // All features: an optional edge is an edge. The lock file decides the versions, as it does for builds.
        let mut command = MetadataCommand::new();
        command.features(CargoOpt::AllFeatures).other_options(vec!["--locked".into()]);
        Self::new(&command.exec().context("cannot read cargo metadata")?)
    }

    pub(super) fn new(metadata: &Metadata) -> Result<Self> {
        let resolve = metadata.resolve.as_ref().context("cargo metadata resolved nothing")?;
        let index: BTreeMap<_, _> = metadata.packages.iter().enumerate().map(|(i, p)| (&p.id, i)).collect();
        let mut packages: Vec<Package> = metadata
            .packages
            .iter()
            .map(|p| {
                let ours = metadata.workspace_members.contains(&p.id);
                let folder = p.manifest_path.parent().filter(|_| ours).map(|f| f.as_std_path().to_owned());
                let name = p.name.as_str();
                let name = if ours { name.strip_prefix(PREFIX).unwrap_or(name) } else { name };
                let (name, version, licence) = (name.to_owned(), p.version.to_string(), p.license.clone());
                Package { name, version, licence, folder, ..Package::default() }
            })
            .collect();
        for node in &resolve.nodes {
            let from = &mut packages[index[&node.id]];
            for dep in &node.deps {
                let to = index[&dep.pkg];
                for kind in &dep.dep_kinds {
                    match kind.kind {
                        DependencyKind::Development => from.tests_use.insert(to),
                        // Build scripts are not linked in, but whoever compiles us runs them.
                        _ => from.uses.insert(to),
                    };
                }
            }
        }
        Ok(Self { packages })
    }

    pub(super) fn ours(&self) -> impl Iterator<Item = (usize, &Package)> {
        self.packages.iter().enumerate().filter(|(_, p)| p.is_ours())
    }

    /// Everything that `from` links in, each with the shortest way there by names, `from` included.
    pub(super) fn reached_from(&self, from: usize) -> BTreeMap<usize, String> {
        let mut ways = BTreeMap::from([(from, self.packages[from].name.clone())]);
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for &next in &self.packages[at].uses {
                if !ways.contains_key(&next) {
                    ways.insert(next, format!("{} -> {}", ways[&at], self.packages[next].name));
                    queue.push_back(next);
                }
            }
        }
        ways.remove(&from);
        ways
    }

    /// A graph from lines such as `solver: model, [testkit]`, with test edges in brackets. Names that no line starts
    /// with are not ours.
    #[cfg(test)]
    pub(super) fn sketch(text: &str) -> Self {
        let mut graph = Self::default();
        let mut index_of = BTreeMap::new();
        let mut index = |graph: &mut Self, name: &str| {
            *index_of.entry(name.to_owned()).or_insert_with(|| {
                let licence = Some("MIT".to_owned());
                graph.packages.push(Package { name: name.to_owned(), licence, ..Package::default() });
                graph.packages.len() - 1
            })
        };
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let (from, to) = line.split_once(':').unwrap();
            let from = index(&mut graph, from);
            graph.packages[from].folder = Some(PathBuf::from("crates").join(&graph.packages[from].name));
            for name in to.split(',').map(str::trim).filter(|n| !n.is_empty()) {
                let plain = name.trim_matches(['[', ']']);
                let to = index(&mut graph, plain);
                let package = &mut graph.packages[from];
                if plain == name {
                    package.uses.insert(to)
                } else {
                    package.tests_use.insert(to)
                };
            }
        }
        graph
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_transitive_and_skip_what_only_tests_use() {
        let graph = Graph::sketch("a: b\nb: c, [d]");
        let ways: Vec<String> = graph.reached_from(0).into_values().collect();
        assert_eq!(ways, ["a -> b", "a -> b -> c"]);
    }

    #[test]
    fn the_workspace_is_read_with_its_edges() {
        let graph = Graph::of_workspace().unwrap();
        let (model, _) = graph.ours().find(|(_, p)| p.name == "model").unwrap();
        let (_, api) = graph.ours().find(|(_, p)| p.name == "api").unwrap();
        assert!(api.uses.contains(&model));
        assert!(graph.packages.iter().any(|p| p.name == "serde" && !p.is_ours()));
    }
}
