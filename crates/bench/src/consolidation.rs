//! What looking at every node for consolidation takes, against a plain version that plans the whole cluster anew for
//! each of them.

use std::collections::BTreeSet;
use std::io::{Result, Write};
use std::time::Instant;

use karpenter_disruption::candidates::{Candidate, Class};
use karpenter_disruption::methods::{Consolidation, Method, Seen, empty};
use karpenter_disruption::verdicts::{self, Verdict};
use karpenter_model::pod::PodId;

use crate::scenarios::aged::{Aged, simulator};

/// Of so many nodes the plain version is asked, evenly spaced; the rest is extrapolated.
const SAMPLE: usize = 12;

/// What one size of the cluster took.
#[derive(Debug, Clone)]
pub struct Swept {
    pub nodes: usize,
    pub pods: usize,
    pub candidates: usize,
    /// Until every node has a verdict, from a snapshot that nothing is known about.
    pub all_ms: f64,
    /// The same of a snapshot that is compiled.
    pub again_ms: f64,
    /// One node, from scratch.
    pub plain_ms: f64,
    pub delete: usize,
    pub replace: usize,
    /// Of the sample.
    pub differ: usize,
}

impl Swept {
    /// How many times as long the plain version would take for all.
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub fn ratio(&self) -> f64 {
        self.plain_ms * self.candidates as f64 / self.all_ms
    }
}

/// How nodes that go together are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// The longest run of at most a hundred nodes, one command a round.
    Specified,
    ByValue,
}

/// Which methods take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Methods {
    /// Empty nodes, then several together.
    MultiNode,
    /// Then single nodes, too.
    All,
}

/// How the commands of one round are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// All of them start before a pod moves, so that none moves to a node that goes as well.
    Together,
    /// The pods of one have moved before the next starts.
    OneByOne,
}

/// A cluster consolidated until nothing is found any more.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fixpoint {
    pub rounds: usize,
    pub commands: usize,
    /// In the end.
    pub nodes: usize,
    pub moved: usize,
    /// Of those who had moved before.
    pub twice: usize,
    /// By commands that bring new nodes, and what these save.
    pub replaced: usize,
    pub replaced_saved: f64,
    pub before: f64,
    pub after: f64,
    /// The most that could have been saved.
    pub most: f64,
    /// The longest search.
    pub search_ms: f64,
    /// What the first round of commands saves.
    pub first: f64,
}

impl Fixpoint {
    pub fn saved(&self) -> f64 {
        self.before - self.after
    }

    /// Pods that moved for a dollar per hour.
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub fn moved_per_dollar(&self) -> f64 {
        self.moved as f64 / self.saved()
    }
}

/// No search takes as many rounds.
const MOST_ROUNDS: usize = 5000;

/// One round after the other, each on the cluster that the last one left.
pub fn to_fixpoint(mut aged: Aged, search: Search, methods: Methods, start: Start) -> Fixpoint {
    let before = aged.cost();
    let mut all_moved: BTreeSet<PodId> = BTreeSet::new();
    let mut all = Fixpoint { before, after: before, ..Fixpoint::default() };
    let mut seen = Seen::default();
    aged.gates.specified_search = search == Search::Specified;
    while all.rounds < MOST_ROUNDS {
        let commands = {
            let look = aged.look();
            let started = Began::now();
            let mut found = empty(&look).commands;
            if found.is_empty() {
                let mut known = simulator(&look);
                let multi = Consolidation::new(&look, &mut known, Method::Multi);
                found = match search {
                    Search::Specified => multi.multi(&mut || false).commands,
                    Search::ByValue => {
                        let searched = multi.by_value(&mut || false);
                        // Empty nodes may have gone first.
                        if all.most == 0.0 {
                            all.most = before - aged.cost() + searched.outlook.most;
                        }
                        searched.decided.commands
                    }
                };
                if found.is_empty() && methods == Methods::All {
                    let single = Consolidation::new(&look, &mut known, Method::Single);
                    found = single.single(&mut seen, &mut || false).commands;
                }
            }
            all.search_ms = all.search_ms.max(ms(started));
            found
        };
        if commands.is_empty() {
            break;
        }
        if all.rounds == 0 {
            all.first = commands.iter().map(|command| command.savings).sum();
        }
        all.rounds += 1;
        if start == Start::Together {
            aged.start(&commands);
        }
        for command in commands {
            all.commands += 1;
            let moved = aged.apply(&command, all.commands);
            all.moved += moved.len();
            if !command.replacements.is_empty() {
                all.replaced += moved.len();
                all.replaced_saved += command.savings;
            }
            all.twice += moved.into_iter().filter(|pod| !all_moved.insert(pod.clone())).count();
        }
    }
    all.after = aged.cost();
    all.nodes = aged.snapshot.nodes.len();
    all
}

/// Both ways on the same cluster (G10, G11).
pub fn compare(what: &str, aged: Aged, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{what}, {} nodes with {} pods:", aged.snapshot.nodes.len(), aged.pods())?;
    let specified = to_fixpoint(aged.clone(), Search::Specified, Methods::All, Start::Together);
    let apart = to_fixpoint(aged.clone(), Search::ByValue, Methods::All, Start::OneByOne);
    let ours = to_fixpoint(aged.clone(), Search::ByValue, Methods::All, Start::Together);
    for (name, one) in
        [("specified", &specified), ("by value", &ours), ("by value, one command after the other", &apart)]
    {
        describe(name, one, ours.most, out)?;
    }
    weigh("by value", &ours, "the specified search", &specified, out)?;
    weigh("by value, one command after the other", &apart, "the specified search", &specified, out)?;
    compare_multi_node(aged, out)
}

/// What the search for several nodes is worth by itself: no single node goes before or after it.
pub fn compare_multi_node(aged: Aged, out: &mut dyn Write) -> Result<()> {
    let prefix = to_fixpoint(aged.clone(), Search::Specified, Methods::MultiNode, Start::Together);
    let ours = to_fixpoint(aged, Search::ByValue, Methods::MultiNode, Start::Together);
    describe("the prefix search alone", &prefix, ours.most, out)?;
    describe("by value alone", &ours, ours.most, out)?;
    weigh("by value alone", &ours, "the prefix search alone", &prefix, out)
}

fn weigh(name: &str, one: &Fixpoint, other_name: &str, other: &Fixpoint, out: &mut dyn Write) -> Result<()> {
    writeln!(
        out,
        "  {name} saves {:.3} times as much as {other_name}, and moves {:.2} times the pods for a dollar",
        one.saved() / other.saved(),
        one.moved_per_dollar() / other.moved_per_dollar()
    )
}

fn describe(name: &str, one: &Fixpoint, most: f64, out: &mut dyn Write) -> Result<()> {
    writeln!(
        out,
        "  {name}: {} rounds, {} commands, {} nodes left, ${:.2} to ${:.2} per hour (at most ${most:.2} could be saved), {} pods \
         moved ({} twice; {} for new nodes, which saves ${:.2}), {:.2} per dollar; first round saves ${:.2}; longest search {:.0} ms",
        one.rounds,
        one.commands,
        one.nodes,
        one.before,
        one.after,
        one.moved,
        one.twice,
        one.replaced,
        one.replaced_saved,
        one.moved_per_dollar(),
        one.first,
        one.search_ms
    )
}

/// How long one search by value takes, and what it finds.
pub fn search_once(aged: &Aged, out: &mut dyn Write) -> Result<()> {
    let nodes = aged.snapshot.nodes.len();
    let look = aged.look();
    let started = Began::now();
    let mut known = simulator(&look);
    let searched = Consolidation::new(&look, &mut known, Method::Multi).by_value(&mut || false);
    let took = ms(started);
    let gone: usize = searched.decided.commands.iter().map(|command| command.going.len()).sum();
    writeln!(
        out,
        "{nodes} nodes: searched by value in {took:.0} ms: {} commands, {gone} nodes go, saves ${:.2} of ${:.2} per hour, at \
         most ${:.2} left",
        searched.decided.commands.len(),
        searched.outlook.found,
        aged.cost(),
        searched.outlook.left()
    )
}

/// Since when something is measured: on the processor where the system says how long this thread was there, since others
/// may be at work, otherwise by the clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Began {
    clock: Instant,
    processor: Option<f64>,
}

impl Began {
    pub(crate) fn now() -> Self {
        Self { clock: Instant::now(), processor: on_processor() }
    }
}

/// Milliseconds that this thread has run.
fn on_processor() -> Option<f64> {
    // The system adds up only when the thread gives way.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds / 1e6)
}

pub(crate) fn ms(since: Began) -> f64 {
    match (since.processor, on_processor()) {
        (Some(before), Some(now)) => now - before,
        _ => since.clock.elapsed().as_secs_f64() * 1e3,
    }
}

/// Looks at every node of an aged cluster.
#[expect(clippy::cast_precision_loss, reason = "a mean")]
pub fn sweep(nodes: usize) -> Swept {
    let aged = Aged::new(nodes, 60, 91);
    let look = aged.look();
    let started = Began::now();
    let candidates = look.candidates(Class::Graceful, &mut Vec::new());
    let all: Vec<&Candidate<'_>> = candidates.iter().collect();
    let mut known = simulator(&look);
    let found = verdicts::of_each(&all, &look, &mut known);
    let all_ms = ms(started);
    let started = Began::now();
    let again = verdicts::of_each(&all, &look, &mut known);
    let again_ms = ms(started);
    assert_eq!(found, again, "questions leave no trace");
    let mut differ = 0;
    let sampled: Vec<usize> = (0..SAMPLE).map(|turn| turn * all.len() / SAMPLE).collect();
    let started = Began::now();
    for at in &sampled {
        let mut plain = simulator(&look).uncompiled();
        differ += usize::from(verdicts::of(all[*at], &look, &mut plain) != found[*at]);
    }
    let plain_ms = ms(started) / sampled.len() as f64;
    Swept {
        nodes,
        pods: aged.pods(),
        candidates: all.len(),
        all_ms,
        again_ms,
        plain_ms,
        delete: found.iter().filter(|one| matches!(one, Verdict::Delete { .. })).count(),
        replace: found.iter().filter(|one| matches!(one, Verdict::Replace { .. })).count(),
        differ,
    }
}

pub fn write(rows: &[Swept], out: &mut dyn Write) -> Result<()> {
    for row in rows {
        writeln!(
            out,
            "{} nodes, {} pods: {} verdicts ({} delete, {} replace) in {:.1} ms, again {:.1} ms; plain {:.1} ms each, \
             {:.0} times as long for all; {} of {SAMPLE} differ",
            row.nodes,
            row.pods,
            row.candidates,
            row.delete,
            row.replace,
            row.all_ms,
            row.again_ms,
            row.plain_ms,
            row.ratio(),
            row.differ
        )?;
    }
    for (smaller, larger) in rows.iter().zip(rows.iter().skip(1)) {
        writeln!(
            out,
            "{} to {} nodes: {:.2} times as long, again {:.2}",
            smaller.nodes,
            larger.nodes,
            larger.all_ms / smaller.all_ms,
            larger.again_ms / smaller.again_ms
        )?;
    }
    Ok(())
}
