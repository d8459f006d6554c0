/**
 * What must hold at every step, whatever the seed. The checks look at messages as they pass each
 * process's mailbox, at the batches that reach models, and at what clients get.
 */
import {
  compareEpochs,
  type DoneMessage,
  type Epoch,
  type ExecuteMessage,
  type Message,
  type Outcome,
  type ProcessId,
  QUEUE_FULL,
} from '@nereid/protocol';
import type { Transport } from '@nereid/transport';
import { describeStep, judgeStep, type SimStep, type StepFate } from './sequence-steps.ts';
import { createSequenceWatch, type SequenceWatch } from './sequence-watch.ts';
import { RESOURCES, simModel, valuesOf } from './sim-models.ts';
import type { ModelRun } from './sim-thread.ts';

/** Names of docs/protocol.md; `batch` for limits and shapes, `crash` for what a role throws. */
export type CheckName =
  | 'S1'
  | 'S2'
  | 'S3'
  | 'S4'
  | 'S6'
  | 'L1'
  | 'L3'
  | 'batch'
  | 'crash'
  /** Of a queue: its order, its levels, its times and its limits; that what is over stays over. Of a sequence: the order of its answers. */
  | 'order'
  | 'priority'
  | 'timeout'
  | 'size'
  | 'cancel'
  | 'outcome'
  /** An instance is free and something waits that has waited long enough. */
  | 'idle'
  /** What the rate limiter hands out. */
  | 'resources'
  /** What is recorded, and when. */
  | 'journal';

export interface Violation {
  readonly check: CheckName;
  readonly text: string;
}

export interface SentRequest {
  /** Of its elements; a step that is sent again keeps it. */
  readonly token: number;
  /** Undefined where it is of no sequence. */
  readonly step: SimStep | undefined;
  readonly model: string;
  readonly version: string;
  readonly shape: readonly number[];
  readonly gateway: ProcessId;
  readonly sentUs: number;
  /** A step that its gateway does not take. */
  refused: boolean;
  cancelled: boolean;
  /** The client waits no longer: its gateway died. */
  broken: boolean;
  /** It ran into its deadline. */
  late: boolean;
  outcome: Outcome | undefined;
  answeredUs: number | undefined;
  /** Of a step that was answered. */
  fate: StepFate | undefined;
}

export interface SimChecks {
  readonly violations: readonly Violation[];
  fail(check: CheckName, text: string): void;
  /** The transport of a worker, looked at. */
  watchWorker(id: ProcessId, transport: Transport): Transport;
  /** Returns what to call when it is over. */
  ran(run: ModelRun): () => void;
  /** What ran ended with its thread: each of its requests may run once more, by itself. */
  crashed(run: ModelRun): void;
  /** The one outcome, or the end of a stream. */
  answered(request: SentRequest, outcome: Outcome): void;
  /** What workers still keep of sequences, in words. */
  readonly sequencesLeft: SequenceWatch['left'];
  /** What is wrong with an answer, in words. */
  wrongAnswer(request: SentRequest, outcome: Extract<Outcome, { ok: true }>): string | undefined;
}

export interface ChecksOptions {
  /** True where nothing goes wrong, so that no request may reach its model twice. */
  readonly once: boolean;
  /** True where no sequence may be lost. */
  readonly keeps: boolean;
  readonly nowUs: () => number;
  /** Errors that a request may end with beside those of its model and of its own cancel. */
  readonly allowed: (code: string, text: string) => boolean;
}

/** Of each kind. */
const VIOLATIONS_MAX = 20;
/** Of a queue, to a request that it takes no more, or keeps no longer. */
export const EXPIRED_TEXT = 'Request timeout expired';
const REFUSALS = [QUEUE_FULL.message, EXPIRED_TEXT];
/** After the second one a request is refused (worker/lost-batch). */
const CRASHES_MAX = 2;
/** What takes longer is sent again, and runs again if that comes when it has just ended (R25). */
const RESEND_US = 1_000_000;

export function createSimChecks({ nowUs, once, keeps, allowed }: ChecksOptions): SimChecks {
  const running = new Set<ModelRun>();
  const violations: Violation[] = [];
  const runs = new Map<number, number>();
  const crashes = new Map<number, number>();

  const fail = (check: CheckName, text: string) => {
    if (violations.filter((violation) => violation.check === check).length < VIOLATIONS_MAX)
      violations.push({ check, text: `${(nowUs() / 1e6).toFixed(6)} s: ${text}` });
  };

  const sequences = createSequenceWatch(fail);

  const checkBatch = (worker: ProcessId, execute: ExecuteMessage) => {
    const { model, version, entries } = execute;
    const { batchRowsMax, versions } = simModel(model);
    const shapes = entries.map(({ request }) => request.inputs[0]?.shape ?? []);
    const rows = shapes.reduce((sum, [count = 0]) => sum + count, 0);
    const what = `batch ${execute.batch} of ${model} at ${worker}`;
    if (entries.length > 1 && rows > batchRowsMax) fail('batch', `${what} has ${rows} rows`);
    if (new Set(shapes.map(([, length]) => length)).size > 1) fail('batch', `${what} has several shapes`);
    if (new Set(entries.map(({ id }) => id)).size < entries.length) fail('batch', `${what} has a request twice`);
    if (!versions.includes(version)) fail('batch', `${what} is for version ${version}`);
    for (const { id, request } of entries) {
      const wanted = request.modelVersion;
      if (request.modelName !== model || (wanted !== '' && wanted !== version)) {
        fail('batch', `${what} has ${id} for ${request.modelName}/${wanted}`);
      }
    }
  };

  return {
    violations,
    fail,
    watchWorker(id, transport) {
      const fence = createFenceCheck(id, fail);
      return watched(transport, {
        received(message) {
          if (message.kind === 'execute') {
            checkBatch(id, message);
            sequences.received(id, message);
          }
          fence.received(message);
        },
        sent(message) {
          fence.sent(message);
          sequences.sent(message);
        },
      });
    },
    sequencesLeft: sequences.left,
    wrongAnswer,
    ran(run) {
      const { worker, model, version, rows, tokens } = run;
      const { batchRowsMax, runUsMax, throwShare } = simModel(model);
      // After a batch of several has failed each runs once more, alone.
      const runsMax = throwShare > 0 && rows.length === 1 ? 2 : 1;
      const total = rows.reduce((sum, count) => sum + count, 0);
      const what = `${worker} ran ${total} rows of ${model}/${version} for ${tokens}`;
      if (rows.length > 1 && total > batchRowsMax) fail('batch', what);
      for (const token of tokens) {
        if (token === 'mixed') fail('batch', `${what}: rows of several requests are mixed up`);
        else {
          const before = runs.get(token) ?? 0;
          if (once && runUsMax < RESEND_US && before >= runsMax) fail('S1', `${what}: ${token} has run already`);
          runs.set(token, before + 1);
        }
      }
      running.add(run);
      for (const text of overused(running, run, once)) fail('resources', text);
      return () => void running.delete(run);
    },
    crashed({ worker, model, tokens }) {
      for (const token of tokens) {
        if (token === 'mixed') continue;
        runs.delete(token);
        const times = (crashes.get(token) ?? 0) + 1;
        crashes.set(token, times);
        if (once && times > CRASHES_MAX) fail('S1', `${token} ended threads of ${model} at ${worker} ${times} times`);
      }
    },
    answered(request, outcome) {
      const what = `request ${request.token} to ${request.model}/${request.version} at ${request.gateway}`;
      if (request.outcome !== undefined) fail('S1', `${what} got a second outcome`);
      request.outcome = outcome;
      request.answeredUs = nowUs();
      if (request.step !== undefined) {
        const { fate, wrong } = judgeStep(request.step, request, outcome, {
          healthy: once,
          keeps: once || keeps,
          allowed,
        });
        request.fate = fate;
        if (wrong !== undefined) fail(wrong.check, `${describeStep(request.step)} at ${request.gateway} ${wrong.text}`);
        if (!outcome.ok) return;
      }
      if (outcome.ok) {
        if (simModel(request.model).streams) return;
        const wrong = wrongAnswer(request, outcome);
        if (wrong !== undefined) fail('S2', `${what} ${wrong}`);
        return;
      }
      const { code, message } = outcome.error;
      const { throwShare, crashShare, refuses } = simModel(request.model);
      const own =
        (request.cancelled && code === 'CANCELLED') ||
        (throwShare > 0 && code === 'INTERNAL') ||
        (crashShare > 0 && code === 'POISONED') ||
        (refuses && code === 'UNAVAILABLE' && REFUSALS.some((text) => message.endsWith(text)));
      if (!own && !allowed(code, message)) fail('S2', `${what} got ${code}: ${message}`);
    },
  };
}

/** Epochs as the worker has seen them, and that no batch of a lower one than the highest is ever ended by it. */
function createFenceCheck(worker: ProcessId, fail: SimChecks['fail']) {
  const highest = new Map<string, Epoch>();
  /** Batches of which the worker must give no result. */
  const fenced = new Map<string, string>();
  const key = ({ model, batch }: { readonly model: string; readonly batch: number }, epoch: Epoch) =>
    `${model}/${epoch.number}/${epoch.owner}/${batch}`;

  return {
    received(message: Message) {
      if (!('epoch' in message) || message.kind === 'done') return;
      const { model, epoch } = message;
      const seen = highest.get(model);
      const stale = seen !== undefined && compareEpochs(epoch, seen) < 0;
      if (!stale) highest.set(model, epoch);
      else if (message.kind === 'execute') fenced.set(key(message, epoch), `below ${seen.number}/${seen.owner}`);
    },
    sent(message: Message) {
      if (message.kind === 'refused') fenced.set(key(message, message.sent), 'that it refused');
      if (message.kind !== 'done') return;
      const why = fenced.get(key(message, message.epoch));
      if (why !== undefined) fail('S4', `${worker} ended ${describeBatch(message)} ${why}`);
    },
  };
}

function describeBatch({ model, batch, epoch }: DoneMessage): string {
  return `batch ${batch} of ${model} of epoch ${epoch.number}/${epoch.owner}`;
}

/** What runs needs more than there is, in words; what all share may be over for a while where something went wrong. */
function overused(running: ReadonlySet<ModelRun>, { worker, model }: ModelRun, healthy: boolean): readonly string[] {
  return Object.keys(simModel(model).needs).flatMap((name) => {
    const { count = 0, global = false } = RESOURCES[name] ?? {};
    if (global && !healthy) return [];
    const others = [...running].filter((run) => global || run.worker === worker);
    const used = others.reduce((sum, run) => sum + (simModel(run.model).needs[name] ?? 0), 0);
    const what = others.map((run) => `${run.model} at ${run.worker}`).join(', ');
    return used > count ? [`${used} of ${count} ${name} are in use: ${what}`] : [];
  });
}

function wrongAnswer(request: SentRequest, outcome: Extract<Outcome, { ok: true }>): string | undefined {
  const { modelName, modelVersion, outputs } = outcome.response;
  if (modelName !== request.model) return `got an answer of ${modelName}`;
  if (request.version !== '' && modelVersion !== request.version) return `got an answer of version ${modelVersion}`;
  const echo = outputs.find(({ name }) => name === 'B');
  const versions = valuesOf(outputs.find(({ name }) => name === 'VERSION')?.data ?? new Uint8Array());
  if (echo?.shape.join() !== request.shape.join()) return `got shape ${echo?.shape} for ${request.shape}`;
  const strange = valuesOf(echo.data).find((value) => value !== request.token);
  if (strange !== undefined) return `got rows of request ${strange}`;
  if (versions.some((value) => value !== Number(modelVersion))) return `was run by version ${versions}`;
  return undefined;
}

interface Watcher {
  received(message: Message): void;
  sent(message: Message): void;
}

/** The transport with a look at all that passes its mailboxes; `oneByOne` hands messages over so. */
export function watched(transport: Transport, watcher: Watcher, { oneByOne = false } = {}): Transport {
  return {
    ...transport,
    open(id, receive) {
      const mailbox = transport.open(id, (messages) => {
        for (const part of oneByOne ? messages.map((message) => [message]) : [messages]) {
          for (const message of part) watcher.received(message);
          receive(part);
        }
      });
      return {
        ...mailbox,
        send(to, message, refused) {
          watcher.sent(message);
          mailbox.send(to, message, refused);
        },
      };
    },
  };
}
