//! Room on the stack for expressions that are nested deeply, because the walks over them are recursive.

/// What the deepest expression that the parser takes needs, with room to spare in a build without optimisation.
const NEEDED_BYTES: usize = 16 << 20;
/// How large a stack is that is made if there is less room.
const STACK_BYTES: usize = 32 << 20;

/// Runs something that walks over expressions. Callers that evaluate several of them make room once for all.
pub fn with_room<T>(walk: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(NEEDED_BYTES, STACK_BYTES, walk)
}
