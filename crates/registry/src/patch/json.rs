//! JSON patches (RFC 6902): a list of operations, each on one path of the document.
//!
//! It differs from the RFC where Kubernetes does: `replace` adds a key that was not there, a negative index counts from
//! the end, only `replace` and `test` take the whole document, and a missing value is null.
//!
//! Kept true: no value that an operation adds is nested more deeply than the reader of documents allows; the size of
//! all copies has a limit, as each could otherwise double the document; and so has the number of list elements that
//! insertions and removals move, as each could otherwise move a whole list.

use super::{NESTING_LEVELS_MAX, PatchError, cannot_unmarshal, nesting};
use crate::schema::{self, Problems};
use serde_json::{Map, Value};
use std::io;

/// The maximum number of operations in a patch.
pub const OPERATIONS_MAX: usize = 10_000;

/// The maximum size of all JSON that `copy` operations of one patch make. It has no more values than a document may
/// have.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The maximum number of list elements that the insertions and removals of one patch move.
const MOVED_ELEMENTS_MAX: usize = 10_000_000;

/// The operations of a patch, in order.
#[derive(Clone, Debug)]
pub struct Patch(Vec<Operation>);

#[derive(Clone, Debug)]
enum Operation {
    Add {
        path: Pointer,
        value: Value,
    },
    Remove {
        path: Pointer,
    },
    Replace {
        path: Pointer,
        value: Value,
    },
    Move {
        from: Pointer,
        path: Pointer,
    },
    Copy {
        from: Pointer,
        path: Pointer,
    },
    Test {
        path: Pointer,
        value: Value,
    },
    /// Something is missing or unknown. The error is returned when the operation is applied, not before.
    Broken(&'static str),
}

/// The steps from the document to a place in it.
#[derive(Clone, Debug)]
struct Pointer(Vec<String>);

impl Patch {
    /// Reads a patch from a request's body. Unknown and duplicate members of operations are reported.
    pub fn parse(body: &[u8], problems: &mut Problems) -> Result<Patch, PatchError> {
        let message = |why: String| format!("error decoding patch: {why}");
        let malformed = |why| PatchError::Malformed(message(why));
        let mut found = Problems::default();
        let operations = match schema::read(body, &mut found).map_err(|error| error.map_message(message))? {
            Value::Array(operations) => operations,
            Value::Null => Vec::new(),
            other => {
                return Err(malformed(cannot_unmarshal(&other, "Go value of type []handlers.jsonPatchOp")));
            }
        };
        let count = operations.len();
        let operations = operations.into_iter().enumerate();
        let operations: Result<Vec<_>, _> =
            operations.map(|(at, operation)| Operation::read(operation, at, &mut found)).collect();
        let operations = operations.map_err(malformed)?;
        if !found.0.is_empty() {
            // In the order of the text.
            for problem in schema::operation_problems(body).0 {
                problems.add(format!("json patch {problem}"));
            }
        }
        if count > OPERATIONS_MAX {
            return Err(PatchError::TooManyOperations(count));
        }
        Ok(Patch(operations))
    }

    /// Applies the operations to a document, if each of them succeeds.
    pub fn apply(&self, mut document: Value) -> Result<Value, PatchError> {
        let mut budget = Budget {
            bytes: COPIED_BYTES_MAX,
            values: schema::VALUES_MAX,
            moved_elements: MOVED_ELEMENTS_MAX,
        };
        for operation in &self.0 {
            operation.apply(&mut document, &mut budget).map_err(PatchError::DoesNotFit)?;
        }
        Ok(document)
    }
}

impl Operation {
    fn read(operation: Value, at: usize, problems: &mut Problems) -> Result<Operation, String> {
        let mut members = match operation {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            other => return Err(cannot_unmarshal(&other, "Go value of type handlers.jsonPatchOp")),
        };
        let op = text(&mut members, "op")?;
        let path = text(&mut members, "path")?;
        let from = text(&mut members, "from")?;
        let value = members.remove("value").unwrap_or_default();
        for name in members.keys() {
            problems.add(format!("unknown field \"[{at}].{name}\""));
        }
        let path = path.as_deref().and_then(Pointer::parse);
        let from = from.as_deref().and_then(Pointer::parse);
        Ok(match (op.as_deref(), path, from) {
            (Some("add"), Some(path), _) => Operation::Add { path, value },
            (Some("remove"), Some(path), _) => Operation::Remove { path },
            (Some("replace"), Some(path), _) => Operation::Replace { path, value },
            (Some("move"), Some(path), Some(from)) => Operation::Move { from, path },
            (Some("copy"), Some(path), Some(from)) => Operation::Copy { from, path },
            (Some("test"), Some(path), _) => Operation::Test { path, value },
            (Some("add" | "remove" | "replace" | "move" | "copy" | "test"), ..) => {
                Operation::Broken("a path is missing or does not begin with a slash")
            }
            _ => Operation::Broken("there is no such operation"),
        })
    }

    fn apply(&self, document: &mut Value, budget: &mut Budget) -> Result<(), &'static str> {
        match self {
            Operation::Add { path, value } => {
                check_depth(path, value)?;
                add(document, path, value.clone(), budget)
            }
            Operation::Remove { path } => remove(document, path, budget).map(drop),
            Operation::Replace { path, value } => {
                check_depth(path, value)?;
                replace(document, path, value.clone())
            }
            Operation::Move { from, path } => {
                let value = remove(document, from, budget)?;
                if path.0.len() > from.0.len() {
                    budget.spend(&value, path)?;
                }
                add(document, path, value, budget)
            }
            Operation::Copy { from, path } => {
                let value = get(document, from)?;
                budget.spend(value, path)?;
                let value = value.clone();
                add(document, path, value, budget)
            }
            Operation::Test { path, value } => {
                let found = if path.0.is_empty() { &*document } else { get(document, path)? };
                if found == value { Ok(()) } else { Err("the tested value is another") }
            }
            Operation::Broken(why) => Err(why),
        }
    }
}

/// A member that is text if it is there.
fn text(members: &mut Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => {
            Err(cannot_unmarshal(&other, &format!("Go struct field jsonPatchOp.{name} of type string")))
        }
    }
}

impl Pointer {
    /// Parses `/a/b~1c`. Text before the first slash is ignored.
    fn parse(text: &str) -> Option<Pointer> {
        if text.is_empty() {
            return Some(Pointer(Vec::new()));
        }
        let steps = text.split_once('/')?.1.split('/');
        Some(Pointer(steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect()))
    }

    /// The last step, and those that lead to where it is taken.
    fn split(&self) -> Result<(&str, &[String]), &'static str> {
        let (last, parents) = self.0.split_last().ok_or("the whole document is not meant for this")?;
        Ok((last, parents))
    }
}

const NO_PATH: &str = "the path leads nowhere";
const NO_INDEX: &str = "the list has no such index";

/// The index of a step in a list of that length.
fn index(step: &str, len: usize) -> Result<usize, &'static str> {
    let at: i64 = step.parse().map_err(|_| NO_INDEX)?;
    let from_end = usize::try_from(at.unsigned_abs()).map_err(|_| NO_INDEX)?;
    let at = if at < 0 { len.checked_sub(from_end) } else { Some(from_end) };
    at.filter(|at| *at < len).ok_or(NO_INDEX)
}

/// The object or list that these steps lead to.
fn container<'a>(document: &'a mut Value, steps: &[String]) -> Result<&'a mut Value, &'static str> {
    steps.iter().try_fold(document, |value, step| match value {
        Value::Object(fields) => fields.get_mut(step).ok_or(NO_PATH),
        Value::Array(items) => {
            let at = index(step, items.len())?;
            Ok(&mut items[at])
        }
        _ => Err(NO_PATH),
    })
}

/// The value at a path. A key that an object does not have reads as null.
fn get<'a>(document: &'a mut Value, path: &Pointer) -> Result<&'a Value, &'static str> {
    let (last, parents) = path.split()?;
    match container(document, parents)? {
        Value::Object(fields) => Ok(fields.get(last).unwrap_or(&Value::Null)),
        Value::Array(items) => index(last, items.len()).map(|at| &items[at]),
        _ => Err(NO_PATH),
    }
}

fn add(document: &mut Value, path: &Pointer, value: Value, budget: &mut Budget) -> Result<(), &'static str> {
    let (last, parents) = path.split()?;
    match container(document, parents)? {
        Value::Object(fields) => drop(fields.insert(last.to_owned(), value)),
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(last, items.len() + 1)?;
            budget.spend_moves(items.len() - at)?;
            items.insert(at, value);
        }
        _ => return Err(NO_PATH),
    }
    Ok(())
}

fn replace(document: &mut Value, path: &Pointer, value: Value) -> Result<(), &'static str> {
    let Ok((last, parents)) = path.split() else {
        if !value.is_object() && !value.is_array() {
            return Err("a document is an object or a list");
        }
        *document = value;
        return Ok(());
    };
    match container(document, parents)? {
        Value::Object(fields) => drop(fields.insert(last.to_owned(), value)),
        Value::Array(items) => {
            let at = index(last, items.len())?;
            items[at] = value;
        }
        _ => return Err(NO_PATH),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &Pointer, budget: &mut Budget) -> Result<Value, &'static str> {
    let (last, parents) = path.split()?;
    match container(document, parents)? {
        Value::Object(fields) => fields.remove(last).ok_or(NO_PATH),
        Value::Array(items) => {
            let at = index(last, items.len())?;
            budget.spend_moves(items.len() - at)?;
            Ok(items.remove(at))
        }
        _ => Err(NO_PATH),
    }
}

/// Checks that a value is not nested too deep at a path.
fn check_depth(path: &Pointer, value: &Value) -> Result<(), &'static str> {
    let levels = NESTING_LEVELS_MAX.checked_sub(path.0.len());
    levels.and_then(|levels| nesting(value, levels)).map(drop).ok_or("the document would nest too deep")
}

/// The remaining cost that copies, insertions and removals may have. Moving a value deeper costs as well: its depth has
/// to be measured, and a patch could do that ten thousand times.
struct Budget {
    bytes: usize,
    values: usize,
    moved_elements: usize,
}

impl Budget {
    fn spend(&mut self, value: &Value, path: &Pointer) -> Result<(), &'static str> {
        check_depth(path, value)?;
        let left = self.values.checked_sub(schema::count_values(value));
        self.values = left.ok_or("the copies have too many values")?;
        serde_json::to_writer(self, value).map_err(|_| "the copies are too large")
    }

    /// Spends the budget for the list elements that an insertion or removal moves.
    fn spend_moves(&mut self, elements: usize) -> Result<(), &'static str> {
        let left = self.moved_elements.checked_sub(elements);
        self.moved_elements = left.ok_or("the patch moves too many elements of lists")?;
        Ok(())
    }
}

/// Spends the budget for written bytes, and fails when it is used up.
impl io::Write for Budget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes = self.bytes.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(document: &Value, patch: &Value) -> Result<Value, PatchError> {
        let mut problems = Problems::default();
        Patch::parse(patch.to_string().as_bytes(), &mut problems)?.apply(document.clone())
    }

    fn check(cases: impl IntoIterator<Item = (Value, Value, Value)>) {
        for (document, patch, result) in cases {
            assert_eq!(patched(&document, &patch), Ok(result), "{document} {patch}");
        }
    }

    fn check_refused(cases: impl IntoIterator<Item = (Value, Value)>) {
        for (document, patch) in cases {
            let error = patched(&document, &patch).expect_err(&format!("{document} {patch}"));
            assert!(matches!(error, PatchError::DoesNotFit(_)), "{error}");
        }
    }

    /// RFC 6902, appendix A, but for A.8, A.9, A.12, A.13 and A.15, which are among the failures below.
    #[test]
    fn the_examples_of_the_rfc_come_out_as_it_says() {
        let op = |op: &str, path: &str, value: Value| json!([{"op": op, "path": path, "value": value}]);
        check([
            (json!({"foo": "bar"}), op("add", "/baz", json!("qux")), json!({"baz": "qux", "foo": "bar"})),
            (
                json!({"foo": ["bar", "baz"]}),
                op("add", "/foo/1", json!("qux")),
                json!({"foo": ["bar", "qux", "baz"]}),
            ),
            (
                json!({"baz": "qux", "foo": "bar"}),
                json!([{"op": "remove", "path": "/baz"}]),
                json!({"foo": "bar"}),
            ),
            (
                json!({"foo": ["bar", "qux", "baz"]}),
                json!([{"op": "remove", "path": "/foo/1"}]),
                json!({"foo": ["bar", "baz"]}),
            ),
            (
                json!({"baz": "qux", "foo": "bar"}),
                op("replace", "/baz", json!("boo")),
                json!({"baz": "boo", "foo": "bar"}),
            ),
            (
                json!({"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}}),
                json!([{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}]),
                json!({"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}}),
            ),
            (
                json!({"foo": ["all", "grass", "cows", "eat"]}),
                json!([{"op": "move", "from": "/foo/1", "path": "/foo/3"}]),
                json!({"foo": ["all", "cows", "eat", "grass"]}),
            ),
            (
                json!({"baz": "qux", "foo": ["a", 2, "c"]}),
                json!([{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}]),
                json!({"baz": "qux", "foo": ["a", 2, "c"]}),
            ),
            (
                json!({"foo": "bar"}),
                op("add", "/child", json!({"grandchild": {}})),
                json!({"foo": "bar", "child": {"grandchild": {}}}),
            ),
            (
                json!({"foo": "bar"}),
                json!([{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}]),
                json!({"foo": "bar", "baz": "qux"}),
            ),
            (json!({"/": 9, "~1": 10}), op("test", "/~01", json!(10)), json!({"/": 9, "~1": 10})),
            (
                json!({"foo": ["bar"]}),
                op("add", "/foo/-", json!(["abc", "def"])),
                json!({"foo": ["bar", ["abc", "def"]]}),
            ),
        ]);
        check_refused([
            (json!({"baz": "qux"}), op("test", "/baz", json!("bar"))),
            (json!({"foo": "bar"}), op("add", "/baz/bat", json!("qux"))),
            (json!({"/": 9, "~1": 10}), op("test", "/~01", json!("10"))),
        ]);
    }

    /// The documents of the recorded scenario `patch.json`.
    #[test]
    fn every_operation_changes_a_config_map() {
        check([(
            json!({"data": {"k": "1", "m": "2"}}),
            json!([
                {"op": "test", "path": "/data/k", "value": "1"},
                {"op": "replace", "path": "/data/k", "value": "x"},
                {"op": "add", "path": "/data/n", "value": "3"},
                {"op": "remove", "path": "/data/m"},
                {"op": "copy", "from": "/data/n", "path": "/data/o"},
                {"op": "move", "from": "/data/o", "path": "/data/p"}
            ]),
            json!({"data": {"k": "x", "n": "3", "p": "3"}}),
        )]);
        let live = json!({"metadata": {}, "data": {"k": "x"}});
        check_refused([
            (live.clone(), json!([{"op": "test", "path": "/data/k", "value": "1"}])),
            (live.clone(), json!([{"op": "remove", "path": "/data/zzz"}])),
            (live.clone(), json!([{"op": "add", "path": "/metadata/labels/x", "value": "1"}])),
            (live, json!([{"op": "frob", "path": "/data/k"}])),
        ]);
    }

    #[test]
    fn extensions_that_kubernetes_makes_to_the_rfc_are_accepted() {
        check([
            (json!({}), json!([{"op": "replace", "path": "/a", "value": 1}]), json!({"a": 1})),
            (
                json!({"a": [1, 2]}),
                json!([{"op": "replace", "path": "/a/-1", "value": 3}]),
                json!({"a": [1, 3]}),
            ),
            (
                json!({"a": [1, 2]}),
                json!([{"op": "add", "path": "/a/-1", "value": 3}]),
                json!({"a": [1, 2, 3]}),
            ),
            (json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/-2"}]), json!({"a": [2]})),
            (json!({}), json!([{"op": "copy", "from": "/x", "path": "/a"}]), json!({"a": null})),
            (json!({}), json!([{"op": "test", "path": "/x", "value": null}]), json!({})),
            (
                json!({}),
                json!([{"op": "test", "path": "/x"}, {"op": "add", "path": "/a"}]),
                json!({"a": null}),
            ),
            (json!({"a": 1}), json!([{"op": "test", "path": "", "value": {"a": 1}}]), json!({"a": 1})),
            (json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {"b": 1}}]), json!({"b": 1})),
            (json!({"a": 1}), json!(null), json!({"a": 1})),
        ]);
    }

    #[test]
    fn operations_that_do_not_apply_are_rejected() {
        let live = json!({"a": [1], "b": "x", "n": null});
        for operation in [
            json!({"op": "replace", "path": "/a/1", "value": 1}),
            json!({"op": "replace", "path": "/a/-", "value": 1}),
            json!({"op": "replace", "path": "/c/d", "value": 1}),
            json!({"op": "replace", "path": "", "value": "text"}),
            json!({"op": "add", "path": "/a/2", "value": 1}),
            json!({"op": "add", "path": "/a/-3", "value": 1}),
            json!({"op": "add", "path": "/a/x", "value": 1}),
            json!({"op": "add", "path": "/a/99999999999999999999", "value": 1}),
            json!({"op": "add", "path": "/b/c", "value": 1}),
            json!({"op": "add", "path": "/n/c", "value": 1}),
            json!({"op": "add", "path": "", "value": {}}),
            json!({"op": "add", "path": "a", "value": 1}),
            json!({"op": "remove", "path": "/a/1"}),
            json!({"op": "remove", "path": ""}),
            json!({"op": "move", "from": "/zzz", "path": "/b"}),
            json!({"op": "move", "from": "/a", "path": "/a/b"}),
            json!({"op": "move", "path": "/b"}),
            json!({"op": "copy", "from": "", "path": "/b/c"}),
            json!({"op": "copy", "from": "/a/7", "path": "/b"}),
            json!({"op": "test", "path": "/b", "value": 1}),
            json!({"op": "test", "path": "/b"}),
            json!({"op": "test", "path": "/a/0", "value": 1.0}),
            json!({"op": "add", "value": 1}),
            json!({"path": "/b"}),
            json!(null),
        ] {
            check_refused([(live.clone(), json!([operation]))]);
        }
    }

    #[test]
    fn a_body_that_is_no_list_of_operations_is_refused() {
        for (body, message) in [
            (
                json!({"data": {}}),
                "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            ),
            (json!([1]), "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
            (
                json!([{"op": true}]),
                "json: cannot unmarshal bool into Go struct field jsonPatchOp.op of type string",
            ),
        ] {
            let wanted = PatchError::Malformed(format!("error decoding patch: {message}"));
            assert_eq!(patched(&json!({}), &body), Err(wanted));
        }
    }

    #[test]
    fn more_than_ten_thousand_operations_are_refused() {
        let operations = |count| Value::Array(vec![json!({"op": "test", "path": "/a"}); count]);
        assert_eq!(patched(&json!({}), &operations(10_000)), Ok(json!({})));
        let refused = patched(&json!({}), &operations(10_001)).unwrap_err();
        assert_eq!(refused, PatchError::TooManyOperations(10_001));
    }

    #[test]
    fn unknown_and_duplicate_members_are_reported() {
        let mut problems = Problems::default();
        let body = br#"[{"op":"test","path":"/a","zz":1},{"op":"test","path":"/b","path":"/a","y":1,"value":{"a":1,"a":2}}]"#;
        Patch::parse(body, &mut problems).unwrap();
        let expected = [
            r#"json patch unknown field "[0].zz""#,
            r#"json patch duplicate field "[1].path""#,
            r#"json patch unknown field "[1].y""#,
            r#"json patch duplicate field "[1].value.a""#,
        ];
        assert_eq!(problems.0, expected);
    }

    /// Twenty times the document doubles; the copies together pass 3 MiB long before.
    /// Each of them moves the whole list: one such patch took three seconds.
    #[test]
    fn moves_in_a_long_list_have_a_limit() {
        let list = |count: usize| json!({"x": vec![0; count]});
        let to_the_end = json!({"op": "move", "from": "/x/0", "path": "/x/-"});
        let to_the_front = json!({"op": "move", "from": "/x/-1", "path": "/x/0"});
        for operation in [to_the_end, to_the_front] {
            let often = Value::Array(vec![operation; OPERATIONS_MAX - 1]);
            assert_eq!(patched(&list(900), &often), Ok(list(900)));
            check_refused([(list(380_000), often)]);
        }
    }

    #[test]
    fn copies_cannot_grow_without_limit() {
        let document = json!({"a": {"x": "0123456789"}});
        let double = |at: usize| json!({"op": "copy", "from": "/a", "path": format!("/a/{at}")});
        let doubles = |count: usize| Value::Array((0..count).map(double).collect());
        assert!(patched(&document, &doubles(10)).is_ok());
        check_refused([(document, doubles(20))]);
    }

    /// One more level with each operation: by adding, by copying into itself and by moving down.
    #[test]
    fn a_document_cannot_be_made_deeper_than_can_be_read() {
        let path = |steps: usize| "/a".repeat(steps);
        let adds = |levels: usize| -> Vec<Value> {
            (1..=levels).map(|at| json!({"op": "add", "path": path(at), "value": {}})).collect()
        };
        let deepest = patched(&json!({}), &Value::Array(adds(126))).unwrap();
        assert_eq!(nesting(&deepest, NESTING_LEVELS_MAX), Some(127));
        check_refused([
            (json!({}), Value::Array(adds(127))),
            (deepest.clone(), json!([{"op": "copy", "from": "/a", "path": "/a/b"}])),
            (json!({"x": deepest["a"], "b": {}}), json!([{"op": "move", "from": "/x", "path": "/b/x"}])),
            (
                json!({"b": {"b": {}}}),
                json!([{"op": "replace", "path": "/b/b/c", "value": deepest["a"]["a"]}]),
            ),
        ]);
    }
}
