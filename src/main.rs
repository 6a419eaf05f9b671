//! The binary: see [`wecom_gateway::cli`].

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A message costs some hundred small allocations, passed between threads: the system's allocator takes a fifth of the
/// processor for them, this one a tenth.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    wecom_gateway::cli::main()
}
