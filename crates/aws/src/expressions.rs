//! Expressions for amounts in the kubelet's settings, a gate's worth (§2.10): the language is CEL, the answer a whole number.

mod cache;

use std::sync::Arc;

use kube_cel::cel::extractors::Arguments;
use kube_cel::cel::{Context, ExecutionError, Program, Value};

pub use cache::{Cache, Compiled};

/// What an expression knows of a type (AWS-95).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inputs<'a> {
    pub vcpus: i64,
    pub memory_mib: i64,
    /// Interfaces of the default network card.
    pub default_enis: i64,
    pub ips_per_eni: i64,
    pub max_pods: i64,
    pub instance_type: &'a str,
}

/// Both the parser and the interpreter call themselves for each bracket and each operator, with tens of kilobytes each time, and a stack
/// that is too small for that ends the process. What is let through takes four megabytes, more than a usual thread has.
const MOST_BYTES: usize = 1024;
const MOST_BRACKETS: usize = 16;
const MOST_OPERATORS: usize = 64;
const STACK: usize = 32 << 20;

/// Expressions are compiled and evaluated on such a stack only.
pub fn on_a_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("expressions".to_owned()).stack_size(STACK);
        let running = thread.spawn_scoped(scope, work);
        let running = running.map_err(|error| format!("there is no thread to evaluate expressions on: {error}"))?;
        running.join().map_err(|_| "the evaluation of expressions ended early".to_owned())
    })
}

/// Types of all sizes: CEL knows what an expression is only when it is tried, and some parts are tried for few of them.
const TRIED: [Inputs<'static>; 4] = [
    tried(1, 512, 2, 2, 4, "t3.nano"),
    tried(2, 8_192, 3, 10, 29, "m5.large"),
    tried(16, 65_536, 8, 30, 234, "g5.4xlarge"),
    tried(192, 786_432, 15, 50, 737, "c7i.metal-48xl"),
];

const fn tried(
    vcpus: i64,
    memory_mib: i64,
    default_enis: i64,
    ips_per_eni: i64,
    max_pods: i64,
    instance_type: &'static str,
) -> Inputs<'static> {
    Inputs { vcpus, memory_mib, default_enis, ips_per_eni, max_pods, instance_type }
}

thread_local! {
    /// Functions are the same for every expression, and there are many of them.
    static FUNCTIONS: Context<'static> = functions();
}

fn functions() -> Context<'static> {
    let mut functions = Context::default();
    functions.add_function("max", |Arguments(given): Arguments| pick("max", &given, f64::max, i64::max));
    functions.add_function("min", |Arguments(given): Arguments| pick("min", &given, f64::min, i64::min));
    functions
}

/// Two whole numbers give a whole one, anything else with a fraction a fraction.
fn pick(
    name: &str,
    given: &[Value],
    fractions: fn(f64, f64) -> f64,
    wholes: fn(i64, i64) -> i64,
) -> Result<Value, ExecutionError> {
    #[expect(clippy::cast_precision_loss, reason = "CEL converts so, too")]
    match given {
        [Value::Int(a), Value::Int(b)] => Ok(Value::Int(wholes(*a, *b))),
        [Value::Float(a), Value::Float(b)] => Ok(Value::Float(fractions(*a, *b))),
        [Value::Int(a), Value::Float(b)] => Ok(Value::Float(fractions(*a as f64, *b))),
        [Value::Float(a), Value::Int(b)] => Ok(Value::Float(fractions(*a, *b as f64))),
        [_, _] => Err(ExecutionError::NoSuchOverload),
        _ => Err(ExecutionError::function_error(name, "takes two numbers")),
    }
}

/// An expression that gives a number.
pub struct Expression {
    text: String,
    program: Program,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

impl Expression {
    /// The error says what is wrong with the text itself, whatever the type (AWS-96).
    pub fn compile(text: &str) -> Result<Arc<Self>, String> {
        if text.trim().is_empty() {
            return Err("the expression is empty".to_owned());
        }
        if text.len() > MOST_BYTES {
            return Err(format!("the expression has {} bytes, at most {MOST_BYTES} are understood", text.len()));
        }
        let (brackets, operators) = complexity(text);
        if brackets > MOST_BRACKETS || operators > MOST_OPERATORS {
            return Err(format!(
                "the expression has {brackets} levels of brackets and {operators} operators, at most {MOST_BRACKETS} and \
                 {MOST_OPERATORS} are understood"
            ));
        }
        on_a_large_stack(|| Self::tried(text))?
    }

    fn tried(text: &str) -> Result<Arc<Self>, String> {
        let program = Program::compile(text).map_err(|error| one_line(&error.to_string()))?;
        if let Some(name) = unknown_variable(text, &program) {
            return Err(format!("{name} is not known; there are {}", VARIABLES.join(", ")));
        }
        let expression = Self { text: text.to_owned(), program };
        for inputs in &TRIED {
            match expression.value(inputs) {
                Ok(Value::Int(_) | Value::Float(_)) => {}
                Ok(other) => return Err(format!("the result is of type {}, not a number", other.type_of())),
                Err(error) if depends_on_values(&error) => {}
                Err(error) => return Err(one_line(&error.to_string())),
            }
        }
        Ok(Arc::new(expression))
    }

    /// Fractions are cut off. To be called [on a large stack](on_a_large_stack).
    pub fn evaluate(&self, inputs: &Inputs<'_>) -> Result<i64, String> {
        match self.value(inputs) {
            Ok(Value::Int(whole)) => Ok(whole),
            Ok(Value::Float(number)) => whole(number),
            Ok(other) => Err(format!("the result is of type {}, not a number", other.type_of())),
            Err(error) => Err(one_line(&error.to_string())),
        }
    }

    fn value(&self, inputs: &Inputs<'_>) -> Result<Value, ExecutionError> {
        FUNCTIONS.with(|functions| {
            let mut scope = functions.new_inner_scope();
            for (name, value) in [
                ("vcpus", inputs.vcpus),
                ("memory_mib", inputs.memory_mib),
                ("default_enis", inputs.default_enis),
                ("ips_per_eni", inputs.ips_per_eni),
                ("max_pods", inputs.max_pods),
            ] {
                scope.add_variable_from_value(name, value);
            }
            scope.add_variable_from_value("instance_type", inputs.instance_type.to_owned());
            self.program.execute(&scope)
        })
    }
}

/// Levels of brackets, and operators; those in texts count, too.
fn complexity(text: &str) -> (usize, usize) {
    let (mut open, mut deepest, mut operators) = (0_usize, 0, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'?' | b'!' | b'<' | b'>' | b'=' | b'&' | b'|' | b'.' => operators += 1,
            _ => {}
        }
        deepest = deepest.max(open);
    }
    (deepest, operators)
}

const VARIABLES: [&str; 6] = ["vcpus", "memory_mib", "default_enis", "ips_per_eni", "max_pods", "instance_type"];

/// Trying an expression does not show what is in branches that no type takes; names of lists' own elements are fine.
fn unknown_variable(text: &str, program: &Program) -> Option<String> {
    let compact: String = text.split_whitespace().collect();
    let element = |name: &str| {
        let of = |list: &str| compact.contains(&format!(".{list}({name},"));
        ["all", "exists", "exists_one", "map", "filter"].into_iter().any(of)
    };
    let references = program.references();
    let mut unknown: Vec<&str> = references.variables();
    unknown.retain(|name| !VARIABLES.contains(name) && !element(name));
    unknown.sort_unstable();
    unknown.first().map(|name| (*name).to_owned())
}

/// Errors that another type may not have.
fn depends_on_values(error: &ExecutionError) -> bool {
    use ExecutionError::{DivisionByZero, IndexOutOfBounds, NoSuchKey, Overflow, RemainderByZero};
    matches!(error, DivisionByZero(_) | RemainderByZero(_) | Overflow(..) | IndexOutOfBounds(_) | NoSuchKey(_))
}

fn whole(number: f64) -> Result<i64, String> {
    // 2^63 is the first that is too large; its negative still fits.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if !number.is_finite() {
        return Err("the result is not a finite number".to_owned());
    }
    if !(-LIMIT..LIMIT).contains(&number) {
        return Err(format!("the result {number} is out of range"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "within range, and fractions are to be cut off")]
    Ok(number as i64)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The most that a kubelet takes (AWS-97).
pub fn max_pods(result: i64) -> Result<i64, String> {
    let fits = (0..=i64::from(i32::MAX)).contains(&result);
    fits.then_some(result).ok_or_else(|| format!("the result {result} is not a number of pods"))
}

/// The amount of a resource as the kubelet is told it, rounded up to steps so that few launch templates differ (AWS-98).
pub fn amount(resource: &str, result: i64) -> Result<String, String> {
    if result < 0 {
        return Err(format!("the result {result} is negative"));
    }
    let stepped = |step: i64| (result.checked_add(step - 1)).map_or(result, |above| above / step * step);
    Ok(match resource {
        "cpu" => format!("{}m", stepped(10)),
        "memory" => format!("{}Mi", stepped(16)),
        "ephemeral-storage" => format!("{result}Gi"),
        _ => result.to_string(),
    })
}

#[cfg(test)]
mod tests;
