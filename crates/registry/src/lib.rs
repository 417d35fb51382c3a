//! The kinds of Keepwatch and the rules for changing their objects. Knows no HTTP.

pub mod schema;
pub mod kinds;
