import type { ExecuteEntry, Outcome, ResponseMessage, RunningStream } from '@nereid/protocol';
import type { Mailbox } from '@nereid/transport';
import { type AnsweredBatch, answerAddress, outcomeOf, type SentChunks, sendLast } from './batch-answers.ts';
import type { RunningBatch } from './hosted-model.ts';
import type { StreamChunk } from './instance-messages.ts';

/**
 * The answers of a decoupled model's batch as they come, before the batch is over. Each request's
 * chunks are numbered from 0 under the batch's execution; its last one may come here, or with the
 * batch's settlement.
 */
export interface StreamAnswers extends SentChunks {
  /** Sends an answer on. */
  take(chunk: StreamChunk): void;
}

export interface StreamParts {
  readonly mailbox: () => Mailbox;
  readonly batch: Omit<AnsweredBatch, 'leftOut' | 'streams'>;
  /** A chunk was not taken, since its gateway is gone or cannot keep up: the rest is for nobody. */
  readonly undelivered: (entry: ExecuteEntry) => void;
  /** Told of each answer before it is sent; undefined where nothing is recorded. */
  readonly recorded?: ((position: number, response: ResponseMessage) => void) | undefined;
}

export function createStreamAnswers({ mailbox, batch, undelivered, recorded }: StreamParts): StreamAnswers {
  const { message, entries, steps } = batch;
  const sent = new Map<number, number>();
  const over = new Set<number>();
  const lost = new Set<number>();

  const send = (position: number, entry: ExecuteEntry, outcome: Outcome, chunk: number, last: boolean) => {
    const { id } = entry;
    const to = answerAddress(batch, entry);
    const execution = steps?.execution(position) ?? batch.execution;
    const response = { kind: 'response', model: message.model, id, outcome, execution, chunk, last } as const;
    steps?.sent(position, response);
    recorded?.(position, response);
    if (last) {
      sendLast(mailbox(), to, response, entry, batch.kept);
      return;
    }
    const carried = batch.kept?.carry(entry, response, to);
    mailbox().send(to, carried?.message ?? response, () => {
      carried?.undo();
      if (steps?.outlivesSender(entry) === true) return;
      lost.add(position);
      undelivered(entry);
    });
  };

  const next = (position: number) => sent.get(position) ?? steps?.firstChunk(position) ?? 0;

  return {
    take({ position, outcome, last }) {
      const entry = entries[position];
      if (entry === undefined || over.has(position) || lost.has(position)) return;
      // The request goes on in another run.
      if (outcome.ok && outcome.again === true) return;
      const chunk = next(position);
      sent.set(position, chunk + 1);
      if (last) over.add(position);
      send(position, entry, outcomeOf(batch, entry, outcome), chunk, last);
    },
    next,
    ended: (position) => over.has(position),
  };
}

/** Of the requests that a model runs, those that may get several answers. */
export function runningStreams(running: ReadonlyMap<string, RunningBatch>): readonly RunningStream[] {
  const streams: RunningStream[] = [];
  for (const [id, { hosted, execution }] of running) {
    const signature = hosted?.source.signature;
    if (signature?.decoupled === true && signature.sequence?.iterative !== true) streams.push({ id, execution });
  }
  return streams;
}
