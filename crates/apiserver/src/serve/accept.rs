//! In which form a client wants its answer (`Accept`). JSON is all that is spoken, with objects whole, as rows of a table or
//! reduced to their metadata.

/// What becomes of the objects in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Whole,
    /// `meta.k8s.io` in this version.
    Table(&'static str),
    /// `PartialObjectMetadata`, for one object and for events of a watch.
    Metadata(&'static str),
    /// `PartialObjectMetadataList`
    MetadataList(&'static str),
}

/// Message and whether `details` are given (as an empty object) in the 406 answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAcceptable {
    pub message: &'static str,
    pub details: bool,
}

// The real server's words, though it speaks more than we do: tests compare the two.
const UNKNOWN_TYPE: NotAcceptable = NotAcceptable {
    message: "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
              application/vnd.kubernetes.protobuf, application/json;stream=watch, \
              application/vnd.kubernetes.protobuf;stream=watch",
    details: true,
};
const UNKNOWN_FORM: NotAcceptable = NotAcceptable {
    message: "only the following media types are accepted: application/json, application/yaml, \
              application/vnd.kubernetes.protobuf",
    details: false,
};

/// The first form of the header that can be had. Without a header everything is fine.
pub fn accepted(header: &str) -> Result<Form, NotAcceptable> {
    let mut refusal = UNKNOWN_TYPE;
    let choices: Vec<_> = header.split(',').map(str::trim).filter(|choice| !choice.is_empty()).collect();
    if choices.is_empty() {
        return Ok(Form::Whole);
    }
    for choice in choices {
        let mut parts = choice.split(';').map(str::trim);
        match parts.next() {
            Some("application/json" | "*/*") => {}
            _ => continue,
        }
        match form(parts) {
            Some(form) => return Ok(form),
            None => refusal = UNKNOWN_FORM,
        }
    }
    Err(refusal)
}

fn form<'a>(parameters: impl Iterator<Item = &'a str>) -> Option<Form> {
    let (mut kind, mut group, mut version) = ("", "", "");
    for (name, value) in parameters.filter_map(|parameter| parameter.split_once('=')) {
        match name.trim() {
            "as" => kind = value.trim(),
            "g" => group = value.trim(),
            "v" => version = value.trim(),
            _ => {}
        }
    }
    let version = match version {
        _ if kind.is_empty() => return Some(Form::Whole),
        "v1" => "v1",
        "v1beta1" => "v1beta1",
        _ => return None,
    };
    match kind {
        _ if group != "meta.k8s.io" => None,
        "Table" => Some(Form::Table(version)),
        "PartialObjectMetadata" => Some(Form::Metadata(version)),
        "PartialObjectMetadataList" => Some(Form::MetadataList(version)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from kube-apiserver 1.35.4, but for protobuf, which is not spoken here.
    #[test]
    fn the_best_known_form_is_taken() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
                       application/json";
        for (header, want) in [
            ("", Ok(Form::Whole)),
            ("*/*", Ok(Form::Whole)),
            ("text/html, */*", Ok(Form::Whole)),
            ("application/json; charset=utf-8", Ok(Form::Whole)),
            ("application/json;stream=watch", Ok(Form::Whole)),
            ("application/vnd.kubernetes.protobuf,application/json", Ok(Form::Whole)),
            (kubectl, Ok(Form::Table("v1"))),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Ok(Form::Table("v1beta1"))),
            ("application/json;as=Table;v=v3;g=meta.k8s.io,application/json", Ok(Form::Whole)),
            ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", Ok(Form::Metadata("v1"))),
            ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", Ok(Form::MetadataList("v1"))),
            ("application/json;as=Table;v=v3;g=meta.k8s.io", Err(UNKNOWN_FORM)),
            ("application/json;as=Nope;v=v1;g=meta.k8s.io", Err(UNKNOWN_FORM)),
            ("text/html", Err(UNKNOWN_TYPE)),
            ("application/*", Err(UNKNOWN_TYPE)),
            ("application/vnd.kubernetes.protobuf", Err(UNKNOWN_TYPE)),
        ] {
            assert_eq!(accepted(header), want, "{header}");
        }
    }
}
