// What happens now, from /metrics and /readyz: rates between two readings, with the last minutes as lines.

import { text } from "./api.js";
import { brief, card, count, el, empty, facts, fault, head, loading, span, spark, tag } from "./ui.js";
import { meaning, t } from "./words.js";

const EVERY = 2000;
const KEPT = 150;
const NAME = "wecom_gateway_";

// "name{a="b"} value" lines to [{ name, labels, value }].
export function readMetrics(page) {
  const found = [];
  for (const line of page.split("\n")) {
    const parts = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!parts || line.startsWith("#")) continue;
    const labels = Object.fromEntries([...(parts[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, value]) => [key, value]));
    found.push({ name: parts[1].replace(NAME, ""), labels, value: Number(parts[3]) });
  }
  return found;
}

const sum = (metrics, name, fits = () => true) =>
  metrics.filter((metric) => metric.name === name && fits(metric.labels)).reduce((total, metric) => total + metric.value, 0);

function grouped(metrics, name, label) {
  const groups = new Map();
  for (const metric of metrics.filter((one) => one.name === name)) {
    groups.set(metric.labels[label], (groups.get(metric.labels[label]) ?? 0) + metric.value);
  }
  return [...groups].filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]);
}

const buckets = (metrics) => metrics.filter((metric) => metric.name === "end_to_end_seconds_bucket")
  .map((metric) => [metric.labels.le === "+Inf" ? Infinity : Number(metric.labels.le), metric.value]).sort((a, b) => a[0] - b[0]);

// The value below which `share` of what came between two readings lies, in ms, by the buckets' bounds.
export function quantile(before, after, share) {
  const old = new Map(before);
  const grown = after.map(([bound, value]) => [bound, value - (old.get(bound) ?? 0)]);
  const total = grown.at(-1)?.[1] ?? 0;
  if (total <= 0) return null;
  let lower = 0, below = 0;
  for (const [bound, upTo] of grown) {
    if (upTo >= total * share) {
      if (bound === Infinity) return lower * 1000;
      const inside = upTo - below;
      return (lower + (bound - lower) * (inside > 0 ? (total * share - below) / inside : 1)) * 1000;
    }
    [lower, below] = [bound, upTo];
  }
  return lower * 1000;
}

const TAKEN = ["stored", "spooled", "duplicate", "verified"];

function reading(page) {
  const metrics = readMetrics(page);
  return {
    at: performance.now(),
    metrics,
    in: sum(metrics, "callbacks_total"),
    refused: sum(metrics, "callbacks_total", (labels) => !TAKEN.includes(labels.result)),
    copies: sum(metrics, "callbacks_total", (labels) => labels.result === "duplicate"),
    done: sum(metrics, "messages_total"),
    out: sum(metrics, "sends_total", (labels) => labels.verdict === "delivered"),
    badly: sum(metrics, "messages_total", (labels) => ["dead", "dropped"].includes(labels.result)) + sum(metrics, "sends_total", (labels) => labels.verdict === "unknown"),
    buckets: buckets(metrics),
    depth: (kind) => metrics.find((metric) => metric.name === "depth" && metric.labels.kind === kind)?.value,
  };
}

export function now(main) {
  const readings = [];
  const body = el("div", loading());
  main.append(head(t("now")), body);

  async function look() {
    if (document.hidden) return;
    try {
      const [page, ready] = await Promise.all([text("/metrics"), readiness()]);
      readings.push({ ...reading(page), ready });
      if (readings.length > KEPT) readings.shift();
      show();
    } catch (error) {
      if (error.status !== 401) body.replaceChildren(fault(error, look));
    }
  }

  function show() {
    const last = readings.at(-1);
    body.replaceChildren(el("div", { style: "display:grid;gap:1rem" }, status(last), tiles(), el("div.tiles", breakdown(last))));
  }

  const rates = (field) => readings.slice(1).map((after, n) => {
    const before = readings[n];
    return Math.max(0, ((after[field] - before[field]) / (after.at - before.at)) * 1000);
  });

  function tiles() {
    if (readings.length < 2) return el("p.soft", t("first_look"));
    const per = (label, field, factor = 1) => {
      const values = rates(field).map((value) => value * factor);
      return tile(label, values.at(-1).toFixed(values.at(-1) < 10 ? 1 : 0), values);
    };
    const slow = (share) => readings.slice(1).map((after, n) => quantile(readings[n].buckets, after.buckets, share) ?? 0);
    const first = readings.length > 30 ? readings.at(-31) : readings[0];
    const over = (share) => quantile(first.buckets, readings.at(-1).buckets, share);
    const waits = readings.map((one) => (one.depth("out_lanes") ?? 0) + (one.depth("in_lanes") ?? 0));
    return el("div.tiles",
      per(t("rate_in"), "in"), per(t("rate_done"), "done"), per(t("rate_out"), "out"),
      tile(t("latency"), [span(over(0.5)), el("small", ` ${t("p50")} · ${span(over(0.95))} ${t("p95")}`)], slow(0.95)),
      tile(t("waiting"), count(waits.at(-1)), waits),
      per(t("duplicates_in"), "copies", 60), per(t("refused_in"), "refused", 60), per(t("ended_badly"), "badly", 60));
  }

  const tile = (label, value, values) => el("section.card.tile", el("div.label", label), el("div.value", value), spark(values));

  look();
  const timer = setInterval(look, EVERY);
  return () => clearInterval(timer);
}

async function readiness() {
  const answer = await fetch("/readyz", { cache: "no-store" }).catch(() => null);
  return answer ? answer.json().catch(() => ({})) : {};
}

function status(last) {
  const { ready } = last;
  return card(null, el("div.row",
    tag(ready.draining ? t("draining") : t(ready.ready ? "ready" : "not_ready"), ready.ready ? "good" : "bad"),
    tag(`${t("store")}: ${t(ready.store === "up" ? "up" : "down")}`, ready.store === "up" ? "good" : "bad"),
    ready.spool && tag(`${t("spool")}: ${count(ready.spool.depth)}`, ready.spool.full ? "bad" : ready.spool.depth ? "warn" : "")),
  brief([[t("lanes_in"), count(last.depth("in_lanes"))], [t("lanes_out"), count(last.depth("out_lanes"))], [t("parked"), count(last.depth("parked"))], [t("journal"), count(last.depth("journal"))]]));
}

function breakdown(last) {
  const part = (title, rows) => card(title, rows.length ? facts(rows.map(([word, value]) => [meaning(word), el("span.whole", count(value))])) : empty(t("nothing_yet"), ""));
  return [part(t("callbacks_by"), grouped(last.metrics, "callbacks_total", "result")), part(t("handled_as"), grouped(last.metrics, "messages_total", "result")),
    part(t("sends_by"), grouped(last.metrics, "sends_total", "verdict"))];
}
