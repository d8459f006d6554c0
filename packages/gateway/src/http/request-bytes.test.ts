import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { createBytesInFlight } from '@nereid/caller';
import { describe, expect, it } from 'vitest';
import { readBody } from './read-body.ts';
import { addBytes, createRequestBytes, takeBytes } from './request-bytes.ts';

describe('an account', () => {
  const opened = (bytesMax: number) => {
    const inFlight = createBytesInFlight(bytesMax);
    const [socket, response] = [new EventEmitter() as Socket, new EventEmitter() as ServerResponse];
    return { inFlight, socket, response, account: createRequestBytes(inFlight)(socket, response) };
  };

  it.each([
    ['its answer is written and then its connection ends', ['response', 'socket']],
    ['its connection ends before Node says that its answer is written', ['socket', 'response']],
  ] as const)('is let go once where %s', (_when, order) => {
    const { inFlight, account, ...ends } = opened(100);
    expect(takeBytes(account, 60)).toBe(true);
    addBytes(account, 70);
    expect(inFlight.held).toBe(130);
    for (const end of order) {
      ends[end].emit(end === 'socket' ? 'close' : 'finish');
      expect(inFlight.held).toBe(0);
    }
    addBytes(account, 10);
    expect([takeBytes(account, 1_000), inFlight.held]).toEqual([true, 0]);
  });

  it('of a body that is refused holds nothing any more', () => {
    const { inFlight, account } = opened(100);
    const stream = new PassThrough();
    const held: number[] = [];
    readBody(
      Object.assign(stream, { headers: {} }) as unknown as IncomingMessage,
      1_000,
      () => held.push(inFlight.held),
      account,
    );
    stream.emit('data', Buffer.alloc(60));
    stream.emit('data', Buffer.alloc(60));
    expect([held, inFlight.held]).toEqual([[0], 0]);
  });
});
