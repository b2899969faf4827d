//! A thread whose stack is large enough for every expression that is let through.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};

/// Tens of kilobytes for each bracket and operator, in a build that is not optimised. Only what is used of it takes memory.
const STACK: usize = 256 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// Waits for the work. One thread for all, since starting one takes longer than most expressions do.
pub(super) fn on_the_large_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    static JOBS: LazyLock<Result<Sender<Job>, String>> = LazyLock::new(start);
    let jobs = JOBS.as_ref().map_err(Clone::clone)?;
    let (answer, answered) = mpsc::channel();
    // Who asked waits for the answer, or is gone with the process.
    let job: Job = Box::new(move || drop(answer.send(work())));
    let early = || "the evaluation of expressions ended early".to_owned();
    jobs.send(job).map_err(|_| early())?;
    answered.recv().map_err(|_| early())
}

fn start() -> Result<Sender<Job>, String> {
    let (jobs, given) = mpsc::channel::<Job>();
    let thread = std::thread::Builder::new().name("expressions".to_owned()).stack_size(STACK);
    let running = thread.spawn(move || {
        for job in given {
            // A panic is the end of that job; who waits for it is told by the missing answer.
            drop(catch_unwind(AssertUnwindSafe(job)));
        }
    });
    running.map(|_| jobs).map_err(|error| format!("there is no thread to evaluate expressions on: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_its_own_job() {
        let deep = on_the_large_stack(|| std::thread::current().name() == Some("expressions"));
        assert_eq!(deep, Ok(true));
        let ended: Result<(), String> = on_the_large_stack(|| panic!("as it was meant to"));
        assert!(ended.unwrap_err().contains("early"));
        assert_eq!(on_the_large_stack(|| 7), Ok(7));
    }
}
