//! Child processes that cannot outlive this one.
//!
//! Statics are never dropped and a process can be killed hard, so dropping alone is not enough. Each program therefore runs
//! under a small shell that holds the read end of a pipe whose write end only this process has: when this process ends, for
//! whatever reason, the kernel closes the pipe and the shell kills the program.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail};

/// Ends with the program's exit code when the program ends by itself, so that we see it. The watcher is a process of its
/// own, so killing the shell alone does not let the program loose either.
const SUPERVISOR: &str = r#"
exec 3<&0 </dev/null
"$@" 3<&- &
program=$!
{ read -r _ <&3; kill -KILL "$program"; } 2>/dev/null &
watcher=$!
trap 'kill -KILL "$program" 2>/dev/null' TERM INT HUP
wait "$program"
code=$?
kill -KILL "$watcher" 2>/dev/null
exit "$code"
"#;

/// Waits for the pipe to close, then removes the folder; the programs may still be writing to it for a moment. Logs stay
/// when the file that marks a failure is beside them.
const JANITOR: &str = r#"
read -r _
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  if [ -e "$1/logs/failed" ]; then
    find "$1" -mindepth 1 -maxdepth 1 ! -name logs -exec rm -rf {} + 2>/dev/null && break
  else
    rm -rf "$1" 2>/dev/null && break
  fi
  sleep 0.1
done
"#;

/// A program that is killed on drop and when this process ends.
#[derive(Debug)]
pub struct Supervised {
    name: String,
    shell: Child,
    log: PathBuf,
}

impl Supervised {
    pub(super) fn start(
        name: &str,
        path: &Path,
        args: Vec<String>,
        environment: &[(&str, &str)],
        folder: &Path,
    ) -> Result<Self> {
        let log = folder.join("logs").join(format!("{name}.log"));
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let shell = watched(SUPERVISOR)
            .arg(path)
            .args(args)
            .envs(environment.iter().copied())
            .current_dir(folder)
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name: name.to_owned(), shell, log })
    }

    /// Fails with the end of its log when the program has ended.
    pub fn ensure_running(&mut self) -> Result<()> {
        if let Some(status) = self.shell.try_wait()? {
            bail!("{} ended with {status}\n{}", self.name, self.last_words());
        }
        Ok(())
    }

    /// How the program ended, when it has.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.shell.try_wait()?)
    }

    /// The end of the program's log.
    pub fn last_words(&self) -> String {
        let mut text = Vec::new();
        let read = File::open(&self.log).and_then(|mut f| f.read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(15)..].join("\n");
        match read {
            Ok(_) => format!("--- end of {}\n{tail}\n", self.log.display()),
            Err(e) => format!("--- {} cannot be read: {e}\n", self.log.display()),
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        end(&mut self.shell);
    }
}

/// Removes the folder on drop and when this process ends.
#[derive(Debug)]
pub(super) struct Janitor(Child);

impl Janitor {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let shell = watched(JANITOR).arg(folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Self(shell.context("cannot start sh")?))
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// A shell in a process group of its own, so that Ctrl-C reaches this process only and the pipe does the rest.
fn watched(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).stdin(Stdio::piped()).process_group(0);
    command
}

fn end(shell: &mut Child) {
    drop(shell.stdin.take());
    // An error here means that it is gone already.
    let _ = shell.wait();
}
