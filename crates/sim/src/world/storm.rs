//! Things that go wrong on purpose, drawn from the seed.

use std::time::Duration;

use jiff::SignedDuration;
use karpenter_apiserver::{Failure, Fault, Rule, Verb};

use super::World;
use crate::chance::Chance;
use crate::cloud::Trouble;
use crate::fleet::Health;

/// What a storm may do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Storm {
    /// How long it blows.
    pub lasts: Duration,
    /// About how long between two blows.
    pub every: Duration,
    pub cloud: Trouble,
    /// Requests are refused, delayed or lost, watches break or lag.
    pub api: bool,
    /// Kubelets fall silent or sick for a while, spot machines are taken back.
    pub machines: bool,
    /// The autoscaler is killed and started again; of two processes the leader is killed, ended, cut off or loses its lease.
    pub crashes: bool,
    /// The clock of a process of the autoscaler jumps.
    pub clocks: bool,
}

impl Default for Storm {
    fn default() -> Self {
        Self {
            lasts: Duration::from_mins(15),
            every: Duration::from_secs(20),
            cloud: Trouble { throttled: 0.1, failed: 0.1, answer_lost: 0.1, no_capacity: 0.05 },
            api: true,
            machines: true,
            crashes: true,
            clocks: true,
        }
    }
}

/// Kinds that the autoscaler reads and writes; what goes wrong there is what it has to bear.
const KINDS: [&str; 4] = ["Pod", "Node", "NodeClaim", "NodePool"];
/// How long an outage of a kubelet lasts: some are noticed, some are not.
const OUTAGE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(4));
/// How long a process of the autoscaler is cut off: some keep their lease.
const CUT: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(50));
/// How far a clock jumps, either way: further than a launch or a registration may take.
const JUMP_SECONDS: u64 = 20 * 60;

/// What is out of order until a certain time before the end of the storm.
#[derive(Debug)]
enum Broken {
    Machine(String),
    /// The line or the clock of a process, by index.
    Line(usize),
    Clock(usize),
}

type Outages = Vec<(Duration, Broken)>;

impl World {
    /// Lets things go wrong for a while, with the checks on. Everything is as it was afterwards, but for what was broken.
    pub async fn storm(&self, storm: Storm) {
        let mut chance = Chance::about(self.seed(), &["storm", &self.clock.now().to_string()]);
        self.journal.write(self.clock.now(), "world", "a storm begins");
        self.cloud.trouble(storm.cloud);
        let mut left = storm.lasts;
        let mut outages = Outages::new();
        while !left.is_zero() {
            let pause = chance.between(storm.every / 2, storm.every * 3 / 2).min(left);
            self.upset();
            self.advance(pause).await;
            left -= pause;
            self.end_outages(&mut outages, left);
            match chance.below(10) {
                0..=4 if storm.api => self.trouble_api(&mut chance),
                5 | 6 if storm.machines => self.trouble_machine(&mut chance, &mut outages, left),
                7 | 8 if storm.crashes => self.trouble_process(&mut chance, &mut outages, left).await,
                9 if storm.clocks => self.trouble_clock(&mut chance, &mut outages, left),
                _ => {}
            }
        }
        self.end_outages(&mut outages, Duration::ZERO);
        self.api.clear_faults();
        self.cloud.trouble(Trouble::default());
        self.upset();
        self.journal.write(self.clock.now(), "world", "the storm is over");
    }

    fn end_outages(&self, outages: &mut Outages, left: Duration) {
        outages.retain(|(until, broken)| {
            let over = left <= *until || left.is_zero();
            if over {
                self.mend(broken);
            }
            !over
        });
    }

    fn mend(&self, broken: &Broken) {
        match broken {
            Broken::Machine(id) => drop(self.fleet.change(id, |machine| machine.health = Health::Well)),
            Broken::Line(index) => self.connect(*index, true),
            Broken::Clock(index) => {
                if let Some((host, _)) = self.hosts.get(*index) {
                    host.clock.set_off(SignedDuration::ZERO);
                    self.journal.write(
                        self.clock.now(),
                        "storm",
                        &format!("the clock of {} is right again", host.name),
                    );
                }
            }
        }
    }

    /// A few requests of one kind meet one fault.
    fn trouble_api(&self, chance: &mut Chance) {
        let kind = *chance.pick(&KINDS).unwrap_or(&"Pod");
        let times = 1 + chance.below(4);
        let seconds = 1 + chance.below(20);
        let (fault, verb) = match chance.below(8) {
            0 => (Fault::Conflict, Verb::Patch),
            1 => (Fault::Throttled { retry_after_seconds: seconds }, Verb::Create),
            2 => (Fault::Latency(Duration::from_secs(seconds)), Verb::Patch),
            3 => (Fault::RequestLost, Verb::Create),
            4 => (Fault::AnswerLost, Verb::Patch),
            5 => (Fault::Error(Failure::new(500, "InternalError", "the server is not well")), Verb::Patch),
            6 => (Fault::DropWatch { after_events: usize::try_from(seconds).unwrap_or(1) }, Verb::Watch),
            _ => (Fault::StaleWatch { late: Duration::from_secs(seconds) }, Verb::Watch),
        };
        self.journal.write(self.clock.now(), "storm", &format!("{times} times {verb:?} {kind}: {fault:?}"));
        self.api.add_fault(Rule::new(fault).verb(verb).kind(kind).times(times));
    }

    fn trouble_machine(&self, chance: &mut Chance, outages: &mut Outages, left: Duration) {
        let machines: Vec<_> = self.fleet.all().into_iter().filter(|machine| machine.on).collect();
        let Some(machine) = chance.pick(&machines) else { return };
        let id = machine.provider_id.clone();
        self.excuse();
        let what = match chance.below(4) {
            0 => {
                self.cloud.interrupt(&id);
                "is taken back"
            }
            1 => {
                self.fleet.change(&id, |machine| machine.health = Health::NotReady("Storm".to_owned()));
                "is not well"
            }
            _ => {
                self.fleet.change(&id, |machine| machine.health = Health::Silent);
                "is silent"
            }
        };
        let until = left.saturating_sub(chance.between(OUTAGE.0, OUTAGE.1));
        outages.push((until, Broken::Machine(id.clone())));
        self.journal.write(self.clock.now(), "storm", &format!("{id} {what}"));
    }

    /// A process dies or ends and comes back after a moment, is cut off, or cannot renew its lease.
    async fn trouble_process(&self, chance: &mut Chance, outages: &mut Outages, left: Duration) {
        // The one that leads, more often than not: what happens to the other is hardly noticed.
        let leading = self.leading();
        let index = if self.hosts.len() > 1 && chance.happens(0.2) { 1 - leading } else { leading };
        let what = if self.hosts.len() > 1 { chance.below(4) } else { 0 };
        match what {
            0 => {
                self.kill_process(index);
                tokio::time::sleep(chance.between(Duration::from_millis(100), Duration::from_secs(20))).await;
                self.start_process(index);
            }
            1 => self.end_process(index),
            2 => {
                self.connect(index, false);
                outages.push((left.saturating_sub(chance.between(CUT.0, CUT.1)), Broken::Line(index)));
            }
            _ => {
                // Half of them are more than a lease outlives.
                let times = 1 + chance.below(10);
                let text = format!("the lease cannot be written, {times} times");
                self.journal.write(self.clock.now(), "storm", &text);
                let fault = Fault::Error(Failure::new(500, "InternalError", "the server is not well"));
                let lease = super::process::lease().name;
                self.api.add_fault(Rule::new(fault).verb(Verb::Update).kind("Lease").name(&lease).times(times));
            }
        }
    }

    fn trouble_clock(&self, chance: &mut Chance, outages: &mut Outages, left: Duration) {
        let index = usize::try_from(chance.below(2)).unwrap_or(0).min(self.hosts.len().saturating_sub(1));
        let Some((host, _)) = self.hosts.get(index) else { return };
        if !host.clock.is_right() {
            return;
        }
        let seconds =
            i64::try_from(chance.below(2 * JUMP_SECONDS)).unwrap_or(0) - i64::try_from(JUMP_SECONDS).unwrap_or(0);
        host.clock.set_off(SignedDuration::from_secs(seconds));
        self.journal.write(self.clock.now(), "storm", &format!("the clock of {} jumps by {seconds} s", host.name));
        outages.push((left.saturating_sub(chance.between(OUTAGE.0, OUTAGE.1)), Broken::Clock(index)));
    }
}
