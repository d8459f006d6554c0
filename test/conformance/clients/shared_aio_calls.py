"""Calls that tritonclient.http.aio and .grpc.aio have alike; `at.api` is the one of them."""
import asyncio

import numpy as np

from .fixtures import (
    LARGE_COUNT, VECTORS, check_equal, check_simple, check_sum, check_texts, sequences, simple_inputs, steps, tensor,
    texts_array)


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


async def infer_sequences(at):
    """infer with sequence_id, sequence_start and sequence_end, several sequences at a time"""
    async def infer_one(model, sequence_id):
        for index, (inputs, flags) in enumerate(steps(at.api)):
            check_sum(await at.client.infer(model, inputs, sequence_id=sequence_id, **flags), index)
    await asyncio.gather(*[infer_one(*sequence) for _ in range(3) for sequence in sequences()])
