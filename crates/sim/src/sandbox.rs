//! A world for somebody outside: on a port for `kubectl`, and in time that passes as they like.
//!
//! The world lives on one thread, on paused tokio time that [`drive`] lets go on: as a multiple of real time, or at full speed
//! while something is under way and at the pace of the wall clock when all is at rest. [`Served`] answers from a runtime of its
//! own on ordinary time, since sockets know no other.

use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_apiserver::{Api, serve};
use karpenter_platform::{Clock, SystemClock, TokioClock};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::world::{Violation, World};

/// How fast time goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// So many virtual seconds in a real one.
    Times(f64),
    /// As fast as it can while something is under way, as the wall clock when all is at rest.
    Jump,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a speed is `jump` or a number of times between 0.001x and 1000000x, such as 60x")]
pub struct BadSpeed;

impl FromStr for Speed {
    type Err = BadSpeed;

    fn from_str(text: &str) -> Result<Self, BadSpeed> {
        if text == "jump" {
            return Ok(Self::Jump);
        }
        let times: f64 = text.strip_suffix('x').unwrap_or(text).parse().map_err(|_| BadSpeed)?;
        if (0.001..=1e6).contains(&times) { Ok(Self::Times(times)) } else { Err(BadSpeed) }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("port {} is in use: end what listens there, or choose another (0 takes a free one)", .0.port())]
    PortTaken(SocketAddr),
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot start a runtime")]
    Runtime(#[source] io::Error),
}

/// The runtime of a world: one thread, paused.
pub fn runtime() -> Result<Runtime, SandboxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.map_err(SandboxError::Runtime)
}

/// An API on a port. Dropping it frees the port.
#[derive(Debug)]
pub struct Served {
    url: String,
    running: Option<(Runtime, serve::Serving)>,
}

impl Served {
    pub fn start(api: Api, address: SocketAddr) -> Result<Self, SandboxError> {
        // On a plain thread, because a runtime neither waits nor ends within another one.
        let started = std::thread::spawn(move || listen(api, address)).join();
        let panicked = |_| Err(SandboxError::Listen { address, source: io::Error::other("it panicked") });
        let (runtime, serving) = started.unwrap_or_else(panicked)?;
        Ok(Self { url: serving.url(), running: Some((runtime, serving)) })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// A kubeconfig for it.
    pub fn kubeconfig(&self) -> String {
        let cluster = format!("clusters:\n- name: sandbox\n  cluster:\n    server: {}\n", self.url);
        let context = "contexts:\n- name: sandbox\n  context: {cluster: sandbox, user: sandbox, namespace: default}\n";
        let user = "users:\n- name: sandbox\n  user: {}\n";
        format!("apiVersion: v1\nkind: Config\ncurrent-context: sandbox\n{cluster}{context}{user}")
    }

    /// Becomes true when somebody interrupts or ends the process, which then goes on.
    pub fn interrupted(&self) -> Result<Arc<AtomicBool>, SandboxError> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let Some((runtime, _)) = &self.running else { return Ok(interrupted) };
        let _guard = runtime.enter();
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            let mut signals = signal(kind).map_err(SandboxError::Runtime)?;
            let interrupted = interrupted.clone();
            runtime.spawn(async move {
                if signals.recv().await.is_some() {
                    interrupted.store(true, Ordering::Relaxed);
                }
            });
        }
        Ok(interrupted)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let Some((runtime, serving)) = self.running.take() else { return };
        // See `start`. Had it panicked, nothing would be left to end.
        let _ = std::thread::spawn(move || runtime.block_on(serving.shutdown())).join();
    }
}

fn listen(api: Api, address: SocketAddr) -> Result<(Runtime, serve::Serving), SandboxError> {
    // Two threads: requests are short, and the world has the third.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(SandboxError::Runtime)?;
    match runtime.block_on(serve::listen(api, address)) {
        Ok(serving) => Ok((runtime, serving)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(SandboxError::PortTaken(address)),
        Err(source) => Err(SandboxError::Listen { address, source }),
    }
}

/// Tokio's clock on the thread of the world, and what that showed last on all others.
#[derive(Debug)]
pub struct DrivenClock {
    inner: TokioClock,
    thread: ThreadId,
    shown: AtomicI64,
}

impl DrivenClock {
    /// Starts with the time of the machine; on the thread and in the runtime of the world.
    pub fn start() -> Arc<Self> {
        let epoch = SystemClock.now();
        let shown = AtomicI64::new(epoch.as_millisecond());
        Arc::new(Self { inner: TokioClock::starting_at(epoch), thread: std::thread::current().id(), shown })
    }
}

impl Clock for DrivenClock {
    fn now(&self) -> Timestamp {
        if std::thread::current().id() == self.thread {
            let now = self.inner.now();
            self.shown.store(now.as_millisecond(), Ordering::Relaxed);
            now
        } else {
            Timestamp::from_millisecond(self.shown.load(Ordering::Relaxed)).unwrap_or(Timestamp::UNIX_EPOCH)
        }
    }
}

/// How long the driver sleeps between two steps; a request is noticed within it.
const TICK: Duration = Duration::from_millis(10);
/// One step at full speed.
const LEAP: Duration = Duration::from_secs(1);
/// Looks in a row without unrest before time slows down.
const QUIET: u32 = 20;
/// What is under way for so many steps (an hour) waits for somebody else: a node that never registers is given up after a
/// quarter of that.
const PATIENCE: u32 = 3600;

/// Lets time pass until somebody says stop. Tells what the checks find, each thing once.
pub async fn drive(world: &World, speed: Speed, stop: &AtomicBool, found: &mut dyn FnMut(&Violation)) {
    let (mut quiet, mut busy, mut said) = (0, 0, Vec::new());
    // How much was written when time last stopped leaping: news start it again.
    let mut seen = world.api.revision();
    while !stop.load(Ordering::Relaxed) {
        if speed == Speed::Jump {
            (quiet, busy) = if world.unrest().is_none() { (quiet + 1, 0) } else { (0, busy + 1) };
        }
        if speed == Speed::Jump && quiet < QUIET && busy < PATIENCE {
            tokio::time::sleep(LEAP).await;
            seen = world.api.revision();
        } else {
            // The thread sleeps and with it the world; then as much virtual time may pass.
            std::thread::sleep(TICK);
            if busy >= PATIENCE && world.api.revision() != seen {
                (busy, seen) = (0, world.api.revision());
            }
            let times = if let Speed::Times(times) = speed { times } else { 1.0 };
            tokio::time::sleep(TICK.mul_f64(times)).await;
        }
        // The time is shown to others even if nobody in the world asked for it.
        world.clock.now();
        for violation in world.violations() {
            if !said.contains(&violation) {
                found(&violation);
                said.push(violation);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read() {
        for (text, want) in [
            ("jump", Ok(Speed::Jump)),
            ("60x", Ok(Speed::Times(60.0))),
            ("0.5", Ok(Speed::Times(0.5))),
            ("0x", Err(BadSpeed)),
            ("-1x", Err(BadSpeed)),
            ("NaN", Err(BadSpeed)),
            ("infx", Err(BadSpeed)),
            ("fast", Err(BadSpeed)),
            ("", Err(BadSpeed)),
        ] {
            assert_eq!(text.parse::<Speed>(), want, "{text:?}");
        }
    }

    #[test]
    fn a_taken_port_is_told_and_a_dropped_one_is_free() {
        let api = || Api::new(karpenter_apiserver::Options::default());
        let first = Served::start(api(), ([127, 0, 0, 1], 0).into()).unwrap();
        let port = first.url().rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
        let again = || Served::start(api(), ([127, 0, 0, 1], port).into());
        let refused = again().unwrap_err();
        assert!(matches!(refused, SandboxError::PortTaken(_)), "{refused}");
        assert!(refused.to_string().starts_with(&format!("port {port} is in use")), "{refused}");
        drop(first);
        again().unwrap();
    }
}
