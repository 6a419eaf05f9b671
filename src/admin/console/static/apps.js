// The apps: what WeCom was told to call, what came of it lately, and whether the API side works: why does the URL check not pass?

import { change, get, mayChange } from "./api.js";
import { attempt, button, card, el, empty, facts, head, moment, region, span, table, tag } from "./ui.js";
import { meaning, t } from "./words.js";

export function apps(main) {
  const body = el("div", { style: "display:grid;gap:1rem" });
  const refresh = region(body, () => get("apps"), ({ items, strangers }) => {
    if (!items.length && !strangers.length) return card(null, empty(t("apps_none"), t("apps_none_hint")));
    return [...items.map((app) => one(app, () => refresh(true))), strangers.length > 0 && card(t("strangers"), recent(strangers))].filter(Boolean);
  });
  main.append(head(t("apps"), button(t("refresh"), () => refresh())), body);
  refresh();
}

function one(app, again) {
  const retry = async () => { if (await attempt(() => change("POST", `apps/${encodeURIComponent(app.id)}/retry`), t("tried_done", app.id))) await again(); };
  const barred = [app.hold, app.token?.refused].find((why) => /60020|301042/.test(why ?? ""));
  return card(null,
    el("div.row", el("h2", { style: "margin:0" }, app.id), tag(meaning(app.kind)), app.hold && tag(t("hold"), "bad"), app.hold && mayChange() && button(t("try_now"), retry, "first")),
    facts([
      [t("callback_url"), el("code", app.callback_path)],
      [t("chats"), app.chats],
      [t("access_token"), access(app.token)],
      [t("hold"), app.hold ? el("div", app.hold, app.wake_in_ms != null && el("div.under", t("tries", span(app.wake_in_ms)))) : t(app.token ? "held_no" : "held_by_chat")],
      [t("trusted_address"), app.token && (barred ? tag(barred, "bad") : t("trusted_ok"))],
    ]),
    el("h2", { style: "margin-top:1rem" }, `${t("recent")} (${t("of_process")})`), recent(app.recent));
}

function access(token) {
  if (!token) return t("no_api");
  if (token.refused) return tag(t("token_refused", token.refused), "bad");
  return token.left_ms ? tag(t("token_good", span(token.left_ms)), "good") : t("token_none");
}

function recent(callbacks) {
  if (!callbacks.length) return empty(t("recent_none"), t("recent_none_hint"));
  const isAny = callbacks.some((one) => one.path);
  return table([
    ...(isAny ? [{ label: t("path"), of: (one) => el("code", one.path ?? "–") }] : []),
    { label: t("when"), of: (one) => el("span.small", moment(one.at)) },
    { label: t("outcome"), of: (one) => tag(one.refusal ? `${t("refused")}: ${meaning(one.result)}` : meaning(one.result), one.refusal ? "bad" : "good") },
    { label: t("reason"), of: (one) => one.refusal ? el("span.small", one.refusal) : "–" },
    { label: "request_id", of: (one) => one.refusal ? el("code", one.request_id) : el("a.mono", { href: `#/find/${one.request_id}` }, one.request_id) },
  ], callbacks);
}
