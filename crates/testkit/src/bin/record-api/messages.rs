//! The binary form of built-in kinds, from the sources of the same release: `generated.proto` has numbers and types, `types.go`
//! tells which fields are inlined in JSON, and which are pointers, that is, mean something when they are zero.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

/// What `types.go` says of a field: by message and name in the binary form.
type Marks = BTreeMap<(String, String), Mark>;

struct Mark {
    json: String,
    inline: bool,
    pointer: bool,
}

/// By the name of the schema, a list of `[number, name in JSON, type, how]`, where `how` is made of `r` (repeated), `m` (map
/// from text), `i` (inlined) and `p` (kept when zero).
pub(crate) fn messages() -> Result<BTreeMap<String, Value>> {
    let mut messages = BTreeMap::new();
    for folder in modules()? {
        let mut files = Vec::new();
        find(&folder, &mut files)?;
        for file in files {
            read(&file, &mut messages)?;
        }
    }
    Ok(messages)
}

/// Where Go keeps the sources that the API server is built from.
fn modules() -> Result<Vec<PathBuf>> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kubernetes");
    let modules = ["k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver"];
    let out = Command::new("go").args(["list", "-m", "-f", "{{.Dir}}"]).args(modules).current_dir(tools).output()?;
    ensure!(out.status.success(), "go list: {}", String::from_utf8_lossy(&out.stderr));
    Ok(String::from_utf8(out.stdout)?.lines().map(PathBuf::from).collect())
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            find(&path, files)?;
        } else if path.ends_with("generated.proto") && !early(folder) {
            files.push(path);
        }
    }
    Ok(())
}

/// Versions that are off by default.
fn early(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| ["alpha", "beta"].iter().any(|word| name.to_string_lossy().contains(word)))
}

fn read(proto: &Path, messages: &mut BTreeMap<String, Value>) -> Result<()> {
    let text = std::fs::read_to_string(proto).with_context(|| proto.display().to_string())?;
    let package = text.lines().find_map(|line| line.strip_prefix("package ")).unwrap_or_default();
    let package = package.trim_end_matches(';').to_owned();
    let folder = proto.parent().context("a file is in a folder")?;
    let mut marks = Marks::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "go") {
            read_marks(&std::fs::read_to_string(path)?, &mut marks);
        }
    }
    let mut message = String::new();
    let mut fields: Vec<Value> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("message ").and_then(|l| l.strip_suffix(" {")) {
            name.clone_into(&mut message);
            fields = Vec::new();
        } else if line == "}" && !message.is_empty() {
            messages.insert(schema_name(&package, &message), json!(fields));
        } else if let Some(found) = field(line, &package, &message, &marks) {
            fields.push(found);
        }
    }
    Ok(())
}

/// `optional string name = 1;`, `repeated Foo foos = 2;` or `map<string, Bar> bars = 3;`
fn field(line: &str, package: &str, message: &str, marks: &Marks) -> Option<Value> {
    let (left, number) = line.strip_suffix(';')?.split_once(" = ")?;
    let (what, name) = left.rsplit_once(' ')?;
    let (mut how, of) = if let Some(of) = what.strip_prefix("map<string, ") {
        ("m".to_owned(), of.trim_end_matches('>'))
    } else if let Some(of) = what.strip_prefix("repeated ") {
        ("r".to_owned(), of)
    } else {
        (String::new(), what.strip_prefix("optional ")?)
    };
    let mark = marks.get(&(message.to_owned(), name.to_owned()));
    how.push_str(if mark.is_some_and(|m| m.inline) { "i" } else { "" });
    how.push_str(if mark.is_some_and(|m| m.pointer) { "p" } else { "" });
    let of = match of.strip_prefix('.') {
        Some(full) => full.rsplit_once('.').map(|(package, name)| schema_name(package, name))?,
        None if of.starts_with(char::is_uppercase) => schema_name(package, of),
        None => of.to_owned(),
    };
    let json = mark.filter(|m| !m.json.is_empty()).map_or(name, |m| &m.json);
    Some(json!([number.parse::<u32>().ok()?, json, of, how]))
}

/// `k8s.io.api.core.v1` and `Pod` are `io.k8s.api.core.v1.Pod` in OpenAPI.
fn schema_name(package: &str, name: &str) -> String {
    let rest = package
        .strip_prefix("k8s.io.")
        .unwrap_or(package)
        .replace("apiextensions_apiserver", "apiextensions-apiserver");
    format!("io.k8s.{rest}.{name}")
}

/// Fields of structs look like ``Name *int32 `json:"name,omitempty" protobuf:"varint,1,opt,name=name"` ``.
fn read_marks(source: &str, marks: &mut Marks) {
    let mut message = "";
    for line in source.lines() {
        if let Some(name) = line.strip_prefix("type ").and_then(|l| l.strip_suffix(" struct {")) {
            message = name;
        }
        let Some((before, tags)) = line.split_once('`') else { continue };
        let tag = |key: &str| tags.split_once(&format!("{key}:\"")).and_then(|(_, rest)| Some(rest.split_once('"')?.0));
        let (Some(json), Some(protobuf)) = (tag("json"), tag("protobuf")) else { continue };
        let Some(name) = protobuf.split(',').find_map(|part| part.strip_prefix("name=")) else { continue };
        let of = before.split_whitespace().last().unwrap_or_default();
        let (json, options) = json.split_once(',').unwrap_or((json, ""));
        let mark = Mark { json: json.to_owned(), inline: options.contains("inline"), pointer: of.starts_with('*') };
        marks.insert((message.to_owned(), name.to_owned()), mark);
    }
}
