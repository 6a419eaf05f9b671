//! TOML to checked settings: the process (`gateway.toml`) and its apps (`apps/<id>.toml`).

pub mod settings;

pub use settings::Settings;
