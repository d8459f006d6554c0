"""An ONNX file with onnxruntime, one thread; the requests of a batch are joined for one run, as one would write it."""
import json
import os

import numpy
import onnxruntime
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        path = os.path.join(args["model_repository"], args["model_version"], "model.onnx")
        self.session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        config = json.loads(args["model_config"])
        self.inputs = [each["name"] for each in config["input"]]
        self.outputs = [each["name"] for each in config["output"]]

    def execute(self, requests):
        asked = [[self.read(request, name) for name in self.inputs] for request in requests]
        if len(asked) == 1:
            joined = asked[0]
        else:
            joined = [numpy.concatenate(parts) for parts in zip(*asked)]
        values = self.session.run(self.outputs, dict(zip(self.inputs, joined)))
        responses = []
        begin = 0
        for inputs in asked:
            end = begin + len(inputs[0])
            rows = [value[begin:end] for value in values]
            begin = end
            tensors = [pb_utils.Tensor(name, row) for name, row in zip(self.outputs, rows)]
            responses.append(pb_utils.InferenceResponse(tensors))
        return responses

    @staticmethod
    def read(request, name):
        return pb_utils.get_input_tensor_by_name(request, name).as_numpy()
