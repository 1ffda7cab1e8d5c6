//! What the browser is shown: the page, the library, case files; and a server for them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use tiny_http::{Header, Method, Request, Response, Server};

use super::report::{BROKEN, WRONG};

/// Cases that exercise different parts of the graph and are small: SwiftShader is slow.
const CASES: [&str; 8] = [
    "valid_lens_per_query",
    "torch_bias_kv",
    "r14_causal_and_mask",
    "llama_gqa_8_2",
    "value_dim_6",
    "head_dim_7",
    "nan_visible",
    "r54_no_keys",
];

/// Files by the path they are asked for.
#[derive(Debug)]
pub(super) struct Site {
    files: BTreeMap<String, Vec<u8>>,
}

impl Site {
    /// Reads everything from the workspace at `root` and from the folder of the bindings.
    pub(super) fn new(root: &Path, bindings: &Path) -> Result<Self> {
        let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let page = root.join("web/smoke");
        let mut files = BTreeMap::from([
            ("/".to_owned(), read(&page.join("index.html"))?),
            ("/smoke.js".to_owned(), read(&page.join("smoke.js"))?),
            ("/multihead.js".to_owned(), read(&bindings.join("multihead.js"))?),
            ("/multihead_bg.wasm".to_owned(), read(&bindings.join("multihead_bg.wasm"))?),
        ]);
        let mut cases = BTreeMap::new();
        for name in CASES {
            cases.insert(name, read(&root.join(format!("tests/cases/{name}.safetensors")))?);
        }
        cases.insert(WRONG, with_wrong_answer(cases[CASES[0]].clone())?);
        cases.insert(BROKEN, b"no case".to_vec());
        files.insert("/cases.json".into(), serde_json::to_vec(&cases.keys().collect::<Vec<_>>())?);
        files.extend(cases.into_iter().map(|(name, bytes)| (format!("/cases/{name}"), bytes)));
        Ok(Self { files })
    }

    /// Serves the files to this machine only.
    pub(super) fn open(&self) -> Result<OpenSite<'_>> {
        let server = Server::http("127.0.0.1:0").map_err(|error| anyhow!("cannot open a port: {error}"))?;
        Ok(OpenSite { site: self, server })
    }
}

/// A site that answers.
pub(super) struct OpenSite<'a> {
    site: &'a Site,
    server: Server,
}

impl OpenSite<'_> {
    /// Of the page.
    pub(super) fn address(&self) -> String {
        format!("http://{}/", self.server.server_addr())
    }

    /// Answers what is asked within a time; ends early with what the page reports.
    pub(super) fn serve_for(&self, time: Duration) -> Result<Option<String>> {
        let end = Instant::now() + time;
        while let Some(mut request) = self.server.recv_timeout(end.saturating_duration_since(Instant::now()))? {
            if *request.method() == Method::Post {
                let mut report = String::new();
                request.as_reader().read_to_string(&mut report)?;
                request.respond(Response::empty(204))?;
                return Ok(Some(report));
            }
            self.answer(request)?;
        }
        Ok(None)
    }

    fn answer(&self, request: Request) -> Result<()> {
        let path = request.url().to_owned();
        match self.site.files.get(&path) {
            Some(bytes) => {
                let kind = Header::from_bytes("Content-Type", content_type(&path));
                let kind = kind.map_err(|()| anyhow!("{path} has no content type"))?;
                request.respond(Response::from_data(bytes.as_slice()).with_header(kind))?;
            }
            None => request.respond(Response::empty(404))?,
        }
        Ok(())
    }
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.') {
        Some((_, "js")) => "text/javascript",
        Some((_, "wasm")) => "application/wasm",
        Some((_, "json")) => "application/json",
        None if path == "/" => "text/html; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// The case with 1 added to the first number of its expected output: a check that passes it checks nothing.
fn with_wrong_answer(mut case: Vec<u8>) -> Result<Vec<u8>> {
    let (length, rest) = case.split_first_chunk().context("a case file should begin with its header's length")?;
    let length = usize::try_from(u64::from_le_bytes(*length))?;
    let header: serde_json::Value =
        serde_json::from_slice(rest.get(..length).context("a case file should hold its header")?)?;
    let offset = header["expected.output"]["data_offsets"][0].as_u64().context("a case should have an answer")?;
    let place = 8 + length + usize::try_from(offset)?;
    let number = case.get_mut(place..).and_then(|bytes| bytes.first_chunk_mut::<4>());
    let number = number.context("a case file should hold its answer")?;
    *number = (f32::from_le_bytes(*number) + 1.0).to_le_bytes();
    Ok(case)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_answer_differs_in_one_number() {
        let header = br#"{"query":{"data_offsets":[0,8]},"expected.output":{"data_offsets":[8,16]}}"#;
        let mut case = (header.len() as u64).to_le_bytes().to_vec();
        case.extend(header);
        case.extend([0; 16]);
        let wrong = with_wrong_answer(case.clone()).expect("an answer to change");
        let place = case.len() - 8;
        assert_eq!(wrong[place..place + 4], 1.0_f32.to_le_bytes());
        assert_eq!((&wrong[..place], &wrong[place + 4..]), (&case[..place], &case[place + 4..]));
        assert!(with_wrong_answer(b"no case".to_vec()).is_err());
    }

    #[test]
    fn a_site_answers_and_takes_a_report() {
        let site = Site { files: BTreeMap::from([("/".into(), b"page".to_vec())]) };
        let open = site.open().expect("a port");
        let address = open.server.server_addr().to_ip().expect("an address");
        let ask = move |words: &str| {
            use std::io::{Read as _, Write as _};
            let mut stream = std::net::TcpStream::connect(address).expect("a connection");
            stream.write_all(words.as_bytes()).expect("a request");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            answer
        };
        let visitor = std::thread::spawn(move || {
            let page = ask("GET / HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n");
            let nothing = ask("GET /none HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n");
            ask("POST /report HTTP/1.1\r\nHost: me\r\nConnection: close\r\nContent-Length: 4\r\n\r\ndone");
            (page, nothing)
        });
        assert_eq!(open.serve_for(Duration::from_secs(20)).expect("requests").as_deref(), Some("done"));
        let (page, nothing) = visitor.join().expect("a visitor");
        assert!(page.contains("text/html") && page.ends_with("page"), "{page}");
        assert!(nothing.starts_with("HTTP/1.1 404"), "{nothing}");
        assert_eq!(open.serve_for(Duration::ZERO).expect("nothing"), None);
    }
}
