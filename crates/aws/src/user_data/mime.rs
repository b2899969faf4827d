//! MIME archives: what cloud-init takes when there is more than one thing to do (AWS-172, AWS-175).

use super::UserDataError;

const BOUNDARY: &str = "//";

pub(super) const SHELL_SCRIPT: &str = r#"text/x-shellscript; charset="us-ascii""#;
pub(super) const NODE_CONFIG: &str = "application/node.eks.aws";

/// One entry: its header lines as they were written, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    headers: Vec<String>,
    body: String,
}

impl Part {
    pub(super) fn new(content_type: &str, body: &str) -> Self {
        Self { headers: vec![format!("Content-Type: {content_type}")], body: body.to_owned() }
    }
}

pub(super) fn is_archive(text: &str) -> bool {
    let text = text.trim_start();
    ["MIME-Version:", "Content-Type:"].iter().any(|header| text.starts_with(header))
}

/// The entries of an archive that somebody else wrote.
pub(super) fn parse(text: &str) -> Result<Vec<Part>, UserDataError> {
    let text = text.replace("\r\n", "\n");
    let (headers, body) = split_headers(text.trim_start());
    let content_type = header(&headers, "content-type").ok_or(UserDataError::Mime("it has no Content-Type"))?;
    if !content_type.trim_start().to_ascii_lowercase().starts_with("multipart/") {
        return Err(UserDataError::Mime("its Content-Type is not multipart"));
    }
    let boundary = boundary(content_type).ok_or(UserDataError::Mime("its Content-Type names no boundary"))?;
    let (delimiter, end) = (format!("--{boundary}"), format!("--{boundary}--"));
    let mut parts = Vec::new();
    let mut current: Option<Vec<&str>> = None;
    for line in body.lines() {
        let marker = line.trim_end();
        if marker == delimiter || marker == end {
            parts.extend(current.take().map(|lines| part(&lines.join("\n"))));
            if marker == end {
                return Ok(parts);
            }
            current = Some(Vec::new());
        } else if let Some(lines) = &mut current {
            lines.push(line);
        }
    }
    Err(UserDataError::Mime("its last boundary is missing"))
}

fn part(text: &str) -> Part {
    let (headers, body) = split_headers(text);
    Part { headers, body: body.to_owned() }
}

/// Lines up to the first empty one, with those that continue another joined to it, and the rest.
fn split_headers(text: &str) -> (Vec<String>, &str) {
    // A part without any header begins with the empty line.
    let (head, body) = match text.strip_prefix('\n') {
        Some(body) => ("", body),
        None => text.split_once("\n\n").unwrap_or((text, "")),
    };
    let mut headers: Vec<String> = Vec::new();
    for line in head.lines() {
        match headers.last_mut() {
            Some(last) if line.starts_with([' ', '\t']) => {
                last.push(' ');
                last.push_str(line.trim());
            }
            _ => headers.push(line.trim_end().to_owned()),
        }
    }
    (headers, body)
}

fn header<'a>(headers: &'a [String], name: &str) -> Option<&'a str> {
    let own = |line: &'a String| line.split_once(':').filter(|(key, _)| key.eq_ignore_ascii_case(name));
    headers.iter().find_map(own).map(|(_, value)| value)
}

fn boundary(content_type: &str) -> Option<&str> {
    let parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let mut boundaries = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"));
    boundaries.next().map(|(_, value)| value.trim().trim_matches('"')).filter(|value| !value.is_empty())
}

/// The archive, without carriage returns.
pub(super) fn write(parts: &[Part]) -> String {
    let entry = |Part { headers, body }: &Part| {
        format!("--{BOUNDARY}\n{}\n\n{}\n", headers.join("\n"), body.trim_end_matches('\n'))
    };
    let entries: String = parts.iter().map(entry).collect();
    let text = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n{entries}--{BOUNDARY}--\n"
    );
    text.replace('\r', "")
}
