//! Reads of the past, for pages of one list that must agree with each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Entry, Table};

/// Objects with their keys, in order.
pub(crate) type Entries<'a> = Box<dyn Iterator<Item = (&'a String, &'a Arc<Entry>)> + 'a>;

/// What a list may return at most, from where.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) namespace: String,
    /// Keys from this one on.
    pub(crate) start: Option<String>,
    /// The revision to read at, or the latest.
    pub(crate) revision: Option<u64>,
}

impl Table {
    /// Objects in order as of a revision, or `None` when it is forgotten.
    pub(crate) fn read<'a>(&'a self, page: &Page) -> Option<Entries<'a>> {
        let prefix = if page.namespace.is_empty() { String::new() } else { format!("{}/", page.namespace) };
        let start = page.start.clone().unwrap_or_default().max(prefix.clone());
        let in_range = {
            let (prefix, start) = (prefix.clone(), start.clone());
            move |key: &str| key.starts_with(&prefix) && key >= start.as_str()
        };
        let live = self.objects.range(start..).take_while(move |(key, _)| key.starts_with(&prefix));
        let Some(revision) = page.revision else { return Some(Box::new(live)) };
        // The first change of each key after the revision says what was there before.
        let mut before: BTreeMap<&String, Option<&Arc<Entry>>> = BTreeMap::new();
        for change in self.changes_since(revision)? {
            if in_range(&change.key) {
                before.entry(&change.key).or_insert(change.old.as_ref());
            }
        }
        if before.is_empty() {
            return Some(Box::new(live));
        }
        let mut merged: BTreeMap<&String, &Arc<Entry>> = live.collect();
        for (key, old) in before {
            match old {
                Some(entry) => merged.insert(key, entry),
                None => merged.remove(key),
            };
        }
        Some(Box::new(merged.into_iter()))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::super::Store;
    use super::*;
    use crate::resource::GroupKind;

    #[test]
    fn the_past_is_read_as_it_was() {
        let kind = GroupKind { group: String::new(), kind: "ConfigMap".to_owned() };
        let mut store = Store::new(100);
        let at = Timestamp::UNIX_EPOCH;
        let object = |data: u8| json!({"metadata": {}, "data": data});
        store.put(&kind, "a/x", object(1), at);
        store.put(&kind, "a/y", object(1), at);
        store.put(&kind, "b/z", object(1), at);
        let then = store.revision();
        store.put(&kind, "a/x", object(2), at);
        store.put(&kind, "a/x", object(3), at);
        store.remove(&kind, "a/y", at);
        store.put(&kind, "a/n", object(1), at);
        let table = store.table(&kind).unwrap();
        let read = |revision: Option<u64>, start: Option<&str>, namespace: &str| -> Vec<String> {
            let page = Page { namespace: namespace.to_owned(), start: start.map(str::to_owned), revision };
            table.read(&page).unwrap().map(|(k, e)| format!("{k}={}", e.value["data"])).collect()
        };
        assert_eq!(read(Some(then), None, ""), ["a/x=1", "a/y=1", "b/z=1"]);
        assert_eq!(read(Some(then), Some("a/x\0"), "a"), ["a/y=1"]);
        assert_eq!(read(None, None, "a"), ["a/n=1", "a/x=3"]);
        assert_eq!(read(Some(then + 4), None, ""), ["a/n=1", "a/x=3", "b/z=1"]);
    }
}
