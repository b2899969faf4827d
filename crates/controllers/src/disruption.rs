//! Decides which nodes go, and carries it out: one loop that looks and decides, and commands that go their way by themselves.
//!
//! A pass takes one look at the cluster (`looking`) and tries the methods on it in order. What drift decides starts at once
//! (`starting`); what emptiness and consolidation decide waits for a second look first, and meanwhile others are decided
//! on. A command that has started is on the claims that it concerns (`record`), is driven by its own queue (`driving`), and is
//! carried on or taken back by whoever leads next (`undoing`).

mod driving;
pub(crate) mod looking;
mod marking;
mod rebooting;
pub(crate) mod record;
mod setbacks;
pub(crate) mod slots;
mod starting;
mod telling;
mod undoing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karpenter_disruption::command::Decision;
use karpenter_disruption::flux::{is_worth_waiting, next_to_be_free};
use karpenter_disruption::look::Look;
use karpenter_disruption::methods::validation::validate;
use karpenter_disruption::methods::{
    Command, Consolidation, Decided, Method, Seen, drifted_but, empty, sick, static_drift,
};
use karpenter_disruption::roll::Roll;
use karpenter_disruption::simulation::Simulator;
use karpenter_model::budget::DisruptionReason;
use karpenter_state::Unsynced;
use tokio::time::Instant;
use tracing::Instrument as _;

pub use self::driving::drive;
pub(crate) use self::driving::{Commands, Underway};
use self::looking::{Stage, World};
pub(crate) use self::setbacks::Setbacks;
pub(crate) use self::slots::Slots;
pub(crate) use self::telling::reason_label;
use crate::apart::aside;
use crate::context::Context;

/// How often somebody looks although nothing happened.
pub(crate) const IDLE: Duration = Duration::from_secs(10);
const UNSYNCED_RETRY: Duration = Duration::from_secs(1);
/// A command of emptiness or consolidation is looked at again after this long, before it starts (DIS-141).
const SECOND_LOOK: Duration = Duration::from_secs(15);
/// Without any change the search is made again after this long: prices and offers change without telling (DIS-101).
const FORCED: Duration = Duration::from_mins(5);
/// Consolidation waits so long for many nodes that are about to become quiet, or free of pods that they are kept for, and looks so
/// often whether they are. The second look of a command and what its pods are kept a place for are within it.
const FLUX_PATIENCE: Duration = Duration::from_secs(45);
const FLUX_LOOK: Duration = Duration::from_secs(2);
/// For so long everybody has to be there before nodes are no longer kept for pods that were expected: who deletes a pod may take a moment to
/// make another.
const ARRIVED: Duration = Duration::from_secs(3);
/// Nobody looks again sooner than this, than so long for each node, and than so many times as long as a look takes: of a large cluster
/// in which there is always a node that becomes quiet or free, looks take a twentieth of a processor at most.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
const PAUSE_PER_NODE: Duration = Duration::from_millis(4);
const REST_FOR_WORK: u32 = 20;
const MULTI_LIMIT: Duration = Duration::from_mins(1);
const SINGLE_LIMIT: Duration = Duration::from_mins(3);
/// In the order in which they are tried (DIS-3, V15-25).
const METHODS: [Method; 6] =
    [Method::Repair, Method::Emptiness, Method::StaticDrift, Method::Drift, Method::Multi, Method::Single];

/// A method that nobody has come to for so long is starved by those before it, which an operator should know (DIS-2).
const STARVED: Duration = Duration::from_mins(15);

/// What the loop remembers from pass to pass. All of it can be lost.
#[derive(Debug, Default)]
struct Mind {
    /// At which state of the world a method found nothing, and when.
    settled: BTreeMap<Method, (karpenter_state::World, Instant)>,
    seen: Seen,
    /// Commands that wait for their second look. Meanwhile others are decided on (X1).
    waiting: Vec<(Instant, Command)>,
    /// When each method was last come to, and when that was last complained about.
    turns: BTreeMap<Method, (Instant, Instant)>,
    /// Pools whose budgets could not be read at the last look.
    unreadable: BTreeSet<String>,
    /// Since when many nodes are about to become quiet.
    in_flux: Option<Instant>,
    /// Since when nobody is on the way to a node.
    all_there: Option<Instant>,
    /// When the next node may go that is kept for a pod.
    next_free: Option<Instant>,
    /// How long the last look took, and at how many nodes.
    work: Duration,
    nodes: u32,
    /// What earlier passes have found out about nodes.
    roll: Roll,
}

impl Mind {
    fn is_settled(&self, method: Method, world: karpenter_state::World) -> bool {
        self.settled.get(&method).is_some_and(|(at, since)| *at == world && since.elapsed() < FORCED)
    }

    /// The method has its turn, whether or not there is anything new to look at.
    fn take_turn(&mut self, method: Method) {
        let now = Instant::now();
        self.turns.insert(method, (now, now));
    }

    /// Methods that have waited for their turn for long, and how long; each is named once in a while.
    fn starved(&mut self) -> Vec<(Method, Duration)> {
        let mut starved = Vec::new();
        for (method, (turn, told)) in &mut self.turns {
            if told.elapsed() > STARVED {
                starved.push((*method, turn.elapsed()));
                *told = Instant::now();
            }
        }
        starved
    }

    /// Whether to wait for nodes that are about to become quiet. Where this goes on and on, nobody waits any longer.
    fn waits(&mut self, in_flux: bool) -> bool {
        if !in_flux {
            self.in_flux = None;
            return false;
        }
        self.in_flux.get_or_insert_with(Instant::now).elapsed() < FLUX_PATIENCE
    }

    /// Whether nobody has been on the way to a node for long enough.
    fn has_seen_all_arrive(&mut self, there: bool) -> bool {
        self.all_there = there.then(|| self.all_there.unwrap_or_else(Instant::now));
        self.all_there.is_some_and(|since| since.elapsed() >= ARRIVED)
    }

    /// When to look again although nothing was done.
    fn next(&self) -> Instant {
        let waits = self.in_flux.is_some_and(|since| since.elapsed() < FLUX_PATIENCE);
        let now = Instant::now();
        let work = PAUSE_PER_NODE.saturating_mul(self.nodes).max(self.work.saturating_mul(REST_FOR_WORK));
        let least = LEAST_PAUSE.max(work).min(IDLE);
        let idle = now + if waits { FLUX_LOOK.max(least) } else { IDLE };
        let idle = self.next_free.map_or(idle, |free| idle.min(free.max(now + least)));
        self.waiting.iter().map(|(due, _)| *due).min().map_or(idle, |due| due.min(idle))
    }
}

/// Looks and decides until the future is dropped.
pub async fn run(ctx: Arc<Context>) {
    let mut mind = Mind::default();
    let mut recovered = false;
    loop {
        // A claim that is not launched yet holds up nobody but its own pods (X2).
        let unlisted = matches!(ctx.state().unsynced(), Some(Unsynced::NotListed(_)));
        if unlisted {
            tokio::time::sleep(UNSYNCED_RETRY).await;
            continue;
        }
        if !recovered {
            undoing::recover(&ctx).await;
            recovered = true;
        }
        let span = tracing::info_span!("pass", controller = "disruption");
        let started = Instant::now();
        let done = pass(&ctx, &mut mind).instrument(span).await;
        mind.work = started.elapsed();
        if !done {
            tokio::time::sleep_until(mind.next()).await;
        }
    }
}

/// Whether anything was done, so that the next pass should see what has become of it.
async fn pass(ctx: &Arc<Context>, mind: &mut Mind) -> bool {
    for (method, long) in mind.starved() {
        ctx.report.disruption_starved(method, long);
    }
    let mut world = World::look(ctx, mind.waiting.iter().map(|(_, command)| command)).await;
    if undoing::tidy(ctx, &world).await {
        return true;
    }
    // The specified search knows no such thing (SCH-24).
    let specified = world.as_look(ctx, Stage::Checking).gates.specified_search;
    if mind.has_seen_all_arrive(world.is_everybody_there() && !specified) {
        world.release_nodes();
    }
    let roll = std::mem::take(&mut mind.roll);
    aside(|| world.remember(roll));
    let done = try_methods(ctx, mind, &world).await;
    mind.nodes = u32::try_from(world.nodes().len()).unwrap_or(u32::MAX);
    mind.roll = world.into_memory();
    done
}

/// The methods in order, on one look at the cluster.
async fn try_methods(ctx: &Arc<Context>, mind: &mut Mind, world: &World) -> bool {
    tell_budgets(ctx, &world.as_look(ctx, Stage::Checking));
    tell_unreadable(ctx, mind, world);
    telling::protections(ctx, world);
    if let Some(command) = aside(|| second_looks(ctx, mind, world)) {
        return starting::start(ctx, world, command).await;
    }
    let waits = mind.waits(is_in_flux(ctx, world));
    mind.next_free = next_free(ctx, world).map(|free| match mind.all_there {
        Some(since) => free.min(since + ARRIVED),
        None => free,
    });
    for method in METHODS {
        let off = match method {
            Method::Repair => ctx.repair.is_none(),
            Method::Emptiness => !world.knows_who_is_expected,
            Method::Multi | Method::Single => waits,
            Method::StaticDrift | Method::Drift => false,
        };
        if off {
            continue;
        }
        mind.take_turn(method);
        if mind.is_settled(method, world.stamp) {
            continue;
        }
        let started = Instant::now();
        let span = tracing::debug_span!("decide", method = ?method, nodes = world.nodes().len());
        let decided = span.in_scope(|| aside(|| decide(ctx, mind, world, method)));
        ctx.report.disruption_evaluated(method, started.elapsed(), &decided);
        telling::notes(ctx, &decided.notes);
        if decided.settled && !world.expects_pods(ctx.clock.now()) {
            mind.settled.insert(method, (world.stamp, Instant::now()));
        }
        if !decided.commands.is_empty() {
            return begin(ctx, mind, world, decided.commands).await;
        }
    }
    false
}

/// The specified search knows no such thing.
fn is_in_flux(ctx: &Context, world: &World) -> bool {
    let look = world.as_look(ctx, Stage::Deciding);
    !look.gates.specified_search && is_worth_waiting(&look)
}

/// The specified search looks every ten seconds (DIS-2).
fn next_free(ctx: &Context, world: &World) -> Option<Instant> {
    let look = world.as_look(ctx, Stage::Checking);
    let free = next_to_be_free(&look).filter(|_| !look.gates.specified_search)?;
    let wait = Duration::try_from(free.duration_since(look.facts.now)).unwrap_or_default();
    Some(Instant::now() + wait)
}

/// Whether anything came of it.
async fn begin(ctx: &Arc<Context>, mind: &mut Mind, world: &World, commands: Vec<Command>) -> bool {
    let mut begun = false;
    for command in commands {
        if command.method.needs_second_look() {
            mind.waiting.push((Instant::now() + SECOND_LOOK, command));
            begun = true;
        } else if command.decision == Decision::Reboot {
            begun |= rebooting::commit(ctx, world, &command).await;
        } else {
            begun |= starting::start(ctx, world, command).await;
        }
    }
    begun
}

fn decide(ctx: &Context, mind: &mut Mind, world: &World, method: Method) -> Decided {
    let look = world.as_look(ctx, Stage::Deciding);
    let started = Instant::now();
    match method {
        Method::Repair => simulating(ctx, &look, |simulator| sick(&look, simulator, &world.sick(ctx))),
        Method::Emptiness => empty(&look),
        Method::StaticDrift => static_drift(&look, &world.static_pools),
        Method::Drift => {
            let resting = ctx.memory.setbacks().resting(ctx.clock.now());
            simulating(ctx, &look, |simulator| drifted_but(&look, simulator, &resting))
        }
        Method::Multi | Method::Single => {
            let to_be_had = world.without_refused(look.snapshot);
            let look = Look { snapshot: to_be_had.as_ref().unwrap_or(look.snapshot), ..look };
            simulating(ctx, &look, |simulator| {
                let search = Consolidation::new(&look, simulator, method);
                if method == Method::Multi {
                    search.multi(&mut || started.elapsed() > MULTI_LIMIT)
                } else {
                    search.single(&mut mind.seen, &mut || started.elapsed() > SINGLE_LIMIT)
                }
            })
        }
    }
}

/// What is asked of one look is one simulation for whoever watches how long these take: the cluster is read once, and thousands
/// of questions may follow (API-196).
fn simulating<'a, T>(ctx: &Context, look: &Look<'a>, ask: impl FnOnce(&mut Simulator<'a>) -> T) -> T {
    let started = Instant::now();
    let mut simulator = Simulator::new(look.snapshot, &look.facts, look.planned, look.rules, look.options);
    let answer = ask(&mut simulator);
    if simulator.was_asked() {
        ctx.report.simulated(started.elapsed());
    }
    answer
}

/// Commands whose time has come are looked at once more, with the cluster as it is now. The first that stands is to start; those
/// after it have to see what it changed.
fn second_looks(ctx: &Context, mind: &mut Mind, world: &World) -> Option<Command> {
    let now = Instant::now();
    while let Some(at) = mind.waiting.iter().position(|(due, _)| *due <= now) {
        let (_, command) = mind.waiting.remove(at);
        let look = world.as_look(ctx, Stage::Checking);
        let to_be_had = world.without_refused(look.snapshot);
        let look = Look { snapshot: to_be_had.as_ref().unwrap_or(look.snapshot), ..look };
        let checked = simulating(ctx, &look, |simulator| validate(&command, &look, simulator));
        telling::checked(ctx, &command, &checked);
        if let Ok(command) = checked.outcome {
            return Some(command);
        }
    }
    None
}

/// A pool whose budgets cannot be read is closed; said once, until they can (DIS-2, DIS-56).
fn tell_unreadable(ctx: &Context, mind: &mut Mind, world: &World) {
    let unreadable = world.unreadable_budgets();
    for pool in unreadable.iter().filter(|pool| !mind.unreadable.contains(**pool)) {
        ctx.report.budgets_unreadable(pool);
    }
    mind.unreadable = unreadable.into_iter().map(ToOwned::to_owned).collect();
}

/// What budgets allow, for every pool and reason (DIS-62).
fn tell_budgets(ctx: &Context, look: &Look<'_>) {
    ctx.report.forget_budgets();
    for reason in DisruptionReason::ALL {
        for (pool, allowance) in look.allowances(reason, &mut Vec::new()) {
            ctx.report.budget(&pool, &reason_label(reason), allowance.allowed, allowance.consuming);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DIS-2: a method that others keep from its turn is named after a quarter of an hour, and again after each further one.
    #[tokio::test(start_paused = true)]
    async fn starved_methods_are_named_once_in_a_while() {
        let mut mind = Mind::default();
        mind.take_turn(Method::Drift);
        mind.take_turn(Method::Multi);
        for (after, want) in [(15, None), (1, Some(16)), (1, None), (15, Some(32))] {
            tokio::time::advance(Duration::from_mins(after)).await;
            mind.take_turn(Method::Drift);
            let starved: Vec<_> = mind.starved();
            let want: Vec<_> = want.map(|long| (Method::Multi, Duration::from_mins(long))).into_iter().collect();
            assert_eq!(starved, want, "{after}");
        }
    }

    /// DIS-2: ten seconds when nothing is to be expected, less when a node will be free before, but never all the time.
    #[tokio::test(start_paused = true)]
    async fn looks_come_when_a_node_is_free() {
        let now = Instant::now();
        let mut mind = Mind::default();
        for (free, work, nodes, want) in [
            (None, 0, 0, 10_000),
            (Some(3000), 0, 0, 3000),
            (Some(30), 0, 250, 1000),
            (Some(30), 0, 1000, 4000),
            (Some(30), 0, 10_000, 10_000),
            (Some(3000), 250, 0, 5000),
            (Some(30_000), 9000, 0, 10_000),
        ] {
            mind.next_free = free.map(|free| now + Duration::from_millis(free));
            (mind.work, mind.nodes) = (Duration::from_millis(work), nodes);
            assert_eq!(mind.next() - now, Duration::from_millis(want), "{free:?} {work} {nodes}");
        }
        (mind.next_free, mind.in_flux, mind.work) = (None, Some(now), Duration::ZERO);
        for (nodes, want) in [(0, 2000), (1000, 4000)] {
            mind.nodes = nodes;
            assert_eq!(mind.next() - now, Duration::from_millis(want), "in flux, {nodes}");
        }
    }

    /// DIS-15: one moment without anybody on the way is not enough.
    #[tokio::test(start_paused = true)]
    async fn all_have_arrived_after_a_while() {
        let mut mind = Mind::default();
        let mut seen = Vec::new();
        for (seconds, there) in
            [(0, true), (2, true), (1, true), (9, true), (1, false), (9, true), (2, true), (1, true)]
        {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            seen.push(mind.has_seen_all_arrive(there));
        }
        assert_eq!(seen, [false, false, true, true, false, false, false, true]);
    }

    /// Consolidation waits for nodes that are about to become quiet, but not for ever; and again when they have been.
    #[tokio::test(start_paused = true)]
    async fn patience_ends_and_comes_back() {
        let mut mind = Mind::default();
        let mut waited = Vec::new();
        for (seconds, in_flux) in
            [(0, true), (44, true), (1, true), (60, true), (1, false), (1, true), (44, true), (1, true)]
        {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            waited.push(mind.waits(in_flux));
        }
        assert_eq!(waited, [true, true, false, false, false, true, true, false]);
    }
}
