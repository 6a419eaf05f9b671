// The shell: pages by the address behind #, login, language, theme.

import { get, knock, mayChange, token } from "./api.js";
import { button, el, useZone, zoneName } from "./ui.js";
import { isChinese, t, useLanguage } from "./words.js";
import { now } from "./now.js";
import { chats } from "./chats.js";
import { find } from "./find.js";
import { settle } from "./settle.js";
import { stats } from "./stats.js";
import { changes } from "./changes.js";
import { apps } from "./apps.js";
import { config } from "./config.js";

const PAGES = { now, chats, find, settle, stats, changes, apps, config };
const THEME = "wecom-gateway-theme";

let leave = () => {};
let isOpen = false;

function page() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  return [Object.hasOwn(PAGES, name) ? name : "now", decoded(rest.join("/"))];
}

// As it stands where it is not encoded: an address may be typed by hand.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// Shows the page once the API lets us in; a refused token leads to the login, and so does one that may see the metrics alone. Anything
// else is the page's to tell.
async function open() {
  try {
    await knock();
  } catch (error) {
    if (error.status === 401) return;
    if (error.status === 403 && token.get()) return login("login_too_small");
  }
  // Times are told as statistics and `trace` tell them; without records, by this browser's clock.
  await get("stats?limit=1").then(({ zone }) => useZone(zone), () => {});
  isOpen = true;
  draw();
}

function draw() {
  leave();
  const [name, argument] = page();
  const main = el("main");
  document.getElementById("app").replaceChildren(el("header", bar(name)), main);
  document.querySelector("nav a[aria-current]").scrollIntoView({ block: "nearest", inline: "center" });
  leave = PAGES[name](main, argument) ?? (() => {});
}

function bar(current) {
  const links = Object.keys(PAGES).map((name) => el("a", { href: `#/${name}`, "aria-current": name === current && "page" }, t(name)));
  const tools = el("div.tools",
    el("span.soft.small", { title: t("zone") }, zoneName()), !mayChange() && el("span.tag", { title: t("may_look_hint") }, t("may_look")),
    button(t("language"), () => { useLanguage(isChinese() ? "en" : "zh"); draw(); }, "plain"),
    button("◐", turnTheme, "plain"),
    token.get() && button(t("logout"), () => { token.set(""); login(); }, "plain"));
  [...tools.children].find((tool) => tool.textContent === "◐").setAttribute("aria-label", t("theme"));
  return el("div.bar", el("span.brand", "wecom-gateway"), el("nav", links), tools);
}

function turnTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const shown = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  useTheme(shown === "dark" ? "light" : "dark");
}

function useTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem(THEME, theme);
}

function login(why = "login_refused") {
  isOpen = false;
  leave();
  leave = () => {};
  document.title = `${t("login")} · wecom-gateway`;
  const field = el("input", { type: "password", autocomplete: "current-password", "aria-label": t("token"), required: true });
  const wrong = token.get() && el("div.tag.bad", { role: "alert" }, t(why));
  token.set("");
  const form = el("form.row", { onsubmit: (event) => { event.preventDefault(); token.set(field.value.trim()); open(); } },
    // For whatever keeps passwords: it wants to know whose.
    el("input", { type: "text", autocomplete: "username", value: "wecom-gateway", hidden: true }), field, el("button.first", { type: "submit" }, t("login")));
  document.getElementById("app").replaceChildren(
    el("main", el("section.card.login", el("h1", "wecom-gateway"), el("p.soft", { style: "margin:0" }, t("login_hint")), wrong, form)));
  field.focus();
}

const theme = localStorage.getItem(THEME);
if (theme) useTheme(theme);
useLanguage();
addEventListener("hashchange", () => (isOpen ? draw() : open()));
document.addEventListener("login-wanted", () => login());
open();
