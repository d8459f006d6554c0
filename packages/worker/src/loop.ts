/** What a worker does with each message: the only place where messages become effects. */
import type {
  DescribedMessage,
  DoneEntry,
  Epoch,
  ExecuteEntry,
  ExecuteMessage,
  InferRequest,
  Message,
  ProcessId,
} from '@nereid/protocol';
import { compareEpochs, heldKey, ofLoad } from '@nereid/protocol';
import type { LargeTensors, Mailbox } from '@nereid/transport';
import { type AnsweredBatch, answerAddress, isWhole, sendAnswers, sendBack, type WholeEntry } from './batch-answers.ts';
import { entryEnd } from './entry-end.ts';
import { createHostedModel, type HostedModel, type HostedModelOptions, type RunningBatch } from './hosted-model.ts';
import type { HostingLimits } from './hosted-version.ts';
import { type BatchSettlement, failBatch, type InstanceBatch } from './instance-batch.ts';
import { createKeptOutputs } from './kept-outputs.ts';
import { createKeptTensors } from './kept-tensors.ts';
import { sharedNowNs } from './shared-now.ts';
import { createStepBatch } from './step-batch.ts';
import { createStreamAnswers, runningStreams } from './stream-answers.ts';

export interface WorkerLoopOptions extends HostedModelOptions {
  /** Whether this worker takes a model at all. */
  readonly holds: (model: string) => boolean;
  readonly limits: HostingLimits & { readonly kept_bytes_max: number };
  /** Undefined where messages are passed by reference: nothing has to be kept then. */
  readonly largeTensors: LargeTensors | undefined;
}

export interface WorkerLoop {
  receive(messages: readonly Message[]): void;
  /** Tells each model's present owner, unasked, what this worker holds of it. */
  offer(): void;
  /**
   * No more work is taken, of which owners are told; what is running ends. Resolves when all batches
   * are answered and all threads and processes have ended.
   */
  stop(): Promise<void>;
  /** The worker goes on under another id, as one that has no sequences (docs/protocol.md R10). */
  dropSequences(): void;
  /** Of a stop: no step can come any more, so it waits for no sequence. */
  endSequences(): void;
  /** Of a stop: no other worker is there for which something would have to be kept. */
  dropKept(): void;
  /** The stop is past its deadline: ends carriers in the middle of their runs where that can be done. */
  abandon(): void;
  readonly unsettled: number;
  readonly running: number;
  readonly liveCarriers: number;
  /** Messages of owners that had been replaced. */
  readonly refused: number;
  /** Of what is kept for others. */
  readonly keptBytes: number;
  holdings(): WorkerHoldings;
}

/** What models a worker has, for who would put another in its place. */
export interface WorkerHoldings {
  /** Versions that are ready, as `model/version`. */
  readonly ready: readonly string[];
  /** Others are on their way. */
  readonly isLoading: boolean;
  /** Versions that it has begun to load so far. */
  readonly loads: number;
}

const NONE: readonly DoneEntry[] = [];

/** `mailbox` is asked for late, at each send: it is opened with this loop's `receive`, and may be replaced. */
export function createWorkerLoop(options: WorkerLoopOptions, mailbox: () => Mailbox): WorkerLoop {
  const { clock, limits, largeTensors, recorder } = options;
  const models = new Map<string, HostedModel>();
  const keptTensors = createKeptTensors({
    clock,
    lifetimeMs: largeTensors?.lifetimeMs ?? 0,
    bytes_max: limits.kept_bytes_max,
  });
  const kept =
    largeTensors === undefined
      ? undefined
      : createKeptOutputs({ kept: keptTensors, largeTensors, mailbox, stopping: () => stopping });
  /** Batches that are answered once the journal has them. */
  const concluding = new Set<Promise<void>>();
  let executions = 0;
  let stopping = false;
  let refused = 0;

  const modelNamed = (name: string) => {
    const known = models.get(name);
    if (known !== undefined) return known;
    const created: HostedModel = createHostedModel(name, options, () => {
      // Unasked, to the present owner: something about this model changed.
      if (created.fence !== null) describe(created, created.fence.owner, 0);
    });
    models.set(name, created);
    return created;
  };

  const describe = (model: HostedModel, to: ProcessId, askedAt: number) => {
    const described: DescribedMessage = {
      kind: 'described',
      model: model.name,
      worker: mailbox().id,
      askedAt,
      versions: model.describe(),
      streams: [...runningStreams(model.running), ...model.sequences.streams(mailbox().id)],
      draining: model.draining || stopping,
    };
    mailbox().send(to, described);
  };

  /** False for a message of an owner that has been replaced; it learns of it. */
  const passesFence = (model: HostedModel, sent: Epoch, batch: number) => {
    const highest = model.fence;
    if (highest !== null && compareEpochs(sent, highest) < 0) {
      refused++;
      mailbox().send(sent.owner, { kind: 'refused', model: model.name, batch, sent, highest });
      return false;
    }
    model.fence = sent;
    return true;
  };

  const offer = () => {
    for (const model of models.values()) if (model.fence !== null) describe(model, model.fence.owner, 0);
  };

  /** The batch is held until the journal has it. */
  const concludeAfter = (
    written: Promise<void>,
    model: HostedModel,
    { batch, version, instance, load }: ExecuteMessage,
    conclude: () => void,
  ) => {
    model.settling.set(batch, { version, instance, ...ofLoad(load) });
    const concluded = written.then(() => {
      model.settling.delete(batch);
      concluding.delete(concluded);
      conclude();
    });
    concluding.add(concluded);
  };

  const execute = (model: HostedModel, sent: ExecuteMessage, receivedNs: number) => {
    const message = kept?.fill(sent) ?? sent;
    const sequences = model.sequences.of(heldKey(message.version, message.load));
    const hosted = model.version(message.version, message.load);
    const isGone = hosted?.isGone(message.instance) === true;
    // A worker that knows nothing of a version has none of its sequences.
    if (sequences === undefined && (stopping || isGone || message.entries[0]?.step !== undefined)) {
      sendBack(mailbox(), message);
      // Its owner takes this worker for one that drains.
      if (isGone && !stopping) describe(model, model.fence?.owner ?? message.epoch.owner, 0);
      return;
    }
    if (hosted === undefined && model.isEvicted) {
      sendBack(mailbox(), message);
      return;
    }
    const signature = hosted?.source.signature ?? null;
    const execution = `${mailbox().id}/${++executions}`;
    const owner = () => model.fence?.owner ?? message.epoch.owner;
    const steps =
      sequences === undefined
        ? undefined
        : createStepBatch({
            ...sequences,
            message,
            mailbox,
            execution,
            nowUs: options.clock.nowUs,
            admits: !stopping && !isGone,
            runs: (id) => model.running.has(id),
            address: (entry) => answerAddress({ message, owner }, entry),
            kept,
          });
    const { entries, leftOut } = steps ?? sortEntries(model.running, message.entries);
    const source = { message, entries, signature, execution, owner, steps, kept };
    const record =
      hosted !== undefined && recorder?.mayRecord(hosted.source, entries) === true
        ? recorder.begin({
            message,
            entries,
            receivedNs,
            sequences: steps !== undefined,
            worker: mailbox().id,
            source: hosted.source,
          })
        : undefined;
    const streams =
      signature?.decoupled === true
        ? createStreamAnswers({
            mailbox,
            batch: source,
            undelivered: ({ id }) => cancel(model, id),
            recorded: record?.sent,
          })
        : undefined;
    const answered: AnsweredBatch = { ...source, leftOut, streams };
    const finish = (settlement: BatchSettlement | null, cancelled?: ReadonlySet<number>) => {
      for (const { id } of entries) model.running.delete(id);
      sendAnswers(mailbox(), answered, settlement, cancelled);
      if (steps !== undefined) model.sequences.review();
      model.reviewUse();
      if (steps === undefined) return;
      // Its owner took this worker for one that has the session, or the slot for a free one.
      if (leftOut.some(({ result }) => result === 'noslot')) describe(model, owner(), 0);
    };
    if (entries.length === 0) {
      finish(null);
      return;
    }
    const batch: InstanceBatch = {
      batch: message.batch,
      requests: entries.map(({ request }) => shownRequest(request)),
      ids: entries.map(({ id }) => id),
      ...(steps === undefined ? {} : { slots: steps.slots }),
      receivedNs,
      cancelled: undefined,
      ...(streams === undefined ? {} : { chunk: streams.take }),
      settle(settlement) {
        // What is cancelled from now on has run.
        const cancelled = batch.cancelled === undefined ? undefined : new Set(batch.cancelled);
        const written = record?.write(settlement.timing, (position) =>
          entryEnd(answered, settlement, cancelled, position),
        );
        if (written === undefined) finish(settlement, cancelled);
        else concludeAfter(written, model, message, () => finish(settlement, cancelled));
      },
    };
    const running: RunningBatch = { batch, entries, instance: message.instance, hosted, execution };
    for (const { id } of entries) model.running.set(id, running);
    model.reviewUse();
    if (hosted !== undefined) {
      hosted.execute(message.instance, batch);
      return;
    }
    const why = `model '${model.name}' version ${message.version} is not ready: it is not loaded on this worker`;
    failBatch(batch, false, { code: 'UNAVAILABLE', message: why }, 'unseen');
  };

  /** Marks a running request; one that is over, or that never came here, is none of this worker's. */
  const cancel = (model: HostedModel, id: string) => {
    const running = model.running.get(id);
    if (running === undefined) return;
    const { batch, entries, instance, hosted } = running;
    const position = entries.findIndex((entry) => entry.id === id);
    batch.cancelled ??= new Set();
    batch.cancelled.add(position);
    hosted?.cancel(instance, batch, position);
  };

  const handle = (message: Message, receivedNs: number) => {
    switch (message.kind) {
      case 'execute': {
        const model = modelNamed(message.model);
        if (passesFence(model, message.epoch, message.batch)) execute(model, message, receivedNs);
        return;
      }
      case 'cancel': {
        const model = modelNamed(message.model);
        if (passesFence(model, message.epoch, 0)) cancel(model, message.id);
        return;
      }
      case 'describe': {
        const model = modelNamed(message.model);
        if (passesFence(model, message.epoch, 0)) describe(model, message.epoch.owner, message.askedAt);
        return;
      }
      case 'free': {
        const model = modelNamed(message.model);
        if (passesFence(model, message.epoch, 0)) model.sequences.free(message.session);
        return;
      }
      case 'control': {
        const model = modelNamed(message.model);
        if (!passesFence(model, message.epoch, 0)) return;
        model.draining = message.action === 'drain';
        if (message.action === 'load' && !stopping) {
          if (options.holds(message.model)) model.hold(message);
          else model.decline(message);
        } else if (message.action === 'unload') model.release();
        else describe(model, message.epoch.owner, 0);
        return;
      }
      case 'kept':
        kept?.take(message);
        return;
      default:
        options.log.warn({ kind: message.kind }, 'a worker does not handle this kind of message');
    }
  };

  const sum = (count: (model: HostedModel) => number) =>
    [...models.values()].reduce((total, model) => total + count(model), 0);

  return {
    receive(messages) {
      const receivedNs = sharedNowNs();
      for (const message of messages) handle(message, receivedNs);
    },
    offer,
    async stop() {
      stopping = true;
      offer();
      await Promise.all([...models.values()].map((model) => model.stop()));
      await Promise.all(concluding);
      await recorder?.marked();
      // Steps that follow elsewhere want what it has; their callers drop it, or renew it no more.
      await keptTensors.whenEmpty();
    },
    dropSequences() {
      for (const model of models.values()) model.sequences.drop();
    },
    endSequences() {
      for (const model of models.values()) model.sequences.giveUp();
    },
    dropKept: keptTensors.clear,
    abandon() {
      for (const model of models.values()) model.abandon();
      keptTensors.clear();
    },
    get unsettled() {
      return sum((model) => model.unsettled);
    },
    get running() {
      return sum((model) => model.running.size);
    },
    get keptBytes() {
      return keptTensors.bytes;
    },
    get refused() {
      return refused;
    },
    get liveCarriers() {
      return sum((model) => model.liveCarriers);
    },
    holdings() {
      const held = [...models.values()].flatMap((model) =>
        model.describe().map(({ version, state }) => ({ name: `${model.name}/${version}`, state })),
      );
      return {
        ready: [...new Set(held.flatMap(({ name, state }) => (state === 'READY' ? [name] : [])))],
        isLoading: held.some(({ state }) => state === 'LOADING'),
        loads: sum((model) => model.loads),
      };
    },
  };
}

/** As its model sees it: a replayed sequence shows the id that was recorded. */
function shownRequest(request: InferRequest): InferRequest {
  return request.shownId === undefined ? request : { ...request, correlationId: request.shownId };
}

/**
 * A request that runs already is not run twice at the same time; one that is over may run again (docs/protocol.md R25).
 * One without its data does not run, and its owner tells its sender (R29).
 */
function sortEntries(
  running: HostedModel['running'],
  all: readonly ExecuteEntry[],
): { readonly entries: readonly WholeEntry[]; readonly leftOut: readonly DoneEntry[] } {
  if (all.every(isWhole) && !all.some(({ id }) => running.has(id))) return { entries: all, leftOut: NONE };
  const fresh = all.filter(({ id }) => !running.has(id));
  const duplicates = all.filter(({ id }) => running.has(id));
  const missing = fresh.filter((entry) => !isWhole(entry));
  return {
    entries: fresh.filter(isWhole),
    leftOut: [
      ...duplicates.map(({ id }): DoneEntry => ({ id, result: 'duplicate', error: null })),
      ...missing.map(({ id }): DoneEntry => ({ id, result: 'blob', error: null })),
    ],
  };
}
