import type { ListedSequence } from '@nereid/protocol';
import type { WaitingSession } from '@nereid/scheduler';
import type { Place, Session } from './session-book.ts';
import { isWaiting } from './step-states.ts';

/** Of a sequence all that is told of it but what its model says. */
export type SequenceRow = Omit<ListedSequence, 'version'>;

/** The live sequences of a model version, as the desk has them, with what its scheduler says of each. */
export function* listSequences(
  sessions: Iterable<Session>,
  scheduled: Iterable<WaitingSession>,
  nowUs: number,
): Generator<SequenceRow> {
  const rows = new Map<string, WaitingSession & { readonly backlog: number }>();
  let backlog = 0;
  for (const row of scheduled) {
    rows.set(row.session, { ...row, backlog: row.place === undefined ? backlog++ : -1 });
  }
  for (const { id, correlationId, place: sent, applied, steps, openedUs } of sessions) {
    const row = rows.get(id);
    // Nothing of it may have been sent yet.
    const place = sent ?? placeOf(row);
    const held = [...steps.values()].filter(({ state }) => isWaiting(state)).length;
    yield {
      session: id,
      correlationId,
      place: place === undefined ? null : { ...place, instanceName: '' },
      backlog: place === undefined ? (row?.backlog ?? -1) : -1,
      steps: applied,
      waiting: held + (row?.waiting ?? 0),
      idleUs: Math.trunc(nowUs - (row?.lastArrivedUs ?? openedUs)),
      ageUs: Math.trunc(nowUs - openedUs),
    };
  }
}

function placeOf(row: WaitingSession | undefined): Place | undefined {
  if (row?.place === undefined) return undefined;
  const { instance, slot } = row.place;
  const slash = instance.lastIndexOf('/');
  return { worker: instance.slice(0, slash), instance: Number(instance.slice(slash + 1)), slot };
}
