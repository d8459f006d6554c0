#!/usr/bin/env python3
"""Uses a running server through Triton's official HTTP client, tritonclient.

The last line printed is "N passed, N failed"; the exit code is 1 if any failed.
"""
import argparse
import sys
import traceback

from kit import venv

venv.enter()
import numpy as np  # noqa: E402
import tritonclient.http as http  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

ROW = np.arange(16, dtype=np.int32).reshape(1, 16)


def tensor(name, values, datatype, binary=True):
    given = http.InferInput(name, list(values.shape), datatype)
    given.set_data_from_numpy(values, binary_data=binary)
    return given


def simple_inputs(binary=True):
    return [tensor("INPUT0", ROW, "INT32", binary), tensor("INPUT1", ROW, "INT32", binary)]


def health(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("simple")
    assert not client.is_model_ready("missing")


def metadata(client):
    assert client.get_server_metadata()["name"]
    found = client.get_model_metadata("simple")
    assert [one["name"] for one in found["inputs"]] == ["INPUT0", "INPUT1"], found
    assert client.get_model_config("simple")["max_batch_size"] == 8


def infer_binary(client):
    check_simple(client.infer("simple", simple_inputs()))


def infer_json(client):
    outputs = [http.InferRequestedOutput(name, binary_data=False) for name in ("OUTPUT0", "OUTPUT1")]
    check_simple(client.infer("simple", simple_inputs(binary=False), outputs=outputs))


def infer_version_and_id(client):
    result = client.infer("simple", simple_inputs(), model_version="1", request_id="mine")
    assert result.get_response()["id"] == "mine", result.get_response()
    check_simple(result)


def infer_at_the_same_time(client):
    for waiting in [client.async_infer("simple", simple_inputs()) for _ in range(32)]:
        check_simple(waiting.get_result())


def infer_bytes(client):
    texts = np.array(["plain", "", "Grüße, 世界"], dtype=np.object_)
    result = client.infer("identity_bytes", [tensor("INPUT", texts, "BYTES")])
    assert [one.decode() for one in result.as_numpy("OUTPUT")] == list(texts)


def infer_half_floats(client):
    values = np.array([0.5, -2.0, 65504.0, 6e-8], dtype=np.float16)
    result = client.infer("identity_fp16", [tensor("INPUT", values, "FP16")])
    assert np.array_equal(result.as_numpy("OUTPUT"), values)


def error_text(client):
    try:
        client.infer("missing", simple_inputs())
    except InferenceServerException as error:
        assert "missing" in error.message(), error
        return
    raise AssertionError("no error for an unknown model")


def check_simple(result):
    assert np.array_equal(result.as_numpy("OUTPUT0"), ROW + ROW), result.as_numpy("OUTPUT0")
    assert np.array_equal(result.as_numpy("OUTPUT1"), ROW - ROW), result.as_numpy("OUTPUT1")


CHECKS = [health, metadata, infer_binary, infer_json, infer_version_and_id,
          infer_at_the_same_time, infer_bytes, infer_half_floats, error_text]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", default="localhost:8000", metavar="HOST:PORT")
    options = parser.parse_args(arguments)
    failed = 0
    with http.InferenceServerClient(options.http, concurrency=8) as client:
        for check in CHECKS:
            try:
                check(client)
            except Exception:
                failed += 1
                print("FAIL tritonclient/%s" % check.__name__)
                traceback.print_exc(file=sys.stdout)
    print("%d passed, %d failed" % (len(CHECKS) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
