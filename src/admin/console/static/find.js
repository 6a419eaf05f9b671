// One id, and the whole way of the message behind it as a time line.

import { get } from "./api.js";
import { card, el, empty, facts, head, moment, region, span, tag } from "./ui.js";
import { meaning, mood, t } from "./words.js";

export function find(main, wanted) {
  const field = el("input", { type: "search", placeholder: t("find_hint"), "aria-label": t("find_hint") });
  field.value = wanted;
  const go = (event) => {
    event.preventDefault();
    const id = field.value.trim();
    const address = `#/find/${encodeURIComponent(id)}`;
    if (location.hash === address) refresh(); else location.hash = address;
  };
  const body = el("div", { style: "display:grid;gap:1rem" });
  const refresh = region(body, () => get(`messages/${encodeURIComponent(wanted)}`), (page) => shown(page, wanted));
  main.append(head(t("find")), el("form.row", { onsubmit: go }, field, el("button.first", { type: "submit" }, t("find_go"))), body);
  if (wanted) refresh(); else { body.append(card(null, empty(t("find_start"), t("find_start_hint")))); field.focus(); }
}

function shown({ items, refused }, wanted) {
  if (refused) {
    return card(null, el("div.row", el("h2", { style: "margin:0" }, wanted), tag(`${t("refused")}: ${meaning(refused.result)}`, "bad")), el("p", refused.refusal),
      el("p.soft.small", moment(refused.at), " · ", t("refused_hint"), " ", el("a", { href: "#/apps" }, t("apps"))));
  }
  if (!items.length) return card(null, empty(t("find_none", wanted), t("find_none_hint")));
  return items.map((item) => card(null,
    el("div.row", el("h2", { style: "margin:0" }, item.task_id ?? item.msg_id), tag(meaning(item.outcome), mood(item.outcome)), item.reason && el("span.soft", meaning(item.reason))),
    facts([[t("app"), item.app], [t("chat"), item.chat], [t("sender"), item.sender], ["request_id", el("code", item.request_id)]]),
    el("ol.timeline", { style: "margin-top:1rem" }, line(item.stages))));
}

function line(stages) {
  const start = new Date(stages[0]?.at).getTime();
  const states = Object.fromEntries(stages.filter((one) => one.delivery && one.state).map((one) => [one.delivery, one.state]));
  return stages.map((stage) => {
    const { at, stage: name, request_id: _, ...detail } = stage;
    const word = detail.state ?? detail.outcome;
    return el(`li${mood(word ?? name) && `.${mood(word ?? name)}`}`,
      el("div", el("strong", meaning(name)), " ", word && tag(meaning(word), mood(word)), " ",
        el("span.soft.small", `${moment(at)} · ${t("after_start", span(new Date(at).getTime() - start))}`)),
      facts(Object.entries(detail).filter(([key]) => !["state", "outcome"].includes(key)).map(([key, value]) => [meaning(key), written(key, value, states)])));
  });
}

// Whose values are words of the gateway's own; any other is an id or somebody's text.
const WORDY = ["reason", "verdict", "trigger", "action", "channel"];

function written(key, value, states) {
  if (value === null || value === undefined) return null;
  if (key.endsWith("_ms")) return span(value);
  if (key === "replies" && Array.isArray(value) && value.every((one) => one?.id)) {
    return value.length ? el("div", value.map(({ id }) => reply(id, states[id]))) : null;
  }
  if (typeof value === "object") return Array.isArray(value) && !value.length ? null : el("code", JSON.stringify(value));
  return WORDY.includes(key) || typeof value === "boolean" ? meaning(String(value)) : String(value);
}

// A reply by its id, and how it ended, if it has.
const reply = (id, state) => el("div", el("code", id), state && [" ", tag(meaning(state), mood(state))]);
