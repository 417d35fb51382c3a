//! An empty library for benchmarks that use several crates: see `benches/`.
