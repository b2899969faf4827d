//! Expressions that choose devices, compiled where they are read, so that decisions need no interpreter (SCH-202).
//!
//! An expression sees `device.driver`, `device.attributes[domain].name`, `device.capacity[domain].name` and
//! `device.allowMultipleAllocations`. A domain that the device says nothing about is an empty map, as in the API server.

mod large_stack;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use karpenter_model::devices::{AttributeValue, Device, DeviceSelector, Selector};
use kube_cel::KubeCelExt as _;
use kube_cel::cel::{Context, Program, Value};

use self::large_stack::on_the_large_stack;

/// As long as the API server lets an expression be.
const MOST_BYTES: usize = 10 * 1024;

/// Both the parser and the interpreter call themselves for each bracket and each operator. Hundreds of alternatives are let through;
/// what they take is far less than the stack that they are evaluated on.
const MOST_BRACKETS: usize = 64;
const MOST_OPERATORS: usize = 512;

thread_local! {
    /// Functions are the same for every expression, and there are many of them.
    static FUNCTIONS: Context<'static> = Context::default().with_all();
}

#[derive(Debug, Clone)]
struct Expression(Arc<Compiled>);

struct Compiled {
    text: String,
    program: Program,
    /// Texts in the expression: those that name domains have to be there.
    domains: Vec<String>,
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text.fmt(f)
    }
}

pub(super) fn compile(text: &str) -> Selector {
    if text.len() > MOST_BYTES {
        return Selector::Unusable(format!("expression of {} bytes, at most {MOST_BYTES} are understood", text.len()));
    }
    let (brackets, operators) = complexity(text);
    if brackets > MOST_BRACKETS || operators > MOST_OPERATORS {
        return Selector::Unusable(format!(
            "expression with {brackets} levels of brackets and {operators} operators, at most {MOST_BRACKETS} and \
             {MOST_OPERATORS} are understood"
        ));
    }
    let owned = without_double_negations(text);
    let program = on_the_large_stack(move || Program::compile(&owned).map_err(|error| error.to_string()));
    match program.and_then(|program| program) {
        Ok(program) => {
            let domains = quoted(text);
            Selector::Compiled(Arc::new(Expression(Arc::new(Compiled { text: text.to_owned(), program, domains }))))
        }
        Err(error) => Selector::Unusable(format!("expression {text:?} does not compile: {error}")),
    }
}

/// The interpreter takes any number of exclamation marks in a row for one, so pairs of them are left out; those in texts are not.
fn without_double_negations(text: &str) -> String {
    let mut left = String::with_capacity(text.len());
    let mut within: Option<char> = None;
    let mut all = text.chars().peekable();
    while let Some(one) = all.next() {
        match within {
            Some(_) if one == '\\' => {
                left.push(one);
                left.extend(all.next());
                continue;
            }
            Some(quote) if one == quote => within = None,
            None if one == '\'' || one == '"' => within = Some(one),
            None if one == '!' && all.next_if_eq(&'!').is_some() => continue,
            _ => {}
        }
        left.push(one);
    }
    left
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
    // Words are operators, too.
    (deepest, operators + text.split_whitespace().filter(|word| *word == "in").count())
}

/// Texts in single or double quotes.
fn quoted(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for quote in ['"', '\''] {
        all.extend(text.split(quote).skip(1).step_by(2).map(ToOwned::to_owned));
    }
    all
}

impl DeviceSelector for Expression {
    fn matches(&self, driver: &str, device: &Device) -> Result<bool, String> {
        let (compiled, driver, device) = (self.0.clone(), driver.to_owned(), device.clone());
        on_the_large_stack(move || compiled.matches(&driver, &device))?
    }
}

impl Compiled {
    fn matches(&self, driver: &str, device: &Device) -> Result<bool, String> {
        FUNCTIONS.with(|functions| {
            let mut context = functions.new_inner_scope();
            let seen = self.seen(driver, device, functions);
            context.add_variable_from_value("device", seen);
            match self.program.execute(&context) {
                Ok(Value::Bool(matches)) => Ok(matches),
                Ok(other) => Err(format!("expression {:?} is {other:?}, neither true nor false", self.text)),
                Err(error) => Err(format!("expression {:?}: {error}", self.text)),
            }
        })
    }

    /// The device as expressions see it.
    fn seen(&self, driver: &str, device: &Device, functions: &Context<'_>) -> Value {
        let attributes = device.attributes.iter().map(|(name, value)| (name.as_str(), attribute(value, functions)));
        let capacity = device.capacity.iter();
        let capacity = capacity.map(|(name, one)| (name.as_str(), call("quantity", &one.value.to_string(), functions)));
        let members: HashMap<String, Value> = HashMap::from([
            ("driver".to_owned(), Value::from(driver.to_owned())),
            ("attributes".to_owned(), self.by_domain(driver, attributes)),
            ("capacity".to_owned(), self.by_domain(driver, capacity)),
            ("allowMultipleAllocations".to_owned(), Value::Bool(device.shared)),
        ]);
        Value::from(members)
    }

    /// Names without a domain are of the driver's own.
    fn by_domain<'a>(&self, driver: &str, all: impl Iterator<Item = (&'a str, Value)>) -> Value {
        let mut domains: BTreeMap<String, HashMap<String, Value>> = BTreeMap::new();
        for named in self.domains.iter().map(String::as_str).chain([driver]) {
            domains.entry(named.to_owned()).or_default();
        }
        for (name, value) in all {
            let (domain, name) = name.split_once('/').unwrap_or((driver, name));
            domains.entry(domain.to_owned()).or_default().insert(name.to_owned(), value);
        }
        let domains: HashMap<String, Value> =
            domains.into_iter().map(|(domain, names)| (domain, Value::from(names))).collect();
        Value::from(domains)
    }
}

fn attribute(value: &AttributeValue, functions: &Context<'_>) -> Value {
    match value {
        AttributeValue::Bool(value) => Value::Bool(*value),
        AttributeValue::Int(value) => Value::Int(*value),
        AttributeValue::Text(value) => Value::from(value.clone()),
        AttributeValue::Version(value) => call("semver", value, functions),
    }
}

/// What a function of one text makes of it; a text that it does not understand stays one.
fn call(function: &str, text: &str, functions: &Context<'_>) -> Value {
    let mut context = functions.new_inner_scope();
    context.add_variable_from_value("text", text.to_owned());
    let made = Program::compile(&format!("{function}(text)")).ok().and_then(|program| program.execute(&context).ok());
    made.unwrap_or_else(|| Value::from(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use karpenter_model::devices::{DeviceCapacity, ValidAmounts};
    use karpenter_model::quantity::Quantity;

    use super::*;

    fn device() -> Device {
        let memory = DeviceCapacity { value: Quantity::bytes(80 << 30), default: None, valid: ValidAmounts::Any };
        Device {
            name: "d".into(),
            attributes: BTreeMap::from([
                ("model".to_owned(), AttributeValue::Text("h100".into())),
                ("numa".to_owned(), AttributeValue::Int(1)),
                ("fast".to_owned(), AttributeValue::Bool(true)),
                ("firmware".to_owned(), AttributeValue::Version("1.10.0".into())),
                ("other.com/rack".to_owned(), AttributeValue::Text("r1".into())),
            ]),
            capacity: BTreeMap::from([("memory".to_owned(), memory)]),
            ..Device::default()
        }
    }

    fn asked(text: &str) -> Result<bool, String> {
        match compile(text) {
            Selector::Compiled(selector) => selector.matches("gpu.com", &device()),
            Selector::Unusable(why) => Err(why),
        }
    }

    /// SCH-202: what an expression may ask about.
    #[test]
    fn expressions_see_the_device() {
        for (text, want) in [
            ("true", true),
            ("device.driver == 'gpu.com'", true),
            ("device.driver == 'nic.com'", false),
            ("device.attributes['gpu.com'].model == 'h100'", true),
            ("device.attributes['gpu.com'].numa == 1 && device.attributes['gpu.com'].fast", true),
            ("device.attributes['other.com'].rack == 'r1'", true),
            ("device.attributes['gpu.com'].firmware.isGreaterThan(semver('1.9.0'))", true),
            ("device.capacity['gpu.com'].memory.compareTo(quantity('40Gi')) >= 0", true),
            ("device.capacity['gpu.com'].memory.compareTo(quantity('81Gi')) >= 0", false),
            ("'model' in device.attributes['gpu.com']", true),
            ("'model' in device.attributes['nowhere.com']", false),
            ("device.allowMultipleAllocations", false),
        ] {
            assert_eq!(asked(text), Ok(want), "{text}");
        }
    }

    /// SCH-202: what cannot be evaluated is an error that names the expression.
    #[test]
    fn expressions_that_fail() {
        for (text, part) in [
            ("device.attributes['gpu.com'].nothing == 1", "expression"),
            ("device.driver", "neither true nor false"),
            ("device.driver ==", "does not compile"),
            (&"x".repeat(MOST_BYTES + 1), "at most"),
            (&("(".repeat(MOST_BRACKETS + 1) + "true" + &")".repeat(MOST_BRACKETS + 1)), "at most"),
            (&("!".repeat(MOST_OPERATORS + 1) + "true"), "at most"),
            (&"!".repeat(MOST_BYTES), "at most"),
        ] {
            let why = asked(text).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn a_negation_of_a_negation_is_none() {
        for (text, want) in [
            ("!true", false),
            ("!!true", true),
            ("!!!true", false),
            ("!!!!(1 != 2)", true),
            ("device.driver != '!!'", true),
            ("!(\"a\\\"!!b\" == 'a\"!!b')", false),
        ] {
            assert_eq!(asked(text), Ok(want), "{text}");
        }
    }

    /// The largest expressions that are let through are answered, whatever they are made of.
    #[test]
    fn deep_expressions_are_evaluated() {
        let nested =
            |open: &str, inner: &str, close: &str, levels: usize| open.repeat(levels) + inner + &close.repeat(levels);
        let filler = format!(" || device.driver == '{}'", "x".repeat(MOST_BYTES / 8));
        for (text, want) in [
            ("!".repeat(MOST_OPERATORS) + "true", Ok(true)),
            (nested("(", "true", ")", MOST_BRACKETS), Ok(true)),
            (nested("(!", "true", ")", MOST_BRACKETS), Ok(true)),
            (nested("(true && ", "true", ")", MOST_BRACKETS), Ok(true)),
            (nested("[", "1", "]", MOST_BRACKETS) + " != []", Ok(true)),
            (format!("true{}", " && true".repeat(MOST_OPERATORS / 2)), Ok(true)),
            (format!("false{} || true", " || false".repeat(MOST_OPERATORS / 2 - 1)), Ok(true)),
            (format!("0{} == 254", " + 1".repeat(MOST_OPERATORS / 2 - 2)), Ok(true)),
            ("false ? false : ".repeat(64) + "true", Ok(true)),
            (nested("[1].all(x, ", "true", ")", MOST_BRACKETS), Ok(true)),
            (format!("true{}", filler.repeat(7)), Ok(true)),
        ] {
            assert!(text.len() <= MOST_BYTES, "{} bytes", text.len());
            assert_eq!(asked(&text), want, "{}", &text[..40]);
        }
        let chain = format!("device{}", ".a".repeat(MOST_OPERATORS));
        assert!(asked(&chain).unwrap_err().contains("expression"));
    }
}
