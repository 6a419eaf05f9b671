// What pages are made of. Nothing here ever writes HTML from data: texts become text nodes.

import { t } from "./words.js";

// el("p.soft", { title }, "text", child, …)
export function el(name, ...rest) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  fill(node, rest);
  return node;
}

function fill(node, parts) {
  for (const part of parts.flat(Infinity)) {
    if (part === null || part === undefined || part === false) continue;
    if (part instanceof Node) node.append(part);
    else if (typeof part === "object") attributes(node, part);
    else node.append(String(part));
  }
}

function attributes(node, wanted) {
  for (const [key, value] of Object.entries(wanted)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key in node && key !== "list" && typeof value !== "string") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
}

const SVG = "http://www.w3.org/2000/svg";
export function svg(tag, attrs = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attrs)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export const button = (label, onclick, kind = "") => el(`button${kind && `.${kind}`}`, { type: "button", onclick }, label);
export const tag = (word, kind = "") => el(`span.tag${kind && `.${kind}`}`, word);
export const card = (title, ...children) => el("section.card", title && el("h2", title), children);

export function head(title, ...tools) {
  document.title = `${title} · wecom-gateway`;
  return el("div.head", el("h1", title), el("span.spread"), tools);
}

// Short facts in one line.
export const brief = (pairs) => el("div.brief", pairs.map(([name, value]) => el("span", el("span.soft.small", name), " ", el("strong", value))));

// The three states of everything that is asked for.
export const loading = () => el("div", { "aria-busy": "true", role: "status" }, [1, 2, 3].map(() => el("div.skeleton")));
export const empty = (title, hint) => el("div.state", el("strong", title), hint);
export function fault(error, again) {
  const message = error.status === 0 ? t("unreachable") : error.message || t("http_fault", error.status ?? "");
  return el("div.state.fault", { role: "alert" }, el("strong", t("went_wrong")), message,
    again && el("div", button(t("try_again"), again)));
}

// Shows what `ask` brings by `show`, with loading and error states; answers a function that does it again.
export function region(node, ask, show) {
  let turn = 0;
  return async function refresh(quiet = false) {
    const mine = ++turn;
    if (!quiet) node.replaceChildren(loading());
    try {
      const answer = await ask();
      if (mine === turn) node.replaceChildren(...[show(answer)].flat());
    } catch (error) {
      if (mine === turn && error.status !== 401) node.replaceChildren(fault(error, () => refresh()));
    }
  };
}

// columns: [{ label, of, number, actions }]
export function table(columns, rows) {
  const names = columns.map((column) => el(column.number ? "th.number" : "th", { scope: "col" }, column.label));
  const row = (item) => el("tr", columns.map((column) => {
    const kind = column.number ? "td.number" : column.actions ? "td.actions" : "td";
    const content = column.of(item);
    return el(content === "–" ? `${kind}.none` : kind, { "data-label": typeof column.label === "string" ? column.label : "" }, content);
  }));
  return el("div.scroll", el("table.stacked", el("thead", el("tr", names)), el("tbody", rows.map(row))));
}

// Below a list that has more: brings it, and has the list drawn again.
export const moreOf = (bring, draw) => el("div.row", { style: "margin-top:.8rem" }, button(t("more"), async () => { await attempt(bring, ""); draw(); }));

export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl.facts", shown.map(([name, value]) => [el("dt", name), el("dd", value)]));
}

let toasts;
export function toast(message, bad = false) {
  toasts ??= document.body.appendChild(el("div.toasts", { "aria-live": "polite" }));
  const note = el(`div.toast${bad ? ".bad" : ""}`, message);
  toasts.append(note);
  setTimeout(() => note.remove(), bad ? 9000 : 4000);
}

// Does something and says what came of it; answers whether it worked.
export async function attempt(what, done) {
  try {
    const answer = await what();
    const said = typeof done === "function" ? done(answer) : done;
    if (said) toast(said);
    return true;
  } catch (error) {
    if (error.status !== 401) toast(error.status === 0 ? t("unreachable") : error.message || t("went_wrong"), true);
    return false;
  }
}

export function confirm(question, detail, label, danger = true) {
  return new Promise((resolve) => {
    const close = (answer) => { dialog.close(); dialog.remove(); resolve(answer); };
    const dialog = el("dialog", { oncancel: () => close(false) }, el("h2", question), detail && el("p.soft", detail),
      el("div.row", button(t("cancel"), () => close(false)), button(label, () => close(true), danger ? "danger" : "first")));
    document.body.append(dialog);
    dialog.showModal();
  });
}

export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.round((seconds % 86400) / 3600)} h`;
}

export const count = (number) => (number === null || number === undefined ? "–" : Number(number).toLocaleString());

// In which zone times are told: the records', once it is known.
const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
let zone = own, clock = inZone(own);

function inZone(timeZone) {
  const two = "2-digit";
  return new Intl.DateTimeFormat("en-CA", { timeZone, hourCycle: "h23", year: "numeric", month: two, day: two, hour: two, minute: two, second: two, fractionalSecondDigits: 3 });
}

export function useZone(name) {
  try {
    [clock, zone] = [inZone(name), name];
  } catch {
    // A name that this browser does not know: its own clock is told, by its name.
  }
}

export const zoneName = () => zone;

function parts(at) {
  return Object.fromEntries(clock.formatToParts(at).map(({ type, value }) => [type, value]));
}

export function moment(at) {
  const time = new Date(at);
  if (Number.isNaN(time.getTime())) return String(at);
  const { year, month, day, hour, minute, second, fractionalSecond } = parts(time);
  return `${year}-${month}-${day} ${hour}:${minute}:${second}.${fractionalSecond}`;
}

// When a day begins in that zone: its midnight by UTC, moved by how far the zone's clock is off then.
export function midnight(day) {
  const utc = new Date(`${day}T00:00:00Z`);
  const off = (at) => Date.parse(`${moment(at).replace(" ", "T")}Z`) - at;
  return new Date(utc - off(new Date(utc - off(utc))));
}

// A line of the last values; nothing of it is drawn until there are two.
export function spark(values) {
  const picture = svg("svg", { viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" });
  if (values.length < 2) return picture;
  const top = Math.max(...values, 1e-9);
  const points = values.map((value, n) => `${((n / (values.length - 1)) * 100).toFixed(2)},${(28 - (value / top) * 26).toFixed(2)}`);
  picture.append(svg("polygon", { class: "spark-area", points: `0,30 ${points.join(" ")} 100,30` }),
    svg("polyline", { class: "spark-line", points: points.join(" ") }));
  return picture;
}
