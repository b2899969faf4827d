//! Get, list and the start of a watch.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Answer, Call, State, storage};
use crate::resource::ResourceType;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{Cause, Failure};
use crate::store::{Delivery, Entry, EventType, Filter, Page, Watcher};

/// Objects of a list, and what goes into its metadata.
#[derive(Debug)]
pub(crate) struct ListAnswer {
    pub(crate) items: Vec<Arc<Entry>>,
    pub(crate) revision: u64,
    pub(crate) next: Option<String>,
    pub(crate) remaining: Option<usize>,
}

impl ListAnswer {
    pub(crate) fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(next) = &self.next {
            metadata["continue"] = json!(next);
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        metadata
    }
}

/// A watch that is registered: what it shows first, and where more comes from.
#[derive(Debug)]
pub(crate) struct WatchStart {
    pub(crate) kind: Arc<ResourceType>,
    /// Objects that are there already.
    pub(crate) present: Vec<Arc<Entry>>,
    /// Changes since the revision that was asked for.
    pub(crate) missed: Vec<Delivery>,
    pub(crate) receiver: UnboundedReceiver<Delivery>,
    pub(crate) bookmarks: bool,
    /// A bookmark says where the initial objects end.
    pub(crate) marks_initial_end: bool,
    pub(crate) revision: u64,
    pub(crate) timeout_seconds: u64,
    /// Told instead of anything else.
    pub(crate) expired: Option<Failure>,
}

/// Where a client that names no time is cut off.
const WATCH_SECONDS: u64 = 1800;
const NOT_OLDER: &str = "NotOlderThan";

impl State {
    pub(super) fn get(&mut self, call: &Call) -> Result<Answer, Failure> {
        if let Some(text) = call.query.get("resourceVersion") {
            let wanted: u64 = text.parse().map_err(|_| invalid_version(text))?;
            self.check_not_future(wanted)?;
        }
        self.find(call).map(Answer::Stored)
    }

    fn check_not_future(&self, wanted: u64) -> Result<(), Failure> {
        let current = self.store.revision();
        if wanted > current { Err(Failure::too_large_version(wanted, current)) } else { Ok(()) }
    }

    pub(crate) fn filter(&self, call: &Call) -> Result<Filter, Failure> {
        let labels = call.query.get("labelSelector").unwrap_or_default();
        let fields = call.query.get("fieldSelector").unwrap_or_default();
        let custom = self.custom.get(&call.kind.qualified()).and_then(|c| c.versions.get(&call.kind.version));
        let selectable = custom.map(|version| version.selectable.as_slice()).unwrap_or_default();
        Ok(Filter {
            namespace: call.namespace.clone(),
            labels: LabelSelector::parse(labels).map_err(Failure::bad_request)?,
            fields: FieldSelector::parse(fields, &call.kind, selectable).map_err(Failure::bad_request)?,
        })
    }

    pub(crate) fn list(&mut self, call: &Call) -> Result<ListAnswer, Failure> {
        let options = ListOptions::parse(call)?;
        let mut filter = self.filter(call)?;
        // A watch or list of one object, by path.
        if !call.name.is_empty() {
            filter = named(filter, call)?;
        }
        let mut page = Page { namespace: call.namespace.clone(), ..Page::default() };
        let mut remaining_before = None;
        if let Some(token) = &options.next {
            page.revision = token.revision;
            page.start = Some(token.start.clone());
            remaining_before = token.remaining;
        } else if let Some(wanted) = options.revision.filter(|revision| *revision > 0) {
            self.check_not_future(wanted)?;
            if options.exact {
                page.revision = Some(wanted);
            }
        }
        let revision = page.revision.unwrap_or(self.store.revision());
        let empty = ListAnswer { items: Vec::new(), revision, next: None, remaining: None };
        let Some(table) = self.store.table(&storage(&call.kind)) else { return Ok(empty) };
        let limit = options.limit.unwrap_or(usize::MAX);
        let node = filter.fields.exact("spec.nodeName").filter(|node| !node.is_empty());
        let mut source: Box<dyn Iterator<Item = (&String, &Arc<Entry>)>> = match node {
            Some(node) if page.revision.is_none() && options.limit.is_none() => {
                let prefix = if call.namespace.is_empty() { String::new() } else { format!("{}/", call.namespace) };
                Box::new(table.on_node(node).filter(move |(key, _)| key.starts_with(&prefix)))
            }
            _ => table.read(&page).ok_or_else(|| expired_list(options.next.is_some()))?,
        };
        let mut answer = empty;
        let mut last = String::new();
        while answer.items.len() < limit {
            let Some((key, entry)) = source.next() else { return Ok(answer) };
            if filter.matches(&entry.value) {
                answer.items.push(Arc::clone(entry));
                last.clone_from(key);
            }
        }
        // Is there more? Counting is left out when a selector would make it a guess.
        let more = if filter.selects_all() {
            let rest = match remaining_before {
                Some(before) => before.saturating_sub(answer.items.len()),
                None => source.count(),
            };
            answer.remaining = (rest > 0).then_some(rest);
            rest > 0
        } else {
            source.next().is_some()
        };
        if more {
            let token = Continue { revision: Some(revision), start: format!("{last}\0"), remaining: answer.remaining };
            answer.next = Some(token.encode());
        }
        Ok(answer)
    }

    pub(super) fn watch(&mut self, call: &Call) -> Result<WatchStart, Failure> {
        let options = ListOptions::parse(call)?;
        let mut filter = self.filter(call)?;
        if !call.name.is_empty() {
            filter = named(filter, call)?;
        }
        let bookmarks = call.query.flag("allowWatchBookmarks");
        let current = self.store.revision();
        let table = self.store.table_mut(&storage(&call.kind));
        let (sender, receiver) = unbounded_channel();
        let mut start = WatchStart {
            kind: Arc::clone(&call.kind),
            present: Vec::new(),
            missed: Vec::new(),
            receiver,
            bookmarks,
            marks_initial_end: false,
            revision: current,
            timeout_seconds: options.timeout_seconds.filter(|s| *s > 0).unwrap_or(WATCH_SECONDS),
            expired: None,
        };
        let from = options.revision.filter(|revision| *revision > 0);
        let initial = options.send_initial.unwrap_or(from.is_none());
        if initial {
            let matching = table.range(&call.namespace).filter(|(_, entry)| filter.matches(&entry.value));
            start.present = matching.map(|(_, entry)| Arc::clone(entry)).collect();
            start.marks_initial_end = bookmarks;
        } else if let Some(from) = from {
            if let Some(changes) = table.changes_since(from) {
                let seen = changes.filter_map(|change| {
                    filter.event(change).map(|event| Delivery { event, change: Arc::clone(change) })
                });
                start.missed = seen.collect();
            } else {
                let message = format!("too old resource version: {from} ({})", table.forgotten());
                start.expired = Some(Failure::expired(message));
                return Ok(start);
            }
            // A watch from the future sees only what comes after that revision.
            if from > current {
                start.revision = from;
            }
        }
        table.watchers.add(Watcher { filter, sender });
        Ok(start)
    }
}

fn named(mut filter: Filter, call: &Call) -> Result<Filter, Failure> {
    let selector = format!("metadata.name={}", call.name.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\="));
    filter.fields = FieldSelector::parse(&selector, &call.kind, &[]).map_err(Failure::bad_request)?;
    Ok(filter)
}

impl Delivery {
    /// What the event shows: where an object leaves the selection, its last state inside of it.
    pub(crate) fn shown(&self) -> &Arc<Entry> {
        match (self.event, &self.change.new, &self.change.old) {
            (EventType::Deleted, Some(_), Some(old)) => old,
            _ => &self.change.shown,
        }
    }

    /// Whether the object left the selection, but was not deleted.
    pub(crate) fn left_selection(&self) -> bool {
        self.event == EventType::Deleted && self.change.new.is_some()
    }
}

fn invalid_version(text: &str) -> Failure {
    Failure::bad_request(format!(
        "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
    ))
}

fn expired_list(continued: bool) -> Failure {
    Failure::expired(if continued {
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
    } else {
        "The resourceVersion for the provided list is too old."
    })
}

#[derive(Debug, Default)]
struct ListOptions {
    limit: Option<usize>,
    next: Option<Continue>,
    revision: Option<u64>,
    exact: bool,
    send_initial: Option<bool>,
    timeout_seconds: Option<u64>,
}

/// Where the next page starts.
#[derive(Debug)]
struct Continue {
    revision: Option<u64>,
    start: String,
    remaining: Option<usize>,
}

impl Continue {
    fn encode(&self) -> String {
        let token = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.start, "left": self.remaining});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn decode(text: &str) -> Result<Self, Failure> {
        let invalid =
            |why: &str| Failure::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|e| invalid(&e.to_string()))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|e| invalid(&e.to_string()))?;
        if token["v"] != "meta.k8s.io/v1" {
            return Err(invalid(&format!("server does not recognize this encoded version {}", token["v"])));
        }
        let start = token["start"].as_str().filter(|s| !s.is_empty());
        let start = start.ok_or_else(|| invalid("encoded start key empty, no version start key"))?.to_owned();
        let remaining = token["left"].as_u64().and_then(|n| usize::try_from(n).ok());
        Ok(Self { revision: token["rv"].as_u64().filter(|r| *r > 0), start, remaining })
    }
}

impl ListOptions {
    fn parse(call: &Call) -> Result<Self, Failure> {
        let watching = call.verb == crate::request::Verb::Watch;
        let number = |name: &str| -> Result<Option<i64>, Failure> {
            let Some(text) = call.query.get(name) else { return Ok(None) };
            let parsed = text.parse::<i64>();
            let invalid = |_| Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
            parsed.map(Some).map_err(invalid)
        };
        let forbidden =
            |detail: &str| Failure::invalid_options("ListOptions", Cause::forbidden("resourceVersionMatch", detail));
        let limit = number("limit")?.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0 && !watching);
        let timeout_seconds = number("timeoutSeconds")?.and_then(|n| u64::try_from(n).ok());
        let send_initial = call.query.get("sendInitialEvents").map(|_| call.query.flag("sendInitialEvents"));
        let revision_text = call.query.get("resourceVersion");
        let matching = call.query.get("resourceVersionMatch");
        let next = call.query.get("continue").filter(|_| !watching);
        if let Some(matching) = matching
            && matching != NOT_OLDER
            && matching != "Exact"
        {
            let cause = Cause::unsupported("resourceVersionMatch", &json!(matching), &["Exact", NOT_OLDER, ""]);
            return Err(Failure::invalid_options("ListOptions", cause));
        }
        if watching {
            match (send_initial, matching) {
                (Some(_), Some(NOT_OLDER)) | (None, None) => {}
                (Some(_), _) => {
                    return Err(forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
                }
                (None, Some(_)) => {
                    return Err(forbidden(
                        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                    ));
                }
            }
        } else if send_initial.is_some() {
            let cause = Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
            return Err(Failure::invalid_options("ListOptions", cause));
        } else if let Some(matching) = matching {
            if next.is_some() {
                return Err(forbidden("resourceVersionMatch is forbidden when continue is provided"));
            }
            if revision_text.is_none() {
                return Err(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
            }
            if matching == "Exact" && revision_text == Some("0") {
                return Err(forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
            }
        }
        let revision = match revision_text {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| {
                if watching {
                    Failure::internal(format!(
                        "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
                    ))
                } else {
                    invalid_version(text)
                }
            })?),
        };
        let next = next.map(Continue::decode).transpose()?;
        if next.is_some() && revision.is_some_and(|r: u64| r > 0) {
            return Err(Failure::bad_request("specifying resource version is not allowed when using continue"));
        }
        // A page of a list at a revision is of that very revision.
        let exact =
            matching == Some("Exact") || (matching.is_none() && limit.is_some() && revision.is_some_and(|r| r > 0));
        Ok(Self { limit, next, revision, exact, send_initial, timeout_seconds })
    }
}
