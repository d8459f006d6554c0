#!/usr/bin/env python3
"""Records anew what a real Triton makes of the configs of packages/config/src/recorded-configs.jsonl.

Usage: record_configs.py FILE TRITON...

TRITON is the command that runs the real server, with its Python backend, for a repository and flags that follow it.
Each line of FILE is an object with `name` and `config`, perhaps `model` (the model file's name) and `files` (others by
their paths); `loaded` (what GET .../config printed) or `refused` (why it was not loaded) are written. A config that ends
the server, or that it does not answer within a minute, loses both, and is named at the end.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

MODEL = """import triton_python_backend_utils as utils
class TritonPythonModel:
    def execute(self, requests):
        return [utils.InferenceResponse([]) for _ in requests]
"""
URL = "http://localhost:18400"
PORTS = ["--http-port=18400", "--grpc-port=18401", "--metrics-port=18402"]
FLAGS = ["--model-control-mode=explicit", "--cache-config=local,size=1048576", "--exit-timeout-secs=2"]


def call(method, path, body=None):
    request = urllib.request.Request(URL + path, method=method, data=body)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}")


def write_repository(repository, cases):
    for case in cases:
        files = {"config.pbtxt": case["config"] + "\n", "1/" + case.get("model", "model.py"): MODEL, **case.get("files", {})}
        for path, text in files.items():
            path = os.path.join(repository, case["name"], path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)


def start(command, repository, log):
    server = subprocess.Popen([*command, repository, *FLAGS, *PORTS], stdout=log, stderr=log)
    while server.poll() is None:
        try:
            if call("GET", "/v2/health/ready")[0] == 200:
                break
        except OSError:
            time.sleep(0.2)
    return server


def reason(error, log):
    """The text without what names the way by which it came: of a poll it is in the log alone."""
    loading = re.search(r"is at UNAVAILABLE state: [A-Z][a-z ]+: (.*?);\n", error, re.S)
    if loading:
        return loading[1]
    if "failed to poll" not in error:
        return re.sub(r"^load failed for model '[^']*': ", "", error)
    syntax = re.search(r"Error parsing text-format inference\.ModelConfig: (.*)", log)
    return syntax[1] if syntax else re.search(r"Poll failed for model directory '[^']*': (.*)\"$", log, re.M)[1]


def main():
    path, *command = sys.argv[1:]
    with open(path) as file:
        cases = [json.loads(line) for line in file]
    folder = tempfile.mkdtemp()
    repository = os.path.join(folder, "repository")
    write_repository(repository, cases)
    log_path = os.path.join(folder, "log")
    ended = []
    with open(log_path, "w") as log:
        server = start(command, repository, log)
        # Models before the ensembles of them.
        for case in sorted(cases, key=lambda each: "ensemble" in each["config"]):
            case.pop("loaded", None)
            case.pop("refused", None)
            before = os.path.getsize(log_path)
            try:
                status, answer = call("POST", f"/v2/repository/models/{case['name']}/load")
            except OSError:
                ended.append(case["name"])
                server.kill()
                server.wait()
                server = start(command, repository, log)
                continue
            if status == 200:
                case["loaded"] = call("GET", f"/v2/models/{case['name']}/config")[1]
                body = b'{"parameters":{"unload_dependents":true}}'
                call("POST", f"/v2/repository/models/{case['name']}/unload", body)
            else:
                with open(log_path, errors="replace") as written:
                    written.seek(before)
                    text = reason(answer["error"], written.read())
                case["refused"] = text.replace(repository + "/", "").strip()
        server.terminate()
        server.wait()
    shutil.rmtree(folder)
    with open(path, "w") as file:
        file.writelines(json.dumps(case, ensure_ascii=False) + "\n" for case in cases)
    print("\n".join(f"not recorded: {name}" for name in ended))


if __name__ == "__main__":
    main()
