//! The numbered cases of the specification, and more. Requests are written as `LIST version limit`, `WATCH version`
//! and `STATE version` (a watch with `sendInitialEvents`), each with its time in seconds if that differs from the
//! request before.

mod notify;
mod requests;
