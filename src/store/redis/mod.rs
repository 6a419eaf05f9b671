//! The Redis store: one Lua script per verb and shard.
