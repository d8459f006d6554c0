"""Every unary call of tritonclient.grpc, each with what the server must make of it."""
import queue

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from .fixtures import (
    CUSTOM, NOT_EXPLICIT, ROW, SEEN, SHORT_S, TIMEOUT_US, VECTORS, WAIT_S, check_equal, check_error,
    check_simple, check_texts, eventually, number, refused, region_key, simple_inputs, tensor, texts_array,
    wrong_requests)
from .shared_calls import infer_large, infer_nothing, infer_sequences, shared_memory_of_bytes

UNKNOWN = "Request for unknown model: 'missing' is not found"


def connect(address, **options):
    return grpc.InferenceServerClient(address, **options)


def output(name, **how):
    return grpc.InferRequestedOutput(name, **how)


class Inbox:
    """What a client's callback was given, in order."""

    def __init__(self):
        self.given = queue.Queue()

    def put(self, result, error):
        self.given.put((result, error))

    def result(self):
        result, error = self.given.get(timeout=WAIT_S)
        assert error is None, error
        return result

    def error(self):
        result, error = self.given.get(timeout=WAIT_S)
        assert error is not None, result.get_response()
        return error


def health(at):
    """is_server_live, is_server_ready, is_model_ready"""
    assert at.client.is_server_live()
    assert at.client.is_server_ready()
    assert at.client.is_model_ready("simple")
    assert at.client.is_model_ready("simple", "1")
    assert not at.client.is_model_ready("missing")


def server_metadata(at):
    """get_server_metadata"""
    found = at.client.get_server_metadata()
    assert found.name and found.version and "statistics" in found.extensions, found
    assert at.client.get_server_metadata(as_json=True)["name"] == found.name


def model_metadata(at):
    """get_model_metadata"""
    found = at.client.get_model_metadata("simple")
    assert (found.name, list(found.versions)) == ("simple", ["1"]), found
    assert [(one.name, one.datatype, list(one.shape)) for one in found.inputs] == [
        ("INPUT0", "INT32", [-1, 16]), ("INPUT1", "INT32", [-1, 16])], found
    assert at.client.get_model_metadata("simple", "1") == found
    assert at.client.get_model_metadata("simple", as_json=True)["inputs"][0]["shape"] == ["-1", "16"]
    refused("StatusCode.NOT_FOUND", UNKNOWN, at.client.get_model_metadata, "missing")


def model_config(at):
    """get_model_config"""
    found = at.client.get_model_config("simple").config
    assert (found.name, found.max_batch_size, list(found.input[0].dims)) == ("simple", 8, [16]), found
    assert at.client.get_model_config("simple", "1", as_json=True)["config"]["max_batch_size"] == 8
    refused("StatusCode.NOT_FOUND", UNKNOWN, at.client.get_model_config, "missing")


def repository_index(at):
    """get_model_repository_index"""
    found = at.client.get_model_repository_index()
    assert ("simple", "1", "READY") in [(one.name, one.version, one.state) for one in found.models], found
    assert {"name": "simple", "version": "1", "state": "READY"} in at.client.get_model_repository_index(
        as_json=True)["models"]


def load_and_unload(at):
    """load_model and unload_model, refused where models are not loaded by hand"""
    refused("StatusCode.UNAVAILABLE", NOT_EXPLICIT, at.client.load_model, "simple")
    refused("StatusCode.UNAVAILABLE", NOT_EXPLICIT, at.client.unload_model, "simple")
    refused("StatusCode.UNAVAILABLE", NOT_EXPLICIT, at.client.unload_model, "simple", unload_dependents=True)
    assert at.client.is_model_ready("simple")


def statistics(at):
    """get_inference_statistics"""
    def count():
        [found] = at.client.get_inference_statistics("add_sub").model_stats
        assert (found.name, found.version) == ("add_sub", "1"), found
        return found.inference_stats.success.count

    before = count()
    values = np.array([1, 2, 3, 4], np.float32)
    at.client.infer("add_sub", [tensor(grpc, name, values, "FP32") for name in ("INPUT0", "INPUT1")])
    eventually("one more success", lambda: count() == before + 1)
    names = [one.name for one in at.client.get_inference_statistics().model_stats]
    assert "simple" in names and "repeat" in names, names
    [one] = at.client.get_inference_statistics("simple", "1", as_json=True)["model_stats"]
    assert one["version"] == "1", one
    refused("StatusCode.INVALID_ARGUMENT", "requested model 'missing' is not available",
            at.client.get_inference_statistics, "missing")


def trace_settings(at):
    """get_trace_settings and update_trace_settings"""
    def rate(answer):
        return list(answer.settings["trace_rate"].value)

    before = at.client.get_trace_settings()
    assert rate(before) == ["1000"] and list(before.settings["trace_level"].value) == ["OFF"], before
    try:
        assert rate(at.client.update_trace_settings(settings={"trace_rate": "500"})) == ["500"]
        assert rate(at.client.update_trace_settings("simple", {"trace_rate": "7"})) == ["7"]
        assert rate(at.client.get_trace_settings("simple")) == ["7"]
        assert at.client.get_trace_settings(as_json=True)["settings"]["trace_rate"]["value"] == ["500"]
        assert rate(at.client.update_trace_settings("simple", {"trace_rate": None})) == ["500"]
        refused("StatusCode.UNIMPLEMENTED", "trace file location can not be updated through network protocol",
                at.client.update_trace_settings, settings={"trace_file": "/tmp/trace"})
        refused("StatusCode.INVALID_ARGUMENT", "missing", at.client.get_trace_settings, "missing")
    finally:
        at.client.update_trace_settings("simple", {"trace_rate": None})
        assert at.client.update_trace_settings(settings={"trace_rate": None}) == before


def log_settings(at):
    """get_log_settings and update_log_settings"""
    before = at.client.get_log_settings()
    try:
        changed = at.client.update_log_settings({"log_verbose_level": 1, "log_warning": False}).settings
        assert changed["log_verbose_level"].uint32_param == 1 and not changed["log_warning"].bool_param, changed
        seen = at.client.get_log_settings(as_json=True)["settings"]
        assert seen["log_verbose_level"] == {"uint32_param": 1}, seen
        refused("StatusCode.UNIMPLEMENTED", "log file location can not be updated through network protocol",
                at.client.update_log_settings, {"log_file": "/tmp/log"})
    finally:
        assert at.client.update_log_settings({"log_verbose_level": 0, "log_warning": True}) == before


def shared_memory(at):
    """register_system_shared_memory, get_system_shared_memory_status, unregister_system_shared_memory"""
    key, size = region_key("grpc"), ROW.nbytes
    region = shm.create_shared_memory_region("grpc", key, 4 * size)
    try:
        shm.set_shared_memory_region(region, [ROW, ROW])
        at.client.register_system_shared_memory("grpc", "/" + key, 4 * size)
        found = at.client.get_system_shared_memory_status("grpc").regions["grpc"]
        assert (found.name, found.key, found.offset, found.byte_size) == ("grpc", "/" + key, 0, 4 * size), found
        assert list(at.client.get_system_shared_memory_status(as_json=True)["regions"]) == ["grpc"]
        refused("StatusCode.ALREADY_EXISTS", "shared memory region 'grpc' already in manager",
                at.client.register_system_shared_memory, "grpc", "/" + key, 4 * size)
        # One input by value: those in regions take no place among the raw contents.
        inputs = [grpc.InferInput("INPUT0", [1, 16], "INT32"), tensor(grpc, "INPUT1", ROW, "INT32")]
        inputs[0].set_shared_memory("grpc", size, offset=size)
        outputs = [output("OUTPUT0"), output("OUTPUT1")]
        outputs[0].set_shared_memory("grpc", size, offset=2 * size)
        result = at.client.infer("simple", inputs, outputs=outputs)
        check_equal(shm.get_contents_as_numpy(region, np.int32, [1, 16], offset=2 * size), ROW + ROW)
        check_equal(result.as_numpy("OUTPUT1"), ROW - ROW)
        inputs[0].set_shared_memory("nothing", size)
        refused("StatusCode.NOT_FOUND", "Unable to find shared memory region: 'nothing'",
                at.client.infer, "simple", inputs)
    finally:
        at.client.unregister_system_shared_memory("grpc")
        shm.destroy_shared_memory_region(region)
    refused("StatusCode.NOT_FOUND", "Unable to find system shared memory region: 'grpc'",
            at.client.get_system_shared_memory_status, "grpc")
    at.client.unregister_system_shared_memory()
    assert len(at.client.get_system_shared_memory_status().regions) == 0


def cuda_shared_memory(at):
    """register_cuda_shared_memory, refused without a GPU; unregister_cuda_shared_memory"""
    try:
        at.client.register_cuda_shared_memory("gpu", b"AAAA", 0, 64)
    except InferenceServerException as error:
        assert error.status() in ("StatusCode.INVALID_ARGUMENT", "StatusCode.INTERNAL", "StatusCode.UNIMPLEMENTED")
        assert error.message(), error
    else:
        raise AssertionError("a CUDA region without a GPU")
    at.client.unregister_cuda_shared_memory("gpu")
    at.client.unregister_cuda_shared_memory()


def infer(at):
    """infer"""
    check_simple(at.client.infer("simple", simple_inputs(grpc)))


def infer_some_outputs(at):
    """infer that asks for one output, and the parts of its result"""
    result = at.client.infer("simple", simple_inputs(grpc), outputs=[output("OUTPUT1")])
    assert [one.name for one in result.get_response().outputs] == ["OUTPUT1"]
    assert result.get_output("OUTPUT0") is None and result.as_numpy("OUTPUT0") is None
    assert result.get_output("OUTPUT1").datatype == "INT32"
    assert result.get_response(as_json=True)["outputs"][0]["shape"] == ["1", "16"]


def infer_version_and_id(at):
    """infer with a version and an id"""
    result = at.client.infer("simple", simple_inputs(grpc), model_version="1", request_id="mine")
    found = result.get_response()
    assert (found.id, found.model_name, found.model_version) == ("mine", "simple", "1"), found
    check_simple(result)


def infer_every_datatype(at):
    """infer with each datatype, BF16 too"""
    for model, datatype, values in VECTORS:
        result = at.client.infer(model, [tensor(grpc, "INPUT", values, datatype)])
        check_equal(result.as_numpy("OUTPUT"), values)


def infer_bytes(at):
    """infer with BYTES"""
    given = tensor(grpc, "INPUT", texts_array(), "BYTES")
    check_texts(at.client.infer("identity_bytes", [given]).as_numpy("OUTPUT"))


def async_infer(at):
    """async_infer, 32 at a time"""
    inbox = Inbox()
    for index in range(32):
        at.client.async_infer("simple", simple_inputs(grpc), inbox.put, request_id=str(index))
    results = [inbox.result() for _ in range(32)]
    assert sorted(int(one.get_response().id) for one in results) == list(range(32))
    for result in results:
        check_simple(result)


def async_infer_refused(at):
    """async_infer that is refused"""
    inbox = Inbox()
    at.client.async_infer("missing", simple_inputs(grpc), inbox.put)
    check_error(inbox.error(), "StatusCode.NOT_FOUND", UNKNOWN)


def async_infer_cancelled(at):
    """async_infer that is cancelled: the client hears of it, and the server goes on"""
    inbox = Inbox()
    context = at.client.async_infer("delayed", [number(grpc, 1)], inbox.put)
    context.cancel()
    check_error(inbox.error(), "StatusCode.CANCELLED", "Locally cancelled by application!")
    check_equal(at.client.infer("delayed", [number(grpc, 2)]).as_numpy("OUTPUT"), np.array([2], np.int32))


def client_timeout(at):
    """client_timeout of infer and async_infer: the deadline passes, and the server goes on"""
    late = ("StatusCode.DEADLINE_EXCEEDED", "Deadline Exceeded")
    refused(*late, at.client.infer, "delayed", [number(grpc, 1)], client_timeout=SHORT_S)
    inbox = Inbox()
    at.client.async_infer("delayed", [number(grpc, 1)], inbox.put, client_timeout=SHORT_S)
    check_error(inbox.error(), *late)
    result = at.client.infer("delayed", [number(grpc, 2)], client_timeout=WAIT_S)
    check_equal(result.as_numpy("OUTPUT"), np.array([2], np.int32))
    assert at.client.is_server_live(client_timeout=WAIT_S)


def compression(at):
    """infer compressed by each algorithm"""
    values = np.zeros(10_000, np.float32)
    for algorithm in ("gzip", "deflate"):
        check_simple(at.client.infer("simple", simple_inputs(grpc), compression_algorithm=algorithm))
        result = at.client.infer("identity_fp32", [tensor(grpc, "INPUT", values, "FP32")],
                                 compression_algorithm=algorithm)
        check_equal(result.as_numpy("OUTPUT"), values)
        inbox = Inbox()
        at.client.async_infer("simple", simple_inputs(grpc), inbox.put, compression_algorithm=algorithm)
        check_simple(inbox.result())


def headers(at):
    """headers, which change nothing"""
    more = {"headers": {"x-mine": "1"}}
    assert at.client.is_server_ready(**more)
    assert at.client.get_model_metadata("simple", **more).name == "simple"
    check_simple(at.client.infer("simple", simple_inputs(grpc), **more))


def keepalive(at):
    """KeepAliveOptions and channel_args of a client"""
    options = grpc.KeepAliveOptions(keepalive_time_ms=60_000, keepalive_timeout_ms=5_000,
                                    keepalive_permit_without_calls=True, http2_max_pings_without_data=2)
    with connect(at.grpc, keepalive_options=options) as client:
        check_simple(client.infer("simple", simple_inputs(grpc)))
    with connect(at.grpc, channel_args=[("grpc.primary_user_agent", "mine")]) as client:
        check_simple(client.infer("simple", simple_inputs(grpc)))


def classification(at):
    """infer that asks for classes"""
    scores = tensor(grpc, "SCORES", np.array([[0.1, 0.9, 0.4, 0.2]], np.float32), "FP32")
    result = at.client.infer("classifier", [scores], outputs=[output("LABELLED", class_count=2)])
    assert list(result.as_numpy("LABELLED")[0]) == [b"0.900000:1:pear", b"0.400000:2:plum"]


def parameters(at):
    """infer with parameters, a priority and a timeout"""
    result = at.client.infer("parameters_echo", [number(grpc, 1)], request_id="mine", parameters=CUSTOM, priority=1,
                             timeout=TIMEOUT_US)
    assert result.as_numpy("SEEN")[0].decode() == SEEN, result.as_numpy("SEEN")
    check_simple(at.client.infer("simple", simple_inputs(grpc), priority=3, timeout=TIMEOUT_US, parameters=CUSTOM))


def refusals(at):
    """infer that is refused: status, message and text of the exception"""
    for what, model, inputs, more, _, code, text in wrong_requests(grpc):
        try:
            at.client.infer(model, inputs, **more)
        except InferenceServerException as error:
            check_error(error, "StatusCode." + code, text)
            assert error.debug_details(), what
        else:
            raise AssertionError("not refused: " + what)


def negative_dimension(at):
    """BC-011: a dimension of -1 is refused, and the server goes on"""
    four = tensor(grpc, "INPUT", np.array([[1, 2, 3, 4]], np.uint8), "UINT8").set_shape([-1, 4])
    one = tensor(grpc, "INPUT", np.array([1], np.float32), "FP32").set_shape([-1])
    for model, given in (("identity_uint8", four), ("identity_fp32", one)):
        refused("StatusCode.INVALID_ARGUMENT", "", at.client.infer, model, [given])
    assert at.client.is_server_ready()
    check_simple(at.client.infer("simple", simple_inputs(grpc)))


CALLS = [health, server_metadata, model_metadata, model_config, repository_index, load_and_unload, statistics,
         trace_settings, log_settings, shared_memory, shared_memory_of_bytes, cuda_shared_memory, infer,
         infer_some_outputs, infer_version_and_id, infer_every_datatype, infer_bytes, infer_nothing, infer_large,
         async_infer, async_infer_refused, async_infer_cancelled, client_timeout, compression, headers, keepalive,
         classification, parameters, refusals, negative_dimension, infer_sequences]
