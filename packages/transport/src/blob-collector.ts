import {
  type BlobTensor,
  type CarriedTensor,
  isAnswerFor,
  isBlobTensor,
  type Message,
  type ProcessId,
} from '@nereid/protocol';
import type { BlobStore } from './blob-store.ts';
import { forEachTensor, withTensors } from './message-tensors.ts';

/** About how many bytes are fetched at a time before they are handed on. */
const FETCH_BYTES_GOAL = 67_108_864;

type Receive = (messages: readonly Message[]) => void;

/** Hands messages on once their data are here; a promise where that takes longer than the call. */
export type Collector = (messages: readonly Message[]) => Promise<void> | undefined;

/**
 * Fetches the data of what is on its way to whoever reads it: batches and answers, in order, before
 * the process `id` receives them. A request that goes to its owner passes as it is, since owners read no
 * tensors, and so does an answer that they only pass on. A blob that is gone stays a BlobTensor.
 *
 * An answer's blobs have this one reader, so reading deletes them, also of answers that nobody waits
 * for any more (docs/protocol.md R30).
 */
export function createCollector(id: ProcessId, blobs: Pick<BlobStore, 'read'>, receive: Receive): Collector {
  let tail: Promise<void> | undefined;

  const handOn = async (messages: readonly Message[]) => {
    for (const group of groups(id, messages)) {
      const whole = await fetched(id, blobs, group);
      // In a turn of its own: what the receiver throws is not the lane's.
      queueMicrotask(() => receive(whole));
    }
  };

  return (messages) => {
    if (tail === undefined && !messages.some((message) => hasBlobs(id, message))) {
      receive(messages);
      return undefined;
    }
    // What came later waits, so that the order holds.
    const turn = (tail ?? Promise.resolve()).then(() => handOn(messages));
    tail = turn;
    return turn.finally(() => {
      if (tail === turn) tail = undefined;
    });
  };
}

const NONE: readonly BlobTensor[] = [];

/** Those of the message's tensors that are blobs and that the process is to read. */
function blobTensors(id: ProcessId, message: Message): readonly BlobTensor[] {
  if (message.kind !== 'execute' && message.kind !== 'response') return NONE;
  let found = NONE;
  forEachTensor(message, (tensor) => {
    if (isBlobTensor(tensor)) found = [...found, tensor];
  });
  return found === NONE || message.kind === 'execute' || isAnswerFor(message.id, id) ? found : NONE;
}

function hasBlobs(id: ProcessId, message: Message): boolean {
  return blobTensors(id, message) !== NONE;
}

/** Parts of the list, each of about FETCH_BYTES_GOAL. */
function groups(id: ProcessId, messages: readonly Message[]): readonly (readonly Message[])[] {
  const made: Message[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const message of messages) {
    if (bytes >= FETCH_BYTES_GOAL) {
      made.push([]);
      bytes = 0;
    }
    made.at(-1)?.push(message);
    for (const { blob } of blobTensors(id, message)) bytes += blob.bytes;
  }
  return made;
}

async function fetched(
  id: ProcessId,
  blobs: Pick<BlobStore, 'read'>,
  messages: readonly Message[],
): Promise<readonly Message[]> {
  const whole = new Map<CarriedTensor, CarriedTensor>();
  const fetch = async (tensor: BlobTensor, take: boolean) => {
    const data = await blobs.read(tensor.blob, take);
    const { name, datatype, shape } = tensor;
    if (data !== undefined) whole.set(tensor, { name, datatype, shape, data });
  };
  const fetches = messages.flatMap((message) =>
    blobTensors(id, message).map((tensor) => fetch(tensor, message.kind === 'response')),
  );
  if (fetches.length === 0) return messages;
  await Promise.all(fetches);
  return messages.map((message) =>
    hasBlobs(id, message) ? withTensors(message, (tensor) => whole.get(tensor) ?? tensor) : message,
  );
}
