// A team's own service behind the gateway, for actions of type "http": it takes orders, each once, and looks them up.
//
//	export ORDERS_HMAC="$(openssl rand -hex 32)"     # where the gateway is started, the same
//	cd examples/go && go run . -listen 127.0.0.1:9000 -data orders.jsonl
//
// The app's file has for it what examples/python/orders.py shows; the two do, and refuse, the same.
//
// Three things are worth copying. A request counts only if its signature holds, and not for long. What it holds is read as a whole
// before anything is done by it; what can't be read is answered 400. And the gateway asks again about a message when it died over
// the answer, under the same Idempotency-Key: so order and answer are kept under that key, in one line of one file, and whoever
// asks again gets the same answer without a second order.
package main

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	maxBody = 1 << 20
	maxAge  = 5 * time.Minute
)

// Request is what of an action request matters here.
type Request struct {
	Member  string
	Command string // "order", "query", or anything else
	Item    string // of an order
	Number  int64  // of a query
}

// read takes a body apart; the error says what is wrong with it. It walks the JSON itself: decoding into a struct would take
// {"KEY": …} for {"key": …}.
func read(body []byte) (Request, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	// What is no Unicode would be mended in silence, and something else ordered.
	if !utf8.Valid(body) || halfAPair(body) || !json.Valid(body) || decoder.Decode(&value) != nil {
		return Request{}, errors.New("the body is no JSON")
	}
	var request Request
	request.Member, _ = at(value, "sender", "key").(string)
	request.Command, _ = at(value, "command", "name").(string)
	args := at(value, "command", "args")
	if request.Member == "" {
		return request, errors.New("the request has no sender.key")
	}
	switch request.Command {
	case "order":
		request.Item, _ = at(args, "item").(string)
		if request.Item == "" {
			return request, errors.New("the request has no command.args.item")
		}
	case "query":
		digits, _ := at(args, "order_id").(json.Number)
		var err error
		if request.Number, err = strconv.ParseInt(digits.String(), 10, 64); err != nil {
			return request, errors.New("the request has no command.args.order_id")
		}
	}
	return request, nil
}

// at is what stands at this path, or nil.
func at(value any, path ...string) any {
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

// escape is an escape in a JSON text; where it is half of a surrogate pair without the other half, it is captured.
var escape = regexp.MustCompile(`\\(?:u(?i:D[89AB][0-9A-F]{2}\\uD[C-F][0-9A-F]{2})|(u(?i:D[89A-F][0-9A-F]{2}))|.)`)

// halfAPair tells whether an escape is half of a surrogate pair, without the other half.
func halfAPair(body []byte) bool {
	for _, found := range escape.FindAllSubmatch(body, -1) {
		if found[1] != nil {
			return true
		}
	}
	return false
}

// Answer is what the gateway says in the chat, and what it remembers for this member there.
type Answer struct {
	Text string         `json:"text"`
	Vars map[string]any `json:"vars,omitempty"`
}

// Order is a line of the file: what was done (nothing, where Number is 0), and what was answered.
type Order struct {
	Key    string `json:"key"`
	Number int64  `json:"number,omitempty"`
	Member string `json:"member,omitempty"`
	Item   string `json:"item,omitempty"`
	Answer Answer `json:"answer"`
}

// Orders are what the file holds.
type Orders struct {
	mutex   sync.Mutex
	file    *os.File
	answers map[string]Answer
	taken   map[int64]Order
	last    int64
}

// open reads the file; a line that a crash cut off was answered to nobody and goes.
func open(path string) (*Orders, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	orders := &Orders{file: file, answers: map[string]Answer{}, taken: map[int64]Order{}, last: 1000}
	reader, end := bufio.NewReader(file), int64(0)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		var order Order
		if err == nil {
			err = json.Unmarshal(line, &order)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, byte %d: %w", path, end, err)
		}
		orders.keep(order)
		end += int64(len(line))
	}
	if err := file.Truncate(end); err != nil {
		return nil, err
	}
	_, err = file.Seek(end, io.SeekStart)
	return orders, err
}

func (orders *Orders) keep(order Order) {
	orders.answers[order.Key] = order.Answer
	if order.Number != 0 {
		orders.taken[order.Number] = order
		if order.Number > orders.last {
			orders.last = order.Number
		}
	}
}

// answer is the answer to this request: the one it had, or a new one that is on the disk before anybody hears it.
func (orders *Orders) answer(key string, request Request) (Answer, error) {
	// The same key at the same time waits here, and then finds the answer.
	orders.mutex.Lock()
	defer orders.mutex.Unlock()
	if known, ok := orders.answers[key]; ok {
		return known, nil
	}
	order := orders.act(key, request)
	line, err := json.Marshal(order)
	if err != nil {
		return Answer{}, err
	}
	if _, err := orders.file.Write(append(line, '\n')); err != nil {
		// What of the line is there nobody can say: only a start that reads the file anew goes on from here.
		log.Fatal(err)
	}
	if err := orders.file.Sync(); err != nil {
		log.Fatal(err)
	}
	orders.keep(order)
	return order.Answer, nil
}

// act does what the message asks for, as a line that nobody has heard of yet.
func (orders *Orders) act(key string, request Request) Order {
	order := Order{Key: key}
	switch request.Command {
	case "order":
		order.Number, order.Member, order.Item = orders.last+1, request.Member, request.Item
		order.Answer.Text = fmt.Sprintf("已下单：%s，订单号 %d", order.Item, order.Number)
		order.Answer.Vars = map[string]any{"last_order": order.Number}
	case "query":
		order.Answer.Text = fmt.Sprintf("没有订单 %d。", request.Number)
		if known, ok := orders.taken[request.Number]; ok && known.Member == request.Member {
			order.Answer.Text = fmt.Sprintf("订单 %d：%s，已下单。", known.Number, known.Item)
		}
	default:
		order.Answer.Text = "下单：order 商品名；查询：query 订单号。"
	}
	return order
}

// isGenuine tells whether the gateway sent these bytes, and not long ago.
func isGenuine(header http.Header, body []byte, secret string) bool {
	timestamp := header.Get("X-Gateway-Timestamp")
	seconds, err := strconv.ParseUint(timestamp, 10, 62)
	if age := time.Since(time.Unix(int64(seconds), 0)); err != nil || age > maxAge || age < -maxAge {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	signed := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	return hmac.Equal([]byte(signed), []byte(header.Get("X-Gateway-Signature")))
}

func handler(orders *Orders, secret string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		key := r.Header.Get("Idempotency-Key")
		switch {
		case err != nil:
			http.Error(w, "the body can't be read", http.StatusRequestEntityTooLarge)
			return
		case r.Method != http.MethodPost:
			http.Error(w, "only POST is taken", http.StatusMethodNotAllowed)
			return
		case !isGenuine(r.Header, body, secret):
			http.Error(w, "the signature does not hold", http.StatusForbidden)
			return
		case key == "":
			http.Error(w, "there is no Idempotency-Key", http.StatusBadRequest)
			return
		}
		request, err := read(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := orders.answer(key, request)
		if err != nil {
			log.Print(err)
			http.Error(w, "it could not be done", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			log.Print(err)
		}
	}
}

func main() {
	listen := flag.String("listen", "127.0.0.1:9000", "address to listen on")
	data := flag.String("data", "orders.jsonl", "the file that orders are kept in")
	flag.Parse()
	secret := os.Getenv("ORDERS_HMAC")
	if secret == "" {
		log.Fatal("set ORDERS_HMAC to the action's secret")
	}
	orders, err := open(*data)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/bot", handler(orders, secret))
	fmt.Printf("orders at http://%s/bot\n", listener.Addr())
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
