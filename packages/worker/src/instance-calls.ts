/** Calls of other models by the model of an instance, at its thread or process; the worker's side is carrier-calls.ts. */
import { type CallAnswer, failedCall, type ModelCalls } from '@nereid/backends';
import { type ErrorInfo, errorInfo } from '@nereid/protocol';
import { createTakenChunks } from './chunk-window.ts';
import { compactTensors } from './compact-tensors.ts';
import type { AnswerOrder, CallsReport } from './instance-messages.ts';
import type { PackedReport } from './run-batch.ts';

export interface InstanceCalls extends ModelCalls {
  /** An answer to one of them. */
  take(order: AnswerOrder): void;
  /** Cancels those that are open, and refuses all to come: the instance ends. */
  close(): void;
}

/** A call, *open* until its last answer has come, which may be one that `close` made. */
interface InstanceCall {
  take(answer: CallAnswer, bytes: number): void;
}

export interface InstanceCallsOptions {
  readonly instance: string;
  readonly calls_max: number;
  readonly post: (packed: PackedReport) => void;
}

export function createInstanceCalls({ instance, calls_max, post }: InstanceCallsOptions): InstanceCalls {
  const open = new Map<number, InstanceCall>();
  let calls = 0;
  let closed = false;
  const tell = (report: CallsReport) => post({ report, transfer: [] });

  const refusal = (): ErrorInfo | undefined => {
    if (closed)
      return { code: 'UNAVAILABLE', message: `instance '${instance}' ends: its model cannot call others now` };
    if (open.size < calls_max) return undefined;
    const message = `instance '${instance}' has ${calls_max} calls of models open, and may have no more; await some first`;
    return { code: 'UNAVAILABLE', message };
  };

  return {
    open({ inputs, ...request }, places) {
      const why = refusal();
      if (why !== undefined) return failedCall(why);
      const call = ++calls;
      const { compact, buffer } = compactTensors(inputs);
      try {
        const report = { kind: 'call', call, request: { ...request, inputs: compact }, places } as const;
        post({ report, transfer: [buffer] });
      } catch (unsendable) {
        return failedCall(errorInfo(unsendable));
      }
      const answers = createAnswers((chunks, bytes) => {
        if (open.has(call)) tell({ kind: 'call-read', call, chunks, bytes });
      });
      open.set(call, answers);
      return {
        next: answers.next,
        cancel() {
          if (open.has(call)) tell({ kind: 'call-left', call });
        },
      };
    },
    take({ call, outcome, last, decoupled, bytes }) {
      const answers = open.get(call);
      if (last) open.delete(call);
      answers?.take({ outcome, last, decoupled }, bytes);
    },
    close() {
      closed = true;
      const error: ErrorInfo = { code: 'CANCELLED', message: `instance '${instance}' ends, and with it its calls` };
      for (const [call, answers] of open) {
        tell({ kind: 'call-left', call });
        answers.take({ outcome: { ok: false, error }, last: true, decoupled: false }, 0);
      }
      open.clear();
    },
  };
}

/** The answers to one call that nobody has read yet, bounded by the window that the worker keeps to. */
function createAnswers(tell: (chunks: number, bytes: number) => void) {
  const unread: { readonly answer: CallAnswer; readonly bytes: number }[] = [];
  const readers: ((answer: CallAnswer) => void)[] = [];
  const read = createTakenChunks(tell);
  return {
    take(answer: CallAnswer, bytes: number) {
      const reader = readers.shift();
      if (reader === undefined) {
        unread.push({ answer, bytes });
        return;
      }
      reader(answer);
      read.add(bytes);
    },
    async next(): Promise<CallAnswer> {
      const next = unread.shift();
      if (next === undefined) return new Promise((resolve) => readers.push(resolve));
      read.add(next.bytes);
      return next.answer;
    },
  };
}
