"""Every call of tritonclient.http, each with what the server must make of it."""
import json
import urllib.request

import numpy as np
import tritonclient.http as http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from .fixtures import (
    CUSTOM, DELAYED_S, NOT_EXPLICIT, ROW, SEEN, SHORT_S, TIMEOUT_US, VECTORS, check_equal, check_error,
    check_simple, check_texts, eventually, number, refused, region_key, simple_inputs, tensor, texts_array,
    wrong_requests)
from .shared_calls import infer_large, infer_nothing, infer_sequences, shared_memory_of_bytes


class Client(http.InferenceServerClient):
    """Keeps the last answer, whose headers the official client does not show."""

    def _post(self, *arguments, **more):
        self.last = super()._post(*arguments, **more)
        return self.last


def connect(address, **options):
    return Client(address, concurrency=8, **options)


def output(name, **how):
    return http.InferRequestedOutput(name, **how)


def health(at):
    """is_server_live, is_server_ready, is_model_ready"""
    assert at.client.is_server_live()
    assert at.client.is_server_ready()
    assert at.client.is_model_ready("simple")
    assert at.client.is_model_ready("simple", "1")
    assert not at.client.is_model_ready("simple", "7")
    assert not at.client.is_model_ready("missing")


def server_metadata(at):
    """get_server_metadata"""
    found = at.client.get_server_metadata()
    assert found["name"] and found["version"], found
    assert {"classification", "binary_tensor_data", "statistics"} <= set(found["extensions"]), found


def model_metadata(at):
    """get_model_metadata"""
    found = at.client.get_model_metadata("simple")
    assert (found["name"], found["versions"]) == ("simple", ["1"]), found
    assert [(one["name"], one["datatype"], one["shape"]) for one in found["inputs"]] == [
        ("INPUT0", "INT32", [-1, 16]), ("INPUT1", "INT32", [-1, 16])], found
    assert at.client.get_model_metadata("simple", "1") == found
    refused("404", "Request for unknown model: 'missing' is not found", at.client.get_model_metadata, "missing")


def model_config(at):
    """get_model_config"""
    found = at.client.get_model_config("simple")
    assert (found["name"], found["max_batch_size"], found["input"][0]["dims"]) == ("simple", 8, [16]), found
    assert at.client.get_model_config("simple", "1") == found
    refused("404", "Request for unknown model: 'missing' is not found", at.client.get_model_config, "missing")


def repository_index(at):
    """get_model_repository_index"""
    found = at.client.get_model_repository_index()
    assert {"name": "simple", "version": "1", "state": "READY"} in found, found


def load_and_unload(at):
    """load_model and unload_model, refused where models are not loaded by hand"""
    refused("503", NOT_EXPLICIT, at.client.load_model, "simple")
    refused("503", NOT_EXPLICIT, at.client.unload_model, "simple")
    refused("503", NOT_EXPLICIT, at.client.unload_model, "simple", unload_dependents=True)
    assert at.client.is_model_ready("simple")


def statistics(at):
    """get_inference_statistics"""
    def count():
        [found] = at.client.get_inference_statistics("add_sub")["model_stats"]
        assert (found["name"], found["version"]) == ("add_sub", "1"), found
        return found["inference_stats"]["success"]["count"]

    before = count()
    values = np.array([1, 2, 3, 4], np.float32)
    at.client.infer("add_sub", [tensor(http, name, values, "FP32") for name in ("INPUT0", "INPUT1")])
    eventually("one more success", lambda: count() == before + 1)
    names = [one["name"] for one in at.client.get_inference_statistics()["model_stats"]]
    assert "simple" in names and "repeat" in names, names
    [one] = at.client.get_inference_statistics("simple", "1")["model_stats"]
    assert one["version"] == "1", one
    refused("400", "requested model 'missing' is not available", at.client.get_inference_statistics, "missing")


def trace_settings(at):
    """get_trace_settings and update_trace_settings"""
    before = at.client.get_trace_settings()
    assert before["trace_level"] == ["OFF"] and before["trace_rate"] == "1000", before
    try:
        assert at.client.update_trace_settings(settings={"trace_rate": "500"})["trace_rate"] == "500"
        assert at.client.update_trace_settings("simple", {"trace_rate": "7"})["trace_rate"] == "7"
        assert at.client.get_trace_settings("simple")["trace_rate"] == "7"
        assert at.client.get_trace_settings()["trace_rate"] == "500"
        assert at.client.update_trace_settings("simple", {"trace_rate": None})["trace_rate"] == "500"
        refused("501", "trace file location can not be updated through network protocol",
                at.client.update_trace_settings, settings={"trace_file": "/tmp/trace"})
        refused("400", "missing", at.client.get_trace_settings, "missing")
    finally:
        at.client.update_trace_settings("simple", {"trace_rate": None})
        assert at.client.update_trace_settings(settings={"trace_rate": None}) == before


def log_settings(at):
    """get_log_settings and update_log_settings"""
    before = at.client.get_log_settings()
    try:
        assert at.client.update_log_settings({"log_verbose_level": 1, "log_warning": False}) == {
            **before, "log_verbose_level": 1, "log_warning": False}
        assert at.client.get_log_settings()["log_verbose_level"] == 1
        refused("501", "log file location can not be updated through network protocol",
                at.client.update_log_settings, {"log_file": "/tmp/log"})
    finally:
        assert at.client.update_log_settings({"log_verbose_level": 0, "log_warning": True}) == before


def shared_memory(at):
    """register_system_shared_memory, get_system_shared_memory_status, unregister_system_shared_memory"""
    key, size = region_key("http"), ROW.nbytes
    region = shm.create_shared_memory_region("http", key, 4 * size)
    try:
        shm.set_shared_memory_region(region, [ROW, ROW])
        at.client.register_system_shared_memory("http", "/" + key, 4 * size)
        assert at.client.get_system_shared_memory_status("http") == [
            {"name": "http", "key": "/" + key, "offset": 0, "byte_size": 4 * size}]
        refused("400", "shared memory region 'http' already in manager",
                at.client.register_system_shared_memory, "http", "/" + key, 4 * size)
        inputs = [http.InferInput("INPUT0", [1, 16], "INT32"), http.InferInput("INPUT1", [1, 16], "INT32")]
        inputs[0].set_shared_memory("http", size)
        inputs[1].set_shared_memory("http", size, offset=size)
        outputs = [output("OUTPUT0"), output("OUTPUT1")]
        outputs[0].set_shared_memory("http", size, offset=2 * size)
        outputs[1].set_shared_memory("http", size, offset=3 * size)
        result = at.client.infer("simple", inputs, outputs=outputs)
        assert set(result.get_output("OUTPUT0")) == {"name", "datatype", "shape"}, result.get_response()
        for position, expected in ((2, ROW + ROW), (3, ROW - ROW)):
            check_equal(shm.get_contents_as_numpy(region, np.int32, [1, 16], offset=position * size), expected)
        outputs[1].unset_shared_memory()
        check_equal(at.client.infer("simple", inputs, outputs=outputs).as_numpy("OUTPUT1"), ROW - ROW)
        inputs[0].set_shared_memory("nothing", size)
        refused("404", "Unable to find shared memory region: 'nothing'", at.client.infer, "simple", inputs)
    finally:
        at.client.unregister_system_shared_memory("http")
        shm.destroy_shared_memory_region(region)
    refused("404", "Unable to find system shared memory region: 'http'",
            at.client.get_system_shared_memory_status, "http")
    at.client.unregister_system_shared_memory()
    assert at.client.get_system_shared_memory_status() == []


def cuda_shared_memory(at):
    """register_cuda_shared_memory, refused without a GPU; unregister_cuda_shared_memory"""
    try:
        at.client.register_cuda_shared_memory("gpu", "AAAA", 0, 64)
    except InferenceServerException as error:
        assert error.status() in ("400", "500", "501") and error.message(), error
    else:
        raise AssertionError("a CUDA region without a GPU")
    at.client.unregister_cuda_shared_memory("gpu")
    at.client.unregister_cuda_shared_memory()


def infer_binary(at):
    """infer with binary tensors"""
    check_simple(at.client.infer("simple", simple_inputs(http)))


def infer_json(at):
    """infer with JSON tensors"""
    outputs = [output(name, binary_data=False) for name in ("OUTPUT0", "OUTPUT1")]
    check_simple(at.client.infer("simple", simple_inputs(http, binary_data=False), outputs=outputs))


def infer_mixed(at):
    """infer with one tensor of each form, both ways"""
    inputs = [simple_inputs(http)[0], simple_inputs(http, binary_data=False)[1]]
    result = at.client.infer("simple", inputs, outputs=[output("OUTPUT0", binary_data=False), output("OUTPUT1")])
    check_simple(result)
    assert "data" in result.get_output("OUTPUT0") and "data" not in result.get_output("OUTPUT1")


def infer_some_outputs(at):
    """infer that asks for one output, and the parts of its result"""
    result = at.client.infer("simple", simple_inputs(http), outputs=[output("OUTPUT1")])
    assert [one["name"] for one in result.get_response()["outputs"]] == ["OUTPUT1"]
    assert result.get_output("OUTPUT0") is None and result.as_numpy("OUTPUT0") is None
    assert result.get_output("OUTPUT1")["datatype"] == "INT32"


def infer_version_and_id(at):
    """infer with a version and an id"""
    result = at.client.infer("simple", simple_inputs(http), model_version="1", request_id="mine")
    found = result.get_response()
    assert (found["id"], found["model_name"], found["model_version"]) == ("mine", "simple", "1"), found
    check_simple(result)


def infer_every_datatype(at):
    """infer with each datatype in binary, BF16 too, and in JSON where it has that form"""
    for model, datatype, values in VECTORS:
        result = at.client.infer(model, [tensor(http, "INPUT", values, datatype)])
        check_equal(result.as_numpy("OUTPUT"), values)
        if datatype in ("FP16", "BF16"):
            refused("400", datatype, at.client.infer, model, [tensor(http, "INPUT", values, datatype)],
                    outputs=[output("OUTPUT", binary_data=False)])
            continue
        finite = values[np.isfinite(values)]
        given = tensor(http, "INPUT", finite, datatype, binary_data=False)
        result = at.client.infer(model, [given], outputs=[output("OUTPUT", binary_data=False)])
        check_equal(result.as_numpy("OUTPUT"), finite)


def infer_bytes(at):
    """infer with BYTES, in binary and in JSON"""
    for binary in (True, False):
        given = tensor(http, "INPUT", texts_array(), "BYTES", binary_data=binary)
        wanted = [output("OUTPUT", binary_data=binary)]
        check_texts(at.client.infer("identity_bytes", [given], outputs=wanted).as_numpy("OUTPUT"))


def async_infer(at):
    """async_infer, 32 at a time"""
    for waiting in [at.client.async_infer("simple", simple_inputs(http)) for _ in range(32)]:
        check_simple(waiting.get_result())


def async_infer_refused(at):
    """async_infer that is refused"""
    waiting = at.client.async_infer("missing", simple_inputs(http))
    refused("404", "Request for unknown model: 'missing' is not found", waiting.get_result)


def compression(at):
    """infer compressed both ways, by each algorithm"""
    outputs = lambda: [output("OUTPUT0"), output("OUTPUT1", binary_data=False)]
    for algorithm in ("gzip", "deflate"):
        check_simple(at.client.infer("simple", simple_inputs(http), request_compression_algorithm=algorithm))
        for sent in (None, algorithm):
            result = at.client.infer(
                "simple", simple_inputs(http), outputs=outputs(), request_compression_algorithm=sent,
                response_compression_algorithm=algorithm)
            check_simple(result)
            assert at.client.last.get("Content-Encoding") == algorithm, at.client.last
        check_simple(at.client.async_infer("simple", simple_inputs(http), request_compression_algorithm=algorithm,
                                           response_compression_algorithm=algorithm).get_result())


def headers_and_query(at):
    """headers and query_params, which change nothing"""
    more = lambda: {"headers": {"X-Mine": "1"}, "query_params": {"a": "b c", "n": [1, 2]}}
    assert at.client.is_server_ready(**more())
    assert at.client.is_model_ready("simple", **more())
    assert at.client.get_model_metadata("simple", **more())["name"] == "simple"
    check_simple(at.client.infer("simple", simple_inputs(http), **more()))


def classification(at):
    """infer that asks for classes"""
    scores = tensor(http, "SCORES", np.array([[0.1, 0.9, 0.4, 0.2]], np.float32), "FP32")
    for binary in (True, False):
        result = at.client.infer("classifier", [scores],
                                 outputs=[output("LABELLED", binary_data=binary, class_count=2)])
        classes = [one if isinstance(one, str) else one.decode() for one in result.as_numpy("LABELLED")[0]]
        assert classes == ["0.900000:1:pear", "0.400000:2:plum"], classes


def parameters(at):
    """infer with parameters, a priority and a timeout"""
    given = tensor(http, "INPUT", np.array([1], np.int32), "INT32")
    result = at.client.infer("parameters_echo", [given], request_id="mine", parameters=CUSTOM, priority=1,
                             timeout=TIMEOUT_US)
    assert result.as_numpy("SEEN")[0].decode() == SEEN, result.as_numpy("SEEN")
    check_simple(at.client.infer("simple", simple_inputs(http), priority=3, timeout=TIMEOUT_US, parameters=CUSTOM))


def own_requests(at):
    """generate_request_body and parse_response_body, for whoever sends the request otherwise"""
    body, json_size = at.client.generate_request_body(simple_inputs(http), request_id="mine")
    request = urllib.request.Request("http://%s/v2/models/simple/infer" % at.http, data=body, headers={
        "Inference-Header-Content-Length": str(json_size)})
    with urllib.request.urlopen(request) as answer:
        header_length = int(answer.headers["Inference-Header-Content-Length"])
        result = at.client.parse_response_body(answer.read(), header_length=header_length)
    assert result.get_response()["id"] == "mine"
    check_simple(result)
    body, json_size = at.client.generate_request_body(
        simple_inputs(http, binary_data=False), outputs=[output("OUTPUT0", binary_data=False)])
    assert json_size is None and json.loads(body)["inputs"][0]["name"] == "INPUT0"


def network_timeout(at):
    """network_timeout: the client gives up, and the server goes on"""
    with connect(at.http, network_timeout=SHORT_S) as hasty:
        try:
            hasty.infer("delayed", [number(http, 1)])
        except Exception as error:
            assert "time" in (str(error) + type(error).__name__).lower(), repr(error)
        else:
            raise AssertionError("an answer within %s s, not %s" % (SHORT_S, DELAYED_S))
    result = at.client.infer("delayed", [number(http, 2)])
    check_equal(result.as_numpy("OUTPUT"), np.array([2], np.int32))


def refusals(at):
    """infer that is refused: status, message and text of the exception"""
    for what, model, inputs, more, status, _, text in wrong_requests(http):
        try:
            at.client.infer(model, inputs, **more)
        except InferenceServerException as error:
            check_error(error, status, text)
            assert error.debug_details() is None, error.debug_details()
        else:
            raise AssertionError("not refused: " + what)


CALLS = [health, server_metadata, model_metadata, model_config, repository_index, load_and_unload, statistics,
         trace_settings, log_settings, shared_memory, shared_memory_of_bytes, cuda_shared_memory, infer_binary,
         infer_json, infer_mixed, infer_some_outputs, infer_version_and_id, infer_every_datatype, infer_bytes,
         infer_nothing, infer_large, async_infer, async_infer_refused, compression, headers_and_query,
         classification, parameters, own_requests, network_timeout, refusals, infer_sequences]
