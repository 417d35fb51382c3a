//! The cases of the specification, by number, and some more. Requests are written as `LIST version limit`, `WATCH version`
//! and `STATE version` (a watch that begins with the state), each with the second at which it was made if that is not that of
//! the one before.

mod asking;
mod telling;
