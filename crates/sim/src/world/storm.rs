//! Things that go wrong on purpose, drawn from the seed.

use std::sync::PoisonError;
use std::time::Duration;

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
    /// The autoscaler is killed and started again.
    pub crashes: bool,
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
        }
    }
}

/// Kinds that the autoscaler reads and writes; what goes wrong there is what it has to bear.
const KINDS: [&str; 4] = ["Pod", "Node", "NodeClaim", "NodePool"];
/// How long an outage of a kubelet lasts: some are noticed, some are not.
const OUTAGE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(4));

impl World {
    /// Lets things go wrong for a while, with the checks on. Everything is as it was afterwards, but for what was broken.
    pub async fn storm(&self, storm: Storm) {
        let mut chance = Chance::about(self.seed(), &["storm", &self.clock.now().to_string()]);
        self.journal.write(self.clock.now(), "world", "a storm begins");
        self.cloud.trouble(storm.cloud);
        let mut left = storm.lasts;
        let mut outages: Vec<(Duration, String)> = Vec::new();
        while !left.is_zero() {
            let pause = chance.between(storm.every / 2, storm.every * 3 / 2).min(left);
            self.advance(pause).await;
            left -= pause;
            self.end_outages(&mut outages, left);
            let blows = [storm.api, storm.machines, storm.crashes];
            match chance.below(8) {
                0..=4 if blows[0] => self.trouble_api(&mut chance),
                5 | 6 if blows[1] => self.trouble_machine(&mut chance, &mut outages, left),
                7 if blows[2] => self.crash(&mut chance).await,
                _ => {}
            }
        }
        self.calm(&outages);
    }

    fn end_outages(&self, outages: &mut Vec<(Duration, String)>, left: Duration) {
        outages.retain(|(until, id)| {
            let over = left <= *until;
            if over {
                self.fleet.change(id, |machine| machine.health = Health::Well);
            }
            !over
        });
    }

    fn calm(&self, outages: &[(Duration, String)]) {
        self.api.clear_faults();
        self.cloud.trouble(Trouble::default());
        for (_, id) in outages {
            self.fleet.change(id, |machine| machine.health = Health::Well);
        }
        if self.plan.autoscaler && self.autoscaler.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            self.start_autoscaler();
        }
        self.journal.write(self.clock.now(), "world", "the storm is over");
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

    fn trouble_machine(&self, chance: &mut Chance, outages: &mut Vec<(Duration, String)>, left: Duration) {
        let machines: Vec<_> = self.fleet.all().into_iter().filter(|machine| machine.on).collect();
        let Some(machine) = chance.pick(&machines) else { return };
        let id = machine.provider_id.clone();
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner).excuse(self.clock.now());
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
        outages.push((left.saturating_sub(chance.between(OUTAGE.0, OUTAGE.1)), id.clone()));
        self.journal.write(self.clock.now(), "storm", &format!("{id} {what}"));
    }

    /// The autoscaler dies and comes back after a moment.
    async fn crash(&self, chance: &mut Chance) {
        if !self.plan.autoscaler {
            return;
        }
        self.stop_autoscaler();
        tokio::time::sleep(chance.between(Duration::from_millis(100), Duration::from_secs(20))).await;
        self.start_autoscaler();
    }
}
