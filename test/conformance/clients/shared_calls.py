"""Calls that tritonclient.http and .grpc have alike; `at.api` is the one of them."""
import numpy as np
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import serialize_byte_tensor

from .fixtures import (
    LARGE_COUNT, check_equal, check_sum, check_texts, region_key, sequences, steps, tensor, texts_array)


def shared_memory_of_bytes(at):
    """BYTES in a region, in and out"""
    packed = serialize_byte_tensor(texts_array())
    size = len(packed.item())
    key = region_key("bytes")
    region = shm.create_shared_memory_region("bytes", key, 2 * size)
    try:
        shm.set_shared_memory_region(region, [packed])
        at.client.register_system_shared_memory("bytes", "/" + key, 2 * size)
        given = at.api.InferInput("INPUT", [len(texts_array())], "BYTES")
        given.set_shared_memory("bytes", size)
        wanted = at.api.InferRequestedOutput("OUTPUT")
        wanted.set_shared_memory("bytes", size, offset=size)
        at.client.infer("identity_bytes", [given], outputs=[wanted])
        check_texts(shm.get_contents_as_numpy(region, np.object_, [len(texts_array())], offset=size))
    finally:
        at.client.unregister_system_shared_memory("bytes")
        shm.destroy_shared_memory_region(region)


def infer_nothing(at):
    """infer with a tensor of no elements"""
    for model, datatype, values in (("identity_fp32", "FP32", np.empty([0], np.float32)),
                                    ("identity_bytes", "BYTES", np.empty([0], np.object_))):
        result = at.client.infer(model, [tensor(at.api, "INPUT", values, datatype)])
        assert result.as_numpy("OUTPUT").shape == (0,), result.get_response()


def infer_large(at):
    """infer with 12 MB each way"""
    values = np.arange(LARGE_COUNT, dtype=np.float32)
    check_equal(at.client.infer("identity_fp32", [tensor(at.api, "INPUT", values, "FP32")]).as_numpy("OUTPUT"), values)


def infer_sequences(at):
    """infer with sequence_id, sequence_start and sequence_end"""
    for model, sequence_id in sequences():
        for index, (inputs, flags) in enumerate(steps(at.api)):
            check_sum(at.client.infer(model, inputs, sequence_id=sequence_id, **flags), index)
