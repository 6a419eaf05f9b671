#!/usr/bin/env python3
"""A team's own service behind the gateway, for actions of type "http": it takes orders, each once.

    export ORDERS_SECRET="$(openssl rand -hex 32)"     # where the gateway is started, the same
    python3 examples/python/orders.py --listen 127.0.0.1:9000 --data orders.db

The app's file has for it:

    [[commands]]
    name = "order"
    summary = "下单"
    args = [{ name = "item", label = "商品", type = "rest", required = true }]
    action = { type = "http", url = "http://127.0.0.1:9000/bot", secret = "${ORDERS_SECRET}" }

Three things are worth copying. A request counts only if its signature holds, and not for long. What it holds is read as a whole
before anything is done by it; what can't be read is answered 400. And the gateway asks again about a message when it died over
the answer, under the same Idempotency-Key: so order and answer are kept under that key in one transaction, and whoever asks again
gets the same answer without a second order.
"""

import argparse
import hashlib
import hmac
import json
import os
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 1 << 20
MAX_AGE = 300  # seconds


def is_genuine(headers, body, secret):
    """Whether the gateway sent these bytes, and not long ago."""
    timestamp = headers.get("X-Gateway-Timestamp", "")
    if not (timestamp.isascii() and timestamp.isdigit()) or abs(time.time() - int(timestamp)) > MAX_AGE:
        return False
    signed = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    given = headers.get("X-Gateway-Signature", "")
    return hmac.compare_digest(f"sha256={signed}".encode(), given.encode())


def text(request, *path):
    """The text that stands at this path in a request; where there is none, a ValueError says so."""
    value = request
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, str) or not value:
        raise ValueError(f"the request has no {'.'.join(path)}")
    value.encode()  # half a surrogate pair is no text
    return value


def read(body):
    """Who asks, and for which item (None: the message is no order). A ValueError says what is wrong with the body."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the body is no JSON") from None
    member = text(request, "sender", "key")
    command = request.get("command")
    is_order = isinstance(command, dict) and command.get("name") == "order"
    return member, text(request, "command", "args", "item") if is_order else None


class Orders:
    """Orders and answers in one SQLite file."""

    def __init__(self, path):
        self.path = path
        with self.connection() as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY AUTOINCREMENT, member TEXT, item TEXT)")
            db.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT)")

    def connection(self):
        # Transactions are begun and ended by hand.
        return sqlite3.connect(self.path, isolation_level=None, timeout=5)

    def answer(self, key, member, item):
        """The answer to this request: the one it had, or a new one."""
        db = self.connection()
        try:
            # From here on alone: the same key at the same time waits, and then finds the answer.
            db.execute("BEGIN IMMEDIATE")
            known = db.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            if known:
                db.execute("ROLLBACK")
                return known[0]
            answer = json.dumps(self.act(db, member, item), ensure_ascii=False)
            db.execute("INSERT INTO answers (key, answer) VALUES (?, ?)", (key, answer))
            db.execute("COMMIT")
            return answer
        finally:
            db.close()

    def act(self, db, member, item):
        """What the message asks for; all of it in the transaction that is open."""
        if item is None:
            return {"text": "请在 order 后面写上商品名。"}
        number = db.execute("INSERT INTO orders (member, item) VALUES (?, ?)", (member, item)).lastrowid
        return {"text": f"已下单：{item}，订单号 {number}", "vars": {"last_order": number}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True
            return self.refuse(413, "the body is too large, or its length is not told")
        body = self.rfile.read(int(length))
        if self.path != "/bot":
            return self.refuse(404, "only /bot is here")
        if not is_genuine(self.headers, body, self.server.secret):
            return self.refuse(403, "the signature does not hold")
        key = self.headers.get("Idempotency-Key", "")
        if not key:
            return self.refuse(400, "there is no Idempotency-Key")
        try:
            member, item = read(body)
        except ValueError as fault:
            return self.refuse(400, str(fault))
        self.reply(200, "application/json", self.server.orders.answer(key, member, item))

    def refuse(self, status, why):
        self.reply(status, "text/plain; charset=utf-8", why)

    def reply(self, status, kind, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--listen", default="127.0.0.1:9000")
    options.add_argument("--data", default="orders.db")
    options = options.parse_args()
    secret = os.environ.get("ORDERS_SECRET")
    if not secret:
        print("orders.py: set ORDERS_SECRET to the secret of the action in the app's file", file=sys.stderr)
        sys.exit(2)
    host, port = options.listen.rsplit(":", 1)
    server = ThreadingHTTPServer((host, int(port)), Handler)
    server.secret = secret
    server.orders = Orders(options.data)
    print(f"orders at http://{host}:{server.server_port}/bot", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
