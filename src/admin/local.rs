//! Whether a request comes from somebody on this machine, which stands for a token where none is sent. Pure.
//!
//! Coming from here is not enough: a web page that an operator opens makes the browser on this machine ask too. Such a request
//! has an `Origin` or a `Sec-Fetch-Site` of the page; and where the page's own name was made to lead to this machine (DNS
//! rebinding), so that the browser takes both for one origin, its `Host` is that name. None of these can be set by a page.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};

use super::auth::Denied;

/// What browsers say of where a request was caused (W3C Fetch Metadata).
const FETCH_SITE: &str = "sec-fetch-site";

/// Refuses a request that does not come from this machine, or that a web page of another origin caused.
pub(super) fn is_local(request: &Request) -> Result<(), Denied> {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| address.ip());
    if !peer.is_some_and(is_loopback) {
        return Err(Denied::Remote);
    }
    // HTTP/2 has the host in the address asked for.
    let host = match request.uri().authority() {
        Some(authority) => Some(authority.as_str()),
        None => request.headers().get(header::HOST).and_then(|host| host.to_str().ok()),
    };
    let host = host.filter(|host| names_this_machine(host)).ok_or(Denied::ForeignHost)?;
    if is_of_a_foreign_page(request.headers(), host) { Err(Denied::ForeignOrigin) } else { Ok(()) }
}

/// `::ffff:127.0.0.1` is how a dual-stack listener sees 127.0.0.1.
fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Whether a host, with or without a port, can be nothing but this machine: a loopback address, or a name that browsers resolve to
/// one without asking anybody (RFC 6761, 6.3).
fn names_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let host = authority.host().to_ascii_lowercase();
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&host);
    address.parse().is_ok_and(is_loopback) || host == "localhost" || host.ends_with(".localhost")
}

/// The listener itself is plain http, so that its own origin is `http://` and what it was asked by: also at the near end of a
/// tunnel, which has a port of its own.
fn is_of_a_foreign_page(headers: &HeaderMap, host: &str) -> bool {
    let own = format!("http://{host}");
    let foreign_origin = |origin: &[u8]| !origin.eq_ignore_ascii_case(own.as_bytes());
    let foreign_site = |site: &[u8]| !matches!(site, b"same-origin" | b"none");
    headers.get_all(header::ORIGIN).iter().any(|origin| foreign_origin(origin.as_bytes()))
        || headers.get_all(FETCH_SITE).iter().any(|site| foreign_site(site.as_bytes()))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn asked(peer: Option<&str>, headers: &[(&str, &str)]) -> Result<(), Denied> {
        let mut request = Request::builder().uri("/api/v1/push");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        if let Some(peer) = peer {
            request.extensions_mut().insert(ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 4711)));
        }
        is_local(&request)
    }

    #[test]
    fn the_client_has_to_be_on_this_machine() {
        for (peer, expected) in [
            (Some("127.0.0.1"), Ok(())),
            (Some("127.8.9.1"), Ok(())),
            (Some("::1"), Ok(())),
            (Some("::ffff:127.0.0.1"), Ok(())),
            (Some("10.0.0.1"), Err(Denied::Remote)),
            (Some("::ffff:10.0.0.1"), Err(Denied::Remote)),
            (None, Err(Denied::Remote)),
        ] {
            assert_eq!(asked(peer, &[("host", "localhost")]), expected, "{peer:?}");
        }
    }

    #[test]
    fn it_has_to_ask_this_machine_by_a_name_that_leads_nowhere_else() {
        for host in
            ["localhost", "LocalHost:9", "gw.localhost:8081", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:8081"]
        {
            assert_eq!(asked(Some("127.0.0.1"), &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example.com",
            "evil.example.com:8081",
            "127.0.0.1.evil.example",
            "notlocalhost",
            "10.0.0.5:8081",
            "[2001:db8::1]",
            "0.0.0.0:8081",
            "",
            "a b",
        ] {
            assert_eq!(asked(Some("127.0.0.1"), &[("host", host)]), Err(Denied::ForeignHost), "{host}");
        }
        assert_eq!(asked(Some("127.0.0.1"), &[]), Err(Denied::ForeignHost), "no browser leaves it out");
    }

    #[test]
    fn what_http_2_asks_for_counts_as_the_host() {
        for (uri, expected) in
            [("http://localhost:8081/metrics", Ok(())), ("http://evil.example.com/metrics", Err(Denied::ForeignHost))]
        {
            let mut request = Request::builder().uri(uri).body(Body::empty()).unwrap();
            request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 4711))));
            assert_eq!(is_local(&request), expected, "{uri}");
        }
    }

    #[test]
    fn no_page_of_another_origin_may_ask_through_a_browser() {
        let own = ("host", "localhost:9000");
        for more in [
            ("origin", "http://localhost:9000"),
            ("origin", "http://LOCALHOST:9000"),
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "none"),
        ] {
            assert_eq!(asked(Some("::1"), &[own, more]), Ok(()), "{more:?}");
        }
        for more in [
            ("origin", "http://evil.example.com"),
            ("origin", "http://localhost:9001"),
            ("origin", "http://localhost"),
            ("origin", "https://localhost:9000"),
            ("origin", "http://127.0.0.1:9000"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(asked(Some("::1"), &[own, more]), Err(Denied::ForeignOrigin), "{more:?}");
        }
    }
}
