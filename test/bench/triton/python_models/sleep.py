"""Sleeps 10 ms for the whole batch, then gives every value back."""
import time

import triton_python_backend_utils as pb_utils

SLEEP_S = 0.010


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(SLEEP_S)
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("VALUE", pb_utils.get_input_tensor_by_name(request, "VALUE").as_numpy())]
            )
            for request in requests
        ]
