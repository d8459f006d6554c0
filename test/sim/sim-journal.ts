/**
 * The journal of a simulated worker: it takes its time, and looks that no answer of the worker
 * leaves before it has the step, and that steps come in their order.
 */
import type { ProcessId, ResponseMessage } from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import type { JournalWriter, NewStep, Transport } from '@nereid/transport';
import { altered } from './altered-transport.ts';
import type { SimChecks } from './sim-checks.ts';
import { simModel } from './sim-models.ts';

const SLOW_US_MAX = 240_000;
const QUICK_US_MAX = 3_000;
/** One call in so many is slow, and one has to be waited for at all. */
const SLOW_EVERY = 16;
const WAITS_EVERY = 2;

export interface SimJournal {
  readonly writer: Pick<JournalWriter, 'send' | 'end' | 'isOver'>;
  /** The worker's transport, looked at. */
  watch(transport: Transport): Transport;
}

export function createSimJournal(worker: ProcessId, clock: Clock, fail: SimChecks['fail']): SimJournal {
  /** Messages of the steps that it has. */
  const kept = new Set<string>();
  /** Executions of which an answer has left: its kept answers may leave again, under other messages. */
  const answered = new Set<string>();
  /** The last step of each recording; undefined once it is over. */
  const last = new Map<string, number | undefined>();
  let calls = 0;

  const take = ({ id, step, state }: NewStep) => {
    const before = last.has(id) ? last.get(id) : -1;
    const follows = step.step === 0 || (before !== undefined && step.step === before + 1);
    if (!follows) fail('journal', `${worker} records step ${step.step} of ${id} after ${before ?? 'its end'}`);
    last.set(id, state === 'open' ? step.step : undefined);
  };

  /** Spread without a draw of the seed's random numbers, which would make other plays of known seeds. */
  const waitUs = () => {
    const spread = ((++calls * 7_919) % 1_000) / 1_000;
    if (calls % WAITS_EVERY !== 0) return 0;
    return 1 + spread * (calls % SLOW_EVERY === 0 ? SLOW_US_MAX : QUICK_US_MAX);
  };

  const leaves = (response: ResponseMessage) => {
    const { model, id, outcome, execution } = response;
    // Answers of a stream leave as they come.
    if (!outcome.ok || answered.has(execution) || simModel(model).config.includes('decoupled: true')) return;
    if (kept.has(id)) answered.add(execution);
    else fail('journal', `${worker} answers ${id} (${execution}) before its journal has it`);
  };

  return {
    writer: {
      send(steps) {
        for (const step of steps) take(step);
        const keep = () => {
          for (const { step } of steps) kept.add(step.token);
        };
        const us = waitUs();
        if (us === 0) {
          keep();
          return undefined;
        }
        return new Promise((resolve) => {
          clock.at(clock.nowUs() + us, () => {
            keep();
            resolve();
          });
        });
      },
      async end(ends) {
        for (const { id } of ends) last.set(id, undefined);
      },
      isOver: () => false,
    },
    watch: (transport) =>
      altered(transport, () => ({
        received: (message) => [message],
        sent(message) {
          if (message.kind === 'response') leaves(message);
          return message;
        },
      })),
  };
}
