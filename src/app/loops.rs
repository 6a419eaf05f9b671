//! The loops behind a gateway's listeners: each takes its place in the flow (`ARCHITECTURE.md`), none runs before all could be made.

use std::sync::Arc;

use crate::action::Actions;
use crate::admin::AdminState;
use crate::directory::Directory;
use crate::externalcontact::ExternalContact;
use crate::hands::Hands;
use crate::ingress::Replay;
use crate::push::{Awaiting, Compensator, Desk, Kafka};
use crate::report::Reporter;
use crate::sender::Sender;
use crate::setup::Reloader;
use crate::worker::{Sources, Workers};

use super::AppError;
use super::parts::Parts;
use super::task::Task;

/// What runs from a gateway's start to its stop.
pub(super) struct Loops {
    workers: Workers,
    sender: Arc<Sender>,
    directory: Arc<Directory>,
    reporter: Reporter,
    compensator: Compensator,
    awaiting: Awaiting,
    reloader: Arc<Reloader>,
    replay: Option<Replay>,
    kafka: Option<Arc<Kafka>>,
}

impl Loops {
    /// Makes them, and what operators reach of them.
    pub(super) fn new(parts: &Parts) -> Result<(Self, AdminState), AppError> {
        let Parts { store, records, rush, in_force, telemetry, clients, .. } = parts.clone();
        let settings = in_force.settings();
        let wecom = Arc::new(ExternalContact::new(store.clone(), &settings, clients.robots.clone()));
        let directory = Arc::new(Directory::new(store.clone(), in_force.clone(), wecom.clone()));
        let sources =
            Sources { actions: Actions::new(clients.actions), directory: directory.clone(), records: records.clone() };
        let workers = Workers::new(store.clone(), in_force.clone(), sources, rush, telemetry.clone());
        let sender = Arc::new(Sender::new(store.clone(), in_force.clone(), clients.robots.clone(), telemetry.clone()));
        let awaiting = Awaiting::new(store.clone(), records.clone(), in_force.clone(), wecom, telemetry.clone());
        let reporter =
            Reporter::new(store.clone(), records.clone(), in_force.clone(), clients.robots, telemetry.health.clone());
        let desk = Arc::new(Desk::new(store.clone(), in_force.clone(), telemetry.clone()));
        let kafka = Kafka::open(&settings, desk.clone(), (store.clone(), records.clone()), &telemetry)?.map(Arc::new);
        let hands = Arc::new(Hands::new(store, records.clone(), in_force.clone()));
        // Nobody outside can be asked yet: WeCom tells of no message that was sent by these channels.
        let witnesses = Vec::new();
        let compensator = Compensator::new(records, hands.clone(), in_force, witnesses, telemetry);
        let state = parts.admin_state(desk, hands, sender.holds(), kafka.clone());
        let (reloader, replay) = (parts.reloader.clone(), parts.replay());
        Ok((Self { workers, sender, directory, reporter, compensator, awaiting, reloader, replay, kafka }, state))
    }

    /// Runs them.
    pub(super) fn spawn(self) -> Vec<Task> {
        let Self { workers, sender, directory, reporter, compensator, awaiting, reloader, replay, kafka } = self;
        let always = [
            Task::supervise("workers", Arc::new(workers), |workers, stop| async move { workers.run(stop).await }),
            Task::supervise("sender", sender, |sender, stop| async move { sender.run(stop).await }),
            Task::supervise("directory", directory, |asks, stop| async move { asks.run(stop.draining).await }),
            Task::supervise("report", Arc::new(reporter), |tells, stop| async move { tells.run(stop.draining).await }),
            Task::supervise("compensator", Arc::new(compensator), |looks, stop| async move {
                looks.run(stop.draining).await;
            }),
            Task::supervise("awaiting", Arc::new(awaiting), |asks, stop| async move { asks.run(stop).await }),
            Task::supervise("watch", reloader, |files, stop| async move { files.watch(stop.draining).await }),
        ];
        let replay = replay.map(|replay| {
            Task::supervise("replay", Arc::new(replay), |replay, stop| async move { replay.run(stop.draining).await })
        });
        let kafka =
            kafka.map(|kafka| Task::supervise("kafka", kafka, |kafka, stop| async move { kafka.run(stop).await }));
        always.into_iter().chain(replay).chain(kafka).collect()
    }
}
