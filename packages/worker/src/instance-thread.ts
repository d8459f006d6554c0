/**
 * Entry of an instance's thread: loads its model, runs batches in the order in which they come, and
 * ends by itself when told to stop (a thread that is terminated inside a run takes the process along).
 */
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { type BackendLog, backendNamed } from '@nereid/backends';
import { errorInfo, NereidError } from '@nereid/protocol';
import { createChunkWindow } from './chunk-window.ts';
import { createThreadCancels } from './thread-cancels.ts';
import { packChunk, runBatch, type ThreadModel } from './thread-execution.ts';
import type { BatchOrder, LogReport, ThreadOrder, ThreadReport, ThreadSetup } from './thread-messages.ts';
import type { ChunkLine } from './thread-streams.ts';
import { warmUp } from './warm-up.ts';

/** How long a stopped thread waits for what its model has left open (timers, sockets). */
const LINGER_MS = 100;

const port = await receivePort();
/** Told so during the warm-up. */
let stopped = false;

/** The line to the worker, which is the first and only message that comes by parentPort. */
function receivePort(): Promise<MessagePort> {
  return new Promise((resolve, reject) => {
    if (parentPort === null) reject(new NereidError('INTERNAL', 'instance-thread is started as a worker thread only'));
    else parentPort.once('message', resolve);
  });
}

const post = (report: ThreadReport, transfer: readonly ArrayBuffer[] = []) => port.postMessage(report, [...transfer]);

function threadLog(): BackendLog {
  const write = (level: LogReport['level']) => (text: string) => post({ kind: 'log', level, text: String(text) });
  return { info: write('info'), warn: write('warn'), error: write('error') };
}

async function load(setup: ThreadSetup): Promise<ThreadModel> {
  const backend = await backendNamed(setup.config.backend);
  const instance = await backend.load({ ...setup, log: threadLog() });
  const model = { signature: setup.signature, version: setup.version, instance };
  try {
    await warmUp(model, setup.warmup, setup.modelDirectory, isStopped);
  } catch (failure) {
    await finalize(model);
    throw failure;
  }
  return model;
}

/** Before the model is loaded, all that the worker has to say is that it need not be any more. */
function isStopped(): boolean {
  stopped ||= receiveMessageOnPort(port) !== undefined;
  return stopped;
}

async function finalize(model: ThreadModel): Promise<void> {
  try {
    await model.instance.finalize();
  } catch (failure) {
    post({ kind: 'log', level: 'error', text: `finalize failed: ${errorInfo(failure).message}` });
  }
}

/** Works off what has come, one at a time. Resolves when told to stop. */
function serve(port: MessagePort, model: ThreadModel): Promise<void> {
  const orders: BatchOrder[] = [];
  const cancels = createThreadCancels();
  const window = createChunkWindow();
  const line: ChunkLine = {
    send(sequence, chunk) {
      const { report, transfer } = packChunk(sequence, chunk);
      window.sent(report.bytes);
      post(report, transfer);
    },
    room: window.room,
  };
  let stopping = false;
  let working = false;
  return new Promise((resolve) => {
    const take = (order: ThreadOrder) => {
      if (!('kind' in order)) orders.push(order);
      else if (order.kind === 'cancel') cancels.take(order);
      else if (order.kind === 'taken') window.taken(order.chunks, order.bytes);
      else stopping = true;
    };
    /** The next batch, after all that has come so far: between two runs no event comes in by itself. */
    const next = () => {
      for (let late = receiveMessageOnPort(port); late !== undefined; late = receiveMessageOnPort(port)) {
        take(late.message);
      }
      return orders.shift();
    };
    const work = async () => {
      working = true;
      for (let order = next(); order !== undefined; order = next()) {
        const [frame, details] = order instanceof ArrayBuffer ? [order, []] : order;
        const { report, transfer } = await runBatch(model, frame, details, cancels, line);
        post(report, transfer);
      }
      working = false;
      if (stopping) resolve();
    };
    port.on('message', (order: ThreadOrder) => {
      take(order);
      if (!working) void work();
    });
  });
}

/** Lets the thread end once nothing is open any more, and soon in any case: no run is in progress here. */
function end() {
  port.close();
  setTimeout(() => process.exit(0), LINGER_MS).unref();
}

let model: ThreadModel | undefined;
try {
  model = await load(workerData as ThreadSetup);
} catch (failure) {
  post({ kind: 'load-failed', error: errorInfo(failure) });
}
if (model !== undefined) {
  post({ kind: 'loaded', needsRequests: model.instance.needsRequests });
  if (!stopped) await serve(port, model);
  await finalize(model);
}
end();
