//! The types of the built-in kinds: their fields, and how these are written and merged.
//!
//! One table (`types.txt`) has it for all: JSON and Protobuf, patches, OpenAPI. It is read on first use and then
//! never changes, so a type is a reference that lives as long as the program.

use std::{collections::HashMap, fmt, ops::Deref, sync::LazyLock};

/// A type of the table. Copying it is free.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeRef(u16);

/// A type in the table.
#[derive(Debug)]
pub struct Type {
    /// Its name in Go, with the version of its group: `core.v1.PodSpec`.
    pub name: &'static str,
    /// Whether its objects have `kind` and `apiVersion`.
    pub typed: bool,
    /// Whether server-side apply treats it as a whole.
    pub atomic: bool,
    /// Whether its objects have more fields than these, which are kept as they are: those of custom resources.
    pub open: bool,
    /// The fields as they are declared, in order, as Protobuf has them.
    pub fields: &'static [Field],
    /// The fields as they are written in JSON: the fields of an inline field replace it.
    flat: Vec<&'static Field>,
    /// Their indexes, the shortest names first.
    by_length: Vec<u8>,
    /// For each length, the position in `by_length` of the first name with it; and the end of the last.
    lengths: Vec<u8>,
    /// Those that are written whether they are set or not.
    always: FieldSet,
}

/// The maximum number of fields in a type.
pub(super) const FIELDS_MAX: usize = u128::BITS as usize;

/// A set of fields of a type, by their indexes among its JSON fields: fast to fill, and to read in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(u128);

impl FieldSet {
    /// Those that are in no other.
    pub fn without(self, other: FieldSet) -> FieldSet {
        FieldSet(self.0 & !other.0)
    }

    /// Whether a field is in the set.
    pub fn contains(self, index: usize) -> bool {
        self.0 & 1 << index != 0
    }

    /// Adds a field.
    pub fn insert(&mut self, index: usize) {
        self.0 |= 1 << index;
    }
}

impl Iterator for FieldSet {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let index = self.0.trailing_zeros() as usize;
        // Removes the lowest one.
        self.0 &= self.0.checked_sub(1)?;
        Some(index)
    }
}

/// One field of a type.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name in JSON; empty if its own fields are written in its place.
    pub name: &'static str,
    /// Its number in Protobuf.
    pub number: u32,
    /// Whether it has one value, a list or a map.
    pub shape: Shape,
    /// The type of a value.
    pub kind: ValueKind,
    /// The rule for writing it.
    pub presence: Presence,
    /// Whether OpenAPI requires it.
    pub required: bool,
    /// The patch strategy in a strategic merge patch.
    pub merge: Merge,
    /// The list type in server-side apply.
    pub list: ListType,
    /// Whether server-side apply treats the map or object as a whole.
    pub atomic: bool,
    values: Option<ValuesRef>,
}

/// The index of a set of values among all such sets. The values themselves would make the field larger.
#[derive(Clone, Copy, Debug)]
struct ValuesRef(u8);

/// The number of values in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One.
    One,
    /// Some, in order.
    List,
    /// Some, by a text each.
    Map,
}

/// The type of a value, in JSON and on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Text.
    String,
    /// True or false.
    Bool,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A number.
    Double,
    /// Bytes; in JSON as base64.
    Bytes,
    /// A time in seconds; in JSON as RFC 3339.
    Time,
    /// A time in microseconds.
    MicroTime,
    /// A number with a unit, as text.
    Quantity,
    /// A whole number or a text.
    IntOrString,
    /// An object of any kind, as JSON.
    Raw,
    /// The managed fields of a manager (`fieldsV1`), as JSON.
    Fields,
    /// Any JSON.
    Json,
    /// A list of texts that is a message of its own on the wire.
    Strings,
    /// A JSON schema or a list of them.
    SchemaOrArray,
    /// A JSON schema or a yes or no.
    SchemaOrBool,
    /// A JSON schema or a list of names.
    SchemaOrStrings,
    /// Fields of its own.
    Message(TypeRef),
}

/// The rule for writing a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// If it is set, even to zero.
    IfSet,
    /// If it is set, and null if it is not.
    OrNull,
    /// Unless it is zero or empty.
    UnlessZero,
    /// Always: zero, empty or null if it is not set.
    Always,
    /// Unless all in it is empty.
    UnlessEmpty,
}

/// The patch strategy of a field in a strategic merge patch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    /// Whether a list is merged rather than replaced.
    pub merged: bool,
    /// By which field of its items a list is merged; absent for a list of plain values.
    pub key: Option<&'static str>,
    /// Whether a patch may list the keys to keep (`$retainKeys`).
    pub retain_keys: bool,
    /// Whether an object is replaced as a whole.
    pub replace: bool,
}

/// The list type of a field in server-side apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// One value, owned as a whole.
    Atomic,
    /// Plain values, each owned on its own.
    Set,
    /// The keys of items are these fields.
    Map(Vec<&'static str>),
}

/// The type of all custom objects: the fields that all objects have, and those that their definitions add.
pub const CUSTOM_OBJECT: &str = "custom.Object";

macro_rules! custom_object {
    () => {
        "custom.Object typed open\n metadata 1 meta.v1.ObjectMeta a\n"
    };
}

/// The contents of the table.
struct Table {
    types: Vec<Type>,
    /// Sets of values, with commas between.
    values: Vec<&'static str>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| read(concat!(include_str!("types.txt"), custom_object!())));
static BY_NAME: LazyLock<HashMap<&'static str, TypeRef>> =
    LazyLock::new(|| TABLE.types.iter().zip(0..).map(|(ty, at)| (ty.name, TypeRef(at))).collect());

/// The type of that name, such as `core.v1.Pod`.
pub fn lookup(name: &str) -> Option<TypeRef> {
    BY_NAME.get(name).copied()
}

/// Every type there is.
pub fn all() -> impl Iterator<Item = TypeRef> {
    (0..TABLE.types.len()).map(|at| TypeRef(at as u16))
}

impl Deref for TypeRef {
    type Target = Type;
    fn deref(&self) -> &Type {
        self.get()
    }
}

impl TypeRef {
    /// The type itself, for as long as the program runs.
    pub fn get(self) -> &'static Type {
        &TABLE.types[usize::from(self.0)]
    }
}

impl fmt::Debug for TypeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the type itself: some contain themselves.
        write!(f, "TypeRef({})", self.0)
    }
}

impl Type {
    /// The fields as JSON has them, in the order in which they are written.
    pub fn json_fields(&self) -> &[&'static Field] {
        &self.flat
    }

    /// The field of that name in JSON.
    pub fn json_field(&self, name: &str) -> Option<&'static Field> {
        self.field_index(name).map(|index| self.flat[index])
    }

    /// The index of the JSON field with that name. Few have names of the same length.
    pub fn field_index(&self, name: &str) -> Option<usize> {
        let [from, to] = *self.lengths.get(name.len()..name.len() + 2)? else { return None };
        let alike = &self.by_length[usize::from(from)..usize::from(to)];
        alike.iter().map(|index| usize::from(*index)).find(|index| self.flat[*index].name == name)
    }

    /// The JSON fields that are written whether they are set or not.
    pub fn always(&self) -> FieldSet {
        self.always
    }

    /// The last part of its name: `PodSpec`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl Field {
    /// The values that a text, or each text of a list or map, may have, sorted; none if it may be any.
    pub fn values(&self) -> impl Iterator<Item = &'static str> {
        self.values.into_iter().flat_map(|at| TABLE.values[usize::from(at.0)].split(','))
    }
}

/// Parses the table. It is part of the program, so the first test that runs finds an error in it.
fn read(table: &'static str) -> Table {
    let lines = || table.lines().filter(|line| !line.starts_with('#'));
    let names: HashMap<&str, u16> =
        lines().filter(|line| !line.starts_with(' ')).map(first_word).zip(0..).collect();
    let mut types: Vec<Type> = Vec::with_capacity(names.len());
    let (mut declared, mut values) = (Vec::new(), Vec::new());
    for line in lines() {
        if line.starts_with(' ') {
            let fields: &mut Vec<Field> = declared.last_mut().expect("the table begins with a type");
            let (line, allowed) = match line.split_once(" enum=") {
                Some((line, allowed)) => (line, Some(allowed)),
                None => (line, None),
            };
            let mut field = field(line, &names);
            field.values = allowed.map(|allowed| intern_values(allowed, &mut values));
            fields.push(field);
        } else {
            types.push(Type {
                name: first_word(line),
                typed: line.contains(" typed"),
                atomic: line.contains(" map=atomic"),
                open: line.contains(" open"),
                fields: &[],
                flat: Vec::new(),
                by_length: Vec::new(),
                lengths: Vec::new(),
                always: FieldSet::default(),
            });
            declared.push(Vec::new());
        }
    }
    // The fields live as long as the program, like the table itself; so those of an inline type can be shared.
    let fields: Vec<&'static [Field]> =
        declared.into_iter().map(|fields| &*Box::leak(fields.into_boxed_slice())).collect();
    for (at, ty) in types.iter_mut().enumerate() {
        ty.fields = fields[at];
        flatten(at, &fields, &mut ty.flat);
        assert!(ty.flat.len() <= FIELDS_MAX, "{} has too many fields", ty.name);
        ty.by_length = (0..ty.flat.len() as u8).collect();
        ty.by_length.sort_unstable_by_key(|index| ty.flat[usize::from(*index)].name.len());
        let longest = ty.by_length.last().map_or(0, |index| ty.flat[usize::from(*index)].name.len());
        let shorter = |length| ty.flat.iter().filter(|field| field.name.len() < length).count() as u8;
        ty.lengths = (0..longest + 2).map(shorter).collect();
        for (index, field) in ty.flat.iter().enumerate() {
            if matches!(field.presence, Presence::OrNull | Presence::Always) {
                ty.always.insert(index);
            }
        }
    }
    Table { types, values }
}

/// The index of a set of values among those read so far, to which it is added: many fields have the same.
fn intern_values(allowed: &'static str, values: &mut Vec<&'static str>) -> ValuesRef {
    let at = values.iter().position(|known| *known == allowed).unwrap_or_else(|| {
        values.push(allowed);
        values.len() - 1
    });
    ValuesRef(at.try_into().expect("there are fewer sets of values than a byte can count"))
}

fn flatten(of: usize, fields: &[&'static [Field]], flat: &mut Vec<&'static Field>) {
    for field in fields[of] {
        match field.kind {
            ValueKind::Message(inline) if field.name.is_empty() => {
                flatten(usize::from(inline.0), fields, flat)
            }
            _ => flat.push(field),
        }
    }
}

fn first_word(line: &'static str) -> &'static str {
    line.split(' ').next().unwrap_or(line)
}

fn field(line: &'static str, types: &HashMap<&str, u16>) -> Field {
    let mut words = line[1..].split(' ');
    let mut word = || words.next().expect("a field has a name, a number, a type and a presence");
    let (name, number, of, presence) = (word(), word(), word(), word());
    let (shape, of) = match (of.strip_prefix("[]"), of.strip_prefix("map:")) {
        (Some(of), _) => (Shape::List, of),
        (_, Some(of)) => (Shape::Map, of),
        _ => (Shape::One, of),
    };
    let mut field = Field {
        name: if name == "~" { "" } else { name },
        number: number.parse().expect("a field's number is one"),
        shape,
        kind: kind(of, types),
        presence: match presence {
            "p" => Presence::IfSet,
            "n" => Presence::OrNull,
            "o" => Presence::UnlessZero,
            "z" => Presence::UnlessEmpty,
            _ => Presence::Always,
        },
        required: false,
        merge: Merge::default(),
        list: ListType::Atomic,
        atomic: false,
        values: None,
    };
    for option in words {
        match option.split_once('=').unwrap_or((option, "")) {
            ("merge", key) => {
                field.merge.merged = true;
                field.merge.key = Some(key).filter(|key| !key.is_empty());
            }
            ("required", _) => field.required = true,
            ("retain", _) => field.merge.retain_keys = true,
            ("replace", _) => field.merge.replace = true,
            ("list", "set") => field.list = ListType::Set,
            ("list", list) => {
                if let Some(keys) = list.strip_prefix("map:") {
                    field.list = ListType::Map(keys.split(',').collect());
                }
            }
            ("map", _) => field.atomic = true,
            (other, _) => panic!("the table of types has no option {other:?}"),
        }
    }
    field
}

fn kind(of: &str, types: &HashMap<&str, u16>) -> ValueKind {
    match of {
        "string" => ValueKind::String,
        "bool" => ValueKind::Bool,
        "int32" => ValueKind::Int32,
        "int64" => ValueKind::Int64,
        "double" => ValueKind::Double,
        "bytes" => ValueKind::Bytes,
        "time" => ValueKind::Time,
        "microtime" => ValueKind::MicroTime,
        "quantity" => ValueKind::Quantity,
        "intorstring" => ValueKind::IntOrString,
        "raw" => ValueKind::Raw,
        "fields" => ValueKind::Fields,
        "json" => ValueKind::Json,
        "strings" => ValueKind::Strings,
        "schemaorarray" => ValueKind::SchemaOrArray,
        "schemaorbool" => ValueKind::SchemaOrBool,
        "schemaorstrings" => ValueKind::SchemaOrStrings,
        message => ValueKind::Message(TypeRef(
            *types.get(message).unwrap_or_else(|| panic!("the table has no type {message:?}")),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_and_its_numbers_are_unique() {
        assert!(all().count() > 400);
        // The field with the version has no form in Protobuf.
        for ty in all().filter(|ty| ty.name != "version.Info") {
            let mut numbers: Vec<u32> = ty.fields.iter().map(|field| field.number).collect();
            numbers.sort_unstable();
            let count = numbers.len();
            numbers.dedup();
            assert_eq!(numbers.len(), count, "{}", ty.name);
            assert!(ty.fields.iter().all(|field| field.number > 0), "{}", ty.name);
        }
    }

    #[test]
    fn the_fields_of_an_inline_field_are_the_owners_in_json() {
        let volume = lookup("core.v1.Volume").unwrap();
        assert_eq!(volume.json_fields()[0].name, "name");
        assert_eq!(volume.fields.len(), 2);
        let ValueKind::Message(source) = volume.json_field("emptyDir").unwrap().kind else {
            panic!("a message")
        };
        assert_eq!(source.short_name(), "EmptyDirVolumeSource");
    }

    #[test]
    fn the_merge_strategy_and_presence_of_a_field_are_read() {
        let spec = lookup("core.v1.PodSpec").unwrap();
        let containers = spec.json_field("containers").unwrap();
        assert_eq!((containers.merge.merged, containers.merge.key), (true, Some("name")));
        assert_eq!((containers.shape, containers.presence), (Shape::List, Presence::Always));
        assert_eq!(containers.list, ListType::Map(vec!["name"]));
        assert!(spec.json_field("volumes").unwrap().merge.retain_keys);
        assert!(lookup("core.v1.Pod").unwrap().typed && !spec.typed);
    }

    #[test]
    fn the_fields_that_are_required_are_read() {
        for (ty, required) in [
            ("core.v1.PodSpec", &["containers"][..]),
            ("core.v1.Pod", &[]),
            ("core.v1.LocalObjectReference", &[]),
            ("core.v1.Event", &["metadata", "involvedObject"]),
            // Required, although it is left out when empty.
            ("networking.v1.ParentReference", &["resource", "name"]),
            // A field whose name is the word itself.
            ("core.v1.VolumeNodeAffinity", &[]),
        ] {
            let fields = lookup(ty).unwrap().get().json_fields().iter().filter(|field| field.required);
            assert_eq!(fields.map(|field| field.name).collect::<Vec<_>>(), required, "{ty}");
        }
    }

    #[test]
    fn the_values_that_a_text_may_have_are_read() {
        for (ty, field, values) in [
            ("core.v1.PodSpec", "restartPolicy", &["Always", "Never", "OnFailure"][..]),
            ("core.v1.PodSpec", "nodeName", &[]),
            ("core.v1.ServiceSpec", "ipFamilies", &["", "IPv4", "IPv6"]),
            ("discovery.v1.EndpointSlice", "addressType", &["FQDN", "IPv4", "IPv6"]),
            // A field of an inline type.
            ("admissionregistration.v1.RuleWithOperations", "scope", &["*", "Cluster", "Namespaced"]),
        ] {
            let found: Vec<&str> = lookup(ty).unwrap().json_field(field).unwrap().values().collect();
            assert_eq!(found, values, "{ty} {field}");
        }
        let usages = lookup("certificates.v1.CertificateSigningRequestSpec").unwrap();
        assert!(usages.json_field("usages").unwrap().values().any(|usage| usage == "digital signature"));
        for field in all().flat_map(|ty| ty.get().json_fields()) {
            assert!(field.values().is_sorted(), "{}", field.name);
            assert!(field.values().next().is_none() || field.kind == ValueKind::String, "{}", field.name);
        }
    }

    /// There are some thousand fields, so their size matters.
    #[test]
    fn a_field_is_no_larger_for_its_values() {
        assert_eq!(size_of::<Field>(), 80);
    }
}
