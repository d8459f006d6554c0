"""The calls of tritonclient.grpc.aio, each with what the server must make of it."""
import asyncio

import numpy as np
import tritonclient.grpc.aio as grpc
import tritonclient.utils.shared_memory as shm
from grpc import RpcError

from .fixtures import (
    CUSTOM, NOT_EXPLICIT, ROW, SEEN, SHORT_S, TIMEOUT_US, WAIT_S, check_equal, check_simple, number,
    refused_async, region_key, simple_inputs, tensor, wrong_requests)
from .shared_aio_calls import health, infer_at_the_same_time, infer_every_datatype, infer_sequences

UNKNOWN = "Request for unknown model: 'missing' is not found"
LONG_DELAY_MS = 200


def connect(address, **options):
    return grpc.InferenceServerClient(address, **options)


def output(name, **how):
    return grpc.InferRequestedOutput(name, **how)


async def metadata_and_config(at):
    """get_server_metadata, get_model_metadata, get_model_config"""
    assert (await at.client.get_server_metadata()).name
    found = await at.client.get_model_metadata("simple")
    assert [one.name for one in found.inputs] == ["INPUT0", "INPUT1"], found
    assert (await at.client.get_model_config("simple", as_json=True))["config"]["max_batch_size"] == 8
    await refused_async("StatusCode.NOT_FOUND", UNKNOWN, at.client.get_model_metadata, "missing")


async def repository(at):
    """get_model_repository_index, load_model, unload_model"""
    found = await at.client.get_model_repository_index()
    assert ("simple", "1", "READY") in [(one.name, one.version, one.state) for one in found.models], found
    await refused_async("StatusCode.UNAVAILABLE", NOT_EXPLICIT, at.client.load_model, "simple")
    await refused_async("StatusCode.UNAVAILABLE", NOT_EXPLICIT, at.client.unload_model, "simple")


async def statistics(at):
    """get_inference_statistics"""
    [found] = (await at.client.get_inference_statistics("simple", "1")).model_stats
    assert found.name == "simple", found
    await refused_async("StatusCode.INVALID_ARGUMENT", "requested model 'missing' is not available",
                        at.client.get_inference_statistics, "missing")


async def settings(at):
    """get_trace_settings, update_trace_settings, get_log_settings, update_log_settings"""
    before = await at.client.get_trace_settings()
    changed = await at.client.update_trace_settings(settings={"trace_rate": "500"})
    assert list(changed.settings["trace_rate"].value) == ["500"], changed
    assert await at.client.update_trace_settings(settings={"trace_rate": None}) == before
    before = await at.client.get_log_settings()
    changed = await at.client.update_log_settings({"log_verbose_level": 1})
    assert changed.settings["log_verbose_level"].uint32_param == 1, changed
    assert await at.client.update_log_settings({"log_verbose_level": 0}) == before


async def shared_memory(at):
    """register_system_shared_memory, get_system_shared_memory_status, unregister_system_shared_memory"""
    key, size = region_key("grpc_aio"), ROW.nbytes
    region = shm.create_shared_memory_region("grpc_aio", key, 2 * size)
    try:
        shm.set_shared_memory_region(region, [ROW])
        await at.client.register_system_shared_memory("grpc_aio", "/" + key, 2 * size)
        found = await at.client.get_system_shared_memory_status("grpc_aio")
        assert found.regions["grpc_aio"].key == "/" + key, found
        inputs = [grpc.InferInput("INPUT0", [1, 16], "INT32"), tensor(grpc, "INPUT1", ROW, "INT32")]
        inputs[0].set_shared_memory("grpc_aio", size)
        wanted = output("OUTPUT0")
        wanted.set_shared_memory("grpc_aio", size, offset=size)
        await at.client.infer("simple", inputs, outputs=[wanted])
        check_equal(shm.get_contents_as_numpy(region, np.int32, [1, 16], offset=size), ROW + ROW)
    finally:
        await at.client.unregister_system_shared_memory("grpc_aio")
        shm.destroy_shared_memory_region(region)
    assert len((await at.client.get_system_shared_memory_status()).regions) == 0


async def infer(at):
    """infer with a version and an id"""
    result = await at.client.infer("simple", simple_inputs(grpc), model_version="1", request_id="mine")
    assert result.get_response().id == "mine"
    check_simple(result)


async def compression(at):
    """infer compressed by each algorithm"""
    for algorithm in ("gzip", "deflate"):
        check_simple(await at.client.infer("simple", simple_inputs(grpc), compression_algorithm=algorithm))


async def classification_and_parameters(at):
    """infer with class_count, parameters, priority, timeout and headers"""
    scores = tensor(grpc, "SCORES", np.array([[0.1, 0.9, 0.4, 0.2]], np.float32), "FP32")
    result = await at.client.infer("classifier", [scores], outputs=[output("LABELLED", class_count=1)])
    assert list(result.as_numpy("LABELLED")[0]) == [b"0.900000:1:pear"]
    result = await at.client.infer("parameters_echo", [number(grpc, 1)], request_id="mine", parameters=CUSTOM,
                                   priority=1, timeout=TIMEOUT_US, headers={"x-mine": "1"})
    assert result.as_numpy("SEEN")[0].decode() == SEEN, result.as_numpy("SEEN")


async def refusals(at):
    """infer that is refused: status, message and text of the exception"""
    for _, model, inputs, more, _, code, text in wrong_requests(grpc):
        await refused_async("StatusCode." + code, text, at.client.infer, model, inputs, **more)


async def cancelled(at):
    """a call whose task is cancelled, and one past client_timeout: the server goes on"""
    task = asyncio.ensure_future(at.client.infer("delayed", [number(grpc, 1)]))
    await asyncio.sleep(SHORT_S)
    task.cancel()
    try:
        await task
        raise AssertionError("a result of a cancelled call")
    except asyncio.CancelledError:
        pass
    await refused_async("StatusCode.DEADLINE_EXCEEDED", "Deadline Exceeded",
                        at.client.infer, "delayed", [number(grpc, 1)], client_timeout=SHORT_S)
    result = await at.client.infer("delayed", [number(grpc, 2)], client_timeout=WAIT_S)
    check_equal(result.as_numpy("OUTPUT"), np.array([2], np.int32))


def repeat(elements, delay_ms=0, request_id=""):
    """What stream_infer sends to the model repeat."""
    inputs = [tensor(grpc, "VALUES", np.array(elements, np.int32), "INT32")]
    if delay_ms:
        inputs.append(tensor(grpc, "DELAY_MS", np.array([delay_ms], np.uint32), "UINT32"))
    return {"model_name": "repeat", "inputs": inputs, "request_id": request_id}


async def each(requests):
    for request in requests:
        yield request


async def stream_infer(at):
    """stream_infer: plain models in order, every answer of a decoupled one, errors among them"""
    plain = [{"model_name": "simple", "inputs": simple_inputs(grpc), "request_id": str(index)} for index in range(8)]
    seen = [answer async for answer in at.client.stream_infer(each(plain))]
    assert [result.get_response().id for result, error in seen if error is None] == [str(i) for i in range(8)], seen
    for result, _ in seen:
        check_simple(result)
    seen = [answer async for answer in at.client.stream_infer(each([repeat([4, 5, 6])]))]
    assert [int(result.as_numpy("VALUE")[0]) for result, _ in seen] == [4, 5, 6], seen
    wrong = {"model_name": "missing", "inputs": simple_inputs(grpc)}
    seen = [answer async for answer in at.client.stream_infer(each([wrong]), compression_algorithm="gzip")]
    assert [error.message() for _, error in seen] == [UNKNOWN], seen


async def stream_cancelled(at):
    """the iterator's cancel ends a stream, stream_timeout as well, and the server goes on"""
    answers = at.client.stream_infer(each([repeat(range(20), LONG_DELAY_MS)]))
    result, error = await answers.__anext__()
    assert error is None and int(result.as_numpy("VALUE")[0]) == 0
    assert answers.cancel()
    try:
        async for _ in answers:
            pass
        raise AssertionError("a cancelled stream ends as if it were whole")
    except asyncio.CancelledError:
        pass
    late = at.client.stream_infer(each([repeat(range(20), LONG_DELAY_MS)]), stream_timeout=SHORT_S)
    try:
        async for _ in late:
            pass
        raise AssertionError("a stream past its deadline ends as if it were whole")
    except RpcError as error:
        assert error.code().name == "DEADLINE_EXCEEDED", error
    seen = [answer async for answer in at.client.stream_infer(each([repeat([8])]), stream_timeout=WAIT_S)]
    assert [int(result.as_numpy("VALUE")[0]) for result, _ in seen] == [8], seen


CALLS = [health, metadata_and_config, repository, statistics, settings, shared_memory, infer, infer_at_the_same_time,
         infer_every_datatype, compression, classification_and_parameters, refusals, cancelled, stream_infer,
         stream_cancelled, infer_sequences]
