//! What calls cost, as data. `estimate` and `track` say what each rule means before and at run time.

/// What a call costs beside its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CostRule {
    /// Always the same.
    Fixed(u64),
    /// `==`: the smaller operand is traversed; values of some library types cost 1.
    Equals,
    /// `!=`, and orderings of text and bytes: the smaller operand is traversed.
    Compare,
    /// `&&` and `||`: the operands alone.
    Logical,
    /// `c ? a : b`: the condition and one branch.
    Conditional,
    /// `list[i]`.
    IndexList,
    /// `map[k]`.
    IndexMap,
    /// `x in list`.
    InList,
    /// `+` of text or bytes.
    AddText,
    /// `+` of lists.
    AddList,
    /// `bytes(string)`: text is traversed.
    StringToBytes,
    /// `string(bytes)`: bytes are traversed.
    BytesToString,
    /// `startsWith` and `endsWith`: what is looked for is traversed, at run time what is looked at.
    Affix,
    /// `contains`: both are traversed.
    Contains,
    /// `matches` on a receiver.
    Matches,
    /// `find` and `findAll`.
    Find,
    /// `strings.quote`.
    Quote,
    /// `format`: the format is traversed.
    Format,
    /// The first argument is traversed; the result is as large.
    Transform,
    /// The first argument is traversed; of the result's size nothing is known.
    Parse,
    /// The first argument is traversed twice.
    ParseTwice,
    /// `replace`.
    Replace,
    /// `split`.
    Split,
    /// `join`.
    Join,
    /// `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf`: the receiver is traversed.
    Scan,
    /// `containsIP`; `parses`: the address is text.
    ContainsIp {
        /// Whether the argument is text.
        parses: bool,
    },
    /// `containsCIDR`; `parses`: the network is text.
    ContainsCidr {
        /// Whether the argument is text.
        parses: bool,
    },
    /// `validate` of a named format.
    Validate,
    /// `fieldSelector` and `labelSelector`.
    Selector,
    /// Functions of `sets`: every element with every other, so many times.
    Sets(u64),
    /// `slice`.
    Slice,
    /// `lists.range`.
    Range,
    /// `reverse`.
    Reverse,
    /// `flatten`.
    Flatten,
    /// `distinct`.
    Distinct,
    /// `sort`; `text`: of strings or bytes.
    Sort {
        /// Whether elements are strings or bytes.
        text: bool,
    },
    /// `sortBy`; `text`: by strings or bytes.
    SortBy {
        /// Whether keys are strings or bytes.
        text: bool,
    },
}

/// Reading a variable, a field or an element.
pub(crate) const SELECT_COST: u64 = 1;
/// Making a list.
pub(crate) const LIST_COST: u64 = 10;
/// Making a map.
pub(crate) const MAP_COST: u64 = 30;
/// Making a message.
pub(crate) const MESSAGE_COST: u64 = 40;
/// Dispatching a call of the list and set libraries.
pub(crate) const CALL_COST: u64 = 1;
/// Traversing one element of text.
pub(crate) const TRAVERSAL_FACTOR: f64 = 0.1;
/// One character of a regular expression.
pub(crate) const REGEX_FACTOR: f64 = 0.25;
/// Comparing one element with one other in the list library.
pub(crate) const COMPARISON_FACTOR: f64 = 2.0;
/// How long the expression of a named format counts as before it is known which one it is.
pub(crate) const FORMAT_REGEX_SIZE: f64 = 128.0;
/// How long a named format is at most.
pub(crate) const FORMAT_SIZE: u64 = 64;
/// How many requirements a character of a selector makes at most.
pub(crate) const REQUIREMENTS_PER_CHARACTER: f64 = 0.5;
/// What a requirement of a selector costs: a list and a message.
pub(crate) const REQUIREMENT_COST: f64 = 50.0;
