//! The Common Expression Language as Kubernetes v1.36 uses it in validation rules and admission policies.
//!
//! An [`Env`](env::Env) says which variables and functions an expression may use. It checks an expression
//! against the types of a schema and turns it into a [`Program`](eval::Program), which threads share.
//! A program evaluates a JSON document where it lies: nothing is converted before it is read.
//!
//! Not here: HTTP, storage, kinds, and when a rule or policy applies to a request.

mod ast;
mod stack;
mod syntax;
pub mod types;
pub mod schema;
mod declarations;
mod limits;
pub mod env;
mod checker;
pub mod cost;
pub mod value;
pub mod eval;
pub mod library;
pub mod rules;
