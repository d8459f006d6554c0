/** A recording as a test that runs by itself: one file, of Node's own modules alone (docs/replay-files.md). */
import { NereidError } from './error.ts';
import type { Parameters } from './infer.ts';
import type { RecordedRequest, RecordedStep, RecordedTensor, Recording } from './recorded.ts';
import { recordedBytes } from './recorded-tensors.ts';
import { TEST_CASE_CODE, testCaseImports } from './test-case-code.ts';
import { parameterText } from './v2-response.ts';

/** Bytes of tensors in one test case: Node would take long to read a file of more. */
const DATA_BYTES_MAX = 67_108_864;
/** Parameters of ours, which other servers do not know. */
const OWN_PARAMETER = /^nereid_/;

/**
 * The text of a `.test.mjs` file, run by `node --test`, which sends the recorded requests to a server of the v2 protocol
 * and compares its answers. Steps that were lost or cancelled are left out.
 * Throws INVALID_ARG naming the step that cannot be part of one: of other than one answer, or with an input of which no
 * data were kept; and for more than 64 MiB of data.
 */
export async function journalTestCase(
  recording: Recording,
  steps: AsyncIterable<RecordedStep> | Iterable<RecordedStep>,
): Promise<string> {
  const texts: string[] = [];
  let bytes = 0;
  let applied = 0;
  let version = recording.version;
  for await (const step of steps) {
    if (step.effect !== 'applied') {
      texts.push(`    // Step ${step.step} was ${step.effect}, so it is not sent.`);
      continue;
    }
    if (applied++ === 0) version = step.modelVersion;
    bytes += recordedBytes(step);
    if (bytes > DATA_BYTES_MAX) {
      throw refused(
        `it has over ${DATA_BYTES_MAX} bytes of tensors up to step ${step.step}: export it as a file, and replay that`,
      );
    }
    texts.push(stepText(step));
  }
  if (applied === 0) throw refused('it has no step that its model answered');
  const id = freshId(recording);
  return `${introduction(recording, applied)}${testCaseImports(['createHash', ...id.imports])}const MODEL = ${literal(recording.model)};
/** '' for the newest that the server has. */
const VERSION = ${literal(version)};
${id.code}
${TEST_CASE_CODE}
/** The recorded requests, with the outputs or the error that each gave. */
function steps() {
  return [
${texts.join('\n')}
  ];
}
`;
}

function introduction({ kind, startedMs }: Recording, steps: number): string {
  const what = kind === 'sequence' ? `a sequence of ${steps} ${steps === 1 ? 'step' : 'steps'}` : 'a single request';
  const when = new Date(startedMs);
  return `/**
 * What Nereid recorded of ${what}${Number.isNaN(when.getTime()) ? '' : `, ${when.toISOString()}`}.
 * Sends it to a server and compares the answers with those recorded:
 *
 *     NEREID_URL=http://127.0.0.1:8000 node --test THIS-FILE
 */
`;
}

/** The id that its requests go under, and what makes it. */
function freshId({ kind, correlationId }: Recording): { readonly code: string; readonly imports: readonly string[] } {
  if (kind === 'request') return { code: 'const SEQUENCE_ID = undefined;', imports: [] };
  const [name, code] =
    typeof correlationId === 'string'
      ? ['randomUUID', "'replay-' + randomUUID()"]
      : ['randomInt', 'randomInt(1, 2 ** 47)'];
  return { code: `/** A fresh one each time. */\nconst SEQUENCE_ID = ${code};`, imports: [name] };
}

function stepText({ step, request, answers }: RecordedStep): string {
  const [answer] = answers;
  if (answer === undefined || answers.length > 1) {
    throw refused(
      `step ${step} has ${answers.length} answers, and a request over HTTP has one: replay it with 'nereid replay run'`,
    );
  }
  const parameters = parametersText(step, request);
  const members = [
    `step: ${step}`,
    ...(request.id === '' ? [] : [`id: ${literal(request.id)}`]),
    ...(request.sequenceStart ? ['start: true'] : []),
    ...(request.sequenceEnd ? ['end: true'] : []),
    ...(parameters === '' ? [] : [`parameters: ${literal(parameters)}`]),
    `inputs: ${listText(request.inputs.map((tensor) => inputText(step, tensor)))}`,
    ...(request.requestedOutputs.length === 0 ? [] : [`wanted: [${request.requestedOutputs.map(literal).join(', ')}]`]),
    answer.ok ? `outputs: ${listText(answer.outputs.map(outputText))}` : `error: ${literal(answer.error.message)}`,
  ];
  return `    {\n${members.map((member) => `      ${member},\n`).join('')}    },`;
}

function listText(items: readonly string[]): string {
  return items.length === 0 ? '[]' : `[\n${items.map((item) => `        ${item},\n`).join('')}      ]`;
}

/** As JSON, '' for none: a program's own writer of JSON knows no 1.0 and no integers above 2^53. */
function parametersText(step: number, { parameters, priority, timeoutUs }: RecordedRequest): string {
  const all: Parameters = {
    ...(priority === 0n ? {} : { priority }),
    ...(timeoutUs === 0n ? {} : { timeout: timeoutUs }),
    ...parameters,
  };
  const members = Object.entries(all)
    .filter(([name]) => !OWN_PARAMETER.test(name))
    .map(([name, value]) => {
      if (typeof value === 'number' && !Number.isFinite(value)) {
        throw refused(
          `parameter '${name}' of step ${step} is ${value}, which JSON cannot hold: replay it with 'nereid replay run'`,
        );
      }
      return `${JSON.stringify(name)}:${parameterText(value)}`;
    });
  return members.length === 0 ? '' : `{${members.join(',')}}`;
}

function inputText(step: number, tensor: RecordedTensor): string {
  if (tensor.data !== undefined && tensor.redacted !== true) return tensorText(tensor, dataText(tensor.data));
  const why = tensor.redacted === true ? 'is redacted' : 'has no data';
  throw refused(
    `input '${tensor.name}' of step ${step} ${why}: replay it with 'nereid replay run --replace', which takes other data for it`,
  );
}

function outputText(tensor: RecordedTensor): string {
  if (tensor.redacted === true) return tensorText(tensor, 'redacted: true');
  if (tensor.data !== undefined) return tensorText(tensor, dataText(tensor.data));
  return tensorText(tensor, tensor.digest === undefined ? 'redacted: true' : `sha256: ${literal(tensor.digest)}`);
}

function tensorText({ name, datatype, shape }: RecordedTensor, data: string): string {
  return `{ name: ${literal(name)}, datatype: '${datatype}', shape: [${shape.join(', ')}], ${data} }`;
}

function dataText({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return `base64: '${Buffer.from(buffer, byteOffset, byteLength).toString('base64')}'`;
}

/** A text as JavaScript in single quotes, whatever it has. */
function literal(text: string): string {
  return `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
}

function refused(why: string): NereidError {
  return new NereidError('INVALID_ARG', `the recording cannot be written as a test: ${why}`);
}
