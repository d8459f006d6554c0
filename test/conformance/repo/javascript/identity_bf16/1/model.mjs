/** Repeats its input: an ONNX model cannot, for the engine's binding has no BF16. */
export function execute(requests) {
  return requests.map(({ inputs }) => ({ outputs: { OUTPUT: inputs.get('INPUT') } }));
}
