//! What goes wrong on purpose, seen by an ordinary client. Only the embedded API can do this.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_apiserver::{Api, Failure, Fault, Options, Rule, Verb};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, Error, ResourceExt as _};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::backend::test_clock;

fn api(options: Options) -> (Api, kube::Api<ConfigMap>) {
    let api = Api::new(Options { clock: test_clock(), ..options });
    let maps = kube::Api::default_namespaced(Client::new(api.clone(), "default"));
    (api, maps)
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

/// Code and reason of a refusal.
fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> (u16, String) {
    match result.unwrap_err() {
        Error::Api(status) => (status.code, status.reason),
        other => panic!("no Status: {other:?}"),
    }
}

async fn create(maps: &kube::Api<ConfigMap>, name: &str) -> Result<ConfigMap, Error> {
    maps.create(&PostParams::default(), &map(name)).await
}

#[tokio::test(start_paused = true)]
async fn each_fault_shows_as_what_it_is() {
    let (api, maps) = api(Options::default());
    create(&maps, "a").await.unwrap();
    let patch = json!({"data": {"k": "v"}});
    for (fault, want) in [
        (Fault::Error(Failure::new(500, "InternalError", "disk full")), (500, "InternalError")),
        (Fault::Conflict, (409, "Conflict")),
        (Fault::Throttled { retry_after_seconds: 3 }, (429, "TooManyRequests")),
        (Fault::Expired, (410, "Expired")),
    ] {
        let rule = api.add_fault(Rule::new(fault).verb(Verb::Patch));
        let found = refusal(maps.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await);
        assert_eq!((found.0, found.1.as_str()), want);
        api.remove_fault(rule);
        assert_eq!(maps.get("a").await.unwrap().data, None, "nothing was written");
    }
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_rule_is_about_verb_kind_name_and_call() {
    let (api, maps) = api(Options::default());
    let lost = || Rule::new(Fault::RequestLost);
    api.add_fault(lost().verb(Verb::Create).kind("Secret"));
    api.add_fault(lost().verb(Verb::Create).name("other-*"));
    api.add_fault(lost().verb(Verb::Delete).kind("ConfigMap").nth(2));
    for name in ["a", "b", "c"] {
        create(&maps, name).await.unwrap();
    }
    let gone = DeleteParams::default();
    maps.delete("a", &gone).await.unwrap();
    assert!(matches!(maps.delete("b", &gone).await.unwrap_err(), Error::Service(_)), "the connection broke");
    maps.delete("b", &gone).await.unwrap();
    maps.delete("c", &gone).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_takes_its_time() {
    let (api, maps) = api(Options::default());
    api.add_fault(Rule::new(Fault::Latency(Duration::from_secs(90))).verb(Verb::Create).times(1));
    let began = Instant::now();
    create(&maps, "a").await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 90);
    create(&maps, "b").await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 90);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_cut_off_after_its_events() {
    let (api, maps) = api(Options::default());
    api.add_fault(Rule::new(Fault::DropWatch { after_events: 2 }).verb(Verb::Watch));
    let mut events = maps.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    for name in ["a", "b", "c"] {
        create(&maps, name).await.unwrap();
    }
    let mut seen = Vec::new();
    while let Ok(Some(event)) = events.try_next().await {
        if let WatchEvent::Added(map) = event {
            seen.push(map.name_any());
        }
    }
    assert_eq!(seen, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_stale_watch_tells_late() {
    let (api, maps) = api(Options::default());
    api.add_fault(Rule::new(Fault::StaleWatch { late: Duration::from_secs(40) }).verb(Verb::Watch));
    let start = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = maps.watch(&WatchParams::default(), &start).await.unwrap().boxed();
    let began = Instant::now();
    create(&maps, "a").await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_some(), "reads are not late");
    assert!(matches!(events.try_next().await.unwrap(), Some(WatchEvent::Added(_))));
    assert!(began.elapsed() >= Duration::from_secs(40));
}

#[tokio::test(start_paused = true)]
async fn the_world_stops_before_or_after_a_write() {
    for (fault, written) in [(Fault::StopBefore, false), (Fault::StopAfter, true)] {
        let (api, maps) = api(Options::default());
        api.add_fault(Rule::new(fault).verb(Verb::Create).nth(2));
        create(&maps, "a").await.unwrap();
        let other = maps.clone();
        let writing = tokio::spawn(async move { create(&other, "b").await });
        api.stopped().await;
        assert!(!writing.is_finished(), "nobody answers");
        writing.abort();
        assert_eq!(maps.get_opt("b").await.unwrap().is_some(), written);
        create(&maps, "c").await.unwrap();
    }
}

/// The client cannot tell; what it does next has to fit both cases.
#[tokio::test(start_paused = true)]
async fn a_write_is_applied_although_its_answer_is_lost() {
    let (api, maps) = api(Options::default());
    api.add_fault(Rule::new(Fault::AnswerLost).verb(Verb::Create).nth(1));
    assert!(matches!(create(&maps, "a").await.unwrap_err(), Error::Service(_)), "the connection broke");
    assert_eq!(refusal(create(&maps, "a").await), (409, "AlreadyExists".to_owned()));
    api.add_fault(Rule::new(Fault::AnswerLost).verb(Verb::Delete).nth(1));
    assert!(matches!(maps.delete("a", &DeleteParams::default()).await.unwrap_err(), Error::Service(_)));
    assert!(maps.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn compaction_ends_pages_and_watches() {
    let (api, maps) = api(Options::default());
    for name in ["a", "b", "c"] {
        create(&maps, name).await.unwrap();
    }
    let page = maps.list(&ListParams::default().limit(1)).await.unwrap();
    let token = page.metadata.continue_.unwrap();
    create(&maps, "d").await.unwrap();
    api.compact();
    let next = maps.list(&ListParams::default().limit(1).continue_token(&token)).await;
    assert_eq!(refusal(next), (410, "Expired".to_owned()));
    let mut events = maps.watch(&WatchParams::default(), "1").await.unwrap().boxed();
    let Some(WatchEvent::Error(error)) = events.try_next().await.unwrap() else { panic!("an error was wanted") };
    assert_eq!((error.code, error.reason.as_str()), (410, "Expired"));
}

/// Names, UIDs and versions come from the seed; times from the clock.
#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_history() {
    let history = async |seed: u64| {
        let (_api, maps) = api(Options { seed, ..Options::default() });
        let mut seen = Vec::new();
        for _ in 0..5 {
            let generated = serde_json::from_value(json!({"metadata": {"generateName": "m-"}})).unwrap();
            seen.push(serde_json::to_string(&maps.create(&PostParams::default(), &generated).await.unwrap()).unwrap());
            sleep(Duration::from_secs(1)).await;
        }
        seen
    };
    assert_eq!(history(7).await, history(7).await);
    assert_ne!(history(7).await, history(8).await);
}

/// A client that never waits is stopped, and told what it did.
#[tokio::test(start_paused = true)]
async fn a_loop_without_time_is_cut_short() {
    let (api, maps) = api(Options { requests_per_instant: Some(100), ..Options::default() });
    let looping = async {
        loop {
            if let Err(error) = maps.get_opt("a").await {
                return error;
            }
        }
    };
    let error = timeout(Duration::from_hours(1), looping).await.expect("the loop is stopped");
    assert!(matches!(error, Error::Service(_)), "{error:?}");
    let report = api.hot_loop().unwrap();
    assert!(report.contains("get ConfigMap a"), "{report}");
}
