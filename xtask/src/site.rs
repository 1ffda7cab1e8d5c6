//! Static files over HTTP, on this machine only, with the headers that a careful host would send.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use tiny_http::{Header, Method, Request, Response, Server};

/// Nothing from any other host, no inline scripts or styles, no frames. `'wasm-unsafe-eval'` lets wasm be compiled.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; \
                      style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; \
                      manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What every answer says besides its type.
const HEADERS: [(&str, &str); 4] = [
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-cache"),
];

/// Files by the path they are asked for.
#[derive(Debug, Default)]
pub(crate) struct Site {
    files: BTreeMap<String, Vec<u8>>,
}

impl Site {
    /// Adds one file; `/folder/index.html` is what `/folder/` asks for.
    pub(crate) fn add(&mut self, path: &str, bytes: Vec<u8>) {
        if let Some(folder) = path.strip_suffix("index.html") {
            self.files.insert(folder.into(), bytes.clone());
        }
        self.files.insert(path.into(), bytes);
    }

    /// Adds every file of a folder below a path that ends with `/`.
    ///
    /// # Errors
    /// When one cannot be read.
    pub(crate) fn add_folder(&mut self, path: &str, folder: &Path) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = format!("{path}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                self.add_folder(&format!("{name}/"), &entry.path())?;
            } else {
                self.add_file(&name, &entry.path())?;
            }
        }
        Ok(())
    }

    /// Adds a file of this machine.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn add_file(&mut self, path: &str, file: &Path) -> Result<()> {
        self.add(path, fs::read(file).with_context(|| format!("cannot read {}", file.display()))?);
        Ok(())
    }

    /// Serves the files to this machine only, at a port or, for 0, at any that is free.
    ///
    /// # Errors
    /// When the port is taken.
    pub(crate) fn open(&self, port: u16) -> Result<OpenSite<'_>> {
        let server = Server::http(("127.0.0.1", port)).map_err(|error| anyhow!("cannot open port {port}: {error}"))?;
        Ok(OpenSite { site: self, server })
    }
}

/// A site that answers.
pub(crate) struct OpenSite<'a> {
    site: &'a Site,
    server: Server,
}

impl OpenSite<'_> {
    /// Of the page.
    pub(crate) fn address(&self) -> String {
        format!("http://{}/", self.server.server_addr())
    }

    /// Answers what is asked, for ever.
    ///
    /// # Errors
    /// When the port goes away.
    pub(crate) fn serve(&self) -> Result<()> {
        loop {
            self.answer(self.server.recv()?)?;
        }
    }

    /// Answers what is asked within a time; ends early with what the page reports.
    ///
    /// # Errors
    /// When the port goes away.
    pub(crate) fn serve_for(&self, time: Duration) -> Result<Option<String>> {
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
        let url = request.url().to_owned();
        let path = url.split(['?', '#']).next().unwrap_or_default();
        let answered = match self.site.files.get(path) {
            Some(bytes) => {
                let mut response = Response::from_data(bytes.as_slice());
                for (name, value) in HEADERS.into_iter().chain([("Content-Type", content_type(path))]) {
                    let header = Header::from_bytes(name, value);
                    response.add_header(header.map_err(|()| anyhow!("{name} should be a header"))?);
                }
                request.respond(response)
            }
            None => request.respond(Response::empty(404)),
        };
        // Whoever stopped listening does not want the answer.
        let _ = answered;
        Ok(())
    }
}

fn content_type(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or_default();
    match name.rsplit_once('.') {
        None if name.is_empty() => "text/html; charset=utf-8",
        Some((_, "html")) => "text/html; charset=utf-8",
        Some((_, "js" | "mjs")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "wasm")) => "application/wasm",
        Some((_, "json" | "map")) => "application/json",
        Some((_, "webmanifest")) => "application/manifest+json",
        Some((_, "svg")) => "image/svg+xml",
        Some((_, "png")) => "image/png",
        Some((_, "ico")) => "image/x-icon",
        Some((_, "woff2")) => "font/woff2",
        Some((_, "txt")) => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};

    use super::*;

    fn ask(address: SocketAddr, words: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.write_all(words.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    fn get(address: SocketAddr, path: &str) -> String {
        ask(address, &format!("GET {path} HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n"))
    }

    #[test]
    fn a_site_answers_and_takes_a_report() {
        let mut site = Site::default();
        site.add("/index.html", b"page".to_vec());
        site.add("/a.wasm", b"code".to_vec());
        let open = site.open(0).expect("a port");
        let address = open.server.server_addr().to_ip().expect("an address");
        let visitor = std::thread::spawn(move || {
            let answers = ["/", "/a.wasm?v=1", "/none", "/../a.wasm"].map(|path| get(address, path));
            ask(address, "POST /report HTTP/1.1\r\nHost: me\r\nConnection: close\r\nContent-Length: 4\r\n\r\ndone");
            answers
        });
        assert_eq!(open.serve_for(Duration::from_secs(20)).expect("requests").as_deref(), Some("done"));
        let [page, code, nothing, outside] = visitor.join().expect("a visitor");
        assert!(page.contains("text/html") && page.ends_with("page"), "{page}");
        assert!(page.contains("default-src 'none'") && page.contains("nosniff"), "{page}");
        assert!(code.contains("application/wasm") && code.ends_with("code"), "{code}");
        for nothing in [nothing, outside] {
            assert!(nothing.starts_with("HTTP/1.1 404"), "{nothing}");
        }
        assert_eq!(open.serve_for(Duration::ZERO).expect("nothing"), None);
    }

    #[test]
    fn a_folder_is_served_with_its_folders() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("assets")).expect("a folder");
        fs::write(folder.path().join("index.html"), "page").expect("a file");
        fs::write(folder.path().join("assets/a.js"), "code").expect("a file");
        let mut site = Site::default();
        site.add_folder("/", folder.path()).expect("files");
        let paths: Vec<&str> = site.files.keys().map(String::as_str).collect();
        assert_eq!(paths, ["/", "/assets/a.js", "/index.html"]);
        assert!(site.add_folder("/", &folder.path().join("none")).is_err());
    }
}
