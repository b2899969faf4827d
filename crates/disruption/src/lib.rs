//! The cluster and the time in; which nodes may go, should go, and why out.
//!
//! [`drift`] and [`consolidatable`] say what a claim's conditions should be. [`candidates`] says which
//! nodes may go at all and what keeps the others, [`roll`] remembers it from look to look. [`budgets`] counts how many nodes of a pool may
//! go for a reason, [`cost`] says what a node is worth and what emptying it costs its pods, [`balanced`] weighs the two.
//! A [`command`] is a set of nodes that go together, with what takes their place. [`repair`] weighs what is wrong with a node, [`reboot`]
//! says the next step of one that restarts, [`reserved`] whether capacity that goes could be had again, and [`deletion_cost`] which pods a ReplicaSet
//! should give up first. [`fixpoint`] carries consolidation out on paper until nothing is left to do, and [`holds`] says what holds the nodes that
//! stay.
//!
//! A pass is one [`look::Look`] at the cluster: the [`methods`] are tried on it in order, ask a [`simulation::Simulator`] what would become
//! of the pods, and answer with commands and with notes for those who want to know why a node stays ([`report`]). [`option`] is what
//! consolidation could do about a set of nodes, [`verdicts`] what about each node by itself; [`flux`] says when it is too early to ask.

pub mod backoff;
pub mod balanced;
pub mod budgets;
pub mod candidates;
pub mod command;
pub mod consolidatable;
pub mod cost;
pub mod deletion_cost;
pub mod drift;
pub mod fixpoint;
pub mod flux;
pub mod holds;
mod keeping;
pub mod look;
pub mod methods;
pub mod option;
pub mod reboot;
pub mod repair;
pub mod report;
pub mod reserved;
pub mod roll;
pub mod simulation;
pub mod verdicts;
pub mod worth;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod testing;
