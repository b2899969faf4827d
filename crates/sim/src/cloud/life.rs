//! What time does to machines.

use std::time::Duration;

use jiff::Timestamp;

use super::{Cloud, after};
use crate::cluster::Requeue;

/// What is due for one machine now, and when to look again.
pub(super) fn look(cloud: &Cloud, id: &str) -> Requeue {
    let now = cloud.clock.now();
    let Some(record) = cloud.lock().records.get(id).cloned() else { return Requeue::OnChange };
    if let Some(gone_at) = record.gone_at {
        let forgotten_at = after(gone_at, cloud.settings.lag);
        if let Some(wait) = left(gone_at, now) {
            return Requeue::After(wait);
        }
        if cloud.fleet.get(id).is_some() {
            cloud.fleet.remove(id);
            cloud.lock().give_back(id);
            cloud.note(&format!("{id} is gone"));
        }
        if let Some(wait) = left(forgotten_at, now) {
            return Requeue::After(wait);
        }
        cloud.lock().records.remove(id);
        return Requeue::OnChange;
    }
    let Some(end) = record.interrupted_at else { return Requeue::OnChange };
    // Told when the notice begins, ended when it is over.
    let notice_at = end.checked_sub(jiff::SignedDuration::try_from(cloud.settings.notice).unwrap_or_default());
    if let Some(wait) = left(notice_at.unwrap_or(end), now) {
        return Requeue::After(wait);
    }
    if !record.announced {
        if let Some(record) = cloud.lock().records.get_mut(id) {
            record.announced = true;
        }
        cloud.note(&format!("{id} is told that it will be taken back"));
    }
    if let Some(wait) = left(end, now) {
        return Requeue::After(wait);
    }
    cloud.note(&format!("{id} is taken back"));
    terminate(cloud, id, Duration::ZERO);
    Requeue::After(Duration::ZERO)
}

/// The machine is off at once and gone after a while.
pub(super) fn terminate(cloud: &Cloud, id: &str, takes: Duration) {
    let gone_at = after(cloud.clock.now(), takes);
    if let Some(record) = cloud.lock().records.get_mut(id) {
        record.gone_at = Some(gone_at);
    }
    cloud.fleet.change(id, |machine| machine.on = false);
    cloud.due.add(id);
}

fn left(at: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(at.duration_since(now)).ok().filter(|left| !left.is_zero())
}
