import type { DescribedMessage, Message } from '@nereid/protocol';
import { expect, test } from 'vitest';
import { passOnSigns } from './stream-signs.ts';

function passedOn(streams: DescribedMessage['streams']): (readonly [string, Message])[] {
  const sent: (readonly [string, Message])[] = [];
  const mailbox = {
    id: 'co-1',
    send: (to: string, message: Message) => sent.push([to, message]),
    close: async () => {},
  };
  passOnSigns(mailbox, {
    kind: 'described',
    model: 'm',
    worker: 'wk-1',
    askedAt: 1,
    versions: [],
    streams,
    draining: false,
  });
  return sent;
}

test('each gateway hears of its own streams, in one message', () => {
  const [a, b, c] = ['gw-1:7', 'gw-2:9', 'gw-1:8'].map((id) => ({ id, execution: `wk-1/${id}` }));
  if (a === undefined || b === undefined || c === undefined) throw new Error('three were made');
  expect(passedOn([a, b, c])).toEqual([
    ['gw-1', { kind: 'running', model: 'm', streams: [a, c] }],
    ['gw-2', { kind: 'running', model: 'm', streams: [b] }],
  ]);
});

test('without a stream nobody is told anything', () => {
  expect(passedOn([])).toEqual([]);
});
