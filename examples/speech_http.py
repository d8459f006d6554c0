#!/usr/bin/env python3
"""Segments of speech in a file, asked for over HTTP by Triton's client, one frame after the other:

  python examples/speech_http.py [HOST:PORT [FILE]]      (pip install tritonclient[http])
"""
import sys
import uuid

import tritonclient.http as http

from speech import SPEECH_FILE, print_segments, read_frames


def probabilities(client, frames):
    # The server keeps what the model remembers under this id, from the first frame to the last.
    sequence_id = str(uuid.uuid4())
    for index, frame in enumerate(frames):
        audio = http.InferInput("audio", frame.shape, "FP32")
        audio.set_data_from_numpy(frame)
        result = client.infer("silero_vad", [audio], sequence_id=sequence_id, sequence_start=index == 0,
                              sequence_end=index == len(frames) - 1)
        yield result.as_numpy("output")[0, 0]


def main(address="localhost:8000", file=SPEECH_FILE):
    with http.InferenceServerClient(address) as client:
        print_segments(probabilities(client, read_frames(file)))


if __name__ == "__main__":
    main(*sys.argv[1:])
