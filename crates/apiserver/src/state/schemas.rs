//! Compiled schemas, shared by all servers of a process: tests start hundreds of them with the same definitions, and reading
//! the rules of one takes longer than a small test.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use karpenter_schema::{Schema, SchemaError};
use serde_json::Value;

/// More definitions than any test has; when there are more, all are forgotten.
const KEPT: usize = 64;

pub(super) fn compiled(schema: &Value) -> Result<Arc<Schema>, SchemaError> {
    static KNOWN: OnceLock<Mutex<HashMap<String, Arc<Schema>>>> = OnceLock::new();
    let known = KNOWN.get_or_init(Mutex::default);
    let text = schema.to_string();
    if let Some(schema) = known.lock().unwrap_or_else(PoisonError::into_inner).get(&text) {
        return Ok(schema.clone());
    }
    let schema = Arc::new(Schema::compile(schema)?);
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= KEPT {
        known.clear();
    }
    known.insert(text, schema.clone());
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_schema_is_compiled_once() {
        let schema = |least: u32| json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": least}}});
        let (first, again) = (compiled(&schema(1)).unwrap(), compiled(&schema(1)).unwrap());
        assert!(Arc::ptr_eq(&first, &again));
        assert!(!Arc::ptr_eq(&first, &compiled(&schema(2)).unwrap()));
        for least in 3..3 + 2 * u32::try_from(KEPT).unwrap() {
            compiled(&schema(least)).unwrap();
        }
        let after = compiled(&schema(1)).unwrap();
        assert_eq!(after.validate(&json!({"n": 0}), None).len(), 1, "forgotten and compiled again");
    }
}
