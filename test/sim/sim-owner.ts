/** What an owner does with the requests of its models, by the messages that pass its mailbox. */
import { type ExecuteMessage, type Message, type ProcessId, QUEUE_FULL } from '@nereid/protocol';
import type { Transport } from '@nereid/transport';
import { createQueueChecks, type QueueChecks } from './queue-checks.ts';
import { queueRules } from './queue-rules.ts';
import { EXPIRED_TEXT, type SimChecks, watched } from './sim-checks.ts';
import { contentHash, modelSource, simModel } from './sim-models.ts';

const NOT_PASSED_ON = 'the answer could not be passed on';

export interface OwnerWatchOptions {
  readonly id: ProcessId;
  readonly nowUs: () => number;
  /** The number of the epoch under which it owns the model now. */
  readonly epoch: (model: string) => number | undefined;
  /** Counted up where its files change, which then are loaded beside those that serve, with queues of their own. */
  readonly build: (model: string) => number;
  /** As of the queue's checks. */
  readonly healthy: boolean;
  readonly fail: SimChecks['fail'];
}

/** One model under one epoch, as loaded from files of one build. */
interface Watched {
  readonly queue: QueueChecks;
  /** Of an ordered model: what was sent and is not over, in the order of its first sending; undefined for others. */
  readonly unanswered: Set<string> | undefined;
}

/** The owner's transport, looked at; messages are handed over one by one. */
export function watchOwner(transport: Transport, options: OwnerWatchOptions): Transport {
  return watched(transport, createOwnerWatch(options), { oneByOne: true });
}

function createOwnerWatch({ id: owner, nowUs, epoch: ownEpoch, build, healthy, fail }: OwnerWatchOptions) {
  /** By model, epoch and build. */
  const all = new Map<string, Watched>();
  /**
   * Requests whose place is not known: what a worker was said to run for an earlier owner is not queued (R26), and
   * what came under an earlier epoch keeps the place that it had where this process has taken a new one (R7), and
   * what comes while the owner takes the model is queued once it has. Of what comes between a change of the files and the
   * first batch to them nobody can say which of the two loads has it.
   */
  const unsure = new Set<string>();
  /** Requests in batches that are out, under whatever epoch they were sent. */
  const running = new Set<string>();
  /** Requests whose last answer has come to the owner, which is to pass it on in its turn. */
  const held = new Set<string>();
  /** Those of the keys under which a batch has been sent. */
  const begun = new Set<string>();
  /** Of steps that were not sent yet: when nobody waits for them any more. */
  const dueUs = new Map<string, number>();
  const sentOnce = new Set<string>();
  /** Under which of them a request came. */
  const places = new Map<string, Watched>();

  /** By model and number: of which files the load is. */
  const loads = new Map<string, string>();
  const loadOf = (model: string, load = 0) => `${model}/${load}`;

  const keyOf = (model: string, epoch: number, hash = contentHash(model, build(model))) => `${model}/${epoch}/${hash}`;

  const keyOfBatch = ({ model, epoch, load }: ExecuteMessage) =>
    keyOf(model, epoch.number, loads.get(loadOf(model, load)));

  const isReloaded = (model: string) => build(model) > 1;

  const watchedOf = (model: string, epoch: number, key = keyOf(model, epoch)): Watched | undefined => {
    const { versions, idleUs } = simModel(model);
    // Of several versions each has a queue of its own, and which one serves a request is not said. Sequences have another rule.
    if (versions.length > 1 || idleUs !== undefined) return undefined;
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

  /** No answer of it is to wait, nor to be waited for. */
  const over = (id: string) => {
    held.delete(id);
    for (const { unanswered } of all.values()) unanswered?.delete(id);
  };

  const hasPlace = (id: string) => [...all.values()].some(({ unanswered }) => unanswered?.has(id) === true);

  /** What was sent under an epoch that is over is answered as it comes. */
  const checkTurn = (model: string, id: string) => {
    const epoch = ownEpoch(model) ?? 0;
    const its = [...all].find(([key, { unanswered }]) => key.startsWith(`${model}/${epoch}/`) && unanswered?.has(id));
    const [first] = its?.[1].unanswered ?? [id];
    if (first !== id) fail('order', `${owner} answers ${id} before ${first}, which was sent before it`);
  };

  return {
    received(message: Message) {
      const now = nowUs();
      for (const { queue } of all.values()) queue.passed(now);
      if (message.kind === 'infer') {
        if (simModel(message.model).idleUs !== undefined && message.msLeft > 0 && !sentOnce.has(message.id)) {
          dueUs.set(message.id, now + message.msLeft * 1000);
        }
        const watched = watchedOf(message.model, message.epoch.number);
        const { id, request } = message;
        if (!begun.has(keyOf(message.model, message.epoch.number)) && (!healthy || isReloaded(message.model))) {
          unsure.add(id);
        }
        if (watched === undefined || message.epoch.owner !== owner || unsure.has(id)) return;
        // A copy of what waits or runs is dropped (R25), also where the owner has taken a new epoch meanwhile (R7).
        const known = places.get(id);
        if (known?.queue.waits(id) === true || running.has(id) || held.has(id)) return;
        places.set(id, watched);
        watched.queue.arrived(id, { priority: Number(request.priority), timeoutUs: Number(request.timeoutUs) }, now);
      } else if (message.kind === 'cancel' && message.epoch.owner === owner) {
        const queue = watchedOf(message.model, message.epoch.number)?.queue;
        // Under an epoch that is over it changes nothing, and which one that is only the owner knows.
        if (healthy) queue?.cancelled(message.id);
        else {
          unsure.add(message.id);
          queue?.left(message.id);
        }
        over(message.id);
      } else if (message.kind === 'described' && !healthy) {
        for (const id of message.versions.flatMap(({ running }) => running)) {
          unsure.add(id);
          places.get(id)?.queue.left(id);
        }
      } else if (message.kind === 'done') {
        for (const { id, result } of message.entries) {
          running.delete(id);
          if (result !== 'noslot' && !held.has(id)) over(id);
        }
      } else if (message.kind === 'response' && message.last) {
        held.add(message.id);
      }
    },
    sent(message: Message) {
      const now = nowUs();
      if (message.kind === 'execute') {
        const key = keyOfBatch(message);
        begun.add(key);
        const watched = watchedOf(message.model, message.epoch.number, key);
        const ids = message.entries.map(({ id }) => id);
        const late = ids.find((id) => (dueUs.get(id) ?? now) < now);
        if (late !== undefined)
          fail('timeout', `${owner} sends step ${late} of ${message.model} when its time is over`);
        for (const id of ids) {
          dueUs.delete(id);
          sentOnce.add(id);
        }
        for (const id of ids) {
          running.add(id);
          // Where the owner has taken a new epoch, its queue goes on.
          if (places.get(id) !== watched) places.get(id)?.queue.left(id);
          if (!unsure.has(id) && !hasPlace(id)) watched?.unanswered?.add(id);
        }
        watched?.queue.dispatched(ids, now);
      } else if (message.kind === 'control' && message.action === 'load') {
        loads.set(loadOf(message.model, message.load), message.contentHash);
      } else if (message.kind === 'stale') {
        places.get(message.id)?.queue.left(message.id);
        unsure.add(message.id);
      } else if (message.kind === 'response') {
        const text = message.outcome.ok ? '' : message.outcome.error.message;
        // Told in place of an answer whose turn has come already.
        if (!text.startsWith(NOT_PASSED_ON)) checkTurn(message.model, message.id);
        if (message.last) over(message.id);
        const watched = places.get(message.id);
        if (watched !== undefined && text !== '') refusal(watched, message.id, text, now);
      }
    },
  };
}
