/** Where kept tensors meet messages: they leave as names, and come back as inputs (docs/protocol.md R40). */
import {
  type BlobRef,
  type BlobTensor,
  type CarriedTensor,
  type ExecuteEntry,
  type ExecuteMessage,
  isBlobTensor,
  type KeptMessage,
  type ProcessId,
  type PutMessage,
  type ResponseMessage,
  senderOf,
  type Tensor,
} from '@nereid/protocol';
import { INLINE_BYTES_MAX, type LargeTensors, type Mailbox } from '@nereid/transport';
import type { KeptTensors } from './kept-tensors.ts';

/** An answer as it is sent. */
export interface SentAnswer {
  readonly message: ResponseMessage;
  /** It was not taken: nobody has the names. */
  undo(): void;
}

export interface KeptOutputs {
  /** An answer with all its data, to be sent to `to`: what its request says is kept, where it is large, and goes as its name. */
  carry(entry: ExecuteEntry, answer: ResponseMessage, to: ProcessId): SentAnswer;
  /** The batch with the inputs that are kept here; others, and what is gone, stay names, as blobs that are gone do. */
  fill(message: ExecuteMessage): ExecuteMessage;
  /** A caller renews, drops or wants elsewhere what it has the names of. */
  take(message: KeptMessage): void;
}

/** A tensor that was put down, and the question that asked for it first. */
interface PutDown {
  readonly question: string;
  readonly blob: Promise<BlobRef | undefined>;
}

export interface KeptOutputsParts {
  readonly kept: KeptTensors;
  readonly largeTensors: Pick<LargeTensors, 'put'>;
  readonly mailbox: () => Mailbox;
  /** This worker stops: what it gives goes elsewhere from now on. */
  readonly stopping: () => boolean;
}

export function createKeptOutputs({ kept, largeTensors, mailbox, stopping }: KeptOutputsParts): KeptOutputs {
  const puts = new WeakMap<Tensor, PutDown>();

  const filled = (tensor: CarriedTensor): CarriedTensor => {
    const found = isKept(tensor) ? kept.find(tensor.blob) : undefined;
    if (found === undefined || !isBlobTensor(tensor) || tensor.blob.bytes !== found.data.byteLength) return tensor;
    const { name, datatype, shape } = tensor;
    return { name, datatype, shape, data: found.data };
  };

  const putDown = (tensor: Tensor, asked: KeptMessage, answer: PutMessage): Promise<BlobRef | undefined> => {
    const known = puts.get(tensor);
    // Several steps want it; a question came twice.
    if (known !== undefined && (asked.action === 'put' || known.question === asked.id)) return known.blob;
    const blob = largeTensors.put(tensor, asked.replyTo, answer, asked.action === 'rewrite');
    puts.set(tensor, { question: asked.id, blob });
    void blob.then((made) => made === undefined && puts.delete(tensor));
    return blob;
  };

  const put = async (asked: KeptMessage) => {
    const { model, id, ids, replyTo } = asked;
    const answer: PutMessage = { kind: 'put', model, id, tensors: [] };
    const tensors = await Promise.all(
      ids.map(async (each) => {
        const tensor = kept.find({ id: each });
        const blob = tensor === undefined ? undefined : await putDown(tensor, asked, answer);
        return { id: each, blob: blob ?? null };
      }),
    );
    mailbox().send(replyTo, { ...answer, tensors });
  };

  return {
    carry(entry, answer, to) {
      const { outcome } = answer;
      const names = entry.request.inner?.keep ?? [];
      // An owner that holds answers back can renew blobs only.
      const passesBy = to !== senderOf(entry.id);
      if (!outcome.ok || names.length === 0 || passesBy || stopping()) return { message: answer, undo() {} };
      const made: string[] = [];
      const worker = mailbox().id;
      const outputs = outcome.response.outputs.map((tensor) => {
        if (isBlobTensor(tensor) || tensor.data.byteLength < INLINE_BYTES_MAX || !names.includes(tensor.name)) {
          return tensor;
        }
        const blob = kept.keep(worker, tensor);
        if (blob === undefined) return tensor;
        made.push(blob.id);
        const { name, datatype, shape } = tensor;
        return { name, datatype, shape, blob };
      });
      const message = { ...answer, outcome: { ...outcome, response: { ...outcome.response, outputs } } };
      return { message, undo: () => kept.drop(made) };
    },
    fill(message) {
      if (!message.entries.some(({ request }) => request.inputs.some(isKept))) return message;
      const entries = message.entries.map((entry) => ({
        ...entry,
        request: { ...entry.request, inputs: entry.request.inputs.map(filled) },
      }));
      return { ...message, entries };
    },
    take(message) {
      if (message.action === 'renew') kept.renew(message.ids);
      else if (message.action === 'drop') kept.drop(message.ids);
      else void put(message);
    },
  };
}

/** A worker keeps it, this one or another. */
function isKept(tensor: CarriedTensor): tensor is BlobTensor {
  return isBlobTensor(tensor) && tensor.blob.place === 'worker';
}
