// Asking the gateway. Every error comes out as one sentence that can be shown; a refused token leads to the login.

const KEY = "wecom-gateway-token";

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function send(path, options = {}) {
  const headers = { ...options.headers };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch {
    throw new Refused(0, "unreachable", "");
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  const refused = new Refused(answer.status, body.error?.code ?? `http_${answer.status}`, body.error?.message ?? "");
  if (answer.status === 401) document.dispatchEvent(new CustomEvent("login-wanted"));
  throw refused;
}

const api = (path) => `/api/v1/${path}`;

export const get = async (path) => (await send(api(path))).json();

// What the token may: whoever may only look is offered nothing that would be refused.
let scope = "admin";
export const mayChange = () => scope === "admin";

// Asks for nothing but leave: of what is open to this machine, the console shows nothing to whom the API refuses.
export async function knock() {
  const answer = await send(api("openapi.json"), { method: "HEAD" });
  scope = answer.headers.get("X-Scope") ?? "admin";
}

export const text = async (path) => (await send(path)).text();

export const change = async (method, path, body) => {
  const answer = await send(api(path), {
    method,
    headers: { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return answer.json().catch(() => null);
};

// A list, page by page: `more` brings the next items, and says whether there are still more.
export function list(path) {
  let cursor = "";
  return async () => {
    const glue = path.includes("?") ? "&" : "?";
    const page = await get(`${path}${cursor && `${glue}cursor=${encodeURIComponent(cursor)}`}`);
    cursor = page.next ?? "";
    return { items: page.items, more: Boolean(page.next) };
  };
}

// A list as far as it was brought: `items`, whether there are `more`, and `bring` for the next page.
export function gathered(path) {
  const next = list(path), all = { items: [], more: false };
  all.bring = async () => {
    const page = await next();
    all.items.push(...page.items);
    all.more = page.more;
  };
  return all;
}
