//! A real Chromium, headless, driven by its WebDriver (w3.org/TR/webdriver2): the few calls that these tests need.
//!
//! Everything is waited for by what stands on the page; nothing sleeps. A missing browser fails the test.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a page may take to show what is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// How an element is named in answers.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// What keeps a headless browser to itself.
const SWITCHES: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1200,900",
];

/// A browser with one window; gone with its handle.
pub struct Browser {
    driver: Child,
    http: reqwest::Client,
    session: String,
    downloads: TempDir,
}

impl Browser {
    /// Opens one that prefers `language` (`zh-CN`, `en-US`).
    pub async fn open(language: &str) -> Self {
        let mut command = Command::new("chromedriver");
        let mut driver =
            command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("chromedriver");
        let output = BufReader::new(driver.stdout.take().expect("its output"));
        let port = output.lines().map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        let base = format!("http://127.0.0.1:{}", port.expect("chromedriver's port"));
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let switches: Vec<String> =
            SWITCHES.iter().map(|switch| switch.to_string()).chain([format!("--lang={language}")]).collect();
        let downloads = TempDir::new().expect("a folder");
        let options = json!({"args": switches, "prefs": {"intl.accept_languages": language,
            "download.default_directory": downloads.path()}});
        let wanted = json!({"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"}}}});
        let answer = http.post(format!("{base}/session")).json(&wanted).send().await.expect("chromedriver answers");
        let answer: Value = answer.json().await.expect("JSON");
        let id = answer["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no Chromium: {answer}"));
        Self { driver, http, session: format!("{base}/session/{id}"), downloads }
    }

    async fn call(&self, path: &str, body: Value) -> Result<Value, String> {
        let answer = self.http.post(format!("{}{path}", self.session)).json(&body).send().await.expect("an answer");
        let is_fine = answer.status().is_success();
        let answer: Value = answer.json().await.expect("JSON");
        if is_fine { Ok(answer["value"].clone()) } else { Err(answer["value"]["message"].to_string()) }
    }

    /// Goes to an address.
    pub async fn go(&self, address: &str) {
        self.call("/url", json!({"url": address})).await.expect("a page");
    }

    /// The width and height of its window.
    pub async fn resize(&self, width: u32, height: u32) {
        self.call("/window/rect", json!({"width": width, "height": height})).await.expect("a window");
    }

    /// What a script returns.
    pub async fn run(&self, script: &str) -> Value {
        self.call("/execute/sync", json!({"script": script, "args": []}))
            .await
            .unwrap_or_else(|why| panic!("{script}: {why}"))
    }

    /// What all of the page says.
    pub async fn text(&self) -> String {
        self.run("return document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page says this.
    pub async fn says(&self, words: &str) {
        self.until(&format!("return document.body.innerText.includes({})", json!(words)), words).await;
    }

    /// Waits until a script returns something true.
    pub async fn until(&self, script: &str, what: impl Display) {
        let end = Instant::now() + PATIENCE;
        loop {
            // A page that is being loaded has no script to answer.
            let found = self.call("/execute/sync", json!({"script": script, "args": []})).await.unwrap_or_default();
            if found.as_bool() == Some(true) || found.is_string() {
                return;
            }
            assert!(Instant::now() < end, "not on the page: {what}\n{}", self.text().await);
            tokio::task::yield_now().await;
        }
    }

    /// Clicks the first button, link or box that is called so (within `place`, a CSS selector), once it is there.
    pub async fn click_in(&self, place: &str, name: &str) {
        let script = format!(
            "const all = [...document.querySelectorAll({place})].flatMap((node) => [...node.querySelectorAll('button, a, label, input')]);
             return all.find((node) => node.innerText?.trim() === {name} || node.getAttribute('aria-label') === {name}) ?? null",
            place = json!(place),
            name = json!(name)
        );
        let end = Instant::now() + PATIENCE;
        loop {
            let found = self.call("/execute/sync", json!({"script": script, "args": []})).await.unwrap_or_default();
            if let Some(id) = found[ELEMENT].as_str()
                && self.call(&format!("/element/{id}/click"), json!({})).await.is_ok()
            {
                return;
            }
            assert!(Instant::now() < end, "nothing to click that is called {name} in {place}\n{}", self.text().await);
            tokio::task::yield_now().await;
        }
    }

    /// As [`Browser::click_in`], anywhere.
    pub async fn click(&self, name: &str) {
        self.click_in("body", name).await;
    }

    /// Writes into the first field that a CSS selector finds, once it is there, over what stands there.
    pub async fn write(&self, field: &str, text: &str) {
        self.until(&format!("return document.querySelector({}) !== null", json!(field)), field).await;
        let found = self.call("/element", json!({"using": "css selector", "value": field})).await.expect("a field");
        let id = found[ELEMENT].as_str().expect("an element").to_owned();
        self.call(&format!("/element/{id}/clear"), json!({})).await.expect("cleared");
        self.call(&format!("/element/{id}/value"), json!({"text": text})).await.expect("written");
    }

    /// What is in a file that the page saves, which is not empty, once it is there.
    pub async fn saved(&self, name: &str) -> String {
        let (file, end) = (self.downloads.path().join(name), Instant::now() + PATIENCE);
        // It has another name until it is whole; its own one is kept free by an empty file meanwhile.
        while !file.metadata().is_ok_and(|file| file.len() > 0) {
            assert!(Instant::now() < end, "not saved: {name}");
            tokio::task::yield_now().await;
        }
        std::fs::read_to_string(file).expect("a text")
    }

    /// What the page's scripts complained of, but for requests that were refused.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.call("/se/log", json!({"type": "browser"})).await.expect("a log");
        let entries = log.as_array().cloned().unwrap_or_default();
        let texts = entries.iter().map(|entry| entry["message"].as_str().unwrap_or_default().to_owned());
        texts.filter(|text| !text.contains("Failed to load resource")).collect()
    }

    /// Ends the session, and waits until that is done.
    fn quit(&self) -> std::io::Result<()> {
        let (host, path) = self.session.trim_start_matches("http://").split_once('/').unwrap_or_default();
        let mut driver = TcpStream::connect(host)?;
        write!(driver, "DELETE /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        driver.set_read_timeout(Some(PATIENCE))?;
        driver.read_to_end(&mut Vec::new()).map(drop)
    }

    /// Keeps a picture of the whole page, for a person to look at.
    pub async fn picture(&self, name: &str) {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("console");
        std::fs::create_dir_all(&folder).expect("a folder");
        let answer = self.http.get(format!("{}/screenshot", self.session)).send().await.expect("an answer");
        let answer: Value = answer.json().await.expect("JSON");
        let bytes = STANDARD.decode(answer["value"].as_str().expect("a picture")).expect("base64");
        assert!(bytes.starts_with(b"\x89PNG"));
        std::fs::write(folder.join(format!("{name}.png")), bytes).expect("written");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser goes with its session, not with its driver.
        let _ = self.quit();
        let _ = (self.driver.kill(), self.driver.wait());
    }
}
