//! The service on a port, for `kubectl` and every other client: plain HTTP/1.1, watches as chunked bodies.
//!
//! There is no TLS and no login, so it is meant for loopback addresses.

pub mod accept;
pub mod protobuf;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tower::{Service, ServiceExt as _};

/// What is under way at a shutdown may take this long to end; a watch would never end by itself and is cut off then.
const GRACE: Duration = Duration::from_millis(500);
/// After an error of `accept` (most likely too many open files) the next attempt waits a little, or it would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the real server reads of a body at most; the service refuses more than that itself.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a request, as it comes or translated to JSON.
pub type Body = Either<Incoming, Full<Bytes>>;

/// A service on a port. Dropping it ends the service without waiting for what is under way.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    end: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Serving {
    /// Where clients find it; the port is the one that was given out when the asked one was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:8001`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Takes no more connections, lets the answers under way end, cuts watches off, and frees the port.
    pub async fn shutdown(mut self) {
        // The task may have ended already, which is what we want.
        let _ = self.end.send(true);
        let _ = (&mut self.task).await;
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves on `address` until [`Serving::shutdown`].
pub async fn listen<S, B>(service: S, address: SocketAddr) -> io::Result<Serving>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let (end, ended) = watch::channel(false);
    let task = tokio::spawn(accept(listener, service, ended));
    Ok(Serving { address, end, task })
}

async fn accept<S, B>(listener: TcpListener, service: S, mut ended: watch::Receiver<bool>)
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    // Ends the connections when it is dropped.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = ended.changed() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(stream, service.clone(), ended.clone()))),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, all).await;
}

/// Errors of a connection are the client's going away; there is nobody to tell.
async fn connection<S, B>(stream: TcpStream, service: S, mut ended: watch::Receiver<bool>)
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    // Events of a watch are small and should not wait for more.
    let _ = stream.set_nodelay(true);
    let answer = service_fn(move |request| answer(service.clone(), request));
    let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    tokio::pin!(served);
    tokio::select! {
        biased;
        _ = ended.changed() => {}
        _ = served.as_mut() => return,
    }
    served.as_mut().graceful_shutdown();
    let _ = served.await;
}

async fn answer<S, B>(service: S, request: Request<Incoming>) -> Result<Response<B>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    let request = readable(request).await;
    match service.oneshot(request).await {
        Ok(answer) => Ok(answer),
        Err(error) => Err(error.into()),
    }
}

/// Typed Go clients send objects in a binary form. The service speaks JSON; what cannot be translated it refuses.
async fn readable(request: Request<Incoming>) -> Request<Body> {
    let is_binary = |value: &HeaderValue| value.as_bytes().starts_with(protobuf::CONTENT_TYPE.as_bytes());
    if !request.headers().get(CONTENT_TYPE).is_some_and(is_binary) {
        return request.map(Either::Left);
    }
    let (mut parts, body) = request.into_parts();
    let bytes =
        Limited::new(body, BODY_LIMIT).collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let Ok(object) = protobuf::decode(&bytes) else {
        return Request::from_parts(parts, Either::Right(Full::new(bytes)));
    };
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Request::from_parts(parts, Either::Right(Full::new(Bytes::from(object.to_string()))))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::StreamExt as _;
    use http_body_util::StreamBody;
    use http_body_util::combinators::UnsyncBoxBody;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Says the path, or at `/watch` one line and then nothing for ever.
    async fn answer(request: Request<Body>) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
        let body = if request.uri().path() == "/echo" {
            request
                .into_body()
                .collect()
                .await
                .map(|body| Full::new(body.to_bytes()).boxed_unsync())
                .unwrap_or_default()
        } else if request.uri().path() == "/watch" {
            let first = futures::stream::iter([Ok(http_body::Frame::data(Bytes::from("event\n")))]);
            StreamBody::new(first.chain(futures::stream::pending())).boxed_unsync()
        } else {
            Full::new(Bytes::from(request.uri().path().to_owned())).boxed_unsync()
        };
        Ok(Response::new(body))
    }

    async fn served() -> Serving {
        listen(tower::service_fn(answer), ([127, 0, 0, 1], 0).into()).await.unwrap()
    }

    async fn ask(serving: &Serving, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(serving.address()).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        stream
    }

    async fn read_until(stream: &mut TcpStream, what: &str) {
        let mut text = Vec::new();
        while !String::from_utf8_lossy(&text).contains(what) {
            let mut buffer = [0; 1024];
            let read = stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "it ended before {what}: {}", String::from_utf8_lossy(&text));
            text.extend(&buffer[..read]);
        }
    }

    #[tokio::test]
    async fn answers_and_events_arrive_at_once() {
        let serving = served().await;
        read_until(&mut ask(&serving, "/hello").await, "/hello").await;
        read_until(&mut ask(&serving, "/watch").await, "event").await;
        assert!(serving.url().starts_with("http://127.0.0.1:"));
    }

    #[tokio::test]
    async fn binary_bodies_become_json() {
        let serving = served().await;
        let mut stream = TcpStream::connect(serving.address()).await.unwrap();
        let body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x09\x0a\x07\x0a\x01a\x12\x00\x1a\x00";
        let head = format!(
            "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n",
            protobuf::CONTENT_TYPE,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        read_until(&mut stream, r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}"#).await;
    }

    #[tokio::test]
    async fn a_shutdown_ends_watches_and_frees_the_port() {
        let serving = served().await;
        let address = serving.address();
        let mut watching = ask(&serving, "/watch").await;
        read_until(&mut watching, "event").await;
        serving.shutdown().await;
        let mut rest = Vec::new();
        // An end or a reset, but no waiting.
        let _ = watching.read_to_end(&mut rest).await;
        TcpListener::bind(address).await.expect("the port is free again");
    }
}
