//! Crash points: where a test can make this process die, or stop, between two steps of a message's way.
//!
//! `WECOM_GATEWAY_CRASH=begun:3` aborts the process when it passes the point `begun` for the third time, `begun:3:stop`
//! stops it there (`SIGSTOP`) until it is told to go on. Nothing is flushed, answered or given back.
//!
//! Always: without the feature `crash-points`, which only this crate's own tests turn on, none of this is compiled in.

/// A place on a message's way, in the order in which a message passes them; then those of push tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// The message is in its lane; its callback is not answered.
    Enqueued,
    /// The message is in the spool; its callback is not answered.
    Spooled,
    /// Spooled messages are in their lanes, and still in the spool.
    Replayed,
    /// Messages are leased and marked.
    Claimed,
    /// The action answered.
    Acted,
    /// The commit is ready and was not asked for.
    Committing,
    /// The commit is done.
    Committed,
    /// A reply is leased, and about to be begun.
    Beginning,
    /// The attempt is marked; not a byte of the request is written.
    Begun,
    /// The request was written and the head of its answer is here; whether it says "taken" is not read yet.
    Written,
    /// What became of the delivery is known here and not settled.
    Settling,
    /// It is settled.
    Settled,
    /// Journal lines are in the records, and still in the journal.
    Recorded,
    /// Push tasks are opened; nothing of them is in a lane.
    Opened,
    /// A page of their deliveries is in its lanes; no cursor says so.
    Paged,
    /// The cursors do; nobody is told.
    Advanced,
    /// Pushes that are unknown are held to be looked at; nothing is done.
    Looking,
}

#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub(crate) fn point(_: Point) {}

#[cfg(feature = "crash-points")]
pub(crate) use trap::{arm, point};

#[cfg(feature = "crash-points")]
mod trap {
    use std::str::FromStr;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    use super::Point;

    /// The variable that sets the trap.
    const VARIABLE: &str = "WECOM_GATEWAY_CRASH";
    /// Long enough for a signal to be taken, and over by the time that a stopped process is woken.
    const TAKEN: Duration = Duration::from_secs(1);
    const POINTS: [(&str, Point); 17] = [
        ("enqueued", Point::Enqueued),
        ("spooled", Point::Spooled),
        ("replayed", Point::Replayed),
        ("claimed", Point::Claimed),
        ("acted", Point::Acted),
        ("committing", Point::Committing),
        ("committed", Point::Committed),
        ("beginning", Point::Beginning),
        ("begun", Point::Begun),
        ("written", Point::Written),
        ("settling", Point::Settling),
        ("settled", Point::Settled),
        ("recorded", Point::Recorded),
        ("opened", Point::Opened),
        ("paged", Point::Paged),
        ("advanced", Point::Advanced),
        ("looking", Point::Looking),
    ];

    static TRAP: OnceLock<Trap> = OnceLock::new();

    #[derive(Debug)]
    struct Trap {
        point: Point,
        passings: AtomicU64,
        end: End,
    }

    #[derive(Debug, PartialEq)]
    enum End {
        Death,
        Stop,
    }

    /// What the variable holds is no trap.
    #[derive(Debug, thiserror::Error)]
    #[error("{VARIABLE}={0:?} is no crash point: write <point>[:n][:stop], with one of {points}", points = names())]
    pub(crate) struct NoTrap(String);

    fn names() -> String {
        POINTS.map(|(name, _)| name).join(", ")
    }

    impl FromStr for Trap {
        type Err = NoTrap;

        fn from_str(text: &str) -> Result<Self, NoTrap> {
            let no_trap = || NoTrap(text.to_owned());
            let (text, end) = text.strip_suffix(":stop").map_or((text, End::Death), |text| (text, End::Stop));
            let (name, passings) = text.split_once(':').unwrap_or((text, "1"));
            let (_, point) = POINTS.into_iter().find(|(known, _)| *known == name).ok_or_else(no_trap)?;
            let passings = passings.parse().ok().filter(|n| *n > 0).ok_or_else(no_trap)?;
            Ok(Self { point, passings: AtomicU64::new(passings), end })
        }
    }

    /// Sets the trap that the environment names, if it names one.
    pub(crate) fn arm() -> Result<(), NoTrap> {
        if let Ok(text) = std::env::var(VARIABLE) {
            // A second gateway of this process meets the first one's trap.
            let _ = TRAP.set(text.parse()?);
        }
        Ok(())
    }

    /// Ends here where the trap is set and its passing has come.
    pub(crate) fn point(point: Point) {
        let Some(trap) = TRAP.get().filter(|trap| trap.point == point) else { return };
        if trap.passings.fetch_sub(1, Ordering::Relaxed) != 1 {
            return;
        }
        match trap.end {
            End::Death => std::process::abort(),
            End::Stop => {
                // Sending oneself a signal that exists can't fail.
                let _ = kill_process(getpid(), Signal::STOP);
                // Another thread may be the one that takes it: this one must go no step further until it has.
                std::thread::sleep(TAKEN);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_trap_is_a_point_a_passing_and_an_end() {
            let trap = |text: &str| {
                let Trap { point, passings, end } = text.parse().unwrap();
                (point, passings.into_inner(), end)
            };
            assert_eq!(trap("begun"), (Point::Begun, 1, End::Death));
            assert_eq!(trap("settled:12"), (Point::Settled, 12, End::Death));
            assert_eq!(trap("enqueued:2:stop"), (Point::Enqueued, 2, End::Stop));
            assert_eq!(trap("acted:stop"), (Point::Acted, 1, End::Stop));
            for text in ["", "begin", "begun:", "begun:0", "begun:x", "begun:-1", ":1", "begun:1:die"] {
                let said = text.parse::<Trap>().unwrap_err().to_string();
                assert!(said.contains(&format!("{text:?}")) && said.contains("begun"), "{said}");
            }
        }
    }
}
