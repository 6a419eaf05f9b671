// What did not end well, to be settled by hand: one or many.

import { change, gathered, mayChange } from "./api.js";
import { button, confirm, el, empty, head, moment, moreOf, region, table, tag, toast } from "./ui.js";
import { meaning, mood, t } from "./words.js";

const STATES = ["", "unknown", "dead", "dropped"];
const mayBe = (action, delivery) => mayChange() && (action !== "resend" || delivery.resendable);
const ACTIONS = { resend: ["resend", "resend_hint", false], delivered: ["delivered_act", "delivered_hint", false], discard: ["discard", "discard_hint", true] };

export function settle(main, wanted) {
  const state = STATES.includes(wanted) ? wanted : "";
  let found;
  const chosen = new Set();
  const body = el("div"), box = el("section.card", body), many = el("div.row");
  const refresh = region(body, load, () => rows()), draw = () => body.replaceChildren(...rows());

  async function load() {
    chosen.clear();
    found = gathered(`deliveries?limit=100${state && `&state=${state}`}`);
    await found.bring();
  }

  function rows() {
    drawMany();
    if (!found.items.length) return empty(t("settle_none"), t("settle_none_hint"));
    return [table(columns, found.items), found.more && moreOf(found.bring, draw)].filter(Boolean);
  }

  function drawMany() {
    const those = found.items.filter((one) => chosen.has(one.id));
    const labels = Object.entries(ACTIONS).filter(([action]) => those.every((one) => mayBe(action, one)))
      .map(([action, [label, , danger]]) => button(t(label), () => act(action, those), danger ? "danger" : ""));
    const all = button(t("select_all"), () => { found.items.forEach((one) => chosen.add(one.id)); draw(); });
    if (!mayChange()) return;
    many.replaceChildren(...[chosen.size < found.items.length && all, chosen.size > 0 && el("span.soft", t("selected", chosen.size)), ...(chosen.size ? labels : [])].filter(Boolean));
  }

  async function act(action, deliveries) {
    const [label, hint, danger] = ACTIONS[action];
    if (!(await confirm(t("settle_ask", t(label), deliveries.length), t(hint), t(label), danger))) return;
    let done = 0;
    const faults = [];
    for (const delivery of deliveries) {
      try {
        await change("POST", `deliveries/${encodeURIComponent(delivery.id)}`, { action });
        done += 1;
      } catch (error) {
        if (error.status === 401) return;
        faults.push(error.message || t("unreachable"));
      }
    }
    toast(faults.length ? t("settled_some", done, faults.length, faults[0]) : t("settled_done", done), faults.length > 0);
    // The records follow within half a second; what is settled here goes at once.
    await new Promise((resolve) => setTimeout(resolve, 600));
    await refresh(true);
  }

  const box1 = (delivery) => el("input", { type: "checkbox", checked: chosen.has(delivery.id), "aria-label": delivery.id,
    onchange: (event) => { event.target.checked ? chosen.add(delivery.id) : chosen.delete(delivery.id); drawMany(); } });
  const columns = [
    ...(mayChange() ? [{ label: "", of: box1 }] : []),
    { label: t("state"), of: (one) => el("div", tag(meaning(one.state), mood(one.state)), el("div.under", meaning(one.reason ?? ""), one.errcode != null && ` · ${one.errcode}`)) },
    { label: t("chat"), of: (one) => el("div", one.chat, el("div.under", one.app)) },
    { label: t("delivery"), of: (one) => el("a.mono", { href: `#/find/${encodeURIComponent(one.id)}` }, one.id) },
    { label: t("when"), of: (one) => el("span.small", moment(one.at)) },
    { label: "", actions: true, of: (one) => Object.entries(ACTIONS).filter(([action]) => mayBe(action, one)).map(([action, [label, , danger]]) => button(t(label), () => act(action, [one]), danger ? "danger" : "")) },
  ];
  const tabs = STATES.map((one) => el("a", { href: `#/settle/${one}`, "aria-current": one === state && "true" }, one ? meaning(one) : t("all")));

  main.append(head(t("settle"), button(t("refresh"), () => refresh())), el("div.row", el("nav", tabs), many), box);
  refresh();
}
