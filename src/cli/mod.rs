//! The commands. Exit codes: 0 done, 1 failed while running, 2 wrong usage or configuration. An error is one sentence
//! on stderr that names the thing and the mend.

mod check;
mod compare;
mod demo;
mod doors;
mod empty_redis;
mod explain;
mod figures;
mod manual;
mod operator;
mod progress;
mod push;
mod report;
mod serve;
mod simulate;
mod stage;
mod table;
mod trace;
mod values;
mod voice;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::app::AppError;
use crate::config::{self, Settings};
use crate::store::StoreError;

/// Gateway between WeCom and a team's own services.
#[derive(Debug, Parser)]
#[command(name = "wecom-gateway", version = env!("WECOM_GATEWAY_VERSION"), about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway until SIGTERM or SIGINT.
    Serve(ConfigFile),
    /// Load and validate everything that `serve` would; prints each fault with file, key and mend.
    Check(check::Options),
    /// Say of a callback as it was received what holds and what fails, step by step, without sending anything.
    Explain(explain::Options),
    /// Everything in one process against a fake WeCom: a load with its result as a table.
    Demo(demo::Options),
    /// The same load and fake WeCom against a gateway that already runs.
    Simulate(Box<simulate::Options>),
    /// The whole way of a message, by msg_id, request_id, delivery id or task id, from a running gateway.
    Trace(trace::Options),
    /// A day's statistics, from a running gateway.
    Report(report::Options),
    /// Hand push tasks, one a line of a file, to a running gateway.
    Push(push::Options),
    /// Print what makes a shell complete these commands.
    Completions(manual::Completions),
    /// Write the manual pages, one for each command.
    Man(manual::Man),
    /// Print every key of the configuration: what may stand there, its default, what it does.
    Reference(manual::Reference),
}

#[derive(Debug, clap::Args)]
struct ConfigFile {
    /// The process's configuration; its apps are in `apps/` beside it.
    #[arg(long, default_value = "config/gateway.toml")]
    config: PathBuf,
}

const FAILED: u8 = 1;
const MISCONFIGURED: u8 = 2;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // clap ends wrong usage with 2 by itself.
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Serve(file) => load(&file).and_then(|settings| serve::run(settings, file.config)),
        Command::Check(options) => check::run(options),
        Command::Explain(options) => explain::run(options),
        Command::Demo(options) => demo::run(options),
        Command::Simulate(options) => simulate::run(*options),
        Command::Trace(options) => trace::run(options),
        Command::Report(options) => report::run(options),
        Command::Push(options) => push::run(options),
        Command::Completions(options) => manual::completions(options),
        Command::Man(options) => manual::man(options),
        Command::Reference(options) => manual::reference(options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.text.is_empty() {
                voice::warn(failure.text.trim_end());
            }
            ExitCode::from(failure.code)
        }
    }
}

/// Why a command ended badly.
#[derive(Debug)]
struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    fn running(text: impl ToString) -> Self {
        Self { code: FAILED, text: text.to_string() }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::running(format!("can't write what there is to say: {error}"))
    }
}

impl From<AppError> for Failure {
    fn from(error: AppError) -> Self {
        // What the configuration says can't be had: wrong configuration, not bad luck.
        let code = match &error {
            AppError::Store(StoreError::Refused(_)) | AppError::Rules(_) | AppError::Kafka(_) => MISCONFIGURED,
            AppError::Store(_) | AppError::Records(_) | AppError::Listen { .. } | AppError::Http(_) => FAILED,
        };
        Self { code, text: error.to_string() }
    }
}

fn load(file: &ConfigFile) -> Result<Settings, Failure> {
    config::load(&file.config).map_err(|faults| Failure { code: MISCONFIGURED, text: faults.to_string() })
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::running)
}
