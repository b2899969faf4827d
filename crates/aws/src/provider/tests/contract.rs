//! The suite that every provider passes.

use async_trait::async_trait;
use karpenter_model::taints::Taint;
use karpenter_platform::contract::{Subject, violations};

use super::*;
use crate::provider_id::instance_id;

struct OnAccount {
    world: World,
    claims: Mutex<u32>,
}

#[async_trait]
impl Subject for OnAccount {
    fn provider(&self) -> Arc<dyn CloudProvider> {
        self.world.provider.clone()
    }

    fn pool(&self) -> PoolView {
        pool()
    }

    async fn new_claim(&self) -> ClaimView {
        let mut claims = self.claims.lock().unwrap();
        *claims += 1;
        claim(&format!("claim-{claims}"), &[], &[])
    }

    async fn joined(&self, claim: &ClaimView, instance: &Instance) -> ClaimView {
        self.pause(Duration::from_secs(30)).await;
        ClaimView { node_name: Some("node".to_owned()), ..told(claim, instance) }
    }

    /// As the user data of the instance's template says.
    async fn taints(&self, _: &ClaimView) -> Vec<Taint> {
        let templates = self.world.account.templates();
        let guarded = templates.values().all(|template| {
            use base64::Engine as _;
            let data = base64::engine::general_purpose::STANDARD.decode(&template.data.user_data).unwrap();
            String::from_utf8(data).unwrap().contains("karpenter.sh/unregistered")
        });
        if guarded && !templates.is_empty() { vec![Taint::unregistered()] } else { Vec::new() }
    }

    async fn boot_id(&self, claim: &ClaimView) -> Option<String> {
        let id = instance_id(claim.provider_id.as_deref()?).ok()?;
        Some(self.world.account.lock().machines.get(id)?.boots.to_string())
    }

    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn patience(&self) -> Duration {
        Duration::from_mins(1)
    }
}

async fn check(world: World) {
    let subject = OnAccount { world, claims: Mutex::default() };
    assert_eq!(violations(&subject).await, Vec::<String>::new());
    let left = subject.world.account.running();
    assert!(left.iter().all(|info| info.launched.is_some_and(|at| at < subject.world.now())), "{left:?}");
}

/// AWS-296, API-237 … API-247, API-258, API-266, API-269: with ordinary capacity, and with an EC2 that shows instances late.
#[tokio::test(start_paused = true)]
async fn keeps_the_contract() {
    check(World::new().await).await;
    let slow = World::new().await;
    slow.account.lock().pace.shown_after = SignedDuration::from_secs(15);
    check(slow).await;
}

/// V15-82: with a reservation, which is used first.
#[tokio::test(start_paused = true)]
async fn keeps_the_contract_with_reservations() {
    let world = World::new().await;
    world.classes.put(ready_class(
        &json!({}),
        &json!({"capacityReservations": [reservation("cr-1", "m5.large", "test-zone-1a")]}),
    ));
    launching::reserve(&world, "cr-1", "m5.large", "test-zone-1a", 100);
    check(world).await;
}
