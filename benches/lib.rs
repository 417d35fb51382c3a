//! Nothing but a place for benchmarks that use several crates: see `benches/`.
