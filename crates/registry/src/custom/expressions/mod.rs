//! Validation rules of custom resources (`x-kubernetes-validations`), written in the language of `keepwatch-cel`.
//!
//! [`Checker`] finds the errors of the rules of a definition before it is stored. [`Rules`] are those of one schema,
//! compiled when an object of it is first written, and shared by all requests; [`Rules::evaluate`] validates an object
//! by them.
//!
//! Kept true: an object is evaluated within one budget, whatever its rules are. A failure of a value that an update did
//! not change is a warning.

mod check;
mod compile;
mod evaluate;
mod node;

pub(crate) use check::Checker;
pub(crate) use compile::Rules;
