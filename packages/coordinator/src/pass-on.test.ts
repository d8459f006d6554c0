import type { Message, ResponseMessage } from '@nereid/protocol';
import type { RefusalReason } from '@nereid/transport';
import { expect, test } from 'vitest';
import { createPassOn } from './pass-on.ts';

const answer = (id: string, last = true): ResponseMessage => ({
  kind: 'response',
  model: 'm',
  id,
  outcome: { ok: true, response: { modelName: 'm', modelVersion: '1', id: '', parameters: {}, outputs: [] } },
  execution: 'wk-1/1',
  chunk: 0,
  last,
});

/** What passing an answer on sends, to whom, and does; each send is refused as `refusals` says. */
function passing(message: ResponseMessage, ...refusals: RefusalReason[]) {
  const sent: [to: string, message: Message][] = [];
  const jobs: string[] = [];
  const undelivered: string[] = [];
  const mailbox = {
    id: 'co-1',
    send(to: string, one: Message, refused?: (reason: RefusalReason) => void) {
      sent.push([to, one]);
      const reason = refusals.shift();
      if (reason !== undefined) refused?.(reason);
    },
    close: async () => {},
  };
  const passOn = createPassOn(mailbox, () => ({ response: ({ id }) => void jobs.push(id) }));
  passOn(message, () => undelivered.push(message.id));
  return { sent, jobs, undelivered };
}

test('an answer goes to whoever sent its request', () => {
  const message = answer('gw-1:7');
  expect(passing(message)).toEqual({ sent: [['gw-1', message]], jobs: [], undelivered: [] });
});

test("that of one of this owner's jobs goes to its jobs, in a turn of its own", async () => {
  const { sent, jobs } = passing(answer('co-1:7'));
  expect(jobs).toEqual([]);
  await Promise.resolve();
  expect([sent, jobs]).toEqual([[], ['co-1:7']]);
});

test('one that its lane has no room for is followed by one that says so', () => {
  const { sent } = passing(answer('gw-1:7'), 'full');
  expect(sent.map(([, { kind }]) => kind)).toEqual(['response', 'response']);
  expect(sent[1]?.[1]).toMatchObject({ outcome: { ok: false, error: { code: 'UNAVAILABLE' } }, last: true });
});

test('one whose gateway is gone is for nobody', () => {
  expect(passing(answer('gw-1:7'), 'gone').sent).toHaveLength(1);
});

test.each(['full', 'gone'] as const)(
  'a part of a stream that is not taken (%s) is told, and the rest need not come',
  (reason) => {
    const { sent, undelivered } = passing(answer('gw-1:7', false), reason);
    expect([sent.length, undelivered]).toEqual([1, ['gw-1:7']]);
  },
);
