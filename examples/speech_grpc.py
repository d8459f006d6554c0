#!/usr/bin/env python3
"""Segments of speech in a file, sent as one gRPC stream by Triton's client; frames do not wait for each other's answers:

  python examples/speech_grpc.py [HOST:PORT [FILE]]      (pip install tritonclient[grpc])
"""
import queue
import sys
import uuid

import tritonclient.grpc as grpc

from speech import SPEECH_FILE, print_segments, read_frames


def probabilities(client, frames):
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    sequence_id = str(uuid.uuid4())
    for index, frame in enumerate(frames):
        audio = grpc.InferInput("audio", frame.shape, "FP32")
        audio.set_data_from_numpy(frame)
        client.async_stream_infer("silero_vad", [audio], sequence_id=sequence_id, sequence_start=index == 0,
                                  sequence_end=index == len(frames) - 1)
    for _ in frames:
        result, error = answers.get()
        if error is not None:
            raise error
        yield result.as_numpy("output")[0, 0]
    client.stop_stream()


def main(address="localhost:8001", file=SPEECH_FILE):
    with grpc.InferenceServerClient(address) as client:
        print_segments(probabilities(client, read_frames(file)))


if __name__ == "__main__":
    main(*sys.argv[1:])
