"""What the examples share: sound out of a file in frames, and segments of speech out of probabilities."""
import wave
from pathlib import Path

import numpy as np

SPEECH_FILE = Path(__file__).with_name("speech.wav")

# The model's: 32 ms at 16 kHz.
SAMPLE_RATE_HZ = 16_000
FRAME_SAMPLES = 512
FRAME_S = FRAME_SAMPLES / SAMPLE_RATE_HZ

# Speech begins in a frame that is above the first, and is over once this many frames are below the second.
SPEECH_MIN = 0.5
SILENCE_MAX = 0.35
PAUSE_FRAMES = 4


def read_frames(file):
    """The frames of a WAV file (mono, 16 bits, 16 kHz), each [1, 512] from -1 to 1; the last is filled up with zeros."""
    with wave.open(str(file)) as sound:
        found = (sound.getnchannels(), sound.getsampwidth(), sound.getframerate())
        if found != (1, 2, SAMPLE_RATE_HZ):
            raise ValueError("%s is not mono, 16 bits, 16 kHz" % file)
        samples = np.frombuffer(sound.readframes(sound.getnframes()), np.int16).astype(np.float32) / 32_768
    samples = np.pad(samples, (0, -len(samples) % FRAME_SAMPLES))
    return samples.reshape(-1, 1, FRAME_SAMPLES)


def print_segments(probabilities):
    """Prints each segment of speech once it has ended; the probabilities are of the frames in their order."""
    begin = None
    end = 0
    for frame, probability in enumerate(probabilities):
        if probability >= SPEECH_MIN and begin is None:
            begin = frame
        if probability >= SILENCE_MAX:
            end = frame + 1
        if begin is not None and frame + 1 - end >= PAUSE_FRAMES:
            print_segment(begin, end)
            begin = None
    if begin is not None:
        print_segment(begin, end)


def print_segment(begin, end):
    print("speech from %.2f to %.2f s" % (begin * FRAME_S, end * FRAME_S), flush=True)
