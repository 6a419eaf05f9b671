//! Latencies as a picture: over time, and their distribution, in one SVG that needs nothing beside it. Pure.
//!
//! Always: well-formed XML whatever the title holds; both panels have the same logarithmic scale of latencies, because they
//! run from a millisecond to many seconds; a point is drawn only where a reply was measured.

mod axis;
mod draw;

use std::time::Duration;

use super::summary::Sample;
use axis::{LatencyAxis, TimeAxis};
use draw::{Area, Drawing};

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Plot<'a> {
    /// One line.
    pub title: &'a str,
    /// One line below it, smaller.
    pub subtitle: &'a str,
    /// In any order.
    pub samples: &'a [Sample],
}

/// Width and height of the picture.
const SIZE: (f64, f64) = (960.0, 760.0);
const TIME_PANEL: Area = Area { left: 80.0, top: 118.0, right: 930.0, bottom: 390.0 };
const DISTRIBUTION_PANEL: Area = Area { left: 80.0, top: 482.0, right: 930.0, bottom: 690.0 };
/// The lines, with their colours.
const QUANTILES: [(&str, f64, &str); 3] = [("P50", 0.5, "#2171b5"), ("P95", 0.95, "#d97706"), ("P99", 0.99, "#b91c1c")];
/// Bars of the distribution in a factor of 10.
const BARS_PER_DECADE: f64 = 20.0;

impl Plot<'_> {
    /// The picture.
    pub fn svg(&self) -> String {
        let mut drawing = Drawing::new(SIZE, self.title, self.subtitle);
        let latencies = sorted(self.samples.iter().map(|sample| sample.latency));
        let (Some(shortest), Some(longest)) = (latencies.first(), latencies.last()) else {
            drawing.note(TIME_PANEL, "no replies were measured");
            return drawing.end();
        };
        let scale = LatencyAxis::over(*shortest, *longest);
        self.over_time(&mut drawing, &scale);
        distribution(&mut drawing, &scale, &latencies);
        drawing.end()
    }

    /// P50, P95 and P99 of the replies to what was posted within each step of time.
    fn over_time(&self, drawing: &mut Drawing, scale: &LatencyAxis) {
        let end = self.samples.iter().map(|sample| sample.posted).max().unwrap_or_default();
        let time = TimeAxis::until(end);
        let step = time.step(self.samples.len());
        let heading = format!("Latency over time: of replies to messages posted within {}", axis::time(step));
        drawing.panel(TIME_PANEL, &heading);
        drawing.legend(TIME_PANEL, &QUANTILES.map(|(name, _, colour)| (name, colour)));
        for (at, label) in scale.ticks() {
            drawing.horizontal(TIME_PANEL, at, label.as_deref());
        }
        for (at, label) in time.ticks() {
            drawing.vertical(TIME_PANEL, at, Some(&label));
        }
        drawing.caption(TIME_PANEL, "time since the first message");
        let steps = self.steps(step);
        for (_, quantile, colour) in QUANTILES.into_iter().rev() {
            let points: Vec<(f64, f64)> = steps
                .iter()
                .map(|(at, latencies)| (time.place(*at), scale.place(self::quantile(latencies, quantile))))
                .collect();
            drawing.line(TIME_PANEL, &points, colour);
        }
    }

    /// The latencies of each step of time that has any, sorted, with the middle of the step.
    fn steps(&self, step: Duration) -> Vec<(Duration, Vec<Duration>)> {
        let step_of = |sample: &Sample| (sample.posted.as_secs_f64() / step.as_secs_f64()) as u32;
        let mut samples: Vec<&Sample> = self.samples.iter().collect();
        samples.sort_by_key(|sample| sample.posted);
        samples
            .chunk_by(|a, b| step_of(a) == step_of(b))
            .map(|chunk| (step * step_of(chunk[0]) + step / 2, sorted(chunk.iter().map(|sample| sample.latency))))
            .collect()
    }
}

/// How many of all replies took how long.
fn distribution(drawing: &mut Drawing, scale: &LatencyAxis, latencies: &[Duration]) {
    let bars = (scale.decades() * BARS_PER_DECADE).ceil().max(1.0);
    let mut counts = vec![0_usize; bars as usize];
    for latency in latencies {
        let bar = (scale.place(*latency) * bars) as usize;
        counts[bar.min(bars as usize - 1)] += 1;
    }
    let highest = counts.iter().copied().max().unwrap_or_default();
    drawing.panel(DISTRIBUTION_PANEL, &format!("Distribution of {} latencies", latencies.len()));
    for (at, label) in axis::percent_ticks(highest as f64 / latencies.len() as f64) {
        drawing.horizontal(DISTRIBUTION_PANEL, at, Some(&label));
    }
    let top = axis::percent_top(highest as f64 / latencies.len() as f64);
    for (at, label) in scale.ticks() {
        drawing.vertical(DISTRIBUTION_PANEL, at, label.as_deref());
    }
    for (bar, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        let share = count as f64 / latencies.len() as f64;
        drawing.bar(DISTRIBUTION_PANEL, (bar as f64 / bars, (bar + 1) as f64 / bars), share / top);
    }
    let markers = QUANTILES.map(|(name, quantile, colour)| {
        let latency = self::quantile(latencies, quantile);
        (scale.place(latency), format!("{name} {}", axis::latency(latency)), colour)
    });
    drawing.markers(DISTRIBUTION_PANEL, &markers);
    drawing.caption(DISTRIBUTION_PANEL, "from a message's first post to the arrival of its reply");
}

fn sorted(latencies: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut latencies: Vec<Duration> = latencies.collect();
    latencies.sort_unstable();
    latencies
}

/// The nearest rank of a sorted list; zero of an empty one.
fn quantile(sorted: &[Duration], quantile: f64) -> Duration {
    let rank = (sorted.len() as f64 * quantile).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use quick_xml::events::Event;

    use super::*;

    /// Every element with its attributes, or a panic where it is no XML.
    fn elements(svg: &str) -> Vec<(String, String)> {
        let mut reader = quick_xml::Reader::from_str(svg);
        reader.config_mut().check_end_names = true;
        let mut elements = Vec::new();
        let mut depth = 0;
        loop {
            let (start, opens) = match reader.read_event().unwrap() {
                Event::Eof => break,
                Event::Start(start) => (start, 1),
                Event::Empty(start) => (start, 0),
                Event::End(_) => {
                    depth -= 1;
                    continue;
                }
                _ => continue,
            };
            depth += opens;
            let name = start.name().0.to_owned();
            let attributes = start.attributes().map(|a| {
                let a = a.unwrap();
                format!("{}={} ", a.key.0, a.value)
            });
            elements.push((name, attributes.collect()));
        }
        assert_eq!(depth, 0);
        elements
    }

    fn samples(count: u64) -> Vec<Sample> {
        let ms = Duration::from_millis;
        (0..count).map(|n| Sample { posted: ms(100 * n), latency: ms(10 + n % 90) }).collect()
    }

    #[test]
    fn every_step_with_replies_is_a_point_of_every_line() {
        // 30 a second for 60 s, with nothing posted between 20 and 40 s: a point every 2 s.
        let ms = Duration::from_millis;
        let mut samples: Vec<Sample> =
            (0..1800).map(|n| Sample { posted: ms(n * 1000 / 30), latency: ms(10 + n % 90) }).collect();
        samples.retain(|sample| !(20..40).contains(&sample.posted.as_secs()));
        let svg = Plot { title: "t", subtitle: "s", samples: &samples }.svg();
        let lines: Vec<String> = elements(&svg)
            .into_iter()
            .filter(|(name, _)| name == "polyline")
            .map(|(_, attributes)| attributes)
            .collect();
        assert_eq!(lines.len(), 3);
        for line in lines {
            let points = line.split("points=").nth(1).unwrap().split_whitespace().filter(|p| p.contains(',')).count();
            assert_eq!(points, 20, "{line}");
        }
    }

    #[test]
    fn bars_hold_every_latency_and_markers_name_the_quantiles() {
        let samples = samples(900);
        let svg = Plot { title: "t", subtitle: "s", samples: &samples }.svg();
        assert!(svg.contains(">P50 54 ms<") && svg.contains(">P95 95 ms<") && svg.contains(">P99 99 ms<"), "{svg}");
        assert!(svg.contains("Distribution of 900 latencies"));
    }

    #[test]
    fn a_title_is_text_and_nothing_else() {
        let svg = Plot { title: "<a> & \"b\"", subtitle: "]]>", samples: &samples(10) }.svg();
        assert!(svg.contains("&lt;a&gt; &amp;"), "{svg}");
        elements(&svg);
    }

    #[test]
    fn few_samples_make_a_picture_too() {
        let one = [Sample { posted: Duration::ZERO, latency: Duration::ZERO }];
        let far = [one[0], Sample { posted: Duration::from_secs(4000), latency: Duration::from_secs(3600) }];
        for samples in [&[][..], &one, &far] {
            let svg = Plot { title: "t", subtitle: "s", samples }.svg();
            elements(&svg);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
