//! The service on a port, for `kubectl` and every other client: plain HTTP/1.1, watches as chunked bodies.
//!
//! There is no TLS and no login, so it is meant for loopback addresses.

pub mod accept;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tower::Service;

/// What is under way at a shutdown may take this long to end; a watch would never end by itself and is cut off then.
const GRACE: Duration = Duration::from_millis(500);
/// After an error of `accept` (most likely too many open files) the next attempt waits a little, or it would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let (end, ended) = watch::channel(false);
    let task = tokio::spawn(accept(listener, service, ended));
    Ok(Serving { address, end, task })
}

async fn accept<S, B>(listener: TcpListener, service: S, mut ended: watch::Receiver<bool>)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
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
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // Events of a watch are small and should not wait for more.
    let _ = stream.set_nodelay(true);
    let served = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::pin!(served);
    tokio::select! {
        biased;
        _ = ended.changed() => {}
        _ = served.as_mut() => return,
    }
    served.as_mut().graceful_shutdown();
    let _ = served.await;
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::StreamExt as _;
    use http_body_util::combinators::UnsyncBoxBody;
    use http_body_util::{BodyExt as _, Full, StreamBody};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Says the path, or at `/watch` one line and then nothing for ever.
    async fn answer(request: Request<Incoming>) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
        let body = if request.uri().path() == "/watch" {
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
