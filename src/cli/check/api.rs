//! The API of each self-built app: a token by `gettoken`, and with it `agent/get` (document/path/90227), which says whether this
//! machine's address may call, and whether `agent_id` is the secret's own.

use std::net::IpAddr;
use std::path::Path;

use serde_json::Value;

use super::online::Finding;
use crate::config::Settings;
use crate::config::settings::Api;
use crate::model::Secret;
use crate::sender::{NoToken, get, gettoken_url, read_token};
use crate::wecom::verdict::{Reply, read_answer, seen_address};

/// An app with an API side.
struct Asked<'a> {
    id: &'a str,
    api: &'a Api,
    file: String,
}

impl Asked<'_> {
    fn subject(&self) -> String {
        format!("app {:?} (corp {})", self.id, self.api.corp_id)
    }
}

/// WeCom's API, as it is asked.
struct Desk<'a> {
    client: &'a reqwest::Client,
    /// Without a trailing slash.
    base: &'a str,
}

/// Asks for all apps, each secret once.
pub(super) async fn ask_all(settings: &Settings, config: &Path, client: &reqwest::Client) -> Vec<Finding> {
    let desk = Desk { client, base: settings.wecom.api_base.as_str().trim_end_matches('/') };
    let mut findings = Vec::new();
    let mut is_banned = false;
    for apps in by_secret(settings, config) {
        let Some(first) = apps.first() else { continue };
        if is_banned {
            findings.push(Finding::fault(
                first.subject(),
                "not asked, after 45009",
                "try again when the limit is over",
            ));
            continue;
        }
        match desk.token(first).await {
            Ok((token, lives)) => {
                for asked in &apps {
                    findings.push(desk.agent(asked, &token, lives).await);
                }
            }
            Err(Refused { errcode, finding }) => {
                is_banned = errcode == Some(45009);
                findings.push(finding);
            }
        }
    }
    findings
}

/// The apps with an API side, those with the same secret together.
fn by_secret<'a>(settings: &'a Settings, config: &Path) -> Vec<Vec<Asked<'a>>> {
    let mut all: Vec<Vec<Asked<'a>>> = Vec::new();
    for (id, app) in &settings.apps {
        let Some(api) = &app.api else { continue };
        let file = config.with_file_name("apps").join(format!("{id}.toml")).display().to_string();
        let asked = Asked { id, api, file };
        let same = |other: &Asked<'_>| other.api.corp_id == api.corp_id && other.api.secret == api.secret;
        match all.iter_mut().find(|apps| apps.first().is_some_and(same)) {
            Some(apps) => apps.push(asked),
            None => all.push(vec![asked]),
        }
    }
    all
}

/// There is no token.
struct Refused {
    errcode: Option<i64>,
    finding: Finding,
}

impl Desk<'_> {
    /// A token and how many seconds it lives.
    async fn token(&self, asked: &Asked<'_>) -> Result<(Secret, u64), Refused> {
        let failed = |says| Refused { errcode: None, finding: Finding::fault(asked.subject(), says, REACH) };
        let answer = get(self.client, &gettoken_url(self.base, asked.api)).await;
        let (status, body) = answer.map_err(|reply| failed(no_answer(reply)))?;
        match read_token(asked.api, status, &body) {
            Ok((token, lives)) => Ok((token, lives.as_secs())),
            Err(NoToken::Refused { errcode, errmsg }) => {
                let says = format!("gettoken refuses: {errcode} ({errmsg})");
                let mend = mend(errcode, &asked.file, seen_address(&body));
                Err(Refused { errcode: Some(errcode), finding: Finding::fault(asked.subject(), says, mend) })
            }
            Err(NoToken::Failed(why) | NoToken::NotYet(why)) => Err(failed(format!("gettoken: {why}"))),
        }
    }

    async fn agent(&self, asked: &Asked<'_>, token: &Secret, lives: u64) -> Finding {
        let subject = asked.subject();
        let (status, body) = match get(self.client, &agent_url(self.base, asked.api, token)).await {
            Ok(answer) => answer,
            Err(reply) => return Finding::fault(subject, no_answer(reply), REACH),
        };
        match read_answer(status, &body) {
            Reply::Taken(_) if is_closed(&body) => {
                let mend = "switch it on in WeCom's console (应用管理 → the app → 启用)";
                Finding::fault(subject, "the app is switched off", mend)
            }
            Reply::Taken(_) => {
                Finding::fine(subject, format!("a token for {lives} s, and this machine's address may call the API"))
            }
            Reply::Http { code: Some((errcode, errmsg)), .. } => {
                let errmsg = errmsg.replace(token.expose(), "***");
                let says = format!("a token is given, but agent/get refuses: {errcode} ({errmsg})");
                Finding::fault(subject, says, mend(errcode, &asked.file, seen_address(&body)))
            }
            _ => Finding::fault(subject, format!("agent/get: HTTP {status} without an errcode"), REACH),
        }
    }
}

const REACH: &str = "see that this machine reaches [wecom] api_base: name server, firewall, HTTPS_PROXY";

fn no_answer(reply: Reply) -> String {
    match reply {
        Reply::NotTried(why) | Reply::NotWritten(why) | Reply::NoAnswer(why) => format!("WeCom can't be asked: {why}"),
        Reply::Taken(_) => "WeCom answered what was not asked".to_owned(),
        Reply::Http { status, .. } => format!("WeCom can't be asked: HTTP {status}"),
    }
}

fn agent_url(base: &str, api: &Api, token: &Secret) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("access_token", token.expose()).append_pair("agentid", &api.agent_id.to_string());
    format!("{base}/cgi-bin/agent/get?{}", query.finish())
}

fn is_closed(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|answer| answer["close"] == 1)
}

/// Codes: "全局错误码", document/path/90313.
fn mend(errcode: i64, file: &str, seen: Option<IpAddr>) -> String {
    let once = "it was asked once: an address that keeps asking with a wrong secret is banned for an hour";
    match errcode {
        40001 => {
            format!("{file}: copy secret again from the app's own page (not another app's), next to AgentId; {once}")
        }
        40013 | 41002 => format!("{file}: correct corp_id (我的企业 → 企业ID); {once}"),
        41004 => format!("{file}: write secret; {once}"),
        40056 | 301002 => format!("{file}: agent_id is not this secret's app: copy both from one app's page"),
        45009 => "wait: WeCom takes no more from this address for up to an hour; find what keeps asking".to_owned(),
        60020 | 301042 => {
            let seen = seen.map_or_else(
                || "this machine's outgoing address".to_owned(),
                |ip| format!("{ip}, which is what WeCom saw,"),
            );
            format!(
                "enter {seen} in WeCom's console under 应用管理 → the app → 企业可信IP; it holds after about a minute"
            )
        }
        48001 | 48002 | 48004 | 50003 => {
            "give the app the permission in WeCom's console, or switch it on there".to_owned()
        }
        -1 => "WeCom is busy: try again in a minute".to_owned(),
        _ => format!("look the code up at https://open.work.weixin.qq.com/devtool/query?e={errcode}"),
    }
}
