/** The large tensors that a caller has the names of, and others the bytes (docs/protocol.md R40). */
import {
  type BlobRef,
  type BlobTensor,
  type CarriedTensor,
  isBlobTensor,
  type KeptAction,
  keeperOf,
  type ProcessId,
  type PutMessage,
} from '@nereid/protocol';
import type { Timer } from '@nereid/runtime';
import type { LargeTensors } from '@nereid/transport';
import { createPutQuestions, type PutQuestionsParts } from './put-questions.ts';

/** Of one message. */
const IDS_MAX = 4_096;
/** What is held is renewed so often within its lifetime. */
const RENEWALS_PER_LIFETIME = 3;

export interface HeldTensorsParts extends PutQuestionsParts {
  readonly largeTensors: Pick<LargeTensors, 'lifetimeMs' | 'keep' | 'letGo' | 'discard'>;
}

/**
 * A tensor is *held* from the answer that names it until it is released or handed over: its blob, or the worker that
 * keeps it, is told so meanwhile. One that a worker keeps may get a second name, of the blob that it was put down as for
 * other workers; it goes with the first.
 */
export interface HeldTensors {
  hold(tensors: readonly CarriedTensor[]): void;
  /** Nobody needs them any more: they are deleted where they are. */
  release(tensors: readonly CarriedTensor[]): void;
  /** Another reader gets their names and deletes them. Not for what a worker keeps. */
  handOver(tensors: readonly CarriedTensor[]): void;
  /**
   * The same inputs under names that every worker can read, after one of them was not found; undefined in time where one
   * is lost with its keeper. Undefined at once where no worker keeps any: others have to see to them.
   */
  elsewhere(model: string, inputs: readonly CarriedTensor[]): Promise<readonly CarriedTensor[] | undefined> | undefined;
  /** Some of the inputs is a blob that `elsewhere` cannot have put anew. */
  hasOthers(inputs: readonly CarriedTensor[]): boolean;
  /** False where nobody waits for the answer. */
  take(message: PutMessage): boolean;
  /** Tensors that are held. */
  readonly count: number;
  /** Releases all. */
  close(): void;
}

/** What a worker keeps. */
interface KeptElsewhere {
  readonly tensor: BlobTensor;
  /** What it was put down as, the last one last. Earlier ones stay as long: a request may be on its way with such a name. */
  readonly puts: BlobTensor[];
}

export function createHeldTensors(parts: HeldTensorsParts): HeldTensors {
  const { id: replyTo, clock, mailbox, largeTensors } = parts;
  const questions = createPutQuestions(parts);
  /** By id. */
  const kept = new Map<string, KeptElsewhere>();
  /** By the id of a blob that one was put down as: its own id. */
  const keptAs = new Map<string, string>();
  const blobs = new Map<string, BlobTensor>();
  /** By worker, until the end of this turn. */
  let drops = new Map<ProcessId, string[]>();
  let timer: Timer | undefined;

  const tell = (action: KeptAction, byKeeper: ReadonlyMap<ProcessId, readonly string[]>) => {
    for (const [keeper, all] of byKeeper) {
      for (let at = 0; at < all.length; at += IDS_MAX) {
        mailbox.send(keeper, { kind: 'kept', model: '', id: '', action, ids: all.slice(at, at + IDS_MAX), replyTo });
      }
    }
  };

  const sendDrops = () => {
    const byKeeper = drops;
    drops = new Map();
    tell('drop', byKeeper);
  };

  const wait = () => {
    timer ??= clock.at(clock.nowUs() + (largeTensors.lifetimeMs * 1000) / RENEWALS_PER_LIFETIME, () => {
      timer = undefined;
      if (kept.size === 0) return;
      const byKeeper = new Map<ProcessId, string[]>();
      for (const id of kept.keys()) add(byKeeper, id);
      tell('renew', byKeeper);
      wait();
    });
  };

  const release = (tensor: CarriedTensor) => {
    if (!isBlobTensor(tensor)) return;
    const { id } = tensor.blob;
    if (blobs.delete(id)) largeTensors.discard([tensor]);
    const found = kept.get(id);
    if (found === undefined) return;
    kept.delete(id);
    for (const put of found.puts) keptAs.delete(put.blob.id);
    largeTensors.discard(found.puts);
    if (drops.size === 0) queueMicrotask(sendDrops);
    add(drops, id);
    if (kept.size === 0) {
      timer?.cancel();
      timer = undefined;
    }
  };

  /** A kept tensor has got a second name; if it was released meanwhile, nobody wants it. */
  const renamed = (id: string, blob: BlobRef) => {
    const found = kept.get(id);
    if (found === undefined) {
      largeTensors.discard([{ name: '', datatype: 'UINT8', shape: [], blob }]);
      return;
    }
    if (keptAs.has(blob.id)) return;
    const put = { ...found.tensor, blob };
    found.puts.push(put);
    keptAs.set(blob.id, id);
    largeTensors.keep([put]);
  };

  /** What each of those ids is to be read as by others. Undefined where one is lost. */
  const ask = async (
    model: string,
    action: 'put' | 'rewrite',
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, BlobRef> | undefined> => {
    const byKeeper = new Map<ProcessId, string[]>();
    for (const id of ids) add(byKeeper, id);
    const answers = await Promise.all([...byKeeper].map(([keeper, its]) => questions.ask(keeper, model, action, its)));
    const found = new Map<string, BlobRef>();
    for (const answer of answers)
      for (const [id, ref] of answer) {
        renamed(id, ref);
        found.set(id, ref);
      }
    return ids.every((id) => found.has(id)) ? found : undefined;
  };

  const rename = async (
    model: string,
    action: 'put' | 'rewrite',
    inputs: readonly CarriedTensor[],
    idOf: (tensor: CarriedTensor) => string | undefined,
  ): Promise<readonly CarriedTensor[] | undefined> => {
    /** Under their own ids: the names that they have got already, for another request. */
    const known = new Map<string, BlobRef>();
    const wanted = new Set<string>();
    for (const tensor of inputs) {
      const id = idOf(tensor);
      if (id === undefined || !isBlobTensor(tensor)) continue;
      const put = kept.get(id)?.puts.at(-1);
      if (put === undefined || put.blob.id === tensor.blob.id) wanted.add(id);
      else known.set(id, put.blob);
    }
    const found = await ask(model, action, [...wanted]);
    if (found === undefined) return undefined;
    return inputs.map((tensor) => {
      const id = idOf(tensor);
      const blob = id === undefined ? undefined : (found.get(id) ?? known.get(id));
      return blob === undefined || !isBlobTensor(tensor) ? tensor : { ...tensor, blob };
    });
  };

  return {
    hold(tensors) {
      for (const tensor of tensors) {
        if (!isBlobTensor(tensor)) continue;
        if (tensor.blob.place === 'worker') kept.set(tensor.blob.id, { tensor, puts: [] });
        else {
          blobs.set(tensor.blob.id, tensor);
          largeTensors.keep([tensor]);
        }
      }
      if (kept.size > 0) wait();
    },
    release(tensors) {
      for (const tensor of tensors) release(tensor);
    },
    handOver(tensors) {
      for (const tensor of tensors)
        if (isBlobTensor(tensor) && blobs.delete(tensor.blob.id)) largeTensors.letGo([tensor]);
    },
    elsewhere(model, inputs) {
      const keptId = (tensor: CarriedTensor) =>
        isBlobTensor(tensor) && tensor.blob.place === 'worker' ? tensor.blob.id : undefined;
      if (inputs.some((tensor) => keptId(tensor) !== undefined)) return rename(model, 'put', inputs, keptId);
      // They were put down before, and somebody does not find that.
      const putId = (tensor: CarriedTensor) => (isBlobTensor(tensor) ? keptAs.get(tensor.blob.id) : undefined);
      if (inputs.some((tensor) => putId(tensor) !== undefined)) return rename(model, 'rewrite', inputs, putId);
      return undefined;
    },
    hasOthers: (inputs) =>
      inputs.some((tensor) => isBlobTensor(tensor) && tensor.blob.place !== 'worker' && !keptAs.has(tensor.blob.id)),
    take: questions.take,
    get count() {
      return kept.size + blobs.size;
    },
    close() {
      questions.close();
      for (const tensor of [...blobs.values(), ...[...kept.values()].map((each) => each.tensor)]) release(tensor);
      sendDrops();
      timer?.cancel();
      timer = undefined;
    },
  };
}

/** Puts the id of a kept tensor to those of its worker. */
function add(byKeeper: Map<ProcessId, string[]>, id: string): void {
  const keeper = keeperOf(id);
  const ids = byKeeper.get(keeper);
  if (ids === undefined) byKeeper.set(keeper, [id]);
  else ids.push(id);
}
