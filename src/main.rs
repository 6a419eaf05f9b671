//! The binary: see [`wecom_gateway::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    wecom_gateway::cli::main()
}
