import { decodeModelConfig, modelSignature } from '@nereid/config';
import type { Message, ResponseMessage } from '@nereid/protocol';
import type { Mailbox, RefusalReason } from '@nereid/transport';
import { describe, expect, it } from 'vitest';
import { type AnsweredBatch, answerAddress, sendAnswers } from './batch-answers.ts';
import { EPOCH, int32, request } from './worker-harness.ts';

const signature = modelSignature(
  decodeModelConfig('{"name":"m","output":[{"name":"Y","data_type":"TYPE_INT32","dims":[1]}]}'),
);
const Y = int32('Y', [1], [5]);
const entry = { id: 'gw-1:1', replyTo: 'gw-1', request: request([]), session: null, slot: -1 };
const batch: AnsweredBatch = {
  message: { kind: 'execute', model: 'm', epoch: EPOCH, version: '1', batch: 7, instance: 0, entries: [entry] },
  entries: [entry],
  leftOut: [],
  steps: undefined,
  signature,
  owner: () => 'co-9',
  execution: 'wk-1/1',
  streams: undefined,
  kept: undefined,
};
const settlement = {
  executed: true,
  timing: { waitNs: 0, inputNs: 0, inferNs: 0, outputNs: 0 },
  outcomes: [{ ok: true, parameters: {}, outputs: [Y] }],
} as const;

/** What is sent to gateways, each of which is refused where `refusals` says so. */
function answers(...refusals: (RefusalReason | undefined)[]): readonly ResponseMessage[] {
  const sent: ResponseMessage[] = [];
  const mailbox: Mailbox = {
    id: 'wk-1',
    send(_to, message: Message, refused) {
      if (message.kind !== 'response') return;
      sent.push(message);
      const reason = refusals.shift();
      if (reason !== undefined) refused?.(reason);
    },
    async close() {},
  };
  sendAnswers(mailbox, batch, settlement, undefined);
  return sent;
}

describe('where an answer goes', () => {
  it.each([
    ['to who sent the request', 'gw-1', 'gw-1'],
    ['by way of the present owner where it was to go by way of the one before', EPOCH.owner, 'co-9'],
  ])('%s', (_rule, replyTo, expected) => {
    expect(answerAddress(batch, { ...entry, replyTo })).toBe(expected);
  });
});

describe('an answer that its lane does not take', () => {
  it('for its size is followed by one that says so: nobody else would tell who waits', () => {
    const [answer, instead] = answers('full');
    expect(answer?.outcome.ok).toBe(true);
    expect(instead).toMatchObject({ id: 'gw-1:1', execution: 'wk-1/1', chunk: 0, last: true });
    expect(instead?.outcome).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE' } });
  });

  it('is not told for ever', () => {
    expect(answers('full', 'full')).toHaveLength(2);
  });

  it('for want of its gateway is for nobody', () => {
    expect(answers('gone')).toHaveLength(1);
  });
});
