//! Vetting: of remote files and of shards, with the bytes that it requests.

use ggmill::check::Verdict;
use ggmill_testdata::bytes::{FileBytes, Value};
use ggmill_testdata::server::{Reply, Server};

const MIB: usize = 1 << 20;

/// Returns a shard with a tensor of `size` bytes, as `number` of `count`. The first has a vocabulary and
/// this chat template.
fn shard(number: u16, count: u16, template: &str, size: usize) -> Vec<u8> {
    let is_first = number == 0;
    let mut file = FileBytes::v3(1, if is_first { 6 } else { 3 });
    file.pair("split.no", &Value::U16(number));
    file.pair("split.count", &Value::U16(count));
    file.pair("split.tensors.count", &Value::I32(count.into()));
    if is_first {
        let tokens = (0..70_000).map(|id| Value::from(format!("token {id}").as_str())).collect();
        file.pair("general.architecture", &"llama".into());
        file.pair("tokenizer.ggml.tokens", &Value::Array(8, tokens));
        file.pair("tokenizer.chat_template", &template.into());
    }
    file.tensor(format!("blk.{number}.ffn_up.weight"), &[size as u64 / 4], 0, 0).pad(32);
    let mut bytes = file.into_bytes();
    bytes.resize(bytes.len() + size, 0);
    bytes
}

const GOOD: &str = "{% for m in messages %}{{ m.content }}{% endfor %}";
const BAD: &str = "{{ ''.__class__ }}";

fn serve(files: Vec<(String, Vec<u8>)>) -> Server {
    Server::start(move |request| {
        let found = files.iter().find(|(name, _)| request.path == format!("/{name}"));
        found.map_or_else(|| Reply::status(404), |(_, file)| Reply::file(file, request))
    })
}

/// Returns the paths and the rules of the reasons.
fn reasons(verdict: &Verdict) -> Vec<(&str, &str)> {
    verdict.reasons().iter().map(|reason| (&*reason.path, reason.rule().code)).collect()
}

/// Only the header of a remote file is requested, and the verdict is that of the local file.
#[test]
fn only_the_header_of_an_address_is_requested() {
    let directory = tempfile::tempdir().unwrap();
    for (template, rules) in [(GOOD, &[][..]), (BAD, &["GG1702"])] {
        let file = shard(0, 1, template, 32 * MIB);
        let path = directory.path().join("model.gguf");
        std::fs::write(&path, &file).unwrap();
        let header = file.len() - 32 * MIB;
        assert!(header > MIB, "{header}");
        let server = serve(vec![("model.gguf".to_owned(), file)]);
        let url = server.url("/model.gguf");
        let verdict = ggmill::vet(&url).unwrap();
        let found: Vec<_> = reasons(&verdict).iter().map(|(_, rule)| *rule).collect();
        assert!(rules.iter().all(|rule| found.contains(rule)), "{found:?}");
        assert_eq!(verdict.is_safe(), rules.is_empty(), "{found:?}");
        // Ranges of 512 KiB, then 2 MiB.
        assert_eq!((server.requests().len(), server.sent()), (2, 5 * (MIB as u64) / 2));
        let local = ggmill::vet(&path).unwrap().json().to_string();
        assert_eq!(verdict.json().to_string(), local.replace(path.to_str().unwrap(), &url));
    }
}

/// The address of one shard stands for the set, whose headers are requested once each.
#[test]
fn shards_are_vetted_as_a_set() {
    let name = |number: usize| format!("model-{number:05}-of-00003.gguf");
    let set = |template| {
        let files = (0..3u16)
            .map(|number| (name(usize::from(number) + 1), shard(number, 3, template, 4 * MIB)));
        files.collect::<Vec<_>>()
    };
    let server = serve(set(GOOD));
    assert!(ggmill::vet(server.url(&format!("/{}", name(2)))).unwrap().is_safe());
    let (requests, bytes) = (server.requests().len(), server.sent());
    assert!(requests <= 4 && bytes < 5 * MIB as u64, "{requests} requests, {bytes} bytes");

    let server = serve(set(BAD));
    let verdict = ggmill::vet(server.url(&format!("/{}", name(3)))).unwrap();
    let first = server.url(&format!("/{}", name(1)));
    assert!(reasons(&verdict).contains(&(&*first, "GG1702")), "{verdict:?}");
    assert!(reasons(&verdict).iter().all(|(path, _)| *path == first), "{verdict:?}");

    // The data of the last shard ends too early.
    let mut cut = set(GOOD);
    let len = cut[2].1.len();
    cut[2].1.truncate(len - MIB);
    let directory = tempfile::tempdir().unwrap();
    for (name, file) in &cut {
        std::fs::write(directory.path().join(name), file).unwrap();
    }
    let server = serve(cut);
    let verdict = ggmill::vet(server.url(&format!("/{}", name(1)))).unwrap();
    assert_eq!(reasons(&verdict), [(&*server.url(&format!("/{}", name(3))), "GG1302")]);
    let local = ggmill::vet(directory.path().join(name(2))).unwrap();
    let last = directory.path().join(name(3));
    assert_eq!(reasons(&local), [(last.to_str().unwrap(), "GG1302")]);

    // A shard that cannot be requested is an error, not a verdict.
    let server = serve(set(GOOD).into_iter().take(2).collect());
    let error = ggmill::vet(server.url(&format!("/{}", name(1)))).unwrap_err();
    assert!(error.to_string().contains(&name(3)), "{error}");
}
