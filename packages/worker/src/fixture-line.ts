import type { ModelSignature } from '@nereid/config';
import type { InstanceBatch } from './instance-batch.ts';
import type { LineEvents, OpenLine } from './instance-line.ts';
import type { InstanceOrder, InstanceSetup } from './instance-messages.ts';
import { int32, request } from './worker-harness.ts';

const SIGNATURE: ModelSignature = {
  name: 'm',
  maxBatchSize: 8,
  inputs: [{ name: 'X', datatype: 'INT32', dims: [1], reshape: null, optional: false, ragged: false }],
  outputs: [],
  batchInputs: [],
  batchOutputs: [],
  decoupled: false,
};

/** For tests of models that call nobody. */
export function noCaller(): never {
  throw new Error('this model calls nobody');
}

/** For tests: lines that go nowhere; what comes by the one that was opened last is for the test to say. */
export function fixtureLine() {
  const setup = { signature: SIGNATURE, instanceName: 'm_0', config: { name: 'm' } } as InstanceSetup;
  const orders: InstanceOrder[] = [];
  let events: LineEvents | undefined;
  let terminations = 0;
  const open: OpenLine = (_setup, to) => {
    events = to;
    orders.length = 0;
    return { post: (order) => void orders.push(order), terminate: () => void terminations++, giveUp() {} };
  };
  return {
    setup,
    open,
    /** Batches that the last line got. */
    get posted() {
      return orders.filter((order) => !('kind' in order)).length;
    },
    get stops() {
      return orders.filter((order) => 'kind' in order && order.kind === 'stop').length;
    },
    get terminations() {
      return terminations;
    },
    loaded: () => events?.take({ kind: 'loaded', needsRequests: false }),
    /** One that is right, to the batch of that number among those of its carrier. */
    answer(sequence: number) {
      const timing = { waitNs: 0, inputNs: 0, inferNs: 0, outputNs: 0 };
      const outcomes = [{ ok: true, parameters: {}, outputs: [] }] as const;
      events?.take({ kind: 'outcomes', sequence, executed: true, timing, outcomes });
    },
    ended: () => events?.ended('it was killed'),
  };
}

/** A batch of so many requests for it. */
export function fixtureBatch(batch: number, requests: number, settle: InstanceBatch['settle']): InstanceBatch {
  return {
    batch,
    requests: Array.from({ length: requests }, () => request([int32('X', [1, 1], [batch])])),
    receivedNs: 0,
    cancelled: undefined,
    settle,
  };
}
