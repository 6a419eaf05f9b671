#!/usr/bin/env python3
"""A team's own service behind the gateway, for actions of type "http": it takes orders, each once, and looks them up.

    export ORDERS_HMAC="$(openssl rand -hex 32)"     # where the gateway is started, the same
    python3 examples/python/orders.py --listen 127.0.0.1:9000 --data orders.db

The app's file has for it (and the gateway the same ORDERS_HMAC):

    [[commands]]
    name = "order"
    summary = "下单"
    args = [{ name = "item", label = "商品", type = "rest" }]
    action = { type = "http", url = "http://127.0.0.1:9000/bot", secret = "${ORDERS_HMAC}" }

    [[commands]]
    name = "query"
    aliases = ["查询订单"]
    summary = "查询订单状态"
    args = [{ name = "order_id", label = "订单号", type = "integer" }]
    action = { type = "http", url = "http://127.0.0.1:9000/bot", secret = "${ORDERS_HMAC}" }

The first order has number 1001. Who asks for somebody else's is told that there is none.

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
NUMBERS = range(-(1 << 63), 1 << 63)  # what SQLite holds


def number(text):
    """The number that a header's digits are, or None."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def is_genuine(headers, body, secret):
    """Whether the gateway sent these bytes, and not long ago."""
    timestamp = headers.get("X-Gateway-Timestamp", "")
    seconds = number(timestamp)
    if seconds is None or abs(time.time() - seconds) > MAX_AGE:
        return False
    signed = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    given = headers.get("X-Gateway-Signature", "")
    return hmac.compare_digest(f"sha256={signed}".encode(), given.encode())


def parsed(body):
    """The JSON that these bytes are; a ValueError where they are none, strictly."""

    def integer(digits):
        # As a float where it is too long to be anybody's order.
        return int(digits) if len(digits) <= 20 else float(digits)

    def no_number(word):
        raise ValueError(f"{word} is no JSON")

    try:
        request = json.loads(body.decode(), parse_int=integer, parse_constant=no_number)
        json.dumps(request, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        raise ValueError("the body is no JSON") from None
    return request


def at(value, *path):
    """What stands at this path in a request, or None."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text(request, *path):
    """The text at this path; where there is none, a ValueError says so."""
    value = at(request, *path)
    if not isinstance(value, str) or not value:
        raise ValueError(f"the request has no {'.'.join(path)}")
    return value


def read(body):
    """Who asks, and for what: ("order", item), ("query", order_id), or None for any other message. A ValueError says what is wrong
    with the body."""
    request = parsed(body)
    member = text(request, "sender", "key")
    name = at(request, "command", "name")
    if name == "order":
        return member, (name, text(request, "command", "args", "item"))
    if name == "query":
        order_id = at(request, "command", "args", "order_id")
        if type(order_id) is not int or order_id not in NUMBERS:
            raise ValueError("the request has no command.args.order_id")
        return member, (name, order_id)
    return member, None


class Orders:
    """Orders and answers in one SQLite file."""

    def __init__(self, path):
        self.path = path
        with self.connection() as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE TABLE IF NOT EXISTS orders (order_id INTEGER PRIMARY KEY, member TEXT, item TEXT)")
            db.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT)")

    def connection(self):
        # Transactions are begun and ended by hand.
        return sqlite3.connect(self.path, isolation_level=None, timeout=5)

    def answer(self, key, member, wish):
        """The answer to this request: the one it had, or a new one."""
        db = self.connection()
        try:
            # From here on alone: the same key at the same time waits, and then finds the answer.
            db.execute("BEGIN IMMEDIATE")
            known = db.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            if known:
                db.execute("ROLLBACK")
                return known[0]
            answer = json.dumps(self.act(db, member, wish), ensure_ascii=False)
            db.execute("INSERT INTO answers (key, answer) VALUES (?, ?)", (key, answer))
            db.execute("COMMIT")
            return answer
        finally:
            db.close()

    def act(self, db, member, wish):
        """What the message asks for; all of it in the transaction that is open."""
        match wish:
            case None:
                return {"text": "下单：order 商品名；查询：query 订单号。"}
            case "order", item:
                order_id = db.execute("SELECT coalesce(max(order_id), 1000) + 1 FROM orders").fetchone()[0]
                db.execute("INSERT INTO orders (order_id, member, item) VALUES (?, ?, ?)", (order_id, member, item))
                return {"text": f"已下单：{item}，订单号 {order_id}", "vars": {"last_order": order_id}}
            case "query", order_id:
                found = db.execute("SELECT item FROM orders WHERE order_id = ? AND member = ?", (order_id, member)).fetchone()
                return {"text": f"订单 {order_id}：{found[0]}，已下单。" if found else f"没有订单 {order_id}。"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = number(self.headers.get("Content-Length", ""))
        if length is None or length > MAX_BODY:
            self.close_connection = True
            return self.refuse(413, "the body is too large, or its length is not told")
        body = self.rfile.read(length)
        if self.path != "/bot":
            return self.refuse(404, "only /bot is here")
        if not is_genuine(self.headers, body, self.server.secret):
            return self.refuse(403, "the signature does not hold")
        key = self.headers.get("Idempotency-Key", "")
        if not key:
            return self.refuse(400, "there is no Idempotency-Key")
        try:
            member, wish = read(body)
        except ValueError as fault:
            return self.refuse(400, str(fault))
        self.reply(200, "application/json", self.server.orders.answer(key, member, wish))

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
    secret = os.environ.get("ORDERS_HMAC")
    if not secret:
        print("orders.py: set ORDERS_HMAC to the secret of the action in the app's file", file=sys.stderr)
        sys.exit(2)
    host, port = options.listen.rsplit(":", 1)
    server = ThreadingHTTPServer((host, int(port)), Handler)
    server.secret = secret
    server.orders = Orders(options.data)
    print(f"orders at http://{host}:{server.server_port}/bot", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
