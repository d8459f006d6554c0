/** The messages that tell what became of a batch: one `response` per request and one `done`. */
import type { ModelSignature } from '@nereid/config';
import type {
  BatchTiming,
  DoneEntry,
  DoneMessage,
  ExecuteEntry,
  ExecuteMessage,
  InferRequest,
  Outcome,
  ProcessId,
  ResponseMessage,
} from '@nereid/protocol';
import { ANSWER_REFUSED, CANCELLED, isWholeRequest, ofLoad } from '@nereid/protocol';
import type { Mailbox } from '@nereid/transport';
import type { BatchSettlement } from './instance-batch.ts';
import type { RunOutcome } from './instance-messages.ts';
import { selectOutputs } from './join-split.ts';
import type { KeptOutputs } from './kept-outputs.ts';
import type { StepBatch } from './step-batch.ts';

const NO_TIMING: BatchTiming = { waitNs: 0, inputNs: 0, inferNs: 0, outputNs: 0 };

/** An entry with all its data. */
export type WholeEntry = ExecuteEntry<InferRequest>;

export function isWhole(entry: ExecuteEntry): entry is WholeEntry {
  return isWholeRequest(entry.request);
}

export interface AnsweredBatch {
  readonly message: ExecuteMessage;
  /** Those that were given to the instance. */
  readonly entries: readonly WholeEntry[];
  /** What became of those that were not. */
  readonly leftOut: readonly DoneEntry[];
  /** Where the model keeps sequences. */
  readonly steps: StepBatch | undefined;
  readonly signature: ModelSignature | null;
  /** The model's present owner, which may be another than the one that sent the batch. */
  readonly owner: () => ProcessId;
  /** Names this execution among all of this worker. */
  readonly execution: string;
  /** What has been answered before the batch is over; undefined where each request gets one answer. */
  readonly streams: SentChunks | undefined;
  /** Undefined where messages are passed by reference. */
  readonly kept: KeptOutputs | undefined;
}

/** Chunks that are sent, by the position of their request. */
export interface SentChunks {
  /** The number of its next chunk. */
  next(position: number): number;
  /** Its last chunk is sent. */
  ended(position: number): boolean;
}

const CANCELLED_OUTCOME: Outcome = { ok: false, error: CANCELLED };

/**
 * Answers each request at its `replyTo`, unless its stream has ended, then tells the owner. `null` as settlement: nothing was left
 * to run. Those at the positions `cancelled` end as such, whether they ran or not: nobody waits.
 */
export function sendAnswers(
  mailbox: Mailbox,
  batch: AnsweredBatch,
  settlement: BatchSettlement | null,
  cancelled: ReadonlySet<number> | undefined,
): void {
  const { message, entries, leftOut, streams, steps } = batch;
  const results: DoneEntry[] = [];
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i];
    const settled = settlement?.outcomes[i];
    if (entry === undefined) continue;
    const gone = cancelled?.has(i) === true;
    const unanswered = gone ? undefined : steps?.unanswered(i, settlement, streams?.next(i) ?? 0);
    if (unanswered !== undefined) {
      results.push({ id: entry.id, result: unanswered, error: null });
      continue;
    }
    const outcome = gone ? CANCELLED_OUTCOME : outcomeOf(batch, entry, settled);
    if (streams?.ended(i) !== true) {
      const execution = steps?.execution(i) ?? batch.execution;
      const chunk = streams?.next(i) ?? 0;
      const { model } = message;
      const plain = { kind: 'response', model, id: entry.id, outcome, execution, chunk, last: true } as const;
      const timing = wantsTiming(message, entry) ? settlement?.timing : undefined;
      const response: ResponseMessage = timing === undefined ? plain : { ...plain, timing };
      sendLast(mailbox, answerAddress(batch, entry), response, entry, batch.kept);
      steps?.sent(i, response);
    }
    steps?.answered(i, gone);
    if (outcome.ok) results.push({ id: entry.id, result: 'ok', error: null });
    else if (gone) results.push({ id: entry.id, result: 'cancelled', error: null });
    else results.push({ id: entry.id, result: 'error', error: outcome.error });
  }
  results.push(...leftOut);
  const done: DoneMessage = {
    kind: 'done',
    model: message.model,
    epoch: message.epoch,
    version: message.version,
    ...ofLoad(message.load),
    worker: mailbox.id,
    batch: message.batch,
    instance: message.instance,
    timing: settlement?.timing ?? NO_TIMING,
    executed: settlement?.executed ?? false,
    entries: results,
  };
  const responses = settlement?.responses;
  mailbox.send(batch.owner(), responses === undefined ? done : { ...done, responses });
}

/** Of calls that the cluster makes; of jobs, whose owner writes it down with their result, before `done` comes. */
function wantsTiming({ epoch }: ExecuteMessage, { request, replyTo }: ExecuteEntry): boolean {
  return request.inner !== undefined || replyTo === epoch.owner;
}

/**
 * Where answers go: to the `replyTo` of their request; where that is the owner that sent the batch (the
 * model's answers go through it, in their order), to the present one.
 */
export function answerAddress(
  { message, owner }: Pick<AnsweredBatch, 'message' | 'owner'>,
  { replyTo }: ExecuteEntry,
): ProcessId {
  return replyTo === message.epoch.owner ? owner() : replyTo;
}

/**
 * Sends the answer that ends a request. Where it finds no room a short one that says so goes in its place: on the
 * local lane nobody would ask again, on the others the same answer might be made and refused for ever.
 */
export function sendLast(
  mailbox: Mailbox,
  to: ProcessId,
  answer: ResponseMessage,
  entry: ExecuteEntry,
  kept: KeptOutputs | undefined,
): void {
  const sent = kept?.carry(entry, answer, to);
  mailbox.send(to, sent?.message ?? answer, (reason) => {
    sent?.undo();
    if (reason === 'full') mailbox.send(to, { ...answer, outcome: { ok: false, error: ANSWER_REFUSED } });
  });
}

/**
 * Gives a batch back unseen, for the owner to run elsewhere: this worker takes no more (docs/protocol.md
 * R38). Nobody is answered. `noslot` says that nothing was executed.
 */
export function sendBack(mailbox: Mailbox, message: ExecuteMessage): void {
  mailbox.send(message.epoch.owner, {
    kind: 'done',
    model: message.model,
    epoch: message.epoch,
    version: message.version,
    ...ofLoad(message.load),
    worker: mailbox.id,
    batch: message.batch,
    instance: message.instance,
    timing: NO_TIMING,
    executed: false,
    entries: message.entries.map(({ id }) => ({ id, result: 'noslot', error: null })),
  });
}

/** What a thread said of a request, as its gateway gets it: with the outputs that the request asked for. */
export function outcomeOf(
  batch: Pick<AnsweredBatch, 'message' | 'signature'>,
  { request }: ExecuteEntry,
  settled: RunOutcome | undefined,
): Outcome {
  const { message, signature } = batch;
  if (settled === undefined || signature === null) {
    return {
      ok: false,
      error: { code: 'INTERNAL', message: `the batch of model '${message.model}' came back without this request` },
    };
  }
  if (!settled.ok) return settled;
  return {
    ok: true,
    response: {
      modelName: message.model,
      modelVersion: message.version,
      id: request.id,
      parameters: settled.parameters,
      outputs: selectOutputs(signature, request.requestedOutputs, settled.outputs),
    },
  };
}
