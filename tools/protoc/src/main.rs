//! As much of `protoc` as build scripts use, so that building Keepwatch needs Rust and a C compiler only.
//!
//! Reads interface files and writes what they declare as a descriptor set; generates no code.
//! Understands the arguments that prost-build passes and refuses all others, so that a caller who
//! wants more is told to install the real one. Started by `scripts/protoc`.

use std::{env, fs, path::PathBuf, process::ExitCode};

use protox::Compiler;

fn main() -> ExitCode {
    match run(env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("tools/protoc: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let mut include_imports = false;
    let mut include_source_info = false;
    let mut output = None;
    let mut includes = Vec::new();
    let mut files = Vec::new();
    while let Some(arg) = args.next() {
        let mut value = || args.next().map(PathBuf::from).ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--include_imports" => include_imports = true,
            "--include_source_info" => include_source_info = true,
            "-o" => output = Some(value()?),
            "-I" => includes.push(value()?),
            _ if arg.starts_with('-') => {
                return Err(format!("does not know {arg}; install protoc, or set PROTOC to one"));
            }
            _ => files.push(PathBuf::from(arg)),
        }
    }
    let output = output.ok_or("needs -o FILE")?;
    if files.is_empty() {
        return Err("needs a file to read".into());
    }
    if includes.is_empty() {
        includes.push(PathBuf::from("."));
    }

    // Debug rather than Display: it also says in which file and where.
    let mut compiler = Compiler::new(includes).map_err(|error| format!("{error:?}"))?;
    compiler.include_imports(include_imports).include_source_info(include_source_info);
    compiler.open_files(files).map_err(|error| format!("{error:?}"))?;
    fs::write(&output, compiler.encode_file_descriptor_set())
        .map_err(|error| format!("cannot write {}: {error}", output.display()))
}
