#!/usr/bin/env python3
"""Writes the model repositories repo/onnx and repo/broken_onnx. Needs the package onnx.

A model without a graph is one that a graph cannot be; its cases ask for the python variant.
"""
import shutil
import sys
from pathlib import Path

from kit import venv

venv.enter()
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

HERE = Path(__file__).resolve().parent
OPSET, IR_VERSION = 17, 8

ELEMENT = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8, "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32, "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8, "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32, "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16, "FP32": TensorProto.FLOAT, "FP64": TensorProto.DOUBLE,
    "STRING": TensorProto.STRING,
}


# --- ONNX graphs -----------------------------------------------------------

def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def constant(name, values, dtype):
    return numpy_helper.from_array(np.array(values, dtype), name)


def tensor(name, datatype, *shape):
    return helper.make_tensor_value_info(name, ELEMENT[datatype], list(shape))


def model(nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "model", inputs, outputs, list(constants))
    built = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="oracle")
    built.ir_version = IR_VERSION
    onnx.checker.check_model(built)
    return built


def onnx_identity(datatype, *shape):
    return model([node("Identity", "INPUT", "OUTPUT")],
                 [tensor("INPUT", datatype, *shape)], [tensor("OUTPUT", datatype, *shape)])


def onnx_add_sub(datatype, *shape):
    return model(
        [node("Add", "INPUT0 INPUT1", "OUTPUT0"), node("Sub", "INPUT0 INPUT1", "OUTPUT1")],
        [tensor("INPUT0", datatype, *shape), tensor("INPUT1", datatype, *shape)],
        [tensor("OUTPUT0", datatype, *shape), tensor("OUTPUT1", datatype, *shape)])


def onnx_classifier():
    return model(
        [node("Identity", "SCORES", "LABELLED"), node("Neg", "SCORES", "UNLABELLED")],
        [tensor("SCORES", "FP32", "N", 4)],
        [tensor("LABELLED", "FP32", "N", 4), tensor("UNLABELLED", "FP32", "N", 4)])


def onnx_accumulator(with_key):
    nodes = [node("Sub", "one START", "keep"), node("Mul", "STATE_IN keep", "before"),
             node("Add", "INPUT before", "OUTPUT"), node("Identity", "OUTPUT", "STATE_OUT"),
             node("Concat", "START END READY", "FLAGS", axis=1)]
    inputs = [tensor(name, "INT32", "N", 1) for name in ("INPUT", "START", "END", "READY", "STATE_IN")]
    outputs = [tensor("OUTPUT", "INT32", "N", 1), tensor("FLAGS", "INT32", "N", 3),
               tensor("STATE_OUT", "INT32", "N", 1)]
    if with_key:
        nodes.append(node("Identity", "CORRID", "SEQUENCE"))
        inputs.append(tensor("CORRID", "UINT64", "N", 1))
        outputs.append(tensor("SEQUENCE", "UINT64", "N", 1))
    return model(nodes, inputs, outputs, [constant("one", [[1]], np.int32)])


def onnx_recorder():
    return model(
        [node("Shape", "VALUE", "shape"), node("Slice", "shape from to", "count"),
         node("Cast", "count", "rows", to=TensorProto.INT32),
         node("Expand", "rows shape", "ROWS"),
         node("ReduceSum", "VALUE axes", "total", keepdims=1), node("Expand", "total shape", "SUM"),
         node("Identity", "VALUE", "ECHO")],
        [tensor("VALUE", "INT32", "N", 1)],
        [tensor(name, "INT32", "N", 1) for name in ("ROWS", "SUM", "ECHO")],
        [constant("from", [0], np.int64), constant("to", [1], np.int64),
         constant("axes", [0], np.int64)])


def onnx_versioned(version):
    return model([node("Mul", "INPUT factor", "OUTPUT")],
                 [tensor("INPUT", "INT32", 2)], [tensor("OUTPUT", "INT32", 2)],
                 [constant("factor", [version], np.int32)])


def onnx_optional_inputs():
    # INPUT1 is optional by its initializer, a default value that a feed overrides.
    return model([node("Add", "INPUT0 INPUT1", "OUTPUT")],
                 [tensor("INPUT0", "INT32", 4), tensor("INPUT1", "INT32", 4)],
                 [tensor("OUTPUT", "INT32", 4)], [constant("INPUT1", [0] * 4, np.int32)])


def onnx_reshaped():
    return model(
        [node("Identity", "INPUT0", "OUTPUT0"), node("Identity", "INPUT1", "OUTPUT1"),
         node("Shape", "INPUT0", "matrix"), node("Shape", "INPUT1", "vector"),
         node("Shape", "vector", "rank"), node("Concat", "matrix rank", "row", axis=0),
         node("Concat", "vector three", "seen", axis=0), node("Expand", "row seen", "SEEN")],
        [tensor("INPUT0", "FP32", "N", 4), tensor("INPUT1", "FP32", "N")],
        [tensor("OUTPUT0", "FP32", "N", 4), tensor("OUTPUT1", "FP32", "N"),
         tensor("SEEN", "INT64", "N", 3)],
        [constant("three", [3], np.int64)])


def onnx_fail_execute():
    return model([node("Reshape", "INPUT three", "OUTPUT")],
                 [tensor("INPUT", "INT32", "N")], [tensor("OUTPUT", "INT32", 3)],
                 [constant("three", [3], np.int64)])


def onnx_nan_inf():
    return model([node("Concat", "special INPUT", "OUTPUT", axis=0)],
                 [tensor("INPUT", "FP32", 1)], [tensor("OUTPUT", "FP32", 4)],
                 [constant("special", [np.nan, np.inf, -np.inf], np.float32)])


def onnx_text():
    return model([node("Identity", "text_input", "text_output")],
                 [tensor("text_input", "STRING", 1)], [tensor("text_output", "STRING", 1)])


# --- Configurations --------------------------------------------------------

def entry(name, datatype, *dims, **more):
    """One element of an input, output or state list."""
    fields = ['name: "%s"' % name, "data_type: TYPE_" + datatype, "dims: [ %s ]" % dimensions(dims)]
    fields += ["%s: %s" % field for field in more.items()]
    return "  { %s }" % ", ".join(fields)


def dimensions(dims):
    return ", ".join(str(dim) for dim in dims)


def config(name, backend, batch, inputs, outputs, extra=""):
    lines = ['name: "%s"' % name, 'backend: "%s"' % backend, "max_batch_size: %d" % batch]
    lines += ["input [", ",\n".join(inputs), "]", "output [", ",\n".join(outputs), "]"]
    lines.append("instance_group [ { count: 1, kind: KIND_CPU } ]")
    return "\n".join(lines) + "\n" + extra.strip("\n") + ("\n" if extra else "")


def control(name, kind, values):
    return '    { name: "%s", control [ { kind: CONTROL_SEQUENCE_%s, %s } ] }' % (name, kind, values)


def sequence(strategy, with_key, idle_us, initial_state=""):
    controls = [control(kind, kind, "int32_false_true: [ 0, 1 ]") for kind in ("START", "END", "READY")]
    if with_key:
        controls.append(control("CORRID", "CORRID", "data_type: TYPE_UINT64"))
    return """
sequence_batching {
  max_sequence_idle_microseconds: %d
  control_input [
%s
  ]
  state [
    { input_name: "STATE_IN", output_name: "STATE_OUT", data_type: TYPE_INT32, dims: [ 1 ]%s }
  ]
  %s
}
""" % (idle_us, ",\n".join(controls), initial_state, strategy)


ZERO_STATE = ', initial_state { name: "zero", data_type: TYPE_INT32, dims: [ 1 ], zero_data: true }'


def batching(body):
    return "dynamic_batching {\n%s\n}\n" % "\n".join("  " + line.strip() for line in body.strip().split("\n"))


# --- The models ------------------------------------------------------------

class Repository:
    def __init__(self):
        for name in ("onnx", "broken_onnx"):
            shutil.rmtree(HERE / "repo" / name, ignore_errors=True)

    def add(self, name, graph, batch, inputs, outputs, extra="",
            versions=(1,), labels=None, folder="onnx"):
        """graph: an ONNX model, a function of the version, or raw bytes."""
        target = HERE / "repo" / folder / name
        target.mkdir(parents=True)
        (target / "config.pbtxt").write_text(config(name, "onnxruntime", batch, inputs, outputs, extra))
        if labels:
            (target / "labels.txt").write_text("\n".join(labels) + "\n")
        for version in versions:
            built = graph(version) if callable(graph) else graph
            data = built if isinstance(built, bytes) else built.SerializeToString()
            (target / str(version)).mkdir()
            (target / str(version) / "model.onnx").write_bytes(data)

    def add_ensemble(self, name, text):
        folder = HERE / "repo" / "onnx" / name
        (folder / "1").mkdir(parents=True)
        (folder / "1" / ".keep").write_text("")
        (folder / "config.pbtxt").write_text(text.lstrip("\n"))


def plain_models(repo):
    pair = lambda datatype, *dims: (
        [entry("INPUT0", datatype, *dims), entry("INPUT1", datatype, *dims)],
        [entry("OUTPUT0", datatype, *dims), entry("OUTPUT1", datatype, *dims)])
    single = lambda datatype, *dims: (
        [entry("INPUT", datatype, *dims)], [entry("OUTPUT", datatype, *dims)])

    repo.add("add_sub", onnx_add_sub("FP32", 4), 0, *pair("FP32", 4))
    repo.add("simple", onnx_add_sub("INT32", "N", 16), 8, *pair("INT32", 16))
    repo.add("simple_cached", onnx_add_sub("INT32", "N", 16), 8, *pair("INT32", 16),
             extra="response_cache { enable: true }\n")
    repo.add("simple_unloaded", onnx_add_sub("INT32", "N", 16), 8, *pair("INT32", 16))
    for datatype in ELEMENT:
        suffix = "bytes" if datatype == "STRING" else datatype.lower()
        repo.add("identity_" + suffix, onnx_identity(datatype, "n"), 0,
                 *single(datatype, -1))
    repo.add("identity_2d", onnx_identity("FP32", "rows", "columns"), 0,
             *single("FP32", -1, -1))
    repo.add("identity_batched_bytes", onnx_identity("STRING", "N", "n"), 4,
             *single("STRING", -1))
    repo.add("identity_batched_fp32", onnx_identity("FP32", "N", "rows", 2), 4,
             *single("FP32", -1, 2))
    repo.add("classifier", onnx_classifier(), 4,
             [entry("SCORES", "FP32", 4)],
             [entry("LABELLED", "FP32", 4, label_filename='"labels.txt"'),
              entry("UNLABELLED", "FP32", 4)],
             labels=["apple", "pear", "plum", "cherry"])
    repo.add("optional_inputs", onnx_optional_inputs(), 0,
             [entry("INPUT0", "INT32", 4), entry("INPUT1", "INT32", 4, optional="true")],
             [entry("OUTPUT", "INT32", 4)])
    repo.add("reshaped", onnx_reshaped(), 8,
             [entry("INPUT0", "FP32", 2, 2, reshape="{ shape: [ 4 ] }"),
              entry("INPUT1", "FP32", 1, reshape="{ shape: [ ] }")],
             [entry("OUTPUT0", "FP32", 2, 2, reshape="{ shape: [ 4 ] }"),
              entry("OUTPUT1", "FP32", 1, reshape="{ shape: [ ] }"),
              entry("SEEN", "INT64", 3)])
    repo.add("fail_execute", onnx_fail_execute(), 0,
             [entry("INPUT", "INT32", -1)], [entry("OUTPUT", "INT32", 3)])
    repo.add("nan_inf", onnx_nan_inf(), 0,
             [entry("INPUT", "FP32", 1)], [entry("OUTPUT", "FP32", 4)])
    repo.add("text", onnx_text(), 0,
             [entry("text_input", "STRING", 1)], [entry("text_output", "STRING", 1)])
    repo.add("broken", b"this is not an ONNX model\n", 0, *single("INT32", 1),
             folder="broken_onnx")


def sequence_models(repo):
    def add(name, batch, strategy, with_key=True, idle_us=10_000_000, initial_state=""):
        outputs = [entry("OUTPUT", "INT32", 1), entry("FLAGS", "INT32", 3)]
        if with_key:
            outputs.append(entry("SEQUENCE", "UINT64", 1))
        repo.add(name, onnx_accumulator(with_key), batch,
                 [entry("INPUT", "INT32", 1)], outputs,
                 extra=sequence(strategy, with_key, idle_us, initial_state))

    add("sequence_direct", 4, "direct { }")
    add("sequence_oldest", 4, "oldest { max_candidate_sequences: 4 }", initial_state=ZERO_STATE)
    add("sequence_text", 4, "direct { }", with_key=False)
    add("sequence_idle", 2, "direct { }", idle_us=400_000)
    add("sequence_single", 1, "direct { }")


def batching_models(repo):
    def add(name, body, batch=8):
        repo.add(name, onnx_recorder(), batch,
                 [entry("VALUE", "INT32", 1)],
                 [entry(output, "INT32", 1) for output in ("ROWS", "SUM", "ECHO")],
                 extra=batching(body))

    add("batch_preferred", """
        preferred_batch_size: [ 4 ]
        max_queue_delay_microseconds: 1000000""")
    add("batch_delay", "max_queue_delay_microseconds: 400000")
    add("batch_ordered", """
        preferred_batch_size: [ 4 ]
        max_queue_delay_microseconds: 500000
        preserve_ordering: true""")
    add("batch_priority", """
        preferred_batch_size: [ 4 ]
        max_queue_delay_microseconds: 600000
        priority_levels: 3
        default_priority_level: 2""", batch=4)
    add("batch_full", """
        preferred_batch_size: [ 8 ]
        max_queue_delay_microseconds: 800000
        default_queue_policy { max_queue_size: 2 }""")
    add("batch_timeout", """
        preferred_batch_size: [ 8 ]
        max_queue_delay_microseconds: 1500000
        default_queue_policy {
        timeout_action: REJECT
        default_timeout_microseconds: 200000
        allow_timeout_override: true
        }""")
    add("batch_fixed_timeout", """
        preferred_batch_size: [ 8 ]
        max_queue_delay_microseconds: 800000
        default_queue_policy {
        timeout_action: REJECT
        default_timeout_microseconds: 200000
        allow_timeout_override: false
        }""")
    add("batch_timeout_delay", """
        preferred_batch_size: [ 8 ]
        max_queue_delay_microseconds: 800000
        default_queue_policy {
        timeout_action: DELAY
        default_timeout_microseconds: 200000
        }""")

def version_models(repo):
    for name, policy in (
            ("versions_default", ""),
            ("versions_latest_two", "version_policy { latest { num_versions: 2 } }\n"),
            ("versions_all", "version_policy { all { } }\n"),
            ("versions_specific", "version_policy { specific { versions: [ 1, 3 ] } }\n")):
        repo.add(name, onnx_versioned, 0,
                 [entry("INPUT", "INT32", 2)], [entry("OUTPUT", "INT32", 2)],
                 extra=policy, versions=(1, 2, 3))


def ensemble_models(repo):
    step = """
      {
        model_name: "%s", model_version: -1
        input_map { key: "INPUT0", value: "%s" }
        input_map { key: "INPUT1", value: "%s" }
        output_map { key: "OUTPUT0", value: "%s" }
        output_map { key: "OUTPUT1", value: "%s" }
      }"""
    text = """
name: "%s"
platform: "ensemble"
max_batch_size: %d
input [
%s
]
output [
%s
]
ensemble_scheduling {
    step [%s
    ]
}
"""
    tensors = lambda kind, datatype, dims: ",\n".join(
        entry(kind + digit, datatype, dims) for digit in "01")
    double = ",".join([step % ("simple", "INPUT0", "INPUT1", "sum", "difference"),
                       step % ("simple", "sum", "difference", "OUTPUT0", "OUTPUT1")])
    repo.add_ensemble("ensemble_double", text % (
        "ensemble_double", 8, tensors("INPUT", "INT32", 16), tensors("OUTPUT", "INT32", 16), double))
    failing = """
      {
        model_name: "identity_int32", model_version: -1
        input_map { key: "INPUT", value: "INPUT" }
        output_map { key: "OUTPUT", value: "same" }
      },
      {
        model_name: "fail_execute", model_version: -1
        input_map { key: "INPUT", value: "same" }
        output_map { key: "OUTPUT", value: "OUTPUT" }
      }"""
    repo.add_ensemble("ensemble_failing", text % (
        "ensemble_failing", 0, entry("INPUT", "INT32", -1), entry("OUTPUT", "INT32", 3), failing))


def main():
    repo = Repository()
    for family in (plain_models, sequence_models, batching_models,
                   version_models, ensemble_models):
        family(repo)
    for folder in sorted((HERE / "repo").iterdir()):
        print("%s: %d models" % (folder.name, len(list(folder.iterdir()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
