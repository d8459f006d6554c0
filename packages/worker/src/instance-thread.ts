/** Entry of an instance's thread. */
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { NereidError } from '@nereid/protocol';
import { type InstanceOrder, type InstanceReport, type InstanceSetup, isBuffers } from './instance-messages.ts';
import type { InstancePort } from './instance-port.ts';
import { runInstance } from './run-instance.ts';

/** The line to the worker, which is the first and only message that comes by parentPort. */
function receivePort(): Promise<MessagePort> {
  return new Promise((resolve, reject) => {
    if (parentPort === null) reject(new NereidError('INTERNAL', 'instance-thread is started as a worker thread only'));
    else parentPort.once('message', resolve);
  });
}

function threadPort(port: MessagePort): InstancePort {
  let take: (order: InstanceOrder) => void = () => {};
  return {
    post({ report, transfer, spare }) {
      if (spare === undefined) port.postMessage(report, [...transfer]);
      else port.postMessage([...framesOf(report), spare], [...transfer, spare]);
    },
    listen(taker) {
      take = taker;
      port.on('message', take);
    },
    catchUp() {
      for (let late = receiveMessageOnPort(port); late !== undefined; late = receiveMessageOnPort(port)) {
        take(late.message);
      }
      return undefined;
    },
    async close() {
      port.close();
    },
  };
}

/** The frame of a large batch goes back behind those of its result. */
function framesOf(report: InstanceReport): readonly ArrayBuffer[] {
  if (report instanceof ArrayBuffer) return [report];
  return isBuffers(report) ? report : [];
}

await runInstance(threadPort(await receivePort()), workerData as InstanceSetup);
