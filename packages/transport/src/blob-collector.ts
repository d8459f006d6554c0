import {
  type BlobTensor,
  type CarriedTensor,
  isAnswerFor,
  isBlobTensor,
  type Message,
  type ProcessId,
} from '@nereid/protocol';
import type { BlobStore } from './blob-store.ts';
import type { MailboxOptions } from './mailbox.ts';
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
 * for any more (docs/protocol.md R30). A mailbox that carries gets its answers as they are. What a worker keeps in its
 * memory is no blob: only that worker can look for it (R40).
 */
export function createCollector(
  id: ProcessId,
  blobs: Pick<BlobStore, 'read'>,
  receive: Receive,
  { carries = false }: MailboxOptions = {},
): Collector {
  const reads: Reads = { id, carries };
  let tail: Promise<void> | undefined;

  const handOn = async (messages: readonly Message[]) => {
    for (const group of groups(reads, messages)) {
      const whole = await fetched(reads, blobs, group);
      // In a turn of its own: what the receiver throws is not the lane's.
      queueMicrotask(() => receive(whole));
    }
  };

  return (messages) => {
    if (tail === undefined && !messages.some((message) => hasBlobs(reads, message))) {
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

/** What a mailbox is to read. */
interface Reads extends Required<MailboxOptions> {
  readonly id: ProcessId;
}

/** Those of the message's tensors that are blobs and that the process is to read. */
function blobTensors({ id, carries }: Reads, message: Message): readonly BlobTensor[] {
  if (message.kind !== 'execute' && (message.kind !== 'response' || carries)) return NONE;
  let found = NONE;
  forEachTensor(message, (tensor) => {
    if (isBlobTensor(tensor) && tensor.blob.place !== 'worker') found = [...found, tensor];
  });
  return found === NONE || message.kind === 'execute' || isAnswerFor(message.id, id) ? found : NONE;
}

function hasBlobs(reads: Reads, message: Message): boolean {
  return blobTensors(reads, message) !== NONE;
}

/** Parts of the list, each of about FETCH_BYTES_GOAL. */
function groups(reads: Reads, messages: readonly Message[]): readonly (readonly Message[])[] {
  const made: Message[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const message of messages) {
    if (bytes >= FETCH_BYTES_GOAL) {
      made.push([]);
      bytes = 0;
    }
    made.at(-1)?.push(message);
    for (const { blob } of blobTensors(reads, message)) bytes += blob.bytes;
  }
  return made;
}

async function fetched(
  reads: Reads,
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
    blobTensors(reads, message).map((tensor) => fetch(tensor, message.kind === 'response')),
  );
  if (fetches.length === 0) return messages;
  await Promise.all(fetches);
  return messages.map((message) =>
    hasBlobs(reads, message) ? withTensors(message, (tensor) => whole.get(tensor) ?? tensor) : message,
  );
}
