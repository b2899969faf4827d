//! What has to be true of a new node, by the provider's word, before pods may use it (API-254 … API-256).

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use karpenter_model::claim::ClaimView;

use crate::BoxError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookState {
    Satisfied,
    /// Look again, after this long if it is known.
    Pending {
        again_after: Option<Duration>,
    },
}

/// Asked on each registration attempt. It may change the claim's object; the node is synced again after all are satisfied.
#[async_trait]
pub trait RegistrationHook: Debug + Send + Sync {
    fn name(&self) -> &str;
    async fn check(&self, claim: &ClaimView) -> Result<HookState, BoxError>;
}

/// What all hooks together say.
#[derive(Debug)]
pub struct HookOutcome {
    /// The hooks that hold the registration up, by name, with the error of those that failed.
    pub waiting: Vec<(String, Option<BoxError>)>,
    /// The shortest positive time that a hook named.
    pub again_after: Option<Duration>,
}

impl HookOutcome {
    pub fn is_satisfied(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Asks every hook, all at the same time.
pub async fn check_hooks(hooks: &[Arc<dyn RegistrationHook>], claim: &ClaimView) -> HookOutcome {
    let answers = futures::future::join_all(hooks.iter().map(|hook| hook.check(claim))).await;
    let mut outcome = HookOutcome { waiting: Vec::new(), again_after: None };
    for (hook, answer) in hooks.iter().zip(answers) {
        match answer {
            Ok(HookState::Satisfied) => {}
            Ok(HookState::Pending { again_after }) => {
                let positive = again_after.filter(|after| !after.is_zero());
                outcome.again_after = [outcome.again_after, positive].into_iter().flatten().min();
                outcome.waiting.push((hook.name().to_owned(), None));
            }
            Err(error) => outcome.waiting.push((hook.name().to_owned(), Some(error))),
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::claim_view;

    #[derive(Debug)]
    struct Says(&'static str, Result<HookState, &'static str>);

    #[async_trait]
    impl RegistrationHook for Says {
        fn name(&self) -> &str {
            self.0
        }
        async fn check(&self, _claim: &ClaimView) -> Result<HookState, BoxError> {
            // All of them wait: only in parallel does this take one second.
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.1.map_err(Into::into)
        }
    }

    /// API-254, API-255: parallel, satisfied when all are, the shortest positive pause of those that name one.
    #[tokio::test(start_paused = true)]
    async fn hooks_are_asked_together() {
        let pending = |seconds: Option<u64>| Ok(HookState::Pending { again_after: seconds.map(Duration::from_secs) });
        let started = tokio::time::Instant::now();
        for (states, waiting, again) in [
            (vec![], vec![], None),
            (vec![Ok(HookState::Satisfied)], vec![], None),
            (
                vec![pending(Some(9)), Ok(HookState::Satisfied), pending(Some(4)), pending(Some(0))],
                vec![0, 2, 3],
                Some(4),
            ),
            (vec![pending(None), Err("boom")], vec![0, 1], None),
        ] {
            const NAMES: [&str; 4] = ["0", "1", "2", "3"];
            let hooks: Vec<Arc<dyn RegistrationHook>> =
                states.into_iter().zip(NAMES).map(|(state, name)| Arc::new(Says(name, state)) as _).collect();
            let outcome = check_hooks(&hooks, &claim_view("a", "uid")).await;
            let names: Vec<usize> = outcome.waiting.iter().map(|(name, _)| name.parse().unwrap()).collect();
            assert_eq!((names, outcome.again_after), (waiting.clone(), again.map(Duration::from_secs)));
            assert_eq!(outcome.is_satisfied(), waiting.is_empty());
        }
        assert_eq!(started.elapsed(), Duration::from_secs(3), "three of the four sets have hooks, each takes a second");
    }
}
