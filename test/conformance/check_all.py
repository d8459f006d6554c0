#!/usr/bin/env python3
"""Starts a server for each set-up of servers.json in turn and runs its cases.

The server command gets --model-repository flags, the set-up's flags and
--http-port, --grpc-port and --metrics-port. Set-ups whose repository is not
there in the variant are left out.
"""
import argparse
import json
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLI = HERE.parent.parent / "packages" / "cli" / "dist" / "main.js"
START_LIMIT_S = 180


def command_line(command, setup, variant, port):
    repositories = [str(HERE / name.format(variant=variant)) for name in setup["repositories"]]
    return [
        *shlex.split(command),
        *["--model-repository=" + name for name in repositories], *setup["flags"],
        "--http-port=%d" % port, "--grpc-port=%d" % (port + 1), "--metrics-port=%d" % (port + 2),
    ]


def is_there(setup, variant):
    return all((HERE / name.format(variant=variant)).is_dir() for name in setup["repositories"])


def wait_until_live(server, port):
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen("http://localhost:%d/v2/health/live" % port, timeout=2).close()
            return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    return False


def run_setup(name, setup, options):
    print("== server %s" % name, flush=True)
    with open(options.log, "a") as log:
        server = subprocess.Popen(
            command_line(options.command, setup, options.variant, options.port),
            stdout=log, stderr=log)
        try:
            if not wait_until_live(server, options.port):
                print("the server did not start, see %s" % options.log)
                return 1
            return subprocess.call([
                sys.executable, str(HERE / "check.py"), "--server", name,
                "--variant", options.variant,
                "--http", "http://localhost:%d" % options.port,
                "--grpc", "localhost:%d" % (options.port + 1), *options.check])
        finally:
            server.terminate()
            try:
                server.wait(40)
            except subprocess.TimeoutExpired:
                server.kill()


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", default="node %s serve" % CLI, help="how to start the server")
    parser.add_argument("--variant", default="onnx", choices=("python", "onnx"))
    parser.add_argument("--server", action="append", help="only this set-up; may be repeated")
    parser.add_argument("--port", type=int, default=8400, help="HTTP port; gRPC and metrics follow")
    parser.add_argument("--log", default="server.log", help="where the servers' output goes")
    parser.add_argument("check", nargs="*", help="after --: further flags for check.py")
    options = parser.parse_args(arguments)
    setups = json.loads((HERE / "servers.json").read_text())
    for name, setup in setups.items():
        if not is_there(setup, options.variant):
            print("== server %s left out: its repository is not there" % name)
    results = [run_setup(name, setup, options) for name, setup in setups.items()
               if (not options.server or name in options.server)
               and is_there(setup, options.variant)]
    return 1 if any(results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
