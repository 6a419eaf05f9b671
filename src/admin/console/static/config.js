// The files as they were read last, with secrets blank, and what of them waits for a restart; and reading them again.

import { change, get, mayChange } from "./api.js";
import { button, card, confirm, el, empty, head, moment, region, tag, toast } from "./ui.js";
import { t } from "./words.js";

export function config(main) {
  const body = el("div", { style: "display:grid;gap:1rem" }), told = el("div", { style: "display:contents" });
  const refresh = region(body, () => get("configuration"), ({ files, needs_restart, read_at, last_refusal: refused }) => [
    el("p.soft.small", { style: "margin:0" }, t("files_read", moment(read_at))),
    refused && card(null, el("div.row", tag(t("reload_refused"), "bad"), el("span.soft.small", moment(refused.at), " · ", refused.by)),
      el("ul", refused.message.split("\n").map((line) => el("li", line)))),
    needs_restart.length > 0 && card(null, el("div.row", tag(t("not_in_force"), "warn"), t("needs_restart", needs_restart.join(", ")))),
    ...(files.length ? files.map((file) => card(file.name, el("pre", el("code", file.text)))) : [card(null, empty(t("files_none"), ""))]),
  ].filter(Boolean));

  async function reload() {
    if (!(await confirm(t("reload_ask"), t("reload_hint"), t("reload"), false))) return;
    told.replaceChildren();
    try {
      const { changed, added, removed } = await change("POST", "reload");
      const files = [...changed, ...added.map((name) => `+ ${name}`), ...removed.map((name) => `− ${name}`)];
      toast(files.length ? t("reloaded", files.join(", ")) : t("reloaded_none"));
      await refresh(true);
    } catch (error) {
      if (error.status === 401) return;
      const lines = (error.message || t("unreachable")).split("\n");
      told.append(el("div.state.fault", { role: "alert", style: "text-align:left" }, el("strong", t("faults")), el("ul", lines.map((line) => el("li", line)))));
    }
  }

  main.append(head(t("config"), mayChange() && button(t("reload"), reload, "first")), el("p.soft.small", { style: "margin:0" }, t("files_hint")), told, body);
  refresh();
}
