"""litserve_server.py PORT MODELS: the bench's add_sub and mlp behind LitServe, one worker each, one thread."""
import sys

import litserve
import numpy
import onnxruntime


def session(folder, model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(f"{folder}/{model}/1/model.onnx", options, ["CPUExecutionProvider"])


class AddSub(litserve.LitAPI):
    """The graph has no batch dimension: one request, one run."""

    def setup(self, device):
        self.session = session(sys.argv[2], "add_sub")

    def decode_request(self, request):
        return {name: numpy.asarray(request[name], numpy.float32) for name in ("INPUT0", "INPUT1")}

    def predict(self, inputs):
        return self.session.run(["OUTPUT0", "OUTPUT1"], inputs)

    def encode_response(self, outputs):
        return {"OUTPUT0": outputs[0].tolist(), "OUTPUT1": outputs[1].tolist()}


class Mlp(litserve.LitAPI):
    def setup(self, device):
        self.session = session(sys.argv[2], "mlp")

    def decode_request(self, request):
        return numpy.asarray(request["X"], numpy.float32)

    def batch(self, inputs):
        return numpy.stack(inputs)

    def predict(self, inputs):
        return self.session.run(["Y"], {"X": inputs})[0]

    def unbatch(self, outputs):
        return list(outputs)

    def encode_response(self, output):
        return {"Y": output.tolist()}


if __name__ == "__main__":
    apis = [
        AddSub(api_path="/add_sub"),
        # Of waiting 0 or 1 ms, with the queue over ZeroMQ or without, this answered the most requests here.
        Mlp(api_path="/mlp", max_batch_size=16, batch_timeout=0.001),
    ]
    server = litserve.LitServer(apis, accelerator="cpu", devices=1, workers_per_device=1, fast_queue=True)
    server.run(
        host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", generate_client_file=False, num_api_servers=1
    )
