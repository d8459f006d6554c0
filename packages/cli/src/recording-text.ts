/** Recordings and their steps in words. */

import type { AnswerJson, RecordingJson, StepJson, TensorJson } from '@nereid/protocol';
import { bf16ToFp32, fp16ToFp32 } from '@nereid/protocol';
import { numberText } from './difference-text.ts';
import { inOneLine } from './printable.ts';

export const STEPS_HEAD = ['Step', 'Flags', 'At', 'Version', 'Where', 'Batch', 'Run', 'Effect', 'Answer'];

const NS_IN_MS = 1e6;
/** Of one output in a table, outputs of one answer there, and of one tensor of a step by itself. */
const SHORT_ELEMENTS = 3;
const SHORT_OUTPUTS = 2;
const STEP_ELEMENTS = 8;
/** Of a text among them. */
const TEXT_LENGTH_MAX = 60;

/** The sequence's id, or that it is a single request. */
export function subjectText({ kind, sequence_id: sequence = '', request_id: request }: RecordingJson): string {
  if (kind === 'sequence') return String(sequence);
  return request === undefined ? 'a request' : `request ${request}`;
}

/** A line for each thing that is known of a recording. */
export function recordingText(recording: RecordingJson): string {
  const { id, model_name: model, model_version: version, kind, steps, bytes, imported } = recording;
  return table([
    ['recording', id],
    ['model', `${model}, version ${version}`],
    [kind === 'sequence' ? 'sequence' : 'of', subjectText(recording)],
    ['state', stateText(recording)],
    ['steps', `${steps}, ${bytes} bytes`],
    ['began', recording.started_at],
    ['last step', recording.last_at],
    ['worker', recording.worker],
    ['config', recording.config_sha256],
    ['files', recording.content_hash],
    ...(imported ? [['from', 'an imported file'] as const] : []),
  ]);
}

/** What became of it, and which step was the last that took effect. */
export function stateText({ state, steps, steps_applied: applied = steps }: RecordingJson): string {
  const last = steps - 1;
  switch (state) {
    case 'open':
      return 'open: more steps may come';
    case 'cancelled':
      return `cancelled: step ${last}, the last, was cancelled, and nobody knows whether it took effect`;
    case 'freed':
      return 'freed: no step ended it; it was idle for too long, was evicted, or began anew';
    case 'lost':
      return `lost: ${lostText(last, applied)}`;
    case 'capped':
      return `capped: more came than is kept; step ${last} is the last that is`;
    case 'gap':
      return `gap: step ${steps} could not be recorded, so none behind it is`;
    default:
      return state;
  }
}

function lostText(last: number, applied: number): string {
  const effect = applied === 0 ? 'no step took effect' : `step ${applied - 1} is the last that took effect`;
  if (applied > last) return `${effect}; after it its state went with its worker`;
  return `${effect}; step ${last} came after it and was lost with what ran it`;
}

/** A step as a row of `STEPS_HEAD`. */
export function stepRow(step: StepJson, startedAt: string): readonly string[] {
  const { worker, instance, slot, batch_size: batch, answers } = step;
  return [
    String(step.step),
    flagsText(step),
    atText(step, startedAt),
    step.model_version,
    `${worker} ${slot === undefined ? `instance ${instance}` : `slot ${slot}`}`,
    String(batch),
    msText(step.timing.infer_ns),
    step.effect,
    answersText(answers),
  ];
}

function flagsText({ sequence_start: start, sequence_end: end }: StepJson): string {
  return [...(start === true ? ['START'] : []), ...(end === true ? ['END'] : [])].join(' ');
}

function atText({ received_at: at }: StepJson, startedAt: string): string {
  return `+${Date.parse(at) - Date.parse(startedAt)} ms`;
}

function msText(ns: number): string {
  return `${(ns / NS_IN_MS).toFixed(2)} ms`;
}

/** The last of several. */
function answersText(answers: readonly AnswerJson[]): string {
  const last = answers.at(-1);
  if (last === undefined) return '';
  const text = last.error === undefined ? outputsText(last.outputs ?? []) : errorText(last.error);
  return answers.length === 1 ? text : `${answers.length} answers, the last: ${text}`;
}

function outputsText(outputs: readonly TensorJson[]): string {
  const told = outputs
    .slice(0, SHORT_OUTPUTS)
    .map((output) => `${output.name} ${kindText(output)} ${valuesText(output, SHORT_ELEMENTS)}`);
  const more = outputs.length - told.length;
  return [...told, ...(more > 0 ? [`${more} more`] : [])].join('; ');
}

function errorText({ code, message }: { readonly code: string; readonly message: string }): string {
  return `${code}: ${message}`;
}

/** A step with its parameters, inputs and outputs; `all`: with all their values. */
export function stepText(step: StepJson, recording: RecordingJson, all: boolean): string {
  const { worker, instance, slot, batch_size: batch, model_version: version, timing, answers, parameters = {} } = step;
  const flags = flagsText(step);
  const where = `${worker}, instance ${instance}${slot === undefined ? '' : `, slot ${slot}`}`;
  const elements = all ? Number.POSITIVE_INFINITY : STEP_ELEMENTS;
  const head = table([
    ['step', `${step.step} of ${recording.id}${flags === '' ? '' : `, ${flags}`}`],
    ...(step.request_id === undefined ? [] : [['request', step.request_id] as const]),
    ...(step.sequence_step === undefined ? [] : [['numbered', String(step.sequence_step)] as const]),
    ['explain', step.token],
    ['came', `${step.received_at}, ${atText(step, recording.started_at)}`],
    [
      'ran',
      `version ${version} at ${where}, in a batch of ${batch}: waited ${msText(timing.wait_ns)}, ran ${msText(timing.infer_ns)}`,
    ],
    ['effect', EFFECTS[step.effect] ?? step.effect],
  ]);
  const several = answers.length > 1;
  return [
    head,
    section(
      'parameters',
      Object.entries(parameters).map(([name, value]) => [name, JSON.stringify(value)]),
    ),
    section('inputs', tensorLines(step.inputs, elements)),
    ...answers.map(({ outputs = [], error, parameters: given = {} }, position) => {
      const title = several ? `answer ${position}` : 'outputs';
      if (error !== undefined) return section(several ? title : 'error', [[error.code, error.message]]);
      const said = Object.entries(given).map(([name, value]) => [name, JSON.stringify(value)] as const);
      return section(title, [...tensorLines(outputs, elements), ...said]);
    }),
  ]
    .filter((text) => text !== '')
    .join('\n');
}

const EFFECTS: Readonly<Record<string, string>> = {
  applied: 'applied',
  cancelled: 'cancelled: nobody waited for it any more, and it may have taken effect',
  lost: 'lost: what ran it ended with it, and it took no effect',
};

function section(title: string, lines: readonly (readonly [string, string])[]): string {
  return lines.length === 0 ? '' : `${title}\n${table(lines, '  ')}`;
}

function tensorLines(tensors: readonly TensorJson[], elements: number): readonly (readonly [string, string])[] {
  return tensors.map((tensor) => [tensor.name, `${kindText(tensor)} ${valuesText(tensor, elements)}`]);
}

function kindText({ datatype, shape }: TensorJson): string {
  return `${datatype}[${shape}]`;
}

/** So many elements at most, and how many there are where there are more. */
function valuesText(tensor: TensorJson, elementsMax: number): string {
  const { redacted, digest } = tensor;
  if (redacted === true) return 'redacted';
  const values = valuesOf(tensor);
  if (values === undefined) return digest === undefined ? 'not kept' : `not kept, SHA-256 ${digest}`;
  const isText = tensor.datatype === 'BYTES';
  const told = values.slice(0, elementsMax).map((value) => {
    return isText ? elementText(value, Number.isFinite(elementsMax)) : numberOrText(value);
  });
  return values.length === told.length ? told.join(', ') : `${told.join(', ')}, … (${values.length} in all)`;
}

/** `b64` has what JSON has no values for. */
function valuesOf({ datatype, data, b64 }: TensorJson): readonly unknown[] | undefined {
  if (b64 === undefined) return data;
  if (datatype !== 'FP16' && datatype !== 'BF16') return [`base64 of all: ${b64}`];
  const bytes = new Uint8Array(Buffer.from(b64, 'base64'));
  const halves = new Uint16Array(bytes.buffer, 0, bytes.byteLength >> 1);
  return Array.from(datatype === 'FP16' ? fp16ToFp32(halves) : bf16ToFp32(halves));
}

/** What JSON has no number for is a text there: NaN, -0.0, large integers. */
function numberOrText(value: unknown): string {
  if (Object.is(value, -0)) return '-0';
  return typeof value === 'number' ? numberText(value) : String(value);
}

function elementText(value: unknown, isShort: boolean): string {
  if (typeof value !== 'string') return String(value);
  const text = isShort && value.length > TEXT_LENGTH_MAX ? `${value.slice(0, TEXT_LENGTH_MAX)}…` : value;
  return JSON.stringify(text);
}

function table(lines: readonly (readonly [string, string])[], indent = ''): string {
  const width = Math.max(...lines.map(([name]) => name.length));
  return lines.map(([name, text]) => `${indent}${name.padEnd(width)}  ${inOneLine(text)}`).join('\n');
}
