//! The embedded store: SQLite, one writer, group commit.
