import { queuedRequest } from './fixture-request.ts';
import type { ScheduleEvent, Scheduler, SequenceStep } from './schedule.ts';

export interface ClosedLoop {
  readonly clients: number;
  readonly instances: number;
  /** How long the model takes. */
  readonly run_us: number;
  /** When client after client asks for the first time. */
  readonly apart_us: number;
  readonly untilUs: number;
  /** Between an answer and the next request of its client; so many batches were sent before it. */
  readonly backUs: (client: number, batches: number) => number;
  /** Each client's requests are the steps of a sequence. */
  readonly sequences?: boolean;
}

export interface LoopBatch {
  readonly requests: number;
  readonly atUs: number;
  /** Since the last of its requests came. */
  readonly heldUs: number;
}

/** Clients with one request in flight each, in virtual time; what was sent. */
export function runClosedLoop(scheduler: Scheduler, loop: ClosedLoop): LoopBatch[] {
  const agenda: { us: number; event: ScheduleEvent }[] = [];
  const sent: LoopBatch[] = [];
  let running = 0;
  let asked = 0;
  const ask = (us: number, client: number) => {
    const step: SequenceStep = { session: `${client}`, start: asked < loop.clients, end: false, replaces: undefined };
    const sequence = loop.sequences === true ? step : undefined;
    const request = queuedRequest({ id: `${client}-${asked++}`, arrivedUs: us, sequence });
    agenda.push({ us, event: { type: 'arrived', request } });
  };
  for (let index = 0; index < loop.instances; index++) {
    agenda.push({ us: 0, event: { type: 'instance-free', instance: `wk/${index}` } });
  }
  for (let client = 0; client < loop.clients; client++) ask(1 + client * loop.apart_us, client);
  for (let nowUs = 0; nowUs < loop.untilUs; ) {
    const next = agenda.reduce((best, each) => (each.us < best.us ? each : best));
    agenda.splice(agenda.indexOf(next), 1);
    nowUs = next.us;
    if (next.event.type === 'answered') running -= next.event.requests;
    scheduler.step({ type: 'running', requests: running, times: { runUs: loop.run_us, wayUs: 0 } }, nowUs);
    for (const decision of scheduler.step(next.event, nowUs)) {
      if (decision.type === 'wake') agenda.push({ us: decision.atUs, event: { type: 'time' } });
      if (decision.type !== 'dispatch') continue;
      const { batch, instance } = decision;
      const endUs = nowUs + loop.run_us;
      const lastUs = Math.max(...batch.map(({ arrivedUs }) => arrivedUs));
      sent.push({ requests: batch.length, atUs: nowUs, heldUs: nowUs - lastUs });
      running += batch.length;
      if (loop.sequences === true) {
        for (const { id } of batch) agenda.push({ us: endUs, event: { type: 'step-over', id, ended: false } });
      }
      agenda.push({ us: endUs, event: { type: 'answered', requests: batch.length, runUs: loop.run_us } });
      agenda.push({ us: endUs, event: { type: 'instance-free', instance } });
      for (const { id } of batch) {
        const client = Number(id.split('-')[0]);
        ask(endUs + loop.backUs(client, sent.length), client);
      }
    }
  }
  return sent;
}

export function meanBatch(sent: readonly LoopBatch[]): number {
  return sent.reduce((sum, { requests }) => sum + requests, 0) / sent.length;
}
