//! Ordinary clients, unchanged, on the embedded API and on virtual time.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use karpenter_apiserver::{Api, Fault, Options, Rule, Verb};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{Controller, WatchStreamExt as _, reflector, watcher};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::backend::test_clock;

const DAY: Duration = Duration::from_hours(24);

fn api() -> (Api, Client) {
    let api = Api::new(Options { clock: test_clock(), ..Options::default() });
    let client = Client::new(api.clone(), "default");
    (api, client)
}

fn pod(name: &str) -> Pod {
    let pod = json!({"metadata": {"name": name, "labels": {"app": "churn"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    serde_json::from_value(pod).unwrap()
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

/// Names and versions: what a cache has to agree on.
fn state(pods: impl IntoIterator<Item = Pod>) -> BTreeMap<String, String> {
    pods.into_iter().map(|p| (p.name_any(), p.resource_version().unwrap())).collect()
}

/// Nanoseconds that this thread, and with it the whole runtime of a test, was on a CPU.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// A thousand pods for a day: every hour sixty of them go, and sixty others come and run. A reflector sees it all. The
/// benchmark `load` does ten times that, in an optimised build.
#[tokio::test(start_paused = true)]
async fn a_day_with_a_thousand_pods_churning() {
    let (api, client) = api();
    let pods: kube::Api<Pod> = kube::Api::default_namespaced(client.clone());
    let (reader, writer) = reflector::store();
    let watch = watcher(kube::Api::<Pod>::all(client), watcher::Config::default()).default_backoff().reflect(writer);
    let watching = tokio::spawn(watch.applied_objects().try_for_each(|_| futures::future::ok(())));
    reader.wait_until_ready().await.unwrap();
    let (began, cpu) = (Instant::now(), cpu_time());
    for i in 0..1000 {
        pods.create(&PostParams::default(), &pod(&format!("pod-{i:05}"))).await.unwrap();
    }
    let running = json!({"status": {"phase": "Running"}});
    for round in 0..24 {
        sleep(Duration::from_hours(1)).await;
        for old in round * 60..(round + 1) * 60 {
            pods.delete(&format!("pod-{old:05}"), &DeleteParams::default()).await.unwrap();
            let new = format!("pod-{:05}", old + 1000);
            pods.create(&PostParams::default(), &pod(&new)).await.unwrap();
            pods.patch_status(&new, &PatchParams::default(), &Patch::Merge(&running)).await.unwrap();
        }
    }
    sleep(Duration::from_secs(1)).await;
    assert!(began.elapsed() >= DAY);
    let took = cpu_time().saturating_sub(cpu);
    let stored = state(pods.list(&ListParams::default()).await.unwrap().items);
    assert_eq!(stored.len(), 1000);
    assert_eq!(state(reader.state().iter().map(|p| (**p).clone())), stored);
    let kind = api.registry().by_plural("", "v1", "pods").unwrap().clone();
    assert_eq!(api.watches(&kind), 1, "watches that ended are forgotten");
    writeln!(std::io::stderr(), "24 h with 1,000 pods churning: {:.2} s of CPU time", took.as_secs_f64()).unwrap();
    watching.abort();
}

#[tokio::test(start_paused = true)]
async fn a_watcher_survives_timeouts_for_a_day() {
    let (api, client) = api();
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client);
    let mut events = watcher(maps.clone(), watcher::Config::default()).default_backoff().applied_objects().boxed();
    for hour in 0..24 {
        let name = format!("at-{hour:02}");
        let maps = maps.clone();
        let later = name.clone();
        tokio::spawn(async move {
            sleep(Duration::from_hours(1)).await;
            maps.create(&PostParams::default(), &config_map(&later)).await.unwrap();
        });
        assert_eq!(events.try_next().await.unwrap().unwrap().name_any(), name, "each is seen once, in order");
    }
    let lists = api.requests().get(&(Verb::List, "ConfigMap".to_owned())).copied().unwrap_or_default();
    assert_eq!(lists, 1, "bookmarks keep the watch going without a new list");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_starts_again_after_compaction() {
    let (api, client) = api();
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client);
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let (reader, writer) = reflector::store();
    let config = watcher::Config::default().timeout(60);
    let watch = watcher(maps.clone(), config).default_backoff().reflect(writer);
    tokio::spawn(watch.for_each(|_| futures::future::ready(())));
    reader.wait_until_ready().await.unwrap();
    // Whatever it asks for next is too old.
    api.add_fault(Rule { times: 1, ..Rule::new(Fault::Expired).verb(Verb::Watch) });
    sleep(Duration::from_secs(61)).await;
    maps.create(&PostParams::default(), &config_map("b")).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    api.compact();
    sleep(Duration::from_mins(2)).await;
    let names: Vec<String> = reader.state().iter().map(|m| m.name_any()).collect();
    assert_eq!(names, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_starts_a_watcher() {
    let (api, client) = api();
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client);
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &config_map(name)).await.unwrap();
    }
    let (reader, writer) = reflector::store();
    let watch = watcher(maps.clone(), watcher::Config::default().streaming_lists()).reflect(writer);
    tokio::spawn(watch.for_each(|_| futures::future::ready(())));
    reader.wait_until_ready().await.unwrap();
    assert_eq!(reader.len(), 3);
    assert_eq!(api.requests().get(&(Verb::List, "ConfigMap".to_owned())), None, "no list was asked for");
}

#[tokio::test(start_paused = true)]
async fn pages_feed_a_watcher() {
    let (api, client) = api();
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client);
    for i in 0..25 {
        maps.create(&PostParams::default(), &config_map(&format!("m{i:02}"))).await.unwrap();
    }
    let (reader, writer) = reflector::store();
    let watch = watcher(maps, watcher::Config::default().page_size(10)).reflect(writer);
    tokio::spawn(watch.for_each(|_| futures::future::ready(())));
    reader.wait_until_ready().await.unwrap();
    assert_eq!(reader.len(), 25);
    assert_eq!(api.requests().get(&(Verb::List, "ConfigMap".to_owned())), Some(&3));
}

/// The reconciler writes what is there already; were that a change, it would go round for ever.
#[tokio::test(start_paused = true)]
async fn a_controller_settles() {
    let (api, client) = api();
    let pods: kube::Api<Pod> = kube::Api::default_namespaced(client.clone());
    let runs = Arc::new(AtomicUsize::new(0));
    let reconcile = |pod: Arc<Pod>, context: Arc<(kube::Api<Pod>, Arc<AtomicUsize>)>| async move {
        context.1.fetch_add(1, Ordering::SeqCst);
        let labels = json!({"metadata": {"labels": {"seen": "yes"}}});
        context.0.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&labels)).await?;
        Ok::<_, kube::Error>(Action::requeue(Duration::from_hours(1)))
    };
    let controller = Controller::new(pods.clone(), watcher::Config::default()).run(
        reconcile,
        |_, _, _| Action::requeue(Duration::from_secs(5)),
        Arc::new((pods.clone(), runs.clone())),
    );
    tokio::spawn(controller.for_each(|_| futures::future::ready(())));
    for i in 0..10 {
        pods.create(&PostParams::default(), &pod(&format!("p{i}"))).await.unwrap();
    }
    sleep(DAY + Duration::from_mins(1)).await;
    // Once for itself, once for its own write, and then every hour.
    let runs = runs.load(Ordering::SeqCst);
    assert!((10 * 25..=10 * 27).contains(&runs), "{runs}");
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        assert_eq!(pod.labels()["seen"], "yes");
    }
    assert_eq!(api.hot_loop(), None);
}

#[tokio::test(start_paused = true)]
async fn a_controller_follows_what_it_owns() {
    let (_api, client) = api();
    let owners: kube::Api<ConfigMap> = kube::Api::namespaced(client.clone(), "default");
    let pods: kube::Api<Pod> = kube::Api::namespaced(client.clone(), "default");
    // Keeps one pod per config map, in whatever way it goes away.
    let reconcile = |owner: Arc<ConfigMap>, pods: Arc<kube::Api<Pod>>| async move {
        let mut pod = pod(&owner.name_any());
        pod.metadata.owner_references = Some(vec![kube::Resource::controller_owner_ref(&*owner, &()).unwrap()]);
        match pods.create(&PostParams::default(), &pod).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            other => drop(other?),
        }
        Ok::<_, kube::Error>(Action::await_change())
    };
    let controller = Controller::new(owners.clone(), watcher::Config::default())
        .owns(pods.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(pods.clone()));
    let reconciled = Arc::new(AtomicUsize::new(0));
    let counter = reconciled.clone();
    tokio::spawn(controller.for_each(move |result| {
        let _: (ObjectRef<ConfigMap>, Action) = result.unwrap();
        counter.fetch_add(1, Ordering::SeqCst);
        futures::future::ready(())
    }));
    owners.create(&PostParams::default(), &config_map("a")).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    let first = pods.get("a").await.unwrap();
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_ne!(pods.get("a").await.unwrap().uid(), first.uid(), "it was made again");
    owners.delete("a", &DeleteParams::default()).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    assert!(pods.get_opt("a").await.unwrap().is_none(), "it goes with its owner");
    assert!(reconciled.load(Ordering::SeqCst) >= 3);
}

/// Errors, lost connections and throttling for an hour; a cache agrees with the server when they end.
#[tokio::test(start_paused = true)]
async fn a_cache_converges_after_faults() {
    let (api, client) = api();
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client);
    let (reader, writer) = reflector::store();
    let watch = watcher(maps.clone(), watcher::Config::default()).default_backoff().reflect(writer);
    tokio::spawn(watch.for_each(|_| futures::future::ready(())));
    api.add_fault(Rule::new(Fault::DropWatch { after_events: 3 }).verb(Verb::Watch));
    api.add_fault(Rule { times: 2, ..Rule::new(Fault::RequestLost).verb(Verb::List) });
    for i in 0..60 {
        maps.create(&PostParams::default(), &config_map(&format!("m{i:02}"))).await.unwrap();
        if i % 3 == 0 {
            maps.delete(&format!("m{i:02}"), &DeleteParams::default()).await.unwrap();
        }
        sleep(Duration::from_mins(1)).await;
    }
    api.clear_faults();
    sleep(Duration::from_mins(10)).await;
    let mut names: Vec<String> = reader.state().iter().map(|m| m.name_any()).collect();
    names.sort();
    let stored: Vec<String> =
        maps.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!((names.len(), &names), (40, &stored));
}

/// Events are dropped an hour after they were last written.
#[tokio::test(start_paused = true)]
async fn events_are_forgotten_after_an_hour() {
    let (_api, client) = api();
    let events: kube::Api<k8s_openapi::api::core::v1::Event> = kube::Api::default_namespaced(client);
    for name in ["old", "fresh"] {
        let event = json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "reason": "R", "message": "m"});
        events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
        sleep(Duration::from_mins(30)).await;
    }
    sleep(Duration::from_mins(1)).await;
    let names: Vec<String> =
        events.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["fresh"]);
}

/// A run without roles tells which are needed; with these roles, and no more, the same run passes.
#[tokio::test(start_paused = true)]
async fn the_roles_of_a_client_are_found_by_running_it() {
    use karpenter_apiserver::rbac::{User, grants, rules_for};
    let run = async |client: Client| {
        let maps: kube::Api<ConfigMap> = kube::Api::namespaced(client.clone(), "default");
        maps.create(&PostParams::default(), &config_map("a")).await?;
        maps.list(&ListParams::default()).await?;
        let pods: kube::Api<Pod> = kube::Api::namespaced(client, "default");
        pods.create(&PostParams::default(), &pod("p")).await?;
        pods.evict("p", &kube::api::EvictParams::default()).await?;
        maps.delete("a", &DeleteParams::default()).await?;
        Ok::<_, kube::Error>(())
    };
    let robot = User::service_account("default", "robot");
    let (free, _) = api();
    let acting = free.acting_as(robot.clone());
    run(Client::new(acting.clone(), "default")).await.unwrap();
    let used: Vec<String> = acting.used().iter().map(ToString::to_string).collect();
    let want = ["create configmaps", "delete configmaps", "list configmaps", "create pods", "create pods/eviction"];
    assert_eq!(used, want);

    let strict = Api::new(Options { clock: test_clock(), rbac: true, ..Options::default() });
    let admin = Client::new(strict.clone(), "default");
    let role = json!({"metadata": {"name": "robot"}, "rules": rules_for(&acting.used())});
    let bound = json!({"metadata": {"name": "robot"}, "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "robot"}});
    let refused = strict.acting_as(robot.clone());
    assert!(run(Client::new(refused.clone(), "default")).await.is_err());
    let first: Vec<String> = refused.refused().iter().map(ToString::to_string).collect();
    assert_eq!(first, ["create configmaps"]);
    let roles: kube::Api<k8s_openapi::api::rbac::v1::ClusterRole> = kube::Api::all(admin.clone());
    roles.create(&PostParams::default(), &serde_json::from_value(role.clone()).unwrap()).await.unwrap();
    let bindings: kube::Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = kube::Api::all(admin);
    bindings.create(&PostParams::default(), &serde_json::from_value(bound).unwrap()).await.unwrap();
    let acting = strict.acting_as(robot);
    run(Client::new(acting.clone(), "default")).await.unwrap();
    assert_eq!(grants(role["rules"].as_array().unwrap()), acting.used(), "nothing is granted in vain");
    assert!(acting.refused().is_empty());
}
