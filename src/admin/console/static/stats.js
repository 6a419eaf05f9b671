// A day in figures: in all, by what set messages off, by chat; and as CSV.

import { get } from "./api.js";
import { button, card, count, el, empty, head, region, span, table } from "./ui.js";
import { meaning, t } from "./words.js";

const share = (rate) => (rate === null || rate === undefined ? "–" : `${(rate * 100).toFixed(1)}%`);

// The whole day: the list of chats comes page by page.
async function day(date) {
  let cursor = "", whole;
  do {
    const page = await get(`stats?limit=500${date && `&date=${date}`}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    if (whole) whole.items.push(...page.items); else whole = page;
    cursor = page.next;
  } while (cursor);
  return whole;
}

export function stats(main, wanted) {
  let shown;
  const field = el("input", { type: "date", "aria-label": t("day"), onchange: () => { location.hash = `#/stats/${field.value}`; } });
  field.value = wanted;
  const body = el("div", { style: "display:grid;gap:1rem" });
  const refresh = region(body, async () => (shown = await day(wanted)), (found) => {
    field.value = found.date;
    return found.total.messages || found.total.replies || found.total.duplicates ? parts(found) : card(null, empty(t("stats_none"), t("stats_none_hint")));
  });
  main.append(head(t("stats"), field, button(t("csv"), () => shown && save(shown)), button(t("refresh"), () => refresh())), body);
  refresh();
}

function parts({ total, rules, items, zone }) {
  const tile = (label, value, under) => el("section.card.tile", el("div.label", label), el("div.value", value), under && el("div.soft.small", under));
  const { latency_ms: slow } = total;
  return [
    el("div.tiles.five", tile(t("messages"), count(total.messages), zone), tile(t("replies"), count(total.replies)), tile(t("success"), share(total.success_rate), ended(total)),
      tile(t("copies"), count(total.duplicates)), tile(t("latency"), span(slow?.mean), slow && late(slow))),
    card(t("hits"), bars(Object.entries(total.hits).filter(([, hits]) => hits > 0).sort(([, one], [, other]) => other - one).map(([word, hits]) => [meaning(word), hits]))),
    rules.length > 0 && card(t("by_rule"), table(columns([
      { label: t("rule"), of: (one) => el("div", one.trigger === "binding" ? t("nth_binding", Number(one.rule) + 1) : one.rule, el("div.under", `${one.app} · ${meaning(one.trigger)}`)) },
      { label: t("hits"), number: true, of: (one) => `${count(one.hits)} (${share(one.hit_rate)})` }]), rules)),
    items.length > 0 && card(t("by_chat"), table(columns([
      { label: t("chat"), of: (one) => el("div", one.name ?? one.chat, el("div.under.mono", `${one.app} / ${one.chat}`)) },
      { label: t("messages"), number: true, of: (one) => count(one.messages) },
      { label: t("copies"), number: true, of: (one) => count(one.duplicates) }]), items)),
  ].filter(Boolean);
}

const ended = ({ unknown, dead, dropped }) => [["unknown", unknown], ["dead", dead], ["dropped", dropped]].filter(([, number]) => number > 0)
  .map(([word, number]) => `${meaning(word)} ${count(number)}`).join(" · ");

// A figure and its unit stay together.
const late = ({ p50, p95, p99 }) => [[t("p50"), p50], ["P95", p95], ["P99", p99]]
  .map(([name, ms], n) => [n > 0 && " · ", el("span.whole", `${name} ${span(ms)}`)]);

const columns = (first) => [...first,
  { label: t("replies"), number: true, of: (one) => count(one.replies) },
  { label: t("success"), number: true, of: (one) => share(one.success_rate) },
  { label: t("mean"), number: true, of: (one) => span(one.latency_ms?.mean) },
  { label: "P95", number: true, of: (one) => span(one.latency_ms?.p95) },
  { label: "P99", number: true, of: (one) => span(one.latency_ms?.p99) }];

function bars(rows) {
  const most = Math.max(...rows.map(([, value]) => value), 1);
  return el("div", { role: "list", style: "display:grid;gap:.5rem;grid-template-columns:max-content 1fr max-content;align-items:center" },
    rows.map(([label, value]) => [el("span.soft.small", label), meter(value / most), el("span", { style: "text-align:right" }, count(value))]));
}

function meter(part) {
  const bar = el("div.meter", el("i"));
  bar.firstChild.style.width = `${(part * 100).toFixed(1)}%`;
  return bar;
}

// The columns of `wecom-gateway report --format csv`; hits by their words stand between the two last.
const OF = ["date", "zone", "of", "app", "chat", "name", "trigger", "rule"];
const FIGURES = ["messages", "hits", "hit_rate", "duplicates", "replies", "delivered", "unknown", "dead", "dropped", "success_rate"];
const LATENCIES = ["mean", "p50", "p95", "p99"];

// Cells that a spreadsheet would take for a formula are kept from it.
function cell(value) {
  const text = String(value ?? "");
  const plain = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\n\r]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

export function csv({ date, zone, total, rules, items }) {
  const words = Object.keys(total.hits).sort();
  const plain = (value) => (typeof value === "object" ? "" : value);
  const line = (of, one) => [date, zone, of, ...OF.slice(3).map((field) => one[field]), ...FIGURES.map((field) => plain(one[field])),
    ...words.map((word) => one.hits[word]), ...LATENCIES.map((field) => one.latency_ms?.[field])];
  const rows = [[...OF, ...FIGURES, ...words.map((word) => `hits_${word}`), ...LATENCIES.map((field) => `latency_${field}_ms`)],
    line("all", total), ...items.map((one) => line("chat", one)), ...rules.map((one) => line("rule", one))];
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function save(shown) {
  // The mark tells a spreadsheet that this is UTF-8.
  const address = URL.createObjectURL(new Blob(["\ufeff", csv(shown)], { type: "text/csv;charset=utf-8" }));
  el("a", { href: address, download: `wecom-gateway-${shown.date}.csv` }).click();
  URL.revokeObjectURL(address);
}
