//! The costs of calls, as data. `estimate` and `track` apply each rule before and at run time.

/// The cost of a call beside its arguments.
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
    /// `startsWith` and `endsWith`: the estimate traverses the prefix or suffix, the tracker the receiver.
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
/// The estimated length of the regular expression of a named format.
pub(crate) const FORMAT_REGEX_SIZE: f64 = 128.0;
/// The largest length of a named format.
pub(crate) const FORMAT_SIZE: u64 = 64;
/// The largest number of requirements per character of a selector.
pub(crate) const REQUIREMENTS_PER_CHARACTER: f64 = 0.5;
/// The cost of a requirement of a selector: a list and a message.
pub(crate) const REQUIREMENT_COST: f64 = 50.0;
