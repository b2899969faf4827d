//! What may not be in any log: credentials, tokens, user data.

use std::io::Write;
use std::sync::{Arc, Mutex};

use karpenter_testkit::aws::SECRET;
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

use crate::setup::{USER_DATA, World, template, world};

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Everything that is said at any level while a template is made, with the SDK's own lines at this level.
async fn said(world: &World, name: &str, sdk: LevelFilter) -> String {
    let kept = Kept::default();
    let writer = kept.clone();
    let filter = Targets::new().with_target(karpenter_aws_sdk::LOG_TARGETS, sdk).with_default(LevelFilter::TRACE);
    let lines = tracing_subscriber::fmt::layer().with_writer(move || writer.clone()).with_filter(filter);
    let work = async {
        world.clients.writes.create_launch_template(&template(name)).await.unwrap();
        tracing::trace!("it was made");
    };
    work.with_subscriber(tracing_subscriber::registry().with(lines)).await;
    let bytes = kept.0.lock().unwrap().clone();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Without the SDK's own lines nothing secret is said. With them answers are shown in full, whatever is in them, which is why
/// they are off.
#[tokio::test]
async fn nothing_secret_is_logged() {
    let world = world().await;
    let quiet = said(&world, "karpenter.k8s.aws/1", LevelFilter::OFF).await;
    assert!(quiet.contains("it was made"), "{quiet}");
    for secret in [SECRET, USER_DATA, "Signature=", "Credential=", "CreateLaunchTemplateResponse"] {
        assert!(!quiet.contains(secret), "{secret} is in the log:\n{quiet}");
    }
    let loud = said(&world, "karpenter.k8s.aws/2", LevelFilter::TRACE).await;
    assert!(loud.contains("CreateLaunchTemplateResponse"), "this test sees nothing:\n{loud}");
    // What we print of ourselves.
    let ours = format!("{:?} {:?}", world.clients, crate::setup::fixed(&world.account));
    assert!(!ours.contains(SECRET), "{ours}");
}
