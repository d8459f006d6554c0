/** What the script is told of a step. */
import { encodeStepFrame, type RecordedStep, type RecordedTensor, sha256 } from '@nereid/protocol';
import { INLINE_BYTES_MAX } from './blob-store.ts';
import type { NewStep } from './journal.ts';

export interface EncodedStep {
  /** Header, frame, then digest and data of each tensor that is kept apart. */
  readonly args: readonly (string | Buffer)[];
  readonly bytes: number;
}

export type StepEncoder = (step: NewStep) => EncodedStep;

/** `imported`: they came as a file. */
export function createStepEncoder(imported = false): StepEncoder {
  const whoOf = createWho();
  return (step) => encodeStep(step, whoOf(step.step), imported);
}

function encodeStep({ id, kind, step, state }: NewStep, who: string, imported: boolean): EncodedStep {
  const apart = new Map<string, Buffer>();
  let bytes = 0;
  const digestOf = ({ data, digest }: RecordedTensor): string | undefined => {
    if (data === undefined || (digest === undefined && data.byteLength < INLINE_BYTES_MAX)) return digest;
    const named = digest ?? sha256(data);
    if (!apart.has(named)) {
      apart.set(named, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
      bytes += data.byteLength;
    }
    return named;
  };
  const frame = encodeStepFrame(step, digestOf);
  const first = step.step === 0 ? firstOf(kind, step, imported) : '';
  const header = `${recordingName(id)} ${step.step} ${state} ${step.receivedMs} ${apart.size}\n${who}\n${first}`;
  const args: (string | Buffer)[] = [header, frame];
  for (const [digest, data] of apart) args.push(digest, data);
  return { args, bytes: bytes + frame.byteLength + header.length };
}

/** What its keys end in: the session of its id, encoded as it stands there. */
export function recordingName(id: string): string {
  return id.slice(id.indexOf('~') + 1);
}

/** What holds for a recording as of its last step. It rarely differs from that of the step before. */
function createWho(): (step: RecordedStep) => string {
  let last: readonly string[] = [];
  let text = '';
  return ({ worker, modelVersion, configSha256, contentHash }) => {
    const isSame =
      last[0] === worker && last[1] === modelVersion && last[2] === configSha256 && last[3] === contentHash;
    if (isSame) return text;
    last = [worker, modelVersion, configSha256, contentHash];
    text = JSON.stringify(last);
    return text;
  };
}

/** What its first step says of a recording. */
function firstOf(kind: string, { request }: RecordedStep, imported: boolean): string {
  const { correlationId, id } = request;
  const shown = typeof correlationId === 'bigint' ? { uint64: String(correlationId) } : correlationId;
  return JSON.stringify([kind, shown, id, imported]);
}
