"""BENCH_MODELS=DIR mosec_server.py --port PORT: the bench's add_sub and mlp behind mosec, one worker each, one thread.

/add_sub/json and /mlp/json take JSON, mosec's default; /add_sub/msgpack and /mlp/msgpack its MessagePack mixin, with
tensors as raw bytes.
"""
import os

import numpy
import onnxruntime
from mosec import Runtime, Server, Worker
from mosec.mixin import MsgpackMixin

BATCH_MAX = 16
# The shortest that mosec takes.
WAIT_MS = 1


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    path = f"{os.environ['BENCH_MODELS']}/{model}/1/model.onnx"
    return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])


class AddSub(Worker):
    """The graph has no batch dimension: one request, one run."""

    def __init__(self):
        self.session = session("add_sub")

    def forward(self, data):
        inputs = {name: self.read(data[name]) for name in ("INPUT0", "INPUT1")}
        outputs = self.session.run(["OUTPUT0", "OUTPUT1"], inputs)
        return {"OUTPUT0": self.write(outputs[0]), "OUTPUT1": self.write(outputs[1])}

    read = staticmethod(lambda values: numpy.asarray(values, numpy.float32))
    write = staticmethod(lambda values: values.tolist())


class Mlp(Worker):
    def __init__(self):
        self.session = session("mlp")

    def forward(self, data):
        rows = numpy.stack([self.read(item["X"]) for item in data])
        return [{"Y": self.write(row)} for row in self.session.run(["Y"], {"X": rows})[0]]

    read = staticmethod(lambda values: numpy.asarray(values, numpy.float32))
    write = staticmethod(lambda values: values.tolist())


class AddSubMsgpack(MsgpackMixin, AddSub):
    read = staticmethod(lambda values: numpy.frombuffer(values, numpy.float32))
    write = staticmethod(lambda values: values.tobytes())


class MlpMsgpack(MsgpackMixin, Mlp):
    read = staticmethod(lambda values: numpy.frombuffer(values, numpy.float32))
    write = staticmethod(lambda values: values.tobytes())


if __name__ == "__main__":
    batched = {"max_batch_size": BATCH_MAX, "max_wait_time": WAIT_MS}
    server = Server()
    server.register_runtime(
        {
            "/add_sub/json": [Runtime(AddSub)],
            "/add_sub/msgpack": [Runtime(AddSubMsgpack)],
            "/mlp/json": [Runtime(Mlp, **batched)],
            "/mlp/msgpack": [Runtime(MlpMsgpack, **batched)],
        }
    )
    server.run()
