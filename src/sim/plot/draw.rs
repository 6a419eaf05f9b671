//! SVG, the few shapes that two panels need. Places within a panel run from 0 to 1, upward and to the right.

use std::fmt::Write as _;

use quick_xml::escape::escape;

/// A panel's place in the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    fn x(&self, at: f64) -> f64 {
        self.left + at * (self.right - self.left)
    }
    fn y(&self, at: f64) -> f64 {
        self.bottom - at * (self.bottom - self.top)
    }
}

const INK: &str = "#1f2937";
const FAINT_INK: &str = "#6b7280";
const GRID: &str = "#e5e7eb";
const BARS: &str = "#9ecae1";

/// A picture in the making.
pub(super) struct Drawing(String);

impl Drawing {
    /// White, with a heading.
    pub(super) fn new((width, height): (f64, f64), title: &str, subtitle: &str) -> Self {
        let mut drawing = Self(String::new());
        drawing.add(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"Helvetica, Arial, 'Noto Sans', sans-serif\">"
        ));
        drawing.add(format_args!("<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"));
        drawing.text((24.0, 36.0), "start", (20, INK), title);
        drawing.text((24.0, 60.0), "start", (13, FAINT_INK), subtitle);
        drawing
    }

    pub(super) fn end(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }

    fn add(&mut self, element: std::fmt::Arguments) {
        // Writing to a String can't fail.
        let _ = writeln!(self.0, "{element}");
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: &str, (size, colour): (u32, &str), text: &str) {
        let text = escape(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{colour}\">{text}</text>"
        ));
    }

    fn stroke(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, more: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"{more}/>"
        ));
    }

    /// A heading and a base line.
    pub(super) fn panel(&mut self, area: Area, heading: &str) {
        self.text((area.left, area.top - 24.0), "start", (15, INK), heading);
        self.stroke((area.left, area.bottom), (area.right, area.bottom), FAINT_INK, "");
    }

    /// A note instead of a panel.
    pub(super) fn note(&mut self, area: Area, text: &str) {
        self.text((area.left, area.top), "start", (15, FAINT_INK), text);
    }

    /// Names of lines, at the right of the heading.
    pub(super) fn legend(&mut self, area: Area, names: &[(&str, &str)]) {
        let mut x = area.right - 70.0 * names.len() as f64;
        for (name, colour) in names {
            let y = area.top - 29.0;
            self.stroke((x, y), (x + 24.0, y), colour, " stroke-width=\"3\"");
            self.text((x + 30.0, area.top - 24.0), "start", (13, INK), name);
            x += 70.0;
        }
    }

    /// What the horizontal axis is.
    pub(super) fn caption(&mut self, area: Area, text: &str) {
        self.text((area.x(0.5), area.bottom + 42.0), "middle", (13, FAINT_INK), text);
    }

    /// A line of the grid, with its label at the left.
    pub(super) fn horizontal(&mut self, area: Area, at: f64, label: Option<&str>) {
        let y = area.y(at);
        if at > 0.0 {
            self.stroke((area.left, y), (area.right, y), GRID, "");
        }
        if let Some(label) = label {
            self.text((area.left - 8.0, y + 4.0), "end", (12, FAINT_INK), label);
        }
    }

    /// A line of the grid, with its label below.
    pub(super) fn vertical(&mut self, area: Area, at: f64, label: Option<&str>) {
        let x = area.x(at);
        self.stroke((x, area.top), (x, area.bottom), GRID, "");
        if let Some(label) = label {
            self.text((x, area.bottom + 19.0), "middle", (12, FAINT_INK), label);
        }
    }

    pub(super) fn line(&mut self, area: Area, points: &[(f64, f64)], colour: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{:.1},{:.1}", area.x(*x), area.y(*y))).collect();
        self.add(format_args!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-linejoin=\"round\" stroke-linecap=\"round\" points=\"{}\"/>",
            points.join(" ")
        ));
    }

    pub(super) fn bar(&mut self, area: Area, (from, to): (f64, f64), height: f64) {
        let (x, y) = (area.x(from) + 0.5, area.y(height));
        let (width, height) = (area.x(to) - x - 0.5, area.bottom - y);
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{BARS}\"/>"
        ));
    }

    /// Values marked from the base to the top, each with its label in a row of its own.
    pub(super) fn markers(&mut self, area: Area, markers: &[(f64, String, &str)]) {
        for (at, _, colour) in markers {
            let x = area.x(*at);
            self.stroke((x, area.top), (x, area.bottom), colour, " stroke-width=\"1.5\" stroke-dasharray=\"5 3\"");
        }
        for (row, (at, label, colour)) in markers.iter().enumerate() {
            let y = area.top + 12.0 + 17.0 * row as f64;
            // At the right of the panel there is no room on the right of the line.
            let (x, anchor) = if *at > 0.85 { (area.x(*at) - 6.0, "end") } else { (area.x(*at) + 6.0, "start") };
            // A white edge keeps the lines of the others apart from the letters.
            self.add(format_args!("<g stroke=\"#ffffff\" stroke-width=\"5\" paint-order=\"stroke\">"));
            self.text((x, y), anchor, (13, colour), label);
            self.add(format_args!("</g>"));
        }
    }
}
