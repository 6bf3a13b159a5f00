//! Remote models, read from a server within the test.

use std::process::Command;
use std::sync::Arc;

use ggmill_testdata::server::{Reply, Server};

use crate::check::faulty;
use crate::support::{Directory, Outcome, command, ggmill, outcome, real, shard, tiny};

const LFS: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4368439584\n";

/// Starts a server with several files.
fn server(files: Vec<(&'static str, Vec<u8>)>) -> Server {
    Server::start(move |request| {
        let path = request.path.split('?').next().unwrap_or_default();
        match files.iter().find(|(name, _)| path.strip_prefix('/') == Some(name)) {
            Some((_, file)) => Reply::file(file, request),
            None => Reply::status(404),
        }
    })
}

/// Runs the program with only these variables of the environment that concern servers.
fn remote(directory: &Directory, settings: &[(&str, &str)], args: &[&str]) -> Outcome {
    let mut command: Command = command(directory.path());
    for name in [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "HF_TOKEN",
        "HF_HOME",
        "HF_ENDPOINT",
        "AWS_PROFILE",
        "AWS_ACCESS_KEY_ID",
        "AWS_REGION",
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "HF_TOKEN_PATH",
        "SSL_CERT_FILE",
    ] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.env("XDG_CACHE_HOME", directory.path().join("cache")).env("HOME", directory.path());
    command.env("LOCALAPPDATA", directory.path());
    command.envs(settings.iter().copied());
    outcome(command.args(args))
}

#[test]
fn commands_print_the_same_for_remote_and_local_files() {
    let bytes = std::fs::read(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap();
    let directory = Directory::new().with("m.gguf", &bytes).with("tiny.gguf", tiny());
    let server = server(vec![("m.gguf", bytes), ("tiny.gguf", tiny())]);
    let commands: [&[&str]; 9] = [
        &["inspect", "FILE", "--all"],
        &["inspect", "FILE", "--full"],
        &["check", "FILE", "--data", "--exit-zero"],
        &["hash", "FILE", "--all"],
        &["get", "FILE", "general.architecture"],
        &["name", "build", "FILE"],
        &["diff", "FILE", "tiny.gguf"],
        &["extract", "FILE", "--key", "general.*", "-o", "-"],
        &["inspect", "FILE", "--tensors", "*bias"],
    ];
    for arguments in commands {
        for name in ["m.gguf", "tiny.gguf"] {
            let url = server.url(&format!("/{name}"));
            let run = |file: &str| {
                let arguments: Vec<&str> = arguments
                    .iter()
                    .map(|word| if *word == "FILE" { file } else { word })
                    .collect();
                let made = remote(&directory, &[], &arguments);
                // Some commands print only the last part of the path.
                (made.code, made.stdout.replace(file, name), made.stderr.replace(file, name))
            };
            assert_eq!(run(&url), run(name), "{arguments:?} {name}");
        }
    }
}

#[test]
fn an_extracted_tensor_downloads_only_its_data() {
    let bytes = std::fs::read(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap();
    let directory = Directory::new().with("m.gguf", &bytes);
    let server = server(vec![("m.gguf", bytes)]);
    let listed = remote(&directory, &[], &["inspect", "m.gguf", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let tensors = listed["tensors"].as_array().unwrap();
    let last = tensors.last().unwrap()["name"].as_str().unwrap();
    for (file, output) in [("m.gguf", "here.npy"), (&*server.url("/m.gguf"), "there.npy")] {
        let made = remote(&directory, &[], &["extract", file, last, "-o", output]);
        assert_eq!(made.code, 0, "{}", made.stderr);
    }
    let read = |name| std::fs::read(directory.path().join(name)).unwrap();
    assert_eq!(read("here.npy"), read("there.npy"));
    assert!(server.sent() < (600 << 10) + read("here.npy").len() as u64, "{}", server.sent());
}

/// Returns a model with twenty tensors of 1 MiB.
fn wide() -> Vec<u8> {
    let mut builder = ggmill_core::Builder::new();
    let mut metadata = ggmill_core::MetadataBuf::new();
    metadata.set("general.architecture", "llama");
    builder = builder.metadata(metadata);
    let shape = ggmill_core::Shape::new(&[256, 1024]).unwrap();
    for number in 0..20 {
        let name = format!("blk.{number}.ffn_up.weight");
        builder = builder.tensor(name, ggmill_core::GgmlType::F32, shape);
    }
    let plan = builder.plan().unwrap();
    let mut writer = ggmill_core::Writer::start(&plan, Vec::new()).unwrap();
    for number in 0..20u8 {
        let row = (0..97u8).map(|place| f32::from(number) + f32::from(place));
        let values = row.cycle().take(256 * 1024);
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        writer.write(usize::from(number), &bytes).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn writing_commands_download_each_byte_once() {
    let bytes = wide();
    let whole = bytes.len() as u64;
    let directory = Directory::new().with("m.gguf", &bytes);
    let server = server(vec![("m.gguf", bytes)]);
    let url = server.url("/m.gguf");
    let commands: [(&[&str], &str); 6] = [
        (&["quantize", "FILE", "OUT.gguf", "Q8_0"], "OUT.gguf"),
        (&["repack", "FILE", "-o", "OUT-big.gguf", "--endian", "big"], "OUT-big.gguf"),
        (&["extract", "FILE", "blk.*", "-o", "OUT.safetensors"], "OUT.safetensors"),
        (&["split", "FILE", "OUT", "--max-tensors", "12"], "OUT-00002-of-00002.gguf"),
        (&["hash", "FILE", "--sha256"], ""),
        (&["check", "FILE", "--data", "--exit-zero"], ""),
    ];
    for (arguments, output) in commands {
        let run = |file: &str, prefix: &str| {
            let arguments: Vec<String> = arguments
                .iter()
                .map(|word| word.replace("FILE", file).replace("OUT", prefix))
                .collect();
            let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let made = remote(&directory, &[], &[&words[..], &["--quiet", "--no-cache"]].concat());
            assert_eq!(made.code, 0, "{words:?}: {}", made.stderr);
            let made = made.stdout.replace(file, "FILE");
            let path = directory.path().join(output.replace("OUT", prefix));
            (made, std::fs::read(path).ok())
        };
        let here = run("m.gguf", "here");
        server.forget();
        assert_eq!(here, run(&url, "there"), "{arguments:?}");
        assert!(server.sent() < whole + (600 << 10), "{arguments:?}: {}", server.sent());
        // 20 MiB in windows of 8 MiB, which two threads can reach in any order.
        assert!(server.requests().len() <= 12, "{arguments:?}: {}", server.requests().len());
    }
}

/// Starts a hub with a repository `a/b` of these files, and a directory `c` in it with the same
/// files.
fn hub(files: Vec<(&'static str, Vec<u8>)>) -> Server {
    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
    let entry = |(name, content): &(&str, Vec<u8>), prefix: &str| {
        format!(r#"{{"type":"file","path":"{prefix}{name}","size":{}}}"#, content.len())
    };
    let listing = |prefix| {
        let entries: Vec<String> = files.iter().map(|file| entry(file, prefix)).collect();
        format!("[{}]", entries.join(","))
    };
    let (root, inner) = (listing(""), listing("c/"));
    Server::start(move |request| {
        let path = request.path.as_str();
        match path.strip_prefix("/api/models/a/b/tree/main") {
            Some("?recursive=true") => return Reply::status(200).with_body(root.clone()),
            Some("/c?recursive=true") => return Reply::status(200).with_body(inner.clone()),
            None if path.starts_with("/api/models/a/b?") => {
                return Reply::status(200).with_body("{}");
            }
            _ => {}
        }
        // Requests after the first answer are for the commit in that answer.
        let at = ["main", COMMIT].iter().find_map(|revision| {
            path.strip_prefix("/a/b/resolve/")?.strip_prefix(revision)?.strip_prefix('/')
        });
        let name = at.map(|name| name.strip_prefix("c/").unwrap_or(name));
        match files.iter().find(|(known, _)| Some(*known) == name) {
            Some((_, file)) => Reply::file(file, request).with("x-repo-commit", COMMIT),
            None => Reply::status(404),
        }
    })
}

/// Returns the ranges of a file that were sent, in order.
fn sent_of(server: &Server, name: &str, len: usize) -> Vec<(usize, usize)> {
    let requests = server.requests();
    let of_file = requests.iter().filter(|request| request.path.ends_with(name));
    let mut ranges: Vec<_> = of_file
        .map(|request| request.range().map_or((0, len), |(start, end)| (start, end.min(len))))
        .collect();
    ranges.sort_unstable();
    ranges
}

#[test]
fn a_checkpoint_of_the_hub_is_converted_while_downloading() {
    const FILES: [&str; 5] = [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.model",
        "tokenizer_config.json",
    ];
    let checkpoint = real("tinystories260K");
    let read = |name| (name, std::fs::read(checkpoint.join(name)).unwrap());
    let files: Vec<(&str, Vec<u8>)> = FILES.into_iter().map(read).collect();
    let weights = files[2].1.len();
    let directory = Directory::new();
    let hub = hub(files);
    let endpoint = hub.url("");
    let run = |source: &str, output: &str, more: &[&str]| {
        let words: [&[&str]; 2] =
            [&["convert", source, "-o", output, "--quiet", "--name", "Tiny"], more];
        let words = words.concat();
        let made = remote(&directory, &[("HF_ENDPOINT", &*endpoint)], &words);
        assert_eq!(made.code, 0, "{words:?}: {}", made.stderr);
        std::fs::read(directory.path().join(output)).unwrap()
    };
    for kind in ["q8_0", "f32", "q4_k_m"] {
        let more = ["--type", kind, "--force"];
        let here = run(checkpoint.to_str().unwrap(), "here.gguf", &more);
        for source in ["hf://a/b", "hf://a/b/c", "hf://a/b/model.safetensors"] {
            hub.forget();
            assert_eq!(run(source, "there.gguf", &more), here, "{source} {kind}");
            let mut ranges = sent_of(&hub, "model.safetensors", weights);
            if source.ends_with(".safetensors") {
                // The beginning of a named file is read to detect its format.
                ranges.dedup_by_key(|range| range.0);
            }
            assert!(
                ranges.is_sorted_by(|one, next| one.1 <= next.0),
                "{source} {kind}: read twice: {ranges:?}"
            );
            assert_eq!(ranges.last().unwrap().1, weights);
            // A listing, each file once or twice, and the weights in a few windows.
            assert!(hub.requests().len() <= 12, "{source}: {}", hub.requests().len());
        }
    }
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().flatten().collect();
    let names: Vec<_> = left.iter().map(std::fs::DirEntry::file_name).collect();
    assert!(
        names
            .iter()
            .all(|name| ["here.gguf", "there.gguf", "cache"].contains(&name.to_str().unwrap())),
        "{names:?}"
    );
}

#[test]
fn a_missing_file_of_a_checkpoint_is_named() {
    let checkpoint = real("tinystories260K");
    let weights = std::fs::read(checkpoint.join("model.safetensors")).unwrap();
    let hub = hub(vec![("model.safetensors", weights)]);
    let endpoint = hub.url("");
    let directory = Directory::new();
    let run = |source: &str| {
        let words = ["convert", source, "-o", "out.gguf"];
        let made = remote(&directory, &[("HF_ENDPOINT", &*endpoint)], &words);
        assert_eq!(made.code, 2, "{source}: {}", made.stderr);
        made.stderr
    };
    let said = run("hf://a/b");
    assert!(said.contains("hf://a/b/config.json: cannot open: no such file"), "{said}");
    let said = run("hf://e/f");
    assert!(said.contains("hf://e/f: the response is 404"), "{said}");
    let said = run(&format!("{endpoint}/model.safetensors"));
    assert!(said.contains("expected hf://OWNER/NAME"), "{said}");
    assert!(!directory.path().join("out.gguf").exists());
}

#[test]
fn remote_shards_are_merged_while_downloading() {
    let bytes = wide();
    let directory = Directory::new().with("m.gguf", &bytes);
    let split = ["split", "m.gguf", "s", "--max-tensors", "8", "--quiet"];
    assert_eq!(remote(&directory, &[], &split).code, 0);
    let names = ["s-00001-of-00003.gguf", "s-00002-of-00003.gguf", "s-00003-of-00003.gguf"];
    let read = |name| (name, std::fs::read(directory.path().join(name)).unwrap());
    let shards: Vec<(&str, Vec<u8>)> = names.into_iter().map(read).collect();
    let whole: usize = shards.iter().map(|(_, bytes)| bytes.len()).sum();
    let server = server(shards);
    let urls = names.map(|name| server.url(&format!("/{name}")));
    for given in [&urls[..], &urls[1..2]] {
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        server.forget();
        let more = ["-o", "merged.gguf", "--quiet", "--no-cache", "--force"];
        let words: [&[&str]; 3] = [&["merge"], &given, &more];
        let made = remote(&directory, &[], &words.concat());
        assert_eq!(made.code, 0, "{}", made.stderr);
        let merged = std::fs::read(directory.path().join("merged.gguf")).unwrap();
        assert!(merged == bytes, "{given:?}");
        assert!(server.sent() < whole as u64 + (600 << 10), "{given:?}: {}", server.sent());
        assert!(server.requests().len() <= 15, "{given:?}: {}", server.requests().len());
    }
    let words = ["merge", &urls[0], "-o", "other.gguf", "--delete-shards"];
    let made = remote(&directory, &[], &words);
    assert_eq!(made.code, 2);
    assert!(
        made.stderr.contains("is not on this machine, so it cannot be deleted"),
        "{}",
        made.stderr
    );
}

#[test]
fn shards_are_found_by_their_names() {
    let directory = Directory::new();
    let names = ["m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"];
    let set = |missing: Option<usize>| {
        let files = names.into_iter().zip([0, 1, 2]).filter(|(_, place)| missing != Some(*place));
        server(files.map(|(name, place)| (name, shard(u16::try_from(place).unwrap(), 3))).collect())
    };
    let whole = set(None);
    let url = whole.url("/m-00002-of-00003.gguf");
    let made = remote(&directory, &[], &["inspect", &url, "--tensors"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(made.stdout.contains("blk.0.") && made.stdout.contains("blk.2."), "{}", made.stdout);
    let made = remote(&directory, &[], &["check", &url, "--exit-zero"]);
    assert!(
        made.stdout.contains("m-00001-of-00003.gguf")
            && made.stdout.contains("m-00003-of-00003.gguf"),
        "{}",
        made.stdout
    );
    let alone = remote(&directory, &[], &["inspect", &url, "--tensors", "--alone"]);
    assert!(!alone.stdout.contains("blk.0."), "{}", alone.stdout);

    let broken = set(Some(2));
    let made = remote(&directory, &[], &["inspect", &broken.url("/m-00001-of-00003.gguf")]);
    assert_eq!(made.code, 2);
    assert!(
        made.stderr.contains("/m-00003-of-00003.gguf: missing: shard 3 of 3\nhint: --alone"),
        "{}",
        made.stderr
    );
}

#[test]
fn the_kind_of_a_remote_file_is_named() {
    let directory = Directory::new();
    let server = server(vec![
        ("page.gguf", b"<!DOCTYPE html><html>sign in</html>".to_vec()),
        ("pointer.gguf", LFS.to_vec()),
        ("empty.gguf", Vec::new()),
        ("cut.gguf", tiny()[..tiny().len() - 40].to_vec()),
    ]);
    for (name, texts) in [
        (
            "page.gguf",
            &["begins with \"<!DO\", expected \"GGUF\"", "hint: this is a web page; "][..],
        ),
        (
            "pointer.gguf",
            &["begins with \"vers\"", "hint: this is a Git LFS pointer, not the file"],
        ),
        ("empty.gguf", &["this is an empty file"]),
        ("cut.gguf", &["perhaps an incomplete upload", "hint: download the rest"]),
        ("none.gguf", &["none.gguf: the response is 404, not found"]),
    ] {
        let url = server.url(&format!("/{name}"));
        let made = remote(&directory, &[], &["inspect", &url]);
        assert_eq!(made.code, 2, "{name}");
        for text in texts.iter().copied().chain([&*url]) {
            assert!(made.stderr.contains(text), "{name}: {text}: {}", made.stderr);
        }
        assert_eq!(made.stdout.is_empty(), name != "cut.gguf", "{name}");
        let made = remote(&directory, &[], &["check", &url]);
        assert_ne!(made.code, 0, "{name}");
    }
}

#[test]
fn invalid_addresses_are_refused_without_a_request() {
    let directory = Directory::new();
    for (address, text) in [
        ("ftp://example.com/m.gguf", "expected the scheme https, http, hf or s3"),
        ("https:/example.com/m.gguf", "expected two slashes after the scheme"),
        ("hf://owner", "expected hf://[models/|datasets/]OWNER/NAME[@REVISION][/PATH]"),
        ("hf://owner/name", "is a repository, expected a file in it"),
        ("https://user:secret@example.com/m.gguf", "expected a URL without user name and password"),
        ("s3://bucket", "expected s3://BUCKET/KEY"),
    ] {
        let made = remote(&directory, &[], &["inspect", address]);
        assert_eq!(made.code, 2);
        assert!(made.stderr.contains(text), "{address}: {}", made.stderr);
    }
    // An existing file with this name is a file.
    std::fs::create_dir_all(directory.path().join("ftp:")).unwrap();
    std::fs::write(directory.path().join("ftp:/m.gguf"), tiny()).unwrap();
    assert_eq!(remote(&directory, &[], &["inspect", "ftp:/m.gguf"]).code, 0);
    let renamed = remote(&directory, &[], &["name", "rename", "https://example.com/m.gguf"]);
    assert_eq!(renamed.code, 2);
    assert!(renamed.stderr.contains("is not on this machine"), "{}", renamed.stderr);
}

#[test]
fn the_hub_and_its_token_come_from_the_environment() {
    let directory = Directory::new().with("token", "hf_file\n");
    let hub = Server::start(|request| match request.field("authorization") {
        None => Reply::status(401).with("x-error-code", "RepoNotFound"),
        Some("Bearer hf_file" | "Bearer hf_variable") => Reply::file(&tiny(), request),
        Some(_) => Reply::status(401),
    });
    let endpoint = hub.url("");
    let run = |settings: &[(&str, &str)]| {
        let all = [&[("HF_ENDPOINT", &*endpoint)], settings].concat();
        remote(&directory, &all, &["get", "hf://a/b/m.gguf", "general.name"])
    };
    let made = run(&[]);
    assert_eq!(made.code, 2);
    assert!(
        made.stderr.contains(
            "hf://a/b/m.gguf: the response is 401, not authorized\nhint: the \
                                  repository is private or gated, or does not exist; set HF_TOKEN \
                                  to an access token"
        ),
        "{}",
        made.stderr
    );
    assert_eq!(run(&[("HF_TOKEN", "hf_variable")]).stdout, "Tiny");
    let path = directory.path().join("token");
    assert_eq!(run(&[("HF_TOKEN_PATH", path.to_str().unwrap())]).stdout, "Tiny");
    let made = run(&[("HF_TOKEN", "hf_old")]);
    assert!(made.stderr.contains("hint: the access token was rejected"), "{}", made.stderr);
    assert!(!made.stderr.contains("hf_old"));
}

#[test]
fn headers_are_cached_unless_no_cache_is_given() {
    let directory = Directory::new();
    let bytes = Arc::new(tiny());
    let server = Server::start(move |request| Reply::file(&bytes, request));
    let url = server.url("/m.gguf");
    let sent = |arguments: &[&str]| {
        server.forget();
        let made = remote(&directory, &[], arguments);
        assert_eq!((made.code, made.stdout.as_str()), (0, "Tiny"), "{}", made.stderr);
        (server.requests().len(), server.sent())
    };
    let whole = tiny().len() as u64;
    assert_eq!(sent(&["get", &url, "general.name"]), (1, whole));
    assert_eq!(sent(&["get", &url, "general.name"]), (1, 0));
    assert_eq!(sent(&["get", &url, "general.name", "--no-cache"]), (1, whole));
}

#[test]
fn a_manifest_of_a_local_file_verifies_the_remote_file() {
    let directory = Directory::new().with("m.gguf", tiny());
    let server = server(vec![("m.gguf", tiny())]);
    let made = ggmill(directory.path(), &["hash", "m.gguf", "--sha256"]);
    std::fs::write(directory.path().join("manifest"), made.stdout).unwrap();
    let url = server.url("/m.gguf");
    let made = remote(&directory, &[], &["hash", &url, "--check", "manifest"]);
    assert_eq!(made.code, 0, "{}{}", made.stdout, made.stderr);
    let sum = ggmill_testdata::sha256(&tiny());
    std::fs::write(directory.path().join("sums"), format!("{sum}  m.gguf\n")).unwrap();
    let made = remote(&directory, &[], &["hash", &url, "--check", "sums"]);
    assert_eq!(made.code, 0, "{}{}", made.stdout, made.stderr);
}

/// The settings of the AWS CLI, from variables and from the files of a profile.
#[test]
#[cfg(unix)]
fn s3_requests_use_the_settings_of_the_aws_cli() {
    let directory = Directory::new()
        .with("config", "[default]\nregion = r0\n[profile made]\ncredential_process = printf '{\"Version\":1,\"AccessKeyId\":\"MADE\",\"SecretAccessKey\":\"s\"}'\nregion = r1\n[profile bad]\ncredential_process = false\n")
        .with("credentials", "[default]\naws_access_key_id = KEPT\naws_secret_access_key = s\n");
    let server = Server::start(|request| match request.field("authorization") {
        Some(text) => Reply::file(&tiny(), request)
            .with("etag", format!("\"{}\"", text.split(',').next().unwrap().replace('"', ""))),
        None => Reply::status(403),
    });
    let endpoint = server.url("");
    let run = |settings: &[(&str, &str)]| {
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (config, credentials) = (path("config"), path("credentials"));
        let all = [
            &[
                ("AWS_ENDPOINT_URL", &*endpoint),
                ("AWS_CONFIG_FILE", &*config),
                ("AWS_SHARED_CREDENTIALS_FILE", &*credentials),
            ],
            settings,
        ]
        .concat();
        server.forget();
        let made =
            remote(&directory, &all, &["get", "s3://b/m.gguf", "general.name", "--no-cache"]);
        let asked = server
            .requests()
            .first()
            .and_then(|request| request.field("authorization").map(str::to_owned));
        (made, asked.unwrap_or_default())
    };
    for (settings, who) in [
        (&[][..], "Credential=KEPT/"),
        (&[("AWS_PROFILE", "made")], "Credential=MADE/"),
        (
            &[
                ("AWS_ACCESS_KEY_ID", "GIVEN"),
                ("AWS_SECRET_ACCESS_KEY", "s"),
                ("AWS_PROFILE", "made"),
            ],
            "Credential=GIVEN/",
        ),
    ] {
        let (made, asked) = run(settings);
        assert_eq!(made.stdout, "Tiny", "{}", made.stderr);
        assert!(asked.contains(who), "{asked}");
    }
    let (made, _) = run(&[("AWS_PROFILE", "bad")]);
    assert!(
        made.stderr.contains("credential_process of the AWS profile: exit status: 1"),
        "{}",
        made.stderr
    );
    let (made, _) = run(&[("AWS_PROFILE", "none")]);
    assert!(made.stderr.contains("no profile \"none\""), "{}", made.stderr);
    let made =
        remote(&directory, &[("AWS_ENDPOINT_URL", &endpoint)], &["inspect", "s3://b/m.gguf"]);
    assert!(
        made.stderr.contains("hint: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        "{}",
        made.stderr
    );
}

#[test]
fn a_repository_is_listed_with_its_shards_together() {
    let directory = Directory::new();
    let hub = Server::start(|request| match request.path.as_str() {
        "/api/models/a/b/tree/main?recursive=true" => Reply::status(200).with_body(
            r#"[{"type":"file","path":"README.md","size":10},
                {"type":"file","path":"m-Q4_K_M.gguf","size":5000},
                {"type":"file","path":"big/m-bf16-00002-of-00002.gguf","size":6000},
                {"type":"file","path":"big/m-bf16-00001-of-00002.gguf","size":10000},
                {"type":"file","path":"m.Q8_0-00001-of-00003.gguf","size":1},
                {"type":"file","path":"mmproj-m-F16.gguf","size":700}]"#,
        ),
        "/api/models/a/b?expand%5B%5D=gguf" => {
            Reply::status(200).with_body(r#"{"gguf":{"total":8000}}"#)
        }
        "/api/models/c/d/tree/main?recursive=true" => Reply::status(200).with_body("[]"),
        "/api/models/c/d?expand%5B%5D=gguf" => Reply::status(200).with_body("{}"),
        _ => Reply::status(404),
    });
    let endpoint = hub.url("");
    let run = |words: &[&str]| remote(&directory, &[("HF_ENDPOINT", &*endpoint)], words);
    let made = run(&["ls", "hf://a/b"]);
    assert_eq!(
        (made.code, made.stdout.as_str()),
        (
            0,
            "15.6 KiB  BF16      16.00 bpw  big/m-bf16-00001-of-00002.gguf  (2 shards)\n\
             4.88 KiB  Q4_K_M     5.00 bpw  m-Q4_K_M.gguf\n     \
             1 B  Q8_0                 m.Q8_0-00001-of-00003.gguf  (1 of 3 shards)\n   \
             700 B  F16                  mmproj-m-F16.gguf\n"
        ),
        "{}",
        made.stderr
    );
    let made = run(&["ls", "hf://a/b", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(document["files"][0]["bits_per_weight"], 16.0);
    assert_eq!(document["files"][0]["shards"], 2);
    assert_eq!(run(&["ls", "hf://c/d"]).code, 1);
    assert_eq!(run(&["ls", "hf://e/f"]).code, 2);
    let made = run(&["inspect", "hf://a/b"]);
    assert!(
        made.stderr.contains("hint: `ggmill ls hf://OWNER/NAME` lists its files"),
        "{}",
        made.stderr
    );
}

#[test]
fn a_set_is_one_model_if_its_address_has_a_query() {
    let directory = Directory::new();
    let name = |number: u16| format!("m-{number:05}-of-00003.gguf");
    let server = Server::start(move |request| {
        let path = request.path.split('?').next().unwrap_or_default();
        match (1..=3).find(|&number| path == format!("/{}", name(number))) {
            Some(number) if request.path.ends_with("?sig=secret/x") => {
                Reply::file(&shard(number - 1, 3), request)
            }
            _ => Reply::status(403),
        }
    });
    let url = server.url(&format!("/{}?sig=secret/x", name(2)));
    for arguments in [
        &["check", &*url, "--exit-zero"][..],
        &["check", &url, "--exit-zero", "--format", "json"],
        &["check", &url, "--exit-zero", "--format", "sarif", "--profile", "spec"],
        &["check", &url, "--exit-zero", "--format", "github"],
        &["inspect", &url],
        &["hash", &url],
        &["name", "build", &url],
    ] {
        let made = remote(&directory, &[], arguments);
        let all = format!("{}{}", made.stdout, made.stderr);
        assert!(!all.contains("secret"), "{arguments:?}: {all}");
        if arguments[0] == "check" && !arguments.contains(&"github") {
            for number in 1..=3 {
                assert!(all.contains(&name(number)), "{arguments:?}: {all}");
            }
        }
    }
    let refused = server.url("/other.gguf?sig=secret");
    for command in ["check", "inspect", "template", "estimate"] {
        let words = if command == "template" { vec![command, "lint"] } else { vec![command] };
        let made = remote(&directory, &[], &[&words[..], &[&refused]].concat());
        assert_eq!(made.code, 2, "{command}");
        assert!(made.stderr.contains("/other.gguf?…") && !made.stderr.contains("secret"));
    }
    let made = remote(&directory, &[], &["inspect", "https://user:secret@example.com/m.gguf"]);
    assert!(!made.stderr.contains("secret"), "{}", made.stderr);
}

#[test]
fn a_set_of_many_missing_shards_costs_few_requests() {
    let directory = Directory::new();
    let first = shard(0, 65_535);
    let server = server(vec![("m-00001-of-65535.gguf", first)]);
    let url = server.url("/m-00001-of-65535.gguf");
    let made = remote(&directory, &[], &["check", &url, "--no-cache"]);
    assert!(made.stderr.contains("/m-00017-of-65535.gguf: the response is 404"), "{}", made.stderr);
    assert!(
        made.stderr
            .contains("/m-00018-of-65535.gguf: this shard and later ones were not requested"),
        "{}",
        made.stderr
    );
    assert!(!made.stderr.contains("m-00019-of"), "{}", made.stderr);
    assert!(server.requests().len() < 64, "{}", server.requests().len());
}

#[test]
fn an_unreadable_file_in_a_variable_is_a_failure() {
    let directory =
        Directory::new().with("token", "hf_file").with("empty", "").with("faulty.gguf", faulty());
    let server = server(vec![("m.gguf", tiny())]);
    let absent = directory.path().join("absent");
    let absent = absent.to_str().unwrap();
    let run = |settings: &[(&str, &str)], address: &str| {
        remote(&directory, settings, &["get", address, "general.name"])
    };
    let web = server.url("/m.gguf");
    for (name, address) in [
        ("SSL_CERT_FILE", &*web),
        ("HF_TOKEN_PATH", &web),
        ("AWS_CONFIG_FILE", "s3://b/m.gguf"),
        ("AWS_SHARED_CREDENTIALS_FILE", "s3://b/m.gguf"),
        ("SSL_CERT_FILE", "s3://b/m.gguf"),
    ] {
        server.forget();
        let made = run(&[(name, absent), ("AWS_ENDPOINT_URL", &server.url(""))], address);
        assert_eq!(made.code, 2, "{name}");
        assert!(made.stderr.contains(&format!("{name}: {absent}: ")), "{}", made.stderr);
        assert_eq!(server.requests().len(), 0, "{name}");
    }
    // One address that cannot be opened does not end the check of the others.
    for (option, words) in
        [("--diff", "GG1207 "), ("--data", "GG1207"), ("--fix", "faulty.gguf: fixed ")]
    {
        server.forget();
        let arguments = ["check", &web, "faulty.gguf", option];
        let made = remote(&directory, &[("SSL_CERT_FILE", absent)], &arguments);
        assert_eq!(made.code, 2, "{option}: {}{}", made.stdout, made.stderr);
        assert!(made.stderr.contains(&format!("SSL_CERT_FILE: {absent}: ")), "{}", made.stderr);
        let all = format!("{}{}", made.stdout, made.stderr);
        assert!(all.contains("faulty.gguf") && all.contains(words), "{option}: {all}");
        assert_eq!(server.requests().len(), 0, "{option}");
    }
    // Settings that are not needed are not read, and default files may be missing.
    for settings in [
        &[("HF_TOKEN", "hf_x"), ("HF_TOKEN_PATH", absent)][..],
        &[("AWS_CONFIG_FILE", absent)],
        &[("HF_HOME", absent)],
    ] {
        assert_eq!(run(settings, &web).stdout, "Tiny", "{settings:?}");
    }
}
