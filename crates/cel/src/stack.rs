//! Room on the stack for expressions that are nested deeply, because the walks over them are recursive.

/// The stack that the deepest expression that the parser takes needs, with room to spare in a build without optimisation.
const DEEPEST_BYTES: usize = 16 << 20;
/// The size of a stack that is made if there is less room.
const STACK_BYTES: usize = 32 << 20;
/// The stack that one level of an expression needs, in such a build.
const LEVEL_BYTES: usize = 16 << 10;
/// The stack that is needed beside the levels: for functions that walk over values.
const BASE_BYTES: usize = 256 << 10;

/// Runs a walk over an expression of any depth.
pub(crate) fn with_room<T>(walk: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(DEEPEST_BYTES, STACK_BYTES, walk)
}

/// Runs a walk over an expression that is nested so deep. The stack of an ordinary thread is enough for most, and another
/// one costs as much as their evaluation.
pub(crate) fn with_room_for<T>(depth: usize, walk: impl FnOnce() -> T) -> T {
    let needed = depth.saturating_mul(LEVEL_BYTES).saturating_add(BASE_BYTES);
    stacker::maybe_grow(needed.min(DEEPEST_BYTES), STACK_BYTES, walk)
}
