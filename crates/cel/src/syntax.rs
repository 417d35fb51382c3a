//! From text to a tree: lexer, parser and macros.
//!
//! Positions are counted in code points. The texts of syntax errors are those of the parser generator
//! that the API server's parser is made with. It tries to go on after an error; this one only drops a
//! token that is too much or supplies one that is missing, and stops at the first other error.

mod lexer;
mod literal;
mod macros;
mod parser;
pub(crate) mod source;

pub(crate) use parser::{Parsed, parse};
