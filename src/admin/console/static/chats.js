// Chats: what waits, why, and the operators' hands on them.

import { change, list, mayChange } from "./api.js";
import { lastChanges } from "./changes.js";
import { attempt, button, confirm, count, el, empty, head, moreOf, region, span, table, tag } from "./ui.js";
import { meaning, mood, t } from "./words.js";

const path = (chat) => `chats/${encodeURIComponent(chat.app)}/${encodeURIComponent(chat.chat)}`;
const named = (chat) => chat.name ?? chat.chat;
const isQuiet = (chat) => chat.state === "active" && chat.depth === 0 && !chat.last_error && !chat.muted;

export function chats(main) {
  const shown = [];
  let next, more = false, coming = null;
  const filter = el("input", { type: "search", placeholder: t("filter"), "aria-label": t("filter"), oninput: () => look() });
  const busy = el("input", { type: "checkbox", onchange: () => look() });
  const body = el("div"), box = el("section.card", body);
  const refresh = region(body, load, () => rows());

  async function load() {
    const mine = next = list("chats?limit=500");
    shown.length = 0;
    more = true;
    do await bring(); while (mine === next && more && (!shown.length || isFiltered()));
  }
  // One page at a time; one of a list that was begun anew meanwhile is dropped.
  const bring = () => (coming ??= page().finally(() => { coming = null; }));
  async function page() {
    const mine = next, { items, more: isMore } = await mine();
    if (mine !== next) return;
    shown.push(...items);
    more = isMore;
  }
  const draw = () => body.replaceChildren(...[rows()].flat());

  // A filter looks through all chats, so what is not here yet is brought first.
  const isFiltered = () => busy.checked || filter.value.trim() !== "";
  async function look() {
    draw();
    while (more && isFiltered() && (await attempt(bring, ""))) draw();
  }

  function rows() {
    if (!shown.length) return empty(t("chats_none"), t("chats_none_hint"));
    const words = filter.value.trim().toLowerCase();
    const fits = (chat) => (!busy.checked || !isQuiet(chat)) && (!words || [chat.app, chat.chat, chat.name ?? ""].some((text) => text.toLowerCase().includes(words)));
    const found = shown.filter(fits);
    return [found.length ? table(columns, found) : empty(t("nothing_matches"), t("nothing_matches_hint")),
      more && moreOf(bring, draw)].filter(Boolean);
  }

  async function act(chat, body, done) {
    if (await attempt(() => change("PATCH", path(chat), body), done)) await refresh(true);
  }

  function hands(chat) {
    const last = button(t("changes_short"), () => lastChanges(chat, named(chat)));
    if (!mayChange()) return [last];
    return [
      chat.hold && chat.state !== "paused" && button(t("try_now"), () => act(chat, { held: false }, t("tried_done", named(chat))), "first"),
      chat.state === "dead" && button(t("revive"), () => act(chat, { dead: false }, t("revived_done", named(chat))), "first"),
      chat.muted
        ? button(t("unmute"), () => act(chat, { muted: false }, t("unmuted_done", named(chat))))
        : button(t("mute"), async () => { if (await confirm(t("mute_ask", named(chat)), t("mute_hint"), t("mute"))) await act(chat, { muted: true }, t("muted_done", named(chat))); }),
      chat.paused || (chat.state === "paused" && chat.waits_for !== "hold")
        ? button(t("resume"), () => act(chat, { paused: false }, t("resumed_done", named(chat))), "first")
        : button(t("pause"), async () => { if (await confirm(t("pause_ask", named(chat)), t("pause_hint"), t("pause"))) await act(chat, { paused: true }, t("paused_done", named(chat))); }),
      button(t("set_weight"), async () => {
        const weight = await askWeight(chat);
        if (weight !== undefined) await act(chat, { weight }, t("weight_done", named(chat), weight ?? "–"));
      }),
      last,
    ];
  }

  const columns = [
    { label: t("chat"), of: (chat) => el("div", named(chat), el("div.under.mono", `${chat.app} / ${chat.chat}`)) },
    { label: t("depth"), number: true, of: (chat) => count(chat.depth) },
    { label: t("oldest"), number: true, of: (chat) => span(chat.oldest_wait_ms) },
    { label: t("why"), of: (chat) => chat.waits_for ? el("div", meaning(chat.waits_for), chat.wake_in_ms != null && el("div.under", t("wakes", span(chat.wake_in_ms)))) : "–" },
    { label: t("weight"), number: true, of: (chat) => chat.weight },
    { label: t("state"), of: (chat) => el("div", tag(meaning(chat.state), mood(chat.state)), chat.muted && [" ", tag(t("muted"), "warn")]) },
    { label: t("last_error"), of: (chat) => chat.hold || chat.last_error ? el("div.small", chat.hold ?? chat.last_error) : "–" },
    { label: "", actions: true, of: hands },
  ];

  main.append(head(t("chats"), el("label.row.small", busy, t("only_waiting")), button(t("refresh"), () => refresh())), el("div.row", filter), box);
  refresh();
}

function askWeight(chat) {
  return new Promise((resolve) => {
    const field = el("input", { type: "number", min: "1", max: "100", step: "1", "aria-label": t("weight") });
    field.value = chat.weight;
    const close = (answer) => { dialog.close(); dialog.remove(); resolve(answer); };
    const form = el("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); close(field.value === "" ? null : Number(field.value)); } },
      el("h2", t("weight_ask", named(chat))), el("p.soft", t("weight_hint")), field,
      el("div.row", button(t("cancel"), () => close()), el("button.first", { type: "submit" }, t("save"))));
    const dialog = el("dialog", { oncancel: () => close() }, form);
    document.body.append(dialog);
    dialog.showModal();
    field.select();
  });
}
