//! The features that admission policies need of the language: variables that are found when they are read, an
//! authorizer that the caller brings, and objects of which no schema is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use keepwatch_cel::env::Env;
use keepwatch_cel::eval::{Activation, EvalError, Program};
use keepwatch_cel::library::show;
use keepwatch_cel::schema::Declared;
use keepwatch_cel::types::{ObjectType, Type};
use keepwatch_cel::value::{Authorizer, Check, CheckTarget, Decision, Fields, ResourceAttributes, Value};
use serde_json::json;

const COST_MAX: u64 = 1_000_000;

/// An object type with these fields.
fn object_type(name: &str, fields: Vec<(&'static str, Declared)>) -> Type {
    Type::Object(ObjectType { name: Arc::from(name), declared: Arc::new(Declared::object(fields)) })
}

/// The environment of a policy with two variables.
fn environment() -> Env {
    let request =
        object_type("kubernetes.AdmissionRequest", vec![("operation", Declared::typed(Type::String))]);
    let variables = object_type(
        "kubernetes.variables",
        vec![("replicas", Declared::typed(Type::Int)), ("broken", Declared::any())],
    );
    Env::kubernetes()
        .with_variable("object", Type::Dyn)
        .with_variable("oldObject", Type::Dyn)
        .with_variable("request", request)
        .with_variable("authorizer", Type::Opaque("kubernetes.authorization.Authorizer"))
        .with_variable("authorizer.requestResource", Type::Opaque("kubernetes.authorization.ResourceCheck"))
        .with_variable("variables", variables)
}

/// Finds a variable by evaluating its own program.
#[derive(Debug)]
struct Variables<'v> {
    program: &'v Program,
    object: &'v serde_json::Value,
    evaluations: AtomicUsize,
}

impl Fields for Variables<'_> {
    fn field<'a>(&'a self, name: &str) -> Option<(Result<Value<'a>, EvalError>, u64)> {
        if name != "replicas" {
            return None;
        }
        self.evaluations.fetch_add(1, Ordering::Relaxed);
        Some(self.program.eval(&Activation::new(vec![Some(Value::from_json(self.object))]), COST_MAX))
    }
}

/// Allows reading, and remembers nothing.
#[derive(Debug)]
struct Readers;

impl Authorizer for Readers {
    fn decide(&self, check: &Check<'_>) -> Decision {
        let what = match check.target {
            CheckTarget::Path(path) => path.to_owned(),
            CheckTarget::Resource(resource) => {
                format!("{}.{}/{}/{}", resource.resource, resource.group, resource.namespace, resource.name)
            }
        };
        let who = check
            .service_account
            .map_or("user".to_owned(), |(namespace, name)| format!("{namespace}:{name}"));
        Decision { allowed: check.verb == "get", reason: format!("{who} {} {what}", check.verb), error: None }
    }
}

fn evaluate(expression: &str) -> (Result<String, String>, u64, usize) {
    let env = environment();
    let (_, program) = env.compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let object = json!({"spec": {"replicas": 3, "ratio": 0.5}, "metadata": {"name": "web"}});
    let request = json!({"operation": "CREATE"});
    let declared = Declared::object([("operation", Declared::typed(Type::String))]);
    let (_, replicas) = env.compile("object.spec.replicas").expect("the variable compiles");
    let variables = Variables { program: &replicas, object: &object, evaluations: AtomicUsize::new(0) };
    let resource = ResourceAttributes { resource: "pods".into(), name: "web".into(), ..Default::default() };
    let activation = Activation::new(vec![
        Some(Value::from_json(&object)),
        Some(Value::Null),
        Some(Value::from_declared(&request, &declared).expect("the request is of its type")),
        Some(Value::authorizer(&Readers)),
        Some(Value::request_resource(&Readers, resource)),
        Some(Value::fields(&variables)),
    ]);
    let (value, cost) = program.eval(&activation, COST_MAX);
    let value = value.map(|value| show(&value).unwrap_or_default()).map_err(|error| error.to_string());
    (value, cost, variables.evaluations.load(Ordering::Relaxed))
}

#[test]
fn an_object_without_a_schema_is_read_as_json() {
    for (expression, value) in [
        ("object.spec.replicas == 3 && object.spec.ratio < 1.0", Ok("true")),
        ("object.metadata.?labels.x.orValue('none')", Ok("none")),
        ("oldObject == null", Ok("true")),
        ("oldObject.spec", Err("no such key: spec")),
        ("object.spec.nope > 1", Err("no such key: nope")),
        ("request.operation == 'CREATE' && !has(request.operation)", Ok("false")),
    ] {
        let (found, ..) = evaluate(expression);
        assert_eq!(found.as_deref().map_err(String::as_str), value, "{expression}");
    }
}

#[test]
fn a_variable_is_found_when_it_is_read_and_its_cost_is_added() {
    let (value, cost, evaluations) = evaluate("true || variables.replicas > 1");
    assert_eq!((value, cost, evaluations), (Ok("true".into()), 0, 0));
    let (value, cost, evaluations) = evaluate("variables.replicas > 1");
    // Two for the variable, one for the comparison, three for the reads of the variable.
    assert_eq!((value, cost, evaluations), (Ok("true".into()), 6, 1));
}

#[test]
fn variables_have_the_types_that_are_declared() {
    let issues = environment().check("variables.replicas == 'a'").expect_err("types differ").to_string();
    assert!(issues.contains("found no matching overload for '_==_' applied to '(int, string)'"), "{issues}");
    let issues = environment().check("variables.later == 1").expect_err("it is not declared").to_string();
    assert!(issues.contains("undefined field 'later'"), "{issues}");
}

#[test]
fn the_authorizer_of_the_caller_decides() {
    for (expression, value) in [
        ("authorizer.path('/healthz').check('get').allowed()", Ok("true")),
        ("authorizer.path('/healthz').check('post').reason()", Ok("user post /healthz")),
        (
            "authorizer.group('apps').resource('deployments').namespace('a').name('b').check('get').reason()",
            Ok("user get deployments.apps/a/b"),
        ),
        ("authorizer.serviceAccount('ns', 'sa').path('/x').check('get').reason()", Ok("ns:sa get /x")),
        ("authorizer.requestResource.check('get').reason()", Ok("user get pods.//web")),
        ("authorizer.path('/x').check('get').errored()", Ok("false")),
        ("authorizer.path(' ').check('get').allowed()", Err("path must not be empty")),
        ("authorizer.group('').resource('').check('get').allowed()", Err("resource must not be empty")),
        (
            "authorizer.serviceAccount('ns', 'S A').path('/x').check('get').allowed()",
            Err("Invalid service account name"),
        ),
        (
            "[1, 2, 3].all(i, authorizer.path('/x').check('get').allowed())",
            Err("operation cancelled: actual cost limit exceeded"),
        ),
    ] {
        let (found, ..) = evaluate(expression);
        assert_eq!(found.as_deref().map_err(String::as_str), value, "{expression}");
    }
}

#[test]
fn a_loop_stops_when_the_caller_asks_it_to() {
    let env = environment();
    let (_, program) = env.compile("lists.range(1000).all(x, x >= 0)").expect("it compiles");
    let interrupted = || true;
    let activation = Activation::new(vec![]).interrupted_by(&interrupted);
    assert_eq!(program.eval(&activation, COST_MAX).0.map(|_| ()), Err(EvalError::Interrupted));
}
