"""Calls that tritonclient.http.aio and .grpc.aio have alike; `at.api` is the one of them."""
import asyncio

import numpy as np

from .fixtures import (
    LARGE_COUNT, VECTORS, check_equal, check_simple, check_texts, simple_inputs, tensor, texts_array)


async def health(at):
    """is_server_live, is_server_ready, is_model_ready"""
    assert await at.client.is_server_live()
    assert await at.client.is_server_ready()
    assert await at.client.is_model_ready("simple", "1")
    assert not await at.client.is_model_ready("missing")


async def infer_at_the_same_time(at):
    """infer, 32 at a time"""
    for result in await asyncio.gather(*[at.client.infer("simple", simple_inputs(at.api)) for _ in range(32)]):
        check_simple(result)


async def infer_every_datatype(at):
    """infer with each datatype, BYTES and BF16 too, and with 12 MB"""
    for model, datatype, values in VECTORS:
        result = await at.client.infer(model, [tensor(at.api, "INPUT", values, datatype)])
        check_equal(result.as_numpy("OUTPUT"), values)
    given = tensor(at.api, "INPUT", texts_array(), "BYTES")
    check_texts((await at.client.infer("identity_bytes", [given])).as_numpy("OUTPUT"))
    values = np.arange(LARGE_COUNT, dtype=np.float32)
    result = await at.client.infer("identity_fp32", [tensor(at.api, "INPUT", values, "FP32")])
    check_equal(result.as_numpy("OUTPUT"), values)
