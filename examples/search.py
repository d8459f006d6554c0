#!/usr/bin/env python3
"""Which of some sentences answer a question, by their meaning, asked with Triton's client:

  python examples/search.py [HOST:PORT [QUESTION]]      (pip install tritonclient[http])
"""
import sys

import numpy as np
import tritonclient.http as http

SENTENCES = [
    "Our bakery sells sourdough bread and rye rolls.",
    "The ferry to the island sails every two hours.",
    "Cats and dogs are examined without an appointment.",
    "The central bank raised interest rates again.",
    "Bicycles may be taken on trains at weekends.",
    "The museum opens at nine and closes at six.",
]


def embed(client, texts):
    """One vector of length 1 for each text; at most 8 texts at a time."""
    text = http.InferInput("TEXT", [len(texts), 1], "BYTES")
    text.set_data_from_numpy(np.array([[one.encode()] for one in texts], dtype=object))
    return client.infer("minilm_embedding", [text]).as_numpy("EMBEDDING")


def main(address="localhost:8000", question="When does the boat leave?"):
    with http.InferenceServerClient(address) as client:
        # Of vectors of length 1 the product is their cosine: 1 for the same meaning, about 0 for nothing in common.
        nearness = embed(client, SENTENCES) @ embed(client, [question])[0]
    for index in np.argsort(-nearness)[:3]:
        print("%.2f %s" % (nearness[index], SENTENCES[index]))


if __name__ == "__main__":
    main(*sys.argv[1:])
