/**
 * Calls of other models by the model of an instance, at the worker: it calls for it and passes the answers on. Its
 * thread's or process's side is instance-calls.ts.
 *
 * A call is *open* from its report until its last answer is sent, or its carrier is gone, which cancels it. It is
 * cancelled when its model leaves it, and when nobody waits for any of the requests that it is made for while they run:
 * once their batch is over it goes on, since its model may still want it.
 */
import type { BatchPlace } from '@nereid/backends';
import { type Caller, createLeaving, type Leaving } from '@nereid/caller';
import { CANCELLED, type InferRequest, type Outcome } from '@nereid/protocol';
import { type ChunkWindow, createChunkWindow } from './chunk-window.ts';
import { compactTensors } from './compact-tensors.ts';
import type { InstanceBatch } from './instance-batch.ts';
import type { AnswerOrder, CallReport, CallsReport } from './instance-messages.ts';

/** In place of an ensemble's step. */
const NO_STEP = -1;

/** By whom a worker calls models. */
export type ModelCaller = Pick<Caller, 'models' | 'infer' | 'inferStream'>;

export interface CarrierCallsOptions {
  /** Asked at each call: it is opened at the first. */
  readonly caller: () => ModelCaller;
  /** The batches of the carrier by number, in the order in which they run. */
  readonly held: ReadonlyMap<number, InstanceBatch>;
  readonly post: (order: AnswerOrder) => void;
}

export interface CarrierCalls {
  take(report: CallsReport): void;
  /** Some request of that batch has been marked as cancelled. */
  cancelled(batch: InstanceBatch): void;
  /** The batch is settled. */
  over(batch: InstanceBatch): void;
  /** The carrier is gone. */
  end(): void;
}

/** A request that a call is made for, while it runs. */
interface Origin {
  readonly batch: InstanceBatch;
  readonly position: number;
}

interface CarrierCall {
  readonly leaving: Leaving;
  readonly window: ChunkWindow;
  origins: readonly Origin[];
}

export function createCarrierCalls({ caller, held, post }: CarrierCallsOptions): CarrierCalls {
  const open = new Map<number, CarrierCall>();

  const answer = (number: number, call: CarrierCall, outcome: Outcome, last: boolean, decoupled: boolean) => {
    // Its carrier may be gone.
    if (open.get(number) !== call) return;
    if (last) open.delete(number);
    const { compact, buffer } = compactTensors(outcome.ok ? outcome.response.outputs : []);
    const copied = outcome.ok ? { ...outcome, response: { ...outcome.response, outputs: compact } } : outcome;
    call.window.sent(buffer.byteLength);
    post({ kind: 'answer', call: number, outcome: copied, last, decoupled, bytes: buffer.byteLength });
  };

  /** Reads on only once the model has read: what is unread at the caller is bounded, and ends the stream there. */
  const relay = async (number: number, call: CarrierCall, request: InferRequest) => {
    const { leaving, window } = call;
    const left = new Promise<void>((resolve) => leaving.addEventListener('abort', resolve));
    for await (const { outcome, last } of caller().inferStream(request, { signal: leaving })) {
      for (let room = window.room(); room !== undefined && !leaving.aborted; room = window.room()) {
        await Promise.race([room, left]);
      }
      answer(number, call, outcome, last, true);
    }
  };

  const begin = ({ call: number, request, places }: CallReport) => {
    const call: CarrierCall = {
      leaving: createLeaving(),
      window: createChunkWindow(),
      origins: originsOf(held, places),
    };
    open.set(number, call);
    if (isAbandoned(call)) {
      answer(number, call, { ok: false, error: CANCELLED }, true, false);
      return;
    }
    const whole = innerCall(request, call.origins);
    const found = caller().models.find(request.modelName, request.modelVersion);
    if (found.ok && found.signature.decoupled) {
      void relay(number, call, whole);
      return;
    }
    void caller()
      .infer(whole, { signal: call.leaving })
      .then((outcome) => answer(number, call, outcome, true, false));
  };

  return {
    take(report) {
      if (report.kind === 'call') begin(report);
      else if (report.kind === 'call-read') open.get(report.call)?.window.taken(report.chunks, report.bytes);
      else open.get(report.call)?.leaving.leave('the model left the call');
    },
    cancelled(batch) {
      for (const call of open.values()) {
        if (call.origins.some((origin) => origin.batch === batch) && isAbandoned(call)) {
          call.leaving.leave('nobody waits for the requests that it is made for');
        }
      }
    },
    over(batch) {
      for (const call of open.values()) {
        if (call.origins.length > 0) call.origins = call.origins.filter((origin) => origin.batch !== batch);
      }
    },
    end() {
      const left = [...open.values()];
      open.clear();
      for (const { leaving } of left) leaving.leave('the instance that made the call ended');
    },
  };
}

/** It belongs to the trace of the first request that has one, and names the first of all. */
function innerCall(request: InferRequest, origins: readonly Origin[]): InferRequest {
  const trace = origins.map(({ batch, position }) => batch.requests[position]?.trace).find(Boolean);
  const [first] = origins;
  const id = first?.batch.ids?.[first.position] ?? '';
  const parent = id === '' ? {} : { parent: { id, step: NO_STEP } };
  // One that somebody waits for makes the call theirs.
  const background = origins.length > 0 && origins.every(({ batch, position }) => isBackground(batch, position));
  return {
    ...request,
    ...(trace === undefined ? {} : { trace }),
    ...(background ? { background } : {}),
    inner: { keep: [], ...parent },
  };
}

function isBackground({ requests }: InstanceBatch, position: number): boolean {
  return requests[position]?.background === true;
}

/** Those that run. Batches run one after the other: the first one held runs, or is about to. */
function originsOf(
  held: ReadonlyMap<number, InstanceBatch>,
  places: readonly BatchPlace[] | undefined,
): readonly Origin[] {
  if (places === undefined) {
    const [running] = held.values();
    return running === undefined ? [] : running.requests.map((_, position) => ({ batch: running, position }));
  }
  return places.flatMap(({ sequence, position }) => {
    const batch = held.get(sequence);
    return batch === undefined ? [] : [{ batch, position }];
  });
}

/** Nobody waits for any of the requests that it is made for. */
function isAbandoned({ origins }: CarrierCall): boolean {
  return origins.length > 0 && origins.every(({ batch, position }) => batch.cancelled?.has(position) === true);
}
