// The apps: what WeCom was told to call, what came of it lately, and whether the API side works: why does the URL check not pass?

import { get } from "./api.js";
import { button, card, el, empty, facts, head, moment, region, span, table, tag } from "./ui.js";
import { meaning, t } from "./words.js";

export function apps(main) {
  const body = el("div", { style: "display:grid;gap:1rem" });
  const refresh = region(body, () => get("apps"), ({ items, strangers }) => {
    if (!items.length && !strangers.length) return card(null, empty(t("apps_none"), t("apps_none_hint")));
    return [...items.map(one), strangers.length > 0 && card(t("strangers"), recent(strangers))].filter(Boolean);
  });
  main.append(head(t("apps"), button(t("refresh"), () => refresh())), body);
  refresh();
}

function one(app) {
  return card(null,
    el("div.row", el("h2", { style: "margin:0" }, app.id), tag(meaning(app.kind)), app.hold && tag(t("hold"), "bad")),
    facts([
      [t("callback_url"), el("code", app.callback_path)],
      [t("chats"), app.chats],
      [t("access_token"), access(app.token)],
      [t("hold"), app.hold ?? t("held_no")],
      [t("trusted_address"), app.token && (app.hold?.includes("60020") ? tag(app.hold, "bad") : t("trusted_ok"))],
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
  return table([
    { label: t("when"), of: (one) => el("span.small", moment(one.at)) },
    { label: t("outcome"), of: (one) => tag(one.refusal ? `${t("refused")}: ${meaning(one.result)}` : meaning(one.result), one.refusal ? "bad" : "good") },
    { label: t("reason"), of: (one) => one.refusal ? el("span.small", one.refusal) : "–" },
    { label: "request_id", of: (one) => one.refusal ? el("code", one.request_id) : el("a.mono", { href: `#/find/${one.request_id}` }, one.request_id) },
  ], callbacks);
}
