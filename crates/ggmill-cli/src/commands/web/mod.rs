//! `ggmill web`: serves the inspector page on this computer.

mod http;
mod server;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use self::server::{Page, Server};
use crate::console::Console;
use crate::files::{refuse_input, shown};
use crate::outcome::{Failure, Status};
use crate::remote;

/// Show a model in the inspector page, in a browser on this computer
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill web model.gguf
  ggmill web hf://OWNER/NAME/model.gguf
  ggmill web --page web/dist

Prints the address of the page and serves it until it is interrupted. The address is on the loopback \
interface and contains a random token; besides the page, only FILE (for a shard, its set) can be \
read there. The page requests an address given as FILE itself.")]
pub(crate) struct Args {
    /// The model: a file, any shard of a split model, an https: address or hf://OWNER/NAME/FILE
    file: Option<PathBuf>,
    /// The port to listen on; 0 is any free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// A directory with the built page, instead of the page in this program
    #[arg(long, value_name = "DIR")]
    page: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    args.file.as_deref().map_or(Ok(()), refuse_input)?;
    let page = page(args.page.as_deref())?;
    let files = args.file.as_deref().map_or_else(|| Ok(Vec::new()), files)?;
    let server = Server::start(page, &files, args.port).map_err(|error| {
        Failure::new(format_args!("cannot listen on 127.0.0.1, port {}: {error}", args.port))
    })?;
    let mut out = console.text();
    writeln!(out, "{}", server.address(args.file.as_deref()))?;
    out.flush()?;
    drop(out);
    console.note("open this address in a browser; Ctrl-C ends the server");
    let error = server.run();
    Err(Failure::new(format_args!("cannot serve the page any more: {error}")))
}

fn page(directory: Option<&Path>) -> Result<Page, Failure> {
    let Some(directory) = directory else {
        return Page::built_in().ok_or_else(|| {
            let hint = "`cargo xtask web --build` builds it; then use --page web/dist, or build \
                        ggmill with GGMILL_WEB_PAGE set to the path of that directory";
            Failure::new("this program was built without the inspector page")
                .with_hint(Some(hint.to_owned()))
        });
    };
    Page::read(directory)
        .map_err(|error| Failure::new(format_args!("{}: {error}", shown(directory))))
}

/// Returns the files to serve for an argument: the model's shards; none for an address, which the page
/// reads itself.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if remote::is_remote(path) {
        let text = path.to_string_lossy();
        if text.starts_with("https://") || text.starts_with("hf://") {
            return Ok(Vec::new());
        }
        let message = format!("{}: a browser cannot read this address", shown(path));
        let hint = "expected a file, an https: address or hf://OWNER/NAME/FILE".to_owned();
        return Err(Failure::new(message).with_hint(Some(hint)));
    }
    let files = ggmill_io::sibling_shards(path);
    for file in &files {
        // The page reports invalid content; here the file only has to be readable.
        ggmill_io::RandomAccess::open(file).map_err(|error| Failure::new(&error))?;
    }
    Ok(files)
}
