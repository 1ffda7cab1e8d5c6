//! `cargo xtask page`: walks the built page in Chromium, as a visitor would.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::npm::{self, npm};
use crate::site::{OpenSite, Site};
use crate::{chromium, web};

/// The walks, below the workspace's root.
const TESTS: &str = "web/tests";

/// How long the server waits for a request before it sees whether the walk is over.
const LOOK_UP: Duration = Duration::from_millis(200);

/// Builds the page and walks it.
///
/// # Errors
/// When something is missing, does not compile, or the page does not do what it should.
pub(crate) fn run(root: &Path) -> Result<()> {
    let chromium = chromium::set_up(root)?;
    web::run(root)?;
    let tests = root.join(TESTS);
    npm::install(&tests)?;
    let mut site = Site::default();
    site.add_folder("/", &root.join(web::SITE))?;
    let open = site.open(0)?;
    let walk = npm("walk the page", ["test"])
        .env("PAGE_URL", &open.address())
        .env("CHROMIUM", &chromium.display().to_string());
    while_serving(&open, || walk.run(&tests))?;
    Ok(())
}

/// Does the work while the site answers.
fn while_serving<T: Send>(site: &OpenSite<'_>, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let worker = scope.spawn(work);
        while !worker.is_finished() {
            site.serve_for(LOOK_UP)?;
        }
        worker.join().map_err(|_| anyhow!("the walk ended without a result"))?
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_site_answers_as_long_as_there_is_work_and_the_work_s_result_counts() {
        let mut site = Site::default();
        site.add("/index.html", b"page".to_vec());
        let open = site.open(0).expect("a port");
        let host = open.address().trim_start_matches("http://").trim_end_matches('/').to_owned();
        let visit = || {
            let mut stream = TcpStream::connect(&host)?;
            stream.write_all(b"GET / HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = while_serving(&open, visit).expect("an answer");
        assert!(answer.ends_with("page") && answer.contains("Content-Security-Policy"), "{answer}");
        let failed = while_serving(&open, || Err::<(), _>(anyhow!("a walk that failed")));
        assert!(failed.is_err());
    }
}
