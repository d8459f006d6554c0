#!/usr/bin/env python3
"""The text in a picture of one line, read with Triton's client:

  python examples/read_line.py [HOST:PORT [FILE]]      (PNG or JPEG; pip install tritonclient[http])
"""
import sys
from pathlib import Path

import numpy as np
import tritonclient.http as http


def main(address="localhost:8000", file=Path(__file__).with_name("line.png")):
    image = http.InferInput("IMAGE", [1, 1], "BYTES")
    image.set_data_from_numpy(np.array([[Path(file).read_bytes()]], dtype=object))
    with http.InferenceServerClient(address) as client:
        result = client.infer("ocr_line", [image])
    print("%s (%.2f)" % (result.as_numpy("TEXT")[0, 0].decode(), result.as_numpy("SCORE")[0, 0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
