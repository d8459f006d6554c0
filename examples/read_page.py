#!/usr/bin/env python3
"""The lines of text on a page, and where they are, read with Triton's client:

  python examples/read_page.py [HOST:PORT [FILE]]      (PNG or JPEG; pip install tritonclient[http])
"""
import sys
from pathlib import Path

import numpy as np
import tritonclient.http as http


def main(address="localhost:8000", file=Path(__file__).with_name("page.png")):
    image = http.InferInput("IMAGE", [1], "BYTES")
    image.set_data_from_numpy(np.array([Path(file).read_bytes()], dtype=object))
    with http.InferenceServerClient(address) as client:
        result = client.infer("ocr_page", [image])
    for text, box in zip(result.as_numpy("TEXT"), result.as_numpy("BOX")):
        print("%d,%d %dx%d %s" % (*box, text.decode()))


if __name__ == "__main__":
    main(*sys.argv[1:])
