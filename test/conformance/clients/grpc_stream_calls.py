"""Streams of tritonclient.grpc: start_stream, async_stream_infer, stop_stream."""
from contextlib import contextmanager

import numpy as np
import tritonclient.grpc as grpc

from .fixtures import (
    WAIT_S, check_equal, check_error, check_simple, check_sum, number, sequences, simple_inputs, steps, tensor)
from .grpc_calls import UNKNOWN, Inbox, connect

LONG_DELAY_MS = 200
STREAM_TIMEOUT_S = 0.5


@contextmanager
def stream(at, **options):
    """A client of its own with a stream: its requests go by the first, its answers come into the second."""
    with connect(at.grpc) as client:
        inbox = Inbox()
        client.start_stream(inbox.put, **options)
        try:
            yield client, inbox
        finally:
            client.stop_stream()


def values(elements, delay_ms=0, fail_at=None):
    """Inputs of the model repeat."""
    inputs = [tensor(grpc, "VALUES", np.array(elements, np.int32), "INT32")]
    if delay_ms:
        inputs.append(tensor(grpc, "DELAY_MS", np.array([delay_ms], np.uint32), "UINT32"))
    if fail_at is not None:
        inputs.append(number(grpc, fail_at, "FAIL_AT"))
    return inputs


def check_answer(result, value, index, request_id=""):
    check_equal(result.as_numpy("VALUE"), np.array([value], np.int32))
    check_equal(result.as_numpy("INDEX"), np.array([index], np.uint32))
    assert result.get_response().id == request_id, result.get_response()


def is_final(result):
    return result.get_response().parameters["triton_final_response"].bool_param


def in_order(at):
    """a stream answers plain models in the order of the requests, each as the final one"""
    with stream(at) as (client, inbox):
        for index in range(16):
            client.async_stream_infer("simple", simple_inputs(grpc), request_id=str(index))
        for index in range(16):
            result = inbox.result()
            assert result.get_response().id == str(index) and is_final(result), result.get_response()
            check_simple(result)
    assert inbox.given.empty()


def many_answers(at):
    """a stream gives every answer of a decoupled model"""
    with stream(at) as (client, inbox):
        client.async_stream_infer("repeat", values([4, 5, 6]), request_id="d-1")
        for index, value in enumerate([4, 5, 6]):
            result = inbox.result()
            check_answer(result, value, index, "d-1")
            assert not is_final(result)
    assert inbox.given.empty()


def final_answer(at):
    """enable_empty_final_response: an empty answer, marked as the final one, ends them"""
    with stream(at) as (client, inbox):
        client.async_stream_infer("repeat", values([7]), request_id="d-2", enable_empty_final_response=True)
        check_answer(inbox.result(), 7, 0, "d-2")
        last = inbox.result()
        assert is_final(last) and len(last.get_response().outputs) == 0 and last.get_response().id == "d-2"
    assert inbox.given.empty()


def no_answer(at):
    """a stream of no answers at all"""
    with stream(at) as (client, inbox):
        client.async_stream_infer("repeat", values([]))
    assert inbox.given.empty()


def some_outputs(at):
    """outputs and parameters of a streamed request"""
    with stream(at) as (client, inbox):
        client.async_stream_infer("repeat", values([7]), outputs=[grpc.InferRequestedOutput("INDEX")],
                                  parameters={"colour": "red"}, priority=1, timeout=1_000_000)
        assert [one.name for one in inbox.result().get_response().outputs] == ["INDEX"]


def errors_within(at):
    """errors leave the stream open: before the queue, and among the answers"""
    with stream(at) as (client, inbox):
        client.async_stream_infer("missing", simple_inputs(grpc))
        error = inbox.error()
        assert error.message() == UNKNOWN and error.status() is None, error
        client.async_stream_infer("repeat", values([4, 5, 6], fail_at=1))
        check_answer(inbox.result(), 4, 0)
        assert inbox.error().message() == "failed at index 1"
        check_answer(inbox.result(), 6, 2)
        client.async_stream_infer("simple", simple_inputs(grpc), request_id="after")
        check_simple(inbox.result())


def error_mode(at):
    """the header triton_grpc_error: a model's error ends the stream with its status"""
    with stream(at, headers={"triton_grpc_error": "true"}) as (client, inbox):
        client.async_stream_infer("fail_request", [number(grpc, 3)])
        check_error(inbox.error(), "StatusCode.INVALID_ARGUMENT", "odd input")


def stopped(at):
    """stop_stream waits for the answers that are on their way"""
    with stream(at) as (client, inbox):
        client.async_stream_infer("repeat", values([1, 2], delay_ms=100))
        client.stop_stream()
        assert inbox.given.qsize() == 2
        check_answer(inbox.result(), 1, 0)
        check_answer(inbox.result(), 2, 1)


def cancelled(at):
    """stop_stream(cancel_requests=True) ends it at once, and the server goes on"""
    with stream(at) as (client, inbox):
        client.async_stream_infer("repeat", values(range(20), delay_ms=LONG_DELAY_MS))
        check_answer(inbox.result(), 0, 0)
        client.stop_stream(cancel_requests=True)
        while not inbox.given.empty():
            result, error = inbox.given.get()
            if error is not None:
                check_error(error, "StatusCode.CANCELLED", "Locally cancelled by application!")
        # The model has one instance, which must come free.
        client.start_stream(inbox.put)
        client.async_stream_infer("repeat", values([8]), request_id="next")
        check_answer(inbox.result(), 8, 0, "next")


def timed_out(at):
    """stream_timeout ends it with its status"""
    with stream(at, stream_timeout=STREAM_TIMEOUT_S) as (client, inbox):
        client.async_stream_infer("repeat", values(range(20), delay_ms=LONG_DELAY_MS))
        check_answer(inbox.result(), 0, 0)
        result, error = inbox.given.get(timeout=WAIT_S)
        while error is None:
            result, error = inbox.given.get(timeout=WAIT_S)
        check_error(error, "StatusCode.DEADLINE_EXCEEDED", "Deadline Exceeded")


def compressed(at):
    """streams compressed by each algorithm"""
    for algorithm in ("gzip", "deflate"):
        with stream(at, compression_algorithm=algorithm) as (client, inbox):
            client.async_stream_infer("simple", simple_inputs(grpc))
            check_simple(inbox.result())


def two_clients(at):
    """streams of two clients do not mix"""
    with stream(at) as (left, lefts), stream(at) as (right, rights):
        for index in range(8):
            left.async_stream_infer("repeat", values([index]), request_id="left")
            right.async_stream_infer("repeat", values([-index]), request_id="right")
        for index in range(8):
            check_answer(lefts.result(), index, 0, "left")
            check_answer(rights.result(), -index, 0, "right")


def sequence_steps(at):
    """the steps of a sequence follow each other on a stream without waiting"""
    for model, sequence_id in sequences():
        with stream(at) as (client, inbox):
            sent = list(steps(grpc))
            for inputs, flags in sent:
                client.async_stream_infer(model, inputs, sequence_id=sequence_id, **flags)
            for index in range(len(sent)):
                check_sum(inbox.result(), index)


CALLS = [in_order, many_answers, final_answer, no_answer, some_outputs, errors_within, error_mode, stopped,
         cancelled, timed_out, compressed, two_clients, sequence_steps]
