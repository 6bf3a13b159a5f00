"""Models on servers, by ggmill and by others: `remote.py requests FILE…`, `remote.py s3` and
`remote.py nginx`.

requests: how many requests and bytes the header of each file costs, by `ggmill inspect` and by
@huggingface/gguf (npm), both against one server that counts, in one run. GGMILL names the binary,
NODE_MODULES the directory in which `npm install @huggingface/gguf@0.4.6` was run.

s3: signed, presigned and refused requests of ggmill against moto (PyPI, `moto[server]==5.2.5`
with boto3), which checks dates, keys and policies as S3 does. Run it with a Python that has both.

nginx: hashes of a file from nginx (Debian's nginx-light) beside those of the same file on disk, over
HTTP and over HTTPS with a certificate of its own (openssl), at a limited rate, with and without
ranges, and behind a password. GGMILL_NGINX names the program if it is not in the path.
"""

import http.server
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

GGMILL = os.environ.get("GGMILL", "ggmill")


class Handler(http.server.BaseHTTPRequestHandler):
    """Ranges of files, counted."""

    protocol_version = "HTTP/1.1"
    files: dict = {}
    requests = 0
    sent = 0

    def do_GET(self):
        body = self.files[self.path.strip("/")]
        total = len(body)
        status, start = 200, 0
        wanted = self.headers.get("Range")
        if wanted:
            first, last = wanted.removeprefix("bytes=").split("-")
            start = int(first)
            end = min(int(last) + 1 if last else total, total)
            status, body = 206, body[start:end]
        Handler.requests += 1
        self.send_response(status)
        self.send_header("ETag", '"1"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Content-Length", str(len(body)))
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{total}")
        self.end_headers()
        try:
            self.wfile.write(body)
            Handler.sent += len(body)
        except OSError:
            pass

    def log_message(self, *_):
        pass


def counted(command, **options):
    Handler.requests = Handler.sent = 0
    done = subprocess.run(command, capture_output=True, text=True, **options)
    failed = "" if done.returncode == 0 else f" (exit {done.returncode}: {done.stderr[-200:]})"
    return f"{Handler.requests} requests, {Handler.sent / 1e6:.1f} MB{failed}"


def requests(paths):
    Handler.files = {Path(path).name: Path(path).read_bytes() for path in paths}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    modules = os.environ.get("NODE_MODULES")
    script = "import {gguf} from '@huggingface/gguf'; await gguf(process.argv[1])"
    print(f"{'file':<44} {'ggmill':<26} @huggingface/gguf")
    for name in Handler.files:
        url = f"{base}/{name}"
        ours = counted([GGMILL, "inspect", url, "--no-cache"])
        theirs = "-"
        if modules:
            node = ["node", "--input-type=module", "-e", script, url]
            theirs = counted(node, cwd=modules)
        print(f"{name:<44} {ours:<26} {theirs}")


def s3():
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0)
    server.start()
    endpoint = "http://%s:%d" % server.get_host_and_port()
    keys = {"aws_access_key_id": "KEY", "aws_secret_access_key": "SECRET"}
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket="models")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "m.gguf")
        path.write_bytes(model())
        client.upload_file(str(path), "models", "a b/m.gguf")
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "KEY",
            "AWS_SECRET_ACCESS_KEY": "SECRET",
            "XDG_CACHE_HOME": directory,
        }

        def run(*words):
            return subprocess.run([GGMILL, *words], capture_output=True, text=True, env=environment)

        url = client.generate_presigned_url(
            "get_object", Params={"Bucket": "models", "Key": "a b/m.gguf"}
        )
        here = run("hash", str(path), "--sha256").stdout.replace(str(path), "FILE")
        for name in ("s3://models/a b/m.gguf", url):
            for _ in range(2):
                made = run("hash", name, "--sha256")
                assert made.returncode == 0, made.stderr
                assert made.stdout.replace(name, "FILE") == here, made.stdout
        missing = run("inspect", "s3://models/none.gguf")
        assert missing.returncode == 2 and "404" in missing.stderr, missing.stderr
        print(missing.stderr.strip())
        bucket = run("inspect", "s3://none/m.gguf")
        assert bucket.returncode == 2 and "NoSuchBucket" in bucket.stderr, bucket.stderr
        print(bucket.stderr.strip())
    server.stop()
    print("signed and presigned requests read what the file has")


NGINX = """
daemon off; pid {d}/pid; error_log {d}/error.log; worker_processes 1;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {d}/a; proxy_temp_path {d}/b; fastcgi_temp_path {d}/c;
  uwsgi_temp_path {d}/d; scgi_temp_path {d}/e;
  server {{
    listen 127.0.0.1:{http}; listen 127.0.0.1:{https} ssl; root {d}/files;
    ssl_certificate {d}/cert.pem; ssl_certificate_key {d}/key.pem;
    location /plain/ {{ alias {d}/files/; }}
    location /slow/ {{ alias {d}/files/; limit_rate 4m; }}
    location /whole/ {{ alias {d}/files/; max_ranges 0; }}
    location /private/ {{ alias {d}/files/; auth_basic "models"; auth_basic_user_file {d}/none; }}
  }}
}}
"""


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def certify(directory):
    """A certificate for localhost, cert.pem and key.pem, by an authority of its own, ca.pem."""
    made = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -out ca.pem -keyout ca.key -subj /CN=Test"
    asked = "openssl req -newkey rsa:2048 -nodes -out cert.csr -keyout key.pem -subj /CN=localhost"
    signed = "openssl x509 -req -days 1 -in cert.csr -CA ca.pem -CAkey ca.key -CAcreateserial"
    Path(directory, "names").write_text("subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
    for command in (made, asked, f"{signed} -extfile names -out cert.pem"):
        subprocess.run(command.split(), check=True, capture_output=True, cwd=directory)


def nginx():
    program = os.environ.get("GGMILL_NGINX") or shutil.which("nginx") or "/usr/sbin/nginx"
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        files = Path(directory, "files")
        files.mkdir()
        path = files / "m.gguf"
        path.write_bytes(model())
        Path(directory, "none").write_text("")
        certify(directory)
        ports = {"http": free_port(), "https": free_port()}
        configuration = Path(directory, "nginx.conf")
        configuration.write_text(NGINX.format(d=directory, **ports))
        server = subprocess.Popen([program, "-c", configuration], stderr=subprocess.DEVNULL)
        environment = {**os.environ, "XDG_CACHE_HOME": directory, "SSL_CERT_FILE": f"{directory}/ca.pem"}

        def run(*words):
            return subprocess.run([GGMILL, *words], capture_output=True, text=True, env=environment)

        def hashed(name):
            made = run("hash", name, "--sha256")
            assert made.returncode == 0, made.stderr
            return made.stdout.replace(name, "FILE")

        try:
            for _ in range(100):
                with socket.socket() as connecting:
                    if connecting.connect_ex(("127.0.0.1", ports["http"])) == 0:
                        break
                time.sleep(0.05)
            here = hashed(str(path))
            for scheme, host in (("http", "127.0.0.1"), ("https", "localhost")):
                base = f"{scheme}://{host}:{ports[scheme]}"
                for place in ("plain", "slow"):
                    # The second time with the header from the cache.
                    assert hashed(f"{base}/{place}/m.gguf") == here
                    assert hashed(f"{base}/{place}/m.gguf") == here
                header = run("inspect", f"{base}/whole/m.gguf", "--no-cache")
                assert header.returncode == 0, header.stderr
                for name, expected in (("whole/m.gguf", "only whole files"), ("private/m.gguf", "401"), ("plain/n.gguf", "404")):
                    refused = run("hash", f"{base}/{name}", "--sha256", "--no-cache")
                    assert refused.returncode == 2 and expected in refused.stderr, refused.stderr
                    print(refused.stderr.strip())
            # Another file under the same name: its header is asked for again.
            path.write_bytes(path.read_bytes()[:-1] + b"!")
            assert hashed(f"{base}/plain/m.gguf") == hashed(str(path)) != here
        finally:
            server.terminate()
            server.wait()
    print("nginx: hashes of the file over HTTP and HTTPS are those of the file on disk")


def model():
    """Two megabytes of metadata and a tensor."""
    text = b"x" * 2_000_000
    pairs = b""
    for key, value in ((b"general.architecture", b"llama"), (b"test.long", text)):
        pairs += len(key).to_bytes(8, "little") + key + (8).to_bytes(4, "little")
        pairs += len(value).to_bytes(8, "little") + value
    tensor = (1).to_bytes(8, "little") + b"t" + (1).to_bytes(4, "little")
    tensor += (1_000_000).to_bytes(8, "little") + bytes(4) + bytes(8)
    counts = (1).to_bytes(8, "little") + (2).to_bytes(8, "little")
    header = b"GGUF" + (3).to_bytes(4, "little") + counts + pairs + tensor
    header += bytes(-len(header) % 32)
    return header + bytes(range(250)) * 16_000


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["requests", *paths] if paths:
            requests(paths)
        case ["s3"]:
            s3()
        case ["nginx"]:
            nginx()
        case _:
            sys.exit(__doc__)
