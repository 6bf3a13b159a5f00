"""Runs work of libllama (llama-cpp-python 0.3.36) in processes of their own, as it ends the process that it is in where it finds a mistake."""

import json
import os
import signal
import sys
import tempfile

import llama_cpp

# Without this, a failed assertion starts a debugger.
os.environ["GGML_NO_BACKTRACE"] = "1"
SECONDS = 120
WORDS = ("error", "ASSERT", "failed", "exception", "terminate", "missing", "wrong", "unknown", "unsupported", "expected")


def alone(work, *arguments):
    """What `work(*arguments)` returns, or none; and the last lines of the log that say why not."""
    with tempfile.TemporaryFile() as log:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            signal.alarm(SECONDS)
            # The library's own log, which needs no Python and so is whole when the process ends.
            llama_cpp.llama_log_set(llama_cpp.llama_log_callback(0), None)
            code = 1
            try:
                with os.fdopen(write, "w") as answer:
                    answer.write(json.dumps(work(*arguments)))
                code = 0
            except BaseException as error:  # noqa: BLE001
                print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
            sys.stderr.flush()
            os._exit(code)
        os.close(write)
        with os.fdopen(read) as answer:
            text = answer.read()
        _, status = os.waitpid(child, 0)
        log.seek(0)
        lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    # What the library says of a model that it reads has words such as "unknown", too.
    reasons = [line for line in lines if any(word in line for word in WORDS) and not line.startswith("print_info")]
    if os.WIFSIGNALED(status):
        reasons.append(f"ended by {signal.Signals(os.WTERMSIG(status)).name}")
    return (json.loads(text) if status == 0 else None), reasons
