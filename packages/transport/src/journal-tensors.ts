import { type RecordedStep, recordedTensors, withRecordedTensors } from '@nereid/protocol';

/** Tensors of one question: each has 16 KiB and more. */
const TENSORS_PER_READ = 16;

/** The steps with the data of their tensors that are kept apart; `read` answers in order, null for one that is not kept. */
export async function fillTensors(
  steps: readonly RecordedStep[],
  read: (digests: readonly string[]) => Promise<readonly (Uint8Array | null)[]>,
): Promise<readonly RecordedStep[]> {
  const wanted = [...new Set(steps.flatMap((step) => recordedTensors(step).flatMap(({ digest }) => digest ?? [])))];
  if (wanted.length === 0) return steps;
  const found = new Map<string, Uint8Array>();
  for (let from = 0; from < wanted.length; from += TENSORS_PER_READ) {
    const asked = wanted.slice(from, from + TENSORS_PER_READ);
    for (const [index, data] of (await read(asked)).entries()) {
      if (data !== null) {
        found.set(asked[index] ?? '', new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      }
    }
  }
  return steps.map((step) =>
    withRecordedTensors(step, (tensor) => {
      const data = tensor.digest === undefined ? undefined : found.get(tensor.digest);
      return data === undefined ? tensor : { ...tensor, data };
    }),
  );
}
