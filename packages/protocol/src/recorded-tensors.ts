import type { RecordedAnswer, RecordedStep, RecordedTensor } from './recorded.ts';

/** All tensors of a step: its inputs, then the outputs of its answers. */
export function recordedTensors({ request, answers }: RecordedStep): readonly RecordedTensor[] {
  return [...request.inputs, ...answers.flatMap((answer) => (answer.ok ? answer.outputs : []))];
}

/** The step with each of its tensors changed. */
export function withRecordedTensors(
  step: RecordedStep,
  change: (tensor: RecordedTensor) => RecordedTensor,
): RecordedStep {
  const changed = (answer: RecordedAnswer): RecordedAnswer =>
    answer.ok ? { ...answer, outputs: answer.outputs.map(change) } : answer;
  const request = { ...step.request, inputs: step.request.inputs.map(change) };
  return { ...step, request, answers: step.answers.map(changed) };
}

/** Bytes of the data that a step has with it. */
export function recordedBytes(step: RecordedStep): number {
  return recordedTensors(step).reduce((bytes, { data }) => bytes + (data?.byteLength ?? 0), 0);
}
