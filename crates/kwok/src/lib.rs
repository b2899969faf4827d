//! The CloudProvider that registers fake nodes on a real cluster.
