/** What an owner does with the requests of its models, by the messages that pass its mailbox. */
import { type Message, type ProcessId, QUEUE_FULL } from '@nereid/protocol';
import type { Transport } from '@nereid/transport';
import { createQueueChecks, type QueueChecks } from './queue-checks.ts';
import { queueRules } from './queue-rules.ts';
import { EXPIRED_TEXT, type SimChecks } from './sim-checks.ts';
import { modelSource, simModel } from './sim-models.ts';

export interface OwnerWatchOptions {
  readonly id: ProcessId;
  readonly nowUs: () => number;
  /** As of the queue's checks. */
  readonly healthy: boolean;
  readonly fail: SimChecks['fail'];
}

/** One model under one epoch. */
interface Watched {
  readonly queue: QueueChecks;
  /** Of an ordered model: what was sent and is not over, in the order of its first sending; undefined for others. */
  readonly unanswered: Set<string> | undefined;
}

/** The owner's transport, looked at; messages are handed over one by one. */
export function watchOwner(transport: Transport, options: OwnerWatchOptions): Transport {
  const watch = createOwnerWatch(options);
  return {
    ...transport,
    open(id, receive) {
      const mailbox = transport.open(id, (messages) => {
        for (const message of messages) {
          watch.received(message);
          receive([message]);
        }
      });
      return {
        ...mailbox,
        send(to, message, refused) {
          watch.sent(message);
          mailbox.send(to, message, refused);
        },
      };
    },
  };
}

function createOwnerWatch({ id: owner, nowUs, healthy, fail }: OwnerWatchOptions) {
  /** By model and epoch. */
  const all = new Map<string, Watched>();
  /**
   * Requests whose place is not known: what a worker was said to run for an earlier owner is not queued (R26), and
   * what came under an earlier epoch keeps the place that it had where this process has taken a new one (R7).
   */
  const unsure = new Set<string>();
  /** Requests in batches that are out, under whatever epoch they were sent. */
  const running = new Set<string>();
  /** Under which of them a request came. */
  const places = new Map<string, Watched>();

  const watchedOf = (model: string, epoch: number): Watched | undefined => {
    // Of several versions each has a queue of its own, and which one serves a request is not said.
    if (simModel(model).versions.length > 1) return undefined;
    const key = `${model}/${epoch}`;
    const known = all.get(key);
    if (known !== undefined) return known;
    const { config } = modelSource(model, 1);
    const { schedulingChoice: choice } = config;
    const isOrdered = choice.case === 'dynamicBatching' && choice.value.preserveOrdering;
    const queue = createQueueChecks({
      rules: queueRules(config),
      healthy,
      fail: (check, text) => fail(check, `${owner}, ${key}: ${text}`),
    });
    const made: Watched = { queue, unanswered: isOrdered ? new Set() : undefined };
    all.set(key, made);
    return made;
  };

  const refusal = ({ queue }: Watched, id: string, text: string, now: number) => {
    if (text.endsWith(QUEUE_FULL.message)) queue.full(id, now);
    else if (text.endsWith(EXPIRED_TEXT)) queue.expired(id, now);
    else queue.left(id);
  };

  const checkTurn = ({ unanswered }: Watched, id: string) => {
    if (unanswered?.has(id) !== true) return;
    const [first] = unanswered;
    if (first !== id) fail('order', `${owner} answers ${id} before ${first}, which was sent before it`);
  };

  return {
    received(message: Message) {
      const now = nowUs();
      for (const { queue } of all.values()) queue.passed(now);
      if (message.kind === 'infer') {
        const watched = watchedOf(message.model, message.epoch.number);
        const { id, request } = message;
        if (watched === undefined || message.epoch.owner !== owner || unsure.has(id)) return;
        // A copy of what waits or runs is dropped (R25), also where the owner has taken a new epoch meanwhile (R7).
        const known = places.get(id);
        if (known?.queue.waits(id) === true || running.has(id)) return;
        places.set(id, watched);
        watched.queue.arrived(id, { priority: Number(request.priority), timeoutUs: Number(request.timeoutUs) }, now);
      } else if (message.kind === 'cancel' && message.epoch.owner === owner) {
        const watched = watchedOf(message.model, message.epoch.number);
        watched?.queue.cancelled(message.id);
        watched?.unanswered?.delete(message.id);
      } else if (message.kind === 'described' && !healthy) {
        for (const id of message.versions.flatMap(({ running }) => running)) {
          unsure.add(id);
          places.get(id)?.queue.left(id);
        }
      } else if (message.kind === 'done') {
        const watched = watchedOf(message.model, message.epoch.number);
        for (const { id, result } of message.entries) {
          running.delete(id);
          if (result !== 'noslot') watched?.unanswered?.delete(id);
        }
      }
    },
    sent(message: Message) {
      const now = nowUs();
      if (message.kind === 'execute') {
        const watched = watchedOf(message.model, message.epoch.number);
        const ids = message.entries.map(({ id }) => id);
        for (const id of ids) {
          running.add(id);
          // Where the owner has taken a new epoch, its queue goes on.
          if (places.get(id) !== watched) places.get(id)?.queue.left(id);
          watched?.unanswered?.add(id);
        }
        watched?.queue.dispatched(ids, now);
      } else if (message.kind === 'stale') {
        places.get(message.id)?.queue.left(message.id);
        unsure.add(message.id);
      } else if (message.kind === 'response') {
        const watched = places.get(message.id);
        if (watched === undefined) return;
        checkTurn(watched, message.id);
        if (message.last) watched.unanswered?.delete(message.id);
        if (!message.outcome.ok) refusal(watched, message.id, message.outcome.error.message, now);
      }
    },
  };
}
