//! Many pods at once, on several threads: pods are told apart and put in order in parts, and the parts put together in their
//! order. Whatever the number of threads, the result is the same (SC-369).

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::pod::PodView;

use super::amounts::Names;
use super::intern::Id;
use super::pods::{KindId, Last, Pending, Pods, ShapeId, moves_freely};

/// Fewer are done before threads have started; in tests two will do.
pub(super) const CROWD: usize = if cfg!(test) { 2 } else { 20_000 };

/// What decides the order among pods of one size, and the pod's position.
pub(super) type Turn = (Timestamp, u64, Id);

impl Pods {
    /// As [`Pods::look_at`] for one after the other.
    pub(super) fn look_at_all(
        &mut self,
        all: &[Arc<PodView>],
        going: &BTreeSet<&str>,
        names: &mut Names,
        workers: usize,
    ) -> Vec<Pending> {
        let part = all.len().div_ceil(workers);
        let parts: Vec<Self> = std::thread::scope(|scope| {
            let started: Vec<_> = all.chunks(part).map(|pods| scope.spawn(|| Self::of_part(pods, going))).collect();
            let whole = |part: std::thread::ScopedJoinHandle<'_, Self>| {
                part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            started.into_iter().map(whole).collect()
        });
        let mut pending = Vec::with_capacity(all.len());
        for part in parts {
            // In the order in which they were met, so that numbers are those of one thread.
            let shapes: Vec<ShapeId> = part.shapes.iter().map(|shape| self.shape(&shape.example, names)).collect();
            let kinds: Vec<KindId> =
                part.kinds.iter().map(|kind| self.kind(&kind.example, kind.moves_freely)).collect();
            pending.extend(part.pending.into_iter().map(|one| Pending {
                shape: shapes[one.shape as usize],
                kind: kinds[one.kind as usize],
                ..one
            }));
            self.compiled += part.compiled;
        }
        pending
    }

    fn of_part(pods: &[Arc<PodView>], going: &BTreeSet<&str>) -> Self {
        let (mut part, mut names, mut last) = (Self::default(), Names::default(), Last::default());
        part.pending = Vec::with_capacity(pods.len());
        for pod in pods {
            let one = part.look_at(pod, moves_freely(pod, going), &mut last, &mut names);
            part.pending.push(one);
        }
        part
    }

    /// Sorts the pods of each size; `ends`: where the sizes end.
    pub(super) fn sort_each(&self, order: &mut [Turn], ends: &[usize], workers: usize) {
        let workers = if order.len() < CROWD { 1 } else { workers.max(1) };
        let fair = order.len().div_ceil(workers);
        std::thread::scope(|scope| {
            let (mut rest, mut start, mut taken) = (order, 0, 0);
            let mut sizes = Vec::new();
            for (at, end) in ends.iter().enumerate() {
                sizes.push(*end - start - taken);
                taken = *end - start;
                if taken < fair && at + 1 < ends.len() {
                    continue;
                }
                let (part, others) = std::mem::take(&mut rest).split_at_mut(taken);
                let sizes = std::mem::take(&mut sizes);
                (rest, start, taken) = (others, *end, 0);
                if workers > 1 {
                    scope.spawn(move || self.sort_part(part, &sizes));
                } else {
                    self.sort_part(part, &sizes);
                }
            }
        });
    }

    fn sort_part(&self, mut part: &mut [Turn], sizes: &[usize]) {
        for size in sizes {
            let (same, others) = std::mem::take(&mut part).split_at_mut(*size);
            part = others;
            same.sort_unstable_by(|a, b| {
                (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| {
                    let uid = |at: Id| &self.all[at as usize].uid;
                    // Positions follow namespace and name.
                    (uid(a.2), a.2).cmp(&(uid(b.2), b.2))
                })
            });
        }
    }
}
