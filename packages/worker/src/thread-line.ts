import { MessageChannel, receiveMessageOnPort, type Worker } from 'node:worker_threads';
import { errorInfo } from '@nereid/protocol';
import type { OpenLine } from './instance-line.ts';
import { type InstanceOrder, type InstanceSetup, STOP } from './instance-messages.ts';

/** Starts a thread; the seam at which tests end threads from outside. */
export type SpawnThread = (setup: InstanceSetup) => Worker;

/**
 * The line to a thread: buffers are transferred, not copied. A thread is terminated only where its
 * model is JavaScript: in native code that would abort the process.
 */
export function threadLine(spawn: SpawnThread): OpenLine {
  return (setup, { take, ended }) => {
    const thread = spawn(setup);
    // Not by the thread's parentPort: the model has that too, and libraries that find it write to it.
    const { port1: line, port2: threadsEnd } = new MessageChannel();
    thread.postMessage(threadsEnd, [threadsEnd]);
    let thrown: unknown;

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
      ended(thrown === undefined ? `its thread ended with exit code ${code}` : errorInfo(thrown).message);
    });

    return {
      post: (order) => line.postMessage(order, frameOf(order)),
      terminate() {
        if (setup.config.backend === 'javascript') void thread.terminate();
      },
      // Should its model load after all, it ends at once by itself.
      giveUp: () => line.postMessage(STOP),
    };
  };
}

function frameOf(order: InstanceOrder): ArrayBuffer[] {
  if (order instanceof ArrayBuffer) return [order];
  if (!('kind' in order)) return [order[0]];
  const { buffer } = (order.kind === 'answer' && order.outcome.ok && order.outcome.response.outputs[0]?.data) || {};
  return buffer instanceof ArrayBuffer ? [buffer] : [];
}
