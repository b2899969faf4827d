use karpenter_model::labels::LabelRules;

use super::*;

/// API-156: a burst at once, then the rate; idle time fills the burst up again, not more.
#[tokio::test(start_paused = true)]
async fn requests_keep_the_rate() {
    let mut pace = Pace::new(10, 3);
    let now = Instant::now();
    let waits = |pace: &mut Pace, now: Instant, count: usize| -> Vec<u128> {
        (0..count).map(|_| (pace.reserve(now) - now).as_millis()).collect()
    };
    assert_eq!(waits(&mut pace, now, 6), [0, 0, 0, 100, 200, 300]);
    let later = now + Duration::from_hours(1);
    assert_eq!(waits(&mut pace, later, 5), [0, 0, 0, 100, 200]);
    for unlimited in [0, -1] {
        assert_eq!(waits(&mut Pace::new(unlimited, 3), now, 5), [0; 5]);
    }
}

/// API-156: events wait while others need the rate, and not for ever.
#[tokio::test(start_paused = true)]
async fn events_come_last() {
    let pace = Mutex::new(Pace::new(10, 11));
    let started = Instant::now();
    quiet(&pace).await;
    assert_eq!(started.elapsed().as_millis(), 0, "nobody else wants anything");
    for _ in 0..20 {
        lock(&pace).reserve(started);
    }
    quiet(&pace).await;
    assert_eq!(started.elapsed().as_millis(), 1500, "two seconds of requests, of which half a second may be ahead");
    for _ in 0..1000 {
        lock(&pace).reserve(Instant::now());
    }
    let started = Instant::now();
    quiet(&pace).await;
    assert_eq!(started.elapsed(), LONGEST_QUIET);
}

/// API-211: verbs, groups, resources and subresources as they appear in metrics.
#[test]
fn requests_are_told_apart() {
    for (method, path, want) in [
        ("GET", "/api/v1/pods?watch=true", "LIST  v1 pods "),
        ("GET", "/api/v1/namespaces/shop/pods/web", "GET  v1 pods "),
        ("GET", "/api/v1/namespaces/shop", "GET  v1 namespaces "),
        ("POST", "/api/v1/namespaces/shop/pods/web/eviction", "CREATE  v1 pods eviction"),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x",
            "UPDATE coordination.k8s.io v1 leases ",
        ),
        ("PATCH", "/apis/karpenter.sh/v1/nodeclaims/c1/status", "PATCH karpenter.sh v1 nodeclaims status"),
        ("DELETE", "/api/v1/nodes/n1", "DELETE  v1 nodes "),
        ("GET", "/version", "GET    "),
    ] {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        let Asked { verb, group, version, resource, subresource, .. } = Asked::of(&request);
        assert_eq!(format!("{verb} {group} {version} {resource} {subresource}"), want, "{method} {path}");
    }
}

/// Answers 200 to everything and counts.
#[derive(Clone, Default)]
struct Server(Arc<std::sync::atomic::AtomicUsize>);

impl Service<Request<Body>> for Server {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        let count = self.0.clone();
        Box::pin(async move {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Ok(Response::new(Body::empty()))
        })
    }
}

/// API-297: who is not the leader reads, and writes nothing.
#[tokio::test(start_paused = true)]
async fn nothing_is_written_through_a_closed_fence() {
    let metrics = Arc::new(Metrics::new(&LabelRules::core(), Vec::new()));
    for (fence, method, sent) in [
        (Fence::default(), "GET", 1),
        (Fence::default(), "POST", 0),
        (Fence::open(), "POST", 1),
        (Fence::open(), "PATCH", 1),
    ] {
        let late = LateMetrics::default();
        late.set(metrics.clone()).unwrap();
        let server = Server::default();
        let gate = Gate { pace: Arc::new(Mutex::new(Pace::new(5, 5))), fence, metrics: late };
        let mut gated = gate.layer(server.clone());
        let request = Request::builder().method(method).uri("/api/v1/nodes").body(Body::empty()).unwrap();
        let answer = gated.call(request).await;
        assert_eq!(answer.is_ok(), sent == 1, "{method}");
        assert_eq!(server.0.load(std::sync::atomic::Ordering::SeqCst), sent, "{method}");
    }
    assert_eq!(metrics.all.requests.value(["200", "POST"]), Some(1.0), "only what was sent is counted");
}
