//! OpenAPI documents, built once: they are large, and a client such as kubectl asks for them again and again.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Response;

use crate::discovery;
use crate::respond;
use crate::watch::Body;

/// Twice the groups that a large cluster serves; a path can be spelt in many ways.
const MOST: usize = 256;

/// What was answered since kinds were defined or taken away.
#[derive(Debug, Default)]
pub(super) struct Documents {
    definitions: u64,
    answers: BTreeMap<Key, Document>,
}

/// Path, address by hash, and whether the binary form was asked for.
pub(super) type Key = (String, String, bool);

#[derive(Debug, Clone)]
pub(super) struct Document {
    status: u16,
    content_type: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
}

/// The key of an answer that can be kept. Only documents are, and under no more than two addresses each.
pub(super) fn key(path: &str, query: &str, accept: &str) -> Option<Key> {
    let by_hash = query.starts_with("hash=") && !query.contains('&');
    (path.starts_with("/openapi/") && (query.is_empty() || by_hash))
        .then(|| (path.to_owned(), query.to_owned(), accept.contains("protobuf")))
}

impl Documents {
    pub(super) fn get(&mut self, definitions: u64, key: &Key) -> Option<Document> {
        if self.definitions != definitions {
            self.definitions = definitions;
            self.answers.clear();
        }
        self.answers.get(key).cloned()
    }

    /// Keeps what is found under this key, unless kinds changed meanwhile.
    pub(super) fn keep(&mut self, definitions: u64, key: Key, document: &Document) {
        if self.definitions == definitions && document.status == 200 && self.answers.len() < MOST {
            self.answers.insert(key, document.clone());
        }
    }
}

impl From<discovery::Answer> for Document {
    fn from(answer: discovery::Answer) -> Self {
        Self {
            status: answer.status,
            content_type: answer.content_type,
            headers: answer.headers,
            body: answer.body.into(),
        }
    }
}

impl Document {
    pub(super) fn response(self) -> Response<Body> {
        let mut response = respond::response(self.status, self.content_type, respond::full(self.body));
        for (name, value) in self.headers {
            if let Ok(value) = http::HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}
