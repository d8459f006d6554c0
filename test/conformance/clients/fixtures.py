"""What the calls of all four clients have in common: tensors, wrong requests, and what an error must be."""
import os
import time
import uuid

import ml_dtypes
import numpy as np
from tritonclient.utils import InferenceServerException

ROW = np.arange(16, dtype=np.int32).reshape(1, 16)
ONES = np.ones((1, 16), dtype=np.int32)
TEXTS = ["plain", "", "Grüße, 世界", "line\nbreak"]
WAIT_S = 10
# Of the model delayed, and well below that.
DELAYED_S, SHORT_S = 0.3, 0.1
LARGE_COUNT = 3_000_000

VECTORS = [
    ("identity_bool", "BOOL", np.array([True, False, True])),
    ("identity_uint8", "UINT8", np.array([0, 255], np.uint8)),
    ("identity_uint16", "UINT16", np.array([0, 65535], np.uint16)),
    ("identity_uint32", "UINT32", np.array([0, 2**32 - 1], np.uint32)),
    ("identity_uint64", "UINT64", np.array([0, 2**64 - 1], np.uint64)),
    ("identity_int8", "INT8", np.array([-128, 127], np.int8)),
    ("identity_int16", "INT16", np.array([-32768, 32767], np.int16)),
    ("identity_int32", "INT32", np.array([-2**31, 2**31 - 1], np.int32)),
    ("identity_int64", "INT64", np.array([-2**63, 2**63 - 1], np.int64)),
    ("identity_fp16", "FP16", np.array([0.5, -2.0, 65504.0, 6e-8, np.inf], np.float16)),
    ("identity_fp32", "FP32", np.array([0.1, -1e38, np.inf], np.float32)),
    ("identity_fp64", "FP64", np.array([0.1, 1e300], np.float64)),
    ("identity_bf16", "BF16", np.array([1.5, -3.0, 3.0e38], ml_dtypes.bfloat16)),
]

CUSTOM = {"colour": "red", "count": 7, "flag": True, "ratio": 0.5}
# What parameters_echo answers to these, with a timeout of 5 s.
SEEN = ('{"id": "mine", "parameters": {"colour": "red", "count": 7, "flag": true, "ratio": 0.5}, '
        '"timeout": 5000000}')
TIMEOUT_US = 5_000_000

NOT_EXPLICIT = "explicit model load / unload is not allowed if polling is enabled"


def tensor(client, name, values, datatype, **how):
    """An input of that client module."""
    given = client.InferInput(name, list(values.shape), datatype)
    given.set_data_from_numpy(values, **how)
    return given


def simple_inputs(client, **how):
    return [tensor(client, "INPUT0", ROW, "INT32", **how), tensor(client, "INPUT1", ONES, "INT32", **how)]


def number(client, value, name="INPUT"):
    """An input of one INT32."""
    return tensor(client, name, np.array([value], np.int32), "INT32")


def sequences():
    """(model, id) of sequences that nobody has: ids of both kinds."""
    return [("sequence_oldest", uuid.uuid4().int >> 65), ("sequence_direct", uuid.uuid4().int >> 65),
            ("sequence_text", str(uuid.uuid4()))]


# The steps of one, and the sums that the models of sequences make of them.
STEPS, SUMS = [3, 4, 5], [3, 7, 12]


def steps(client):
    """(inputs, flags) of each step."""
    for index, value in enumerate(STEPS):
        yield ([tensor(client, "INPUT", np.array([[value]], np.int32), "INT32")],
               {"sequence_start": index == 0, "sequence_end": index == len(STEPS) - 1})


def check_sum(result, index):
    check_equal(result.as_numpy("OUTPUT"), np.array([[SUMS[index]]], np.int32))


def check_simple(result):
    check_equal(result.as_numpy("OUTPUT0"), ROW + ONES)
    check_equal(result.as_numpy("OUTPUT1"), ROW - ONES)


def check_equal(actual, expected):
    """The same datatype, shape and bits."""
    assert actual is not None, "no such output"
    assert actual.dtype == expected.dtype, (actual.dtype, expected.dtype)
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    assert actual.tobytes() == expected.tobytes(), (actual, expected)


def texts_array():
    return np.array(TEXTS, dtype=np.object_)


def check_texts(values):
    assert [one.decode() if isinstance(one, bytes) else one for one in values] == TEXTS, values


def wrong_requests(client):
    """(what, model, inputs, further arguments, HTTP status, gRPC code, text) of requests that are refused."""
    first, second = simple_inputs(client)
    outputs = [client.InferRequestedOutput("OUTPUT9")]
    long = np.zeros((9, 16), np.int32)
    many = [tensor(client, name, long, "INT32") for name in ("INPUT0", "INPUT1")]
    floats = tensor(client, "INPUT0", ROW.astype(np.float32), "FP32")
    short = tensor(client, "INPUT0", ROW[:, :8], "INT32")
    other = tensor(client, "INPUT9", ROW, "INT32")
    pair = np.array([1, 2], np.int32)
    simple = lambda what, inputs, text, more=None: (
        what, "simple", inputs, more or {}, "400", "INVALID_ARGUMENT", text)
    return [
        ("an unknown model", "missing", [first, second], {}, "404", "NOT_FOUND",
         "Request for unknown model: 'missing' is not found"),
        ("an unknown version", "simple", [first, second], {"model_version": "7"}, "404", "NOT_FOUND",
         "Request for unknown model: 'simple' version 7 is not found"),
        simple("a missing input", [first],
               "[request id: mine] expected 2 inputs but got 1 inputs for model 'simple'. Got input(s) "
               "['INPUT0'], but missing required input(s) ['INPUT1']. Please provide all required input(s).",
               {"request_id": "mine"}),
        simple("an unknown input", [first, other], "unexpected inference input 'INPUT9' for model 'simple'"),
        simple("a wrong datatype", [floats, second],
               "inference input 'INPUT0' data-type is 'FP32', but model 'simple' expects 'INT32'"),
        simple("a wrong shape", [short, second],
               "unexpected shape for input 'INPUT0' for model 'simple'. Expected [-1,16], got [1,8]."),
        simple("too large a batch", many, "inference request batch-size must be <= 8 for 'simple'"),
        simple("an unknown output", [first, second],
               "unexpected inference output 'OUTPUT9' for model 'simple'", {"outputs": outputs}),
        ("a model's own error", "fail_request", [number(client, 3)], {}, "400", "INVALID_ARGUMENT", "odd input"),
        ("a failing execution", "fail_execute", [tensor(client, "INPUT", pair, "INT32")], {}, "500", "INTERNAL", ""),
        ("a decoupled model", "repeat", [tensor(client, "VALUES", pair, "INT32")], {}, "501", "UNIMPLEMENTED",
         "doesn't support models with decoupled transaction policy"),
    ]


def check_error(error, status, text):
    """The client's exception with this status and (a part of) this text."""
    assert isinstance(error, InferenceServerException), repr(error)
    assert error.status() == status, error
    assert text in error.message(), error
    assert str(error) == "[%s] %s" % (status, error.message()), str(error)


def refused(status, text, call, *arguments, **more):
    try:
        call(*arguments, **more)
    except InferenceServerException as error:
        check_error(error, status, text)
        return error
    raise AssertionError("not refused, expected %s: %s" % (status, text))


async def refused_async(status, text, call, *arguments, **more):
    try:
        await call(*arguments, **more)
    except InferenceServerException as error:
        check_error(error, status, text)
        return error
    raise AssertionError("not refused, expected %s: %s" % (status, text))


def eventually(what, condition):
    """Waits for what the server does behind its answer."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def region_key(name):
    """A key in shared memory that no other run has."""
    return "nereid_%s_%d" % (name, os.getpid())
