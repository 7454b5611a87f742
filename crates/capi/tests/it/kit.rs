//! Compiles and runs C programs. A program is linked either to LevelDB or to Terrace's library,
//! which is installed as by `make install`.
use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

/// The library that a program is linked to.
#[derive(Clone, Copy)]
pub enum Against {
    LevelDb,
    Terrace,
    TerraceStatic,
}

/// A directory that contains the library, under the names that the linker and the loader expect,
/// and the compiled programs.
pub struct Kit(TempDir);

impl Kit {
    pub fn new() -> Kit {
        let kit = Kit(tempfile::tempdir().unwrap());
        for (built, name) in [("so", "libterrace.so"), ("so", "libterrace.so.0"), ("a", "libterrace.a")] {
            symlink(built_library(built), kit.0.path().join(name)).unwrap();
        }
        kit
    }

    /// Returns the path of the shared library.
    pub fn shared_object(&self) -> PathBuf {
        self.0.path().join("libterrace.so")
    }

    /// Compiles `tests/c/NAME.c`. Warnings are errors.
    pub fn compile(&self, name: &str, against: Against) -> PathBuf {
        let program = self.0.path().join(format!("{name}-{}", against as u8));
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-O1"]);
        compiler.arg(repository().join(format!("tests/c/{name}.c"))).args(["-pthread", "-o"]).arg(&program);
        let library = |name: &str| self.0.path().join(name);
        match against {
            Against::LevelDb => compiler.arg("-lleveldb"),
            Against::Terrace => compiler.args(ours()).arg(library("libterrace.so")),
            // These are the libraries that `rustc --print native-static-libs` lists.
            Against::TerraceStatic => {
                compiler.args(ours()).arg(library("libterrace.a")).args(["-lpthread", "-ldl", "-lm"])
            }
        };
        run(&mut compiler);
        program
    }

    /// Returns a command that runs a compiled program.
    pub fn program(&self, name: &str, against: Against) -> Command {
        let mut program = Command::new(self.compile(name, against));
        self.find_libraries(&mut program);
        program
    }

    /// Sets the loader's search path to the library.
    pub fn find_libraries(&self, program: &mut Command) {
        program.env("LD_LIBRARY_PATH", self.0.path());
    }
}

/// Returns the compiler options for the headers of this repository.
pub fn ours() -> [PathBuf; 2] {
    ["-I".into(), repository().join("include")]
}

pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the path of the built library. Cargo places it in the same directory as the test
/// program.
fn built_library(extension: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let built = test.with_file_name(format!("libterrace_capi.{extension}"));
    assert!(built.exists(), "{} is not built", built.display());
    built
}

/// Runs a command. Panics if it fails.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs a command and returns its standard output.
pub fn said(command: &mut Command) -> String {
    String::from_utf8(run(command).stdout).unwrap()
}

/// Returns the path of an installed program.
pub fn tool(name: &str) -> Result<PathBuf, String> {
    let paths = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&paths).map(|path| path.join(name)).find(|path| path.exists());
    found.ok_or_else(|| format!("{name} is not installed"))
}

/// LevelDB's header.
pub const LEVELDB_HEADER: &str = "/usr/include/leveldb/c.h";

/// Returns an error if LevelDB's header is not installed.
pub fn leveldb() -> Result<(), String> {
    fs::metadata(LEVELDB_HEADER)
        .map(drop)
        .map_err(|error| format!("{LEVELDB_HEADER} (package libleveldb-dev): {error}"))
}
