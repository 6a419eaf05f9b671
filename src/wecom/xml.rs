//! XML as WeCom writes it: elements, text, CDATA, the five entities and character references.
//!
//! Callback bodies come from outside, and the outer one is read before its signature can be checked. So what a
//! callback never needs is refused at once: DOCTYPE (and with it entities of one's own), processing instructions,
//! deep nesting, huge documents, text around the root, a document that ends early. Errors name a byte offset and
//! never show content.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

/// Deeper than any callback, by far.
const MAX_DEPTH: usize = 16;
/// Larger than any callback, by far; the endpoint's own limit on bodies usually bites first.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// Why a document can't be read. Positions are byte offsets.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// Not well-formed, or more than one element at the top.
    #[error("malformed XML at byte {0}")]
    Malformed(u64),
    /// It ends before its root is closed.
    #[error("the XML ends early")]
    Truncated,
    /// A DOCTYPE or a processing instruction, which no callback has.
    #[error("XML with DOCTYPE or processing instructions is not taken (byte {0})")]
    Forbidden(u64),
    /// An entity other than lt, gt, amp, apos, quot and character references.
    #[error("unknown XML entity before byte {0}")]
    UnknownEntity(u64),
    /// More levels than any callback.
    #[error("XML nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// More bytes than any callback.
    #[error("XML larger than {MAX_BYTES} bytes")]
    TooLarge,
}

/// What a document is made of, in order. Every `Open` has its `Close`; `Text` stands inside the root.
pub(super) enum Node<'a> {
    Open(BytesStart<'a>),
    Text(Cow<'a, str>),
    Close,
}

/// A checked walk over one document.
pub(super) struct Document<'a> {
    reader: Reader<&'a [u8]>,
    depth: usize,
    root_seen: bool,
}

impl<'a> Document<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, XmlError> {
        if text.len() > MAX_BYTES {
            return Err(XmlError::TooLarge);
        }
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        Ok(Self { reader, depth: 0, root_seen: false })
    }

    /// The next node; `None` after a whole, well-formed document.
    pub(super) fn next(&mut self) -> Result<Option<Node<'a>>, XmlError> {
        loop {
            let event = self.reader.read_event().map_err(|_| XmlError::Malformed(self.reader.error_position()))?;
            match event {
                Event::Start(start) => return self.open(start).map(Some),
                Event::End(_) => {
                    self.depth -= 1;
                    return Ok(Some(Node::Close));
                }
                Event::Text(text) if self.depth > 0 => return Ok(Some(Node::Text(text.xml10_content()))),
                Event::Text(text) if text.bytes().all(|byte| byte.is_ascii_whitespace()) => {}
                Event::CData(text) if self.depth > 0 => return Ok(Some(Node::Text(text.xml10_content()))),
                Event::GeneralRef(entity) if self.depth > 0 => return self.resolve(&entity).map(Some),
                Event::Comment(_) => {}
                Event::Decl(_) if !self.root_seen => {}
                Event::Eof if self.depth == 0 && self.root_seen => return Ok(None),
                Event::Eof => return Err(XmlError::Truncated),
                Event::DocType(_) | Event::PI(_) => return Err(XmlError::Forbidden(self.position())),
                _ => return Err(XmlError::Malformed(self.position())),
            }
        }
    }

    fn open(&mut self, start: BytesStart<'a>) -> Result<Node<'a>, XmlError> {
        if self.depth == MAX_DEPTH {
            return Err(XmlError::TooDeep);
        }
        if self.depth == 0 && self.root_seen {
            return Err(XmlError::Malformed(self.position()));
        }
        self.root_seen = true;
        self.depth += 1;
        Ok(Node::Open(start))
    }

    fn resolve(&self, entity: &BytesRef<'_>) -> Result<Node<'a>, XmlError> {
        match entity.resolve_char_ref() {
            Ok(Some(character)) => Some(Node::Text(Cow::Owned(character.to_string()))),
            Ok(None) => resolve_xml_entity(entity).map(|text| Node::Text(Cow::Borrowed(text))),
            Err(_) => None,
        }
        .ok_or_else(|| XmlError::UnknownEntity(self.position()))
    }

    fn position(&self) -> u64 {
        self.reader.buffer_position()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and texts, `name(`, `text`, `)`.
    fn walk(text: &str) -> Result<String, XmlError> {
        let mut document = Document::new(text)?;
        let mut seen = String::new();
        while let Some(node) = document.next()? {
            match node {
                Node::Open(start) => seen.extend([start.name().0, "("]),
                Node::Text(text) => seen.push_str(&text),
                Node::Close => seen.push(')'),
            }
        }
        Ok(seen)
    }

    #[test]
    fn text_cdata_and_entities_come_out_in_order() {
        let rows = [
            ("<xml/>", "xml()"),
            ("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<xml>a</xml>\n\n", "xml(a)"),
            ("<xml><a>1</a ><b x='2'/></xml>", "xml(a(1)b())"),
            ("<xml><![CDATA[x]]]]><![CDATA[>y]]></xml>", "xml(x]]>y)"),
            ("<xml>a &amp; b &lt;&gt;&quot;&apos; &#65;&#x4F60;</xml>", "xml(a & b <>\"' A你)"),
            ("<xml>a<!-- b -->c</xml>", "xml(ac)"),
            ("<xml><![CDATA[<a>&amp;</a>]]></xml>", "xml(<a>&amp;</a>)"),
            ("<xml>1\r\n2</xml>", "xml(1\n2)"),
        ];
        for (text, seen) in rows {
            assert_eq!(walk(text).as_deref(), Ok(seen), "{text}");
        }
    }

    #[test]
    fn what_no_callback_has_is_refused() {
        let forbidden =
            ["<!DOCTYPE x [<!ENTITY a SYSTEM \"file:///etc/hostname\">]><xml>&a;</xml>", "<xml><?php ?></xml>"];
        for text in forbidden {
            assert!(matches!(walk(text), Err(XmlError::Forbidden(_))), "{text}");
        }
        for text in ["<xml>&nbsp;</xml>", "<xml>&a;</xml>", "<xml>&#0;</xml>", "<xml>&#xD800;</xml>", "<xml>&#;</xml>"]
        {
            assert!(matches!(walk(text), Err(XmlError::UnknownEntity(_))), "{text}");
        }
        for text in [
            "<xml></xml><xml></xml>",
            "<xml></xml>a",
            "a<xml></xml>",
            "&amp;<xml></xml>",
            "<![CDATA[a]]><xml></xml>",
            "<xml></yml>",
            "<xml>a & b</xml>",
            "</xml>",
            "<xml><a></xml></a>",
            "<xml></xml><?xml version=\"1.0\"?>",
            "<xml><a",
            "<xml><![CDATA[a",
            "<xml>&am",
        ] {
            assert!(matches!(walk(text), Err(XmlError::Malformed(_))), "{text}: {:?}", walk(text));
        }
        for text in ["", " \n", "<xml>", "<xml><a></a>", "<xml>a", "<!-- only a comment -->"] {
            assert_eq!(walk(text), Err(XmlError::Truncated), "{text}");
        }
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let nested = |levels: usize| format!("{}{}", "<a>".repeat(levels), "</a>".repeat(levels));
        assert!(walk(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(walk(&nested(MAX_DEPTH + 1)), Err(XmlError::TooDeep));
        assert_eq!(walk(&"<a>".repeat(350_000)), Err(XmlError::TooDeep));
        assert_eq!(walk(&" ".repeat(MAX_BYTES + 1)), Err(XmlError::TooLarge));
    }
}
