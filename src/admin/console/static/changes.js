// What operators changed, and who: all of it, or of one chat.

import { gathered, get } from "./api.js";
import { button, el, empty, head, midnight, moment, moreOf, region, table, tag } from "./ui.js";
import { meaning, t } from "./words.js";

// "#/changes/<app>/<chat>": an app's id holds no slash, a chat's may.
const place = (app, chat) => `#/changes/${encodeURIComponent(`${app}/${chat}`)}`;
const query = (wanted) => new URLSearchParams(Object.entries(wanted).filter(([, value]) => value)).toString();

export function changes(main, wanted) {
  const cut = wanted.indexOf("/");
  const [app, chat] = cut < 0 ? [wanted, ""] : [wanted.slice(0, cut), wanted.slice(cut + 1)];
  let found;
  const by = el("input", { type: "search", placeholder: t("by_whom"), "aria-label": t("by_whom"), onchange: () => refresh() });
  const from = el("input", { type: "date", "aria-label": t("since"), title: t("since"), onchange: () => refresh() });
  const body = el("div"), box = el("section.card", body);
  const refresh = region(body, load, () => rows()), draw = () => body.replaceChildren(...rows());

  async function load() {
    const since = from.value && midnight(from.value).toISOString();
    found = gathered(`changes?${query({ app, chat, by: by.value.trim(), from: since, limit: 100 })}`);
    await found.bring();
  }

  function rows() {
    if (!found.items.length) return empty(t("changes_none"), t("changes_none_hint"));
    return [table(columns, found.items), found.more && moreOf(found.bring, draw)].filter(Boolean);
  }

  const columns = [
    { label: t("when"), of: (one) => el("span.small", moment(one.at)) },
    { label: t("who"), of: (one) => el("div", who(one)) },
    { label: t("of_what"), of: (one) => about(one) },
    { label: t("what"), of: (one) => el("div", told(one)) },
  ];

  const narrowed = wanted && el("div.row", tag([app, chat].filter(Boolean).join(" / ")), el("a", { href: "#/changes" }, t("all")));
  main.append(head(t("changes"), by, from, button(t("refresh"), () => refresh())), ...[narrowed].filter(Boolean), box);
  refresh();
}

// Over the page: the last changes of one chat.
export function lastChanges(chat, name) {
  const close = () => { dialog.close(); dialog.remove(); };
  const body = el("div");
  const show = region(body, () => get(`changes?${query({ app: chat.app, chat: chat.chat, limit: 10 })}`), ({ items }) =>
    items.length ? el("ol.timeline", items.map((one) => el("li", el("div", told(one)), el("div.soft.small", moment(one.at), " · ", who(one))))) : empty(t("changes_none"), t("changes_none_hint")));
  const dialog = el("dialog", { oncancel: close }, el("h2", t("changes_of", name)), body,
    el("div.row", el("a", { href: place(chat.app, chat.chat), onclick: close }, t("all")), el("span.spread"), button(t("close"), close)));
  document.body.append(dialog);
  dialog.showModal();
  show();
}

// Whoever signals the process or writes its files is named by nobody.
const who = ({ by, via }) => (by === via ? t(`via_${via}`) : [by, el("span.soft.small", ` · ${t(`via_${via}`)}`)]);

function about({ app, chat, sender }) {
  const parts = [chat ?? sender, chat && sender].filter(Boolean);
  if (!app) return "–";
  return el("div", parts.length ? parts.join(" · ") : app, parts.length > 0 && el("div.under", app));
}

function told({ kind, detail }) {
  if (kind === "configuration") return files(detail);
  if (kind === "user") return [t("change_user"), el("div.under", fields(detail))];
  if (kind === "delivery") return [`${t("change_delivery")} `, el("strong", meaning(detail.action)), el("div.under", detail.delivery)];
  if (kind !== "chat" && kind !== "app") return t(`change_${kind}`);
  return Object.entries(detail).filter(([, value]) => value?.to !== undefined)
    .map(([what, { from, to }]) => el("div", `${t(`tuned_${what}`)} `, el("span.soft", value(from)), " → ", el("strong", value(to))));
}

const value = (word) => (word === null ? t("as_configured") : meaning(String(word)));

function keyChange(what) {
  if (typeof what === "string") return t(`key_${what}`);
  return what.to === undefined ? what : [String(what.from), " → ", el("strong", String(what.to))];
}

function fields(detail) {
  const named = (word) => Object.entries(detail).filter(([, what]) => what === word).map(([field]) => field.replace(/^contact\./, ""));
  return ["set", "removed"].map((word) => [t(`fields_${word}`), named(word)]).filter(([, names]) => names.length)
    .map(([word, names]) => `${word}: ${names.join(", ")}`).join(" · ");
}

function files({ changed = [], added = [], removed = [], needs_restart: later = [], keys = {}, refused, faults, host, process }) {
  if (refused) return [t("change_refused", faults), el("div.under", `${host} · ${process}`)];
  const names = [...changed, ...added.map((name) => `+ ${name}`), ...removed.map((name) => `− ${name}`)];
  // Of a file as many lines as it has keys that say something else, the gateway's own file with nothing in front.
  const lines = Object.entries(keys).flatMap(([file, of]) => Object.entries(of).map(([key, what]) =>
    el("div.under", file.includes("/") && `${file}: `, `${key} `, keyChange(what))));
  return [t("change_configuration"), ` ${names.join(", ")}`, lines, el("div.under", `${host} · ${process}`),
    later.length > 0 && el("div.under", t("needs_restart", later.join(", ")))];
}
