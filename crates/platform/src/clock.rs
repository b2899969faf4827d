//! The time, as an argument instead of a global.

use std::fmt::Debug;

use jiff::Timestamp;

pub trait Clock: Debug + Send + Sync {
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Wall time that follows tokio's clock: pause or advance tokio and this moves along.
#[derive(Debug, Clone)]
pub struct TokioClock {
    epoch: Timestamp,
    started: tokio::time::Instant,
}

impl TokioClock {
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, started: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.epoch.saturating_add(self.started.elapsed()).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_follows_paused_time() {
        let clock = TokioClock::starting_at(Timestamp::UNIX_EPOCH);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(clock.now(), Timestamp::from_second(3600).unwrap());
    }
}
