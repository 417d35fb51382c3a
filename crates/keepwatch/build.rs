//! How the program is linked in a release: so that little of it lies in the memory of a server.
//!
//! Code is loaded in pieces of 64 KB round what is run. The functions that a server runs, which are listed in `warm.txt`,
//! are laid side by side, and the rest of the program stays on disk.

use std::{env, fs, path::PathBuf};

/// Written by `scripts/warm`.
const WARM: &str = include_str!("warm.txt");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=warm.txt");
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER");
    if !is_release_for_linux() || chooses_linker() {
        return;
    }
    let script = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("warm.ld");
    fs::write(&script, linker_script()).expect("the folder is there to be written to");
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
}

fn is_release_for_linux() -> bool {
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    let platform = [target("ARCH"), target("OS"), target("ENV")];
    env::var("PROFILE").is_ok_and(|profile| profile == "release") && platform == ["x86_64", "linux", "gnu"]
}

/// Whether somebody says which linker to use: it may not know what is asked of it here.
fn chooses_linker() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    env::var_os("RUSTC_LINKER").is_some() || flags.contains("link")
}

/// Adds a section before the one that has all other code.
fn linker_script() -> String {
    let names = WARM.lines().filter(|line| !line.starts_with('#'));
    // A name may have what means something else in a script.
    let sections = names.map(|name| format!("*(.text.{})\n", name.replace('$', "?")));
    format!("SECTIONS {{ .text.warm : {{\n{}}} }}\nINSERT BEFORE .text;\n", sections.collect::<String>())
}
