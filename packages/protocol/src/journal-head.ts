/**
 * The head of a step's frame, written by hand: a busy worker records ten thousand steps a second beside what they are of,
 * and JSON.stringify, with the objects that it would need, takes three times as long.
 */
import type { Parameters } from './infer.ts';
import type { RecordedAnswer, RecordedRequest, RecordedStep, RecordedTensor } from './recorded.ts';

type Apart = ((tensor: RecordedTensor) => string | undefined) | undefined;

/** JSON; `data` gets what the frame is to hold behind it. `apart` as in `encodeStepFrame`. */
export function stepHead(step: RecordedStep, data: Uint8Array[], apart: Apart): string {
  const { token, request, worker, instance, slot, batchSize, receivedMs, timing, effect, answers } = step;
  const { waitNs, inputNs, inferNs, outputNs } = timing;
  const version = `"modelVersion":${quoted(step.modelVersion)},"configSha256":${quoted(step.configSha256)},"contentHash":${quoted(step.contentHash)}`;
  const place = `"worker":${quoted(worker)},"instance":${instance},"slot":${slot},"batchSize":${batchSize}`;
  const time = `"receivedMs":${receivedMs},"timing":{"waitNs":${waitNs},"inputNs":${inputNs},"inferNs":${inferNs},"outputNs":${outputNs}}`;
  // Tensors lie in this order.
  const asked = requestHead(request, data, apart);
  const answered = answers.map((answer) => answerHead(answer, data, apart)).join(',');
  return `{"step":${step.step},"token":${quoted(token)},${version},${place},${time},"effect":"${effect}","request":${asked},"answers":[${answered}]}`;
}

function requestHead(request: RecordedRequest, data: Uint8Array[], apart: Apart): string {
  const { id, correlationId, sequenceStart, sequenceEnd, sequenceStep, priority, timeoutUs } = request;
  const correlation = typeof correlationId === 'bigint' ? `{"uint64":"${correlationId}"}` : quoted(correlationId);
  const number = sequenceStep === undefined ? '' : `"sequenceStep":${sequenceStep},`;
  const flags = `"sequenceStart":${sequenceStart},"sequenceEnd":${sequenceEnd},${number}"priority":"${priority}","timeoutUs":"${timeoutUs}"`;
  const tensors = tensorsHead(request.inputs, data, apart);
  const outputs = request.requestedOutputs.map(quoted).join(',');
  return `{"id":${quoted(id)},"correlationId":${correlation},${flags},"parameters":${parametersHead(request.parameters)},"inputs":${tensors},"requestedOutputs":[${outputs}]}`;
}

function answerHead(answer: RecordedAnswer, data: Uint8Array[], apart: Apart): string {
  if (!answer.ok) return JSON.stringify(answer);
  const { parameters, outputs } = answer;
  return `{"ok":true,"parameters":${parametersHead(parameters)},"outputs":${tensorsHead(outputs, data, apart)}}`;
}

function tensorsHead(tensors: readonly RecordedTensor[], data: Uint8Array[], apart: Apart): string {
  let heads = '';
  for (const tensor of tensors) heads += `${heads === '' ? '' : ','}${tensorHead(tensor, data, apart)}`;
  return `[${heads}]`;
}

function tensorHead(tensor: RecordedTensor, data: Uint8Array[], apart: Apart): string {
  const described = `{"name":${quoted(tensor.name)},"datatype":"${tensor.datatype}","shape":[${tensor.shape.join(',')}]`;
  if (tensor.redacted === true) return `${described},"redacted":true}`;
  const digest = apart?.(tensor) ?? tensor.digest;
  if (digest !== undefined) return `${described},"digest":${quoted(digest)}}`;
  const held = tensor.data ?? new Uint8Array();
  data.push(held);
  return `${described},"bytes":${held.byteLength}}`;
}

/** `[name, kind, value]` each. */
function parametersHead(parameters: Parameters): string {
  const heads: (readonly [string, string, string | boolean | number])[] = [];
  for (const [name, value] of Object.entries(parameters)) {
    if (typeof value === 'bigint') heads.push([name, 'int64', String(value)]);
    // JSON has no NaN and no Infinity.
    else if (typeof value === 'number') heads.push([name, 'double', Number.isFinite(value) ? value : String(value)]);
    else heads.push([name, typeof value, value]);
  }
  return heads.length === 0 ? '[]' : JSON.stringify(heads);
}

/** Printable ASCII without quote and backslash stands as it is. */
const PLAIN = /^[ !#-[\]-~]*$/;

function quoted(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}
