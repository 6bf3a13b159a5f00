//! The inspector page on this computer: a server of the page and of one model, and of nothing else.

mod http;
mod page;
mod server;

pub(crate) use page::Page;
pub(crate) use server::Server;
