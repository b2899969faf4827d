//! The AWS APIs for tests: one emulator (`tools/aws_emulator`) per process, an account per test.
//!
//! An account is chosen by the access key, so that any client can use its own without knowing more than a URL. What a test
//! wants of its account beyond what AWS APIs offer (faults, no capacity, prices, denied rights) it says through
//! [`Account::change`]; `tools/aws_emulator/accounts.py` lists what can be said.

#![allow(clippy::panic, reason = "only tests use it, and they have nothing better to do without it")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

pub const REGION: &str = "us-west-2";
pub const SECRET: &str = "secret-of-tests";

/// It ends with this process: the end of its standard input is its end.
#[derive(Debug)]
struct Emulator {
    _child: Child,
    url: String,
}

fn emulator() -> &'static Emulator {
    static EMULATOR: OnceLock<Emulator> = OnceLock::new();
    EMULATOR.get_or_init(|| start().unwrap_or_else(|error| panic!("the AWS emulator does not start: {error:#}")))
}

fn start() -> Result<Emulator> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/aws-emulator.sh");
    let mut child = Command::new(&script)
        .args(["serve", "--while-stdin"])
        // Roles of CloudFormation stacks have policies of AWS's own, which moto only knows when asked to.
        .env("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", script.display()))?;
    let said = child.stdout.take().context("it has no output")?;
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line)?;
    let Some(url) = line.trim().strip_prefix("listening on ") else {
        bail!("it says {line:?}; `make aws-emulator` tells more");
    };
    Ok(Emulator { url: url.to_owned(), _child: child })
}

/// An AWS account of one test.
#[derive(Debug, Clone)]
pub struct Account {
    number: u64,
    region: &'static str,
}

impl Account {
    /// Nobody else's in this process.
    #[expect(clippy::new_without_default, reason = "every one is another one")]
    pub fn new() -> Self {
        Self::in_region(REGION)
    }

    /// One that is used in another region than most.
    pub fn in_region(region: &'static str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(500_000_000_001);
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), region }
    }

    pub fn id(&self) -> String {
        self.number.to_string()
    }

    pub fn region(&self) -> &'static str {
        self.region
    }

    /// Of the controller, to whom the account's policy and its faults apply.
    pub fn access_key(&self) -> String {
        format!("TEST{}", self.number)
    }

    /// Of the test itself, to whom they do not.
    pub fn owner_key(&self) -> String {
        format!("OWNER{}", self.number)
    }

    /// Where all services are.
    pub fn endpoint(&self) -> String {
        emulator().url.clone()
    }

    /// The environment of a process that uses the account.
    pub fn environment(&self) -> Vec<(String, String)> {
        let pairs = [
            ("AWS_ENDPOINT_URL", self.endpoint()),
            ("AWS_REGION", self.region.to_owned()),
            ("AWS_ACCESS_KEY_ID", self.access_key()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    /// Changes settings of the account.
    #[expect(clippy::needless_pass_by_value, reason = "callers write json!(...), not &json!(...)")]
    pub fn change(&self, settings: Value) -> Value {
        self.control("POST", "", &settings.to_string())
    }

    pub fn settings(&self) -> Value {
        self.control("GET", "", "")
    }

    /// What was called, oldest first: the members `operation`, `service`, `dry_run`, `page_size`, `user_agent` and more.
    pub fn calls(&self) -> Vec<Value> {
        self.control("GET", "/calls", "").as_array().cloned().unwrap_or_default()
    }

    /// How often an operation was called.
    pub fn count(&self, operation: &str) -> usize {
        self.calls().iter().filter(|call| call["operation"] == operation).count()
    }

    /// What templates gave to instances beyond what EC2 describes, by instance.
    pub fn launched(&self) -> Value {
        self.control("GET", "/instances", "")
    }

    /// Calls that rights did not allow.
    pub fn denials(&self) -> Vec<Value> {
        self.control("GET", "/denials", "").as_array().cloned().unwrap_or_default()
    }

    /// The same, and they are forgotten.
    pub fn take_denials(&self) -> Vec<Value> {
        self.control("GET", "/denials?clear=1", "").as_array().cloned().unwrap_or_default()
    }

    /// Any call of the account's owner, named as Python's client names it: `("sqs", "create_queue", {"QueueName": "q"})`.
    #[expect(clippy::needless_pass_by_value, reason = "callers write json!(...), not &json!(...)")]
    pub fn call(&self, service: &str, operation: &str, parameters: Value) -> Value {
        let body = json!({"service": service, "operation": operation, "parameters": parameters, "region": self.region});
        self.control("POST", "/call", &body.to_string())
    }

    /// Instances are in another state now, and nobody is told.
    pub fn put_into_state(&self, ids: &[&str], state: &str) {
        self.control("POST", "/stop", &json!({"instance_ids": ids, "state": state}).to_string());
    }

    fn control(&self, method: &str, what: &str, body: &str) -> Value {
        let path = format!("/_test/{}{what}", self.number);
        ask(&emulator().url, method, &path, body).unwrap_or_else(|error| panic!("{method} {path}: {error:#}"))
    }
}

/// One exchange, over plain HTTP/1.0, where an answer ends with its connection.
fn ask(url: &str, method: &str, path: &str, body: &str) -> Result<Value> {
    let address = url.strip_prefix("http://").context("not an address of an emulator")?;
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, said) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.split_whitespace().nth(1) == Some("200"), "{head}\n{said}");
    Ok(serde_json::from_str(said)?)
}
