//! What a running gateway can't change: what its listeners, stores and loops were made with.

use super::Settings;

impl Settings {
    /// Puts back what `before` says of all that stands until the next start; answers the keys that wanted something else.
    pub fn keep_what_stands(&mut self, before: &Self) -> Vec<&'static str> {
        let mut kept = Kept(Vec::new());
        // Every part is named here, so that a new one can't be forgotten.
        let Self {
            server,
            admin,
            wecom,
            store,
            database,
            dedup,
            workers,
            sender,
            push: _,
            alarms,
            kafka,
            log,
            telemetry,
            report: _,
            apps: _,
            files: _,
        } = self;
        kept.put_back("server.listen", &mut server.listen, &before.server.listen);
        kept.put_back("server.drain", &mut server.drain, &before.server.drain);
        kept.put_back("server.watch", &mut server.watch, &before.server.watch);
        kept.put_back("admin.listen", &mut admin.listen, &before.admin.listen);
        kept.put_back("wecom.api_base", &mut wecom.api_base, &before.wecom.api_base);
        kept.put_back("store", store, &before.store);
        kept.put_back("database", database, &before.database);
        kept.put_back("dedup.window", &mut dedup.window, &before.dedup.window);
        kept.put_back("workers", workers, &before.workers);
        kept.put_back("sender", sender, &before.sender);
        kept.put_back("alarms", alarms, &before.alarms);
        kept.put_back("kafka", kafka, &before.kafka);
        kept.put_back("telemetry", telemetry, &before.telemetry);
        kept.put_back("log.format", &mut log.format, &before.log.format);
        kept.put_back("log.level", &mut log.level, &before.log.level);
        kept.0
    }
}

struct Kept(Vec<&'static str>);

impl Kept {
    fn put_back<T: Clone + PartialEq>(&mut self, key: &'static str, now: &mut T, before: &T) {
        if now != before {
            now.clone_from(before);
            self.0.push(key);
        }
    }
}
