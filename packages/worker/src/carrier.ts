/**
 * A thread or process that carries an instance, from its start to its end, and the batches it holds:
 * those posted and not yet back. Told to stop, it finishes what it holds and ends by itself. It is
 * ended from outside only when its load, an execution, or a stop takes longer than it may.
 */
import { type ErrorInfo, errorInfo, type InferRequest } from '@nereid/protocol';
import type { Clock, Log, Timer } from '@nereid/runtime';
import { packBatch } from './batch-frame.ts';
import { createCarrierCalls, type ModelCaller } from './carrier-calls.ts';
import { createTakenChunks } from './chunk-window.ts';
import type { BatchSettlement, InstanceBatch } from './instance-batch.ts';
import type { OpenLine } from './instance-line.ts';
import {
  type CancelOrder,
  type ChunkReport,
  type InstanceReport,
  type InstanceSetup,
  isBuffers,
  type RequestDetail,
  type RunOutcome,
  STOP,
  type TakenOrder,
} from './instance-messages.ts';
import { splitTensor } from './join-split.ts';
import { openResult } from './result-frame.ts';
import { createSpareFrames } from './spare-frames.ts';

export interface CarrierOptions {
  readonly setup: InstanceSetup;
  readonly open: OpenLine;
  readonly clock: Clock;
  readonly log: Log;
  /** An execution that takes longer ends its carrier; undefined for no limit. */
  readonly executionTimeoutMs: number | undefined;
  /** By whom its model calls others; asked only then. */
  readonly caller: () => ModelCaller;
  /** The model is loaded. Called at most once, before anything else. */
  readonly loaded: () => void;
  /** A batch came back; the batch is settled after this. */
  readonly returned: () => void;
  /** It is gone, with these batches in their order; `running` is the one that it may have died of. Called exactly once, last. */
  readonly ended: (why: ErrorInfo, lost: readonly InstanceBatch[], running: InstanceBatch | undefined) => void;
}

export interface Carrier {
  readonly held: ReadonlyMap<number, InstanceBatch>;
  /** Throws INTERNAL where the batch's inputs cannot be joined. */
  post(batch: InstanceBatch): void;
  /** The request at that position of a held batch is not to run, if it does not run yet. */
  cancel(batch: InstanceBatch, position: number): void;
  stop(): void;
  /** Ends it in the middle of whatever it does, unless that may be native code in a thread. */
  terminate(): void;
  /** It is not wanted any more, and has no batches. */
  giveUp(): void;
}

const MS_IN_US = 1000;
/** `reason` of the error of a request whose execution was ended for its time. */
export const EXECUTION_TIMEOUT = 'execution_timeout';

/** Starts the thread or process. */
export function startCarrier(options: CarrierOptions): Carrier {
  const { setup, log, clock, executionTimeoutMs } = options;
  const { signature } = setup;
  const held = new Map<number, InstanceBatch>();
  const spareFrames = createSpareFrames();
  let needsDetails = signature.sequence !== undefined;
  let sequence = 0;
  let loadError: ErrorInfo | undefined;
  let thrown: string | undefined;
  let timer: Timer | undefined;
  let late: InstanceBatch | undefined;

  /** Of the last frame, those that are used. */
  let frameBytes = 0;
  const takeFrame = (bytes: number) => {
    frameBytes = bytes;
    return spareFrames.take(bytes);
  };

  /** Batches run one after the other: the first one held runs, or is about to. */
  const watch = () => {
    if (executionTimeoutMs === undefined) return;
    timer?.cancel();
    const [running] = held.values();
    if (running === undefined || late !== undefined) return;
    timer = clock.at(clock.nowUs() + executionTimeoutMs * MS_IN_US, () => {
      late = running;
      line.terminate();
    });
  };

  const settle = (number: number, makeSettlement: (batch: InstanceBatch) => BatchSettlement) => {
    const batch = held.get(number);
    if (batch === undefined) return;
    held.delete(number);
    watch();
    calls.over(batch);
    options.returned();
    batch.settle(makeSettlement(batch));
  };

  const settleFrame = (frame: ArrayBuffer, others: readonly ArrayBuffer[]) => {
    const { sequence: number, timing, outputs, returned } = openResult(signature, frame, others);
    if (returned !== undefined) spareFrames.give(returned);
    settle(number, ({ requests }) => ({ executed: true, timing, outcomes: splitOutputs(requests, outputs) }));
  };

  const sendCancel = (number: number, position: number) => {
    const order: CancelOrder = { kind: 'cancel', sequence: number, position };
    line.post(order, 0);
  };

  const taken = createTakenChunks((chunks, bytes) => {
    const order: TakenOrder = { kind: 'taken', chunks, bytes };
    line.post(order, 0);
  });

  const calls = createCarrierCalls({ caller: options.caller, held, post: (order) => line.post(order, 0) });

  const takeChunk = (report: ChunkReport) => {
    const batch = held.get(report.sequence);
    if (batch !== undefined) {
      batch.begun ??= new Set();
      batch.begun.add(report.position);
      batch.chunk?.(report);
    }
    taken.add(report.bytes);
  };

  const take = (report: InstanceReport) => {
    if (report instanceof ArrayBuffer) settleFrame(report, []);
    else if (isBuffers(report)) settleFrame(report[0] ?? new ArrayBuffer(0), report.slice(1));
    else if (report.kind === 'outcomes') {
      const { executed, timing, outcomes, responses } = report;
      settle(report.sequence, () => ({ executed, timing, outcomes, responses }));
    } else if (report.kind === 'chunk') takeChunk(report);
    else if (report.kind === 'log')
      log[report.level]({ model: signature.name, instance: setup.instanceName }, report.text);
    else if (report.kind === 'call' || report.kind === 'call-read' || report.kind === 'call-left') calls.take(report);
    else if (report.kind === 'load-failed') loadError = report.error;
    else if (report.kind === 'thrown') thrown = report.text;
    else {
      needsDetails ||= report.needsRequests;
      options.loaded();
    }
  };

  const why = (words: string): ErrorInfo => {
    if (loadError !== undefined) return loadError;
    const what = `instance '${setup.instanceName}' of model '${signature.name}' ended: `;
    if (late === undefined) return { code: 'INTERNAL', message: what + (thrown ?? words) };
    // INTERNAL and not UNAVAILABLE, by which clients and jobs would come again without an end.
    const message = `${what}an execution took longer than ${executionTimeoutMs} ms (nereid.execution_timeout_ms)`;
    return { code: 'INTERNAL', message, reason: EXECUTION_TIMEOUT };
  };

  const line = options.open(setup, {
    take,
    spare: spareFrames.give,
    ended(words) {
      timer?.cancel();
      const lost = [...held.values()];
      held.clear();
      calls.end();
      // A late one may have come back just before the end, which is then nobody's doing.
      const running = late === undefined ? lost[0] : lost.find((batch) => batch === late);
      options.ended(why(words), lost, running);
    },
  });

  return {
    held,
    post(batch) {
      const number = ++sequence;
      const frame = packBatch(signature, batch.requests, number, batch.receivedNs, takeFrame);
      // Throws where a parameter is nothing that can be sent: the batch is held only after it.
      line.post(
        needsDetails
          ? [frame, batch.requests.map((request, index) => requestDetail(request, batch.slots?.[index]))]
          : frame,
        frameBytes,
      );
      held.set(number, batch);
      if (held.size === 1) watch();
      for (const position of batch.cancelled ?? []) sendCancel(number, position);
    },
    cancel(batch, position) {
      for (const [number, candidate] of held) if (candidate === batch) sendCancel(number, position);
      calls.cancelled(batch);
    },
    stop: () => line.post(STOP, 0),
    terminate: line.terminate,
    giveUp: line.giveUp,
  };
}

function splitOutputs(
  requests: readonly InferRequest[],
  outputs: ReturnType<typeof openResult>['outputs'],
): RunOutcome[] {
  if (requests.length === 1 && outputs.every((output) => output.shapes === undefined)) {
    return [{ ok: true, parameters: {}, outputs }];
  }
  const rows = requests.map((request) => request.inputs[0]?.shape[0] ?? 1);
  try {
    const split = outputs.map((output) => splitTensor(output, rows));
    return requests.map((_, i) => ({ ok: true, parameters: {}, outputs: split.flatMap((parts) => parts[i] ?? []) }));
  } catch (wrong) {
    const error = errorInfo(wrong);
    return requests.map(() => ({ ok: false, error }));
  }
}

function requestDetail(request: InferRequest, slot = -1): RequestDetail {
  return [
    request.id,
    request.correlationId,
    request.sequenceStart,
    request.sequenceEnd,
    request.priority,
    request.timeoutUs,
    request.parameters,
    request.requestedOutputs,
    slot,
  ];
}
