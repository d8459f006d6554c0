/**
 * A thread that carries an instance, from its start to its end, and the batches it holds: those
 * posted and not yet back. Told to stop, it finishes what it holds and ends by itself. It is
 * terminated only when a stop is past its deadline, and never in native code, where that would
 * abort the process.
 */
import { MessageChannel, receiveMessageOnPort, type Worker } from 'node:worker_threads';
import { type ErrorInfo, errorInfo, type InferRequest } from '@nereid/protocol';
import type { Log } from '@nereid/runtime';
import { packBatch } from './batch-frame.ts';
import { createTakenChunks } from './chunk-window.ts';
import type { BatchSettlement, InstanceBatch } from './instance-batch.ts';
import { splitTensor } from './join-split.ts';
import { openResult } from './result-frame.ts';
import { createSpareFrames } from './spare-frames.ts';
import {
  type CancelOrder,
  type ChunkReport,
  isBuffers,
  type RequestDetail,
  type StopOrder,
  type TakenOrder,
  type ThreadOutcome,
  type ThreadReport,
  type ThreadSetup,
} from './thread-messages.ts';

/** Starts a thread; the seam at which tests end threads from outside. */
export type SpawnThread = (setup: ThreadSetup) => Worker;

export interface CarrierOptions {
  readonly setup: ThreadSetup;
  readonly spawn: SpawnThread;
  readonly log: Log;
  /** The model is loaded. Called at most once, before anything else. */
  readonly loaded: () => void;
  /** A batch came back; the batch is settled after this. */
  readonly returned: () => void;
  /** The thread is gone, with these batches. Called exactly once, last. */
  readonly ended: (why: ErrorInfo, lost: readonly InstanceBatch[]) => void;
}

export interface Carrier {
  readonly held: ReadonlyMap<number, InstanceBatch>;
  /** Throws INTERNAL where the batch's inputs cannot be joined. */
  post(batch: InstanceBatch): void;
  /** The request at that position of a held batch is not to run, if it does not run yet. */
  cancel(batch: InstanceBatch, position: number): void;
  stop(): void;
  /** Ends the thread in the middle of whatever it does, unless that may be native code. */
  terminate(): void;
}

const STOP: StopOrder = { kind: 'stop' };

/** Starts the thread. */
export function startCarrier(options: CarrierOptions): Carrier {
  const { setup, log } = options;
  const { signature } = setup;
  const held = new Map<number, InstanceBatch>();
  const spareFrames = createSpareFrames();
  const thread = options.spawn(setup);
  // Not by the thread's parentPort: the model has that too, and libraries that find it write to it.
  const { port1: line, port2: threadsEnd } = new MessageChannel();
  thread.postMessage(threadsEnd, [threadsEnd]);
  let needsRequests = false;
  let sequence = 0;
  let loadError: ErrorInfo | undefined;
  let thrown: unknown;

  const settle = (number: number, makeSettlement: (batch: InstanceBatch) => BatchSettlement) => {
    const batch = held.get(number);
    if (batch === undefined) return;
    held.delete(number);
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
    line.postMessage(order);
  };

  const taken = createTakenChunks((chunks, bytes) => {
    const order: TakenOrder = { kind: 'taken', chunks, bytes };
    line.postMessage(order);
  });

  const takeChunk = (report: ChunkReport) => {
    held.get(report.sequence)?.chunk?.(report);
    taken.add(report.bytes);
  };

  const take = (report: ThreadReport) => {
    if (report instanceof ArrayBuffer) settleFrame(report, []);
    else if (isBuffers(report)) settleFrame(report[0] ?? new ArrayBuffer(0), report.slice(1));
    else if (report.kind === 'outcomes') {
      const { executed, timing, outcomes, responses } = report;
      settle(report.sequence, () => ({ executed, timing, outcomes, responses }));
    } else if (report.kind === 'chunk') takeChunk(report);
    else if (report.kind === 'log') log[report.level]({ instance: setup.instanceName }, report.text);
    else if (report.kind === 'load-failed') loadError = report.error;
    else {
      needsRequests = report.needsRequests;
      options.loaded();
    }
  };

  line.on('message', take);
  thread.on('error', (error) => {
    thrown = error;
  });
  thread.on('exit', (code) => {
    // Its end may be known before its last reports have been read.
    for (let late = receiveMessageOnPort(line); late !== undefined; late = receiveMessageOnPort(line)) {
      take(late.message);
    }
    line.close();
    const words = thrown === undefined ? `its thread ended with exit code ${code}` : errorInfo(thrown).message;
    const message = `instance '${setup.instanceName}' of model '${signature.name}' ended: ${words}`;
    const lost = [...held.values()];
    held.clear();
    options.ended(loadError ?? { code: 'INTERNAL', message }, lost);
  });

  return {
    held,
    post(batch) {
      const number = ++sequence;
      const frame = packBatch(signature, batch.requests, number, batch.receivedNs, spareFrames.take);
      // Throws where a parameter is nothing that can be sent: only then is the batch held.
      line.postMessage(needsRequests ? [frame, batch.requests.map(requestDetail)] : frame, [frame]);
      held.set(number, batch);
      for (const position of batch.cancelled ?? []) sendCancel(number, position);
    },
    cancel(batch, position) {
      for (const [number, candidate] of held) if (candidate === batch) sendCancel(number, position);
    },
    stop: () => line.postMessage(STOP),
    terminate() {
      if (setup.config.backend === 'javascript') void thread.terminate();
    },
  };
}

function splitOutputs(
  requests: readonly InferRequest[],
  outputs: ReturnType<typeof openResult>['outputs'],
): ThreadOutcome[] {
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

function requestDetail(request: InferRequest): RequestDetail {
  return [
    request.id,
    request.correlationId,
    request.sequenceStart,
    request.sequenceEnd,
    request.priority,
    request.timeoutUs,
    request.parameters,
    request.requestedOutputs,
  ];
}
