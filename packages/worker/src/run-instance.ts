/**
 * An instance in its thread or process: loads its model and warms it up, runs batches in the order in
 * which they come, and ends by itself when told to stop (a thread that is terminated inside a run takes
 * the process along).
 */
import { type BackendLog, backendNamed } from '@nereid/backends';
import { errorInfo } from '@nereid/protocol';
import { createChunkWindow } from './chunk-window.ts';
import { checkGrowable, loadInitialStates } from './initial-states.ts';
import { createInstanceCalls, type InstanceCalls } from './instance-calls.ts';
import { createInstanceCancels, type InstanceCancels } from './instance-cancels.ts';
import type { BatchOrder, InstanceReport, InstanceSetup, LogReport } from './instance-messages.ts';
import type { InstancePort } from './instance-port.ts';
import { type LoadedModel, packChunk, runBatch } from './run-batch.ts';
import type { ChunkLine } from './send-streams.ts';
import { createSequenceRunner } from './sequence-run.ts';
import { warmUp } from './warm-up.ts';

/** How long a stopped thread or process waits for what its model has left open (timers, sockets). */
const LINGER_MS = 100;

/** What the worker has said so far. */
interface Orders {
  readonly cancels: InstanceCancels;
  readonly line: ChunkLine;
  readonly calls: InstanceCalls;
  /** The next batch, after all that has come so far. Undefined where there is none. */
  next(): BatchOrder | undefined | Promise<BatchOrder | undefined>;
  readonly stopped: boolean;
  /** Called for each order from now on. */
  onOrder: () => void;
}

/** Resolves when told to stop and all is done, or when the model cannot be loaded. Ends the thread or process soon after. */
export async function runInstance(port: InstancePort, setup: InstanceSetup): Promise<void> {
  const tell = (report: InstanceReport) => port.post({ report, transfer: [] });
  const orders = takeOrders(port, setup);
  let model: LoadedModel | undefined;
  try {
    model = await load(setup, tell, orders);
  } catch (failure) {
    tell({ kind: 'load-failed', error: errorInfo(failure) });
  }
  if (model !== undefined) {
    tell({ kind: 'loaded', needsRequests: model.instance.needsRequests });
    await serve(port, model, orders);
    orders.calls.close();
    await finalize(model, tell);
  }
  await port.close();
  // It ends once nothing is open any more, and soon in any case: no run is in progress here.
  setTimeout(() => process.exit(0), LINGER_MS).unref();
}

async function load(
  setup: InstanceSetup,
  tell: (report: InstanceReport) => void,
  orders: Orders,
): Promise<LoadedModel> {
  const backend = await backendNamed(setup.config.backend);
  const write = (level: LogReport['level']) => (text: string) => tell({ kind: 'log', level, text: String(text) });
  const log: BackendLog = { info: write('info'), warn: write('warn'), error: write('error') };
  const { signature, version, modelDirectory } = setup;
  checkGrowable(signature, setup.device);
  const initial = await loadInitialStates(signature, modelDirectory);
  const instance = await backend.load({ ...setup, log, calls: orders.calls });
  const { sequence } = signature;
  const sequences = sequence && createSequenceRunner({ signature, sequence, instance, initial });
  const model = { signature, version, instance, sequences };
  /** Before the model is loaded no batch comes, only that it need not be any more. */
  const isStopped = async () => {
    await orders.next();
    return orders.stopped;
  };
  try {
    await warmUp(model, setup.warmup, modelDirectory, isStopped);
  } catch (failure) {
    orders.calls.close();
    await finalize(model, tell);
    throw failure;
  }
  return model;
}

async function finalize({ instance }: LoadedModel, tell: (report: InstanceReport) => void): Promise<void> {
  try {
    await instance.finalize();
  } catch (failure) {
    tell({ kind: 'log', level: 'error', text: `finalize failed: ${errorInfo(failure).message}` });
  }
}

function takeOrders(port: InstancePort, { instanceName, callsMax }: InstanceSetup): Orders {
  const batches: BatchOrder[] = [];
  const cancels = createInstanceCancels();
  const window = createChunkWindow();
  const calls = createInstanceCalls({ instance: instanceName, calls_max: callsMax, post: port.post });
  let stopped = false;
  const orders: Orders = {
    cancels,
    calls,
    line: {
      send(sequence, chunk) {
        const packed = packChunk(sequence, chunk);
        window.sent(packed.report.bytes);
        port.post(packed);
      },
      room: window.room,
    },
    next() {
      // Between two runs no event comes in by itself.
      const turn = port.catchUp();
      return turn === undefined ? batches.shift() : turn.then(() => batches.shift());
    },
    get stopped() {
      return stopped;
    },
    onOrder: () => {},
  };
  port.listen((order) => {
    if (!('kind' in order)) batches.push(order);
    else if (order.kind === 'cancel') cancels.take(order);
    else if (order.kind === 'answer') calls.take(order);
    else if (order.kind === 'taken') window.taken(order.chunks, order.bytes);
    else stopped = true;
    orders.onOrder();
  });
  return orders;
}

/** Works off what has come, one at a time. Resolves when told to stop. */
function serve(port: InstancePort, model: LoadedModel, orders: Orders): Promise<void> {
  let working = false;
  return new Promise((resolve) => {
    const work = async () => {
      if (working) return;
      working = true;
      for (;;) {
        const next = orders.next();
        const order = next instanceof Promise ? await next : next;
        if (order === undefined) break;
        const [frame, details] = order instanceof ArrayBuffer ? [order, []] : order;
        port.post(await runBatch(model, frame, details, orders.cancels, orders.line));
      }
      working = false;
      if (orders.stopped) resolve();
    };
    orders.onOrder = () => void work();
    // It may have come during the load.
    if (orders.stopped) resolve();
  });
}
