/**
 * Entry of an instance's process. When its worker is gone it ends at once, also in the middle of a run:
 * by the line where it comes to read it, else by orphan-guard.ts.
 */
import { Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { errorInfo } from '@nereid/protocol';
import {
  type BatchOrder,
  type InstanceOrder,
  type InstanceReport,
  type InstanceSetup,
  isBuffers,
  type RequestDetail,
} from './instance-messages.ts';
import type { InstancePort } from './instance-port.ts';
import { createPipeReader, pipeFrame } from './pipe-frames.ts';
import { LINE_FD } from './process-line.ts';
import { runInstance } from './run-instance.ts';
import { createSpareFrames } from './spare-frames.ts';

const ORPHANED = 1;

const line = new Socket({ fd: LINE_FD, readable: true, writable: true });
const spareFrames = createSpareFrames();

/** Resolves with the first message; `later` gets all others, one call each. */
function receiveSetup(later: (order: InstanceOrder) => void): Promise<InstanceSetup> {
  return new Promise((resolve) => {
    let isFirst = true;
    const reader = createPipeReader(spareFrames.take, ({ object, buffers: [frame] }) => {
      if (isFirst) resolve(object as InstanceSetup);
      else if (frame === undefined) later(object as InstanceOrder);
      else later(object === undefined ? frame : ([frame, object as RequestDetail[]] satisfies BatchOrder));
      isFirst = false;
    });
    line.on('data', reader.read);
  });
}

function processPort(): InstancePort & { readonly take: (order: InstanceOrder) => void } {
  /** What comes before anybody listens. */
  const early: InstanceOrder[] = [];
  let listener: ((order: InstanceOrder) => void) | undefined;
  return {
    take(order) {
      if (listener === undefined) early.push(order);
      else listener(order);
    },
    post({ report, spare }) {
      const message = framesOf(report);
      line.cork();
      for (const part of pipeFrame(message)) line.write(part);
      line.uncork();
      if (spare !== undefined) spareFrames.give(spare);
    },
    listen(taker) {
      listener = taker;
      for (const order of early.splice(0)) taker(order);
    },
    // What has arrived is read before what setImmediate calls.
    catchUp: () => new Promise((resolve) => setImmediate(resolve)),
    close: () =>
      new Promise((resolve) => {
        line.off('close', orphaned);
        line.end(resolve);
      }),
  };
}

function framesOf(report: InstanceReport) {
  if (report instanceof ArrayBuffer) return { object: undefined, buffers: [report] };
  return isBuffers(report) ? { object: undefined, buffers: report } : { object: report, buffers: [] };
}

function orphaned() {
  process.exit(ORPHANED);
}

const port = processPort();
line.on('error', () => {});
line.on('close', orphaned);
// Its text is best told by the line, which the end of the process does not wait for: what fits the pipe gets through.
process.on('uncaughtExceptionMonitor', (thrown) => {
  port.post({ report: { kind: 'thrown', text: errorInfo(thrown).message }, transfer: [] });
});
new Worker(new URL('./orphan-guard.js', import.meta.url)).unref();
await runInstance(port, await receiveSetup(port.take));
