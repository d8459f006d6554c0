"""The calls of tritonclient.http.aio, each with what the server must make of it."""
import asyncio

import numpy as np
import tritonclient.http.aio as http
import tritonclient.utils.shared_memory as shm

from .fixtures import (
    CUSTOM, NOT_EXPLICIT, ROW, SEEN, SHORT_S, TIMEOUT_US, WAIT_S, check_equal, check_simple, number,
    refused_async, region_key, simple_inputs, tensor, wrong_requests)
from .shared_aio_calls import health, infer_at_the_same_time, infer_every_datatype, infer_sequences

UNKNOWN = "Request for unknown model: 'missing' is not found"


def connect(address, **options):
    return http.InferenceServerClient(address, **options)


def output(name, **how):
    return http.InferRequestedOutput(name, **how)


async def metadata_and_config(at):
    """get_server_metadata, get_model_metadata, get_model_config"""
    assert (await at.client.get_server_metadata())["name"]
    found = await at.client.get_model_metadata("simple")
    assert [one["name"] for one in found["inputs"]] == ["INPUT0", "INPUT1"], found
    assert (await at.client.get_model_config("simple", "1"))["max_batch_size"] == 8
    await refused_async("404", UNKNOWN, at.client.get_model_metadata, "missing")


async def repository(at):
    """get_model_repository_index, load_model, unload_model"""
    found = await at.client.get_model_repository_index()
    assert {"name": "simple", "version": "1", "state": "READY"} in found, found
    await refused_async("503", NOT_EXPLICIT, at.client.load_model, "simple")
    await refused_async("503", NOT_EXPLICIT, at.client.unload_model, "simple")


async def statistics(at):
    """get_inference_statistics"""
    [found] = (await at.client.get_inference_statistics("simple", "1"))["model_stats"]
    assert found["name"] == "simple" and found["inference_stats"]["success"]["count"] >= 0, found
    await refused_async("400", "requested model 'missing' is not available",
                        at.client.get_inference_statistics, "missing")


async def settings(at):
    """get_trace_settings, update_trace_settings, get_log_settings, update_log_settings"""
    before = await at.client.get_trace_settings()
    assert (await at.client.update_trace_settings(settings={"trace_rate": "500"}))["trace_rate"] == "500"
    assert await at.client.update_trace_settings(settings={"trace_rate": None}) == before
    before = await at.client.get_log_settings()
    assert (await at.client.update_log_settings({"log_verbose_level": 1}))["log_verbose_level"] == 1
    assert await at.client.update_log_settings({"log_verbose_level": 0}) == before


async def shared_memory(at):
    """register_system_shared_memory, get_system_shared_memory_status, unregister_system_shared_memory"""
    key, size = region_key("http_aio"), ROW.nbytes
    region = shm.create_shared_memory_region("http_aio", key, 2 * size)
    try:
        shm.set_shared_memory_region(region, [ROW])
        await at.client.register_system_shared_memory("http_aio", "/" + key, 2 * size)
        [found] = await at.client.get_system_shared_memory_status("http_aio")
        assert found["key"] == "/" + key, found
        inputs = [http.InferInput("INPUT0", [1, 16], "INT32"), tensor(http, "INPUT1", ROW, "INT32")]
        inputs[0].set_shared_memory("http_aio", size)
        wanted = output("OUTPUT0")
        wanted.set_shared_memory("http_aio", size, offset=size)
        await at.client.infer("simple", inputs, outputs=[wanted])
        check_equal(shm.get_contents_as_numpy(region, np.int32, [1, 16], offset=size), ROW + ROW)
    finally:
        await at.client.unregister_system_shared_memory("http_aio")
        shm.destroy_shared_memory_region(region)
    assert await at.client.get_system_shared_memory_status() == []


async def infer(at):
    """infer in binary and in JSON, with a version and an id"""
    check_simple(await at.client.infer("simple", simple_inputs(http)))
    outputs = [output(name, binary_data=False) for name in ("OUTPUT0", "OUTPUT1")]
    result = await at.client.infer("simple", simple_inputs(http, binary_data=False), outputs=outputs,
                                   model_version="1", request_id="mine")
    assert result.get_response()["id"] == "mine"
    check_simple(result)


async def compression(at):
    """infer compressed both ways, by each algorithm"""
    for algorithm in ("gzip", "deflate"):
        check_simple(await at.client.infer("simple", simple_inputs(http), request_compression_algorithm=algorithm,
                                           response_compression_algorithm=algorithm))


async def classification_and_parameters(at):
    """infer with class_count, parameters, priority, timeout, headers and query_params"""
    scores = tensor(http, "SCORES", np.array([[0.1, 0.9, 0.4, 0.2]], np.float32), "FP32")
    result = await at.client.infer("classifier", [scores], outputs=[output("LABELLED", class_count=1)])
    assert list(result.as_numpy("LABELLED")[0]) == [b"0.900000:1:pear"]
    result = await at.client.infer("parameters_echo", [number(http, 1)], request_id="mine", parameters=CUSTOM,
                                   priority=1, timeout=TIMEOUT_US, headers={"X-Mine": "1"}, query_params={"a": 1})
    assert result.as_numpy("SEEN")[0].decode() == SEEN, result.as_numpy("SEEN")


async def refusals(at):
    """infer that is refused: status, message and text of the exception"""
    for _, model, inputs, more, status, _, text in wrong_requests(http):
        await refused_async(status, text, at.client.infer, model, inputs, **more)


async def cancelled(at):
    """a call whose task is cancelled, and one past conn_timeout: the server goes on"""
    task = asyncio.ensure_future(at.client.infer("delayed", [number(http, 1)]))
    await asyncio.sleep(SHORT_S)
    task.cancel()
    try:
        await task
        raise AssertionError("a result of a cancelled call")
    except asyncio.CancelledError:
        pass
    async with connect(at.http, conn_timeout=SHORT_S) as hasty:
        try:
            await hasty.infer("delayed", [number(http, 1)])
            raise AssertionError("an answer within conn_timeout")
        except asyncio.TimeoutError:
            pass
    result = await asyncio.wait_for(at.client.infer("delayed", [number(http, 2)]), WAIT_S)
    check_equal(result.as_numpy("OUTPUT"), np.array([2], np.int32))


CALLS = [health, metadata_and_config, repository, statistics, settings, shared_memory, infer, infer_at_the_same_time,
         infer_every_datatype, compression, classification_and_parameters, refusals, cancelled, infer_sequences]
